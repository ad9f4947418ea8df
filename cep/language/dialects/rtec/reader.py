"""Reader of RTEC event descriptions. It returns a syntax tree of events and fluents.

- `initiatedAt` and `terminatedAt` become `initiate` and `terminate`.
- `holdsFor` becomes WHILE (intervals.py).
- `fi` becomes a deadline.
- `happensAt` in a head becomes an event rule.
- Groundings become predicates.
- All other clauses become static rules.

An interval [S, E) of RTEC's ticks becomes (S-1, E-1]. The reason: a fluent that an event at T initiates holds from just
after T.
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

    `tick`: the length of a tick of the description's clock, in microseconds.
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
            for clause in self.description.clauses:
                rules += self.attempt(self.clause, clause)
            for deadline in self.description.deadlines:
                rules += self.attempt(self.deadline, deadline)
            for rule in self.description.atemporal:
                rules += self.attempt(self.static, rule)
            self.intervals.acyclic(self.errors)
        if self.errors:
            raise CepErrors(self.errors)
        declared: list[ast.Statement] = []
        for kind in (EVENT, FLUENT, GROUND, PREDICATE):
            for name, own_kind in self.known.kinds.items():
                if own_kind == kind:
                    declared += self.attempt(self.declaration, (name, kind))
        if self.errors:
            raise CepErrors(self.errors)
        helpers = (*self.conditions.helpers(), *self.intervals.helpers(), *self.ends.helpers(rules))
        own = frozenset(helper.name for helper in helpers if isinstance(helper, ast.FluentDeclaration | ast.EventRule))
        statements = (*declared, *helpers, *rules)
        return ast.SyntaxTree(statements, self.source, (), own)

    def attempt(self, make: object, what: object) -> list[ast.Statement]:
        try:
            statements = make(what)  # type: ignore[operator]
        except CepError as error:
            self.errors.add(error)
            return []
        return list(statements)

    # --- declarations ---

    def declaration(self, asked: tuple[str, str]) -> list[ast.Statement]:
        name, kind = asked
        arity = self.known.arities[name]
        columns: dict[str, None] = {}
        wanted = self.known.names.get(name, [None] * arity)
        for index in range(arity):
            own = wanted[index] if index < len(wanted) else None
            if kind == FLUENT and index == arity - 1 and own is None and "value" not in (*columns, *wanted):
                own = "value"
            if own is None or own in columns or own in RESERVED:
                own = next(
                    candidate
                    for candidate in (f"arg{k}" for k in count(index + 1))
                    if candidate not in (*columns, *wanted)
                )
            columns[own] = None
        types = [self.types.type(("argument", name, index)) for index in range(arity)]
        typed = tuple(ast.AttributeTree(column, type) for column, type in zip(columns, types, strict=True))
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
        facts = tuple(FactAttribute(attribute.name, attribute.type) for attribute in typed)
        return [FactDeclaration(name, facts, self.known.places[name])]

    # --- clauses ---

    def clause(self, clause: Clause) -> list[ast.Statement]:
        match clause.verb:
            case "ground":
                assert clause.fluent is not None, "a grounding of a fluent"
                name, arguments = self.fluent(clause.fluent)
                ground = self.known.ground(name)
                conditions = self.conditions.atemporal(clause)
                head = self.types.arguments(ground, arguments)
                return [StaticRule(ground, head, conditions, clause.span)]
            case "holds":
                return [self.intervals.rule(clause)]
            case "initially":
                return self.initially(clause)
            case "happens":
                return self.happens(clause)
        return self.begins(clause)

    def fluent(self, fluent: FluentValuePair) -> tuple[str, tuple[Term, ...]]:
        """Return the name of a fluent, and its arguments. The last argument is the fluent's value."""
        name, arguments = flat(self.source, fluent.term)
        return name, (*arguments, fluent.value)

    def happens(self, clause: Clause) -> list[ast.Statement]:
        assert clause.event is not None, "its head is an event"
        name, arguments = flat(self.source, clause.event)
        body = self.conditions.body(clause)
        bound = body.variables
        for argument in arguments:
            if isinstance(argument, Var) and argument.name not in bound:
                raise refused(self.source, f"`{argument.name}` has no value: the body does not bind it", argument.span)
        return [
            ast.EventRule(
                name, self.types.arguments(name, arguments), body.pattern, None, clause.span, clause.head_span
            )
        ]

    def begins(self, clause: Clause) -> list[ast.Statement]:
        """Return the rule for a clause of `initiatedAt` or `terminatedAt`."""
        assert clause.fluent is not None, "its head is a fluent"
        name, terms = self.fluent(clause.fluent)
        body = self.conditions.body(clause)
        ends = clause.verb == "terminate"
        value: Expression | None = None
        last = terms[-1]
        if ends and isinstance(last, Var) and (last.name == "_" or last.name not in body.variables):
            value = Variable("_", last.span)
        *inner, own = self.types.arguments(name, terms)
        terms, key_terms = self.named(terms, tuple(inner))
        loose = [term for term in terms[:-1] if isinstance(term, Var) and term.name not in body.variables]
        if not ends and isinstance(last, Var) and last.name not in body.variables:
            loose.append(last)
        asked: list[Condition] = []
        grounded = self.known.grounded(name)
        if grounded and (self.known.closed(name) or loose) and not ends:
            asked.append(Predicate(self.known.ground(name), (*key_terms, own), False, clause.head_span))
        elif loose and ends:
            held = own if value is None else Variable("_", last.span)
            asked.append(Comparison("=", Call(name, key_terms, clause.head_span), held, clause.head_span))
        elif loose:
            hint = f"add `grounding({clause.fluent.term.name}(..)=..) :- ..`, which lists its values"
            raise refused(
                self.source, f"`{loose[0].name}` has no value: the body does not bind it", loose[0].span, hint
            )
        body = body.given(asked)
        return [
            ast.FluentRule(clause.verb, name, key_terms, value or own, body.pattern, (), clause.span, clause.head_span)
        ]

    def named(
        self, terms: tuple[Term, ...], arguments: tuple[Expression, ...]
    ) -> tuple[tuple[Term, ...], tuple[Expression, ...]]:
        """Replace each anonymous variable of a head by a named one, both in `terms` and in `arguments`.

        `terms`: the head's arguments and its value. `arguments`: the arguments as expressions, without the value.
        """
        named_terms, values = list(terms), list(arguments)
        for index, term in enumerate(terms[:-1]):
            if isinstance(term, Var) and term.name == "_":
                named_terms[index] = Var(f"Any{index + 1}", term.span)
                values[index] = Variable(f"Any{index + 1}", term.span)
        return tuple(named_terms), tuple(values)

    def initially(self, clause: Clause) -> list[ast.Statement]:
        """Return the rule of a fluent that holds from tick 0 on. The rule initiates the fluent one tick earlier."""
        assert clause.fluent is not None, "its head is a fluent"
        name, terms = self.fluent(clause.fluent)
        *key_terms, own = self.types.arguments(name, terms)
        asked = list(self.conditions.atemporal(clause))
        bound = {term_variable for condition in clause.body for term_variable in term_variables(condition)}
        loose = [term for term in terms if isinstance(term, Var) and term.name not in bound]
        if loose:
            if not self.known.grounded(name):
                hint = f"add `grounding({clause.fluent.term.name}(..)=..) :- ..`, which lists its values"
                raise refused(self.source, f"`{loose[0].name}` has no value", loose[0].span, hint)
            terms, named = self.named(terms, tuple(key_terms))
            key_terms = list(named)
            asked.append(Predicate(self.known.ground(name), (*key_terms, own), False, clause.head_span))
        pattern: ast.PatternTree = ast.TimePoint(-self.tick, clause.head_span)
        body = Body(pattern, (), frozenset()).given(asked)
        return [
            ast.FluentRule("initiate", name, tuple(key_terms), own, body.pattern, (), clause.span, clause.head_span)
        ]

    def deadline(self, deadline: FutureInitiation) -> list[ast.Statement]:
        name, terms = self.fluent(deadline.before)
        other, following = self.fluent(deadline.after)
        span = deadline.span
        if name != other or terms[:-1] != following[:-1]:
            hint = "use the same fluent with another value: `fi(quote(M)=true, quote(M)=false, 5)`"
            raise refused(self.source, "a deadline cannot begin another fluent", deadline.after.span, hint)
        if name in self.known.defined:
            raise refused(self.source, f"`{name}` is defined by holdsFor, and cannot have a deadline", span)
        loose = [term.name for term in terms[:-1] if isinstance(term, Var)]
        if len(set(loose)) != len(terms) - 1 or any(isinstance(term, Var) for term in (terms[-1], following[-1])):
            hint = "e.g. `fi(quote(M,C)=true, quote(M,C)=false, 5)`"
            raise refused(
                self.source, "the arguments of a deadline must be variables, and its values constants", span, hint
            )
        length = self.known.number(deadline.length, deadline.body)
        renewed = any(
            flat(self.source, pair.term)[0] == name and (isinstance(pair.value, Var) or pair.value == terms[-1])
            for pair in self.description.renewed
        )
        arguments = tuple(Variable(name if name != "_" else f"Any{index}") for index, name in enumerate(loose, 1))
        values = [self.types.argument(name, len(terms) - 1, term) for term in (terms[-1], following[-1])]
        ticks = round(length * self.tick)
        return [ast.DeadlineStatement(name, arguments, values[0], values[1], ticks, renewed, span)]

    def static(self, rule: object) -> list[ast.Statement]:
        return [self.conditions.static(rule)]  # type: ignore[arg-type]
