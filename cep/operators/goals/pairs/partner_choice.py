"""How a partner is chosen: which arrival is next, which partners can fit, and which of two is better.

Small kernels, which those of the goals (`pair`, `latest`, `consume`) are made of.
"""

from __future__ import annotations

import numpy as np

from cep.core.relation import END as T_END
from cep.core.relation import ORDER, START
from cep.operators.goals.intrinsics import inside
from cep.operators.goals.keys import MISSING
from cep.operators.goals.pairs.bytecode import run
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
    p = chains[np.uint64(slot), chain]
    while p >= 0 and hot[np.uint64(p), END] < limit:
        after = hot[np.uint64(p), NEXT]
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
def fed_back(rule, head, waiting, condition, arrival, count, p, start, order):  # type: ignore[no-untyped-def]
    """What a recursive rule makes of a pair becomes a left side, row `count`, for which there is room: whether it does.

    Each program of `head` leaves an argument's value in the stack of `condition`.
    """
    begun = np.int64(0)  # for a plain 0 numba compiles `run` once more
    for h in range(head.ends.shape[0]):
        run(
            head.code, begun, head.ends[h], head.literals, condition.stack,
            waiting.cold, p, HEADER, condition.current, arrival.side == 1, start, arrival.now,
        )  # fmt: skip
        head.made[h] = condition.stack[0]
        begun = head.ends[h]
    if not feed(waiting, count, arrival, start, order, head.made, rule.width_left):
        return False
    if rule.supersedes:
        supersede(waiting.hot, waiting.chains, arrival.slot, 0, rule.within, arrival.now)
    return True
