"""Single changes of lowered rules and statements, for mutation testing and coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from cep.core.errors import NOWHERE, Span
from cep.language.syntax.ast import AlertStatement, Box, DeadlineStatement, Statement, WhileRule
from cep.operators.conjunction import And
from cep.operators.pair import Pair
from cep.operators.temporal import LastingFormula, MetricFormula, MetricInterval
from cep.operators.where import RestrictedFormula, SelectPattern
from cep.plan.formula import UNARY, Formula, placed
from cep.plan.pattern import Pattern
from cep.plan.rule_edits import ABSENCE, BOUND, CONDITION, changed_durations, condition_text, span_of
from cep.rules.parameters import Parameter, Parameters
from cep.rules.printing import (
    duration_named,
    expression_named,
    print_expression,
)
from cep.rules.terms import Comparison, Constant, Variable

NEIGHBOURS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "!=", "!=": "="}
Edit = tuple[Any, Span, str]
"""A copy of a value with one change, the span of the change, and the description of the change."""
_WHOLE = ("span", "fluent", "label")
"""Fields of rules and statements that `edits` never changes."""


def edits(value: Any, own: Callable[[Any, int | None], Iterator[Edit]], bound: int | None = None) -> Iterator[Edit]:
    """Yield changed copies of a value. Each copy has one change, either of the value itself or of one of its parts.

    `own`: a function that yields the changes of one part. Its arguments are the part and the WITHIN that the part
    inherits (`bound`).
    """
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            for other, span, change in edits(part, own, bound):
                yield (*value[:place], other, *value[place + 1 :]), span, change
        return
    if not is_dataclass(value):
        return
    yield from own(value, bound)
    bound = getattr(value, "within", None)
    for part in fields(value):
        if part.name not in _WHOLE:
            for other, span, change in edits(getattr(value, part.name), own, bound):
                yield replace(value, **{part.name: other}), span, change  # type: ignore[type-var]


def with_bound(value: Any, old: int | None, new: int | None) -> Any:
    """Return a pattern in which the WITHIN `old` is replaced by `new`, also in the parts that inherited it."""
    changes: dict[str, Any] = {}
    for field in fields(value):
        own = getattr(value, field.name)
        if field.name == "within" and own == old:
            changes[field.name] = new
        elif isinstance(own, Pattern):
            changes[field.name] = with_bound(own, old, new)
    return replace(value, **changes)


def mutations(body: Pattern, parameters: Parameters) -> Iterator[Edit]:
    """Yield copies of a rule's body, each with one small change.

    A constant that comes from one of `parameters` changes by the STEP of this parameter.
    """
    return edits(body, partial(_changes, parameters))


def statement_mutations(statement: Statement, parameters: Parameters) -> Iterator[Edit]:
    """Yield copies of a deadline, formula or alert, each with one small change."""
    match statement:
        case DeadlineStatement():
            for ticks, told in changed_durations(statement.duration):
                text = f"{told} AFTER {duration_named(statement.duration)}"
                yield replace(statement, duration=ticks), statement.span, text
        case WhileRule():
            yield from edits(statement, partial(_formula_changes, parameters))
        case AlertStatement():
            yield from _alert_changes(statement)


def formula_omissions(statement: Statement) -> Iterator[tuple[str, Edit]]:
    """Yield copies of a formula, each without one of its parts. Each copy is paired with the name of the formula's
    fluent.

    Yields nothing for statements that are not formulas.
    """
    if isinstance(statement, WhileRule):
        for edit in edits(statement, _formula_without):
            yield statement.name, edit


def _formula_without(value: Any, bound: int | None) -> Iterator[Edit]:
    match value:
        case And(parts, negated):
            for place, part in enumerate(parts):
                if (left := _without_part(value, place)) is not None:
                    kind, word = (ABSENCE, "NOT ") if negated[place] else (CONDITION, "")
                    yield left, value.span, f"{kind} {word}{placed(part, UNARY)}"
        case RestrictedFormula(formula, conditions):
            for place, condition in enumerate(conditions):
                others = (*conditions[:place], *conditions[place + 1 :])
                left = replace(value, conditions=others) if others else formula
                yield left, span_of(condition, value.span), f"{CONDITION} {condition_text(condition)}"
        case LastingFormula(formula, least):
            yield formula, value.span, f"{BOUND} LASTING {duration_named(least)}"


def _without_part(value: And, place: int) -> Formula | None:
    """Return a conjunction without the part at `place`. Returns None if a negated part would then come first."""
    rest = (*value.parts[:place], *value.parts[place + 1 :])
    signs = (*value.negated[:place], *value.negated[place + 1 :])
    if signs[0]:
        return None
    return rest[0] if len(rest) == 1 else replace(value, parts=rest, negated=signs)


def _formula_changes(parameters: Parameters, value: Any, bound: int | None) -> Iterator[Edit]:
    for left, span, told in _formula_without(value, bound):
        kind, _, text = told.partition(" ")
        yield left, span, f"without {text}" if kind == BOUND else f"without `{text}`"
    match value:
        case LastingFormula():
            for ticks, told in changed_durations(value.least):
                yield replace(value, least=ticks), value.span, f"{told} LASTING {duration_named(value.least)}"
        case MetricFormula():
            for within, text in _intervals(value.within):
                yield replace(value, within=within), value.span, f"{text} of {value.operator}"
        case Box():
            for within, text in _intervals(value.within):
                yield replace(value, within=within), NOWHERE, f"{text} of {value.operator}"
        case Comparison() | Constant():
            yield from _own_changes(parameters, value)


def _intervals(within: MetricInterval) -> Iterator[tuple[MetricInterval, str]]:
    for other, told in changed_durations(within.low):
        yield replace(within, low=other), f"{told} {duration_named(within.low)}"
    for other, told in changed_durations(within.high or 0):
        yield replace(within, high=other), f"{told} {duration_named(within.high or 0)}"


def _alert_changes(alert: AlertStatement) -> Iterator[Edit]:
    def timed(word: str, ticks: int | None, change: Callable[[int], AlertStatement]) -> Iterator[Edit]:
        span = alert.clauses.get(word, alert.span)
        for other, told in changed_durations(ticks or 0):
            yield change(other), span, f"{told} {word} {duration_named(ticks or 0)}"
        if ticks and word != "FOR":
            yield change(0), span, f"without {word} {duration_named(ticks)}"

    yield from timed("FOR", alert.duration, lambda ticks: replace(alert, duration=ticks))
    yield from timed("AFTER", alert.after, lambda ticks: replace(alert, after=ticks))
    yield from timed("KEEP", alert.keep, lambda ticks: replace(alert, keep=ticks))
    for place, (severity, ticks, span) in enumerate(alert.escalations):
        for other, told in changed_durations(ticks):
            steps = (*alert.escalations[:place], (severity, other, span), *alert.escalations[place + 1 :])
            yield replace(alert, escalations=steps), span, f"{told} {duration_named(ticks)} of ESCALATE"
    if alert.inhibitor is not None:
        yield replace(alert, inhibitor=None), alert.inhibitor.span, "without INHIBITED BY"


def omissions(body: Pattern) -> Iterator[Edit]:
    """Yield copies of a rule's body, each without one of its parts. The description of each change contains the kind
    and the text of the omitted part."""
    return edits(body, _without)


def _changes(parameters: Parameters, value: Any, bound: int | None) -> Iterator[Edit]:
    yield from _own_changes(parameters, value)
    if isinstance(value, SelectPattern | Pair) and value.within not in (None, bound):
        for ticks, told in (*changed_durations(value.within or 0), (None, "without")):
            text = f"{told} WITHIN {duration_named(value.within or 0)}"
            yield with_bound(value, value.within, ticks), value.span, text


def _own_changes(parameters: Parameters, value: Any) -> Iterator[Edit]:
    match value:
        case Comparison(operator, _, _):
            other = replace(value, operator=NEIGHBOURS[operator])
            if not (operator == "=" and _binds(value)):
                yield other, value.span, f"`{condition_text(value)}` as `{condition_text(other)}`"
        case Constant(int() | float() as number, "int" | "float"):
            parameter = parameters.by_name.get(value.parameter or "")
            number = _moved(number) if parameter is None else _stepped(number, parameter)
            moved = replace(value, value=number, parameter=None)
            yield moved, value.span, f"`{expression_named(value)}` as `{print_expression(moved)}`"
        case Constant(int() as ticks, "duration"):
            for changed, told in changed_durations(ticks):
                yield replace(value, value=changed, parameter=None), value.span, f"{told} `{expression_named(value)}`"
        case Pattern():
            for left, span, kind, text in value.omissions():
                if kind in (CONDITION, ABSENCE):
                    named = text if text.isalpha() and text.isupper() else f"`{text}`"
                    yield left, span, f"without {named}"
            for changed_pattern, text in value.changes():
                yield changed_pattern, value.span, text


def _stepped(number: float, parameter: Parameter) -> float:
    """Return the value of a parameter increased by one step, or decreased if the increased value is out of range."""
    if parameter.step is None:
        return _moved(number)
    steps = (number + parameter.step, number - parameter.step)
    moved = next((step for step in steps if parameter.allows(step)), steps[0])
    return moved if isinstance(moved, int) else round(moved, 12)


def _moved(number: float) -> float:
    """Return a number increased by one unit of its last decimal place: 0.25 becomes 0.26."""
    if isinstance(number, int):
        return number + 1
    decimals = len(repr(number).partition(".")[2]) if "e" not in repr(number) else 1
    return round(number + 10.0**-decimals, decimals)


def _binds(comparison: Comparison) -> bool:
    return isinstance(comparison.left, Variable) or isinstance(comparison.right, Variable)


def _without(value: Any, bound: int | None) -> Iterator[Edit]:
    """Yield copies of a pattern, each without one condition, one absence or one time limit."""
    if isinstance(value, Pattern):
        for left, span, kind, text in value.omissions():
            yield left, span, f"{kind} {text}"
    if isinstance(value, SelectPattern | Pair) and value.within not in (None, bound):
        text = f"WITHIN {duration_named(value.within or 0)}"
        yield with_bound(value, value.within, None), value.span, f"{BOUND} {text}"


def with_conditions(value: Any, keep: Any) -> Any:
    """Return a pattern without the conditions for which `keep` returns False."""
    if isinstance(value, SelectPattern):
        rest = tuple(condition for condition in value.conditions if keep(condition))
        inner = with_conditions(value.pattern, keep)
        return replace(value, pattern=inner, conditions=rest) if rest else inner
    if isinstance(value, Pair):
        return replace(value, left=with_conditions(value.left, keep), right=with_conditions(value.right, keep))
    return value
