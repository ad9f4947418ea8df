"""Sorting of occurrences by arrival (by end, start and order number), and removal of equal occurrences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, rows
from cep.core.stable_order import ranks, stable_order, stable_order_of
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.keys import mix

SELDOM = 16
"""A mask counts as sparse if at most one value in this many is True."""
MANY = 1_024
"""If rows that end together form at least this many sorted runs, they are sorted by words (`_by_words`) instead of by
merging."""


@bare
def _disorder(table):  # type: ignore[no-untyped-def]
    """Return how much of a table is out of order: 0 for nothing, 1 if only rows with the same end are, 2 if rows with
    different ends are, too."""
    end, start, order = table[END, :-1], table[START, :-1], table[ORDER, :-1]
    next_end, next_start, next_order = table[END, 1:], table[START, 1:], table[ORDER, 1:]
    back, inside = 0, 0
    for i in range(end.shape[0]):
        back += next_end[i] < end[i]
        earlier = (next_start[i] < start[i]) | ((next_start[i] == start[i]) & (next_order[i] < order[i]))
        inside += (next_end[i] == end[i]) & earlier
    if back > 0:
        return 2
    return 1 if inside > 0 else 0


@bare
def _earlier(table, i, j):  # type: ignore[no-untyped-def]
    return table[START, i] < table[START, j] or (
        table[START, i] == table[START, j] and table[ORDER, i] < table[ORDER, j]
    )


@bare
def _merge_runs(table, permutation, merged, bounds, first, last):  # type: ignore[no-untyped-def]
    """Sort the rows `first` to `last` - 1, which end together, by merging their ascending and descending runs.

    `merged`: a buffer with one number per row. `bounds`: a buffer for the first row of each run. Return False if
    `bounds` is too small.
    """
    runs, i = 0, first
    while i < last:
        if runs + 1 == bounds.shape[0]:
            return False
        bounds[runs] = i
        runs += 1
        j = i + 1
        down = j < last and _earlier(table, j, i)
        while j < last and _earlier(table, j, j - 1) == down:
            j += 1
        for k in range((j - i) // 2 if down else 0):
            permutation[i + k], permutation[j - 1 - k] = permutation[j - 1 - k], permutation[i + k]
        i = j
    bounds[runs] = last
    while runs > 1:
        for k in range(0, runs - 1, 2):
            i, j, middle, end = bounds[k], bounds[k + 1], bounds[k + 1], bounds[k + 2]
            for place in range(i, end):
                if j == end or (i < middle and not _earlier(table, permutation[j], permutation[i])):
                    merged[place] = permutation[i]
                    i += 1
                else:
                    merged[place] = permutation[j]
                    j += 1
            for place in range(bounds[k], end):
                permutation[place] = merged[place]
        runs = (runs + 1) // 2
        for k in range(runs):
            bounds[k] = bounds[2 * k]
        bounds[runs] = last
    return True


@njit()
def _sort_instants(table):  # type: ignore[no-untyped-def]
    """Return a stable permutation that sorts each run of equal ends by (start, order), and True.

    If a run is too long to be sorted here, return False instead of True. The caller must then sort it.
    """
    n = table.shape[1]
    permutation, merged, bounds = np.arange(n), np.empty(n, np.int64), np.empty(MANY, np.int64)
    first = 0
    while first < n:
        last = first + 1
        while last < n and table[END, last] == table[END, first]:
            last += 1
        if last - first <= 32:
            for i in range(first + 1, last):
                row = permutation[i]
                j = i - 1
                while j >= first and _earlier(table, row, permutation[j]):
                    permutation[j + 1] = permutation[j]
                    j -= 1
                permutation[j + 1] = row
        elif not _merge_runs(table, permutation, merged, bounds, first, last):
            return permutation, False
        first = last
    return permutation, True


@njit()
def take(table, index):  # type: ignore[no-untyped-def]
    """Return the occurrences at `index`, in that order."""
    taken = np.empty((table.shape[0], index.shape[0]), np.int64)
    for c in range(table.shape[0]):
        for i in range(index.shape[0]):
            taken[c, i] = table[c, index[i]]
    return taken


def places(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the indexes at which a mask is True, in ascending order. This is fast for sparse masks."""
    count = int(np.count_nonzero(mask))
    if count * SELDOM > len(mask):
        return np.flatnonzero(mask)
    positions: NDArray[np.int64] = np.empty(count + 1, np.int64)
    _places(mask[: len(mask) // 8 * 8].view(np.int64), mask, positions)
    return positions[:count]


@bare
def _places(words, mask, positions):  # type: ignore[no-untyped-def]
    """Write the indexes at which a mask is True into `positions`.

    `words`: the mask, except its last values, as words of eight values. `positions` must have room for one more index
    than the mask has True values, because each index is written before it is checked.
    """
    written = 0
    for word in range(words.shape[0]):
        if words[word] != 0:
            for k in range(8 * word, 8 * word + 8):
                positions[written] = k
                written += mask[k]
    for k in range(8 * words.shape[0], mask.shape[0]):
        positions[written] = k
        written += mask[k]


def is_sorted(table: Table) -> bool:
    """Return True if the rows are in order of arrival."""
    return bool(_disorder(table) == 0)


def by_arrival(table: Table) -> Table:
    """Return the table in order of arrival. The sort is stable; a table that is sorted already is not copied."""
    disorder = 0 if rows(table) == 1 else _disorder(table)
    if disorder > 1:
        table = take(table, stable_order(table[END]))
        disorder = _disorder(table)
    if disorder:
        table = take(table, _in_instants(table))
    return table


def order_of_arrival(table: Table) -> NDArray[np.int64]:
    """Return the stable permutation that sorts the rows by arrival."""
    disorder = _disorder(table)
    if disorder < 2:
        return _in_instants(table) if disorder else np.arange(rows(table))
    by_end = stable_order(table[END])
    order: NDArray[np.int64] = by_end[_in_instants(take(table[: ORDER + 1], by_end))]
    return order


def _in_instants(table: Table) -> NDArray[np.int64]:
    """Return the stable permutation that sorts the rows of equal end by (start, order). The table must be sorted by
    end."""
    permutation, short = _sort_instants(table)
    return permutation if short else _by_words(table, ranks(table[END]))


def _by_words(table: Table, end: NDArray[np.int64]) -> NDArray[np.int64]:
    return stable_order_of(end, table[START] - table[END], table[ORDER])


@bare
def _same(table, i, j, since):  # type: ignore[no-untyped-def]
    for c in range(since, table.shape[0]):
        if table[c, i] != table[c, j]:
            return False
    return True


@njit()
def _counted(table, since, numbers):  # type: ignore[no-untyped-def]
    """Write, for each occurrence in a sorted table, the number of equal occurrences before it into `numbers`.

    Return how many occurrences have an equal one before them. Two occurrences are equal if their intervals are equal
    and all their values in the matrix rows from `since` on are equal.
    """
    n = table.shape[1]
    numbers[:] = 0
    doubles = 0
    first = 0
    while first < n:
        last = first + 1
        while last < n and table[END, last] == table[END, first] and table[START, last] == table[START, first]:
            last += 1
        if last - first <= 12:
            for i in range(first + 1, last):
                for j in range(i - 1, first - 1, -1):
                    if _same(table, i, j, since):
                        numbers[i] = numbers[j] + 1
                        doubles += 1
                        break
        else:
            capacity = 16
            while capacity < 2 * (last - first):
                capacity *= 2
            seen = np.full(capacity, -1, np.int64)  # the latest of each set of equal rows
            for i in range(first, last):
                hashed = np.uint64(0)
                for c in range(since, table.shape[0]):
                    hashed = mix(hashed, table[c, i])
                place = np.int64(hashed & np.uint64(capacity - 1))
                while seen[place] >= 0 and not _same(table, i, seen[place], since):
                    place = (place + 1) & (capacity - 1)
                if seen[place] >= 0:
                    numbers[i] = numbers[seen[place]] + 1
                    doubles += 1
                seen[place] = i
        first = last
    return doubles


@bare
def _plain(table):  # type: ignore[no-untyped-def]
    """Return True if the table is sorted by arrival, and a quick check shows that no two rows are equal."""
    for i in range(1, table.shape[1]):
        if table[END, i] != table[END, i - 1]:
            if table[END, i] < table[END, i - 1]:
                return False
        elif table[START, i] != table[START, i - 1]:
            if table[START, i] < table[START, i - 1]:
                return False
        else:
            if table[ORDER, i] < table[ORDER, i - 1]:
                return False
            j = i - 1
            while j >= 0 and table[END, i] == table[END, j] and table[START, i] == table[START, j]:
                if i - j > 12 or _same(table, i, j, FIRST):
                    return False
                j -= 1
    return True


def as_set(tables: Sequence[Table], numbered: bool = False) -> Table:
    """Merge sorted tables. Of occurrences that have equal intervals and arguments, keep only the first.

    `numbered`: True if two occurrences must also have the same number in IDENTITY to count as equal.
    """
    if len(tables) == 1 and _plain(tables[0]):
        return tables[0]
    return first_of_equal(by_arrival(concat(tables)), numbered)


def first_of_equal(table: Table, numbered: bool = False) -> Table:
    """Keep the first of equal occurrences in a sorted table. Two occurrences are equal under the same conditions as in
    `as_set`."""
    first = first_places(table, numbered)
    if len(first) == rows(table):
        return table
    kept: Table = take(table, first)
    return kept


def first_places(table: Table, numbered: bool) -> NDArray[np.int64]:
    """Return the indexes of the occurrences that `first_of_equal` keeps."""
    before = np.empty(rows(table), np.int64)
    _counted(table, IDENTITY if numbered else FIRST, before)
    return np.flatnonzero(before == 0)


def equal_before(table: Table) -> NDArray[np.int64] | None:
    """Return, for each row of a sorted table, the number of equal rows before it. Returns None if all are distinct.

    Two rows are equal if their intervals and their arguments are equal.
    """
    if _plain(table):
        return None
    numbers = np.empty(rows(table), np.int64)
    return numbers if _counted(table, FIRST, numbers) else None
