"""Sets of intervals for many keys at once. Open and closed ends are handled only in this module.

Time is dense. One integer, a code, represents an end. The point t has the code 2t, the gap between t and t + 1 the code
2t + 1. Every interval is a closed interval of codes: [1, 2) is 2 to 3. Infinite ends are -INFINITE and INFINITE. The
operators are those of DatalogMTL (Brandt et al., *Querying log data with metric temporal logic*, JAIR 2018), on maximal
intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.time import FARTHEST

INFINITE = 2**62 + 1
"""The code of an infinite end. It is odd, because an infinite end is open. Sums of finite codes are far smaller."""
NOWHERE = INFINITE + 1
"""A code beyond every end. No interval starts at NOWHERE or ends at -NOWHERE."""
FAR = 2 * FARTHEST
"""The code of the latest time. The code of the earliest time is -FAR."""

Codes = NDArray[np.int64]


class Intervals(NamedTuple):
    """Maximal intervals, as int64 columns of equal length. They are sorted by key and start. The ends are codes.

    No two intervals of one key overlap or touch.
    """

    key: Codes
    start: Codes
    end: Codes


@dataclass(frozen=True, slots=True)
class Reach:
    """A range of displacements in time, from `low` to `high` in codes. The `[a, b]` of ONCE is `reach(a, b)`."""

    low: int
    high: int

    @property
    def mirrored(self) -> Reach:
        """Return the same displacements in the opposite direction of time."""
        return Reach(-self.high, -self.low)


def reach(low: int, high: int | None = None, bounds: str = "[]") -> Reach:
    """Create a range of displacements from `low` to `high` microseconds (None: unlimited).

    Raises ValueError if the range is empty.
    """
    lower = code(low, bounds[0] == "[", False)
    upper = INFINITE if high is None else code(high, bounds[1] == "]", True)
    if lower > upper:
        raise ValueError(f"no displacement lies in {bounds[0]}{low}, {high}{bounds[1]}")
    return Reach(lower, upper)


def code(time: int, closed: bool, end: bool) -> int:
    """Return the code of a finite end. `time`: the time in microseconds. `end`: False for a start."""
    return 2 * time + (0 if closed else -1 if end else 1)


def first_reached(code: int, by: Reach) -> int:
    """Return the first code that dilation by this reach can produce from intervals that start at or after `code`."""
    return -INFINITE if by.low == -INFINITE else code + by.low - (code & by.low & 1)


def coalesce(key: Codes, start: Codes, end: Codes) -> Intervals:
    """Merge rows of codes, in any order, to maximal intervals. Rows that end before they start are ignored."""
    some = start <= end
    key, start, end = key[some], start[some], end[some]
    order = np.lexsort((start, key))
    return _cut(_coalesced(key[order], start[order], end[order]))


def union(left: Intervals, right: Intervals) -> Intervals:
    return _cut(_union(*left, *right))


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """Return the times that are in both sets."""
    return _cut(_intersection(*left, *right))


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """Return the times that are in `left` but not in `right`."""
    return _cut(_difference(*left, *right))


def dilate(held: Intervals, by: Reach) -> Intervals:
    """Return the times t for which t - d is in `held` for some displacement d in `by`.

    This is the operator ONCE or, with the mirrored reach, EVENTUALLY.
    """
    return _cut(_dilated(*held, by.low, by.high))


def erode(held: Intervals, by: Reach) -> Intervals:
    """Return the times t for which t - d is in `held` for every displacement d in `by`.

    This is the operator HISTORICALLY or, with the mirrored reach, ALWAYS.
    """
    return _cut(_eroded(*held, by.low, by.high))


def since(left: Intervals, right: Intervals, by: Reach) -> Intervals:
    """Return the times t for which a displacement d in `by` satisfies two conditions. The time t - d is in `right`, and
    all times strictly between t - d and t are in `left`.

    `by` must not contain negative displacements.
    """
    pieces = _cut(_stretches(*left, *right, by.low, by.high))
    return union(pieces, right) if by.low == 0 else pieces


def until(left: Intervals, right: Intervals, by: Reach) -> Intervals:
    """Return the times t for which a displacement d in `by` satisfies two conditions. The time t + d is in `right`, and
    all times strictly between t and t + d are in `left`."""
    return _turned(since(_turned(left), _turned(right), by))


def lasting(held: Intervals, least: int, strictly: bool = False) -> Intervals:
    """Return the maximal intervals that last at least `least` microseconds. `strictly`: True to leave out intervals
    that last exactly `least`."""
    infinite = (held.start == -INFINITE) | (held.end == INFINITE)
    some = infinite | (((held.end + 1) >> 1) - (held.start >> 1) >= least + int(strictly))
    return Intervals(held.key[some], held.start[some], held.end[some])


def _turned(held: Intervals) -> Intervals:
    """Return the intervals in the opposite direction of time."""
    return Intervals(~held.key[::-1], -held.end[::-1], -held.start[::-1])


def _cut(rows: tuple[Codes, Codes, Codes, int]) -> Intervals:
    key, start, end, count = rows
    return Intervals(key[:count], start[:count], end[:count])


# --- kernels: each gives columns with room, and how many rows are used ---


@njit()
def _within(code):  # type: ignore[no-untyped-def]
    return min(max(code, -FAR), FAR)


@njit()
def dilated_start(start, low):  # type: ignore[no-untyped-def]
    """Return the start of an interval after dilation. It is open if `start` or `low` is open."""
    if start == -INFINITE or low == -INFINITE:
        return -INFINITE
    return _within(start + low - (start & low & 1))


@njit()
def dilated_end(end, high):  # type: ignore[no-untyped-def]
    """Return the end of an interval after dilation. It is open if `end` or `high` is open."""
    if end == INFINITE or high == INFINITE:
        return INFINITE
    return _within(end + high + (end & high & 1))


@njit()
def eroded_start(start, high):  # type: ignore[no-untyped-def]
    """Return the start of an interval after erosion, or NOWHERE if the interval disappears.

    The new start is open if `start` is open and `high` is closed.
    """
    if start == -INFINITE:
        return -INFINITE
    return NOWHERE if high == INFINITE else _within(start + high + (~start & high & 1))


@njit()
def eroded_end(end, low):  # type: ignore[no-untyped-def]
    """Return the end of an interval after erosion, or -NOWHERE if the interval disappears."""
    if end == INFINITE:
        return INFINITE
    return -NOWHERE if low == -INFINITE else _within(end + low - (~end & low & 1))


@njit()
def _coalesced(key, start, end):  # type: ignore[no-untyped-def]
    """Merge overlapping and touching intervals, which are sorted by key and start. Their number does not grow."""
    keys, starts, ends = np.empty_like(key), np.empty_like(start), np.empty_like(end)
    count = 0
    for i in range(len(key)):
        if count and keys[count - 1] == key[i] and start[i] <= ends[count - 1] + 1:
            ends[count - 1] = max(ends[count - 1], end[i])
        else:
            keys[count], starts[count], ends[count] = key[i], start[i], end[i]
            count += 1
    return keys, starts, ends, count


@njit()
def _dilated(key, start, end, low, high):  # type: ignore[no-untyped-def]
    """Dilate intervals, which keep their order. Then merge those that touch or overlap."""
    starts, ends = np.empty_like(start), np.empty_like(end)
    for i in range(len(key)):
        starts[i], ends[i] = dilated_start(start[i], low), dilated_end(end[i], high)
    return _coalesced(key, starts, ends)


@njit()
def _eroded(key, start, end, low, high):  # type: ignore[no-untyped-def]
    keys, starts, ends = np.empty_like(key), np.empty_like(start), np.empty_like(end)
    count = 0
    for i in range(len(key)):
        first, last = eroded_start(start[i], high), eroded_end(end[i], low)
        if first <= last:
            keys[count], starts[count], ends[count] = key[i], first, last
            count += 1
    return keys, starts, ends, count


@njit()
def _union(key, start, end, other_key, other_start, other_end):  # type: ignore[no-untyped-def]
    """Merge two sets to their union. It has at most as many rows as both sets together."""
    n, m = len(key), len(other_key)
    keys, starts, ends = np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    i = j = count = 0
    while i < n or j < m:
        if j == m or (i < n and (key[i] < other_key[j] or (key[i] == other_key[j] and start[i] <= other_start[j]))):
            k, first, last = key[i], start[i], end[i]
            i += 1
        else:
            k, first, last = other_key[j], other_start[j], other_end[j]
            j += 1
        if count and keys[count - 1] == k and first <= ends[count - 1] + 1:
            ends[count - 1] = max(ends[count - 1], last)
        else:
            keys[count], starts[count], ends[count] = k, first, last
            count += 1
    return keys, starts, ends, count


@njit()
def _intersection(key, start, end, other_key, other_start, other_end):  # type: ignore[no-untyped-def]
    """Return the intersection of two sets. It has at most as many rows as both together, because each round consumes a
    row and writes at most one."""
    n, m = len(key), len(other_key)
    keys, starts, ends = np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    i = j = count = 0
    while i < n and j < m:
        if key[i] != other_key[j]:
            if key[i] < other_key[j]:
                i += 1
            else:
                j += 1
            continue
        first, last = max(start[i], other_start[j]), min(end[i], other_end[j])
        if first <= last:
            keys[count], starts[count], ends[count] = key[i], first, last
            count += 1
        if end[i] < other_end[j]:
            i += 1
        else:
            j += 1
    return keys, starts, ends, count


@njit()
def _difference(key, start, end, other_key, other_start, other_end):  # type: ignore[no-untyped-def]
    """Return the first set without the second set. The result has at most as many rows as both sets together."""
    n, m = len(key), len(other_key)
    keys, starts, ends = np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    j = count = 0
    for i in range(n):
        while j < m and (other_key[j] < key[i] or (other_key[j] == key[i] and other_end[j] < start[i])):
            j += 1
        first = start[i]
        while j < m and other_key[j] == key[i] and other_start[j] <= end[i]:
            if other_start[j] > first:
                keys[count], starts[count], ends[count] = key[i], first, other_start[j] - 1
                count += 1
            first = other_end[j] + 1
            if other_end[j] > end[i]:
                break
            j += 1
        if first <= end[i]:
            keys[count], starts[count], ends[count] = key[i], first, end[i]
            count += 1
    return keys, starts, ends, count


@njit()
def _stretches(key, start, end, other_key, other_start, other_end, low, high):  # type: ignore[no-untyped-def]
    """Return the times for which two conditions are true. The right set held earlier, by a positive displacement
    between `low` and `high`. The left set has held ever since.

    The right set may have held at the ends of a left interval. The result has at most as many rows as the right set,
    plus twice as many as the left set.
    """
    n, m = len(key), len(other_key)
    room = 2 * n + m
    keys, starts, ends = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    j = count = 0
    for i in range(n):
        opened = start[i] if start[i] == -INFINITE else start[i] - (start[i] & 1)
        closed = end[i] if end[i] == INFINITE else end[i] + (end[i] & 1)
        while j < m and (other_key[j] < key[i] or (other_key[j] == key[i] and other_end[j] < opened)):
            j += 1
        place = j
        while place < m and other_key[place] == key[i] and other_start[place] <= closed:
            first = max(dilated_start(max(other_start[place], opened), low), opened)
            last = min(dilated_end(min(other_end[place], closed), high), closed)
            place += 1
            if first > last:
                continue
            if count and keys[count - 1] == key[i] and first <= ends[count - 1] + 1:
                ends[count - 1] = max(ends[count - 1], last)
            else:
                keys[count], starts[count], ends[count] = key[i], first, last
                count += 1
    return keys, starts, ends, count
