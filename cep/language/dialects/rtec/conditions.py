"""Translation of clause bodies to patterns and conditions: events at T, fluents at T, and background knowledge."""

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
    """The translated body of a clause: a pattern, and conditions on its matches.

    `variables`: the variables to which the body gives a value.
    """

    events: ast.PatternTree
    conditions: tuple[Condition, ...]
    variables: frozenset[str]

    @property
    def pattern(self) -> ast.PatternTree:
        return ast.Where(self.events, self.conditions, self.events.span) if self.conditions else self.events

    def given(self, more: Sequence[Condition]) -> Body:
        """Return a copy of the body, with `more` conditions before the existing ones."""
        return replace(self, conditions=(*more, *self.conditions))


def lone(terms: Sequence[Term], used: Sequence[str]) -> tuple[Term, ...]:
    """Replace each variable that occurs only once in the clause by `_`.

    `used`: the names of the clause's variables, one for each occurrence.
    """
    return tuple(
        Var("_", term.span) if isinstance(term, Var) and used.count(term.name) <= 1 else term for term in terms
    )


class ConditionConverter:
    """Converter of clause bodies to patterns and conditions of our own language."""

    def __init__(self, known: Signatures, types: Types, ends: CircularEnds) -> None:
        self.known, self.types, self.ends, self.source = known, types, ends, known.source
        self.absent: dict[str, Span] = {}
        self.edges: dict[tuple[str, str], Span] = {}

    # --- conditions at one time ---

    def body(self, clause: Clause) -> Body:
        """Convert the body of a clause to a pattern and conditions. All conditions of the clause must refer to the time
        of its head. Raises CepError for a condition that is not supported."""
        used = _used(clause)
        pattern: ast.PatternTree | None = None
        conditions: list[Condition] = []
        bound: set[str] = set()
        for condition in clause.body:
            assert isinstance(condition, Compound), "what is none was refused"
            if clause.time is not None and condition.name not in ("happensAt", "holdsAt", "\\+"):
                time = term_variables(clause.time)
                if set(time) & set(term_variables(condition)):
                    raise refused(self.source, "the time of an event cannot be used as a value", condition.span,
                                  "use `fi` or `intDurGreater` for how long something holds")  # fmt: skip
            if condition.name == "happensAt":
                timed(self.source, condition, clause.time)
                event = self.event(condition.arguments[0], used, clause)
                pattern = event if pattern is None else ast.Binary("EQUALS", pattern, event, condition.span)
                bound.update(term_variables(condition.arguments[0]))
                continue
            negated = condition.name == "\\+"
            inner = condition.arguments[0] if negated else condition
            assert isinstance(inner, Compound), "what is none was refused"
            if inner.name == "happensAt":
                timed(self.source, inner, clause.time)
                conditions.append(self.none(inner, used))
            elif inner.name == "holdsAt":
                timed(self.source, inner, clause.time)
                conditions.append(self.holds(inner, negated, used))
            elif inner.name == "holdsFor":
                raise refused(self.source, "`holdsFor` cannot be a condition of a rule about one time", condition.span,
                              "use `holdsAt(F=V, T)`")  # fmt: skip
            else:
                conditions += self.timeless(condition, used)
            if not negated:
                bound.update(term_variables(condition))
        if pattern is None:
            raise refused(self.source, "this rule has no event", clause.head_span,
                          "the first condition must be an event: `happensAt(gap_start(V), T)`")  # fmt: skip
        bound.difference_update(term_variables(clause.time) if clause.time is not None else ())
        return Body(pattern, tuple(conditions), frozenset(bound))

    def event(self, term: Term, used: Sequence[str], clause: Clause) -> ast.EventPattern:
        assert isinstance(term, Compound), "what is none was refused"
        if term.name in EDGES and len(term.arguments) == 1:
            fluent_value = fluent(self.source, term.arguments[0])
            name, arguments = flat(self.source, fluent_value.term)
            *key_terms, value = self.types.arguments(name, lone((*arguments, fluent_value.value), used))
            head = clause.event if clause.fluent is None else clause.fluent.term
            ended = None if head is None else self.ends.event(name, flat(self.source, head)[0])
            if term.name == "end" and ended is not None:
                return ast.EventPattern(ended, (*key_terms, value), None, term.span)
            return ast.EventPattern(name, tuple(key_terms), None, term.span, value, EDGES[term.name])
        name, arguments = flat(self.source, term)
        return ast.EventPattern(name, self.types.arguments(name, lone(arguments, used)), None, term.span)

    def none(self, term: Compound, used: Sequence[str]) -> Condition:
        r"""Convert `\+ happensAt(E, T)` to a negated condition on an auxiliary fluent, which holds at the instants of
        E."""
        event = term.arguments[0]
        assert isinstance(event, Compound), "what is none was refused"
        if event.name in EDGES and len(event.arguments) == 1:
            fluent_value = fluent(self.source, event.arguments[0])
            name, arguments = flat(self.source, fluent_value.term)
            terms = (*arguments, fluent_value.value)
            self.edges.setdefault((name, event.name), event.span)
            asked = f"{event.name}_{name}"
            self.absent.setdefault(asked, event.span)
            return Predicate(f"happens_{asked}", self.types.arguments(name, lone(terms, used)), True, term.span)
        name, terms = flat(self.source, event)
        self.absent.setdefault(name, event.span)
        return Predicate(f"happens_{name}", self.types.arguments(name, lone(terms, used)), True, term.span)

    def holds(self, term: Compound, negated: bool, used: Sequence[str]) -> Condition:
        fluent_value = fluent(self.source, term.arguments[0])
        name, arguments = flat(self.source, fluent_value.term)
        *key_terms, value = self.types.arguments(name, lone((*arguments, fluent_value.value), used))
        call = Call(name, tuple(key_terms), fluent_value.span)
        return Comparison("!=" if negated else "=", call, value, term.span)

    def helpers(self) -> list[ast.Statement]:
        r"""Return the statements that define one auxiliary fluent for each event under `\+`. The fluent holds at the
        event's instants."""
        statements: list[ast.Statement] = []
        for (name, edge), span in self.edges.items():
            names = tuple(Variable(f"X{index + 1}") for index in range(self.known.arities[name]))
            pattern = ast.EventPattern(name, names[:-1], None, span, names[-1], EDGES[edge])
            statements.append(ast.EventRule(f"{edge}_{name}", names, pattern, None, span, span))
        for name, span in self.absent.items():
            of = next((known for known, edge in self.edges if name == f"{edge}_{known}"), name)
            arity = self.known.arities[of]
            names = tuple(Variable(f"X{index + 1}") for index in range(arity))
            types = [self.types.type(("argument", of, index)) for index in range(arity)]
            attributes = tuple(ast.AttributeTree(f"arg{index + 1}", type) for index, type in enumerate(types))
            statements.append(ast.FluentDeclaration(f"happens_{name}", attributes, None, span=span))
            statements.append(
                ast.WhileRule(f"happens_{name}", names, None, (), FormulaAtom(name, names, span=span), span, span)
            )
        return statements

    # --- knowledge ---

    def atemporal(self, clause: Clause) -> tuple[Condition, ...]:
        """Convert the body of a clause to conditions that do not depend on time."""
        used = _used(clause)
        return tuple(condition for term in clause.body for condition in self.timeless(term, used))

    def static(self, rule: AtemporalRule) -> StaticRule:
        """Convert an atemporal rule or a fact."""
        used = [name for term in (rule.head, *rule.body) for name in term_variables(term)]
        conditions = tuple(condition for term in rule.body for condition in self.timeless(term, used))
        name, arguments = flat(self.source, rule.head)
        bound = {name for term in rule.body for name in term_variables(term)}
        for argument in arguments:
            if isinstance(argument, Var) and argument.name not in bound:
                raise refused(self.source, f"`{argument.name}` has no value: the body does not bind it", argument.span,
                              "each variable of the head must also be in the body")  # fmt: skip
        return StaticRule(name, self.types.arguments(name, arguments), conditions, rule.span)

    def timeless(self, term: Term, used: Sequence[str]) -> list[Condition]:
        """Convert a condition that has no time. Raises CepError if it is not supported."""
        assert isinstance(term, Compound), "what is none was refused"
        negated = term.name == "\\+"
        inner = term.arguments[0] if negated else term
        assert isinstance(inner, Compound), "what is none was refused"
        name, arguments = inner.name, inner.arguments
        if name in ("happensAt", "holdsAt", "holdsFor"):
            raise refused(self.source, f"a rule without a time cannot have `{name}`", inner.span)
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
        fluent_value = fluent(self.source, asked)
        name, arguments = flat(self.source, fluent_value.term)
        if not self.known.grounded(name):
            raise refused(self.source, f"`{name}` has no grounding", term.span, "add `grounding(F=V) :- ..`")
        values = self.types.arguments(name, (*arguments, fluent_value.value))
        return [Predicate(self.known.ground(name), values, negated, term.span)]

    def member(self, term: Compound, what: Term, among: Many, negated: bool) -> list[Condition]:
        type = self.type_of([what, *among.items])
        left = self.types.expression(what, type)
        values = [self.types.expression(item, type) for item in among.items]
        operator = "!=" if negated else "="
        tests = [Comparison(operator, left, value, term.span) for value in values]
        if negated or len(tests) == 1:
            return list(tests)
        return [Disjunction(tuple((test,) for test in tests), (), term.span)]

    def comparison(self, term: Compound, negated: bool) -> Condition:
        if any(isinstance(argument, Many) for argument in term.arguments):
            raise refused(self.source, "lists cannot be compared", term.span)
        operator = COMPARISONS[term.name]
        if negated:
            operator = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
        type = self.type_of(term.arguments)
        left, right = (self.types.expression(argument, type) for argument in term.arguments)
        return Comparison(operator, left, right, term.span)

    def type_of(self, terms: Sequence[Term]) -> str:
        """Return the common type of the values in a comparison: `string` if one of them is a text constant, otherwise
        `any`."""
        kinds = {"text" for term in terms if isinstance(term, Compound) and not term.arguments}
        return "string" if kinds else "any"


def _used(clause: Clause) -> list[str]:
    names = [name for term in clause.body for name in term_variables(term)]
    if clause.fluent is not None:
        names += [*term_variables(clause.fluent.term), *term_variables(clause.fluent.value)]
    if clause.event is not None:
        names += term_variables(clause.event)
    return names
