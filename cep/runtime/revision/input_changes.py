"""What a push changes of the input: rows that come, and rows that go since they are withdrawn or replaced.

Input is a set: of equal records there is one, and one withdrawal takes it. Of an event with a KEY there is one of each
key and time, the last that came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, rows
from cep.operators.goals.arrival import by_arrival, first_of_equal
from cep.operators.goals.contract import Bools, Ints
from cep.runtime.revision.row_changes import RowChanges

UNKNOWN = "unknown-withdrawal"

KnownRows = Callable[[Table, Sequence[int]], Table]
"""All rows of an event that are one of those of a table by the words in these of its rows, among which is the end."""


def input_changes(
    pushed: Table, first: int, withdraws: Bools | None, known: KnownRows, last: int, key: tuple[int, ...] | None
) -> tuple[RowChanges, Ints]:
    """What rows, in order of their positions, change; and which of them withdraw what is not there.

    `first`: the first of their ends; `withdraws`: which rows do that, None: none. `last`: no row known ends after it.
    `key`: the arguments that make two records of one time the same one; None: all of them. What ends later than all
    that is known is looked for nowhere: of equal rows that come together the goals make one, as they do without
    revision.
    """
    ends, none = pushed[END], np.empty(0, np.int64)
    if first > last and withdraws is None and key is None:
        return RowChanges(pushed[:, :0], pushed), none
    asked = ends <= last
    if withdraws is None:
        withdraws = np.zeros(len(ends), np.bool_)
    else:
        asked |= np.isin(ends, ends[withdraws])
    if key is not None and not asked.all():
        asked |= _twice(pushed[:, ~asked], ends, key)
    if not asked.any():
        return RowChanges(pushed[:, none], pushed), none
    places = np.flatnonzero(asked)
    mine = pushed[:, places]
    words = [START, END, *(FIRST + at for at in (range(len(mine) - FIRST) if key is None else key))]
    going, coming, unknown = _changed(mine, withdraws[places], known(mine, words), words, key is not None)
    asked[places[coming]] = False
    return RowChanges(going, pushed[:, ~asked] if asked.any() else pushed), places[unknown]


def _twice(table: Table, ends: Ints, key: tuple[int, ...]) -> Bools:
    """Which ends are those of rows of one start, end and key."""
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
