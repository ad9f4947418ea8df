"""Small changes of patterns and statements, for mutation testing and coverage."""

from __future__ import annotations

from cep.core.errors import Span
from cep.rules.printing import parameters_named, print_condition
from cep.rules.terms import Condition, Predicate, condition_variables

CONDITION, ABSENCE, BOUND, WINDOW = "condition", "absence", "bound", "window"
"""The kinds of parts that can be omitted from a rule or formula."""
ENDLESS = 1 << 50
"""The size of a window that never drops anything, in microseconds or events."""


def condition_text(condition: Condition) -> str:
    """Return the text of a condition. For a graph pattern, the text only lists its variables."""
    if isinstance(condition, Predicate) and condition.graph is not None:
        return f"{{ ... }} of {', '.join(sorted(set(condition_variables(condition))))}"
    return print_condition(parameters_named(condition))


def span_of(condition: Condition, other: Span) -> Span:
    return getattr(condition, "span", other)


def changed_durations(ticks: int) -> tuple[tuple[int, str], ...]:
    """Return durations that differ slightly from `ticks`, each with a description of the difference."""
    durations = ((ticks - 1, "a tick less than"), (ticks + 1, "a tick more than"), (ticks // 2, "half of"))
    return tuple((changed, told) for changed, told in durations if 0 < changed != ticks) if ticks else ()
