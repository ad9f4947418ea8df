"""A window of the latest rows of one event. Rows can be added, removed, and found by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.hashtable import KeySet, capacity_for, mix
from cep.core.kernels import njit
from cep.core.relation import END, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.stable_order import stable_order
from cep.core.time import BEGINNING, END_OF_TIME
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Bools, Ints
from cep.operators.goals.keys import grow

FEW = 8
"""The maximum number of rows with the same end that are compared one by one. If there are more, rows are looked up by
hash."""
SMALL = 8192
"""The number of rows below which a table is joined with the next table, to keep the number of tables small."""


class RowWindow:
    """Rows of one event, in tables whose rows are ordered by arrival. A table is sorted by end when it is first
    searched. `last`: the latest end of all rows."""

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.runs: list[Table] = []
        self.last = BEGINNING
        self._spans: list[tuple[int, int]] = []
        """The earliest and the latest end in each table."""
        self._sorted: list[bool] = []
        """For each table, True if it is known to be sorted by end."""

    def add(self, table: Table, span: tuple[int, int] | None = None, ordered: bool = False) -> None:
        """Add rows in any order. The window stores the table itself, so the caller must not change it any more.

        `span`: the earliest and the latest end of the rows, if known. `ordered`: True if they are known to be sorted
        by end.
        """
        if not rows(table):
            return
        table = contiguous(table)
        if span is None:
            span = (table[END, 0], table[END, -1]) if ordered else (table[END].min(), table[END].max())
        self._append(table, (int(span[0]), int(span[1])), ordered)
        while len(self.runs) > 1 and rows(self.runs[-2]) < min(SMALL, 2 * rows(self.runs[-1])):
            spans = self._spans[-2:]
            joined = np.concatenate(self.runs[-2:], axis=1)
            ordered = self._sorted[-2] and self._sorted[-1] and spans[0][1] <= spans[1][0]
            del self.runs[-2:], self._spans[-2:], self._sorted[-2:]
            self._append(joined, (min(spans[0][0], spans[1][0]), max(spans[0][1], spans[1][1])), ordered)

    def ending(self, after: int, until: int) -> Table:
        """Return the rows that end after `after` and at or before `until`, sorted by arrival."""
        parts = []
        for number in self._within(after + 1, until):
            run = self._run(number)
            first, last = np.searchsorted(run[END], [after, until], "right").tolist()
            if first < last:
                parts.append(run[:, first:last])
        return by_arrival(contiguous(concat(parts))) if parts else empty(self.arguments)

    def leaving(self, until: int) -> Table:
        """Remove the rows that end at or before `until`, and return them, sorted by arrival."""
        if self.runs and self.last <= until:  # all rows leave
            order = sorted(range(len(self.runs)), key=self._spans.__getitem__)
            gone = by_arrival(concat([self.runs[number] for number in order]))
            self.clear()
            return gone
        gone = self.ending(BEGINNING, until)
        if rows(gone):
            kept = [self._run(number) for number, span in enumerate(self._spans) if span[1] > until]
            self.clear()
            for run in kept:
                first = int(np.searchsorted(run[END], until, "right"))
                if first < rows(run):
                    run = run[:, first:].copy() if first else run
                    self._append(run, (int(run[END, 0]), int(run[END, -1])), True)
        return gone

    def since(self, after: int) -> Table:
        """Remove the rows that end after `after`, and return them, sorted by arrival."""
        gone = self.ending(after, END_OF_TIME)
        for number in reversed([*self._within(after + 1, END_OF_TIME)]):
            run = self._run(number)
            first = int(np.searchsorted(run[END], after, "right"))
            if first:
                self.runs[number] = run[:, :first]
                self._spans[number] = self._spans[number][0], int(run[END, first - 1])
            else:
                del self.runs[number], self._spans[number], self._sorted[number]
        self.last = max((last for _, last in self._spans), default=BEGINNING)
        return gone

    def after(self, end: int) -> int:
        """Count the rows that end after `end`."""
        runs = [self._run(number) for number in self._within(end + 1, END_OF_TIME)]
        return sum(rows(run) - int(np.searchsorted(run[END], end, "right")) for run in runs)

    def until(self, end: int) -> int:
        """Count the rows that end at or before `end`."""
        runs = [self._run(number) for number in self._within(BEGINNING, end)]
        return sum(int(np.searchsorted(run[END], end, "right")) for run in runs)

    def clear(self) -> None:
        self.runs, self._spans, self._sorted, self.last = [], [], [], BEGINNING

    def same(self, table: Table, words: Sequence[int]) -> Table:
        """Return the rows of the window that equal a row of `table`, in any order.

        `table` must be sorted by end. `words`: the indexes of the matrix rows to compare, which include the row of
        ends.
        """
        parts = [empty(self.arguments)]
        if rows(table):
            apart, buffers = _telling(words), _buffers(rows(table))
            for number in self._within(int(table[END, 0]), int(table[END, -1])):
                places = _alike(self._run(number), table, apart, *buffers)
                if len(places):
                    parts.append(self.runs[number][:, places])
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def drop(self, table: Table) -> None:
        if not rows(table):
            return
        table = table.take(stable_order(table[END]), axis=1)
        words = _telling([row for row in range(len(table)) if row != IDENTITY])
        buffers = _buffers(rows(table))
        for number in self._within(int(table[END, 0]), int(table[END, -1])):
            places = _alike(self._run(number), table, words, *buffers)
            if len(places):
                stays = np.ones(rows(self.runs[number]), np.bool_)
                stays[places] = False
                self.runs[number] = contiguous(self.runs[number][:, stays])
        kept = [number for number, run in enumerate(self.runs) if rows(run)]
        if len(kept) < len(self.runs):
            self.runs = [self.runs[number] for number in kept]
            self._spans = [self._spans[number] for number in kept]
            self._sorted = [self._sorted[number] for number in kept]

    def change(self, table: Table, come: bool) -> None:
        """Add rows to the window. If `come` is False, remove them."""
        if come:
            self.add(table)
        else:
            self.drop(contiguous(table))

    def all(self) -> Table:
        """Return all rows, in any order."""
        return np.concatenate([empty(self.arguments), *self.runs], axis=1)

    @property
    def size(self) -> int:
        return sum(map(rows, self.runs))

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    def _append(self, table: Table, span: tuple[int, int], ordered: bool) -> None:
        self.runs.append(table)
        self._spans.append(span)
        self._sorted.append(ordered)
        self.last = max(self.last, span[1])

    def _within(self, first: int, last: int) -> Iterator[int]:
        return (number for number, span in enumerate(self._spans) if span[0] <= last and span[1] >= first)

    def _run(self, number: int) -> Table:
        """Return the stored table `number`. If it is not sorted by end or not contiguous, sort and copy it first."""
        run = self.runs[number] = contiguous(self.runs[number])
        if not self._sorted[number]:
            if bool((run[END, 1:] < run[END, :-1]).any()):
                run = self.runs[number] = run.take(stable_order(run[END]), axis=1)
            self._sorted[number] = True
        return run


@njit()
def _alike(run, table, words, buckets, chained, places):  # type: ignore[no-untyped-def]
    """Return the positions of those rows in `run` that equal a row of `table` in the matrix rows `words`. Both tables
    must be sorted by end.

    If more than FEW rows of `table` have the same end, they are looked up by hash. `buckets` and `chained` are buffers
    for this lookup. `buckets` must have room for a power of two that is at least twice the number of these rows, and
    `chained` for each of these rows. `places` grows as needed.
    """
    count, ends = 0, run[END]
    i, last = np.searchsorted(table[END], ends[0]), ends[ends.shape[0] - 1]
    while i < table.shape[1] and table[END, i] <= last:
        end = table[END, i]
        until = i + 1
        while until < table.shape[1] and table[END, until] == end:
            until += 1
        mask = np.uint64(0)
        if until - i > FEW:
            size = 1
            while size < 2 * (until - i):
                size *= 2
            mask = np.uint64(size - 1)
            buckets[:size] = -1
            for j in range(i, until):
                bucket = np.int64(_hashed(table, j, words) & mask)
                chained[j] = buckets[bucket]
                buckets[bucket] = j
        place = np.searchsorted(ends, end)
        while place < run.shape[1] and ends[place] == end:
            is_known = False
            if mask:
                j = buckets[np.int64(_hashed(run, place, words) & mask)]
                while j >= 0 and not is_known:
                    is_known = _equal(run, place, table, j, words)
                    j = chained[j]
            else:
                for j in range(i, until):
                    is_known = is_known or _equal(run, place, table, j, words)
            if is_known:
                if count == places.shape[0]:
                    places = grow(places, count + 1)
                places[count, 0] = place
                count += 1
            place += 1
        i = until
    return places[:count, 0].copy()


def _buffers(count: int) -> tuple[Ints, Ints, Ints]:
    """Return buffers with which `_alike` finds rows of a table that has `count` rows."""
    buckets = np.empty(capacity_for(count) if count > FEW else 1, np.int64)
    return buckets, np.empty(count, np.int64), np.empty((count, 1), np.int64)


@njit(_nrt=False)
def _hashed(table, row, words):  # type: ignore[no-untyped-def]
    mixed = np.uint64(0)
    for word in words:
        mixed = mix(mixed, table[word, row])
    return mixed


@njit(_nrt=False)
def _equal(first_table, row, other, its, words):  # type: ignore[no-untyped-def]
    for word in words:
        if first_table[word, row] != other[word, its]:
            return False
    return True


def _telling(words: Sequence[int]) -> Ints:
    """Sort matrix rows so that a comparison finds differences early: rows of arguments come first."""
    return np.array(words[::-1], np.int64)


def without(table: Table, others: Table) -> Table:
    if not rows(others) or not rows(table):
        return table
    gone = KeySet(len(table) - 1)
    gone.insert(_words(others))
    return table.compress(gone.find(_words(table)) < 0, axis=1)


def parted(table: Table, chosen: Bools) -> tuple[Table, Table]:
    """Split a table into the chosen rows and the others. This is fast if the chosen rows are at its beginning."""
    count = int(np.count_nonzero(chosen))
    if chosen[:count].all():
        return contiguous(table[:, :count]), contiguous(table[:, count:])
    return table.compress(chosen, axis=1), table.compress(~chosen, axis=1)


def _words(table: Table) -> Ints:
    """Return the values that identify each row: everything except its handle."""
    return np.ascontiguousarray(np.delete(table, IDENTITY, axis=0).T)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The changes of an event's rows: removed rows, and added rows."""

    going: Table
    coming: Table


def replaced(was: Table, now: Table) -> RowChanges:
    """Return the changes that turn the stored table `was` into the table `now`. Added rows are stored after all rows
    that stay.

    Both tables must be sorted by arrival. Rows that tie (see `cep.plan.ties`) get the order that they have in `now`. So
    if an added row ties with a later row that stays, the later row is removed and added again.
    """
    kinds = KeySet(len(was) - 1)
    old, _ = kinds.insert(_words(was))
    new, _ = kinds.insert(_words(now))
    place = np.full(kinds.count, -1)
    place[old] = np.arange(len(old))
    comes = (place[new] < 0) | (place[new] < np.maximum.accumulate(place[new]))
    arrival = now[[END, START, ORDER]]
    begins = np.ones(len(new), np.bool_)
    begins[1:] = (arrival[:, 1:] != arrival[:, :-1]).any(axis=0)
    count = np.cumsum(comes)
    comes = count > (count - comes)[begins][np.cumsum(begins) - 1]
    stays = np.zeros(kinds.count, np.bool_)
    stays[new[~comes]] = True
    return RowChanges(was.compress(~stays[old], axis=1), now.compress(comes, axis=1))


def joined(changes: Iterable[RowChanges]) -> RowChanges:
    """Combine successive changes into one object."""
    listed = list(changes)
    if len(listed) == 1:
        return listed[0]
    going = np.concatenate([row_changes.going for row_changes in listed], axis=1)
    coming = np.concatenate([row_changes.coming for row_changes in listed], axis=1)
    return RowChanges(without(going, coming), without(coming, going))
