"""The order of arrival, (end, start, order), and occurrences as a set."""

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
"""One of so many."""


@bare
def _disorder(table):  # type: ignore[no-untyped-def]
    """0: sorted; 1: only inside instants unsorted; 2: unsorted by end. Without a branch a row, which half of the time
    would be guessed wrong."""
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


@njit()
def _unsorted(table, first, last):  # type: ignore[no-untyped-def]
    """Return True if rows that end together are not sorted by (start, order)."""
    for i in range(first + 1, last):
        if table[START, i] < table[START, i - 1] or (
            table[START, i] == table[START, i - 1] and table[ORDER, i] < table[ORDER, i - 1]
        ):
            return True
    return False


@njit()
def _sort_instants(table):  # type: ignore[no-untyped-def]
    """The permutation that sorts each run of equal ends by (start, order), stably; False: a long one is to be sorted
    otherwise."""
    n = table.shape[1]
    permutation = np.arange(n)
    first = 0
    while first < n:
        last = first + 1
        while last < n and table[END, last] == table[END, first]:
            last += 1
        if last - first <= 32:
            for i in range(first + 1, last):
                row = permutation[i]
                j = i - 1
                while j >= first and (
                    table[START, permutation[j]] > table[START, row]
                    or (
                        table[START, permutation[j]] == table[START, row]
                        and table[ORDER, permutation[j]] > table[ORDER, row]
                    )
                ):
                    permutation[j + 1] = permutation[j]
                    j -= 1
                permutation[j + 1] = row
        elif _unsorted(table, first, last):
            return permutation, False
        first = last
    return permutation, True


@njit()
def take(table, index):  # type: ignore[no-untyped-def]
    """The occurrences at `index`, in its order."""
    taken = np.empty((table.shape[0], index.shape[0]), np.int64)
    for c in range(table.shape[0]):
        for i in range(index.shape[0]):
            taken[c, i] = table[c, index[i]]
    return taken


def places(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the indexes at which a mask is true, ascending. Fast for sparse masks."""
    count = int(np.count_nonzero(mask))
    if count * SELDOM > len(mask):
        return np.flatnonzero(mask)
    found: NDArray[np.int64] = np.empty(count + 1, np.int64)
    _places(mask[: len(mask) // 8 * 8].view(np.int64), mask, found)
    return found[:count]


@bare
def _places(words, mask, found):  # type: ignore[no-untyped-def]
    """`words`: eight of the mask each, but for what is left at its end; `found`: room for one more than there are,
    which a place is written to before it is known to be one."""
    made = 0
    for word in range(words.shape[0]):
        if words[word] != 0:
            for k in range(8 * word, 8 * word + 8):
                found[made] = k
                made += mask[k]
    for k in range(8 * words.shape[0], mask.shape[0]):
        found[made] = k
        made += mask[k]


def by_arrival(table: Table) -> Table:
    """The table sorted by arrival, stably; itself where it is already."""
    if rows(table) == 1 or _disorder(table) == 0:
        return table
    sorted_table: Table = take(table, order_of_arrival(table))
    return sorted_table


def order_of_arrival(table: Table) -> NDArray[np.int64]:
    """The places of the table's rows in order of arrival, stably."""
    disorder = _disorder(table)
    if disorder == 0:
        return np.arange(rows(table))
    if disorder == 1:
        permutation, short = _sort_instants(table)
        return permutation if short else _by_words(table, ranks(table[END]))
    by_end = stable_order(table[END])
    permutation, short = _sort_instants(take(table[: ORDER + 1], by_end))
    return by_end[permutation] if short else _by_words(table, table[END])


def _by_words(table: Table, end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for many rows, with numbers that are in the order of their ends."""
    return stable_order_of(end, table[START] - table[END], table[ORDER])


@bare
def _same(table, i, j, since):  # type: ignore[no-untyped-def]
    """Return True if two rows are equal from the word `since` on."""
    for c in range(since, table.shape[0]):
        if table[c, i] != table[c, j]:
            return False
    return True


@njit()
def _counted(table, since, numbers):  # type: ignore[no-untyped-def]
    """Write of each row of a sorted table how many before it are equal to it in interval and in all words from `since`
    on; gives how many rows have some."""
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
            seen = np.full(capacity, -1, np.int64)  # the latest row of each kind
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
    """Return True if the table is sorted by arrival and a quick check finds no duplicate."""
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
    """Sorted tables as one, identical occurrences (arguments, interval) made one: the first to arrive. `numbered`:
    those are identical that have the same number in IDENTITY, too."""
    if len(tables) == 1 and _plain(tables[0]):
        return tables[0]
    return first_of_equal(by_arrival(concat(tables)), numbered)


def first_of_equal(table: Table, numbered: bool = False) -> Table:
    """Identical occurrences of a sorted table made one, as `as_set` does."""
    first = first_places(table, numbered)
    if len(first) == rows(table):
        return table
    found: Table = take(table, first)
    return found


def first_places(table: Table, numbered: bool) -> NDArray[np.int64]:
    """Return the indexes of the first of each set of identical occurrences in a sorted table, as `as_set` chooses
    them."""
    before = np.empty(rows(table), np.int64)
    _counted(table, IDENTITY if numbered else FIRST, before)
    return np.flatnonzero(before == 0)


def equal_before(table: Table) -> NDArray[np.int64] | None:
    """Return for each row of a sorted table the number of earlier rows with equal interval and arguments, or None if
    there are no such rows."""
    if _plain(table):
        return None
    numbers = np.empty(rows(table), np.int64)
    return numbers if _counted(table, FIRST, numbers) else None
