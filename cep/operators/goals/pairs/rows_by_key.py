"""The right rows of joins, grouped by key. If few left rows are stored, each looks up its partners in these groups.

All goals that read the same rows by the same key share the groups. So the cost of a goal depends on its stored rows,
not on the number of arriving rows. If a hundred rules read one event, each only visits its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import CHECKED
from cep.core.relation import END as T_END
from cep.core.relation import Table, contiguous, rows
from cep.operators.goals.arrival import places, take
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.keys import Keys, id_of
from cep.operators.goals.store import END, GONE, NEXT, SLOT

Ints = NDArray[np.int64]

MANY = 0 if CHECKED else 1024
"""The minimum number of right rows for which grouping them is faster than one search per arriving row."""
FEW = 0 if CHECKED else 4
"""The minimum ratio of arriving right rows to left rows for which groups are used."""


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """The rows of a table, grouped by key. The rows of the key `id` are `grouped[starts[id] : starts[id + 1]]`.

    Each row is (end, row number), so `grouped` has the shape (rows, 2). Rows of a key are in their original order.
    """

    keys: Keys
    grouped: Ints
    starts: Ints

    @classmethod
    def of(cls, table: Table, columns: Ints) -> RowsOfKeys:
        """Group the rows of a table by these argument columns. Rows with a missing key value are left out."""
        keys = Keys(len(columns))
        ids = keys.slots(table, columns)
        starts = np.zeros(keys.count + 1, np.int64)
        grouped = np.empty((len(ids), 2), np.int64)
        _group(ids, table, starts, np.empty(keys.count, np.int64), grouped)
        return cls(keys, grouped, starts)


class SharedRows:
    """A cache for the most recent table: its contiguous copy, and its rows grouped by key."""

    __slots__ = ("_by_key", "_given", "_whole")

    def __init__(self) -> None:
        self._given: Table | None = None
        self._whole: Table | None = None
        self._by_key: dict[bytes, RowsOfKeys] = {}

    def whole(self, table: Table) -> Table:
        """Return the table as a contiguous array."""
        if self._whole is None or table is not self._given:
            self._given, self._whole, self._by_key = table, contiguous(table), {}
        return self._whole

    def by_key(self, table: Table, columns: Ints) -> RowsOfKeys:
        """Return the rows of a table, grouped by these argument columns."""
        whole, name = self.whole(table), columns.tobytes()
        if name not in self._by_key:
            self._by_key[name] = RowsOfKeys.of(whole, columns)
        return self._by_key[name]


def are_few(waiting: int, table: Table) -> bool:
    """Return True if there are so few left rows that looking up right rows by key is faster.

    `waiting`: the number of left rows that are stored or arrive. `table`: the right rows.
    """
    return rows(table) >= max(MANY, FEW * waiting)


def near(
    shared: SharedRows, right: Table, columns: Ints, keys: Keys, waiting: tuple[Ints, Ints, int],
    left: Table, left_slots: Ints, reach: int,
) -> Table:  # fmt: skip
    """Return the right rows that a left row may be paired with, in order of arrival.

    Such a right row has the key of a left row, and ends at most `reach` after it. If most rows qualify anyway, all rows
    are returned.

    - `columns`: the key columns of the right table.
    - `waiting`: the store of left rows, and its number of rows.
    - `left`, `left_slots`: the arriving left rows, and their slots in `keys`.
    """
    whole, keyed = shared.whole(right), shared.by_key(right, columns)
    hot, cold, count = waiting
    marked = np.zeros(rows(whole), np.bool_)
    runs = np.full((keys.count, 3), -2, np.int64)
    _mark(
        hot, cold, count, left, left_slots, keys.table,
        keyed.keys.index, keyed.keys.table, keyed.starts, keyed.grouped, reach, runs, marked,
    )  # fmt: skip
    index = places(marked)
    return whole if 2 * len(index) > rows(whole) else take(whole, index)


@bare
def _group(ids, table, starts, following, grouped):  # type: ignore[no-untyped-def]
    """Group the rows of a table by the id of their key, and compute where each group begins.

    `starts`: a buffer of zeros with one more element than there are ids. `following`: a buffer with one number per id.
    `grouped`: must have room for all rows.
    """
    for i in range(ids.shape[0]):
        if ids[i] >= 0:
            starts[ids[i] + 1] += 1
    for key in range(following.shape[0]):
        starts[key + 1] += starts[key]
        following[key] = starts[key]
    for i in range(ids.shape[0]):
        if ids[i] >= 0:
            place = following[ids[i]]
            grouped[place, 0], grouped[place, 1] = table[T_END, i], i
            following[ids[i]] += 1


@bare
def _mark(  # type: ignore[no-untyped-def]
    hot, cold, count, left, left_slots, known, index, keys, starts, grouped, reach, runs, marked
):
    """Mark the rows that `near` returns.

    `runs`: for each slot, the id of its key among the right rows, and the range of rows that was marked last. The id is
    -1 if no right row has this key, and -2 if it has not been looked up yet. Left rows are in order, so the rows in
    this range need not be visited again.
    """
    for row in range(count + left.shape[1]):  # a separate loop, so that the look-ups are independent
        if row >= count:
            slot = left_slots[row - count]
        elif hot[row, NEXT] != GONE:
            slot = cold[row, SLOT]
        else:
            continue
        if slot >= 0 and runs[slot, 0] == -2:
            runs[slot, 0] = id_of(known[slot], index, keys)
    for row in range(count + left.shape[1]):
        if row >= count:
            slot, end = left_slots[row - count], left[T_END, row - count]
        elif hot[row, NEXT] != GONE:
            slot, end = cold[row, SLOT], hot[row, END]
        else:
            continue
        mine = runs[slot, 0] if slot >= 0 else -1
        if mine < 0:
            continue
        position, stop = starts[mine], starts[mine + 1]
        beyond = stop
        while position < beyond:
            middle = (position + beyond) // 2
            if grouped[middle, 0] < end:
                position = middle + 1
            else:
                beyond = middle
        if runs[slot, 1] <= position < runs[slot, 2]:
            position = runs[slot, 2]
        else:
            runs[slot, 1] = position
        while position < stop and grouped[position, 0] - end <= reach:
            marked[grouped[position, 1]] = True
            position += 1
        runs[slot, 2] = position
