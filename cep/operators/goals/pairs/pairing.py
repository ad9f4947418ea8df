"""The kernel of every binary goal: an arrival meets the partners that wait under its key.

Generic over the relation's bounds, policy, tie rule, WITHIN, absence and the feedback of a recursive rule, all of them
numbers in `spec`, so nothing is compiled for a rule. Which partners fit is in `partners`, NOT in `absence`, the choice
and the feedback in `partner_choice`.
"""

from __future__ import annotations

import numpy as np

from cep.core.relation import END as T_END
from cep.core.relation import FIRST, ORDER, START
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.pairs.absence import note_until
from cep.operators.goals.pairs.pair_input import (
    A_ABSENT,
    A_COUNT,
    A_FLOOR,
    A_I,
    A_J,
    A_MADE,
    A_MINE,
    A_RESUME,
    A_ROW,
    A_SIDE,
    A_X,
    ABSENT_COMMON,
    ABSENT_LEFT,
    ABSENT_RIGHT,
    CHRONOLOGICAL,
    NO_ABSENCE,
    RECENT,
    UNRESTRICTED,
    AbsentKey,
    DecidingCode,
    HeadCode,
    SideRows,
    TurnRow,
    Waiting,
    read_spec,
)
from cep.operators.goals.pairs.partner_choice import better, fed_back, left_is_next
from cep.operators.goals.pairs.partners import begin_search, holds, next_partner, reach
from cep.operators.goals.store import (
    BEGIN,
    FOREVER,
    GONE,
    NEXT,
    OTHER,
    ask_absent_ahead,
    ask_ahead,
    known,
    link,
    link_sorted,
    put,
    supersede,
    unlink,
)


@bare
def pair(  # type: ignore[no-untyped-def]
    spec, left, right, absent, waiting, absences, absent_key, condition, head, pairs, state
):
    """Arrivals of both sides in order, against what waits and each other. Gives whether all is done.

    `left`, `right`, `absent`: as SideRows; `waiting`, `absences`: as Waiting; the others as in `pair_input`; all are
    plain tuples, which a call hands over in half the time of named ones. With feedback, `left.absent` has
    the numbers of equal left sides, or nothing. A row of `pairs`
    is (left row, right row, completed by the right side, row derived): rows of the store, but the right one's place in
    the batch where right sides do not wait. `state` says how far it came (see A_I and so on): where there is no room
    for one more pair and one more row, the caller makes room and calls again. That is all that an arrival writes at
    once: it is put into the store itself, or (with feedback, on the right) what it makes is. Only under `unrestricted`
    it makes more, and there is room for each before it is made. The absent side has room for all.
    """
    left, right, absent = SideRows(*left), SideRows(*right), SideRows(*absent)
    waiting, absences, absent_key = Waiting(*waiting), Waiting(*absences), AbsentKey(*absent_key)
    condition, head = DecidingCode(*condition), HeadCode(*head)
    rule = read_spec(spec, condition.code)
    hot = waiting.hot
    cold = waiting.cold
    chains = waiting.chains
    n_left = left.table.shape[1]
    n_right = right.table.shape[1]
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
            side = 0 if left_is_next(left.table, right.table, i, j) else 1
            ask_for_next(rule, waiting, absences, left, right, i, j, side)
            row = j if side == 1 else i
            i += 1 - side
            j += side
        if side == 0:
            arrival = TurnRow(side, row, left.slots[row], left.table[START, row], left.table[T_END, row])
        else:
            arrival = TurnRow(side, row, right.slots[row], right.table[START, row], right.table[T_END, row])
        slot = arrival.slot

        if resumed < 0:
            if rule.absence != NO_ABSENCE:
                x, absent_count = note_until(absent, absences, x, absent_count, arrival.now, rule.point)
            if slot < 0:
                continue
            mine = row
            if side == 0:
                if (
                    rule.feedback
                    and (left.absent.shape[0] == 0 or left.absent[row] == 0)
                    and known(hot, cold, chains, slot, left.table, row, rule.width_left)
                ):
                    continue
                put(hot, cold, count, left.table, row, slot, 0, rule.width_left)
                if rule.absence == ABSENT_LEFT:
                    cold[count, OTHER] = left.absent[row]
                mine = count
                count += 1
            elif rule.keeps_right:
                put(hot, cold, count, right.table, row, slot, 1, rule.width_right)
                mine = count
                count += 1

        matched = False
        if side == 1 or rule.keeps_right:
            if rule.computes:
                read_arguments(rule, left.table, right.table, arrival, condition.current)
            p = resumed
            if resumed < 0:
                known_absent = rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT
                p, floor = begin_search(rule, waiting, absences, arrival, right.absent[row] if known_absent else -1)
            resumed = -1
            best = np.int64(-1)
            limit = reach(rule, arrival)
            while True:
                p = next_partner(
                    spec, rule, waiting, absences, absent_key, right.table, condition, arrival, p, best, limit, floor
                )
                chosen = p
                if rule.policy == UNRESTRICTED:
                    if p < 0:
                        break
                    full = made == pairs.shape[0] or (rule.feedback and count == room)
                    if full:
                        resumed = p
                        break
                    p = hot[p, NEXT]
                elif p >= 0:
                    by = rule.by_right if side == 0 else rule.by_left
                    if best < 0 or better(rule.longest, by, rule.by_float, hot, cold, p, best):
                        best = p
                    p = hot[p, rule.onward]
                    continue
                else:
                    if best < 0:
                        break
                    chosen = best
                    if rule.policy == CHRONOLOGICAL:
                        matched = True
                        unlink(hot, chains, slot, 2 - 2 * side, best)

                start = min(arrival.begin, hot[chosen, BEGIN])
                if rule.tested and rule.policy == RECENT and not holds(condition, cold, chosen, arrival, start):
                    break
                derived = -1
                if rule.feedback:
                    order = right.table[ORDER, row]
                    if fed_back(rule, head, waiting, condition, arrival, count, chosen, start, order):
                        derived = count
                        count += 1
                if not rule.feedback or derived >= 0:
                    pairs[made, 0] = chosen if side == 1 else mine
                    pairs[made, 1] = mine if side == 1 else chosen
                    pairs[made, 2] = side
                    pairs[made, 3] = derived
                    made += 1
                if rule.policy != UNRESTRICTED:
                    break
        if full:
            break
        if side == 0 or rule.keeps_right:
            if matched:
                hot[mine, NEXT] = GONE
            elif rule.feedback:
                link_sorted(hot, cold, chains, slot, 0, mine)
            else:
                link(hot, chains, slot, 2 * side, mine)
            if rule.supersedes and side == 0:
                supersede(hot, chains, slot, 0, rule.within, arrival.now)
    if not full and rule.absence != NO_ABSENCE:
        x, absent_count = note_until(absent, absences, x, absent_count, np.int64(FOREVER), rule.point)
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


@inside
def ask_for_next(rule, waiting, absences, left, right, i, j, side):  # type: ignore[no-untyped-def]
    """Ask for the memory that later arrivals of a side will need."""
    from_tail = 1 if rule.backward else 0
    hot, chains, keeps = waiting.hot, waiting.chains, rule.keeps_right
    if side == 0:
        ask_ahead(hot, chains, left.slots, i, True, rule.supersedes, 0, keeps, 2 + from_tail, rule.onward)
    else:
        ask_ahead(hot, chains, right.slots, j, keeps, False, 2, True, from_tail, rule.onward)
        if rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT:
            ask_absent_ahead(absences.hot, absences.chains, right.absent, j)


@inside
def read_arguments(rule, left, right, arrival, current):  # type: ignore[no-untyped-def]
    """The arguments of the arrival into `current`, which has room for those of either side."""
    if arrival.side == 0:
        for k in range(rule.width_left):
            current[k] = left[FIRST + k, arrival.row]
    else:
        for k in range(rule.width_right):
            current[k] = right[FIRST + k, arrival.row]
