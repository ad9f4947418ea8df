"""NOT: what is to be absent is kept by its key, and an arrival sees from when on its key has been free of it."""

from __future__ import annotations

from cep.core.relation import END as T_END
from cep.core.relation import FIRST
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING, id_of
from cep.operators.goals.pairs.pair_input import ABSENT_BOTH
from cep.operators.goals.store import BEGIN, END, HEADER, OTHER, PREVIOUS, ask_ahead, note_absent


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
