"""Translation of clause bodies to patterns and conditions: events at T, fluents at T, and knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cep.core.errors import Span
from cep.language.dialects.rtec.circular_ends import CircularEnds
from cep.language.dialects.rtec.description import AtemporalRule, Clause, flat, fluent, refused, timed
from cep.language.dialects.rtec.signatures import COMPARISONS, EDGES, Signatures
from cep.language.dialects.rtec.terms import Compound, Many, Term, Var, term_variables
from cep.language.dialects.rtec.types import Types
from cep.language.syntax import ast
from cep.operators.supports import FormulaAtom
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Disjunction,
    Predicate,
    StaticRule,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Body:
    """A pattern with conditions. `variables`: those that the body binds."""

    events: ast.PatternTree
    conditions: tuple[Condition, ...]
    variables: frozenset[str]

    @property
    def pattern(self) -> ast.PatternTree:
        return ast.Where(self.events, self.conditions, self.events.span) if self.conditions else self.events

    def given(self, more: Sequence[Condition]) -> Body:
        """Return the body with `more` conditions before its own."""
        return replace(self, conditions=(*more, *self.conditions))


def lone(terms: Sequence[Term], used: Sequence[str]) -> tuple[Term, ...]:
    """Replace the variables that occur only once in the clause by `_`. `used`: all occurrences of variables in the
    clause."""
    return tuple(
        Var("_", each.span) if isinstance(each, Var) and used.count(each.name) <= 1 else each for each in terms
    )


class ConditionConverter:
    """Converter of clause bodies to our own conditions."""

    def __init__(self, known: Signatures, types: Types, ends: CircularEnds) -> None:
        self.known, self.types, self.ends, self.source = known, types, ends, known.source
        self.absent: dict[str, Span] = {}
        self.edges: dict[tuple[str, str], Span] = {}

    # --- conditions at one time ---

    def body(self, clause: Clause) -> Body:
        """Convert the body of a rule about one time T. Raises CepError."""
        used = _used(clause)
        pattern: ast.PatternTree | None = None
        conditions: list[Condition] = []
        bound: set[str] = set()
        for each in clause.body:
            assert isinstance(each, Compound), "what is none was refused"
            if clause.time is not None and each.name not in ("happensAt", "holdsAt", "\\+"):
                time = term_variables(clause.time)
                if set(time) & set(term_variables(each)):
                    raise refused(self.source, "the time of an event is not a value here", each.span,
                                  "how long something holds is said by `fi` and `intDurGreater`")  # fmt: skip
            if each.name == "happensAt":
                timed(self.source, each, clause.time)
                event = self.event(each.arguments[0], used, clause)
                pattern = event if pattern is None else ast.Binary("EQUALS", pattern, event, each.span)
                bound.update(term_variables(each.arguments[0]))
                continue
            negated = each.name == "\\+"
            inner = each.arguments[0] if negated else each
            assert isinstance(inner, Compound), "what is none was refused"
            if inner.name == "happensAt":
                timed(self.source, inner, clause.time)
                conditions.append(self.none(inner, used))
            elif inner.name == "holdsAt":
                timed(self.source, inner, clause.time)
                conditions.append(self.holds(inner, negated, used))
            elif inner.name == "holdsFor":
                raise refused(self.source, "`holdsFor` defines fluents, and asks nothing at one time", each.span,
                              "`holdsAt(F=V, T)`")  # fmt: skip
            else:
                conditions += self.timeless(each, used)
            if not negated:
                bound.update(term_variables(each))
        if pattern is None:
            raise refused(self.source, "nothing happens in this rule", clause.head_span,
                          "the first condition is an event: `happensAt(gap_start(V), T)`")  # fmt: skip
        bound.difference_update(term_variables(clause.time) if clause.time is not None else ())
        return Body(pattern, tuple(conditions), frozenset(bound))

    def event(self, term: Term, used: Sequence[str], clause: Clause) -> ast.EventPattern:
        assert isinstance(term, Compound), "what is none was refused"
        if term.name in EDGES and len(term.arguments) == 1:
            found = fluent(self.source, term.arguments[0])
            name, arguments = flat(self.source, found.term)
            *given, value = self.types.arguments(name, lone((*arguments, found.value), used))
            head = clause.event if clause.fluent is None else clause.fluent.term
            ended = None if head is None else self.ends.event(name, flat(self.source, head)[0])
            if term.name == "end" and ended is not None:
                return ast.EventPattern(ended, (*given, value), None, term.span)
            return ast.EventPattern(name, tuple(given), None, term.span, value, EDGES[term.name])
        name, arguments = flat(self.source, term)
        return ast.EventPattern(name, self.types.arguments(name, lone(arguments, used)), None, term.span)

    def none(self, term: Compound, used: Sequence[str]) -> Condition:
        r"""Convert `\+ happensAt(E, T)` to the negation of a fluent that holds at the instants of E."""
        event = term.arguments[0]
        assert isinstance(event, Compound), "what is none was refused"
        if event.name in EDGES and len(event.arguments) == 1:
            found = fluent(self.source, event.arguments[0])
            name, arguments = flat(self.source, found.term)
            terms = (*arguments, found.value)
            self.edges.setdefault((name, event.name), event.span)
            asked = f"{event.name}_{name}"
            self.absent.setdefault(asked, event.span)
            return Predicate(f"happens_{asked}", self.types.arguments(name, lone(terms, used)), True, term.span)
        name, terms = flat(self.source, event)
        self.absent.setdefault(name, event.span)
        return Predicate(f"happens_{name}", self.types.arguments(name, lone(terms, used)), True, term.span)

    def holds(self, term: Compound, negated: bool, used: Sequence[str]) -> Condition:
        found = fluent(self.source, term.arguments[0])
        name, arguments = flat(self.source, found.term)
        *given, value = self.types.arguments(name, lone((*arguments, found.value), used))
        call = Call(name, tuple(given), found.span)
        return Comparison("!=" if negated else "=", call, value, term.span)

    def helpers(self) -> list[ast.Statement]:
        r"""Return, for each event under `\+`, a fluent that holds at the event's instants."""
        made: list[ast.Statement] = []
        for (name, edge), span in self.edges.items():
            names = tuple(Variable(f"X{at + 1}") for at in range(self.known.arities[name]))
            pattern = ast.EventPattern(name, names[:-1], None, span, names[-1], EDGES[edge])
            made.append(ast.EventRule(f"{edge}_{name}", names, pattern, None, span, span))
        for name, span in self.absent.items():
            of = next((known for known, edge in self.edges if name == f"{edge}_{known}"), name)
            arity = self.known.arities[of]
            names = tuple(Variable(f"X{at + 1}") for at in range(arity))
            types = [self.types.type(("argument", of, at)) for at in range(arity)]
            attributes = tuple(ast.AttributeTree(f"arg{at + 1}", type) for at, type in enumerate(types))
            made.append(ast.FluentDeclaration(f"happens_{name}", attributes, None, span=span))
            made.append(
                ast.WhileRule(f"happens_{name}", names, None, (), FormulaAtom(name, names, span=span), span, span)
            )
        return made

    # --- knowledge ---

    def atemporal(self, clause: Clause) -> tuple[Condition, ...]:
        """Convert the body of a clause without a time."""
        used = _used(clause)
        return tuple(made for each in clause.body for made in self.timeless(each, used))

    def static(self, rule: AtemporalRule) -> StaticRule:
        """Convert an atemporal rule or a fact."""
        used = [name for each in (rule.head, *rule.body) for name in term_variables(each)]
        conditions = tuple(made for each in rule.body for made in self.timeless(each, used))
        name, arguments = flat(self.source, rule.head)
        bound = {name for each in rule.body for name in term_variables(each)}
        for each in arguments:
            if isinstance(each, Var) and each.name not in bound:
                raise refused(self.source, f"`{each.name}` has no value: the body does not bind it", each.span,
                              "each variable of the head stands in the body, too")  # fmt: skip
        return StaticRule(name, self.types.arguments(name, arguments), conditions, rule.span)

    def timeless(self, term: Term, used: Sequence[str]) -> list[Condition]:
        """Convert a condition without a time. Raises CepError."""
        assert isinstance(term, Compound), "what is none was refused"
        negated = term.name == "\\+"
        inner = term.arguments[0] if negated else term
        assert isinstance(inner, Compound), "what is none was refused"
        name, arguments = inner.name, inner.arguments
        if name in ("happensAt", "holdsAt", "holdsFor"):
            raise refused(self.source, f"a rule without a time has no `{name}`", inner.span)
        if name == "grounding":
            return self.grounding(inner, negated)
        if name in ("member", "memberchk") and isinstance(arguments[1], Many):
            return self.member(inner, arguments[0], arguments[1], negated)
        if name in COMPARISONS and len(arguments) == 2:
            return [self.comparison(inner, negated)]
        name, flattened = flat(self.source, inner)
        return [Predicate(name, self.types.arguments(name, lone(flattened, used)), negated, term.span)]

    def grounding(self, term: Compound, negated: bool) -> list[Condition]:
        asked = term.arguments[0]
        if not isinstance(asked, Compound) or asked.name != "=":
            return []  # events need no grounding: those that arrive are used
        found = fluent(self.source, asked)
        name, arguments = flat(self.source, found.term)
        if not self.known.grounded(name):
            raise refused(self.source, f"`{name}` has no grounding", term.span, "`grounding(F=V) :- ..`")
        values = self.types.arguments(name, (*arguments, found.value))
        return [Predicate(self.known.ground(name), values, negated, term.span)]

    def member(self, term: Compound, what: Term, among: Many, negated: bool) -> list[Condition]:
        type = self.type_of([what, *among.items])
        left = self.types.expression(what, type)
        values = [self.types.expression(each, type) for each in among.items]
        operator = "!=" if negated else "="
        tests = [Comparison(operator, left, value, term.span) for value in values]
        if negated or len(tests) == 1:
            return list(tests)
        return [Disjunction(tuple((each,) for each in tests), (), term.span)]

    def comparison(self, term: Compound, negated: bool) -> Condition:
        if any(isinstance(each, Many) for each in term.arguments):
            raise refused(self.source, "lists are not compared here", term.span)
        operator = COMPARISONS[term.name]
        if negated:
            operator = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
        type = self.type_of(term.arguments)
        left, right = (self.types.expression(each, type) for each in term.arguments)
        return Comparison(operator, left, right, term.span)

    def type_of(self, terms: Sequence[Term]) -> str:
        """Return the type of the constants in a comparison."""
        kinds = {"text" for each in terms if isinstance(each, Compound) and not each.arguments}
        return "string" if kinds else "any"


def _used(clause: Clause) -> list[str]:
    """Return the variables of a clause, with repetitions."""
    found = [name for each in clause.body for name in term_variables(each)]
    if clause.fluent is not None:
        found += [*term_variables(clause.fluent.term), *term_variables(clause.fluent.value)]
    if clause.event is not None:
        found += term_variables(clause.event)
    return found
