"""Lowering of `held(moving(V), T)` in a WHERE. This condition tests if a fluent holds at the time T.

The module also calculates how far T can lie before the end of a match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from cep.core.errors import Span
from cep.core.suggest import did_you_mean
from cep.operators.event import Atom
from cep.operators.held_at import HeldAtPattern
from cep.operators.holding import HoldingPattern
from cep.operators.where import SelectPattern
from cep.plan.pattern import Pattern, variables
from cep.rules.printing import print_expression
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Predicate,
    Variable,
    condition_variables,
    expression_variables,
)

WORD = "held"
FORM = "`held(moving(V), start())`, `held(location(P) = X, end() - 5 s)`"
Asked = tuple[str, tuple[Expression, ...], bool]
"""A tested fluent: its name, its arguments, and True if the test is negated. A fluent's value is its last argument."""


class KnownFluents(Protocol):
    """The part of `cep.language.fluents.Fluents` that this module needs."""

    @property
    def declared(self) -> Collection[str]: ...
    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None: ...
    def fits(self, name: str, arguments: int, value: Expression | None, span: Span) -> None: ...
    def asked_atom(self, asked: Asked, span: Span) -> Atom: ...
    def instant(self, event: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class AskedAt:
    """A condition `held(fluent, time)`."""

    fluent: Asked
    time: Expression
    span: Span

    @property
    def fresh(self) -> set[str]:
        """The variables that the condition binds unless another part of the rule binds them."""
        return set() if self.fluent[2] else {n for argument in self.fluent[1] for n in expression_variables(argument)}


class HeldConditions:
    """The `held(..)` conditions of a program. `own`: True if the program has its own predicate `held`, which takes
    precedence."""

    def __init__(self, fluents: KnownFluents, own: bool) -> None:
        self.fluents, self.own = fluents, own
        self.times = 0

    def is_one(self, condition: Condition) -> bool:
        """Return True if a condition tests a fluent by `held(...)`."""
        if not isinstance(condition, Predicate) or condition.name != WORD or condition.graph is not None:
            return False
        if self.own or WORD in self.fluents.declared or not self.fluents.declared:
            return bool(condition.arguments) and _fluent(condition.arguments[0]) in self.fluents.declared
        return True

    def of(self, condition: Condition) -> AskedAt | None:
        """Return the parts of a `held(...)` condition. If the condition has a mistake, report it and return None. Also
        return None for any other condition."""
        if not self.is_one(condition):
            return None
        assert isinstance(condition, Predicate), "it was asked"
        if len(condition.arguments) != 2:
            message = f"`held` needs a fluent and a time, but here it has {len(condition.arguments)} arguments"
            self.fluents.error(message, condition.span, f"{FORM}; at `end()`, write the fluent alone", "arity")
            return None
        asked, time = condition.arguments
        name = _fluent(asked)
        if name is None or (name not in self.fluents.declared and isinstance(asked, Constant)):
            hint = did_you_mean(name, self.fluents.declared) if name else None
            self.fluents.error("`held` needs a fluent first, then a time", asked.span, hint or FORM)
            return None
        value, negated, inner = None, condition.negated, asked
        if isinstance(asked, Call) and asked.function in ("=", "!="):
            inner, value = asked.arguments
            negated ^= asked.function == "!="
        arguments = inner.arguments if isinstance(inner, Call) else ()
        self.fluents.fits(name, len(arguments), value, asked.span)
        return AskedAt((name, (*arguments, *([] if value is None else [value])), negated), time, condition.span)

    def refuse(self, condition: Condition) -> bool:
        """Report a `held` condition that is outside the WHERE of an event pattern. Return True if `condition` is a
        `held` condition, otherwise False."""
        if not self.is_one(condition):
            return False
        hint = "in a formula, `ONCE[5 s, 5 s] moving(V)` means that it held 5 s ago"
        self.fluents.error("`held` can stand only in a WHERE of an event rule", condition.span, hint)
        return True

    def before(
        self, pattern: Pattern, asked: Sequence[AskedAt], rest: tuple[Condition, ...], within: int | None, span: Span
    ) -> tuple[Pattern, tuple[Condition, ...]]:
        """Add the positive `held` conditions to a pattern. Return the new pattern, and the conditions that the caller
        still has to add.

        `asked`: the positive `held` conditions. `rest`: the other conditions of the WHERE. If a condition in `rest`
        determines the time of a `held` condition, it is added to the pattern first.
        """
        every, waiting = rest, list(asked)
        while waiting:
            bound = variables(pattern)
            ready = [question for question in waiting if bound.issuperset(expression_variables(question.time))]
            if ready:
                waiting.remove(ready[0])
                pattern = self.at(pattern, ready[0], every, within)
                continue
            later = _later(rest, {name for question in waiting for name in question.fresh} - bound)
            early = tuple(condition for condition in rest if condition not in later)
            if not early:
                missing = next(n for n in expression_variables(waiting[0].time) if n not in bound)
                hint = f"bind it: `{missing} = start()`, or an attribute that is a time"
                self.fluents.error(f"`{missing}` is not bound, but `held` needs a known time", span, hint)
                return pattern, rest
            pattern, rest = SelectPattern(pattern, early, within, span), later
        return pattern, rest

    def at(self, pattern: Pattern, asked: AskedAt, beside: tuple[Condition, ...], within: int | None) -> Pattern:
        """Add one `held` condition to a pattern. `beside`: the other conditions of the same WHERE, which can limit the
        tested time."""
        time, span = asked.time, asked.span
        fluent = self.fluents.asked_atom(asked.fluent, span)
        if time == Call("end", ()):
            return HoldingPattern(pattern, fluent, asked.fluent[2], None, span)
        back = self.back(pattern, time, beside)
        if isinstance(time, Variable) and time.name != "_":
            name = time.name
        else:
            name, self.times = f"at'{self.times}", self.times + 1
            pattern = SelectPattern(pattern, (Comparison("=", Variable(name, time.span), time, span),), within, span)
        written = print_expression(time)
        return HeldAtPattern(pattern, fluent, asked.fluent[2], None, span, name, back, asked.fluent[0], written)

    # --- how far back ---

    def back(self, pattern: Pattern, time: Expression, beside: tuple[Condition, ...]) -> int | None:
        """Return how far `time` can lie before the end of a match, in microseconds. Return None if it is unlimited."""
        bound = _bound(time, lambda name, seen: _of_conditions(name, beside, seen) or _of_pattern(name, pattern, seen))
        if bound is None:
            return None
        lag = bound.lag
        if bound.of_start:
            length = self.longest(pattern)
            if length is None:
                return None
            lag += length
        return max(lag, 0)

    def longest(self, pattern: Pattern) -> int | None:
        """Return the longest duration that a match of a pattern can have, in microseconds. Return None if the duration
        is unlimited."""
        bounds = [] if pattern.within is None else [pattern.within]
        while isinstance(pattern, SelectPattern | HoldingPattern):
            pattern = pattern.pattern
            bounds += [] if pattern.within is None else [pattern.within]
        event = pattern.properties().event
        if event is not None and self.fluents.instant(event):
            return 0
        return min(bounds, default=None)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A lower bound for a time.

    `lag`: the maximum distance in microseconds from the time to the end of a match, or to its start if `of_start` is
    True.
    """

    of_start: bool
    lag: int


Search = Callable[[str, frozenset[str]], _Bound | None]


def _fluent(expression: Expression) -> str | None:
    """Return the name of the fluent in `f(X)`, `f(X) = v` or `f`. Return None for any other expression."""
    match expression:
        case Call("=" | "!=", (inner, _)):
            return _fluent(inner)
        case Call(function):
            return function
        case Constant(str() as name, "string"):
            return name
    return None


def _later(conditions: tuple[Condition, ...], fresh: set[str]) -> tuple[Condition, ...]:
    """Return the conditions that read a variable of `fresh`, directly or through the value of another variable."""
    later: tuple[Condition, ...] = ()
    while True:
        more = tuple(condition for condition in conditions if fresh.intersection(condition_variables(condition)))
        if more == later:
            return later
        later = more
        for condition in more:
            if isinstance(condition, Comparison) and condition.operator == "=":
                fresh = fresh | {side.name for side in (condition.left, condition.right) if isinstance(side, Variable)}
            elif isinstance(condition, Predicate) and not condition.negated:
                fresh = fresh | set(condition_variables(condition))


def _bound(time: Expression, search: Search, seen: frozenset[str] = frozenset()) -> _Bound | None:
    match time:
        case Call("end", ()):
            return _Bound(False, 0)
        case Call("start", ()):
            return _Bound(True, 0)
        case Variable(name) if name not in seen:
            return search(name, seen | {name})
        case Call("-", (left, Constant(int() as by, "duration"))):
            bound = _bound(left, search, seen)
            return None if bound is None else _Bound(bound.of_start, bound.lag + by)
        case Call("+", (left, Constant(int() as by, "duration"))) | Call(
            "+", (Constant(int() as by, "duration"), left)
        ):
            bound = _bound(left, search, seen)
            return None if bound is None else _Bound(bound.of_start, bound.lag - by)
    return None


def _of_conditions(name: str, conditions: Sequence[Condition], seen: frozenset[str]) -> _Bound | None:
    """Return the bound that `conditions` set for the time in the variable `name`. Return None if they set no bound."""
    for condition in conditions:
        if not isinstance(condition, Comparison):
            continue
        for side, operators, other in (
            (condition.left, "= >= >", condition.right),
            (condition.right, "= <= <", condition.left),
        ):
            if side == Variable(name) and condition.operator in operators.split():
                bound = _bound(other, lambda more, known: _of_conditions(more, conditions, known), seen)
                if bound is not None:
                    return bound
    return None


def _of_pattern(name: str, pattern: Pattern, seen: frozenset[str]) -> _Bound | None:
    """Return the bound that the conditions inside a pattern set for the time in the variable `name`. Return None if
    they set no bound."""
    if isinstance(pattern, SelectPattern):
        return _of_conditions(name, pattern.conditions, seen) or _of_pattern(name, pattern.pattern, seen)
    if isinstance(pattern, HoldingPattern):
        return _of_pattern(name, pattern.pattern, seen)
    properties = pattern.properties()
    if properties.results or name not in variables(pattern):
        return None
    inside = properties.parts if properties.alternatives else properties.through
    parts = [_of_pattern(name, part, seen) for part in inside]
    known = [part for part in parts if part is not None]
    if not known or (properties.alternatives and len(known) < len(parts)):
        return None
    lags = [part.lag for part in known]
    return _Bound(True, max(lags) if properties.alternatives else min(lags))
