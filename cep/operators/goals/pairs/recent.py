"""The kernel of a SEQ under `recent`: an arrival on the right takes, of what waits under its key, the left side that
ended last before it.

It does what `pair` does for such a goal, and nothing of what it does for others: no absence, no condition in the
choice, no feedback, and the right sides do not wait.
"""

from __future__ import annotations

from cep.core.relation import END as T_END
from cep.core.relation import START
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.pairs.pair_input import (
    A_COUNT,
    A_I,
    A_J,
    A_MADE,
    S_BY_FLOAT,
    S_BY_LEFT,
    S_POINT,
    S_TIE,
    S_WIDTH_LEFT,
    S_WITHIN,
)
from cep.operators.goals.pairs.partner_choice import better, expire, left_is_next
from cep.operators.goals.store import (
    BEGIN,
    END,
    PREVIOUS,
    ask_ahead,
    link,
    put,
    supersede,
)

CACHED = 8192
"""Keys: of so many all is in the processor's cache, and nothing is asked for ahead."""


@bare
def latest(spec, left, right, left_slots, right_slots, chains, hot, cold, pairs, state):  # type: ignore[no-untyped-def]
    """Arrivals of both sides in order, against what waits. `spec`, `state`, and a row of `pairs` are those of `pair`.

    The caller has made room: in `hot` and `cold` for every row of `left`, in `pairs` for one pair of each of `right`.
    """
    tie = spec[S_TIE]
    by = spec[S_BY_LEFT] if tie == 2 else -1
    longest = tie != 1  # also where a tie is decided `by` a column that the left side has not
    by_float = spec[S_BY_FLOAT]
    within = spec[S_WITHIN]
    point = spec[S_POINT] != 0
    width = spec[S_WIDTH_LEFT]
    n_left = left.shape[1]
    n_right = right.shape[1]
    far = chains.shape[0] > CACHED
    count = state[A_COUNT]
    made = 0
    i = 0
    j = 0
    while i < n_left or j < n_right:
        if left_is_next(left, right, i, j):
            if far:
                ask_ahead(hot, chains, left_slots, i, True, point, 0, False, 3, PREVIOUS)
            slot = left_slots[i]
            if slot >= 0:
                put(hot, cold, count, left, i, slot, 0, width)
                link(hot, chains, slot, 0, count)
                count += 1
                if point:
                    supersede(hot, chains, slot, 0, within)
            i += 1
            continue
        if far:
            ask_ahead(hot, chains, right_slots, j, False, False, 2, True, 1, PREVIOUS)
        slot = right_slots[j]
        if slot >= 0:
            now = right[T_END, j]
            begin = right[START, j]
            limit = now - within
            expire(hot, chains, slot, 0, limit)
            best = -1
            p = chains[slot, 1]
            while p >= 0:
                end = hot[p, END]
                if end < limit or (best >= 0 and end < hot[best, END]):
                    break
                fits = end < begin and now - hot[p, BEGIN] <= within
                if fits and (best < 0 or better(longest, by, by_float, hot, cold, p, best)):
                    best = p
                p = hot[p, PREVIOUS]
            if best >= 0:
                pairs[made, 0] = best
                pairs[made, 1] = j
                pairs[made, 2] = 1
                pairs[made, 3] = -1
                made += 1
        j += 1
    state[A_I] = i
    state[A_J] = j
    state[A_COUNT] = count
    state[A_MADE] = made
