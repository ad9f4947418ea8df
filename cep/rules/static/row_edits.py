"""Edits of a table whose rows are kept in the order of their values. The cost of an edit depends on the number of its
rows.

A removed row stays in the table's hash index, and queries skip it. Each row has a numeric label. The labels have the
same order as the rows' values: a new row gets a label between the labels of its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cep.core.values import Ints, Pool
from cep.rules.expressions.value_order import sort_key, sorting

if TYPE_CHECKING:
    from cep.core.hashtable import KeySet

_GAP = 1 << 32  # the gap between labels that `_sort` assigns
_SINGLE = 64  # the maximum number of new rows that are inserted one by one
_GONE = 1024  # removed rows that may remain, in addition to one per present row


class Edits:
    """The edits of a table. At first, all rows of `table` are present.

    `labels`: the label of each row. `flipped`: the numbers of the rows that were added or removed since the last call
    of `settle`.
    """

    def __init__(self, table: KeySet, types: Sequence[str], pool: Pool) -> None:
        self.table, self.types, self.pool = table, types, pool
        self.count = table.count
        self.flipped: set[int] = set()
        self._times: Ints = np.ones(table.count, dtype=np.int64)  # the number of times that each row is present
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

    def apply(self, gone: Ints, new: Ints) -> None:
        """Remove the rows `gone`, and add the rows `new`. Both are matrices of words."""
        self._present = None
        before = self.table.count
        arrived, fresh = self.table.insert(new)
        more = self.table.count - before
        if more:
            self._times = np.concatenate([self._times, np.zeros(more, dtype=np.int64)])
            if more > _SINGLE:
                self._sort()
            else:
                self._place(arrived[fresh].tolist())
        went = self.table.find(gone)
        assert (went >= 0).all(), "what goes was there"
        touched = np.unique(np.concatenate([arrived, went]))
        was = self._times[touched] > 0
        np.add.at(self._times, arrived, 1)
        np.subtract.at(self._times, went, 1)
        assert (self._times[touched] >= 0).all(), "what goes was there"
        now = self._times[touched] > 0
        self.count += int(now.sum()) - int(was.sum())
        self.flipped ^= set(touched[was != now].tolist())

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

    def there(self, rows: Ints, former: bool = False) -> NDArray[np.bool_]:
        """Return a mask that is True for those of `rows` that are present.

        `former`: True to test for the rows that were present at the last call of `settle`.
        """
        is_present: NDArray[np.bool_] = self._times[rows] > 0
        if former and self.flipped:
            is_present ^= np.isin(rows, list(self.flipped))
        return is_present

    def ordered(self, former: bool = False) -> Ints:
        """Return the numbers of the present rows, in the order of their values.

        `former`: True to return the rows that were present at the last call of `settle`.
        """
        present_rows: Ints = self._order[self.there(self._order, former)]
        return present_rows

    def present(self) -> Ints:
        """Return the present rows as words, in the order of their values."""
        if self._present is None:
            self._present = self.table.rows[self.ordered()]
        return self._present

    def difference(self) -> tuple[Ints, Ints]:
        """Return the rows that were removed since the last `settle`, and the rows that were added since then, as
        words."""
        rows: Ints = np.array(sorted(self.flipped), dtype=np.int64)
        rows = rows[np.argsort(self.labels[rows], kind="stable")]
        now = self.there(rows)
        return self.table.rows[rows[~now]], self.table.rows[rows[now]]

    def settle(self) -> bool:
        """Forget which rows have changed. Return True if so many rows have been removed that the table should be
        rebuilt."""
        self.flipped = set()
        many = self.table.count > 2 * self.count + _GONE
        return many

    def times(self) -> Ints:
        """Return the number of copies of each present row, in the order of the rows' values."""
        return self._times[self.ordered()]

    def begin(self, times: Ints) -> None:
        """Set the number of copies of each row. All rows must be present. `times`: these numbers, in the order of the
        rows' values."""
        self._times[self._order] = times
