"""Stretches: what holds from one code to another, as far as a recursion among formulas has found it yet.

Where formulas define a fluent by itself, what they say of a stretch of time is found in rounds that only add, each from
what the one before has added: semi-naive evaluation over intervals (Wałęga, Cuenca Grau, Kaminski and Kostylev,
*DatalogMTL: computational complexity and expressive power*, IJCAI 2019; `docs/decisions/2026-11-23-recursion.md`).
The rows of a table are then intervals of tuples: START and END are codes of `cep.core.interval_sets`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.fluents import BEGINS
from cep.core.interval_sets import Intervals, coalesce, subtract
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, START, Table, rows
from cep.core.room import filled_room, roomy
from cep.operators.goals.contract import Ints
from cep.operators.goals.fluents.change_tables import changes_in
from cep.operators.goals.fluents.changes import Changes
from cep.operators.goals.keys import Keys, grow


class GrowingIntervals:
    """Intervals of numbered tuples that only become more."""

    def __init__(self) -> None:
        self._levels: list[Intervals] = []

    def added(self, key: Ints, start: Ints, end: Ints) -> Intervals:
        """What of these rows was not there yet; it is then."""
        fresh = coalesce(key, start, end)
        if not len(fresh.key):
            return fresh
        for level in self._levels:
            fresh = subtract(fresh, _of(level, np.unique(fresh.key)))
        levels = self._levels
        if len(fresh.key):
            levels.append(fresh)
        # Each is at least twice as large as the next: a row is moved as often as the logarithm says.
        while len(levels) > 1 and len(levels[-2].key) < 2 * len(levels[-1].key):
            last = levels.pop()
            levels[-1] = _joined([levels[-1], last])
        return fresh

    def of(self, keys: Ints) -> Intervals:
        """All of these tuples, ascending numbers."""
        return _joined([_of(level, keys) for level in self._levels])

    def all(self) -> Intervals:
        return _joined(self._levels)


def _joined(levels: Sequence[Intervals]) -> Intervals:
    columns = [np.concatenate([each[i] for each in levels] or [np.empty(0, np.int64)]) for i in range(3)]
    return coalesce(*columns)


def _of(level: Intervals, keys: Ints) -> Intervals:
    """The rows of some keys."""
    low = np.searchsorted(level.key, keys, "left")
    counts = np.searchsorted(level.key, keys, "right") - low
    ends = np.cumsum(counts)
    chosen = np.repeat(low - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return Intervals(level.key[chosen], level.start[chosen], level.end[chosen])


class Rows:
    """One side of a join of intervals: rows that become more, chained by key."""

    def __init__(self, width: int) -> None:
        self._table = np.empty((0, FIRST + width), np.int64)
        self.heads = np.full((0, 1), -1, np.int64)
        self.following = np.empty((0, 1), np.int64)
        self.count = 0

    @property
    def table(self) -> Table:
        return self._table[: self.count].T

    def add(self, table: Table, keys: Ints, known: int) -> None:
        """Rows with their keys, of which so many are known (-1: it meets nothing)."""
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
        """Of other rows and of these the places of those that have a key and a time in common."""
        pairs, made = _met(
            keys, table[START].copy(), table[END].copy(), self.heads, self.following, self._table,
            np.empty((max(1, len(keys)), 2), np.int64),
        )  # fmt: skip
        return pairs[:made, 0], pairs[:made, 1]


@njit()
def _chained(keys, count, heads, following):  # type: ignore[no-untyped-def]
    """Rows from `count` on are the first of their keys' chains; there is room for all rows and keys."""
    for i in range(len(keys)):
        if keys[i] >= 0:
            following[count + i, 0] = heads[keys[i], 0]
            heads[keys[i], 0] = count + i


@njit()
def _met(keys, starts, ends, heads, following, table, pairs):  # type: ignore[no-untyped-def]
    """Rows (row, row of the table), which grow as they must, and how many."""
    made = 0
    for i in range(len(keys)):
        if keys[i] < 0 or keys[i] >= len(heads):
            continue
        q = heads[keys[i], 0]
        while q >= 0:
            if table[q, START] <= ends[i] and starts[i] <= table[q, END]:
                if made == pairs.shape[0]:
                    pairs = grow(pairs, made + 1)
                pairs[made, 0], pairs[made, 1] = i, q
                made += 1
            q = following[q, 0]
    return pairs, made


def table_of(held: Intervals, known: Ints) -> Table:
    """Intervals as rows: the tuples at their numbers, and last what a change is."""
    made = np.zeros((FIRST + known.shape[1] + 1, len(held.key)), np.int64)
    made[START], made[END] = held.start, held.end
    made[FIRST:-1] = known[held.key].T
    made[-1] = BEGINS
    return made


def held_in(changes: Table, holding: Ints, first: int, last: int) -> Table:
    """When tuples held in a stretch: its `changes`, the last column of which says what each is, and what holds after
    it, a row a tuple."""
    width = changes.shape[0] - FIRST - 1
    tuples, columns = Keys(width), np.arange(width)
    changes, code, begins = changes_in(changes, FIRST + width)
    key = tuples.slots(changes, columns, True, True)
    changed = tuples.count
    after = np.zeros((FIRST + width, len(holding)), np.int64)
    after[FIRST:] = holding.T
    held = tuples.slots(after, columns, True, True)
    whole = held[held >= changed]
    found = stretch_of(Changes(key, code, begins), np.empty(0, np.int64), first, last)
    key = np.concatenate([found.key, whole])
    start = np.concatenate([found.start, np.full(len(whole), first)])
    end = np.concatenate([found.end, np.full(len(whole), last)])
    return table_of(Intervals(key, start, end), tuples.known)


def changed_in(changes: Table, first: int, last: int) -> tuple[Table, Table]:
    """Of the tuples that change in a stretch, the last column saying how: those that held before it, as if throughout,
    and when all of them hold."""
    width = changes.shape[0] - FIRST - 1
    tuples = Keys(width)
    changes, code, begins = changes_in(changes, FIRST + width)
    key = tuples.slots(changes, np.arange(width), True, True)
    order = np.lexsort((code, key))
    opening = order[np.append(True, key[order][1:] != key[order][:-1])] if len(order) else order
    before = key[opening[begins[opening] == 0]]
    start, end = np.full(len(before), first), np.full(len(before), last)
    found = stretch_of(Changes(key, code, begins), np.empty(0, np.int64), first, last)
    return table_of(Intervals(before, start, end), tuples.known), table_of(found, tuples.known)


def stretch_of(changes: Changes, held: Ints, first: int, last: int) -> Intervals:
    """When tuples hold in a stretch: by its changes, and `held`, those that hold before it; those that have changes are
    known by them. Sorted by key."""
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
    """What holds in a stretch, sorted by key, as changes against the tuples that hold `before` it; sorted by code."""
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
    """What of the rows lies in a stretch."""
    inside = (table[START] <= last) & (table[END] >= first)
    if not inside.all():
        table = table[:, inside]
    if rows(table) and (int(table[START].min()) < first or int(table[END].max()) > last):
        table = table.copy()
        table[START] = np.maximum(table[START], first)
        table[END] = np.minimum(table[END], last)
    return table
