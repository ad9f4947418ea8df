"""Changes of lowered rules, one at a time: what mutants and coverage are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from cep.core.errors import Span
from cep.plan.pattern import Pattern
from cep.rules.printing import print_condition
from cep.rules.terms import Condition, Predicate, condition_variables

Edit = tuple[Any, Span, str]
"""A changed value, the place of the change, and the change in words."""
_WHOLE = ("span", "fluent", "label")
"""Fields that are not changed inside."""


def edits(value: Any, own: Callable[[Any, int | None], Iterator[Edit]], bound: int | None = None) -> Iterator[Edit]:
    """Yield a value with each change that `own` makes of it, or of a part of it.

    `own` is given a part and the WITHIN that the part was handed down (`bound`).
    """
    if isinstance(value, tuple):
        for place, each in enumerate(value):
            for other, span, change in edits(each, own, bound):
                yield (*value[:place], other, *value[place + 1 :]), span, change
        return
    if not is_dataclass(value):
        return
    yield from own(value, bound)
    bound = getattr(value, "within", None)
    for each in fields(value):
        if each.name not in _WHOLE:
            for other, span, change in edits(getattr(value, each.name), own, bound):
                yield replace(value, **{each.name: other}), span, change  # type: ignore[type-var]


def with_bound(value: Any, old: int | None, new: int | None) -> Any:
    """Return a pattern in which a bound is another, also in its parts, to which it was handed down."""
    changes: dict[str, Any] = {}
    for each in fields(value):
        own = getattr(value, each.name)
        if each.name == "within" and own == old:
            changes[each.name] = new
        elif isinstance(own, Pattern):
            changes[each.name] = with_bound(own, old, new)
    return replace(value, **changes)


def condition_text(condition: Condition) -> str:
    """Return a condition as it is written, a graph pattern by its variables."""
    if isinstance(condition, Predicate) and condition.graph is not None:
        return f"{{ ... }} of {', '.join(sorted(set(condition_variables(condition))))}"
    return print_condition(condition)
