"""The partners of an arrival: where the search among those that wait begins, and which is the next that fits."""

from __future__ import annotations

import numpy as np

from cep.operators.goals.intrinsics import inside
from cep.operators.goals.keys import MISSING
from cep.operators.goals.pairs.absence import free_from, latest_start
from cep.operators.goals.pairs.bytecode import run
from cep.operators.goals.pairs.interval_kernels import relates
from cep.operators.goals.pairs.pair_input import ABSENT_COMMON, ABSENT_LEFT, ABSENT_RIGHT, RECENT, S_BOUNDS
from cep.operators.goals.pairs.partner_choice import expire, first_partner
from cep.operators.goals.store import BEGIN, END, FOREVER, HEADER


@inside
def reach(rule, arrival):  # type: ignore[no-untyped-def]
    """No partner of the arrival ends before this."""
    return arrival.now - min(rule.within, rule.reach_left if arrival.side == 1 else rule.reach_right)


@inside
def begin_search(rule, waiting, absences, arrival, absent_slot):  # type: ignore[no-untyped-def]
    """The first row to try (-1: none), and a floor: no left side that ends before it fits, as the relation leaves no
    longer gap, or, under NOT with a key that the arrival knows (`absent_slot`), as it is not free of the absent. What
    can be of no use any more leaves the chain."""
    hot, chains, slot, chain = waiting.hot, waiting.chains, arrival.slot, 2 - 2 * arrival.side
    expire(hot, chains, slot, chain, reach(rule, arrival))
    gap_floor = arrival.begin - rule.most_gap if arrival.side == 1 and rule.most_gap < FOREVER else MISSING
    floor = gap_floor
    dropped = False
    if rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT:
        free = latest_start(absences, absent_slot, arrival.begin)
        floor = max(floor, free)
        dropped = rule.point and rule.absence == ABSENT_COMMON and not rule.backward
        if dropped:  # nor will one be for a later right side
            expire(hot, chains, slot, chain, free)
    return first_partner(hot, chains, slot, chain, rule.backward, gap_floor if dropped else floor), floor


@inside
def holds(condition, cold, p, arrival, start):  # type: ignore[no-untyped-def]
    """Whether the condition holds of row `p` of the store and the arrival."""
    # As everywhere here: np.int64(0) is a number like others, while for a 0 numba compiles `run` once more.
    return (
        run(
            condition.code, np.int64(0), condition.code.shape[0], condition.literals, condition.stack,
            cold, p, HEADER, condition.current, arrival.side == 1, start, arrival.now,
        )
        == 1
    )  # fmt: skip


@inside
def next_partner(  # type: ignore[no-untyped-def]
    spec, rule, waiting, absences, absent_key, right, condition, arrival, p, best, limit, floor
):
    """From row `p` on the next that fits, and is no worse than `best` (-1: none yet) for its end; -1: there is none."""
    hot = waiting.hot
    cold = waiting.cold
    begin = arrival.begin
    now = arrival.now
    while p >= 0:
        end = hot[p, END]
        if rule.backward:
            if end < limit or end < floor or (best >= 0 and end < hot[best, END]):
                return -1
        elif (arrival.side == 1 and end > begin - rule.least_gap) or (best >= 0 and end > hot[best, END]):
            return -1
        if rule.only_gap:  # the floor sees to the longest one
            fits = end <= begin - rule.least_gap
        elif arrival.side == 1:
            fits = relates(spec, S_BOUNDS, hot[p, BEGIN], end, begin, now)
        else:
            fits = relates(spec, S_BOUNDS, begin, now, hot[p, BEGIN], end)
        start = min(begin, hot[p, BEGIN])
        fits = fits and now - start <= rule.within
        if fits and rule.absence >= ABSENT_LEFT:
            fits = free_from(rule.absence, absences, absent_key, cold, p, right, arrival.row, begin) <= end
        if fits and rule.tested and rule.policy != RECENT:
            fits = holds(condition, cold, p, arrival, start)
        if fits:
            return p
        p = hot[p, rule.onward]
    return -1
