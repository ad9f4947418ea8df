"""What the temporal operators do with changes, key by key: of each key some intervals of the result wait in a list.

Every operator makes of each interval of its input one of its result (of two inputs: of what they have in common), in
order. What touches is one. The last may have no end yet, as its input has none; what has been given in full goes. So a
key keeps what a reach back still needs, however many changes it had.
"""

from __future__ import annotations

from cep.core.interval_sets import INFINITE, dilated_end, dilated_start, eroded_end, eroded_start
from cep.core.prefetch import prefetch
from cep.core.temporal_operators import DILATE, ERODE, LAST, SINCE, UNTIL
from cep.operators.goals.fluents.timers import drop_timer, order_timers, put_timer
from cep.operators.goals.intrinsics import bare, inside

R_KIND, R_LOW, R_HIGH, R_LEAST, R_WIDTH = range(5)
"""A rule: what is done, displacements from low to high (negative: ahead), the least length in microseconds."""

FLAGS, HEAD, TAIL, WAITING, TIMER, OPENED, _, CELLS = range(8)
"""A key: what holds; the first and last of its intervals and how many there are; when it is next looked at (INFINITE:
never); since when the left holds, with its end."""
LEFT, RIGHT, OPEN, BEGUN, TOUCHED = 1, 2, 4, 8, 16
"""The left holds, the right does; the last interval has no end yet; the beginning of the first was given; within a
step, that the key is looked at."""
AHEAD = 16
"""Changes: so far ahead the state of a key is asked for."""

P_START, P_END, P_NEXT, P_BEFORE, P_WIDTH = range(5)
"""An interval of the pool."""
C_USED, C_FREE, C_TIMERS, C_GIVEN, C_WIDTH = range(5)
"""How many rows of the pool were ever used, the first free one, how many timers, how many changes were given."""


@inside
def _add(state, pool, counts, key, start):  # type: ignore[no-untyped-def]
    """The key's last interval from now on, without an end, starts there; what it touches is one with it."""
    state[key, FLAGS] |= OPEN
    tail = state[key, TAIL]
    if tail >= 0 and start <= pool[tail, P_END] + 1:
        pool[tail, P_END] = INFINITE
        return
    row = counts[C_FREE]
    if row >= 0:
        counts[C_FREE] = pool[row, P_NEXT]
    else:
        row = counts[C_USED]
        counts[C_USED] += 1
    pool[row, P_START] = start
    pool[row, P_END] = INFINITE
    pool[row, P_NEXT] = -1
    pool[row, P_BEFORE] = tail
    if tail >= 0:
        pool[tail, P_NEXT] = row
    else:
        state[key, HEAD] = row
    state[key, TAIL] = row
    state[key, WAITING] += 1


@inside
def _remove(state, pool, counts, key, row):  # type: ignore[no-untyped-def]
    """One of the key's intervals, the first or the last, goes."""
    following, before = pool[row, P_NEXT], pool[row, P_BEFORE]
    if before >= 0:
        pool[before, P_NEXT] = following
    else:
        state[key, HEAD] = following
    if following >= 0:
        pool[following, P_BEFORE] = before
    else:
        state[key, TAIL] = before
    pool[row, P_NEXT] = counts[C_FREE]
    counts[C_FREE] = row
    state[key, WAITING] -= 1


@inside
def _end(state, pool, counts, key, end, least):  # type: ignore[no-untyped-def]
    """The key's last interval ends there; one that is none, or too short, goes."""
    state[key, FLAGS] &= ~OPEN
    tail = state[key, TAIL]
    start = pool[tail, P_START]
    short = start > -INFINITE and end < INFINITE and ((end + 1) >> 1) - (start >> 1) < least
    if start > end or short:
        _remove(state, pool, counts, key, tail)
    else:
        pool[tail, P_END] = end


@inside
def _alone(state, pool, counts, key, code, begins, rule):  # type: ignore[no-untyped-def]
    """A change of the only input."""
    kind, low, high = rule[R_KIND], rule[R_LOW], rule[R_HIGH]
    if begins:
        if kind == DILATE:
            _add(state, pool, counts, key, dilated_start(code, low))
        elif kind == ERODE:
            start = eroded_start(code, high)
            if start < INFINITE:
                _add(state, pool, counts, key, start)
        else:
            _add(state, pool, counts, key, code)
    elif state[key, FLAGS] & OPEN:
        end = code - 1
        if kind == DILATE:
            end = dilated_end(end, high)
        elif kind == ERODE:
            end = eroded_end(end, low)
        _end(state, pool, counts, key, end, rule[R_LEAST])


@inside
def _right(state, pool, counts, key, code, begins, rule):  # type: ignore[no-untyped-def]
    """A change of the right of SINCE and UNTIL. With a displacement of nothing it counts wherever it holds."""
    kind, low, high = rule[R_KIND], rule[R_LOW], rule[R_HIGH]
    held = state[key, FLAGS] & LEFT
    if begins:
        state[key, FLAGS] |= RIGHT
        if held and kind == SINCE:
            _add(state, pool, counts, key, dilated_start(code, low))
        elif held:
            _add(state, pool, counts, key, max(dilated_start(code, low), state[key, OPENED]))
        elif (low == 0 and kind == SINCE) or (high == 0 and kind == UNTIL):
            _add(state, pool, counts, key, code)
    else:
        state[key, FLAGS] &= ~RIGHT
        if state[key, FLAGS] & OPEN:
            _end(state, pool, counts, key, dilated_end(code - 1, high) if held else code - 1, 0)


@inside
def _left(state, pool, counts, key, code, begins, rule):  # type: ignore[no-untyped-def]
    """A change of the left of SINCE and UNTIL, which need not hold at its ends: there, too, the right may have held."""
    kind, low, high = rule[R_KIND], rule[R_LOW], rule[R_HIGH]
    here = (low == 0 and kind == SINCE) or (high == 0 and kind == UNTIL)
    if begins:
        state[key, FLAGS] |= LEFT
        opened = code if code == -INFINITE else code - (code & 1)
        state[key, OPENED] = opened
        if state[key, FLAGS] & RIGHT and not here:
            _add(state, pool, counts, key, dilated_start(opened, low) if kind == SINCE else opened)
        return
    state[key, FLAGS] &= ~LEFT
    state[key, OPENED] = 0
    if here and state[key, FLAGS] & RIGHT:
        return
    closed = code - (code & 1)
    if state[key, FLAGS] & OPEN:
        _end(state, pool, counts, key, closed if kind == SINCE else dilated_end(closed, high), 0)
    while state[key, TAIL] >= 0 and pool[state[key, TAIL], P_START] > closed:
        _remove(state, pool, counts, key, state[key, TAIL])
    if state[key, TAIL] >= 0:
        pool[state[key, TAIL], P_END] = min(pool[state[key, TAIL], P_END], closed)


@inside
def _next(state, pool, key):  # type: ignore[no-untyped-def]
    """The code at which the key's result changes next, as far as is known; INFINITE: never."""
    head = state[key, HEAD]
    if head < 0:
        return INFINITE
    if not state[key, FLAGS] & BEGUN:
        return pool[head, P_START]
    return INFINITE if pool[head, P_END] == INFINITE else pool[head, P_END] + 1


@inside
def _give(state, pool, counts, key, until, keys, codes, begins):  # type: ignore[no-untyped-def]
    """The changes of a key's result up to a code."""
    given = counts[C_GIVEN]
    while True:
        code = _next(state, pool, key)
        if code > until or code == INFINITE:
            break
        begun = state[key, FLAGS] & BEGUN
        keys[given], codes[given], begins[given] = key, code, 0 if begun else 1
        given += 1
        state[key, FLAGS] ^= BEGUN
        if begun:
            _remove(state, pool, counts, key, state[key, HEAD])
    counts[C_GIVEN] = given
    return code


@bare
def due_keys(state, pool, heap, counts, until, due):  # type: ignore[no-untyped-def]
    """The keys whose result changes up to a code, in no order, into `due`, which has a place for each timer; gives how
    many. Their timers go.

    One by one they are taken off the heap; where they are many of all timers, all are looked at instead.
    """
    found = left = 0
    fewest = counts[C_TIMERS] - (counts[C_TIMERS] >> 4) - 16
    while counts[C_TIMERS] > max(fewest, 0) and heap[0, 0] <= until:
        code, key = heap[0, 0], heap[0, 1]
        counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
        following = _due(state, pool, code, key, until)
        if following <= until:
            due[found] = key
            found += 1
        elif following < INFINITE:  # one has gone for it
            put_timer(heap, counts[C_TIMERS], following, key)
            counts[C_TIMERS] += 1
    if counts[C_TIMERS] > 0 and heap[0, 0] <= until:
        for i in range(counts[C_TIMERS]):
            following, key = heap[i, 0], heap[i, 1]
            if following <= until:
                following = _due(state, pool, following, key, until)
            if following <= until:
                due[found] = key
                found += 1
            elif following < INFINITE:  # no further on than where it was
                heap[left, 0], heap[left, 1] = following, key
                left += 1
        counts[C_TIMERS] = left
        order_timers(heap, left)
    return found


@inside
def _due(state, pool, code, key, until):  # type: ignore[no-untyped-def]
    """Of a timer that goes: when the key's result changes next; INFINITE: it was not the key's, or that is never. What
    is not due yet waits for then."""
    if state[key, TIMER] != code:
        return INFINITE
    following = _next(state, pool, key)
    state[key, TIMER] = INFINITE if following <= until else following
    return following


@bare
def next_due(state, pool, heap, counts):  # type: ignore[no-untyped-def]
    """When time alone changes a result next; INFINITE: never."""
    while counts[C_TIMERS] > 0:
        code, key = heap[0, 0], heap[0, 1]
        if state[key, TIMER] == code:
            following = _next(state, pool, key)
            if following == code:
                return code
            state[key, TIMER] = following
            counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
            if following < INFINITE:  # one has gone for it
                put_timer(heap, counts[C_TIMERS], following, key)
                counts[C_TIMERS] += 1
        else:
            counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
    return INFINITE


@bare
def intervals_kept(state, pool, keys, out):  # type: ignore[no-untyped-def]
    """The intervals of some keys, key by key in order, into `out`, which has a row for each."""
    count = 0
    for i in range(len(keys)):
        row = state[keys[i], HEAD]
        while row >= 0:
            out[count, P_START], out[count, P_END] = pool[row, P_START], pool[row, P_END]
            count += 1
            row = pool[row, P_NEXT]


@bare
def keep_intervals(state, pool, heap, counts, keys, rows):  # type: ignore[no-untyped-def]
    """The intervals of keys that have none yet, WAITING each, as `intervals_kept` gives them, and a timer for each key:
    the pool has room for as many rows more, the heap for as many timers."""
    row = 0
    for i in range(len(keys)):
        key = keys[i]
        flags, number = state[key, FLAGS], state[key, WAITING]
        state[key, WAITING] = 0
        for _ in range(number):
            _add(state, pool, counts, key, rows[row, P_START])
            pool[state[key, TAIL], P_END] = rows[row, P_END]
            row += 1
        state[key, FLAGS] = flags
        state[key, TIMER] = _next(state, pool, key)
        if state[key, TIMER] < INFINITE:
            put_timer(heap, counts[C_TIMERS], state[key, TIMER], key)
            counts[C_TIMERS] += 1


@inside
def _known(rule, code):  # type: ignore[no-untyped-def]
    """Up to where the result is decided when the inputs are up to just before a code."""
    low = rule[R_LOW]
    if rule[R_KIND] == LAST:
        return min(2 * ((code >> 1) - rule[R_LEAST]) + 1, code - 1)
    known = -INFINITE - 1 if low == -INFINITE else code + low - (code & low & 1) - 1
    return min(known, code - 1) if rule[R_KIND] >= SINCE else known


@bare
def touch(state, keys, touched, count, room):  # type: ignore[no-untyped-def]
    """Puts those of the keys that are not there yet behind the first `count` of `touched`, which has a place for each;
    gives how many they are then, and `room` with two changes more for each interval that waits of those."""
    for i in range(len(keys)):
        if i + AHEAD < len(keys):
            prefetch(state, keys[i + AHEAD])
        key = keys[i]
        if not state[key, FLAGS] & TOUCHED:
            state[key, FLAGS] |= TOUCHED
            touched[count] = key
            count += 1
            room += 2 * state[key, WAITING]
    return count, room


@bare
def advance(  # type: ignore[no-untyped-def]
    rule, left_key, left_code, left_begins, right_key, right_code, right_begins, touched, until, state,
    pool, counts, heap, keys, codes, begins,
):  # fmt: skip
    """Takes changes, sorted by code, and puts those of the result up to `until`, in no order, into `keys`, `codes` and
    `begins`; gives how many. `touched`: the keys of the changes and those that are due, each once and so marked.

    Of equal codes that of the right goes first at a point, that of the left in a gap: so what holds between two points
    holds with its ends, where the right may have held. Before a change is taken what it leaves as it is is given.
    `pool` has room for an interval more a change, `heap` for a timer more a key of `touched`. There is room for all
    changes that are made: two at most for each interval that waited (`touch`) and for each that begins.
    """
    n, m = len(left_key), len(right_key)
    two = rule[R_KIND] >= SINCE
    i = j = 0
    counts[C_GIVEN] = 0
    while i < n or j < m:
        first = j == m
        if i < n and not first:
            first = left_code[i] < right_code[j] or (left_code[i] == right_code[j] and left_code[i] & 1)
        if first:
            if i + AHEAD < n:
                prefetch(state, left_key[i + AHEAD])
                prefetch(pool, state[left_key[i + AHEAD // 2], HEAD])
            key, code, begun = left_key[i], left_code[i], left_begins[i]
            i += 1
        else:
            if j + AHEAD < m:
                prefetch(state, right_key[j + AHEAD])
                prefetch(pool, state[right_key[j + AHEAD // 2], HEAD])
            key, code, begun = right_key[j], right_code[j], right_begins[j]
            j += 1
        if state[key, HEAD] >= 0:
            _give(state, pool, counts, key, min(until, _known(rule, code)), keys, codes, begins)
        if not first:
            _right(state, pool, counts, key, code, begun, rule)
        elif two:
            _left(state, pool, counts, key, code, begun, rule)
        else:
            _alone(state, pool, counts, key, code, begun, rule)
    for t in range(len(touched)):
        if t + AHEAD < len(touched):
            prefetch(state, touched[t + AHEAD])
            prefetch(pool, state[touched[t + AHEAD // 2], HEAD])
        key = touched[t]
        state[key, FLAGS] &= ~TOUCHED
        following = _give(state, pool, counts, key, until, keys, codes, begins)
        if following < state[key, TIMER]:
            state[key, TIMER] = following
            put_timer(heap, counts[C_TIMERS], following, key)
            counts[C_TIMERS] += 1
    return counts[C_GIVEN]
