"""A relation of intervals (`cep.core.intervals`) as a kernel asks it: bounds on differences of the ends."""

from __future__ import annotations

from collections.abc import Sequence

from cep.core.intervals import A, B, C, D, IntervalRelation
from cep.core.kernels import njit

DIFFERENCES = ((B, C), (A, C), (B, D), (A, D), (A, B), (C, D))
MOST_BOUNDS = 4
"""Bounds of a relation; each is three numbers: the place of its difference in DIFFERENCES, the least, the greatest."""


def bounds_of(relation: IntervalRelation) -> Sequence[int]:
    """The numbers that `relates` takes: how many bounds there are, then those of each."""
    assert len(relation.bounds) <= MOST_BOUNDS, "there is room for four"
    numbers = [len(relation.bounds)]
    for bound in relation.bounds:
        if (bound.earlier, bound.later) in DIFFERENCES:
            numbers += [DIFFERENCES.index((bound.earlier, bound.later)), bound.low, bound.high]
        else:
            numbers += [DIFFERENCES.index((bound.later, bound.earlier)), -bound.high, -bound.low]
    return numbers


@njit()
def relates(spec, at, a, b, c, d):  # type: ignore[no-untyped-def]
    """Whether L = [a, b] and R = [c, d] have the relation whose numbers are in `spec` from `at` on."""
    for place in range(at + 1, at + 1 + 3 * spec[at], 3):
        which = spec[place]
        if which == 0:
            difference = c - b
        elif which == 1:
            difference = c - a
        elif which == 2:
            difference = d - b
        elif which == 3:
            difference = d - a
        elif which == 4:
            difference = b - a
        else:
            difference = d - c
        if difference < spec[place + 1] or difference > spec[place + 2]:
            return False
    return True
