"""Linking of programs in several files and dialects to one tree: each file may use what another derives.

Files of one dialect form one program. The other files see LARS's derived atoms as fluents, which are known at the end
of their tick. LARS sees events of other files as input atoms, each at the tick in which the event ends.
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
"""Attribute types, by event."""


@dataclass(frozen=True, slots=True)
class Together:
    """The statements of several files. `others`: those that are not LARS; `lars`: the LARS program, or None.

    `untyped`: events without a declaration that other rules derive and LARS reads.
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
        """Combine the files. Raises CepError if they contradict each other."""
        derived = frozenset[str]() if lars is None else lars.derived
        others = MergedFiles(source, trees, lars).tree()
        needs = _needs(others, lars)
        if lars is None:
            return cls(source, others, None, options, (), needs)
        _refuse_twice(source, others, lars)
        _refuse_circles(source, lars, derived, needs)
        _refuse_unknown(source, others, lars)
        declared = {each.name for each in (*others.statements, *lars.declarations) if isinstance(each, DECLARATIONS)}
        asked = _asked(lars)
        made = dict.fromkeys(each.name for each in others.statements if isinstance(each, ast.EventRule))
        untyped = tuple(name for name in made if name in asked and name not in declared)
        found = cls(source, others, lars, options, untyped, needs)
        refuse_unsafe(found.asking({}), source)
        return found

    def tree(self, types: Types) -> ast.SyntaxTree:
        """Return the whole program. `types`: the attribute types of the untyped events. Raises CepError."""
        if self.lars is None:
            return self.others
        made = lowered(self.asking(types), self.source, options=self.options)
        known = {each.name for each in self.others.statements if isinstance(each, DECLARATIONS)}
        own = [
            each for each in made.as_facts().statements if not (isinstance(each, DECLARATIONS) and each.name in known)
        ]
        own += self._never(types, {each.name for each in own if isinstance(each, ast.FluentDeclaration)})
        return replace(
            self.others,
            statements=(*self.others.statements, *own),
            helpers=self.others.helpers | made.helpers,
            answered=self.lars.derived,
        )

    def _never(self, types: Types, given: Collection[str]) -> Iterator[ast.Statement]:
        """Yield declarations of fluents that other files read but no rule of LARS can derive. They never hold."""
        assert self.lars is not None, "it derives something"
        program = self.asking(types)
        columns = column_types(program, given_types(program), "any")
        asked = {name for each in self.others.statements for name in _names(each)}
        for name in sorted(self.lars.derived & asked - set(given)):
            attributes = tuple(ast.AttributeTree(f"arg{at + 1}", type) for at, type in enumerate(columns[name]))
            yield ast.FluentDeclaration(name, attributes)
            some = tuple(
                Constant("", "string") if each.type == "any" else Constant(NEUTRAL.get(each.type, 0), each.type)
                for each in attributes
            )
            never = Comparison("=", Constant(0, "int"), Constant(1, "int"))
            yield ast.FluentRule("initially", name, some, None, None, (never,))

    def typed(self, plan: Callable[[ast.SyntaxTree], Types]) -> ast.SyntaxTree:
        """Return the whole program. `plan`: a function that infers the types of the untyped events from part of the
        program."""
        known: dict[str, Sequence[str]] = {}
        waiting = list(self.untyped)
        while waiting:
            ready = [name for name in waiting if not _before(name, self.needs).intersection(waiting) - {name}]
            assert ready, "there are no circles"
            found = plan(self._part(ready, known))
            known |= {name: list(found[name]) for name in ready}
            waiting = [name for name in waiting if name not in ready]
        return self.tree(known)

    def _part(self, names: Iterable[str], types: Types) -> ast.SyntaxTree:
        """Return the statements on which some events depend. Fluents that LARS derives are input of this part."""
        assert self.lars is not None, "it asks events"
        wanted = set(names).union(*(_before(name, self.needs) for name in names))
        program = self.asking(types)
        columns = column_types(program, given_types(program), "any")
        records = RecordFormat("jsonl")
        answered = [
            incoming(name, tuple(ast.AttributeTree(f"arg{at + 1}", type) for at, type in enumerate(columns[name])),
                     None, records, Span(1, 1, 1, 1))
            for name in sorted(self.lars.derived & wanted)
        ]  # fmt: skip
        kept = [
            each
            for each in self.others.statements
            if not isinstance(each, ast.AlertStatement) and (not isinstance(each, RULES) or each.name in wanted)
        ]
        own = [each for each in self.lars.declarations if isinstance(each, ast.EventDeclaration)]
        known = {each.name for each in kept if isinstance(each, DECLARATIONS)}
        more = [instants(each) for each in own if each.name not in known]
        return replace(self.others, statements=(*kept, *more, *answered), answered=self.lars.derived)

    def asking(self, types: Types) -> LarsProgram:
        """Return the LARS program with declarations of the events and facts that it reads from other files."""
        assert self.lars is not None, "it asks events"
        own = {each.name for each in self.lars.declarations if isinstance(each, DECLARATIONS)}
        asked = _asked(self.lars) - own
        found: dict[str, ast.EventDeclaration | FactDeclaration] = {}
        facts: dict[str, list[StaticRule]] = {}
        made: dict[str, ast.EventRule] = {}
        for each in self.others.statements:
            match each:
                case ast.EventDeclaration() | FactDeclaration() if each.name in asked:
                    found[each.name] = each
                case StaticRule() if each.name in asked:
                    facts.setdefault(each.name, []).append(each)
                case ast.EventRule():
                    made.setdefault(each.name, each)
        for name in asked & made.keys() - found.keys():
            rule = made[name]
            columns = types.get(name, [UNKNOWN] * len(rule.arguments))
            attributes = tuple(ast.AttributeTree(f"arg{at + 1}", type) for at, type in enumerate(columns))
            found[name] = ast.EventDeclaration(name, attributes, span=rule.head_span)
        for name in facts.keys() - found.keys():
            found[name] = self._facts(name, facts[name])
        more = tuple(found[name] for name in sorted(found))
        return replace(
            self.lars,
            declarations=(*self.lars.declarations, *more),
            elsewhere=frozenset(found),
            made=frozenset(made) & (asked | own),
        )

    def _facts(self, name: str, rules: Sequence[StaticRule]) -> FactDeclaration:
        """Return a declaration of facts whose types follow from their values. Raises CepError."""
        first = rules[0]
        types: list[str] = []
        for at in range(len(first.arguments)):
            values = [each.arguments[at] for each in rules if len(each.arguments) == len(first.arguments)]
            found = {each.type if isinstance(each, Constant) else None for each in values}
            if found == {"int", "float"}:
                found = {"float"}
            (type, *others) = found
            if type is None or others:
                columns = ", ".join(f"x{place + 1}: .." for place in range(len(first.arguments)))
                hint = f"`fact {name}({columns}).`, with their types"
                message = f"LARS asks for `{name}`, but the types of its facts are not declared"
                raise CepError(message, self.source, first.span, hint, "type")
            types.append(type)
        attributes = tuple(FactAttribute(f"arg{at + 1}", type) for at, type in enumerate(types))
        return FactDeclaration(name, attributes, first.span)


def _asked(lars: LarsProgram) -> frozenset[str]:
    """Return the predicates that a program uses."""
    heads = (rule.head.predicate for rule in lars.rules if rule.head is not None)
    return frozenset((*heads, *(each.atom.predicate for each in _literals(lars))))


def _literals(lars: LarsProgram) -> Iterator[LarsLiteral]:
    return (each for rule in lars.rules for each in rule.body if isinstance(each, LarsLiteral))


# --- dependencies ---


def _needs(others: ast.SyntaxTree, lars: LarsProgram | None) -> dict[str, frozenset[str]]:
    """Return the names that the rules of each derived event or fluent use."""
    found: dict[str, set[str]] = {}
    for each in others.statements:
        if isinstance(each, RULES):
            found.setdefault(each.name, set()).update(_names(each))
    for rule in () if lars is None else lars.rules:
        if rule.head is not None:
            own = (each.atom.predicate for each in rule.body if isinstance(each, LarsLiteral))
            found.setdefault(rule.head.predicate, set()).update(own)
    return {name: frozenset(names & found.keys()) for name, names in found.items()}


def _names(value: object) -> Iterator[str]:
    """Yield the events, fluents and predicates that a rule uses."""
    match value:
        case ast.EventPattern() | FormulaAtom() | Predicate():
            yield value.name
        case Call():
            yield value.function
    if isinstance(value, tuple):
        for each in value:
            yield from _names(each)
    elif is_dataclass(value) and not isinstance(value, Span):
        for field in fields(value):
            yield from _names(getattr(value, field.name))


def _before(name: str, needs: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return everything on which `name` depends, directly or indirectly."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = needs.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return frozenset(found)


def _refuse_circles(
    source: Source, lars: LarsProgram, derived: frozenset[str], needs: Mapping[str, frozenset[str]]
) -> None:
    """Refuse cycles between LARS and other rules."""
    errors = Mistakes()
    for found in components(sorted(needs), lambda name: sorted(needs.get(str(name), ()))):
        names = set(map(str, found))
        if not names & derived or names <= derived:
            continue
        each = next(each for each in _literals(lars) if each.atom.predicate in names - derived)
        other = each.atom.predicate
        mine = min(names & derived)
        errors.append(
            CepError(
                f"`{mine}` is derived from `{other}`, which other rules derive from `{mine}`: at one tick each would "
                "wait for the other",
                source,
                each.span,
                f"define both in LARS, or define `{mine}` without `{other}`",
                "recursion",
            )
        )
    if errors:
        raise CepErrors(errors)


def _refuse_unknown(source: Source, others: ast.SyntaxTree, lars: LarsProgram) -> None:
    """Refuse predicates that no file defines."""
    errors = Mistakes()
    facts = {rule.head.predicate for rule in lars.rules if rule.is_fact and rule.head is not None}
    known = lars.derived | facts | {each.name for each in lars.declarations if isinstance(each, DECLARATIONS)}
    given = (*DECLARATIONS, ast.EventRule, StaticRule)
    known |= {each.name for each in others.statements if isinstance(each, given)}
    for each in _literals(lars):
        name, span = each.atom.predicate, each.atom.span
        if name not in known:
            hint = did_you_mean(name, known) or f"declare input events, in any of the files: `event {name}(...).`"
            errors.append(CepError(f"unknown predicate `{name}`", source, span, hint, "predicate"))
    if errors:
        raise CepErrors(errors)


def _refuse_twice(source: Source, others: ast.SyntaxTree, lars: LarsProgram) -> None:
    """Refuse names that LARS and other files both derive or declare, and fluents of other files in LARS."""
    errors = Mistakes()
    derived = lars.derived
    fluents: set[str] = set()
    told: set[str] = set()
    for each in others.statements:
        if isinstance(each, ast.FluentDeclaration | ast.FluentRule | ast.WhileRule):
            fluents.add(each.name)
        if not isinstance(each, (*RULES, ast.FluentDeclaration, StaticRule)) or each.name not in derived - told:
            continue
        told.add(each.name)
        span = each.head_span if isinstance(each, RULES) else each.span
        what = "declared as a fluent" if isinstance(each, ast.FluentDeclaration) else "derived"
        first = next(rule.span for rule in lars.rules if rule.head is not None and rule.head.predicate == each.name)
        hint = f"rename one of the two: LARS derives it at {source.spot(first)}, anew at each tick"
        message = f"`{each.name}` is {what} here, and derived by LARS, too"
        errors.append(CepError(message, source, span, hint, "predicate"))
    for literal in _literals(lars):
        name = literal.atom.predicate
        if name in fluents and name not in derived and name not in told:
            told.add(name)
            arguments = ", ".join(f"X{at + 1}" for at in range(len(literal.atom.arguments)))
            of = f"{name}({arguments})" if arguments else name
            begins = f"begins_{name}({arguments})" if arguments else f"begins_{name}"
            message = f"`{name}` is a fluent of another file, but LARS can ask only for events"
            hint = f"an event of its beginning, in that file, `{begins} <- BEGIN OF {of}.`, or of what happens while "
            hint += f"it holds, `.. <- e(..) WHERE {of}.`"
            errors.append(CepError(message, source, literal.span, hint, "predicate"))
    if errors:
        raise CepErrors(errors)
