"""An index of the constants in the conditions of many readers of one table. It finds the readers whose conditions a row
satisfies.

Readers whose condition is an equality, or has only one bound, are found by binary search. Readers whose condition has
two bounds are tested one by one, but only those whose lower bound is reached. So most readers cost nothing if no row
satisfies their conditions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import Table, contiguous, rows
from cep.operators.goals.arrival import SELDOM, take
from cep.operators.goals.contract import Ints
from cep.rules.conditions.column_tests import HIGH, LOW, MASK, NEGATED, ROW, Tests, reach

FEW = 3
"""The maximum number of readers for which no index is built. It is faster to check so few readers one by one."""
ROOM = 1 << 22
"""The maximum number of row positions in the result of one call."""


class ConstantIndex:
    """The index of some readers, which are identified by number.

    All readers test the same column, which is row number `row` of a table's matrix. Each reader has a lower and an
    upper bound for its values.
    """

    def __init__(self, row: int, mask: int, bounds: Mapping[int, tuple[int, int]]) -> None:
        self.row, self.mask = row, mask
        self.least, self.greatest = reach(mask)
        kinds: tuple[list[tuple[int, int, int]], ...] = ([], [], [], [])
        for number, (low, high) in bounds.items():
            kind = 0 if low == high else 1 if high >= self.greatest else 2 if low <= self.least else 3
            kinds[kind].append((low, high, number))
        kinds[2].sort(key=lambda interval: -interval[1])
        for kind in (0, 1, 3):
            kinds[kind].sort()
        every = [interval for kind in kinds for interval in kind]
        self.readers: Ints = np.array([number for _, _, number in every], np.int64)
        self.ranks = np.array(
            [-span[1] if kind == 2 else span[0] for kind, part in enumerate(kinds) for span in part], np.int64
        )
        self.highs = np.array([interval[1] for interval in every], np.int64)
        self.parts: Ints = np.cumsum([0, *map(len, kinds)])

    def count(self, table: Table) -> int:
        """Return the number of rows of `repeated(table)`."""
        return int(self._repeat(contiguous(table), np.empty((len(table) + 1, 0), np.int64)))

    def repeated(self, table: Table) -> Table:
        """Return each row once for each reader whose condition it satisfies. An additional matrix row contains the
        reader's number."""
        table = contiguous(table)
        wider = np.empty((len(table) + 1, self.count(table)), np.int64)
        if rows(wider):
            self._repeat(table, wider)
        return wider

    def _repeat(self, table: Table, wider: Table) -> int:
        place = self.row, self.mask, self.least, self.greatest
        written: int = _repeated(table, *place, self.ranks, self.highs, self.parts, self.readers, wider)
        return written

    def concerned(self, table: Table) -> list[tuple[int, Table]]:
        """Return the readers whose conditions some rows of the table satisfy, each with these rows.

        If most rows satisfy the conditions of a reader, it gets the whole table.
        """
        table, count = contiguous(table), rows(table)
        counts, starts, places = _concerned(
            table, self.row, self.mask, self.least, self.greatest, self.ranks, self.highs, self.parts
        )
        reached = []
        for place in np.flatnonzero(counts).tolist():
            own, start = table, int(starts[place])
            if start >= 0 and count > 1:
                own = take(table, places[start : start + int(counts[place])])
            reached.append((int(self.readers[place]), own))
        return reached


def constant_indexes(tests: Mapping[int, Tests], few: int = FEW) -> tuple[list[ConstantIndex], list[int]]:
    """Build indexes for readers. Also return the readers that are in no index.

    `tests`: the conditions of each reader. `few`: the maximum number of readers for which no index of a column is
    built.
    """
    groups: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
    for number, of_reader in tests.items():
        bounds = [test for test in of_reader.tolist() if not test[NEGATED]]
        if bounds:
            best = min(bounds, key=lambda test: (test[HIGH] - test[LOW], test[ROW]))
            groups.setdefault((best[ROW], best[MASK]), {})[number] = best[LOW], best[HIGH]
    large = {place: group for place, group in groups.items() if len(group) > few}
    indexed = {number for group in large.values() for number in group}
    others = [number for number in tests if number not in indexed]
    return [ConstantIndex(*place, group) for place, group in large.items()], others


@njit()
def _concerned(table, row, mask, least, greatest, ranks, highs, parts):  # type: ignore[no-untyped-def]
    """Find the rows that satisfy the condition of each reader.

    Return three arrays. For each reader, the first contains the number of these rows, and the second the start of its
    row list (-1 if it has no list). The third contains the row lists of all readers.

    `parts` contains the first positions of four groups of readers: those that have an equality, a lower bound, an upper
    bound, or both bounds. In each group, `ranks` ascend. They are lower bounds or, for readers that only have an upper
    bound, negated upper bounds. So if a row satisfies the only bound of a reader, it also satisfies those of all
    readers before this one in the group.
    """
    n, readers = table.shape[1], ranks.shape[0]
    counts = np.zeros(readers, np.int64)
    for i in range(n):
        key = table[row, i] ^ ((table[row, i] >> 63) & mask)
        if key < least or key > greatest:
            continue
        place = _reached(ranks, parts[0], parts[1], key - 1)
        while place < parts[1] and ranks[place] == key:
            counts[place] += 1
            place += 1
        for part in range(1, 3):
            last = _reached(ranks, parts[part], parts[part + 1], key if part == 1 else -key) - 1
            if last >= parts[part]:
                counts[last] += 1
        for place in range(parts[3], _reached(ranks, parts[3], parts[4], key)):
            counts[place] += highs[place] >= key
    for part in range(1, 3):
        for place in range(parts[part + 1] - 2, parts[part] - 1, -1):
            counts[place] += counts[place + 1]
    starts = np.full(readers, -1, np.int64)
    firsts = parts[1:].copy()  # by part, the first reader whose places are listed
    total = 0
    for part in range(4):
        for place in range(parts[part + 1] - 1, parts[part] - 1, -1):
            if n > 1 and counts[place] > 0 and counts[place] * SELDOM <= n and total + counts[place] <= ROOM:
                starts[place] = total
                total += counts[place]
                firsts[part] = place
    places = np.empty(total, np.int64)
    ends = starts.copy()
    for i in range(n if total > 0 else 0):
        key = table[row, i] ^ ((table[row, i] >> 63) & mask)
        if key < least or key > greatest:
            continue
        place = _reached(ranks, parts[0], parts[1], key - 1)
        while place < parts[1] and ranks[place] == key:
            if starts[place] >= 0:
                places[ends[place]] = i
                ends[place] += 1
            place += 1
        for part in range(1, 4):
            until = _reached(ranks, parts[part], parts[part + 1], -key if part == 2 else key)
            for place in range(firsts[part], until):
                if starts[place] >= 0 and (part < 3 or highs[place] >= key):
                    places[ends[place]] = i
                    ends[place] += 1
    return counts, starts, places


@njit()
def _repeated(table, row, mask, least, greatest, ranks, highs, parts, readers, wider):  # type: ignore[no-untyped-def]
    """Write each row once for each reader whose condition it satisfies, with the reader's number, as far as `wider` has
    room.

    Return the number of rows for which `wider` needs room in total. The arguments are those of `_concerned`.
    """
    room, last, written = wider.shape[1], table.shape[0], 0
    for i in range(table.shape[1]):
        key = table[row, i] ^ ((table[row, i] >> 63) & mask)
        if key < least or key > greatest:
            continue
        first = written
        for part in range(4):
            place = _reached(ranks, parts[0], parts[1], key - 1) if part == 0 else parts[part]
            until = _reached(ranks, parts[part], parts[part + 1], -key if part == 2 else key)
            if part < 3 and room == 0:
                written += until - place
                continue
            while place < until:
                if part < 3 or highs[place] >= key:
                    if written < room:
                        wider[last, written] = readers[place]
                    written += 1
                place += 1
        for c in range(last):
            value = table[c, i]
            for k in range(first, min(written, room)):
                wider[c, np.uint64(k)] = value
    return written


@njit(inline="always")
def _reached(ranks, first, stop, key):  # type: ignore[no-untyped-def]
    """Return the position, from `first` to `stop`, after the last reader whose rank is at most `key`."""
    while first < stop:
        middle = (first + stop) // 2
        if ranks[middle] <= key:
            first = middle + 1
        else:
            stop = middle
    return first
