"""Changes: the beginnings and ends of tuples. This module reads, writes and sorts them, and evaluates stretches of
time.

Times are codes, two per microsecond: the instant t is 2t, and the gap after it is 2t + 1. Changes are decided up to a
code if no later input can add changes at or before this code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT, FOREVER, KINDS, SINCE_EVER
from cep.core.interval_sets import FAR, INFINITE, Intervals, coalesce, subtract
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.stable_order import FEW, WORD, phased_order, span
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.contract import Ints
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.state_tables import StateTable, tuples_of

_NEAR = 32
"""The maximum number of places by which insertion sort moves a row."""


class Changes(NamedTuple):
    """Changes of numbered tuples, as int64 columns of equal length. They are sorted by code, then by key.

    At time `code`, the tuple number `key` begins to hold (`begins` is 1) or stops holding (0). The changes of a tuple
    alternate, and no two have the same code. A tuple that has always held begins at -INFINITE.
    """

    key: Ints
    code: Ints
    begins: Ints


def no_changes() -> Changes:
    return Changes(*(np.empty(0, np.int64) for _ in range(3)))


def by_code(key: Ints, code: Ints, begins: Ints) -> Changes:
    """Sort rows, which may be in any order, and return them as changes. No two rows may have the same key and code, and
    no key may be negative."""
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
    codes = (words >> (bits + 1)) + low
    if int(code.min()) < low:
        codes[codes == low] = -INFINITE
    if int(code.max()) > high:
        codes[codes == high] = INFINITE
    return Changes(words >> 1 & ((1 << bits) - 1), codes, words & 1)


def in_order(key: Ints, code: Ints, begins: Ints, first: int = 1) -> Changes:
    """Sort rows, whose codes are almost ascending, and return them as changes.

    `first`: 1 if beginnings come before ends at equal codes, 0 if ends come first.
    """
    changes = np.empty((3, len(code)), np.int64)
    if not _by_instant(key, code, begins, first, changes) and not _settled(key, code, begins, first, changes):
        order = phased_order(code, begins ^ first)
        return Changes(key[order], code[order], begins[order])
    return Changes(*changes)


@njit()
def _by_instant(key, code, begins, first, changes):  # type: ignore[no-untyped-def]
    """Copy rows into `changes`, and sort the rows within each instant by code, then by beginning or end.

    Return False if the instants of the rows are not ascending. `changes` must have room for all rows.
    """
    n = len(code)
    since = 0
    while since < n:
        instant = code[since] >> 1
        if since + 1 == n or code[since + 1] >> 1 > instant:
            changes[0, since], changes[1, since], changes[2, since] = key[since], code[since], begins[since]
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
        position = since
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
                place = position
                position += 1
            changes[0, place], changes[1, place], changes[2, place] = key[i], code[i], begins[i]
        since = stop
    return True


@njit()
def _settled(key, code, begins, first, changes):  # type: ignore[no-untyped-def]
    """Copy rows into `changes` by insertion sort. Return False if a row would move by more than _NEAR places."""
    for i in range(len(code)):
        position = i
        now, later = code[i], begins[i] ^ first
        while position > 0 and (
            changes[1, position - 1] > now
            or (changes[1, position - 1] == now and changes[2, position - 1] ^ first > later)
        ):
            if i - position == _NEAR:
                return False
            changes[0, position], changes[1, position], changes[2, position] = (
                changes[0, position - 1],
                changes[1, position - 1],
                changes[2, position - 1],
            )
            position -= 1
        changes[0, position], changes[1, position], changes[2, position] = key[i], now, begins[i]
    return True


NOTHING = -INFINITE - 1
"""The code up to which an input is decided at the start, when nothing has arrived. It is before all times."""
_NONE: Ints = np.empty(0, np.int64)
_LATER, _BEGIN, _CHANGE, _EVER = 1, 2, 4, 8
"""Flags of the kinds of rows. _LATER: the row applies just after its instant. _BEGIN: it is a beginning. _CHANGE: it is
a change. _EVER: the tuple has always held."""
_CHANGES = np.zeros(KINDS, np.int64)
_CHANGES[[BEGINS, BEGINS_AT, ENDS, ENDS_AT]] = _CHANGE
_CHANGES[[BEGINS, BEGINS_AT]] |= _BEGIN
_CHANGES[[BEGINS, ENDS]] |= _LATER
_CHANGES[BEFORE] = _CHANGE | _BEGIN | _EVER


def decided(frontier: Frontier, late: int) -> int:
    """Return the code up to which an input is decided. `late`: the delay of the input in microseconds."""
    if frontier.watermark >= END_OF_TIME:
        return INFINITE
    return NOTHING if late >= FOREVER else max(2 * (frontier.watermark - late) + 1 - frontier.half, -FAR)


def due(code: int, late: int) -> int:
    """Return the time at which an input is decided up to `code`. `late`: the delay of the input in microseconds."""
    if late >= FOREVER or code >= INFINITE:
        return END_OF_TIME
    return max(code, -FAR) // 2 + late


def delay_of(late: int) -> int:
    """Return the delay of output changes in microseconds. `late`: the delay of the input that causes them.

    The result is 0 if the change is known only at the end of the input.
    """
    return 0 if late >= FOREVER else late


def changes_in(table: Table, kind_row: int) -> tuple[Table, Ints, Ints]:
    """Return the rows of a table that are changes, their codes, and 1 for each beginning, 0 for each end.

    `kind_row`: the matrix row with the kind of change.
    """
    places, code, begins, _ = _changes(table, kind_row)
    return (table if len(code) == rows(table) else take(contiguous(table), places)), code, begins


def _changes(table: Table, kind_row: int) -> tuple[Ints, Ints, Ints, int]:
    """Return the indexes of the rows that are changes, their codes, 1 for each beginning and 0 for each end, and the
    last code.

    The last code is NOTHING if there are no changes.
    """
    changes = np.empty((3, rows(table)), np.int64)
    count, last = _codes(contiguous(table), kind_row, _CHANGES, changes)
    if count == changes.shape[1]:
        return changes[0], changes[1], changes[2], last
    return changes[0, :count], changes[1, :count], changes[2, :count], last


@njit()
def _codes(table, kind_row, kinds, changes):  # type: ignore[no-untyped-def]
    """Write the index, the code and 1 or 0 for beginning or end of each change into `changes`.

    Return the number of changes, and the last code. `changes` needs one column per row of the table, because a row is
    written before it is counted.
    """
    count, last = 0, NOTHING
    for i in range(table.shape[1]):
        change = kinds[table[kind_row, i]]
        changes[0, count] = i
        changes[1, count] = -INFINITE if change & _EVER else 2 * table[START, i] + (change & _LATER)
        changes[2, count] = change >> 1 & 1
        last = max(last, changes[1, count] if change & _CHANGE else NOTHING)
        count += change >> 2 & 1
    return count, last


@njit()
def _arguments(table, places):  # type: ignore[no-untyped-def]
    picked = np.empty((table.shape[0], len(places)), np.int64)
    for row in range(FIRST, table.shape[0]):
        for i in range(len(places)):
            picked[row, i] = table[row, places[i]]
    return picked


def put_changes(table: Table, kind_row: int, code: Ints, begins: Ints, delay: int = 0) -> None:
    """Write the kinds and the times of changes into a table.

    `delay`: the delay with which each change is output, in microseconds.
    """
    _put(table, kind_row, code, begins, delay)


@njit()
def _put(table, kind_row, code, begins, delay):  # type: ignore[no-untyped-def]
    for i in range(table.shape[1]):
        instant = code[i]
        later = instant & 1
        time = instant >> 1
        kind = (BEGINS if later else BEGINS_AT) if begins[i] == 1 else (ENDS if later else ENDS_AT)
        if instant == -INFINITE:
            time, kind = SINCE_EVER, BEFORE
        table[START, i], table[END, i] = time, time + delay
        table[ORDER, i] = table[IDENTITY, i] = 0
        table[kind_row, i] = kind


@njit()
def put_tuples(table, first, known, keys, column):  # type: ignore[no-untyped-def]
    """Write tuples into the matrix rows of a table from `first` on.

    `known`: all tuples. `keys`: the numbers of the tuples to write, one per row. `column`: the first column to write.
    """
    for row in range(column, known.shape[1]):
        for i in range(len(keys)):
            table[first + row - column, i] = known[keys[i], row]


def waiting_table(
    name: str, width: int, kind: int, codes: Iterable[int], input: int = 0, columns: Sequence[int] | None = None
) -> StateTable:
    """Declare the state table for waiting changes of an input (see `PendingChanges.state`). Its first column is a time,
    the others are the input's columns.

    - `width`: the number of input columns. `kind`: the column with the kind of change, which is never part of a key.
    - `codes`: the columns of pool codes.
    - `columns`: the positions of the input columns that are stored. None means all.
    """
    keyed = tuples_of(name, range(width) if columns is None else columns, input, first=1)
    return StateTable(
        width=1 + width, keyed=keyed, codes=tuple(1 + column for column in codes), ranges={1 + kind: (0, KINDS)}
    )


class PendingChanges:
    """The inputs of a goal of formulas. They may be decided up to different times.

    Changes wait until all inputs are decided up to their time.

    - `widths`: the number of argument columns of each input.
    - `kinds`: the column with the kind of change of each input.
    - `lates`: the delay of each input in microseconds.
    """

    def __init__(self, widths: Sequence[int], kinds: Sequence[int], lates: Sequence[int]) -> None:
        self.widths = tuple(widths)
        self.kinds = tuple(FIRST + kind for kind in kinds)
        self.late = max(lates)
        self.tables: list[Table] = []
        self.clear()

    def clear(self) -> None:
        self.tables = [empty(width) for width in self.widths]
        self._first: int | None = None

    def take(self, inputs: Sequence[Table], frontier: Frontier) -> list[tuple[Table, Ints, Ints]]:
        """Take new changes, and return those that all inputs have decided by now.

        For each input, the result has a table, the codes, and 1 for each beginning, 0 for each end. Changes are in
        order of arrival, which is almost the order of codes. In the tables, only the matrix rows of arguments are
        valid.
        """
        until = decided(frontier, self.late)
        taken = []
        first = INFINITE
        for number, (table, kind) in enumerate(zip(inputs, self.kinds, strict=True)):
            waiting = self.tables[number]
            if rows(waiting):
                table = concat([waiting, table])
                self.tables[number] = empty(self.widths[number])
            elif not rows(table):
                taken.append((table, _NONE, _NONE))
                continue
            table = contiguous(table)
            places, code, begins, last = _changes(table, kind)
            if last > until:
                ready = code <= until
                self.tables[number] = table[:, places[~ready]]
                first = min(first, int(code[~ready].min()))
                places, code, begins = places[ready], code[ready], begins[ready]
            if len(code) < rows(table):
                table = _arguments(table, places)
            taken.append((table, code, begins))
        self._first = None if first == INFINITE else first
        return taken

    def due(self) -> int | None:
        """Return the time at which the first waiting change is decided."""
        return None if self._first is None else due(self._first, self.late)

    def become(self, tables: Sequence[Ints]) -> None:
        """Replace the waiting changes of each input. Each row has a time, then the input's columns."""
        self.clear()
        for number, table in enumerate(tables):
            pending = np.zeros((FIRST + self.widths[number], len(table)), np.int64)
            pending[START] = pending[END] = table[:, 0]
            pending[FIRST:] = table[:, 1:].T
            self.tables[number] = pending
            if len(table):
                code = int(changes_in(pending, self.kinds[number])[1].min())
                self._first = code if self._first is None else min(self._first, code)

    def state(self) -> list[Ints]:
        """Return the waiting changes of each input, in the form that `become` reads."""
        return [np.concatenate([table[[START]], table[FIRST:]]).T for table in self.tables]

    @property
    def count(self) -> int:
        return sum(rows(table) for table in self.tables)


class GrowingIntervals:
    """Intervals in which numbered tuples hold. Intervals can be added, but not removed."""

    def __init__(self) -> None:
        self._levels: list[Intervals] = []

    def added(self, key: Ints, start: Ints, end: Ints) -> Intervals:
        """Add intervals, and return their parts that were not covered before."""
        fresh = coalesce(key, start, end)
        if not len(fresh.key):
            return fresh
        for level in self._levels:
            fresh = subtract(fresh, _of(level, np.unique(fresh.key)))
        levels = self._levels
        if len(fresh.key):
            levels.append(fresh)
        # Each is at least twice as large as the next, so a row is moved a logarithmic number of times.
        while len(levels) > 1 and len(levels[-2].key) < 2 * len(levels[-1].key):
            last = levels.pop()
            levels[-1] = _joined([levels[-1], last])
        return fresh

    def of(self, keys: Ints) -> Intervals:
        """Return all intervals of the tuples `keys`, whose numbers must be ascending."""
        return _joined([_of(level, keys) for level in self._levels])

    def all(self) -> Intervals:
        return _joined(self._levels)


def _joined(levels: Sequence[Intervals]) -> Intervals:
    columns = [np.concatenate([level[i] for level in levels] or [np.empty(0, np.int64)]) for i in range(3)]
    return coalesce(*columns)


def _of(level: Intervals, keys: Ints) -> Intervals:
    low = np.searchsorted(level.key, keys, "left")
    counts = np.searchsorted(level.key, keys, "right") - low
    ends = np.cumsum(counts)
    chosen = np.repeat(low - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return Intervals(level.key[chosen], level.start[chosen], level.end[chosen])


class Rows:
    """The rows of one side of a join of intervals. Rows can be added, but not removed."""

    def __init__(self, width: int) -> None:
        self._table = np.empty((0, FIRST + width), np.int64)
        self.heads = np.full((0, 1), -1, np.int64)
        self.following = np.empty((0, 1), np.int64)
        self.count = 0

    @property
    def table(self) -> Table:
        return self._table[: self.count].T

    def add(self, table: Table, keys: Ints, known: int) -> None:
        """Add the rows of a table.

        `keys`: the number of each row's join key; -1 if the row matches nothing. `known`: the number of join keys that
        exist. Every number in `keys` is below it.
        """
        needed = self.count + rows(table)
        if needed > len(self._table):
            larger = np.empty((roomy(needed, 2 * len(self._table)), self._table.shape[1]), np.int64)
            larger[: self.count] = self._table[: self.count]
            self._table = larger
        self.following = filled_room(self.following, needed, -1)
        self.heads = filled_room(self.heads, known, -1)
        self._table[self.count : needed] = table.T
        _chained(keys, self.count, self.heads, self.following)
        self.count = needed

    def met(self, table: Table, keys: Ints) -> tuple[Ints, Ints]:
        """Return the stored rows that have the same key as a row of `table`, and a time in common with it.

        The result is pairs of indexes (row of `table`, stored row).
        """
        pairs, count = _met(
            keys, table[START].copy(), table[END].copy(), self.heads, self.following, self._table,
            np.empty((max(1, len(keys)), 2), np.int64),
        )  # fmt: skip
        return pairs[:count, 0], pairs[:count, 1]


@njit()
def _chained(keys, count, heads, following):  # type: ignore[no-untyped-def]
    """Link new rows into the chains of their keys.

    `count`: the number of rows that are already linked; the new rows follow them. The arrays must have room for all
    rows and keys.
    """
    for i in range(len(keys)):
        if keys[i] >= 0:
            following[count + i, 0] = heads[keys[i], 0]
            heads[keys[i], 0] = count + i


@njit()
def _met(keys, starts, ends, heads, following, table, pairs):  # type: ignore[no-untyped-def]
    """Return pairs (index in `keys`, row of `table`) that have equal keys and overlapping times, and their count.

    `pairs`: a buffer for the pairs, which is replaced by a larger one if needed.
    """
    count = 0
    for i in range(len(keys)):
        if keys[i] < 0 or keys[i] >= len(heads):
            continue
        q = heads[keys[i], 0]
        while q >= 0:
            if table[q, START] <= ends[i] and starts[i] <= table[q, END]:
                if count == pairs.shape[0]:
                    pairs = grow(pairs, count + 1)
                pairs[count, 0], pairs[count, 1] = i, q
                count += 1
            q = following[q, 0]
    return pairs, count


def table_of(held: Intervals, known: Ints) -> Table:
    """Return intervals of numbered tuples as rows: the values of the tuple (`known`), then the kind BEGINS."""
    table = np.zeros((FIRST + known.shape[1] + 1, len(held.key)), np.int64)
    table[START], table[END] = held.start, held.end
    table[FIRST:-1] = known[held.key].T
    table[-1] = BEGINS
    return table


def held_in(changes: Table, holding: Ints, first: int, last: int) -> Table:
    """Return the intervals in which tuples hold during a stretch, one per row.

    `changes`: the changes of the stretch, with the kind of change in the last column. `holding`: the tuples that hold
    after the stretch.
    """
    width = changes.shape[0] - FIRST - 1
    tuples, columns = Keys(width), np.arange(width)
    changes, code, begins = changes_in(changes, FIRST + width)
    key = tuples.slots(changes, columns, groups=True)
    changed = tuples.count
    after = np.zeros((FIRST + width, len(holding)), np.int64)
    after[FIRST:] = holding.T
    held = tuples.slots(after, columns, groups=True)
    whole = held[held >= changed]
    stretch = stretch_of(Changes(key, code, begins), np.empty(0, np.int64), first, last)
    key = np.concatenate([stretch.key, whole])
    start = np.concatenate([stretch.start, np.full(len(whole), first)])
    end = np.concatenate([stretch.end, np.full(len(whole), last)])
    return table_of(Intervals(key, start, end), tuples.known)


def changed_in(changes: Table, first: int, last: int) -> tuple[Table, Table]:
    """Return two tables about the tuples that change in a stretch.

    The first table has the tuples that held before the stretch, as rows that cover the whole stretch. The second has
    the intervals in which the tuples hold. `changes`: the changes of the stretch, with the kind in the last column.
    """
    width = changes.shape[0] - FIRST - 1
    tuples = Keys(width)
    changes, code, begins = changes_in(changes, FIRST + width)
    key = tuples.slots(changes, np.arange(width), groups=True)
    order = np.lexsort((code, key))
    opening = order[np.append(True, key[order][1:] != key[order][:-1])] if len(order) else order
    before = key[opening[begins[opening] == 0]]
    start, end = np.full(len(before), first), np.full(len(before), last)
    stretch = stretch_of(Changes(key, code, begins), np.empty(0, np.int64), first, last)
    return table_of(Intervals(before, start, end), tuples.known), table_of(stretch, tuples.known)


def stretch_of(changes: Changes, held: Ints, first: int, last: int) -> Intervals:
    """Return the intervals in which tuples hold during a stretch, sorted by key.

    `changes`: the changes of the stretch. `held`: the tuples that hold before the stretch. It need not contain tuples
    that occur in `changes`.
    """
    if not len(changes.key):
        key = np.unique(held)
        return Intervals(key, np.full(len(key), first), np.full(len(key), last))
    order = np.lexsort((changes.code, changes.key))
    key, code, begins = (column[order] for column in changes)
    opening = np.ones(len(key), np.bool_)
    opening[1:] = key[1:] != key[:-1]
    before = np.union1d(np.setdiff1d(held, key), key[opening & (begins == 0) & (code > first)])
    key = np.concatenate([key, before])
    code = np.concatenate([code, np.full(len(before), first)])
    begins = np.concatenate([begins, np.ones(len(before), np.int64)])
    order = np.lexsort((code, key))
    key, code, begins = key[order], code[order], begins[order]
    starts = np.flatnonzero(begins)
    following = np.minimum(starts + 1, max(len(key) - 1, 0))
    ended = (following > starts) & (key[following] == key[starts]) & (begins[following] == 0)
    end = np.where(ended, code[following] - 1, last)
    return Intervals(key[starts], code[starts], end)


def changes_against(held: Intervals, before: Ints, first: int, last: int) -> Changes:
    """Return the changes that make tuples hold in the intervals `held` of a stretch, sorted by code.

    `held`: the intervals, sorted by key. `before`: the tuples that hold before the stretch.
    """
    goes_on = (held.start == first) & np.isin(held.key, before)
    ending = held.end < last
    stopped = np.setdiff1d(before, held.key[held.start == first])
    key = np.concatenate([held.key[~goes_on], held.key[ending], stopped])
    code = np.concatenate([held.start[~goes_on], held.end[ending] + 1, np.full(len(stopped), first)])
    begins = np.zeros(len(key), np.int64)
    begins[: int((~goes_on).sum())] = 1
    order = np.lexsort((key, code))
    return Changes(key[order], code[order], begins[order])


def clipped(table: Table, first: int, last: int) -> Table:
    """Return the rows that overlap a stretch. Their intervals are cut to the stretch."""
    inside = (table[START] <= last) & (table[END] >= first)
    if not inside.all():
        table = table.compress(inside, axis=1)
    if rows(table) and (int(table[START].min()) < first or int(table[END].max()) > last):
        table = table.copy()
        table[START] = np.maximum(table[START], first)
        table[END] = np.minimum(table[END], last)
    return table
