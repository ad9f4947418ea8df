"""The kernel of inertia. At each instant, the transitions and the deadline of a key decide which value holds next."""

from __future__ import annotations

import numpy as np

from cep.core.fluents import BEFORE, BEGINS, ENDED_ALL, ENDS, HELD, INITIATED, SINCE_EVER, WHOLE
from cep.core.kernels import njit
from cep.core.nullable import MISSING
from cep.core.prefetch import prefetch
from cep.core.relation import END, IDENTITY, ORDER
from cep.core.time import END_OF_TIME
from cep.operators.goals.fluents.timers import drop_timer, put_timer
from cep.operators.goals.intrinsics import inside
from cep.operators.goals.keys import grow

# Columns of a key: 1 if a value holds, the value, its start, its deadline (or NEVER), name and order of its beginning;
HOLDS, VALUE, SINCE, DUE, NAME, ARRIVAL = range(6)
KEPT = 6
# and its place among the keys of the current instant, if it is one of them.
PLACE = KEPT
CELLS = KEPT + 1
# Columns of a key in the current instant: the key; the number of initiated values (2: several), the first, its name;
# marks that the current value is initiated again, that it ends, and that the initiated one is terminated; the order of
# arrival, and the name of what ends the value.
OF, STARTED, NEXT, NEXT_NAME, AGAIN, STOPS, CANCELLED, FIRST_ORDER, STOPPER = range(9)
AHEAD = 16
"""The number of rows by which prefetching is ahead of processing."""

NEVER = 2 * END_OF_TIME - 1

BY_TIME = MISSING
"""The order of arrival of rows that a deadline causes. The goal replaces it by an order that depends on the key."""

# Columns of a waiting deadline: time, order in which it was set, key.
WHEN, TURN, SLOT = range(3)

# Columns of a declared deadline: 1 if it is for one value only, that value; its duration; 1 if another value begins,
# that value; 1 if it is renewed; 1 if deadlines alone lead back to it, so that they never end.
D_ONE, D_VALUE, D_DURATION, D_NEXT, D_BECOMES, D_RENEWED, D_ENDLESS = range(7)
DEADLINE = 7

# Counts that a step changes: waiting deadlines, the order number of the next one, output rows.
S_HEAP, S_TURN, S_GIVEN = range(3)


@inside
def _deadline_of(deadlines, value):  # type: ignore[no-untyped-def]
    for d in range(deadlines.shape[0]):
        if deadlines[d, D_ONE] == 0 or deadlines[d, D_VALUE] == value:
            return d
    return -1


@inside
def touch(state, now, count, slot, order):  # type: ignore[no-untyped-def]
    """Add a key to the keys that change at the current instant. Return their number.

    A key is added only once. The key's cell PLACE may be left over from an earlier instant, so it is checked by
    `now[place, OF]` (Briggs, Torczon: An efficient representation for sparse sets, 1993).
    """
    place = state[slot, PLACE]
    if place < count and now[place, OF] == slot:
        return count
    state[slot, PLACE] = count
    now[count, OF] = slot
    now[count, STARTED] = 0
    now[count, NEXT_NAME] = 0
    now[count, AGAIN] = 0
    now[count, STOPS] = 0
    now[count, CANCELLED] = 0
    now[count, FIRST_ORDER] = order
    now[count, STOPPER] = 0
    return count + 1


@inside
def initiated(state, now, slot, value, name):  # type: ignore[no-untyped-def]
    """Initiate a value of a key at the current instant."""
    place = state[slot, PLACE]
    if now[place, STARTED] == 0:
        now[place, STARTED] = 1
        now[place, NEXT] = value
        now[place, NEXT_NAME] = name
    elif now[place, NEXT] != value:
        now[place, STARTED] = 2
    if state[slot, HOLDS]:
        if state[slot, VALUE] == value:
            now[place, AGAIN] = 1
        else:  # it ends the current value in any case
            now[place, STOPS] = 1
            if now[place, STOPPER] == 0:
                now[place, STOPPER] = name


@inside
def _give(told, count, start, end, order, name, other, slot, value, kind):  # type: ignore[no-untyped-def]
    told[count, 0] = start
    told[count, 1] = end
    told[count, 2] = order
    told[count, 3] = name
    told[count, 4] = other
    told[count, 5] = slot
    told[count, 6] = value
    told[count, 7] = kind


@inside
def pass_deadline(state, now, slot, deadlines):  # type: ignore[no-untyped-def]
    """Apply the deadline of a key, which passes at the current instant."""
    state[slot, DUE] = NEVER
    d = _deadline_of(deadlines, state[slot, VALUE])
    if deadlines[d, D_RENEWED] and now[state[slot, PLACE], AGAIN]:
        return
    if deadlines[d, D_NEXT]:
        initiated(state, now, slot, deadlines[d, D_BECOMES], 0)
    else:
        now[state[slot, PLACE], STOPS] = 1


@inside
def terminated(state, now, slot, every, value, name):  # type: ignore[no-untyped-def]
    """Terminate a value of a key, or all values if `every`, at the current instant.

    Call this function after all initiations of the same instant.
    """
    place = state[slot, PLACE]
    if state[slot, HOLDS] and (every or value == state[slot, VALUE]):
        now[place, STOPS] = 1
        if now[place, STOPPER] == 0:
            now[place, STOPPER] = name
    if now[place, STARTED] == 1 and (every or value == now[place, NEXT]):
        now[place, CANCELLED] = 1


@inside
def decide(state, keys, t, now, deadlines, wanted, told, count, number):  # type: ignore[no-untyped-def]
    """Decide which value of a key holds after the current instant, and append the output rows to `told`.

    - `t`: the place of the key among the `keys` of the instant.
    - `now`: the instant.
    - `number`: the number by which output rows refer to the key.

    At most three rows are appended, for which there must be room. Return the new number of rows, and the key's new
    deadline (NEVER: unchanged).
    """
    slot = keys[t, OF]
    order = keys[t, FIRST_ORDER]
    held = state[slot, HOLDS]
    if held and keys[t, STOPS]:
        value, since = state[slot, VALUE], state[slot, SINCE]
        name, other = state[slot, NAME], keys[t, STOPPER]
        if wanted[ENDS]:
            _give(told, count, now, now, order, name, other, number, value, ENDS)
            count += 1
        kind = HELD if since == SINCE_EVER else WHOLE
        if wanted[kind]:
            _give(told, count, since, now, order, name, other, number, value, kind)
            count += 1
        state[slot, HOLDS] = 0
        state[slot, DUE] = NEVER
    begins = keys[t, STARTED] == 1 and not keys[t, CANCELLED] and not keys[t, AGAIN]
    if begins:
        state[slot, HOLDS] = 1
        state[slot, VALUE] = keys[t, NEXT]
        state[slot, SINCE] = now
        state[slot, NAME] = keys[t, NEXT_NAME]
        state[slot, ARRIVAL] = order
        state[slot, DUE] = NEVER
        kind = BEFORE if now == SINCE_EVER else BEGINS
        if wanted[kind]:
            _give(told, count, now, now, order, state[slot, NAME], 0, number, state[slot, VALUE], kind)
            count += 1
    if state[slot, HOLDS] and now != SINCE_EVER and (begins or keys[t, AGAIN]):
        d = _deadline_of(deadlines, state[slot, VALUE])
        if d >= 0 and (begins or deadlines[d, D_RENEWED]):
            due = now + deadlines[d, D_DURATION]
            if due != state[slot, DUE]:
                state[slot, DUE] = due
                return count, due
    return count, NEVER


@njit()
def inertia(  # type: ignore[no-untyped-def]
    transitions, slots, value_row, kind_row, deadlines, wanted, watermark, latest, state, heap, counts, told
):
    """Process all instants up to the watermark. Return the output rows, in an array that may be larger than `told`.

    - `transitions`: sorted by end, none later than the watermark.
    - `latest`: the time up to which deadlines in a cycle are processed. In a cycle, each deadline starts the next one.
    - `state`: must have room for all slots. `heap`: must have room for one further deadline per transition.

    An output row is (start, end, order, two lineage handles, slot, value, kind). There are at most three rows per key
    and instant.
    """
    n = transitions.shape[1]
    keys = np.empty((n + counts[S_HEAP] + 1, STOPPER + 1), np.int64)
    i = 0
    while True:
        # drop deadlines of values that have ended or were renewed
        while counts[S_HEAP] > 0:
            slot = heap[0, SLOT]
            if state[slot, HOLDS] and state[slot, DUE] == heap[0, WHEN]:
                if heap[0, WHEN] > watermark or heap[0, WHEN] <= latest:
                    break
                if not deadlines[_deadline_of(deadlines, state[slot, VALUE]), D_ENDLESS]:
                    break
                state[slot, DUE] = NEVER
            counts[S_HEAP] = drop_timer(heap, counts[S_HEAP], True)
        now = NEVER
        if i < n:
            now = transitions[END, i]
        if counts[S_HEAP] > 0:
            now = min(now, heap[0, WHEN])
        if now == NEVER or (i == n and now > watermark):
            break
        first = i
        among = 0
        while i < n and transitions[END, i] == now:
            if i + AHEAD < n:
                prefetch(state, slots[i + AHEAD])
            slot = slots[i]
            among = touch(state, keys, among, slot, transitions[ORDER, i])
            if transitions[kind_row, i] == INITIATED:
                value = 0 if value_row < 0 else transitions[value_row, i]
                initiated(state, keys, slot, value, transitions[IDENTITY, i])
            i += 1
        while counts[S_HEAP] > 0 and heap[0, WHEN] == now:
            slot = heap[0, SLOT]
            counts[S_HEAP] = drop_timer(heap, counts[S_HEAP], True)
            if not state[slot, HOLDS] or state[slot, DUE] != now:
                continue
            if now > latest and deadlines[_deadline_of(deadlines, state[slot, VALUE]), D_ENDLESS]:
                state[slot, DUE] = NEVER
                continue
            among = touch(state, keys, among, slot, BY_TIME)
            pass_deadline(state, keys, slot, deadlines)
        for j in range(first, i):
            if transitions[kind_row, j] == INITIATED:
                continue
            every = transitions[kind_row, j] == ENDED_ALL
            value = 0 if value_row < 0 else transitions[value_row, j]
            terminated(state, keys, slots[j], every, value, transitions[IDENTITY, j])
        told = grow(told, counts[S_GIVEN] + 3 * among) if told.shape[0] < counts[S_GIVEN] + 3 * among else told
        for t in range(among):
            slot = keys[t, OF]
            counts[S_GIVEN], due = decide(state, keys, t, now, deadlines, wanted, told, counts[S_GIVEN], slot)
            if due != NEVER:
                put_timer(heap, counts[S_HEAP], due, counts[S_TURN], slot)
                counts[S_HEAP] += 1
                counts[S_TURN] += 1
    return told
