"""The right sides of an event by their key: where few left sides wait, these look for their partners there.

It is made once for all goals that read the same rows by the same key. So what a goal does with them goes by what waits
in it, and not by how many rows come: of a hundred rules over one event each looks at its own.
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
"""Rows: of fewer the search itself is as fast."""
FEW = 0 if CHECKED else 4
"""Rows come that are so many times those that wait, or all are searched."""


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """The rows of a table with a key: those of the one with an id in `keys` are `grouped[starts[id] : starts[id + 1]]`,
    as they came, each with its end and its place in the table (shape (rows, 2))."""

    keys: Keys
    grouped: Ints
    starts: Ints

    @classmethod
    def of(cls, table: Table, columns: Ints) -> RowsOfKeys:
        """Return the rows of a whole table grouped by these argument columns. A row that lacks part of its key has no
        group."""
        keys = Keys(len(columns))
        ids = keys.slots(table, columns)
        starts = np.zeros(keys.count + 1, np.int64)
        grouped = np.empty((len(ids), 2), np.int64)
        _group(ids, table, starts, np.empty(keys.count, np.int64), grouped)
        return cls(keys, grouped, starts)


class SharedRows:
    """The table that was asked for last, whole, and its rows by the keys that were asked for."""

    __slots__ = ("_by_key", "_given", "_whole")

    def __init__(self) -> None:
        self._given: Table | None = None
        self._whole: Table | None = None
        self._by_key: dict[bytes, RowsOfKeys] = {}

    def whole(self, table: Table) -> Table:
        """The table as a whole matrix."""
        if self._whole is None or table is not self._given:
            self._given, self._whole, self._by_key = table, contiguous(table), {}
        return self._whole

    def by_key(self, table: Table, columns: Ints) -> RowsOfKeys:
        """Its rows by these argument columns."""
        whole, name = self.whole(table), columns.tobytes()
        if name not in self._by_key:
            self._by_key[name] = RowsOfKeys.of(whole, columns)
        return self._by_key[name]


def are_few(waiting: int, table: Table) -> bool:
    """Return True if few enough rows wait, or arrive on the left, to look up the right table's rows by key."""
    return rows(table) >= max(MANY, FEW * waiting)


def near(
    shared: SharedRows, right: Table, columns: Ints, keys: Keys, waiting: tuple[Ints, Ints, int],
    left: Table, left_slots: Ints, reach: int,
) -> Table:  # fmt: skip
    """Return the right rows that share a key with a left side and end at most `reach` after it, in order of arrival.

    Returns all rows if these are most of them. `waiting`: a store and its number of rows. `left_slots`: the numbers
    that the arriving left sides have in `keys`. `columns`: the key columns of the right table.
    """
    whole, found = shared.whole(right), shared.by_key(right, columns)
    hot, cold, count = waiting
    marked = np.zeros(rows(whole), np.bool_)
    runs = np.full((keys.count, 3), -2, np.int64)
    _mark(
        hot, cold, count, left, left_slots, keys.table,
        found.keys.index, found.keys.table, found.starts, found.grouped, reach, runs, marked,
    )  # fmt: skip
    index = places(marked)
    return whole if 2 * len(index) > rows(whole) else take(whole, index)


@bare
def _group(ids, table, starts, following, grouped):  # type: ignore[no-untyped-def]
    """The rows of each id in their order, and where those of each begin. `starts`: one more than there are ids, all 0;
    `following`: room for a number of each id, `grouped` for all rows."""
    for i in range(ids.shape[0]):
        if ids[i] >= 0:
            starts[ids[i] + 1] += 1
    for each in range(following.shape[0]):
        starts[each + 1] += starts[each]
        following[each] = starts[each]
    for i in range(ids.shape[0]):
        if ids[i] >= 0:
            place = following[ids[i]]
            grouped[place, 0], grouped[place, 1] = table[T_END, i], i
            following[ids[i]] += 1


@bare
def _mark(  # type: ignore[no-untyped-def]
    hot, cold, count, left, left_slots, known, index, keys, starts, grouped, reach, runs, marked
):
    """See `near`. `runs`: for each slot the id of its key among the rows on the right, -1 for none, -2 where nobody has
    asked yet; and from which of these rows to before which others have been marked last: left sides come one after
    the other, so that no row is looked at for each of them."""
    for each in range(count + left.shape[1]):  # by itself, since none of these waits for what another one finds
        if each >= count:
            slot = left_slots[each - count]
        elif hot[each, NEXT] != GONE:
            slot = cold[each, SLOT]
        else:
            continue
        if slot >= 0 and runs[slot, 0] == -2:
            runs[slot, 0] = id_of(known[slot], index, keys)
    for each in range(count + left.shape[1]):
        if each >= count:
            slot, end = left_slots[each - count], left[T_END, each - count]
        elif hot[each, NEXT] != GONE:
            slot, end = cold[each, SLOT], hot[each, END]
        else:
            continue
        mine = runs[slot, 0] if slot >= 0 else -1
        if mine < 0:
            continue
        at, stop = starts[mine], starts[mine + 1]
        beyond = stop
        while at < beyond:
            middle = (at + beyond) // 2
            if grouped[middle, 0] < end:
                at = middle + 1
            else:
                beyond = middle
        if runs[slot, 1] <= at < runs[slot, 2]:
            at = runs[slot, 2]
        else:
            runs[slot, 1] = at
        while at < stop and grouped[at, 0] - end <= reach:
            marked[grouped[at, 1]] = True
            at += 1
        runs[slot, 2] = at
