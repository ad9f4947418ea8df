"""Linking of a program's files to one syntax tree. The files can be in several dialects. Rules of one dialect may use
events and fluents that another dialect derives.

The files of one dialect form one program. The other files see the atoms that LARS derives as fluents, which are known
at the end of their tick. LARS sees the events of other files as input atoms. Such an atom belongs to the tick in which
the event ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from cep.core.components import components
from cep.core.errors import CepError, CepErrors, Mistakes, Source, Span
from cep.core.schema import RecordFormat
from cep.core.suggest import did_you_mean
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.dialects.lars.ast import LarsLiteral, LarsProgram
from cep.language.dialects.lars.column_types import column_types, given_types
from cep.language.dialects.lars.lowering import lowered
from cep.language.dialects.lars.safety import refuse_unsafe
from cep.language.fluents import NEUTRAL
from cep.language.merging import DECLARATIONS, RULES, FileTree, MergedFiles, instants
from cep.language.recorded_fluents import incoming
from cep.language.syntax import ast
from cep.operators.supports import FormulaAtom
from cep.plan.types import UNKNOWN
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration
from cep.rules.terms import Call, Comparison, Constant, Predicate, StaticRule

Types = Mapping[str, Sequence[str]]
"""The attribute types of each event."""


@dataclass(frozen=True, slots=True)
class Together:
    """The statements of several files.

    - `others`: the statements of all dialects except LARS.
    - `lars`: the LARS program, or None if no file is in LARS.
    - `untyped`: the events that LARS reads and other rules derive, but no file declares.
    - `needs`: for each derived event or fluent, the names of the events, fluents and predicates that its rules use.
    """

    source: Source
    others: ast.SyntaxTree
    lars: LarsProgram | None
    options: AnswerSetOptions | None
    untyped: tuple[str, ...]
    needs: Mapping[str, frozenset[str]]

    @classmethod
    def of(
        cls, source: Source, trees: Sequence[FileTree], lars: LarsProgram | None, options: AnswerSetOptions | None
    ) -> Together:
        """Combine the statements of all files. Raises CepError if files contradict each other."""
        derived = frozenset[str]() if lars is None else lars.derived
        others = MergedFiles(source, trees, lars).tree()
        needs = _needs(others, lars)
        if lars is None:
            return cls(source, others, None, options, (), needs)
        _refuse_twice(source, others, lars)
        _refuse_circles(source, lars, derived, needs)
        _refuse_unknown(source, others, lars)
        declared = {
            statement.name
            for statement in (*others.statements, *lars.declarations)
            if isinstance(statement, DECLARATIONS)
        }
        asked = _asked(lars)
        event_names = dict.fromkeys(
            statement.name for statement in others.statements if isinstance(statement, ast.EventRule)
        )
        untyped = tuple(name for name in event_names if name in asked and name not in declared)
        link = cls(source, others, lars, options, untyped, needs)
        refuse_unsafe(link.asking({}), source)
        return link

    def tree(self, types: Types) -> ast.SyntaxTree:
        """Return the whole program. Raises CepError with the mistakes in the LARS files.

        `types`: the attribute types of the events in `untyped`.
        """
        if self.lars is None:
            return self.others
        lars_part = lowered(self.asking(types), self.source, options=self.options)
        known = {statement.name for statement in self.others.statements if isinstance(statement, DECLARATIONS)}
        own = [
            statement
            for statement in lars_part.as_facts().statements
            if not (isinstance(statement, DECLARATIONS) and statement.name in known)
        ]
        own += self._never(types, {statement.name for statement in own if isinstance(statement, ast.FluentDeclaration)})
        return replace(
            self.others,
            statements=(*self.others.statements, *own),
            helpers=self.others.helpers | lars_part.helpers,
            answered=self.lars.derived,
        )

    def _never(self, types: Types, declared: Collection[str]) -> Iterator[ast.Statement]:
        """Yield statements for fluents that LARS rules define but can never derive, if other files read these fluents.

        Each such fluent gets a declaration, and a rule that is never true, so that the other files can be compiled.
        `types`: the types of the attributes that are known. `declared`: the fluents that have a declaration.
        """
        assert self.lars is not None, "it derives something"
        program = self.asking(types)
        columns = column_types(program, given_types(program), "any")
        asked = {name for statement in self.others.statements for name in _names(statement)}
        for name in sorted(self.lars.derived & asked - set(declared)):
            attributes = tuple(ast.AttributeTree(f"arg{index + 1}", type) for index, type in enumerate(columns[name]))
            yield ast.FluentDeclaration(name, attributes)
            some = tuple(
                Constant("", "string")
                if attribute.type == "any"
                else Constant(NEUTRAL.get(attribute.type, 0), attribute.type)
                for attribute in attributes
            )
            never = Comparison("=", Constant(0, "int"), Constant(1, "int"))
            yield ast.FluentRule("initially", name, some, None, None, (never,))

    def typed(self, plan: Callable[[ast.SyntaxTree], Types]) -> ast.SyntaxTree:
        """Infer the attribute types of the events in `untyped`, and return the whole program.

        `plan`: a function that infers attribute types from a part of the program.
        """
        known: dict[str, Sequence[str]] = {}
        waiting = list(self.untyped)
        while waiting:
            ready = [name for name in waiting if not _before(name, self.needs).intersection(waiting) - {name}]
            assert ready, "there are no circles"
            planned = plan(self._part(ready, known))
            known |= {name: list(planned[name]) for name in ready}
            waiting = [name for name in waiting if name not in ready]
        return self.tree(known)

    def _part(self, names: Iterable[str], types: Types) -> ast.SyntaxTree:
        """Return a program that consists of the statements on which the events `names` depend. In this program, the
        fluents of LARS are input."""
        assert self.lars is not None, "it asks events"
        wanted = set(names).union(*(_before(name, self.needs) for name in names))
        program = self.asking(types)
        columns = column_types(program, given_types(program), "any")
        records = RecordFormat("jsonl")
        answered = [
            incoming(name, tuple(ast.AttributeTree(f"arg{n + 1}", type) for n, type in enumerate(columns[name])),
                     None, records, Span(1, 1, 1, 1))
            for name in sorted(self.lars.derived & wanted)
        ]  # fmt: skip
        kept = [
            statement
            for statement in self.others.statements
            if not isinstance(statement, ast.AlertStatement)
            and (not isinstance(statement, RULES) or statement.name in wanted)
        ]
        own = [declaration for declaration in self.lars.declarations if isinstance(declaration, ast.EventDeclaration)]
        known = {statement.name for statement in kept if isinstance(statement, DECLARATIONS)}
        more = [instants(statement) for statement in own if statement.name not in known]
        return replace(self.others, statements=(*kept, *more, *answered), answered=self.lars.derived)

    def asking(self, types: Types) -> LarsProgram:
        """Return the LARS program, with declarations of the events and facts that it reads from other files."""
        assert self.lars is not None, "it asks events"
        own = {declaration.name for declaration in self.lars.declarations if isinstance(declaration, DECLARATIONS)}
        asked = _asked(self.lars) - own
        declared: dict[str, ast.EventDeclaration | FactDeclaration] = {}
        facts: dict[str, list[StaticRule]] = {}
        event_rules: dict[str, ast.EventRule] = {}
        for statement in self.others.statements:
            match statement:
                case ast.EventDeclaration() | FactDeclaration() if statement.name in asked:
                    declared[statement.name] = statement
                case StaticRule() if statement.name in asked:
                    facts.setdefault(statement.name, []).append(statement)
                case ast.EventRule():
                    event_rules.setdefault(statement.name, statement)
        for name in asked & event_rules.keys() - declared.keys():
            rule = event_rules[name]
            columns = types.get(name, [UNKNOWN] * len(rule.arguments))
            attributes = tuple(ast.AttributeTree(f"arg{index + 1}", type) for index, type in enumerate(columns))
            declared[name] = ast.EventDeclaration(name, attributes, span=rule.head_span)
        for name in facts.keys() - declared.keys():
            declared[name] = self._facts(name, facts[name])
        more = tuple(declared[name] for name in sorted(declared))
        return replace(
            self.lars,
            declarations=(*self.lars.declarations, *more),
            elsewhere=frozenset(declared),
            derived_elsewhere=frozenset(event_rules) & (asked | own),
        )

    def _facts(self, name: str, rules: Sequence[StaticRule]) -> FactDeclaration:
        """Return a declaration of facts. The types of its arguments are the types of the values in `rules`. Raises
        CepError if an argument has values of different types."""
        first = rules[0]
        types: list[str] = []
        for index in range(len(first.arguments)):
            values = [rule.arguments[index] for rule in rules if len(rule.arguments) == len(first.arguments)]
            constant_types = {value.type if isinstance(value, Constant) else None for value in values}
            if constant_types == {"int", "float"}:
                constant_types = {"float"}
            (type, *others) = constant_types
            if type is None or others:
                columns = ", ".join(f"x{place + 1}: .." for place in range(len(first.arguments)))
                hint = f"`fact {name}({columns}).`, with their types"
                message = f"LARS asks for `{name}`, but the types of its facts are not declared"
                raise CepError(message, self.source, first.span, hint, "type")
            types.append(type)
        attributes = tuple(FactAttribute(f"arg{index + 1}", type) for index, type in enumerate(types))
        return FactDeclaration(name, attributes, first.span)


def _asked(lars: LarsProgram) -> frozenset[str]:
    heads = (rule.head.predicate for rule in lars.rules if rule.head is not None)
    return frozenset((*heads, *(literal.atom.predicate for literal in _literals(lars))))


def _literals(lars: LarsProgram) -> Iterator[LarsLiteral]:
    return (element for rule in lars.rules for element in rule.body if isinstance(element, LarsLiteral))


# --- dependencies ---


def _needs(others: ast.SyntaxTree, lars: LarsProgram | None) -> dict[str, frozenset[str]]:
    needs: dict[str, set[str]] = {}
    for statement in others.statements:
        if isinstance(statement, RULES):
            needs.setdefault(statement.name, set()).update(_names(statement))
    for rule in () if lars is None else lars.rules:
        if rule.head is not None:
            own = (element.atom.predicate for element in rule.body if isinstance(element, LarsLiteral))
            needs.setdefault(rule.head.predicate, set()).update(own)
    return {name: frozenset(names & needs.keys()) for name, names in needs.items()}


def _names(value: object) -> Iterator[str]:
    """Yield the names of the events, fluents and predicates that a rule uses."""
    match value:
        case ast.EventPattern() | FormulaAtom() | Predicate():
            yield value.name
        case Call():
            yield value.function
    if isinstance(value, tuple):
        for member in value:
            yield from _names(member)
    elif is_dataclass(value) and not isinstance(value, Span):
        for field in fields(value):
            yield from _names(getattr(value, field.name))


def _before(name: str, needs: Mapping[str, frozenset[str]]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = needs.get(waiting.pop(), frozenset()) - reached
        reached |= new
        waiting += new
    return frozenset(reached)


def _refuse_circles(
    source: Source, lars: LarsProgram, derived: frozenset[str], needs: Mapping[str, frozenset[str]]
) -> None:
    """Refuse cycles that contain both rules of LARS and rules of other dialects."""
    errors = Mistakes()
    for component in components(sorted(needs), lambda name: sorted(needs.get(str(name), ()))):
        names = set(map(str, component))
        if not names & derived or names <= derived:
            continue
        literal = next(literal for literal in _literals(lars) if literal.atom.predicate in names - derived)
        other = literal.atom.predicate
        mine = min(names & derived)
        errors.append(
            CepError(
                f"`{mine}` is derived from `{other}`, which other rules derive from `{mine}`: at one tick each would "
                "wait for the other",
                source,
                literal.span,
                f"define both in LARS, or define `{mine}` without `{other}`",
                "recursion",
            )
        )
    if errors:
        raise CepErrors(errors)


def _refuse_unknown(source: Source, others: ast.SyntaxTree, lars: LarsProgram) -> None:
    errors = Mistakes()
    facts = {rule.head.predicate for rule in lars.rules if rule.is_fact and rule.head is not None}
    known = (
        lars.derived
        | facts
        | {declaration.name for declaration in lars.declarations if isinstance(declaration, DECLARATIONS)}
    )
    declaring = (*DECLARATIONS, ast.EventRule, StaticRule)
    known |= {statement.name for statement in others.statements if isinstance(statement, declaring)}
    for literal in _literals(lars):
        name, span = literal.atom.predicate, literal.atom.span
        if name not in known:
            hint = did_you_mean(name, known) or f"declare input events, in any of the files: `event {name}(...).`"
            errors.append(CepError(f"unknown predicate `{name}`", source, span, hint, "predicate"))
    if errors:
        raise CepErrors(errors)


def _refuse_twice(source: Source, others: ast.SyntaxTree, lars: LarsProgram) -> None:
    """Refuse names that both LARS and another file derive or declare. Also refuse fluents that another file declares
    and LARS uses."""
    errors = Mistakes()
    derived = lars.derived
    fluents: set[str] = set()
    told: set[str] = set()
    for statement in others.statements:
        if isinstance(statement, ast.FluentDeclaration | ast.FluentRule | ast.WhileRule):
            fluents.add(statement.name)
        if (
            not isinstance(statement, (*RULES, ast.FluentDeclaration, StaticRule))
            or statement.name not in derived - told
        ):
            continue
        told.add(statement.name)
        span = statement.head_span if isinstance(statement, RULES) else statement.span
        what = "declared as a fluent" if isinstance(statement, ast.FluentDeclaration) else "derived"
        first = next(
            rule.span for rule in lars.rules if rule.head is not None and rule.head.predicate == statement.name
        )
        hint = f"rename one of the two: LARS derives it at {source.spot(first)}, anew at each tick"
        message = f"`{statement.name}` is {what} here, and derived by LARS, too"
        errors.append(CepError(message, source, span, hint, "predicate"))
    for literal in _literals(lars):
        name = literal.atom.predicate
        if name in fluents and name not in derived and name not in told:
            told.add(name)
            arguments = ", ".join(f"X{index + 1}" for index in range(len(literal.atom.arguments)))
            of = f"{name}({arguments})" if arguments else name
            begins = f"begins_{name}({arguments})" if arguments else f"begins_{name}"
            message = f"`{name}` is a fluent of another file, but LARS can ask only for events"
            hint = (
                f"in that file, derive an event from its beginning, `{begins} <- BEGIN OF {of}.`, or from events while "
            )
            hint += f"it holds, `.. <- e(..) WHERE {of}.`"
            errors.append(CepError(message, source, literal.span, hint, "predicate"))
    if errors:
        raise CepErrors(errors)
