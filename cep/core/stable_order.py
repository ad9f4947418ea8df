"""Sorting whole numbers: words that hold each with its place take a tenth of the time that places take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import INFINITE

Ints = NDArray[np.int64]

WORD = 63
"""Bits of a number that is not negative."""


def stable_order(values: Ints) -> Ints:
    """The rows in the order of these values, equal ones as they come: int64 positions."""
    if len(values) < 2:
        return np.arange(len(values))
    low, high = span(values)
    bits = (len(values) - 1).bit_length()
    if (high - low).bit_length() + bits > WORD:
        return np.argsort(values, kind="stable")
    words = (np.clip(values, low, high) - low) << bits | np.arange(len(values))
    words.sort()
    order: Ints = words & ((1 << bits) - 1)
    return order


def phased_order(codes: Ints, phases: Ints) -> Ints:
    """The rows in the order of their codes, of one code those of phase 0 before those of 1, equal ones as they come:
    int64 positions."""
    if len(codes) < 2:
        return np.arange(len(codes))
    low, high = span(codes)
    if (high - low).bit_length() + 1 > WORD:
        return np.lexsort((phases, codes))
    return stable_order((np.clip(codes, low, high) - low) << 1 | phases)


def span(values: Ints) -> tuple[int, int]:
    """The least and the greatest of what is finite, and one farther for what is not, at -INFINITE and INFINITE."""
    low, high = int(values.min()), int(values.max())
    if low > -INFINITE and high < INFINITE:
        return low, high
    finite = values[(values > -INFINITE) & (values < INFINITE)]
    if not len(finite):
        return -1, 1
    return int(finite.min()) - (low <= -INFINITE), int(finite.max()) + (high >= INFINITE)
