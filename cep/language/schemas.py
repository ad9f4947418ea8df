"""Schemas of a program's events: declared events, derived events, and undeclared input events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from cep.core.errors import CepError, Mistakes, Span
from cep.core.schema import Attribute, Schema, TimeFormat, When
from cep.language.fluents import Fluents
from cep.language.heads import head_mistakes
from cep.language.syntax import ast
from cep.operators.supports import FormulaAtom, formula_atoms
from cep.rules.terms import Variable

RESERVED = ("type", "time", "start", "end", "args")
_TIMES = {"senml": "t", "influx": "time", "prometheus": "time"}
"""The default time column of some record formats. It applies if the declaration of an event names no time column."""

_ZEEK_MISSING = ("-", "(empty)")
"""The texts that Zeek writes for an unset value and for an empty set."""


class Schemas:
    """The schemas of a program's events.

    - `types`: the attribute types of undeclared input events, as far as they are known.
    - `found`: the schema of each event.
    - `errors`: the mistakes in declarations and heads.
    - `flawed`: the `id` of each rule whose head has a mistake.
    """

    def __init__(self, program: ast.SyntaxTree, types: Mapping[str, tuple[str, ...]]) -> None:
        self.program, self.types = program, types
        self.found: dict[str, Schema] = {}
        self.errors = Mistakes()
        self.flawed: set[int] = set()
        self._declare()
        self.fluents = Fluents(program, self.found, self._schema)
        self.flawed |= self.fluents.flawed
        self._name_heads()
        self._name_inputs()

    def _declare(self) -> None:
        for statement in self.program.statements:
            if not isinstance(statement, ast.EventDeclaration):
                continue
            if statement.name in self.found:
                self._error(f"event `{statement.name}` is declared twice", statement.span)
                continue
            self.found[statement.name] = self._schema(statement)

    def _schema(self, statement: ast.EventDeclaration) -> Schema:
        """Return the schema of an event, or of a fluent's records."""
        names: set[str] = set()
        attributes = []
        for attribute in statement.attributes:
            if attribute.name in RESERVED:
                self._error(
                    f"`{attribute.name}` cannot be the name of an attribute: records use it for the event itself",
                    attribute.span,
                    f"choose another name, and name the column it comes from: "
                    f"`{attribute.name}_: {attribute.type} FROM {attribute.name}`",
                )
            elif attribute.name in names:
                self._error(f"attribute `{attribute.name}` is declared twice", attribute.span)
            names.add(attribute.name)
            attributes.append(
                Attribute(
                    attribute.name,
                    attribute.type,
                    attribute.optional,
                    attribute.low,
                    attribute.high,
                    attribute.source,
                    attribute.iri,
                    _format(attribute, statement),
                    _missing(attribute, statement),
                    attribute.quoted,
                )
            )
        time = statement.time
        if time is None and statement.start is None and statement.records is not None:
            time = _TIMES.get(statement.records.name)
        return Schema(
            statement.name,
            tuple(attributes),
            True,
            time is not None,
            time,
            statement.start,
            statement.end,
            statement.iri,
            statement.further,
            statement.format,
            statement.records,
            key=statement.key,
            when=_when(statement),
            distinct=statement.distinct,
        )

    def _name_heads(self) -> None:
        """Name the attributes of derived events.

        The names come from the event's declaration or, if the event is not declared, from a head that has named
        arguments. Otherwise they are the names of variables in the heads.
        """
        heads: dict[str, list[ast.EventRule]] = {}
        for statement in self.program.statements:
            if isinstance(statement, ast.EventRule) and statement.name not in self.fluents.declared:
                heads.setdefault(statement.name, []).append(statement)
        for name, rules in heads.items():
            first = next((rule for rule in rules if rule.names is not None), rules[0])
            arity = len(self.found[name].attributes) if name in self.found else len(first.arguments)
            for rule in rules:
                if len(rule.arguments) != arity and rule.names is None:
                    self.flawed.add(id(rule))
                    self._error(
                        f"`{name}` has {argument_count(arity)} elsewhere, but {len(rule.arguments)} here",
                        rule.head_span,
                        "every use of an event needs the same number of arguments",
                        "arity",
                    )
            if name in self.found or first.names is not None:
                self._check_names(name, rules, first)
                continue
            names: dict[str, None] = {}
            for i in range(arity):
                chosen = next(n for n in (f"arg{k}" for k in count(i + 1)) if n not in names)
                for rule in rules:
                    argument = rule.arguments[i] if i < len(rule.arguments) else None
                    if isinstance(argument, Variable) and argument.name.strip("_"):
                        wanted = argument.name.lower()
                        if wanted not in RESERVED and wanted not in names:
                            chosen = wanted
                        break
                names[chosen] = None
            self.found[name] = Schema(name, tuple(Attribute(n, "unknown", True) for n in names), False, False)

    def _check_names(self, name: str, rules: Sequence[ast.EventRule], named: ast.EventRule) -> None:
        """Check those heads of an event that have named arguments. The names must match the event's declaration. If the
        event is not declared, the names must match those in the head `named`."""
        declared = name in self.found
        if not declared:
            assert named.names is not None, "a head has names"
            for attribute, argument in zip(named.names, named.arguments):
                if attribute in RESERVED:
                    self.flawed.update(id(rule) for rule in rules)
                    hint = f"choose another name: `{attribute}_: ...`"
                    message = f"`{attribute}` cannot be the name of an attribute: records use it for the event itself"
                    self._error(message, argument.span, hint)
            attributes = tuple(Attribute(name, "unknown", True) for name in named.names)
            self.found[name] = Schema(name, attributes, False, False)
        known = [attribute.name for attribute in self.found[name].attributes]
        for rule in rules:
            if rule.names is None or id(rule) in self.flawed:
                continue
            for message, span, hint in head_mistakes(rule, known, declared):
                self.flawed.add(id(rule))
                self._error(message, span, hint)

    def _name_inputs(self) -> None:
        """Create schemas of undeclared input events. The first use of an event by position determines the number of its
        arguments."""
        derived = {s.name for s in self.program.statements if isinstance(s, ast.EventRule)}
        for statement in self.program.statements:
            body = statement.body if isinstance(statement, ast.EventRule | ast.FluentRule) else None
            written: Sequence[ast.EventPattern | FormulaAtom] = [] if body is None else body.event_patterns()
            if isinstance(statement, ast.WhileRule):
                written = formula_atoms(statement.formula)
            for atom in written:
                if atom.name in self.found or atom.name in derived:
                    continue
                if atom.names is not None:
                    self._error(
                        f"`{atom.name}` is not declared, so its attributes have no names",
                        atom.span,
                        f"declare it, `event {atom.name}({', '.join(n + ': float' for n in atom.names)}).`, "
                        "or give its arguments in order",
                    )
                    continue
                types = self.types.get(atom.name, ("any",) * len(atom.arguments))
                if len(types) != len(atom.arguments):
                    types = ("any",) * len(atom.arguments)
                self.found[atom.name] = Schema(
                    atom.name,
                    tuple(Attribute(f"arg{i + 1}", t, True) for i, t in enumerate(types)),
                    False,
                    False,
                )

    def _error(self, message: str, span: Span, hint: str | None = None, code: str = "name") -> None:
        self.errors.append(CepError(message, self.program.source, span, hint, code))


def _format(attribute: ast.AttributeTree, event: ast.EventDeclaration) -> TimeFormat | None:
    if attribute.type != "time" or event.format is None or event.format.zone is None:
        return attribute.format
    own = attribute.format or TimeFormat()
    if own.zone is not None or own.unit is not None:
        return own
    fold = event.format.fold
    return TimeFormat(own.pattern, None, event.format.zone, "earlier" if fold == "order" else fold)


def _when(event: ast.EventDeclaration) -> When | None:
    """Return the tests of WHEN. The values that the declaration lists as missing for all columns count as missing in
    each test."""
    if event.when is None:
        return None
    return tuple(tuple(replace(test, missing=_all_missing(event)) for test in tests) for tests in event.when)


def _missing(attribute: ast.AttributeTree, event: ast.EventDeclaration) -> tuple[int | float | str, ...] | None:
    values = (attribute.missing or ()) + _all_missing(event)
    return tuple(dict.fromkeys(values)) or None


def _all_missing(event: ast.EventDeclaration) -> tuple[int | float | str, ...]:
    of_format = _ZEEK_MISSING if event.records is not None and event.records.name == "zeek" else ()
    return (event.missing or ()) + of_format


def argument_count(arguments: int) -> str:
    """Return a count of arguments as text: `1 argument` or `2 arguments`."""
    return {0: "no arguments", 1: "1 argument"}.get(arguments, f"{arguments} arguments")
