"""Compute windows over a few occurrences directly from the definition of windows."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.core.literals import SECOND
from cep.events import Value
from cep.explain.judging import Judge, TypedValue
from cep.rules.terms import AggregateResult

if TYPE_CHECKING:
    from cep.explain.matching import Attempt


Members = Callable[[Sequence[int]], Iterable[tuple[slice, int | None, int]]]
"""A function that yields those windows of a group that have a result.

Its argument contains the ends of the group's occurrences, in order. A window consists of the range of its occurrences,
its start, and its end. If the start is None, the window starts with its first occurrence.
"""


def windowed(
    attempts: Sequence[Attempt],
    by: Sequence[str],
    members_at: Members,
    results: Sequence[AggregateResult],
    judge: Judge,
) -> list[Attempt]:
    """Return an attempt for each group and each time at which the group's window has a result.

    The parts of the attempt are all occurrences in the window. `by`: the variables whose values form the groups.
    """
    names = list(dict.fromkeys(by))
    groups: dict[tuple[TypedValue, ...], list[Attempt]] = {}
    for attempt in sorted(
        attempts, key=lambda candidate: (candidate.end, candidate.start, [part.order for part in candidate.parts[::-1]])
    ):
        groups.setdefault(tuple(attempt.bound[name] for name in names), []).append(attempt)
    windows: list[Attempt] = []
    for key, members in groups.items():
        for which, since, now in members_at([member.end for member in members]):
            inside = members[which]
            start = min(member.start for member in inside) if since is None else since
            bound = dict(zip(names, key))
            for result in results:
                bound[result.variable] = result_of(result, inside, judge)
            parts = tuple(dict.fromkeys(part for member in inside for part in member.parts))
            windows.append(replace(inside[-1], bound=bound, start=start, end=now, parts=parts, judged=(), held=1))
    return windows


def result_of(result: AggregateResult, inside: Sequence[Any], judge: Judge) -> TypedValue:
    if result.argument is None:
        return len(inside), "int"
    taken = [judge.value(result.argument, member.bound) for member in inside]
    type = taken[0][1]
    present: list[Value] = [value for value, _ in taken if value is not None]
    numbers = [value for value in present if isinstance(value, int | float)]
    match result.function:
        case "count":
            return (len(set(present)) if result.distinct else len(present)), "int"
        case "sum":
            return (sum(numbers) if numbers else None), type
        case "avg":
            return (sum(numbers) / len(numbers) if numbers else None), "float"
        case "min":
            return min(present, key=_rank, default=None), type
        case "max":
            return max(present, key=_rank, default=None), type
        case "stddev":
            return (statistics.stdev(map(float, numbers)) if len(numbers) > 1 else None), "float"
        case "first":
            return (present[0] if present else None), type
        case "last":
            return (present[-1] if present else None), type
        case "mode":
            most = Counter(present)
            often = [value for value in present if most[value] == max(most.values())]
            return min(often, key=_rank, default=None), type
        case "median":
            return (statistics.median(map(float, numbers)) if numbers else None), "float"
        case "percentile":
            return (float(np.percentile(numbers, result.parameter or 0)) if numbers else None), "float"
        case function:
            times = [member.end / SECOND for member, (value, _) in zip(inside, taken) if value is not None]
            return _trend(function, (result.parameter or 0) / SECOND, times, list(map(float, numbers))), "float"


def _trend(function: str, fading: float, times: list[float], numbers: list[float]) -> float | None:
    """Compute an aggregate that depends on the times of its values.

    `fading`: the half-life of `ewma`. `times`: the times of the values, in seconds.
    """
    if not numbers:
        return None
    if function == "ewma":
        weights = [2.0 ** -((times[-1] - time) / fading) for time in times]
        return math.fsum(weight * number for weight, number in zip(weights, numbers)) / math.fsum(weights)
    if times[0] == times[-1]:
        return None
    if function == "rate":
        return (numbers[-1] - numbers[0]) / (times[-1] - times[0])
    assert function == "slope", "all aggregates are known"
    return float(statistics.linear_regression(times, numbers).slope)


def _rank(value: Value) -> tuple[str, float, str]:
    if isinstance(value, str):
        return type(value).__name__, 0.0, str(value)
    return "", float(value or 0), ""
