"""What a push changes of the input: rows that come, and rows that go since they are withdrawn or replaced.

Input is a set: of equal records there is one, and one withdrawal takes it. Of an event with a KEY there is one of each
key and time, the last that came.
"""

from __future__ import annotations

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, START, Table, rows
from cep.operators.goals.contract import Bools, Ints
from cep.runtime.revision.stage_replay import RowChanges

UNKNOWN = "unknown-withdrawal"


def input_changes(
    pushed: Table, withdraws: Bools, known: Table, key: tuple[int, ...] | None
) -> tuple[RowChanges, Bools]:
    """What rows, in order of their positions, change of those `known`, all those that have one of their ends; and which
    of them withdraw what is not there.

    `key`: the arguments that make two records of one time the same one; None: all of them.
    """
    words = [START, END, *(FIRST + at for at in (range(len(pushed) - FIRST) if key is None else key))]
    groups = KeySet(len(words))
    before, _ = groups.insert(np.ascontiguousarray(known[words].T))
    group, _ = groups.insert(np.ascontiguousarray(pushed[words].T))
    there = np.full(groups.count, -1)
    there[before] = np.arange(rows(known))
    single = np.bincount(group, minlength=groups.count)[group] == 1
    coming, going = [], []
    unknown = single & withdraws & (there[group] < 0)
    going.append(there[group[single & withdraws & (there[group] >= 0)]])
    coming.append(np.flatnonzero(single & ~withdraws & (there[group] < 0)))
    again = np.flatnonzero(single & ~withdraws & (there[group] >= 0))
    if key is not None and len(again):
        old = there[group[again]]
        other = (pushed[FIRST:, again] != known[FIRST:, old]).any(axis=0)
        going.append(old[other])
        coming.append(again[other])
    several = np.flatnonzero(~single)
    if len(several):
        more = _in_turn(pushed, withdraws, known, several, group, there)
        coming.append(more[0])
        going.append(more[1])
        unknown[more[2]] = True
    come, go = np.sort(np.concatenate(coming)), np.concatenate(going)
    return RowChanges(known[:, go], pushed[:, come]), unknown


def _in_turn(
    pushed: Table, withdraws: Bools, known: Table, several: Ints, group: Ints, there: Ints
) -> tuple[Ints, Ints, Ints]:
    """The same of records of which a push has several that are the same one: what comes of `pushed`, what goes of
    `known`, and what is unknown."""
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
    going = [~old for of, old in first.items() if old is not None and now[of] != old]
    return np.array(coming, np.int64), np.array(going, np.int64), np.array(unknown, np.int64)
