"""Changes of the input by a push: the rows that the push adds, and the stored rows that it withdraws or replaces.

Equal records count as often as they were sent, and a withdrawal removes the last of them. If an event's records are a
set, equal records count once. If the event has a KEY, only the last record of each key and time counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, rows
from cep.operators.goals.arrival import by_arrival, equal_before, first_of_equal
from cep.operators.goals.contract import Bools, Ints
from cep.runtime.revision.row_window import RowChanges

UNKNOWN = "unknown-withdrawal"

KnownRows = Callable[[Table, Sequence[int]], Table]
"""A function that takes a table and returns the stored rows of an event that equal one of the table's rows.

Its second argument contains the indexes of the matrix rows to compare. They include the row of ends.
"""


@dataclass(frozen=True, slots=True)
class InputChanges:
    """The changes of one event's input by a push.

    - `unknown`: the pushed rows that withdraw a record that is not stored.
    - `merged`: the number of pushed records that were dropped as duplicates.
    """

    changes: RowChanges
    unknown: Ints
    merged: int = 0


def input_changes(
    pushed: Table,
    first: int,
    withdraws: Bools | None,
    known: KnownRows,
    last: int,
    key: tuple[int, ...] | None,
    several: bool,
) -> InputChanges:
    """Compute how a push changes the input of one event.

    - `pushed`: the pushed rows, sorted by their positions in the push.
    - `first`: the earliest end of a pushed row.
    - `withdraws`: a mask of the rows that are withdrawals, or None if there are no withdrawals.
    - `known`: a function that finds stored rows.
    - `last`: the latest end of all stored rows. Pushed rows that end later equal no stored row.
    - `key`: the arguments that identify a record among those of the same time, or None if all arguments do.
    - `several`: True if equal records count as often as they were sent.
    """
    ends, none = pushed[END], np.empty(0, np.int64)
    if withdraws is None and (several or (first > last and key is None)):
        rest = pushed if several else _each_once(pushed)
        return InputChanges(RowChanges(pushed[:, :0], rest), none, rows(pushed) - rows(rest))
    asked = np.zeros(len(ends), np.bool_) if several else ends <= last
    if withdraws is None:
        withdraws = np.zeros(len(ends), np.bool_)
    else:
        asked |= np.isin(ends, ends[withdraws])
    if key is not None and not asked.all():
        asked |= _twice(pushed.compress(~asked, axis=1), ends, key)
    if not asked.any():
        return InputChanges(RowChanges(pushed[:, none], pushed), none)
    places = np.flatnonzero(asked)
    mine = pushed.take(places, axis=1)
    words = [START, END, *(FIRST + column for column in (range(len(mine) - FIRST) if key is None else key))]
    if several:
        going, coming, unknown = _taken_one_by_one(mine, withdraws[places], known(mine, words), words)
        merged = 0
    else:
        going, coming, unknown = _changed(mine, withdraws[places], known(mine, words), words, key is not None)
        merged = int(np.count_nonzero(~withdraws[places])) - len(coming) if key is None else 0
    asked[places[coming]] = False
    rest = pushed.compress(~asked, axis=1) if asked.any() else pushed
    return InputChanges(RowChanges(going, rest), places[unknown], merged)


def _each_once(pushed: Table) -> Table:
    ordered = by_arrival(contiguous(pushed))
    before = equal_before(ordered)
    return pushed if before is None else ordered.compress(before == 0, axis=1)


def _taken_one_by_one(pushed: Table, withdraws: Bools, known: Table, words: Sequence[int]) -> tuple[Table, Ints, Ints]:
    """Match pushed rows with stored rows if equal rows count separately. A withdrawal removes the last equal row before
    it.

    Return three arrays: the stored rows to remove, the positions of the pushed rows to add, and the positions of
    withdrawals of rows that do not exist. `words`: the indexes of the matrix rows to compare.
    """
    kinds = KeySet(len(words))
    known = known[:, np.argsort(known[ORDER], kind="stable")]
    before, _ = kinds.insert(np.ascontiguousarray(known[words].T))
    group, _ = kinds.insert(np.ascontiguousarray(pushed[words].T))
    groups_of_rows = np.concatenate([before, group])
    goes = np.concatenate([np.zeros(len(before), np.bool_), withdraws])
    # Additions and withdrawals of each kind are matched in turn, like brackets. The count never falls below 0.
    order = np.argsort(groups_of_rows, kind="stable")
    taken, unknown = np.zeros(len(groups_of_rows), np.bool_), np.zeros(len(groups_of_rows), np.bool_)
    _matched(groups_of_rows[order], goes[order], order, np.empty(len(groups_of_rows), np.int64), taken, unknown)
    coming = np.flatnonzero(~(taken | goes)[len(before) :])
    return known.compress(taken[: len(before)], axis=1), coming, np.flatnonzero(unknown[len(before) :])


@njit()
def _matched(kinds, goes, places, stack, taken, unknown):  # type: ignore[no-untyped-def]
    """Match each withdrawal with a row of the same kind, as a closing bracket is matched with an opening one. The rows
    are sorted by kind, and then by order.

    `goes` marks withdrawals, and `places` contains the position of each row. For each withdrawal, the last unmatched
    row of its kind is marked in `taken`. If no such row exists, the withdrawal is marked in `unknown`. `stack` is a
    buffer with room for all rows.
    """
    depth = 0
    for i in range(len(kinds)):
        if i > 0 and kinds[i] != kinds[i - 1]:
            depth = 0
        if not goes[i]:
            stack[depth] = places[i]
            depth += 1
        elif depth > 0:
            depth -= 1
            taken[stack[depth]] = True
        else:
            unknown[places[i]] = True


def _twice(table: Table, ends: Ints, key: tuple[int, ...]) -> Bools:
    named = by_arrival(contiguous(table[[START, END, ORDER, IDENTITY, *(FIRST + column for column in key)]]))
    once = first_of_equal(named)
    if rows(once) == rows(named):
        return np.zeros(len(ends), np.bool_)
    end_names, counts = np.unique(named[END], return_counts=True)
    _, left = np.unique(once[END], return_counts=True)
    return np.isin(ends, end_names[counts != left])


def _changed(
    pushed: Table, withdraws: Bools, known: Table, words: Sequence[int], keyed: bool
) -> tuple[Table, Ints, Ints]:
    """Match pushed rows with stored rows if equal rows count once.

    Return three arrays: the stored rows to remove, the positions of the pushed rows to add, and the positions of
    withdrawals of rows that do not exist.

    - `known`: the stored rows that equal a pushed row in the matrix rows `words`.
    - `keyed`: True if rows that are equal in `words` may differ in other arguments. The later row then replaces the
      earlier row.
    """
    groups = KeySet(len(words))
    before, _ = groups.insert(np.ascontiguousarray(known[words].T))
    group, new = groups.insert(np.ascontiguousarray(pushed[words].T))
    if not rows(known) and len(new) == rows(pushed) and not withdraws.any():  # the most frequent case
        return known, np.arange(rows(pushed)), np.empty(0, np.int64)
    known_row = np.full(groups.count, -1)
    known_row[before] = np.arange(rows(known))
    single = np.bincount(group, minlength=groups.count)[group] == 1
    unknown = single & withdraws & (known_row[group] < 0)
    comes = single & ~withdraws & (known_row[group] < 0)
    gone = np.zeros(groups.count, np.bool_)
    gone[group[single & withdraws]] = True
    again = np.flatnonzero(single & ~withdraws & (known_row[group] >= 0))
    if keyed and len(again):
        other = again[(pushed[FIRST:, again] != known[FIRST:, known_row[group[again]]]).any(axis=0)]
        gone[group[other]] = True
        comes[other] = True
    several = np.flatnonzero(~single)
    if len(several):
        coming, going, never = _in_turn(pushed, withdraws, known, several, group, known_row)
        comes[coming] = True
        gone[going] = True
        unknown[never] = True
    return known.compress(gone[before], axis=1), np.flatnonzero(comes), np.flatnonzero(unknown)


def _in_turn(
    pushed: Table, withdraws: Bools, known: Table, several: Ints, group: Ints, known_row: Ints
) -> tuple[Ints, Ints, Ints]:
    """Process those pushed rows one by one that are equal to other pushed rows. `several`: the positions of these rows.

    - `group`: for each pushed row, the number of its group of equal rows.
    - `known_row`: for each group, the position of the stored row that equals the group's rows, or -1 if there is none.

    Return three arrays: the pushed rows to add, the groups whose stored row is removed, and the withdrawals of rows
    that do not exist.
    """
    now: dict[int, int | None] = {}  # the number of a pushed row, or ~number of a known row
    first: dict[int, int | None] = {}
    unknown = []
    for row in several.tolist():
        of = int(group[row])
        if of not in now:
            old = int(known_row[of])
            now[of] = first[of] = None if old < 0 else ~old
        held = now[of]
        if withdraws[row]:
            if held is None:
                unknown.append(row)
            now[of] = None
        elif held is None:
            now[of] = row
        else:
            same = known[FIRST:, ~held] if held < 0 else pushed[FIRST:, held]
            if (same != pushed[FIRST:, row]).any():
                now[of] = row
    coming = [held for held in now.values() if held is not None and held >= 0]
    going = [of for of, old in first.items() if old is not None and now[of] != old]
    return np.array(coming, np.int64), np.array(going, np.int64), np.array(unknown, np.int64)
