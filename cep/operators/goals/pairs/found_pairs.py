"""Kernels that choose among candidate pairs by the policy `chronological`, or write pairs into tables."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare, inside, prefetch
from cep.operators.goals.pairs.pairing import (
    A_COUNT,
    A_IN_ORDER,
    A_MADE,
    S_BY_FLOAT,
    S_BY_LEFT,
    S_POINT,
    S_TIE,
    S_WIDTH_LEFT,
    S_WITHIN,
    better,
    expire,
)
from cep.operators.goals.store import (
    ARRIVAL,
    BEGIN,
    END,
    FAR,
    GONE,
    HEADER,
    NAME,
    NEXT,
    PREVIOUS,
    SLOT,
    ask_ahead,
    link,
    put,
    supersede,
    unlink,
)

# The greatest number of places by which pairs of an instant are moved to sort them.
CLOSE = 32


@njit()
def consume(pairs, allowed, tie, by_left, by_right, by_float, hot, cold, keep_right, chains):  # type: ignore[no-untyped-def]
    """Choose pairs by the policy `chronological`. Return a mask of the chosen pairs.

    - `pairs`: all candidate pairs, as row numbers of the store, in order of arrival.
    - `allowed`: a mask of the pairs whose conditions hold.

    The rows of chosen pairs are removed from the chains.
    """
    taken = np.zeros(pairs.shape[0], np.bool_)
    used = np.zeros(hot.shape[0], np.bool_)  # rows may also have left their chain by expiring
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
def follows(table, position, start, end, order):  # type: ignore[no-untyped-def]
    """Return True if row `position` of the table arrives after the occurrence with this start, end and order."""
    if table[T_END, position] != end:
        return table[T_END, position] > end
    return table[START, position] > start or (table[START, position] == start and table[ORDER, position] > order)


@bare
def assemble(  # type: ignore[no-untyped-def]
    pairs, hot, cold, right, right_stored, take_left, take_right, sorts, places, table, names
):
    """Write pairs into `table`: the interval, the order of the side that completes the pair, then the arguments of each
    side.

    - `sorts`: True to sort the pairs by arrival.
    - `places`: a buffer with one number per pair.
    - `names`: a buffer with one column per pair for the lineage handles, if they are needed.

    Return False if the pairs must still be sorted, because an instant has too many of them.
    """
    n = pairs.shape[0]
    lefts = take_left.shape[0]
    rights = take_right.shape[0]
    in_order = True
    for i in range(n + CLOSE):
        if i + FAR < n:
            prefetch(hot, pairs[i + FAR, 0])
            prefetch(cold, pairs[i + FAR, 0])
            prefetch(cold, pairs[i + FAR, 0] + 1)  # a row may span two cache lines
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
            position = i
            if sorts:
                while position > 0 and follows(table, position - 1, start, end, order):
                    if position + CLOSE == i:
                        in_order = False
                        break
                    table[START, position] = table[START, position - 1]
                    table[T_END, position] = table[T_END, position - 1]
                    table[ORDER, position] = table[ORDER, position - 1]
                    places[position] = places[position - 1]
                    position -= 1
            table[START, position] = start
            table[T_END, position] = end
            table[ORDER, position] = order
            places[position] = i
        # Rows this far behind do not move any more, so their arguments are written.
        if i >= CLOSE:
            position = i - CLOSE
            p = pairs[places[position], 0]
            q = pairs[places[position], 1]
            table[IDENTITY, position] = 0
            for k in range(lefts):
                table[FIRST + k, position] = cold[p, HEADER + take_left[k]]
            if right_stored:
                for k in range(rights):
                    table[FIRST + lefts + k, position] = cold[q, HEADER + take_right[k]]
            else:
                for k in range(rights):
                    table[FIRST + lefts + k, position] = right[FIRST + take_right[k], q]
            if names.shape[1] > 0:
                names[0, position] = cold[p, NAME]
                names[1, position] = cold[q, NAME] if right_stored else right[IDENTITY, q]
    return in_order


CACHED = 8192
"""The maximum number of keys for which all state fits in the processor's cache, so that prefetching is useless."""
LATEST = 2**63 - 1
"""A time after all others."""
BLOCK = 32
"""The maximum number of left rows that are processed before the right rows that arrive among them."""


@inside
def make_place(table, names, last, start, now, order):  # type: ignore[no-untyped-def]
    """Make room for an occurrence among the sorted rows before row `last` of a table. Return its place.

    Rows that arrive after the occurrence move on by one place. Return -1 if too many rows would have to move.
    """
    position = last
    while position > 0 and follows(table, position - 1, start, now, order):
        if position + CLOSE == last:
            return -1
        position -= 1
    for row in range(last, position, -1):
        for c in range(table.shape[0]):
            table[c, row] = table[c, row - 1]
        if names.shape[1] > 0:
            names[0, row] = names[0, row - 1]
            names[1, row] = names[1, row - 1]
    return position


@bare
def latest(  # type: ignore[no-untyped-def]
    spec, left, right, left_slots, right_slots, chains, hot, cold, take_left, take_right, table, names, state
):
    """Process arrivals of both sides in order, under the policy `recent`.

    - `spec`, `state`: see `pair`. `state` also gets the number of pairs, and a flag: 1 if they are in order.
    - `hot`, `cold`: the store, which must have room for every row of `left`.
    - `table`, `names`: the output, in the form that `assemble` writes. There must be room for one pair per row of
      `right`; `names` may be empty if handles are not needed.

    Chains contain row numbers of the store, or -1, which is tested before it is used as an index. Indexes are unsigned,
    because numba tests signed indexes for negative values each time.
    """
    tie = spec[S_TIE]
    by = spec[S_BY_LEFT] if tie == 2 else -1
    longest = tie != 1  # also if ties are decided `by` a column that the left side lacks
    by_float = spec[S_BY_FLOAT]
    within = spec[S_WITHIN]
    point = spec[S_POINT] != 0
    width = spec[S_WIDTH_LEFT]
    lefts = take_left.shape[0]
    rights = take_right.shape[0]
    named = names.shape[1] > 0
    n_left = left.shape[1]
    n_right = right.shape[1]
    far = chains.shape[0] > CACHED
    count = state[A_COUNT]
    paired = 0
    in_order = True
    before = np.int64(-LATEST)
    block = BLOCK
    i = 0
    j = 0
    while i < n_left or j < n_right:
        coming = right[T_END, j] if j < n_right else LATEST
        block_end = min(i + block, n_left)
        while i < block_end:
            if far:
                ask_ahead(hot, chains, left_slots, i, True, point, 0, False, 3, PREVIOUS)
            slot = left_slots[np.uint64(i)]
            if slot >= 0:
                put(hot, cold, count, left, i, slot, 0, width)
                link(hot, chains, slot, 0, count)
                if point:
                    supersede(hot, chains, slot, 0, within, min(coming, left[T_END, np.uint64(i)]))
                count += 1
            i += 1
        until = left[T_END, i - 1] if i < n_left else LATEST
        first = j
        passed = 0
        while j < n_right and right[T_END, np.uint64(j)] <= until:
            if far:
                ask_ahead(hot, chains, right_slots, j, False, False, 2, True, 1, PREVIOUS)
            row = np.uint64(j)
            j += 1
            slot = right_slots[row]
            if slot < 0:
                continue
            now = right[T_END, row]
            begin = right[START, row]
            limit = now - within
            expire(hot, chains, slot, 0, limit)
            best = -1
            best_end = now
            p = chains[np.uint64(slot), 1]
            while p >= 0:
                hot_row = np.uint64(p)
                end = hot[hot_row, END]
                if end < limit or (best >= 0 and end < best_end):
                    break
                if end >= begin:
                    passed += 1
                elif now - hot[hot_row, BEGIN] <= within and (
                    best < 0 or better(longest, by, by_float, hot, cold, p, best)
                ):
                    best = p
                    best_end = end
                p = hot[hot_row, PREVIOUS]
            if best < 0:
                continue
            partner = np.uint64(best)
            start = hot[partner, BEGIN]
            order = right[ORDER, row]
            position = paired
            if now == before:
                position = make_place(table, names, paired, start, now, order)
                if position < 0:
                    position = paired
                    in_order = False
            before = now
            paired += 1
            place = np.uint64(position)
            table[START, place] = start
            table[T_END, place] = now
            table[ORDER, place] = order
            table[IDENTITY, place] = 0
            for k in range(lefts):
                table[np.uint64(FIRST + k), place] = cold[partner, np.uint64(HEADER + take_left[k])]
            for k in range(rights):
                table[np.uint64(FIRST + lefts + k), place] = right[np.uint64(FIRST + take_right[k]), row]
            if named:
                names[0, place] = cold[partner, NAME]
                names[1, place] = right[IDENTITY, row]
        # Shorten the blocks if there are few keys, or one has most of the rows.
        block = max(1, block // 2) if passed > j - first else min(BLOCK, 2 * block)
    state[A_COUNT] = count
    state[A_MADE] = paired
    state[A_IN_ORDER] = in_order
