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
from cep.core.stable_order import FEW, WORD, phased_order, span

Ints = NDArray[np.int64]

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
    if len(key) <= FEW:
        order = np.lexsort((key, code))
        return Changes(key[order], code[order], begins[order])
    low, high = span(code)
    bits = int(key.max()).bit_length()
    if (high - low).bit_length() + bits + 1 > WORD:
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


def in_order(key: Ints, code: Ints, begins: Ints, first: int = 1) -> Changes:
    """Rows almost in the order of their codes sorted by these; of those of one code what begins is `first` (1), or what
    ends (0)."""
    made = np.empty((3, len(code)), np.int64)
    if not _by_instant(key, code, begins, first, made) and not _settled(key, code, begins, first, made):
        order = phased_order(code, begins ^ first)
        return Changes(key[order], code[order], begins[order])
    return Changes(*made)


@njit()
def _by_instant(key, code, begins, first, made):  # type: ignore[no-untyped-def]
    """The rows into `made`, which has room for them, where their instants go up already: those of one instant by code
    and then by what begins or ends, which together are four kinds. False: the instants do not go up."""
    n = len(code)
    since = 0
    while since < n:
        instant = code[since] >> 1
        if since + 1 == n or code[since + 1] >> 1 > instant:
            made[0, since], made[1, since], made[2, since] = key[since], code[since], begins[since]
            since += 1
            continue
        second = third = fourth = since
        stop = since
        while stop < n and code[stop] >> 1 == instant:
            later, turn = code[stop] & 1, begins[stop] ^ first
            second += (1 - later) * (1 - turn)
            third += 1 - later
            fourth += 1 - later * turn
            stop += 1
        if stop < n and code[stop] >> 1 < instant:
            return False
        at = since
        for i in range(since, stop):
            if code[i] & 1:
                if begins[i] ^ first:
                    place = fourth
                    fourth += 1
                else:
                    place = third
                    third += 1
            elif begins[i] ^ first:
                place = second
                second += 1
            else:
                place = at
                at += 1
            made[0, place], made[1, place], made[2, place] = key[i], code[i], begins[i]
        since = stop
    return True


@njit()
def _settled(key, code, begins, first, made):  # type: ignore[no-untyped-def]
    """The rows into `made`, which has room for them, sorted by insertion. False: some are too far from their places."""
    for i in range(len(code)):
        at = i
        now, later = code[i], begins[i] ^ first
        while at > 0 and (made[1, at - 1] > now or (made[1, at - 1] == now and made[2, at - 1] ^ first > later)):
            if i - at == _NEAR:
                return False
            made[0, at], made[1, at], made[2, at] = made[0, at - 1], made[1, at - 1], made[2, at - 1]
            at -= 1
        made[0, at], made[1, at], made[2, at] = key[i], now, begins[i]
    return True
