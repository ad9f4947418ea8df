"""Single changes of lowered rules and statements, for mutation testing and coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import author_name
from cep.language.syntax.ast import AlertStatement, Box, DeadlineStatement, Statement, WhileRule
from cep.operators.aggregate import Window
from cep.operators.conjunction import And
from cep.operators.holding import HoldingPattern
from cep.operators.pair import Pair
from cep.operators.temporal import LastingFormula, MetricFormula, MetricInterval
from cep.operators.unless import Unless
from cep.operators.where import RestrictedFormula, SelectPattern
from cep.plan.formula import UNARY, Formula, placed
from cep.plan.pattern import Pattern
from cep.rules.parameters import Parameter, Parameters
from cep.rules.printing import (
    count_named,
    duration_named,
    expression_named,
    parameters_named,
    print_condition,
    print_expression,
)
from cep.rules.terms import Comparison, Condition, Constant, PolicyChoice, Predicate, Variable, condition_variables

NEIGHBOURS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "!=", "!=": "="}
POLICIES = {"unrestricted": "recent", "recent": "chronological", "chronological": "recent"}
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


def condition_text(condition: Condition) -> str:
    """Return the text of a condition. For a graph pattern, the text only lists its variables."""
    if isinstance(condition, Predicate) and condition.graph is not None:
        return f"{{ ... }} of {', '.join(sorted(set(condition_variables(condition))))}"
    return _text(condition)


def _text(condition: Condition) -> str:
    return print_condition(parameters_named(condition))


CONDITION, ABSENCE, BOUND, WINDOW = "condition", "absence", "bound", "window"
"""The kinds of parts that can be omitted from a rule or formula."""
_ENDLESS = 1 << 50
"""The size of a window that never drops anything, in microseconds or events."""


def mutations(body: Pattern, parameters: Parameters) -> Iterator[Edit]:
    """Yield copies of a rule's body, each with one small change.

    A constant that comes from one of `parameters` changes by the STEP of this parameter.
    """
    return edits(body, partial(_changes, parameters))


def statement_mutations(statement: Statement, parameters: Parameters) -> Iterator[Edit]:
    """Yield copies of a deadline, formula or alert, each with one small change."""
    match statement:
        case DeadlineStatement():
            for ticks, told in _durations(statement.duration):
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
            for ticks, told in _durations(value.least):
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
    for other, told in _durations(within.low):
        yield replace(within, low=other), f"{told} {duration_named(within.low)}"
    for other, told in _durations(within.high or 0):
        yield replace(within, high=other), f"{told} {duration_named(within.high or 0)}"


def _alert_changes(alert: AlertStatement) -> Iterator[Edit]:
    def timed(word: str, ticks: int | None, change: Callable[[int], AlertStatement]) -> Iterator[Edit]:
        span = alert.clauses.get(word, alert.span)
        for other, told in _durations(ticks or 0):
            yield change(other), span, f"{told} {word} {duration_named(ticks or 0)}"
        if ticks and word != "FOR":
            yield change(0), span, f"without {word} {duration_named(ticks)}"

    yield from timed("FOR", alert.duration, lambda ticks: replace(alert, duration=ticks))
    yield from timed("AFTER", alert.after, lambda ticks: replace(alert, after=ticks))
    yield from timed("KEEP", alert.keep, lambda ticks: replace(alert, keep=ticks))
    for place, (severity, ticks, span) in enumerate(alert.escalations):
        for other, told in _durations(ticks):
            steps = (*alert.escalations[:place], (severity, other, span), *alert.escalations[place + 1 :])
            yield replace(alert, escalations=steps), span, f"{told} {duration_named(ticks)} of ESCALATE"
    if alert.inhibitor is not None:
        yield replace(alert, inhibitor=None), alert.inhibitor.span, "without INHIBITED BY"


def omissions(body: Pattern) -> Iterator[Edit]:
    """Yield copies of a rule's body, each without one of its parts. The description contains the kind and the text of
    the omitted part."""
    return edits(body, _without)


def _changes(parameters: Parameters, value: Any, bound: int | None) -> Iterator[Edit]:
    yield from _own_changes(parameters, value)
    if isinstance(value, SelectPattern | Pair) and value.within not in (None, bound):
        for ticks, told in (*_durations(value.within or 0), (None, "without")):
            text = f"{told} WITHIN {duration_named(value.within or 0)}"
            yield with_bound(value, value.within, ticks), value.span, text


def _own_changes(parameters: Parameters, value: Any) -> Iterator[Edit]:
    match value:
        case Comparison(operator, _, _):
            other = replace(value, operator=NEIGHBOURS[operator])
            if not (operator == "=" and _binds(value)):
                yield other, value.span, f"`{_text(value)}` as `{_text(other)}`"
        case Constant(int() | float() as number, "int" | "float"):
            parameter = parameters.by_name.get(value.parameter or "")
            number = _moved(number) if parameter is None else _stepped(number, parameter)
            moved = replace(value, value=number, parameter=None)
            yield moved, value.span, f"`{expression_named(value)}` as `{print_expression(moved)}`"
        case Constant(int() as ticks, "duration"):
            for changed, told in _durations(ticks):
                yield replace(value, value=changed, parameter=None), value.span, f"{told} `{expression_named(value)}`"
        case SelectPattern():
            for place, condition in enumerate(value.conditions):
                rest = (*value.conditions[:place], *value.conditions[place + 1 :])
                body = replace(value, conditions=rest) if rest else value.pattern
                yield body, span_of(condition, value.span), f"without `{condition_text(condition)}`"
        case Pair():
            yield from _pair_changes(value)
        case Unless():
            yield value.left, value.span, "without UNLESS"
            for ticks, told in _durations(value.duration):
                text = f"{told} WITHIN {duration_named(value.duration)} of UNLESS"
                yield replace(value, duration=ticks), value.span, text
        case HoldingPattern():
            word = "NOT " if value.negated else ""
            yield value.pattern, value.span, f"without `{word}{author_name(value.fluent.event)}`"
        case Window() if value.events is not None:
            for count in (value.events - 1, value.events + 1):
                if count > 0:
                    text = f"LAST {count_named(value.events)} EVENTS as LAST {count} EVENTS"
                    yield replace(value, events=count), value.span, text
        case Window() if value.duration is not None:
            for ticks, told in _durations(value.duration or 0):
                text = f"{told} the window of {duration_named(value.duration or 0)}"
                yield replace(value, duration=ticks), value.span, text


def _pair_changes(value: Pair) -> Iterator[Edit]:
    if value.relation == "SEQ":
        yield replace(value, relation="AND", gap=None), value.span, "SEQ as AND"
    if value.absent is not None:
        yield replace(value, absent=None), value.span, "without NOT"
    name = POLICIES[value.policy.name]
    yield replace(value, policy=PolicyChoice(name)), value.span, f"policy {value.policy.name} as {name}"
    left, right = (set(side.properties().binds) for side in (value.left, value.right))
    for name in sorted(left & right):
        if not name.startswith("_"):
            split = value.right.renamed({name: f"{name}_apart"})
            yield replace(value, right=split), value.span, f"`{name}` of both sides as two variables"


def _durations(ticks: int) -> tuple[tuple[int, str], ...]:
    durations = ((ticks - 1, "a tick less than"), (ticks + 1, "a tick more than"), (ticks // 2, "half of"))
    return tuple((changed, told) for changed, told in durations if 0 < changed != ticks) if ticks else ()


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


def span_of(condition: Condition, other: Span) -> Span:
    return getattr(condition, "span", other)


def _without(value: Any, bound: int | None) -> Iterator[Edit]:
    """Yield copies of a pattern, each without one condition, one absence or one time limit."""
    match value:
        case SelectPattern():
            for place, condition in enumerate(value.conditions):
                rest = (*value.conditions[:place], *value.conditions[place + 1 :])
                body = replace(value, conditions=rest) if rest else value.pattern
                yield body, span_of(condition, value.span), f"{CONDITION} {condition_text(condition)}"
        case Pair() if value.absent is not None:
            yield replace(value, absent=None), value.span, f"{ABSENCE} NOT"
        case Unless():
            yield value.left, value.span, f"{ABSENCE} UNLESS"
        case HoldingPattern():
            kind, word = (ABSENCE, "NOT ") if value.negated else (CONDITION, "")
            yield value.pattern, value.span, f"{kind} {word}{author_name(value.fluent.event)}"
        case Window() if value.over is None and value.events is not None:
            yield replace(value, events=_ENDLESS), value.span, f"{WINDOW} LAST {count_named(value.events)} EVENTS"
        case Window() if value.over is None and value.duration is not None:
            text = f"{WINDOW} LAST {duration_named(value.duration)}"
            yield replace(value, duration=_ENDLESS), value.span, text
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
