"""Changes of the input by a push: rows that it adds, and rows that it withdraws or replaces.

Equal records count as often as they were sent, and a withdrawal removes the last of them. In a set, one of equal
records counts. With a KEY, the last record of each key and time counts.
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
"""All rows of an event that are one of those of a table by the words in these of its rows, among which is the end."""


@dataclass(frozen=True, slots=True)
class InputChanges:
    """The changes of an event by a push, the rows that withdraw unknown records (`unknown`), and the number of equal
    records that were left out (`merged`)."""

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
    """Return the changes that pushed rows, in order of their positions, make.

    `first`: their earliest end. `withdraws`: a mask of withdrawals (None: there are none). `last`: no known row ends
    after it, so that later rows need no search. `key`: the arguments that identify records of one time (None: all of
    them). `several`: equal records count as often as they were sent.
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
        asked |= _twice(pushed[:, ~asked], ends, key)
    if not asked.any():
        return InputChanges(RowChanges(pushed[:, none], pushed), none)
    places = np.flatnonzero(asked)
    mine = pushed[:, places]
    words = [START, END, *(FIRST + at for at in (range(len(mine) - FIRST) if key is None else key))]
    if several:
        going, coming, unknown = _taken_one_by_one(mine, withdraws[places], known(mine, words), words)
        merged = 0
    else:
        going, coming, unknown = _changed(mine, withdraws[places], known(mine, words), words, key is not None)
        merged = int(np.count_nonzero(~withdraws[places])) - len(coming) if key is None else 0
    asked[places[coming]] = False
    return InputChanges(RowChanges(going, pushed[:, ~asked] if asked.any() else pushed), places[unknown], merged)


def _each_once(pushed: Table) -> Table:
    """The rows without those that are equal to one before them."""
    ordered = by_arrival(contiguous(pushed))
    before = equal_before(ordered)
    return pushed if before is None else contiguous(ordered[:, before == 0])


def _taken_one_by_one(pushed: Table, withdraws: Bools, known: Table, words: Sequence[int]) -> tuple[Table, Ints, Ints]:
    """Return the known rows to remove, the pushed rows to add, and the unknown withdrawals, where equal rows count
    separately.

    A withdrawal removes the last equal row before it.
    """
    kinds = KeySet(len(words))
    known = known[:, np.argsort(known[ORDER], kind="stable")]
    before, _ = kinds.insert(np.ascontiguousarray(known[words].T))
    group, _ = kinds.insert(np.ascontiguousarray(pushed[words].T))
    there = np.concatenate([before, group])
    goes = np.concatenate([np.zeros(len(before), np.bool_), withdraws])
    # In each kind, in turn: how many are there, never below 0, as brackets that open and close.
    order = np.argsort(there, kind="stable")
    taken, unknown = np.zeros(len(there), np.bool_), np.zeros(len(there), np.bool_)
    _matched(there[order], goes[order], order, np.empty(len(there), np.int64), taken, unknown)
    coming = np.flatnonzero(~(taken | goes)[len(before) :])
    return contiguous(known[:, taken[: len(before)]]), coming, np.flatnonzero(unknown[len(before) :])


@njit()
def _matched(kinds, goes, places, stack, taken, unknown):  # type: ignore[no-untyped-def]
    """Rows sorted by kind, and otherwise in turn, which are at these `places`: each that `goes` takes the last of its
    kind that has come and was not `taken`; where there is none it is `unknown`. `stack` has room for all."""
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
    """Return a mask of the ends that rows of equal start, end and key have."""
    named = by_arrival(contiguous(table[[START, END, ORDER, IDENTITY, *(FIRST + at for at in key)]]))
    once = first_of_equal(named)
    if rows(once) == rows(named):
        return np.zeros(len(ends), np.bool_)
    found, counts = np.unique(named[END], return_counts=True)
    _, left = np.unique(once[END], return_counts=True)
    return np.isin(ends, found[counts != left])


def _changed(
    pushed: Table, withdraws: Bools, known: Table, words: Sequence[int], keyed: bool
) -> tuple[Table, Ints, Ints]:
    """The same where it is looked for all of them, among those `known` that are the same by these words: what goes,
    which rows come, and which are unknown."""
    groups = KeySet(len(words))
    before, _ = groups.insert(np.ascontiguousarray(known[words].T))
    group, new = groups.insert(np.ascontiguousarray(pushed[words].T))
    if not rows(known) and len(new) == rows(pushed) and not withdraws.any():  # so it most often is
        return known, np.arange(rows(pushed)), np.empty(0, np.int64)
    there = np.full(groups.count, -1)
    there[before] = np.arange(rows(known))
    single = np.bincount(group, minlength=groups.count)[group] == 1
    unknown = single & withdraws & (there[group] < 0)
    comes = single & ~withdraws & (there[group] < 0)
    gone = np.zeros(groups.count, np.bool_)
    gone[group[single & withdraws]] = True
    again = np.flatnonzero(single & ~withdraws & (there[group] >= 0))
    if keyed and len(again):
        other = again[(pushed[FIRST:, again] != known[FIRST:, there[group[again]]]).any(axis=0)]
        gone[group[other]] = True
        comes[other] = True
    several = np.flatnonzero(~single)
    if len(several):
        coming, going, never = _in_turn(pushed, withdraws, known, several, group, there)
        comes[coming] = True
        gone[going] = True
        unknown[never] = True
    return contiguous(known[:, gone[before]]), np.flatnonzero(comes), np.flatnonzero(unknown)


def _in_turn(
    pushed: Table, withdraws: Bools, known: Table, several: Ints, group: Ints, there: Ints
) -> tuple[Ints, Ints, Ints]:
    """The same of records of which a push has several that are the same one: what comes of `pushed`, the groups that
    go of `known`, and what is unknown."""
    now: dict[int, int | None] = {}  # of pushed ones a number from 0, of known ones ~number
    first: dict[int, int | None] = {}
    unknown = []
    for at in several.tolist():
        of = int(group[at])
        if of not in now:
            old = int(there[of])
            now[of] = first[of] = None if old < 0 else ~old
        held = now[of]
        if withdraws[at]:
            if held is None:
                unknown.append(at)
            now[of] = None
        elif held is None:
            now[of] = at
        else:
            same = known[FIRST:, ~held] if held < 0 else pushed[FIRST:, held]
            if (same != pushed[FIRST:, at]).any():
                now[of] = at
    coming = [held for held in now.values() if held is not None and held >= 0]
    going = [of for of, old in first.items() if old is not None and now[of] != old]
    return np.array(coming, np.int64), np.array(going, np.int64), np.array(unknown, np.int64)
