"""Edits of a table whose rows are kept in the order of their values. An edit costs more the more rows it adds or
removes.

A removed row stays in the table's hash index, and queries skip it. Each row has a numeric label. The labels have the
same order as the rows' values: a new row gets a label between the labels of its neighbours.

Each edit takes effect at a certain time. A log of the edits shows which rows were present at an earlier time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import filled_room
from cep.core.values import Ints, Pool
from cep.rules.expressions.value_order import sort_key, sorting

if TYPE_CHECKING:
    from cep.core.hashtable import KeySet

_GAP = 1 << 32  # the gap between labels that `_sort` assigns
_SINGLE = 64  # the maximum number of new rows that are inserted one by one
_GONE = 1024  # removed rows that may remain, in addition to one per present row
_TIME, _ROW, _COPIES, _BEFORE = range(4)  # the columns of a log


class EditLog:
    """A log of edits of a table, in order of time. Queries about earlier times need it.

    An entry consists of a time, a row, the number of copies of the row that were added at this time (negative if they
    were removed), and the number of the previous entry about the same row (-1: none).
    """

    def __init__(self) -> None:
        self._entries: Ints = np.empty((0, 4), dtype=np.int64)
        self._dropped = 0  # the number of entries that are no longer stored
        self._first = self.count = 0  # the numbers of the first entry that is needed, and of the next new entry
        self._newest: Ints = np.empty(0, dtype=np.int64)  # the number of the last entry of each row, or -1

    def __len__(self) -> int:
        return self.count - self._first

    @property
    def entries(self) -> Ints:
        """The entries that `forget` has not dropped."""
        return self._entries[self._first - self._dropped : self.count - self._dropped]

    def append(self, times: Ints, rows: Ints, copies: Ints) -> None:
        """Add entries. `times`: the times of the edits, which are ascending and not before the times of earlier
        entries."""
        more = int(rows.max(initial=-1)) + 1 - len(self._newest)
        if more > 0:
            self._newest = np.concatenate([self._newest, np.full(max(more, len(self._newest)), -1)])
        numbers = self.count + np.arange(len(rows))
        order = np.argsort(rows, kind="stable")
        before = self._newest[rows]
        again = np.flatnonzero(rows[order][1:] == rows[order][:-1])
        before[order[again + 1]] = numbers[order[again]]
        self._newest[rows[order]] = numbers[order]  # the last entry of a row counts
        stored = self.count - self._dropped
        self._entries = filled_room(self._entries, stored + len(rows), 0)
        self._entries[stored : stored + len(rows)] = np.column_stack([times, rows, copies, before])
        self.count += len(rows)

    def copies_at(self, rows: Ints, copies: Ints, times: Ints) -> Ints:
        """Return how many copies of each row were present at the time in `times`. `copies`: how many are present
        now."""
        if not len(self) or not len(rows) or int(times.min()) >= self.entries[-1, _TIME]:
            return copies
        copies = copies.copy()
        held = np.flatnonzero(rows < len(self._newest))
        numbers = self._newest[rows[held]]
        while len(held):
            needed = np.flatnonzero(numbers >= self._first)
            held, entries = held[needed], self._entries[numbers[needed] - self._dropped]
            later = np.flatnonzero(entries[:, _TIME] > times[held])
            held, entries = held[later], entries[later]
            copies[held] -= entries[:, _COPIES]
            numbers = entries[:, _BEFORE]
        return copies

    def undo(self, after: int) -> Ints:
        """Remove the entries that take effect after a time, and return them."""
        start = int(np.searchsorted(self.entries[:, _TIME], after, "right"))
        undone = self.entries[start:].copy()
        self._newest[undone[::-1, _ROW]] = undone[::-1, _BEFORE]  # the first entry of a row counts
        self.count -= len(undone)
        return undone

    def forget(self, until: int) -> None:
        """Drop the entries that only queries about times before `until` need."""
        self._first += int(np.searchsorted(self.entries[:, _TIME], until, "right"))
        if 2 * (self._first - self._dropped) > len(self._entries):
            self._entries, self._dropped = self.entries.copy(), self._first

    def has(self, rows: int) -> NDArray[np.bool_]:
        """Return a mask of the table's rows that have entries. `rows`: the number of the table's rows."""
        mask = np.zeros(rows, dtype=np.bool_)
        mask[: len(self._newest)] = self._newest[:rows] >= self._first
        return mask


class Edits:
    """The edits of a table. At first, all rows of `table` are present.

    `labels`: the label of each row. `flipped`: the numbers of the rows that were added or removed since
    `MaterializedRelation.settle` was last called.
    """

    def __init__(self, table: KeySet, types: Sequence[str], pool: Pool) -> None:
        self.table, self.types, self.pool = table, types, pool
        self.count = table.count
        self.flipped: set[int] = set()
        self.log = EditLog()
        self._copies: Ints = np.ones(table.count, dtype=np.int64)  # the number of times that each row is present
        self._sort()

    def _sort(self) -> None:
        rows, known = self.table.rows, self.table.count
        columns = [
            np.ascontiguousarray(rows[:, i]).view(np.float64) if type == "float" else rows[:, i]
            for i, type in enumerate(self.types)
        ]
        self._order = sorting(columns, self.types, known, self.pool)
        self.labels: Ints = np.empty(known, dtype=np.int64)
        self.labels[self._order] = np.arange(known, dtype=np.int64) * _GAP
        self._present: Ints | None = None

    def change(self, words: Ints, copies: Ints, times: Ints) -> None:
        """Add copies of rows, or remove them where `copies` is negative.

        - `words`: the rows, as 64-bit words. A row may occur several times.
        - `copies`: for each row, the number of copies to add.
        - `times`: for each row, the time at which its edit takes effect. The times are ascending, and not before the
          times of earlier calls.
        """
        before = self.table.count
        rows, fresh = self.table.insert(words)
        more = self.table.count - before
        if more:
            self._copies = np.concatenate([self._copies, np.zeros(more, dtype=np.int64)])
            if more > _SINGLE:
                self._sort()
            else:
                self._place(rows[fresh].tolist())
        self._add(rows, copies)
        self.log.append(times, rows, copies)

    def _add(self, rows: Ints, copies: Ints) -> None:
        self._present = None
        touched = np.unique(rows)
        was = self._copies[touched] > 0
        np.add.at(self._copies, rows, copies)
        assert (self._copies[touched] >= 0).all(), "what goes was there"
        now = self._copies[touched] > 0
        self.count += int(now.sum()) - int(was.sum())
        self.flipped ^= set(touched[was != now].tolist())

    def undo(self, after: int) -> None:
        """Undo the edits that take effect after a time."""
        undone = self.log.undo(after)
        self._add(undone[:, _ROW], -undone[:, _COPIES])
        self.flipped = set()

    def _place(self, rows: list[int]) -> None:
        """Insert new rows into the order of values, and give them labels. `rows`: the numbers of these rows."""
        key, every = sort_key(self.types, self.pool), self.table.rows
        self.labels = np.concatenate([self.labels, np.zeros(len(rows), dtype=np.int64)])
        for row in rows:
            order = self._order
            place = bisect_left(order, key(every[row]), key=lambda other: key(every[other]))
            low = int(self.labels[order[place - 1]]) if place else None
            high = int(self.labels[order[place]]) if place < len(order) else None
            if low is None:
                label = 0 if high is None else high - _GAP
            else:
                label = low + _GAP if high is None else (low + high) // 2
            self._order = np.insert(order, place, row)
            self.labels[row] = label
            if label == low:  # no label is left between the neighbours
                self.labels[self._order] = np.arange(len(self._order), dtype=np.int64) * _GAP

    def there(self, rows: Ints, times: Ints | None = None, former: bool = False) -> NDArray[np.bool_]:
        """Return a mask that is True for each of `rows` that is present after all edits.

        `times`: if given, for each row the time at which the row must be present. `former`: True to test for the rows
        that were present when `MaterializedRelation.settle` was last called.
        """
        copies = self._copies[rows]
        is_present: NDArray[np.bool_] = (copies if times is None else self.log.copies_at(rows, copies, times)) > 0
        if former and self.flipped:
            is_present ^= np.isin(rows, list(self.flipped))
        return is_present

    @property
    def order(self) -> Ints:
        """The numbers of all rows, also of removed ones, in the order of their values."""
        return self._order

    def present(self) -> Ints:
        """Return the present rows as a matrix of 64-bit words, in the order of their values."""
        if self._present is None:
            self._present = self.table.rows[self._order[self.there(self._order)]]
        return self._present

    def difference(self) -> tuple[Ints, Ints]:
        """Return two matrices of 64-bit words: the rows that were removed since `MaterializedRelation.settle` was last
        called, and the rows that were added since then."""
        rows: Ints = np.array(sorted(self.flipped), dtype=np.int64)
        rows = rows[np.argsort(self.labels[rows], kind="stable")]
        now = self.there(rows)
        return self.table.rows[rows[~now]], self.table.rows[rows[now]]

    def repeated(self) -> Ints:
        """Return the additional copies of the present rows, as a matrix of 64-bit words."""
        more = np.flatnonzero(self._copies > 1)
        return self.table.rows[np.repeat(more, self._copies[more] - 1)]

    @property
    def wasteful(self) -> bool:
        """True if so many rows have been removed that `without_removed` is worthwhile."""
        return self.table.count > 2 * (self.count + len(self.log)) + _GONE

    def without_removed(self, table: KeySet) -> Edits:
        """Copy the rows that are still needed into `table`, which must be empty. Return the edits of this table."""
        kept = self._order[((self._copies > 0) | self.log.has(self.table.count))[self._order]]
        table.insert(self.table.rows[kept])
        edits = Edits(table, self.types, self.pool)
        edits._copies = self._copies[kept]
        edits.count = self.count
        numbers = np.empty(self.table.count, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        times, rows, copies, _ = self.log.entries.T
        edits.log.append(times, numbers[rows], copies)
        return edits
