"""The kernel for records that have an end. It stores one interval per tuple. Rows are output when it begins or ends.

A piece is the interval of one record. Records are processed at their starts. So all pieces of a tuple that have not
ended hold at the watermark, and form one interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cep.core.fluents import BEGINNING, BEGINS, BEGINS_AT, ENDING, ENDS, ENDS_AT, GIVEN, WHOLE
from cep.core.interval_sets import INFINITE, NOWHERE, coalesce
from cep.core.prefetch import prefetch
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START
from cep.core.time import END_OF_TIME, FARTHEST
from cep.core.values import MISSING
from cep.operators.goals.contract import Bools, Ints
from cep.operators.goals.fluents.timers import drop_timer, order_timers, put_timer
from cep.operators.goals.intrinsics import bare, inside

NEVER = 2 * END_OF_TIME


class Pieces(NamedTuple):
    """Pieces, which are intervals from records, as columns of equal length.

    - `slot`: the number of the tuple.
    - `start`, `end`: time codes (INFINITE: no end yet).
    - `order`, `name`: the arrival order and the lineage handle of the record.
    """

    slot: Ints
    start: Ints
    end: Ints
    order: Ints
    name: Ints

    def at(self, chosen: Ints | Bools) -> Pieces:
        return Pieces(*(column[chosen] for column in self))

    def with_(self, other: Pieces) -> Pieces:
        return Pieces(*(np.concatenate(both) for both in zip(self, other)))


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(5)))


def time_by(end: Ints) -> Ints:
    """Return the times of end codes; NEVER for the code INFINITE."""
    return np.where(end == INFINITE, NEVER, (end + 1) >> 1)


def time_of(code: int) -> int:
    """Return the time of one end code; NEVER for the code INFINITE."""
    return NEVER if code == INFINITE else (code + 1) >> 1


def over(end: Ints, watermark: int) -> Bools:
    over: Bools = (end != INFINITE) & (time_by(end) <= watermark)
    return over


def _numbered(*columns: Ints) -> Ints:
    """Return a number for each row of these columns. The numbers sort like the rows; equal rows have equal numbers."""
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(changes)
    return numbers


def closed(held: Pieces, new: Pieces, closers: Pieces) -> Pieces:
    """Give an end to pieces that have none, according to the records that close them. Return all pieces.

    A closing record applies to the pieces that have its tuple and start. If `new` has such a piece with an end, the
    piece without an end is dropped. Otherwise the piece ends at the earliest end among its closing records.
    """
    every = held.with_(new)
    is_open = every.end == INFINITE
    if not is_open.any() or not (len(closers.slot) or len(new.slot)):
        return every
    n = len(every.slot)
    both = every.with_(closers)
    number = _numbered(both.slot, both.start >> 1)
    first = np.full(int(number.max()) + 1, INFINITE)
    np.minimum.at(first, number[n:], closers.end)
    at_once = np.zeros(len(first), np.bool_)
    at_once[number[len(held.slot) : n][new.end != INFINITE]] = True
    end = np.where(is_open, first[number[:n]], every.end)
    return every._replace(end=end).at(~(is_open & at_once[number[:n]]))


def maximal(pieces: Pieces) -> Pieces:
    """Join pieces to maximal intervals. Each has the order and the handle of its first piece."""
    merged = coalesce(pieces.slot, pieces.start, pieces.end)
    order = np.lexsort((pieces.order, pieces.start, pieces.slot))
    ordered = pieces.at(order)
    if len(merged.key) == len(order):  # no two pieces touch
        return Pieces(merged.key, merged.start, merged.end, ordered.order, ordered.name)
    both = _numbered(np.concatenate([ordered.slot, merged.key]), np.concatenate([ordered.start, merged.start]))
    firsts = np.searchsorted(both[: len(order)], both[len(order) :])
    return Pieces(merged.key, merged.start, merged.end, ordered.order[firsts], ordered.name[firsts])


def within(pieces: Pieces, whole: Pieces) -> Ints:
    """Return, for each piece, the index of the maximal interval in `whole` that contains it."""
    n = len(pieces.slot)
    if len(whole.slot) == n:  # each piece is one interval
        place = np.empty(n, np.int64)
        place[np.lexsort((pieces.start, pieces.slot))] = np.arange(n)
        return place
    both = _numbered(np.concatenate([pieces.slot, whole.slot]), np.concatenate([pieces.start, whole.start]))
    return np.searchsorted(both[n:], both[:n], side="right") - 1


C_START, C_END, C_ORDER, C_NAME, CELLS = range(5)
"""Columns of the stored interval of a tuple: its start and end codes (an end of NOTHING: no interval), and the order
and handle of its first record."""
T_TIMER, T_TOUCHED, T_WIDTH = range(3)
"""Columns of a tuple's timer: its code (INFINITE: no timer), and 1 if the current step has a record of the tuple."""
NOTHING = -NOWHERE
N_TIMERS, N_HELD, N_BEGUN, N_ENDED, N_NEXT, N_WIDTH = range(6)
"""Places of counts in an array. They count the timers, the tuples that hold, the intervals that began in this step, and
the intervals that ended in it. N_NEXT is the earliest end code.

If N_TIMERS contains UNTIMED, no timers exist: they must be set before they are used, and N_NEXT is valid.
"""
UNTIMED = -1
I_SLOT, I_START, I_END, I_ORDER, I_NAME, I_WIDTH = range(6)
"""Columns of an interval that begins or ends."""
AHEAD = 16
"""The number of records by which prefetching is ahead of processing."""
SHORT = 32
"""The maximum number of rows of one instant that are sorted by insertion."""


@inside
def _put(intervals, count, slot, start, end, order, name):  # type: ignore[no-untyped-def]
    intervals[count, I_SLOT], intervals[count, I_START], intervals[count, I_END] = slot, start, end
    intervals[count, I_ORDER], intervals[count, I_NAME] = order, name


@inside
def _over(cells, slot, ended, counts):  # type: ignore[no-untyped-def]
    _put(
        ended, counts[N_ENDED], slot, cells[slot, C_START], cells[slot, C_END], cells[slot, C_ORDER],
        cells[slot, C_NAME],
    )  # fmt: skip
    counts[N_ENDED] += 1
    counts[N_HELD] -= 1
    cells[slot, C_END] = NOTHING


@bare
def ends_of(records, width, codes):  # type: ignore[no-untyped-def]
    """Write the time codes of records into `codes`: a row of starts and a row of ends.

    Return the latest end, the number of records that close others, the number of records that have no end, and True if
    the starts ascend.
    """
    latest, closing, lasting, rising = -INFINITE, 0, 0, True
    before = -NOWHERE
    for i in range(records.shape[1]):
        start, end = records[START, i], records[FIRST + width, i]
        bounds, other = records[FIRST + width + 1, i], records[FIRST + width + 2, i]
        if other != MISSING:
            start = other
            closing += 1
        first = 2 * start + 1 - (bounds & 1)
        rising = rising and first >= before
        before = first
        codes[0, i] = first
        if end == MISSING:
            lasting += 1
            codes[1, i] = INFINITE
        else:
            latest = max(latest, end)
            codes[1, i] = 2 * end - 1 + (bounds >> 1 & 1)
    return latest, closing, lasting, rising


@bare
def joined_all(slots, start, end, order, name, done, watermark, cells, known, counts, begun, ended):  # type: ignore[no-untyped-def]
    """Process pieces like `joined`, but scan the first `known` cells instead of using timers.

    This is faster if many tuples have pieces. Intervals that end by time alone are output in the order of tuples.
    """
    n = len(slots)
    counts[N_BEGUN] = counts[N_ENDED] = 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(cells, slots[i + AHEAD])
        slot, first, last = slots[i], start[i], end[i]
        if first > last:
            continue
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
    following, last = INFINITE, 2 * min(watermark, FARTHEST + 1)  # later than every end
    for slot in range(known):
        until = cells[slot, C_END]
        following = min(following, until if until > last else INFINITE)
        if NOTHING < until <= last:
            _over(cells, slot, ended, counts)
    counts[N_TIMERS], counts[N_NEXT] = UNTIMED, following


@bare
def set_timers(cells, timers, known, heap, counts):  # type: ignore[no-untyped-def]
    """Replace all timers: set one for each of the first `known` tuples whose interval has an end."""
    count = 0
    for slot in range(known):
        until = cells[slot, C_END]
        timers[slot, T_TIMER] = INFINITE
        if until != NOTHING and until != INFINITE:
            timers[slot, T_TIMER] = until
            heap[count, 0], heap[count, 1] = until, slot
            count += 1
    counts[N_TIMERS] = count
    order_timers(heap, count)


@bare
def joined(slots, start, end, order, name, done, watermark, cells, timers, heap, counts, begun, ended):  # type: ignore[no-untyped-def]
    """Process pieces, sorted by start. Write the intervals that begin after `done` and those that end by the watermark.

    At most one interval begins per piece. `heap` must have room for one further timer per piece, `cells` and `timers`
    for all slots. `ended` must have room for all stored intervals and one per piece.
    """
    n = len(slots)
    counts[N_BEGUN] = counts[N_ENDED] = 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(cells, slots[i + AHEAD])
        slot, first, last = slots[i], start[i], end[i]
        if first > last:
            continue
        timers[slot, T_TOUCHED] = 1
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
        if timers[slot, T_TOUCHED] == 0:
            continue
        timers[slot, T_TOUCHED] = 0
        until = cells[slot, C_END]
        if until == NOTHING or until == INFINITE:
            continue
        if (until + 1) >> 1 <= watermark:
            _over(cells, slot, ended, counts)
        elif timers[slot, T_TIMER] == INFINITE:
            timers[slot, T_TIMER] = until
            put_timer(heap, counts[N_TIMERS], until, slot)
            counts[N_TIMERS] += 1
    _past(cells, timers, heap, counts, watermark, ended)


@inside
def _gone(cells, timers, slot, watermark, ended, counts):  # type: ignore[no-untyped-def]
    """Process an expired timer of a tuple. Return the code of the tuple's next timer, or INFINITE."""
    until = cells[slot, C_END]
    if until == NOTHING:
        until = INFINITE
    elif until < INFINITE and (until + 1) >> 1 <= watermark:
        _over(cells, slot, ended, counts)
        until = INFINITE
    timers[slot, T_TIMER] = until
    return until


@bare
def _past(cells, timers, heap, counts, watermark, ended):  # type: ignore[no-untyped-def]
    """End the intervals whose end has passed. Each interval has one timer.

    Timers are taken off the heap one by one. If many of them have expired, the kernel scans all timers instead.
    """
    fewest = counts[N_TIMERS] - (counts[N_TIMERS] >> 4) - 16
    while counts[N_TIMERS] > max(fewest, 0) and (heap[0, 0] + 1) >> 1 <= watermark:
        slot = heap[0, 1]
        counts[N_TIMERS] = drop_timer(heap, counts[N_TIMERS])
        following = _gone(cells, timers, slot, watermark, ended, counts)
        if following < INFINITE:  # replace the dropped timer
            put_timer(heap, counts[N_TIMERS], following, slot)
            counts[N_TIMERS] += 1
    if counts[N_TIMERS] > 0 and (heap[0, 0] + 1) >> 1 <= watermark:
        left = 0
        for i in range(counts[N_TIMERS]):
            following, slot = heap[i, 0], heap[i, 1]
            if (following + 1) >> 1 <= watermark:
                following = _gone(cells, timers, slot, watermark, ended, counts)
            if following < INFINITE:  # never moved further back than it was
                heap[left, 0], heap[left, 1] = following, slot
                left += 1
        counts[N_TIMERS] = left
        order_timers(heap, left)


@bare
def next_end(cells, timers, heap, counts):  # type: ignore[no-untyped-def]
    """Return the earliest end code of a stored interval, or INFINITE."""
    if counts[N_TIMERS] == UNTIMED:
        return counts[N_NEXT]
    while counts[N_TIMERS] > 0:
        code, slot = heap[0, 0], heap[0, 1]
        until = cells[slot, C_END]
        if until == code:
            return code
        counts[N_TIMERS] = drop_timer(heap, counts[N_TIMERS])
        timers[slot, T_TIMER] = INFINITE
        if until != NOTHING and until != INFINITE:  # replace the dropped timer
            timers[slot, T_TIMER] = until
            put_timer(heap, counts[N_TIMERS], until, slot)
            counts[N_TIMERS] += 1
    return INFINITE


@bare
def keep(slots, start, end, order, name, cells, timers, heap, counts):  # type: ignore[no-untyped-def]
    """Store one interval for each tuple. None of the tuples may have an interval yet.

    The arrays must have room for all slots and their timers.
    """
    for i in range(len(slots)):
        slot = slots[i]
        cells[slot, C_START], cells[slot, C_END] = start[i], end[i]
        cells[slot, C_ORDER], cells[slot, C_NAME] = order[i], name[i]
        counts[N_HELD] += 1
        if end[i] < INFINITE and timers[slot, T_TIMER] == INFINITE:
            timers[slot, T_TIMER] = end[i]
            put_timer(heap, counts[N_TIMERS], end[i], slot)
            counts[N_TIMERS] += 1


@inside
def _row(table, place, start, end, order, interval, index, known, kind):  # type: ignore[no-untyped-def]
    table[START, place], table[END, place], table[ORDER, place] = start, end, order
    table[IDENTITY, place] = interval[index, I_NAME]
    slot = interval[index, I_SLOT]
    for column in range(known.shape[1]):
        table[FIRST + column, place] = known[slot, column]
    table[FIRST + known.shape[1], place] = kind
    return place + 1


@inside
def _later(table, i, j, turn):  # type: ignore[no-untyped-def]
    last = table.shape[0] - 1
    if table[START, i] != table[START, j]:
        return table[START, i] > table[START, j]
    if table[ORDER, i] != table[ORDER, j]:
        return table[ORDER, i] > table[ORDER, j]
    return turn[table[last, i]] > turn[table[last, j]]


@bare
def _settled(table, since, until, turn):  # type: ignore[no-untyped-def]
    """Sort the rows `since` to `until`, which have the same end, by start, order and kind.

    `turn`: the place of each kind in this order. Return False if there are too many rows to sort by insertion.
    """
    for i in range(since + 1, until):
        if not _later(table, i - 1, i, turn):
            continue
        if i - since > SHORT:
            return False
        position = i
        while position > since and _later(table, position - 1, position, turn):
            for row in range(table.shape[0]):
                table[row, position - 1], table[row, position] = table[row, position], table[row, position - 1]
            position -= 1
    return True


@bare
def put_rows(begun, ended, by_end, wanted, known, turn, table):  # type: ignore[no-untyped-def]
    """Write the output rows of intervals that begin or end, in order of arrival.

    - `by_end`: the order in which the intervals in `ended` end.
    - `wanted`: for each kind of row, True if it is output.
    - `turn`: the order of kinds for the same interval.

    Return False if an instant has so many rows that the caller must sort the table.
    """
    i = j = place = since = 0
    settled, instant = True, -INFINITE
    alone = True
    while i < len(begun) or j < len(by_end):
        first = j == len(by_end)
        if i < len(begun) and not first:
            first = begun[i, I_START] >> 1 < (ended[by_end[j], I_END] + 1) >> 1
        time = begun[i, I_START] >> 1 if first else (ended[by_end[j], I_END] + 1) >> 1
        if time != instant:
            if not alone:
                settled = _settled(table, since, place, turn) and settled
            since, instant, alone = place, time, True
        else:
            alone = False
        if first:
            order = begun[i, I_ORDER]
            if wanted[BEGINS]:
                kind = BEGINS if begun[i, I_START] & 1 else BEGINS_AT
                place = _row(table, place, time, time, order, begun, i, known, kind)
            if wanted[BEGINNING]:
                place = _row(table, place, time, time, order, begun, i, known, BEGINNING)
            i += 1
            continue
        index = by_end[j]
        if j + AHEAD < len(by_end):
            prefetch(ended, by_end[j + AHEAD])
            prefetch(known, ended[by_end[j + AHEAD // 2], I_SLOT])
        start, order = ended[index, I_START] >> 1, ended[index, I_ORDER]
        bounds = 3 - (ended[index, I_START] & 1) - 2 * (ended[index, I_END] & 1)
        # rows of one instant are unique only if the interval has a length; GIVEN rows are ordered by their bounds
        alone = alone and start < time and not (wanted[WHOLE] and wanted[GIVEN])
        if wanted[WHOLE]:
            place = _row(table, place, start, time, order, ended, index, known, WHOLE)
        if wanted[GIVEN]:
            place = _row(table, place, start, time, bounds, ended, index, known, GIVEN)
        if wanted[ENDS]:
            kind = ENDS_AT if ended[index, I_END] & 1 else ENDS
            place = _row(table, place, time, time, order, ended, index, known, kind)
        if wanted[ENDING]:
            place = _row(table, place, time, time, order, ended, index, known, ENDING)
        j += 1
    return (alone or _settled(table, since, place, turn)) and settled
