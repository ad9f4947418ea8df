"""Changes of what holds: when formulas begin and end to hold, for many tuples at once, in order of time.

Tuples have dense numbers, keys. A change is at a code of `cep.core.interval_sets`: from it on the tuple holds, or does
not any more. So a maximal interval of codes from s to e begins at s and ends at e + 1, and what is known up to a code
has all its changes up to there, wherever the input was cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import INFINITE
from cep.core.kernels import njit

Ints = NDArray[np.int64]

_WORD = 63
"""Bits of a number that is not negative."""
_NEAR = 32
"""So far rows are moved by insertion."""


class Changes(NamedTuple):
    """int64 columns of one length, sorted by code, then key: at `code` the tuple `key` begins (1) or ends (0) to hold.
    Of one key they take turns, and no two are at one code. What held ever begins at -INFINITE."""

    key: Ints
    code: Ints
    begins: Ints


def no_changes() -> Changes:
    """None."""
    return Changes(*(np.empty(0, np.int64) for _ in range(3)))


def by_code(key: Ints, code: Ints, begins: Ints) -> Changes:
    """Rows in any order as changes; no two are of one key and code, and no key is negative."""
    if len(key) < 2:
        return Changes(key, code, begins)
    low, high = _span(code)
    bits = int(key.max()).bit_length()
    if (high - low).bit_length() + bits + 1 > _WORD:
        order = np.lexsort((key, code))
        return Changes(key[order], code[order], begins[order])
    words = ((np.clip(code, low, high) - low) << bits | key) << 1 | begins
    words.sort()
    made = (words >> (bits + 1)) + low
    if int(code.min()) < low:
        made[made == low] = -INFINITE
    if int(code.max()) > high:
        made[made == high] = INFINITE
    return Changes(words >> 1 & ((1 << bits) - 1), made, words & 1)


def in_order(key: Ints, code: Ints, begins: Ints) -> Changes:
    """Rows almost in the order of their codes as changes; those of one code may be in any order of keys."""
    n = len(code)
    if n < 2 or bool((code[1:] >= code[:-1]).all()):
        return Changes(key, code, begins)
    made = np.empty((3, n), np.int64)
    return Changes(*made) if _settled(key, code, begins, made) else by_code(key, code, begins)


@njit(linear=True, cache=True)
def _settled(key, code, begins, made):  # type: ignore[no-untyped-def]
    """The rows into `made`, which has room for them, sorted by insertion. False: some are too far from their places."""
    for i in range(len(code)):
        at = i
        while at > 0 and made[1, at - 1] > code[i]:
            if i - at == _NEAR:
                return False
            made[0, at], made[1, at], made[2, at] = made[0, at - 1], made[1, at - 1], made[2, at - 1]
            at -= 1
        made[0, at], made[1, at], made[2, at] = key[i], code[i], begins[i]
    return True


def stable_order(values: Ints) -> Ints:
    """The rows in the order of these values, equal ones as they come: int64 positions. Words of both are sorted, which
    takes a tenth of the time that positions take."""
    if len(values) < 2:
        return np.arange(len(values))
    low, high = _span(values)
    bits = (len(values) - 1).bit_length()
    if (high - low).bit_length() + bits > _WORD:
        return np.argsort(values, kind="stable")
    words = (np.clip(values, low, high) - low) << bits | np.arange(len(values))
    words.sort()
    order: Ints = words & ((1 << bits) - 1)
    return order


def _span(values: Ints) -> tuple[int, int]:
    """The least and the greatest of what is finite, and one farther for what is not."""
    low, high = int(values.min()), int(values.max())
    if low > -INFINITE and high < INFINITE:
        return low, high
    finite = values[(values > -INFINITE) & (values < INFINITE)]
    if not len(finite):
        return -1, 1
    return int(finite.min()) - (low <= -INFINITE), int(finite.max()) + (high >= INFINITE)
