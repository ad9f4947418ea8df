"""What comes of records that have an end: of each tuple the one interval that is not over yet, and of those that begin
and end the rows that tell of it.

A record counts by its start, so all that is held of a tuple holds at the watermark, and is one interval.
"""

from __future__ import annotations

import numpy as np

from cep.core.fluents import BEGINNING, BEGINS, BEGINS_AT, ENDING, ENDS, ENDS_AT, GIVEN, WHOLE
from cep.core.interval_sets import INFINITE, NOWHERE
from cep.core.kernels import njit
from cep.core.prefetch import prefetch
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START
from cep.operators.goals.fluents.timers import drop_timer, order_timers, put_timer

C_START, C_END, C_ORDER, C_NAME, C_TIMER, C_TOUCHED, CELLS = range(7)
"""A tuple: codes of the ends of its interval (NOTHING: it has none), order and name of its first record, the code at
which it is next looked at (INFINITE: never; a tuple has one timer at most), whether this step has a record of it."""
NOTHING = -NOWHERE
N_TIMERS, N_HELD, N_BEGUN, N_ENDED, N_WIDTH = range(5)
"""How many timers there are, how many tuples hold, how many intervals began and ended in this step."""
I_SLOT, I_START, I_END, I_ORDER, I_NAME, I_WIDTH = range(6)
"""An interval that begins or ends."""
AHEAD = 16
"""Records: so far ahead the cells of a tuple are asked for."""
SHORT = 32
"""So many rows of one instant are sorted by insertion."""


@njit(cache=True, inline="always")
def _put(intervals, count, slot, start, end, order, name):  # type: ignore[no-untyped-def]
    intervals[count, I_SLOT], intervals[count, I_START], intervals[count, I_END] = slot, start, end
    intervals[count, I_ORDER], intervals[count, I_NAME] = order, name


@njit(cache=True, inline="always")
def _over(cells, slot, ended, counts):  # type: ignore[no-untyped-def]
    """The interval of a tuple is over."""
    _put(
        ended, counts[N_ENDED], slot, cells[slot, C_START], cells[slot, C_END], cells[slot, C_ORDER],
        cells[slot, C_NAME],
    )  # fmt: skip
    counts[N_ENDED] += 1
    counts[N_HELD] -= 1
    cells[slot, C_END] = NOTHING


@njit(linear=True, cache=True)
def joined(slots, start, end, order, name, done, watermark, cells, heap, counts):  # type: ignore[no-untyped-def]
    """Takes pieces, sorted by start, and gives the intervals that begin after `done` and those that are over at the
    watermark: as many begin as there are pieces at most; each that ends was held before, by a tuple of a piece or one
    with a timer, or began here. `heap` has room for a timer more a piece, `cells` for all slots."""
    n = len(slots)
    begun, ended = np.empty((n, I_WIDTH), np.int64), np.empty((2 * n + counts[N_TIMERS], I_WIDTH), np.int64)
    counts[N_BEGUN] = counts[N_ENDED] = 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(cells, slots[i + AHEAD])
        slot, first, last = slots[i], start[i], end[i]
        if first > last:
            continue
        cells[slot, C_TOUCHED] = 1
        until = cells[slot, C_END]
        if until != NOTHING:
            if first <= until + 1:
                cells[slot, C_END] = max(until, last)
                continue
            _over(cells, slot, ended, counts)
        cells[slot, C_START], cells[slot, C_END] = first, last
        cells[slot, C_ORDER], cells[slot, C_NAME] = order[i], name[i]
        counts[N_HELD] += 1
        if first >> 1 > done:
            _put(begun, counts[N_BEGUN], slot, first, last, order[i], name[i])
            counts[N_BEGUN] += 1
    for i in range(n):
        if i + AHEAD < n:
            prefetch(cells, slots[i + AHEAD])
        slot = slots[i]
        if cells[slot, C_TOUCHED] == 0:
            continue
        cells[slot, C_TOUCHED] = 0
        until = cells[slot, C_END]
        if until == NOTHING or until == INFINITE:
            continue
        if (until + 1) >> 1 <= watermark:
            _over(cells, slot, ended, counts)
        elif cells[slot, C_TIMER] == INFINITE:
            cells[slot, C_TIMER] = until
            put_timer(heap, counts[N_TIMERS], until, slot)
            counts[N_TIMERS] += 1
    _past(cells, heap, counts, watermark, ended)
    return begun[: counts[N_BEGUN]], ended[: counts[N_ENDED]]


@njit(cache=True, inline="always")
def _gone(cells, slot, watermark, ended, counts):  # type: ignore[no-untyped-def]
    """A timer of the tuple goes: at what code it is to be looked at again; INFINITE: at none."""
    until = cells[slot, C_END]
    if until == NOTHING:
        until = INFINITE
    elif until < INFINITE and (until + 1) >> 1 <= watermark:
        _over(cells, slot, ended, counts)
        until = INFINITE
    cells[slot, C_TIMER] = until
    return until


@njit(linear=True, cache=True)
def _past(cells, heap, counts, watermark, ended):  # type: ignore[no-untyped-def]
    """What is over by time alone goes, a timer each. One by one they are taken off the heap; where they are many of all
    timers, all are looked at instead."""
    fewest = counts[N_TIMERS] - (counts[N_TIMERS] >> 4) - 16
    while counts[N_TIMERS] > max(fewest, 0) and (heap[0, 0] + 1) >> 1 <= watermark:
        slot = heap[0, 1]
        counts[N_TIMERS] = drop_timer(heap, counts[N_TIMERS])
        following = _gone(cells, slot, watermark, ended, counts)
        if following < INFINITE:  # one has gone for it
            put_timer(heap, counts[N_TIMERS], following, slot)
            counts[N_TIMERS] += 1
    if counts[N_TIMERS] > 0 and (heap[0, 0] + 1) >> 1 <= watermark:
        left = 0
        for i in range(counts[N_TIMERS]):
            following, slot = heap[i, 0], heap[i, 1]
            if (following + 1) >> 1 <= watermark:
                following = _gone(cells, slot, watermark, ended, counts)
            if following < INFINITE:  # no further on than where it was
                heap[left, 0], heap[left, 1] = following, slot
                left += 1
        counts[N_TIMERS] = left
        order_timers(heap, left)


@njit(linear=True, cache=True)
def next_end(cells, heap, counts):  # type: ignore[no-untyped-def]
    """The code of the earliest end; INFINITE: there is none."""
    while counts[N_TIMERS] > 0:
        code, slot = heap[0, 0], heap[0, 1]
        until = cells[slot, C_END]
        if until == code:
            return code
        counts[N_TIMERS] = drop_timer(heap, counts[N_TIMERS])
        cells[slot, C_TIMER] = INFINITE
        if until != NOTHING and until != INFINITE:  # one has gone for it
            cells[slot, C_TIMER] = until
            put_timer(heap, counts[N_TIMERS], until, slot)
            counts[N_TIMERS] += 1
    return INFINITE


@njit(linear=True, cache=True)
def keep(slots, start, end, order, name, cells, heap, counts):  # type: ignore[no-untyped-def]
    """Tuples that hold nothing yet hold this, one interval each: the cells have room for all slots, the heap for a
    timer each."""
    for i in range(len(slots)):
        slot = slots[i]
        cells[slot, C_START], cells[slot, C_END] = start[i], end[i]
        cells[slot, C_ORDER], cells[slot, C_NAME] = order[i], name[i]
        counts[N_HELD] += 1
        if end[i] < INFINITE and cells[slot, C_TIMER] == INFINITE:
            cells[slot, C_TIMER] = end[i]
            put_timer(heap, counts[N_TIMERS], end[i], slot)
            counts[N_TIMERS] += 1


@njit(cache=True, inline="always")
def _row(table, place, start, end, order, interval, at, known, kind):  # type: ignore[no-untyped-def]
    table[START, place], table[END, place], table[ORDER, place] = start, end, order
    table[IDENTITY, place] = interval[at, I_NAME]
    slot = interval[at, I_SLOT]
    for column in range(known.shape[1]):
        table[FIRST + column, place] = known[slot, column]
    table[FIRST + known.shape[1], place] = kind
    return place + 1


@njit(linear=True, cache=True)
def put_rows(begun, ended, by_end, wanted, known, table):  # type: ignore[no-untyped-def]
    """The rows that tell of intervals: for each that begins and each that ends one of each kind `wanted`, for which
    there is room; those of one instant almost in order of arrival. `by_end`: in which order intervals end."""
    i = j = place = 0
    while i < len(begun) or j < len(by_end):
        first = j == len(by_end)
        if i < len(begun) and not first:
            first = begun[i, I_START] >> 1 < (ended[by_end[j], I_END] + 1) >> 1
        if first:
            start = begun[i, I_START] >> 1
            order = begun[i, I_ORDER]
            if wanted[BEGINS]:
                kind = BEGINS if begun[i, I_START] & 1 else BEGINS_AT
                place = _row(table, place, start, start, order, begun, i, known, kind)
            if wanted[BEGINNING]:
                place = _row(table, place, start, start, order, begun, i, known, BEGINNING)
            i += 1
            continue
        at = by_end[j]
        start, end, order = ended[at, I_START] >> 1, (ended[at, I_END] + 1) >> 1, ended[at, I_ORDER]
        if wanted[WHOLE]:
            place = _row(table, place, start, end, order, ended, at, known, WHOLE)
        if wanted[GIVEN]:
            bounds = 3 - (ended[at, I_START] & 1) - 2 * (ended[at, I_END] & 1)
            place = _row(table, place, start, end, bounds, ended, at, known, GIVEN)
        if wanted[ENDS]:
            kind = ENDS_AT if ended[at, I_END] & 1 else ENDS
            place = _row(table, place, end, end, order, ended, at, known, kind)
        if wanted[ENDING]:
            place = _row(table, place, end, end, order, ended, at, known, ENDING)
        j += 1


@njit(cache=True, inline="always")
def _later(table, i, j, turn):  # type: ignore[no-untyped-def]
    """Whether row i arrives after row j, of the same end."""
    last = table.shape[0] - 1
    if table[START, i] != table[START, j]:
        return table[START, i] > table[START, j]
    if table[ORDER, i] != table[ORDER, j]:
        return table[ORDER, i] > table[ORDER, j]
    return turn[table[last, i]] > turn[table[last, j]]


@njit(linear=True, cache=True)
def settled(table, turn):  # type: ignore[no-untyped-def]
    """Sorts the rows of each instant by start and order, those of one interval by the `turn` of their kind. False: one
    has too many rows, which are not in order."""
    n = table.shape[1]
    since = 0
    for i in range(1, n):
        if table[END, i] != table[END, i - 1]:
            since = i
            continue
        if not _later(table, i - 1, i, turn):
            continue
        if i - since > SHORT:
            return False
        at = i
        while at > since and _later(table, at - 1, at, turn):
            for row in range(table.shape[0]):
                table[row, at - 1], table[row, at] = table[row, at], table[row, at - 1]
            at -= 1
    return True
