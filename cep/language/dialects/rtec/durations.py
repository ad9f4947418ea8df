"""Conditions that select intervals by their duration: `intDurGreater`, `intDurLess`, and the equivalent `findall`."""

from __future__ import annotations

from dataclasses import dataclass

from cep.core.errors import Span
from cep.language.dialects.rtec.terms import Compound, Term, Var, conjuncts
from cep.operators.conjunction import And
from cep.operators.temporal import LastingFormula
from cep.plan.formula import Formula

FINDALL = "findall((S,E), (member((S,E), I1), D is E-S, D > 10), I)"
"""The only form of `findall` that is supported."""
_OPPOSITE = {">": "<", ">=": "=<", "<": ">", "=<": ">="}


@dataclass(frozen=True, slots=True)
class Durations:
    """A selection of intervals by their duration.

    - `intervals`: the variable of the list of intervals.
    - `operator`: `>`, `>=`, `<` or `=<`, which compares the duration of an interval with `length`.
    - `length`: a number of ticks.
    """

    intervals: Term
    operator: str
    length: Term


def durations(term: Compound) -> Durations | None:
    """Return the selection of intervals that a term expresses. Return None if the term is not such a selection."""
    arguments = term.arguments
    if len(arguments) != 3:
        return None
    if term.name == "findall":
        return _found(arguments[0], conjuncts(arguments[1]))
    operator = {"intDurGreater": ">", "intDurLess": "<"}.get(term.name)
    return None if operator is None else Durations(arguments[0], operator, arguments[1])


def _found(pair: Term, goals: list[Term]) -> Durations | None:
    if not (
        isinstance(pair, Compound)
        and pair.name == ","
        and all(isinstance(argument, Var) for argument in pair.arguments)
    ):
        return None
    start, end = pair.arguments
    length = Compound("-", (end, start))
    member, *rest = goals
    if not (isinstance(member, Compound) and member.name == "member" and len(member.arguments) == 2):
        return None
    if member.arguments[0] != pair or not isinstance(member.arguments[1], Var):
        return None
    rest = [condition for condition in rest if condition != Compound("\\=", (end, Compound("inf")))]
    if len(rest) == 2 and isinstance(rest[0], Compound) and rest[0].name == "is" and rest[0].arguments[1] == length:
        length, rest = rest[0].arguments[0], rest[1:]  # type: ignore[assignment]
    (test,) = rest if len(rest) == 1 else (None,)
    if not (isinstance(test, Compound) and test.name in _OPPOSITE and len(test.arguments) == 2):
        return None
    left, right = test.arguments
    if left == length:
        return Durations(member.arguments[1], test.name, right)
    return Durations(member.arguments[1], _OPPOSITE[test.name], left) if right == length else None


def lasting(formula: Formula, operator: str, length: int, span: Span) -> Formula:
    """Return a formula that holds during those intervals of `formula` that have a certain duration.

    An interval is selected if its duration is `>`, `>=`, `<` or `=<` (`operator`) `length` microseconds.
    """
    if operator in (">", ">="):
        return LastingFormula(formula, length, operator == ">", span)
    return And((formula, LastingFormula(formula, length, operator == "=<", span)), (False, True), span)
