"""When formulas hold, for which values, and because of what: what readers of formulas find."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from cep.core.interval_sets import Intervals, coalesce
from cep.explain.judging import BoundValues, Judged
from cep.explain.occurrences import Occurrence
from cep.plan.pattern import Pattern

When = tuple[tuple[int, int], ...]
"""Maximal intervals in order, each by the codes of its ends (`cep.core.interval_sets`)."""


@dataclass(frozen=True, slots=True)
class FormulaExtent:
    """When a formula holds for some values. `parts`: what it was made of, each with whether it is negated; `sources`:
    of a fluent its intervals, of an event its occurrences; `judged`: its conditions, with what they were judged for."""

    pattern: Pattern
    bound: BoundValues
    when: When
    parts: tuple[tuple[FormulaExtent, bool], ...] = ()
    sources: tuple[Occurrence, ...] = ()
    judged: tuple[tuple[Judged, BoundValues], ...] = ()

    def holds(self, code: int) -> bool:
        """Return True if it holds at a time."""
        return any(first <= code <= last for first, last in self.when)


def set_of(when: Collection[tuple[int, int]]) -> Intervals:
    """Intervals as a set of them."""
    starts = np.array([first for first, _ in when], np.int64)
    ends = np.array([last for _, last in when], np.int64)
    return coalesce(np.zeros(len(starts), np.int64), starts, ends)


def when_of(held: Intervals) -> When:
    """And back."""
    return tuple(zip(held.start.tolist(), held.end.tolist(), strict=True))
