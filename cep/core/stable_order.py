"""Stable sorting of whole numbers.

Each value is combined with its position into one word. Sorting these words is ten times as fast as sorting positions by
value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import INFINITE

Ints = NDArray[np.int64]

WORD = 63
"""The number of bits in a non-negative int64."""
PIECE = 64
"""The minimum average length of ascending runs for which merging the runs is faster than sorting all values."""
FEW = 64
"""The maximum number of values that are sorted directly, because combining them into words would take longer."""


def stable_order(values: Ints) -> Ints:
    """Return the positions of the values in ascending order, as int64. Equal values keep their order."""
    if len(values) < 2:
        return np.arange(len(values))
    if len(values) <= FEW:
        return values.argsort(kind="stable")
    low, high = span(values)
    bits = (len(values) - 1).bit_length()
    if (high - low).bit_length() + bits > WORD:
        return np.argsort(values, kind="stable")
    words = (np.clip(values, low, high) - low) << bits | np.arange(len(values))
    _sort(words)
    order: Ints = words & ((1 << bits) - 1)
    return order


def phased_order(codes: Ints, phases: Ints) -> Ints:
    """Return the positions ordered by code, then by phase (0 before 1), then by position, as int64."""
    if len(codes) < 2:
        return np.arange(len(codes))
    if len(codes) <= FEW:
        return np.lexsort((phases, codes))
    low, high = span(codes)
    if (high - low).bit_length() + 1 > WORD:
        return np.lexsort((phases, codes))
    return stable_order((np.clip(codes, low, high) - low) << 1 | phases)


def stable_order_of(*columns: Ints) -> Ints:
    """Return the positions ordered by the first column, then by the second, and so on, as int64. Equal rows keep their
    order.

    Columns whose values are close together are sorted as one word.
    """
    count = len(columns[0])
    bits = (count - 1).bit_length() if count else 0
    order = np.arange(count)
    words, used = None, bits
    for column in reversed(columns):
        low, high = (int(column.min()), int(column.max())) if count else (0, 0)
        wide = (high - low).bit_length()
        if words is not None and used + wide > WORD:
            order, words, used = _by_word(words, order, bits), None, bits
        if used + wide > WORD:
            order = order[np.argsort(column[order], kind="stable")]
        elif wide:
            word = (column - low) << (used - bits)
            words, used = word if words is None else words | word, used + wide
    return order if words is None else _by_word(words, order, bits)


def _by_word(words: Ints, order: Ints, bits: int) -> Ints:
    """Return the positions in `order`, sorted by `words`. Equal words keep their order.

    `bits`: the number of bits of a 63-bit word that are free for a position.
    """
    places = words[order] << bits | np.arange(len(order))
    _sort(places)
    sorted_order: Ints = order[places & ((1 << bits) - 1)]
    return sorted_order


def _sort(words: Ints) -> None:
    """Sort words in place. If they consist of a few ascending runs, as in concatenated tables, the runs are merged.

    Merging a hundred runs takes half the time of sorting, merging two runs a tenth.
    """
    falls = np.count_nonzero(words[1:] < words[:-1])
    words.sort(kind="stable" if falls * PIECE < len(words) else None)


def ranks(values: Ints) -> Ints:
    """Return for each of these ascending values how many distinct values are below it."""
    numbers = np.zeros(len(values), np.int64)
    np.cumsum(values[1:] != values[:-1], out=numbers[1:])
    return numbers


def span(values: Ints) -> tuple[int, int]:
    """Return the least and the greatest finite value. If -INFINITE or INFINITE occurs, the range is one larger on that
    side."""
    low, high = int(values.min()), int(values.max())
    if low > -INFINITE and high < INFINITE:
        return low, high
    finite = values[(values > -INFINITE) & (values < INFINITE)]
    if not len(finite):
        return -1, 1
    return int(finite.min()) - (low <= -INFINITE), int(finite.max()) + (high >= INFINITE)
