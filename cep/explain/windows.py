"""Sliding windows over a few occurrences, by definition."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cep.events import Value
from cep.explain.judging import Judge, Typed
from cep.rules.terms import AggregateResult

if TYPE_CHECKING:
    from cep.explain.matching import Attempt


Members = Callable[[Sequence[int], int], slice]
"""Which of a group's occurrences, whose ends these are in order, are in the window at an instant."""


def windowed(
    found: Sequence[Attempt], by: Sequence[str], members_at: Members, results: Sequence[AggregateResult], judge: Judge
) -> list[Attempt]:
    """A result for every group and instant at which something enters its window; its parts are all in the window."""
    names = list(dict.fromkeys(by))
    groups: dict[tuple[Typed, ...], list[Attempt]] = {}
    for attempt in sorted(found, key=lambda one: (one.end, one.start, [each.order for each in one.parts[::-1]])):
        groups.setdefault(tuple(attempt.bound[name] for name in names), []).append(attempt)
    made: list[Attempt] = []
    for key, members in groups.items():
        ends = [member.end for member in members]
        for now in dict.fromkeys(ends):
            inside = members[members_at(ends, now)]
            bound = dict(zip(names, key))
            for result in results:
                bound[result.variable] = _result(result, inside, judge)
            parts = tuple(dict.fromkeys(part for member in inside for part in member.parts))
            start = min(member.start for member in inside)
            made.append(replace(inside[-1], bound=bound, start=start, end=now, parts=parts, judged=(), held=1))
    return made


def _result(result: AggregateResult, inside: Sequence[Attempt], judge: Judge) -> Typed:
    if result.argument is None:
        return len(inside), "int"
    taken = [judge.value(result.argument, member.bound) for member in inside]
    type = taken[0][1]
    there: list[Value] = [value for value, _ in taken if value is not None]
    numbers = [value for value in there if isinstance(value, int | float)]
    match result.function:
        case "count":
            return (len(set(there)) if result.distinct else len(there)), "int"
        case "sum":
            return (sum(numbers) if numbers else None), type
        case "avg":
            return (sum(numbers) / len(numbers) if numbers else None), "float"
        case "min":
            return min(there, key=_rank, default=None), type
        case "max":
            return max(there, key=_rank, default=None), type
        case "stddev":
            return (statistics.stdev(map(float, numbers)) if len(numbers) > 1 else None), "float"
        case "first":
            return (there[0] if there else None), type
        case _:
            assert result.function == "last", "all aggregates are known"
            return (there[-1] if there else None), type


def _rank(value: Value) -> tuple[str, float, str]:
    if isinstance(value, str):
        return type(value).__name__, 0.0, str(value)
    return "", float(value or 0), ""
