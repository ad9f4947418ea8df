"""How a partner is chosen: which arrival is next, which partners can fit, and which of two is better.

Small kernels, which those of the goals (`pair`, `latest`, `consume`) are made of.
"""

from __future__ import annotations

from cep.core.relation import END as T_END
from cep.core.relation import FIRST, ORDER, START
from cep.operators.goals.bytecode import run
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING, slot_of_key
from cep.operators.goals.store import BEGIN, END, HEADER, NEXT, PREVIOUS, feed, sortable, supersede, unlink


@inside
def left_is_next(left, right, i, j):  # type: ignore[no-untyped-def]
    """Whether row `i` of the left table arrives before row `j` of the right one, or with it; one of them is there."""
    if i >= left.shape[1]:
        return False
    if j >= right.shape[1]:
        return True
    if left[T_END, i] != right[T_END, j]:
        return left[T_END, i] < right[T_END, j]
    if left[START, i] != right[START, j]:
        return left[START, i] < right[START, j]
    return left[ORDER, i] <= right[ORDER, j]


@inside
def better(longest, by, by_float, hot, cold, p, best):  # type: ignore[no-untyped-def]
    """Whether partner `p` is chosen before `best`, which ended with it. `by`: the column that decides, -1 for none."""
    if by >= 0:
        return sortable(cold[p, HEADER + by], by_float) > sortable(cold[best, HEADER + by], by_float)
    if longest:
        return hot[p, BEGIN] < hot[best, BEGIN]
    return hot[p, BEGIN] > hot[best, BEGIN]


@inside
def expire(hot, chains, slot, chain, limit):  # type: ignore[no-untyped-def]
    """Take what ended before `limit` out of a chain; it is in order of ends."""
    p = chains[slot, chain]
    while p >= 0 and hot[p, END] < limit:
        after = hot[p, NEXT]
        unlink(hot, chains, slot, chain, p)
        p = after


@inside
def first_partner(hot, chains, slot, chain, backward, floor):  # type: ignore[no-untyped-def]
    """Where the search begins: at the latest end (`backward`), or at the first that did not end before `floor`."""
    if backward:
        return chains[slot, chain + 1]
    if floor == MISSING:
        return chains[slot, chain]
    p = chains[slot, chain + 1]
    first = -1
    while p >= 0 and hot[p, END] >= floor:
        first = p
        p = hot[p, PREVIOUS]
    return first


@inside
def latest_start(hot, chains, slot, begin):  # type: ignore[no-untyped-def]
    """Of what is to be absent under a key (-1: none) and ended before `begin`: the latest start, or MISSING."""
    if slot < 0:
        return MISSING
    t = chains[slot, 1]
    while t >= 0 and hot[t, END] >= begin:
        t = hot[t, PREVIOUS]
    return hot[t, BEGIN] if t >= 0 else MISSING


@bare
def slot_of_both(columns, cold, p, right, row, key, index, keys):  # type: ignore[no-untyped-def]
    """The slot of the absent key of a pair. `columns`: for each part of it a side (0: left, 1: right) and a column."""
    for k in range(columns.shape[0]):
        if columns[k, 0] == 0:
            key[k] = cold[p, HEADER + columns[k, 1]]
        else:
            key[k] = right[FIRST + columns[k, 1], row]
    return slot_of_key(key, index, keys)


@bare
def fed_back(  # type: ignore[no-untyped-def]
    head, head_literals, head_ends, stack, hot, cold, count, chains, slot, p, current, start, now, order, new, width,
    supersedes, within,
):  # fmt: skip
    """What a recursive rule makes of a pair becomes a left side, row `count`, for which there is room: whether it does.

    `head`: a program for each argument, which leaves its value in `stack`.
    """
    begun = 0
    for h in range(head_ends.shape[0]):
        run(head, begun, head_ends[h], head_literals, stack, cold, p, HEADER, current, True, start, now)
        new[h] = stack[0]
        begun = head_ends[h]
    if not feed(hot, cold, count, chains, slot, start, now, order, new, width):
        return False
    if supersedes:
        supersede(hot, chains, slot, 0, within)
    return True
