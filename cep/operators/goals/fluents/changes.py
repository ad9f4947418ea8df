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

_FEW = 1 << 12
_DIGIT = 11
_DIGITS = 1 << _DIGIT


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
    """Rows sorted by key, then code, as changes."""
    order = stable_order(code)
    return Changes(key[order], code[order], begins[order])


def stable_order(values: Ints) -> Ints:
    """The rows in the order of these values, equal ones as they come: int64 positions. By digits, where there are many
    rows, since to compare them would take as long as all else."""
    if len(values) <= _FEW:
        return np.argsort(values, kind="stable")
    finite = values[(values > -INFINITE) & (values < INFINITE)]
    low, high = (int(finite.min()), int(finite.max())) if len(finite) else (0, 0)
    order: Ints = _by_digits(values, low - 1, (high - low + 2).bit_length())
    return order


@njit(linear=True, cache=True)
def _by_digits(values, lowest, bits):  # type: ignore[no-untyped-def]
    """Positions sorted by `values`, least digit first. Values lie above `lowest`, so that the difference has so many
    `bits`, or are infinite. As many positions as rows: each pass writes each once."""
    n = len(values)
    places, others = np.empty(n, np.int64), np.empty(n, np.int64)
    digits, other_digits = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        places[i] = i
        digits[i] = 0 if values[i] <= lowest else values[i] - lowest if values[i] < INFINITE else (1 << bits) - 1
    for shift in range(0, bits, _DIGIT):
        counts = np.zeros(_DIGITS + 1, np.int64)
        for i in range(n):
            counts[((digits[i] >> shift) & (_DIGITS - 1)) + 1] += 1
        for d in range(_DIGITS):
            counts[d + 1] += counts[d]
        for i in range(n):
            d = (digits[i] >> shift) & (_DIGITS - 1)
            place = counts[d]
            counts[d] = place + 1
            others[place] = places[i]
            other_digits[place] = digits[i]
        places, others = others, places
        digits, other_digits = other_digits, digits
    return places
