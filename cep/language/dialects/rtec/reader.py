"""Reader of RTEC event descriptions. It returns a syntax tree of events and fluents.

`initiatedAt` and `terminatedAt` become `initiate` and `terminate`. `holdsFor` becomes WHILE (intervals.py), `fi` a
deadline, and `happensAt` in a head an event rule. Grounding becomes a predicate; the remaining clauses are static
rules. RTEC's tick [S, E) is (S-1, E-1] here: what an event at T initiates holds from just after T.
"""

from __future__ import annotations

from itertools import count

from cep.core.errors import CepError, CepErrors, Source
from cep.core.literals import SECOND
from cep.core.schema import RecordFormat
from cep.language.dialects.rtec.circular_ends import CircularEnds
from cep.language.dialects.rtec.conditions import Body, ConditionConverter
from cep.language.dialects.rtec.description import (
    Clause,
    EventDescription,
    FluentValuePair,
    FutureInitiation,
    flat,
    refused,
    sorted_clauses,
)
from cep.language.dialects.rtec.intervals import HoldsForConverter
from cep.language.dialects.rtec.signatures import EVENT, FLUENT, GROUND, PREDICATE, Signatures, signatures
from cep.language.dialects.rtec.terms import Term, Var, term_variables
from cep.language.dialects.rtec.types import Types
from cep.language.fluents import RESERVED
from cep.language.recorded_fluents import incoming
from cep.language.syntax import ast
from cep.rules.parameters import Parameters
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration
from cep.rules.terms import Call, Comparison, Condition, Expression, Predicate, StaticRule, Variable


def read(source: Source, tick: int = SECOND, parameters: Parameters | None = None) -> ast.SyntaxTree:
    """Read a description, and declare the events, fluents and facts that it uses. Raises CepError with all mistakes.

    `tick`: the length of one tick of its clock, in microseconds.
    """
    return _DescriptionReader(sorted_clauses(source, tick, parameters), tick).tree()


class _DescriptionReader:
    def __init__(self, description: EventDescription, tick: int) -> None:
        self.description = description
        self.source = description.source
        self.tick = tick
        self.records = RecordFormat("rtec", (("tick", str(tick)),))
        self.errors = description.errors
        self.types = Types(self.source)
        self.known: Signatures = signatures(description, self.types)
        self.ends = CircularEnds(description, self.known)
        self.conditions = ConditionConverter(self.known, self.types, self.ends)
        self.intervals = HoldsForConverter(self.known, self.types, self.conditions, description, tick)

    def tree(self) -> ast.SyntaxTree:
        rules: list[ast.Statement] = []
        if not self.errors:
            for each in self.description.clauses:
                rules += self.attempt(self.clause, each)
            for deadline in self.description.deadlines:
                rules += self.attempt(self.deadline, deadline)
            for rule in self.description.atemporal:
                rules += self.attempt(self.static, rule)
            self.intervals.acyclic(self.errors)
        if self.errors:
            raise CepErrors(self.errors)
        declared: list[ast.Statement] = []
        for kind in (EVENT, FLUENT, GROUND, PREDICATE):
            for name, found in self.known.kinds.items():
                if found == kind:
                    declared += self.attempt(self.declaration, (name, kind))
        if self.errors:
            raise CepErrors(self.errors)
        helpers = (*self.conditions.helpers(), *self.intervals.helpers(), *self.ends.helpers(rules))
        own = frozenset(each.name for each in helpers if isinstance(each, ast.FluentDeclaration | ast.EventRule))
        statements = (*declared, *helpers, *rules)
        return ast.SyntaxTree(statements, self.source, (), own)

    def attempt(self, make: object, what: object) -> list[ast.Statement]:
        try:
            made = make(what)  # type: ignore[operator]
        except CepError as error:
            self.errors.add(error)
            return []
        return list(made)

    # --- declarations ---

    def declaration(self, asked: tuple[str, str]) -> list[ast.Statement]:
        name, kind = asked
        arity = self.known.arities[name]
        columns: dict[str, None] = {}
        wanted = self.known.names.get(name, [None] * arity)
        for at in range(arity):
            own = wanted[at] if at < len(wanted) else None
            if kind == FLUENT and at == arity - 1 and own is None and "value" not in (*columns, *wanted):
                own = "value"
            if own is None or own in columns or own in RESERVED:
                own = next(each for each in (f"arg{k}" for k in count(at + 1)) if each not in (*columns, *wanted))
            columns[own] = None
        types = [self.types.type(("argument", name, at)) for at in range(arity)]
        typed = tuple(ast.AttributeTree(each, type) for each, type in zip(columns, types, strict=True))
        if kind == EVENT:
            if name in self.known.derived:
                return []
            span = self.known.places[name]
            return [ast.EventDeclaration(name, typed, "time", span=span, records=self.records)]
        if kind == FLUENT:
            span = self.known.places[name]
            if name in self.known.defined | self.known.simple:
                return [ast.FluentDeclaration(name, typed[:-1], typed[-1], span=span)]
            return [incoming(name, typed[:-1], typed[-1], self.records, span)]
        if not arity:
            return []
        facts = tuple(FactAttribute(each.name, each.type) for each in typed)
        return [FactDeclaration(name, facts, self.known.places[name])]

    # --- clauses ---

    def clause(self, clause: Clause) -> list[ast.Statement]:
        match clause.verb:
            case "ground":
                assert clause.fluent is not None, "a grounding of a fluent"
                name, arguments = self.fluent(clause.fluent)
                ground = self.known.ground(name)
                given = self.conditions.atemporal(clause)
                head = self.types.arguments(ground, arguments)
                return [StaticRule(ground, head, given, clause.span)]
            case "holds":
                return [self.intervals.rule(clause)]
            case "initially":
                return self.initially(clause)
            case "happens":
                return self.happens(clause)
        return self.begins(clause)

    def fluent(self, fluent: FluentValuePair) -> tuple[str, tuple[Term, ...]]:
        """Return the name of a fluent, and its arguments followed by its value."""
        name, arguments = flat(self.source, fluent.term)
        return name, (*arguments, fluent.value)

    def happens(self, clause: Clause) -> list[ast.Statement]:
        assert clause.event is not None, "its head is an event"
        name, arguments = flat(self.source, clause.event)
        body = self.conditions.body(clause)
        bound = body.variables
        for each in arguments:
            if isinstance(each, Var) and each.name not in bound:
                raise refused(self.source, f"`{each.name}` has no value: the body does not bind it", each.span)
        return [
            ast.EventRule(
                name, self.types.arguments(name, arguments), body.pattern, None, clause.span, clause.head_span
            )
        ]

    def begins(self, clause: Clause) -> list[ast.Statement]:
        """Return the rules for a clause of `initiatedAt` or `terminatedAt`."""
        assert clause.fluent is not None, "its head is a fluent"
        name, terms = self.fluent(clause.fluent)
        body = self.conditions.body(clause)
        ends = clause.verb == "terminate"
        value: Expression | None = None
        last = terms[-1]
        if ends and isinstance(last, Var) and (last.name == "_" or last.name not in body.variables):
            value = Variable("_", last.span)
        *inner, own = self.types.arguments(name, terms)
        terms, given = self.named(terms, tuple(inner))
        loose = [each for each in terms[:-1] if isinstance(each, Var) and each.name not in body.variables]
        if not ends and isinstance(last, Var) and last.name not in body.variables:
            loose.append(last)
        asked: list[Condition] = []
        grounded = self.known.grounded(name)
        if grounded and (self.known.closed(name) or loose) and not ends:
            asked.append(Predicate(self.known.ground(name), (*given, own), False, clause.head_span))
        elif loose and ends:
            held = own if value is None else Variable("_", last.span)
            asked.append(Comparison("=", Call(name, given, clause.head_span), held, clause.head_span))
        elif loose:
            hint = f"`grounding({clause.fluent.term.name}(..)=..) :- ..` says which there are"
            raise refused(
                self.source, f"`{loose[0].name}` has no value: the body does not bind it", loose[0].span, hint
            )
        body = body.given(asked)
        return [ast.FluentRule(clause.verb, name, given, value or own, body.pattern, (), clause.span, clause.head_span)]

    def named(
        self, terms: tuple[Term, ...], given: tuple[Expression, ...]
    ) -> tuple[tuple[Term, ...], tuple[Expression, ...]]:
        """Give names to the anonymous variables of a head."""
        made, values = list(terms), list(given)
        for at, each in enumerate(terms[:-1]):
            if isinstance(each, Var) and each.name == "_":
                made[at] = Var(f"Any{at + 1}", each.span)
                values[at] = Variable(f"Any{at + 1}", each.span)
        return tuple(made), tuple(values)

    def initially(self, clause: Clause) -> list[ast.Statement]:
        """Return the rule of a fluent that holds from tick 0 on: it is initiated one tick earlier."""
        assert clause.fluent is not None, "its head is a fluent"
        name, terms = self.fluent(clause.fluent)
        *given, own = self.types.arguments(name, terms)
        asked = list(self.conditions.atemporal(clause))
        bound = {each for condition in clause.body for each in term_variables(condition)}
        loose = [each for each in terms if isinstance(each, Var) and each.name not in bound]
        if loose:
            if not self.known.grounded(name):
                hint = f"`grounding({clause.fluent.term.name}(..)=..) :- ..` says which there are"
                raise refused(self.source, f"`{loose[0].name}` has no value", loose[0].span, hint)
            terms, named = self.named(terms, tuple(given))
            given = list(named)
            asked.append(Predicate(self.known.ground(name), (*given, own), False, clause.head_span))
        pattern: ast.PatternTree = ast.TimePoint(-self.tick, clause.head_span)
        body = Body(pattern, (), frozenset()).given(asked)
        return [ast.FluentRule("initiate", name, tuple(given), own, body.pattern, (), clause.span, clause.head_span)]

    def deadline(self, deadline: FutureInitiation) -> list[ast.Statement]:
        name, terms = self.fluent(deadline.before)
        other, following = self.fluent(deadline.after)
        span = deadline.span
        if name != other or terms[:-1] != following[:-1]:
            hint = "`fi(quote(M)=true, quote(M)=false, 5)`: the same fluent with another value"
            raise refused(self.source, "what follows is another fluent", deadline.after.span, hint)
        if name in self.known.defined:
            raise refused(self.source, f"`{name}` is defined by holdsFor, and has no deadline", span)
        loose = [each.name for each in terms[:-1] if isinstance(each, Var)]
        if len(set(loose)) != len(terms) - 1 or any(isinstance(each, Var) for each in (terms[-1], following[-1])):
            hint = "`fi(quote(M,C)=true, quote(M,C)=false, 5)`: variables as arguments, constants as values"
            raise refused(self.source, "a deadline here is that of all of a fluent with one value", span, hint)
        length = self.known.number(deadline.length, deadline.body)
        renewed = any(
            flat(self.source, each.term)[0] == name and (isinstance(each.value, Var) or each.value == terms[-1])
            for each in self.description.renewed
        )
        arguments = tuple(Variable(each if each != "_" else f"Any{at}") for at, each in enumerate(loose, 1))
        values = [self.types.argument(name, len(terms) - 1, each) for each in (terms[-1], following[-1])]
        ticks = round(length * self.tick)
        return [ast.DeadlineStatement(name, arguments, values[0], values[1], ticks, renewed, span)]

    def static(self, rule: object) -> list[ast.Statement]:
        return [self.conditions.static(rule)]  # type: ignore[arg-type]
