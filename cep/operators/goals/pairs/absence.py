"""NOT: what is to be absent is kept by its key, and an arrival sees from when on its key has been free of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import END as T_END
from cep.core.relation import FIRST
from cep.core.room import roomy
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING, Keys, id_of
from cep.operators.goals.pairs.pair_input import ABSENT_BOTH
from cep.operators.goals.store import (
    BEGIN,
    END,
    FOREVER,
    HEADER,
    OTHER,
    PREVIOUS,
    SLOT,
    ask_ahead,
    kept,
    live,
    note_absent,
    relink,
    renumber,
)

Ints = NDArray[np.int64]


@inside
def note_until(absent, absences, x, count, now, point):  # type: ignore[no-untyped-def]
    """Keep the rows of `absent` from `x` on that end before `now`, as rows of the store from `count` on, for all of
    which there is room. Gives the next row of each."""
    while x < absent.table.shape[1] and absent.table[T_END, x] < now:
        ask_ahead(absences.hot, absences.chains, absent.slots, x, True, point, 0, False, 0, PREVIOUS)
        slot = absent.slots[x]
        if slot >= 0:
            note_absent(absences.hot, absences.cold, count, absent.table, x, slot, absences.chains, point)
            count += 1
        x += 1
    return x, count


@inside
def latest_start(absences, slot, begin):  # type: ignore[no-untyped-def]
    """Of what is to be absent under a key (-1: none) and ended before `begin`: the latest start, or MISSING."""
    if slot < 0:
        return MISSING
    t = absences.chains[slot, 1]
    while t >= 0 and absences.hot[t, END] >= begin:
        t = absences.hot[t, PREVIOUS]
    return absences.hot[t, BEGIN] if t >= 0 else MISSING


@inside
def free_from(absence, absences, absent_key, cold, p, right, row, begin):  # type: ignore[no-untyped-def]
    """Since when the time from row `p` of the store to `begin` is free of what is to be absent, of which the left side
    knows the key, or only both sides."""
    slot = cold[p, OTHER]
    if absence == ABSENT_BOTH:
        slot = slot_of_both(absent_key.columns, cold, p, right, row, absent_key.key, absent_key.places, absent_key.keys)
    return latest_start(absences, slot, begin)


@bare
def slot_of_both(columns, cold, p, right, row, key, index, keys):  # type: ignore[no-untyped-def]
    """The slot of the absent key of a pair. `columns`: for each part of it a side (0: left, 1: right) and a column."""
    for k in range(columns.shape[0]):
        if columns[k, 0] == 0:
            key[k] = cold[p, HEADER + columns[k, 1]]
        else:
            key[k] = right[FIRST + columns[k, 1], row]
    return id_of(key, index, keys)


def still_absent(
    hot: Ints, cold: Ints, count: int, known: Keys, waiting: Ints, within: int, watermark: int
) -> tuple[Ints, Ints, int, Keys, Ints]:
    """Of what is to be absent (the store, how many rows, their keys) what may still be needed after a watermark, with
    its keys and chains anew. `waiting`: the rows of the goal's own store, which get the new numbers of keys."""
    hot, cold, count = kept(hot, cold, live(hot, cold, count, within, FOREVER, FOREVER, watermark))
    watching = np.flatnonzero(waiting[:, OTHER] >= 0)
    # A key stays for rows of the absent side, and for left sides that know it by number.
    both = np.concatenate([cold[:count], waiting[watching][:, :HEADER]])
    both[count:, SLOT] = both[count:, OTHER]
    keys = renumber(both, len(both), known)
    cold[:count, SLOT] = both[:count, SLOT]
    chains = np.full((roomy(keys.count, 16), 2), -1, np.int64)
    relink(hot, cold, count, chains, True)
    waiting[watching, OTHER] = both[count:, SLOT]
    return hot, cold, count, keys, chains
