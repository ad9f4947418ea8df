"""Extents of formulas: the values and times for which a formula holds, and the reasons why it holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from cep.core.interval_sets import Intervals, coalesce
from cep.explain.judging import BoundValues, Judged
from cep.explain.occurrences import Occurrence
from cep.plan.pattern import Pattern

When = tuple[tuple[int, int], ...]
"""Maximal intervals, sorted by time. Each interval is a pair of time codes (see `cep.core.interval_sets`)."""


@dataclass(frozen=True, slots=True)
class FormulaExtent:
    """The times at which a formula holds for some values of its variables.

    - `parts`: the extents from which this extent was computed. Each is paired with True if its formula is negated.
    - `sources`: the intervals of a fluent, or the occurrences of an event.
    - `judged`: the formula's conditions, each with the values for which it was evaluated.
    """

    pattern: Pattern
    bound: BoundValues
    when: When
    parts: tuple[tuple[FormulaExtent, bool], ...] = ()
    sources: tuple[Occurrence, ...] = ()
    judged: tuple[tuple[Judged, BoundValues], ...] = ()

    def holds(self, code: int) -> bool:
        return any(first <= code <= last for first, last in self.when)


def set_of(when: Collection[tuple[int, int]]) -> Intervals:
    starts = np.array([first for first, _ in when], np.int64)
    ends = np.array([last for _, last in when], np.int64)
    return coalesce(np.zeros(len(starts), np.int64), starts, ends)


def when_of(held: Intervals) -> When:
    return tuple(zip(held.start.tolist(), held.end.tolist(), strict=True))
