"""Changes of rows that are kept by key, made of tables of changes.

A table of changes is one whose IDENTITY says of each row whether it goes (GOES) or comes (anything else: nobody asks
for lineage where there are such tables); its rows are in no order. A change is the number of a key, how many rows come
(or go: a number below 0), and the row. Changes are sorted by key, and then by all words of the row; equal rows are one
change, and none where as many come as go.
"""

from __future__ import annotations

import numpy as np

from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, rows
from cep.core.stable_order import stable_order
from cep.operators.goals.contract import Ints
from cep.operators.goals.intrinsics import bare, inside

# of a change: the key, how many rows come, and then the row
KEY, TIMES, ROW = range(3)
COMES, GOES = 1, -1
NONE = -1
"""Of a word of a row: it is in no row of the table, and 0."""
SHORT = 64
"""So many changes of a key are put in order one by one."""
SPREAD = 8
"""Times the changes: where more keys are known, changes are sorted without a look at each of these."""


@bare
def collected(table, slots, words, made):  # type: ignore[no-untyped-def]
    """The rows of a table that have a key, as changes; `words`: the rows of the table that their words are in."""
    count = 0
    for i in range(table.shape[1]):
        if slots[i] < 0:
            continue
        made[count, KEY] = slots[i]
        made[count, TIMES] = GOES if table[IDENTITY, i] == GOES else COMES
        for word in range(len(words)):
            made[count, ROW + word] = 0 if words[word] == NONE else table[words[word], i]
        count += 1
    return count


@bare
def _by_key(changes, begins, made):  # type: ignore[no-untyped-def]
    """Changes sorted by key, otherwise as they come; `begins` has a zero for each key and one more."""
    for i in range(changes.shape[0]):
        begins[changes[i, KEY] + 1] += 1
    for key in range(1, len(begins)):
        begins[key] += begins[key - 1]
    for i in range(changes.shape[0]):
        place = begins[changes[i, KEY]]
        for word in range(changes.shape[1]):
            made[place, word] = changes[i, word]
        begins[changes[i, KEY]] = place + 1


@inside
def _same(changes, c, d):  # type: ignore[no-untyped-def]
    """Whether two changes are of one row of one key."""
    for word in range(changes.shape[1]):
        if word != TIMES and changes[c, word] != changes[d, word]:
            return False
    return True


@inside
def _before(changes, c, d):  # type: ignore[no-untyped-def]
    """Whether the row of one change comes before that of another."""
    for word in range(ROW, changes.shape[1]):
        if changes[c, word] != changes[d, word]:
            return changes[c, word] < changes[d, word]
    return False


@bare
def _by_row(changes):  # type: ignore[no-untyped-def]
    """Put changes that are sorted by key in order of their rows; False: too many of a key are not, and some are."""
    first = 0
    while first < changes.shape[0]:
        last = first + 1
        while last < changes.shape[0] and changes[last, KEY] == changes[first, KEY]:
            if _before(changes, last, last - 1):
                if last - first >= SHORT:
                    return False
                c = last
                while c > first and _before(changes, c, c - 1):
                    for word in range(changes.shape[1]):
                        changes[c, word], changes[c - 1, word] = changes[c - 1, word], changes[c, word]
                    c -= 1
            last += 1
        first = last
    return True


@bare
def _netted(changes):  # type: ignore[no-untyped-def]
    """Make equal ones of sorted changes one; gives how many are left."""
    count = first = 0
    while first < changes.shape[0]:
        last, times = first + 1, changes[first, TIMES]
        while last < changes.shape[0] and _same(changes, first, last):
            times += changes[last, TIMES]
            last += 1
        if times != 0:
            for word in range(changes.shape[1]):
                changes[count, word] = changes[first, word]
            changes[count, TIMES] = times
            count += 1
        first = last
    return count


def in_turn(changes: Ints, known: int) -> Ints:
    """Changes of keys of which so many are known, sorted, and equal ones one."""
    if len(changes) < 2:
        return changes
    if known <= SPREAD * len(changes):
        made = np.empty_like(changes)
        _by_key(changes, np.zeros(known + 1, np.int64), made)
    else:
        made = changes[stable_order(np.ascontiguousarray(changes[:, KEY]))]
    if not _by_row(made):
        made = made[np.lexsort((*made[:, :ROW:-1].T, made[:, ROW], made[:, KEY]))]
    return made[: _netted(made)]


def changes_of(table: Table, slots: Ints, words: Ints, known: int) -> Ints:
    """A table of changes as changes of rows: `slots`: the key of each of its rows, of which so many are known, -1: it
    has none, and is left out; `words`: see `collected`."""
    made = np.empty((len(slots), ROW + len(words)), np.int64)
    return in_turn(made[: collected(table, slots, words, made)], known)


def words_of(arguments: int) -> Ints:
    """Where in a table of so many arguments the words of occurrences are: end, start, order, arguments."""
    return np.array([END, START, ORDER, *range(FIRST, FIRST + arguments)])


def signed(going: Table, coming: Table) -> Table:
    """What goes and what comes as a table of changes."""
    if not rows(going):
        return coming
    made = np.concatenate([going, coming], axis=1)
    made[IDENTITY, : rows(going)] = GOES
    return made


def parts_of(changes: Table) -> tuple[Table, Table]:
    """What goes and what comes."""
    goes = changes[IDENTITY] == GOES
    if not goes.any():
        return changes[:, :0], changes
    going, coming = contiguous(changes[:, goes]), contiguous(changes[:, ~goes])
    going[IDENTITY] = 0
    return going, coming
