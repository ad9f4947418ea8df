"""The kernel of every binary goal: an arrival meets the partners that wait under its key.

Generic over the relation's bounds, policy, tie rule, WITHIN, absence and the feedback of a recursive rule, all of them
numbers in `spec`, so nothing is compiled for a rule.
"""

from __future__ import annotations

from cep.core.relation import END as T_END
from cep.core.relation import FIRST, ORDER, START
from cep.operators.goals.bytecode import run
from cep.operators.goals.choice import better, expire, fed_back, first_partner, latest_start, left_is_next, slot_of_both
from cep.operators.goals.interval_kernels import MOST_BOUNDS, relates
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.keys import MISSING
from cep.operators.goals.store import (
    BEGIN,
    END,
    FOREVER,
    GONE,
    HEADER,
    NEXT,
    OTHER,
    PREVIOUS,
    ask_absent_ahead,
    ask_ahead,
    known,
    link,
    link_sorted,
    note_absent,
    put,
    supersede,
    unlink,
)

POLICIES = {"unrestricted": 0, "recent": 1, "chronological": 2}
UNRESTRICTED, RECENT, CHRONOLOGICAL = range(3)
TIES = {"longest": 0, "shortest": 1, "by": 2}

# places in `spec`
(
    S_POLICY, S_TIE, S_WITHIN, S_POINT, S_STORE_RIGHT, S_ABSENCE, S_FEEDBACK,
    S_BY_LEFT, S_BY_RIGHT, S_BY_FLOAT, S_WIDTH_LEFT, S_WIDTH_RIGHT,
    S_SUPERSEDES, S_REACH_LEFT, S_REACH_RIGHT, S_LEAST_GAP, S_MOST_GAP, S_BOUNDS,
) = range(18)  # fmt: skip
SPEC = S_BOUNDS + 1 + 3 * MOST_BOUNDS

# places in `state`: rows taken of each input, rows in the stores, pairs made; and of an arrival whose partners were
# not all tried for want of room (A_RESUME: the next of them, else -1) what it was
A_I, A_J, A_X, A_COUNT, A_ABSENT, A_MADE, A_RESUME, A_SIDE, A_ROW, A_MINE, A_FLOOR = range(11)
STATE = 11

# where the key of the absent event comes from: no absence, from the join key, the right side, the left side, both
NO_ABSENCE, ABSENT_COMMON, ABSENT_RIGHT, ABSENT_LEFT, ABSENT_BOTH = range(5)


@bare
def pair(  # type: ignore[no-untyped-def]
    spec, left, right, absent, left_slots, right_slots, absent_slots, right_absent, left_absent, absent_key,
    absent_index, absent_keys, chains, absent_chains, hot, cold, absent_hot, absent_cold,
    code, literals, head, head_literals, head_ends, pairs, state, current, new, stack, key,
):  # fmt: skip
    """Arrivals of both sides in order, against what waits and each other. Gives whether all is done.

    A row of `pairs` is (left row, right row, completed by the right side, row derived): rows of the store, but the
    right one's place in the batch where right sides do not wait. `state` says how far it came (see A_I and so on):
    where there is no room for one more pair and one more row, the caller makes room and calls again. That is all that
    an arrival writes at once: it is put into the store itself, or (with feedback, on the right) what it makes is. Only
    under `unrestricted` it makes more, and there is room for each before it is made. The absent side has room for all.
    """
    policy = spec[S_POLICY]
    tie = spec[S_TIE]
    within = spec[S_WITHIN]
    point = spec[S_POINT] != 0
    keep_right = spec[S_STORE_RIGHT] != 0
    absence = spec[S_ABSENCE]
    feedback = spec[S_FEEDBACK] != 0
    by_left = spec[S_BY_LEFT] if tie == 2 else -1
    by_right = spec[S_BY_RIGHT] if tie == 2 else -1
    by_float = spec[S_BY_FLOAT]
    width_left = spec[S_WIDTH_LEFT]
    width_right = spec[S_WIDTH_RIGHT]
    tested = code.shape[0] > 0 and (policy == CHRONOLOGICAL or feedback)
    computes = tested or feedback
    supersedes = spec[S_SUPERSEDES] != 0
    least_gap = spec[S_LEAST_GAP]
    most_gap = spec[S_MOST_GAP]
    backward = policy == RECENT
    from_tail = 1 if backward else 0
    onward = PREVIOUS if backward else NEXT
    longest = tie == 0 or (tie == 2 and policy == RECENT)

    n_left = left.shape[1]
    n_right = right.shape[1]
    n_absent = absent.shape[1]
    made = state[A_MADE]
    count = state[A_COUNT]
    absent_count = state[A_ABSENT]
    i = state[A_I]
    j = state[A_J]
    x = state[A_X]
    resumed = state[A_RESUME]
    side = state[A_SIDE]
    row = state[A_ROW]
    mine = state[A_MINE]
    floor = state[A_FLOOR]
    room = min(hot.shape[0], cold.shape[0])
    full = False
    while resumed >= 0 or i < n_left or j < n_right:
        full = made == pairs.shape[0] or count == room
        if full:
            break
        if resumed < 0:
            side = 0 if left_is_next(left, right, i, j) else 1
            if side == 0:
                ask_ahead(hot, chains, left_slots, i, True, supersedes, 0, keep_right, 2 + from_tail, onward)
                row = i
                i += 1
            else:
                ask_ahead(hot, chains, right_slots, j, keep_right, False, 2, True, from_tail, onward)
                if absence == ABSENT_COMMON or absence == ABSENT_RIGHT:
                    ask_absent_ahead(absent_hot, absent_chains, right_absent, j)
                row = j
                j += 1
        if side == 0:
            now = left[T_END, row]
            begin = left[START, row]
            slot = left_slots[row]
        else:
            now = right[T_END, row]
            begin = right[START, row]
            slot = right_slots[row]

        if resumed < 0:
            if absence != NO_ABSENCE:
                while x < n_absent and absent[T_END, x] < now:
                    ask_ahead(absent_hot, absent_chains, absent_slots, x, True, point, 0, False, 0, PREVIOUS)
                    if absent_slots[x] >= 0:
                        note_absent(
                            absent_hot, absent_cold, absent_count, absent, x, absent_slots[x], absent_chains, point
                        )
                        absent_count += 1
                    x += 1
            if slot < 0:
                continue
            mine = row
            if side == 0:
                if feedback and known(hot, cold, chains, slot, left, row, width_left):
                    continue
                put(hot, cold, count, left, row, slot, 0, width_left)
                if absence == ABSENT_LEFT:
                    cold[count, OTHER] = left_absent[row]
                mine = count
                count += 1
            elif keep_right:
                put(hot, cold, count, right, row, slot, 1, width_right)
                mine = count
                count += 1

        matched = False
        if side == 1 or keep_right:
            chain = 2 - 2 * side
            if computes:
                if side == 0:
                    for k in range(width_left):
                        current[k] = left[FIRST + k, row]
                else:
                    for k in range(width_right):
                        current[k] = right[FIRST + k, row]
            limit = now - min(within, spec[S_REACH_LEFT] if side == 1 else spec[S_REACH_RIGHT])
            p = resumed
            if resumed < 0:
                expire(hot, chains, slot, chain, limit)
                # No left side that ends before `floor` fits: the relation leaves no longer gap, or, under NOT with a
                # key that the arrival knows, it is not free of the absent.
                gap_floor = begin - most_gap if side == 1 and most_gap < FOREVER else MISSING
                floor = gap_floor
                dropped = False
                if absence == ABSENT_COMMON or absence == ABSENT_RIGHT:
                    free = latest_start(absent_hot, absent_chains, right_absent[row], begin)
                    floor = max(floor, free)
                    dropped = point and absence == ABSENT_COMMON and not backward
                    if dropped:  # nor will one be for a later right side
                        expire(hot, chains, slot, chain, free)
                p = first_partner(hot, chains, slot, chain, backward, gap_floor if dropped else floor)
            resumed = -1
            best = -1
            while True:
                # The next partner that fits.
                fits = False
                while p >= 0:
                    end = hot[p, END]
                    if backward:
                        if end < limit or end < floor or (best >= 0 and end < hot[best, END]):
                            p = -1
                            break
                    else:
                        if (side == 1 and end > begin - least_gap) or (best >= 0 and end > hot[best, END]):
                            p = -1
                            break
                    if side == 1:
                        fits = relates(spec, S_BOUNDS, hot[p, BEGIN], end, begin, now)
                    else:
                        fits = relates(spec, S_BOUNDS, begin, now, hot[p, BEGIN], end)
                    start = min(begin, hot[p, BEGIN])
                    fits = fits and now - start <= within
                    if fits and absence >= ABSENT_LEFT:
                        where = cold[p, OTHER]
                        if absence == ABSENT_BOTH:
                            where = slot_of_both(absent_key, cold, p, right, row, key, absent_index, absent_keys)
                        fits = latest_start(absent_hot, absent_chains, where, begin) <= end
                    if fits and tested and policy != RECENT:
                        fits = (
                            run(
                                code, 0, code.shape[0], literals, stack, cold, p, HEADER, current, side == 1, start, now
                            )
                            == 1
                        )
                    if fits:
                        break
                    p = hot[p, PREVIOUS] if backward else hot[p, NEXT]
                chosen = -1
                if policy == UNRESTRICTED:
                    if p < 0:
                        break
                    full = made == pairs.shape[0] or (feedback and count == room)
                    if full:
                        resumed = p
                        break
                    chosen = p
                    p = hot[p, NEXT]
                elif p >= 0:
                    if best < 0 or better(longest, by_right if side == 0 else by_left, by_float, hot, cold, p, best):
                        best = p
                    p = hot[p, PREVIOUS] if backward else hot[p, NEXT]
                    continue
                else:
                    if best < 0:
                        break
                    chosen = best
                    if policy == CHRONOLOGICAL:
                        matched = True
                        unlink(hot, chains, slot, chain, best)

                start = min(begin, hot[chosen, BEGIN])
                if (
                    tested
                    and policy == RECENT
                    and run(
                        code, 0, code.shape[0], literals, stack, cold, chosen, HEADER, current, side == 1, start, now
                    )
                    != 1
                ):
                    break
                derived = -1
                if feedback and fed_back(
                    head, head_literals, head_ends, stack, hot, cold, count, chains, slot, chosen, current, start, now,
                    right[ORDER, row], new, width_left, supersedes, within,
                ):  # fmt: skip
                    derived = count
                    count += 1
                if not feedback or derived >= 0:
                    pairs[made, 0] = chosen if side == 1 else mine
                    pairs[made, 1] = mine if side == 1 else chosen
                    pairs[made, 2] = side
                    pairs[made, 3] = derived
                    made += 1
                if policy != UNRESTRICTED:
                    break
        if full:
            break
        if side == 0 or keep_right:
            if matched:
                hot[mine, NEXT] = GONE
            elif feedback:
                link_sorted(hot, cold, chains, slot, 0, mine)
            else:
                link(hot, chains, slot, 2 * side, mine)
            if supersedes and side == 0:
                supersede(hot, chains, slot, 0, within)
    while not full and x < n_absent:
        if absent_slots[x] >= 0:
            note_absent(absent_hot, absent_cold, absent_count, absent, x, absent_slots[x], absent_chains, point)
            absent_count += 1
        x += 1
    state[A_RESUME] = resumed
    state[A_SIDE] = side
    state[A_ROW] = row
    state[A_MINE] = mine
    state[A_FLOOR] = floor
    state[A_I] = i
    state[A_J] = j
    state[A_X] = x
    state[A_COUNT] = count
    state[A_ABSENT] = absent_count
    state[A_MADE] = made
    return not full
