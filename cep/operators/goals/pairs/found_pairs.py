"""Pairs that were found: the chronological choice among them, and the table that they make."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare, prefetch
from cep.operators.goals.pairs.partner_choice import better
from cep.operators.goals.store import ARRIVAL, BEGIN, END, FAR, GONE, HEADER, NAME, NEXT, SLOT, unlink

# Pairs of an instant are brought in order as they come, each by at most so many places.
CLOSE = 32


@njit()
def consume(pairs, allowed, tie, by_left, by_right, by_float, hot, cold, keep_right, chains):  # type: ignore[no-untyped-def]
    """The chronological choice among pairs that are all those fitting, in order of arrival, and are `allowed`.

    Gives which pairs were taken; what they took is out of the chains. Pairs name rows of the store.
    """
    taken = np.zeros(pairs.shape[0], np.bool_)
    used = np.zeros(hot.shape[0], np.bool_)  # a row may be out of its chain for another reason: it has expired since
    first = 0
    while first < pairs.shape[0]:
        side = pairs[first, 2]
        mine = pairs[first, side]
        last = first
        best = -1
        while last < pairs.shape[0] and pairs[last, 2] == side and pairs[last, side] == mine:
            p = pairs[last, 1 - side]
            if allowed[last] and not used[p]:
                if best < 0:
                    best = last
                else:
                    b = pairs[best, 1 - side]
                    if hot[p, END] < hot[b, END]:
                        best = last
                    elif hot[p, END] == hot[b, END]:
                        by = -1
                        if tie == 2:
                            by = by_left if side == 1 else by_right
                        if better(tie == 0, by, by_float, hot, cold, p, b):
                            best = last
            last += 1
        if best >= 0:
            taken[best] = True
            for which in range(2):
                if which == 0 or keep_right:
                    p = pairs[best, which]
                    used[p] = True
                    if hot[p, NEXT] != GONE:
                        unlink(hot, chains, cold[p, SLOT], 2 * which, p)
        first = last
    return taken


@njit(inline="always")
def follows(table, at, start, end, order):  # type: ignore[no-untyped-def]
    """Whether row `at` of the table arrives after an occurrence."""
    if table[T_END, at] != end:
        return table[T_END, at] > end
    return table[START, at] > start or (table[START, at] == start and table[ORDER, at] > order)


@bare
def assemble(  # type: ignore[no-untyped-def]
    pairs, hot, cold, right, right_stored, take_left, take_right, sorts, places, table, names
):
    """The pairs into `table`: interval, order of the completing side, then the arguments taken from each side.

    With `sorts` by arrival, unless an instant has too many pairs; gives whether the table is in order then. `places`
    is room for a number a pair; `names` has a column a pair where names are asked for.
    """
    n = pairs.shape[0]
    lefts = take_left.shape[0]
    rights = take_right.shape[0]
    in_order = True
    for i in range(n + CLOSE):
        if i + FAR < n:
            prefetch(hot, pairs[i + FAR, 0])
            prefetch(cold, pairs[i + FAR, 0])
            prefetch(cold, pairs[i + FAR, 0] + 1)  # where a row ends on another line of the cache
            if right_stored:
                prefetch(hot, pairs[i + FAR, 1])
                prefetch(cold, pairs[i + FAR, 1])
                prefetch(cold, pairs[i + FAR, 1] + 1)
        if i < n:
            p = pairs[i, 0]
            q = pairs[i, 1]
            c = hot[q, BEGIN] if right_stored else right[START, q]
            d = hot[q, END] if right_stored else right[T_END, q]
            start = min(hot[p, BEGIN], c)
            end = max(hot[p, END], d)
            if pairs[i, 2] == 0:
                order = cold[p, ARRIVAL]
            elif right_stored:
                order = cold[q, ARRIVAL]
            else:
                order = right[ORDER, q]
            at = i
            if sorts:
                while at > 0 and follows(table, at - 1, start, end, order):
                    if at + CLOSE == i:
                        in_order = False
                        break
                    table[START, at] = table[START, at - 1]
                    table[T_END, at] = table[T_END, at - 1]
                    table[ORDER, at] = table[ORDER, at - 1]
                    places[at] = places[at - 1]
                    at -= 1
            table[START, at] = start
            table[T_END, at] = end
            table[ORDER, at] = order
            places[at] = i
        # What is so far behind stays where it is: its arguments follow.
        if i >= CLOSE:
            at = i - CLOSE
            p = pairs[places[at], 0]
            q = pairs[places[at], 1]
            table[IDENTITY, at] = 0
            for k in range(lefts):
                table[FIRST + k, at] = cold[p, HEADER + take_left[k]]
            if right_stored:
                for k in range(rights):
                    table[FIRST + lefts + k, at] = cold[q, HEADER + take_right[k]]
            else:
                for k in range(rights):
                    table[FIRST + lefts + k, at] = right[FIRST + take_right[k], q]
            if names.shape[1] > 0:
                names[0, at] = cold[p, NAME]
                names[1, at] = cold[q, NAME] if right_stored else right[IDENTITY, q]
    return in_order
