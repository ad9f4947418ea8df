"""Kernels of the temporal operators.

Each key has a list of result intervals that are not complete yet. An operator turns each interval of its input into one
interval of its result, in order. An operator that has two inputs does so with the intervals of their intersection.
Intervals that touch are joined. As long as the last input interval has no end, the last result interval has none.

Intervals that have been output in full are dropped. So a key only stores the intervals that the operator can still
reach in the past, however often the key has changed.

Times are time codes: see `cep.core.interval_sets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cep.core.array_capacity import roomy
from cep.core.interval_sets import (
    INFINITE,
    Intervals,
    Reach,
    dilated_end,
    dilated_start,
    eroded_end,
    eroded_start,
    first_reached,
    reach,
)
from cep.core.metric_operators import DILATE, ERODE, LAST, SINCE, TEMPORAL, UNTIL
from cep.core.prefetch import prefetch
from cep.operators.goals.contract import Bools, Ints
from cep.operators.goals.fluents.changes import Changes, by_code, changes_against, no_changes, stretch_of
from cep.operators.goals.fluents.timers import drop_timer, order_timers, put_timer
from cep.operators.goals.intrinsics import bare, inside

R_KIND, R_LOW, R_HIGH, R_LEAST, R_WIDTH = range(5)
"""Fields of the array `rule`: the operator, its least and greatest displacement (negative: ahead), and the least
length."""

FLAGS, HEAD, TAIL, WAITING, TIMER, OPENED, _, CELLS = range(8)
"""Columns of a key's state.

- FLAGS: see below.
- HEAD, TAIL, WAITING: the first and the last interval, and the number of intervals.
- TIMER: the time code at which the key is next checked (INFINITE: never).
- OPENED: the code from which the left operand holds. If the operand begins just after an instant, this is the code of
  the instant.
"""
LEFT, RIGHT, OPEN, BEGUN, TOUCHED = 1, 2, 4, 8, 16
"""Flags of a key. LEFT, RIGHT: this operand holds. OPEN: the last interval has no end yet. BEGUN: the beginning of the
first interval was output. TOUCHED: the key is in the current step."""
AHEAD = 16
"""The number of changes by which prefetching is ahead of processing."""

P_START, P_END, P_NEXT, P_BEFORE, P_WIDTH = range(5)
"""Columns of the pool of intervals, with one row per interval."""
C_USED, C_FREE, C_TIMERS, C_GIVEN, C_WIDTH = range(5)
"""Places of counts in an array: the pool rows that were ever used, the first free pool row, the timers, and the changes
that were output."""


@inside
def _add(state, pool, counts, key, start):  # type: ignore[no-untyped-def]
    """Append an interval without an end to a key. If it touches the key's last interval, extend that instead."""
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
    """Remove the interval in pool row `row` from its key."""
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
    """Process a change of the input of an operator that has one input."""
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
    """Process a change of the right operand of SINCE or UNTIL.

    If the reach includes 0, the result holds wherever the right operand holds.
    """
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
    """Process a change of the left operand of SINCE or UNTIL.

    This operand only has to hold between the time of the right operand and the time of the result, both excluded.
    """
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
    """Return the time code at which the key's result changes next, as far as it is known, or INFINITE."""
    head = state[key, HEAD]
    if head < 0:
        return INFINITE
    if not state[key, FLAGS] & BEGUN:
        return pool[head, P_START]
    return INFINITE if pool[head, P_END] == INFINITE else pool[head, P_END] + 1


@inside
def _give(state, pool, counts, key, until, keys, codes, begins):  # type: ignore[no-untyped-def]
    """Output the changes of a key's result up to the code `until`. Return the code of the next change."""
    place = counts[C_GIVEN]
    while True:
        code = _next(state, pool, key)
        if code > until or code == INFINITE:
            break
        begun = state[key, FLAGS] & BEGUN
        keys[place], codes[place], begins[place] = key, code, 0 if begun else 1
        place += 1
        state[key, FLAGS] ^= BEGUN
        if begun:
            _remove(state, pool, counts, key, state[key, HEAD])
    counts[C_GIVEN] = place
    return code


@bare
def due_keys(state, pool, heap, counts, until, due):  # type: ignore[no-untyped-def]
    """Find the keys whose result changes up to the code `until`. Write them into `due`, and return their number.

    Their timers are removed. `due` must have room for one key per timer, and is not sorted. Timers are taken off the
    heap one by one. If many have expired, the kernel scans all timers instead.
    """
    count = left = 0
    fewest = counts[C_TIMERS] - (counts[C_TIMERS] >> 4) - 16
    while counts[C_TIMERS] > max(fewest, 0) and heap[0, 0] <= until:
        code, key = heap[0, 0], heap[0, 1]
        counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
        following = _due(state, pool, code, key, until)
        if following <= until:
            due[count] = key
            count += 1
        elif following < INFINITE:  # replace the dropped timer
            put_timer(heap, counts[C_TIMERS], following, key)
            counts[C_TIMERS] += 1
    if counts[C_TIMERS] > 0 and heap[0, 0] <= until:
        for i in range(counts[C_TIMERS]):
            following, key = heap[i, 0], heap[i, 1]
            if following <= until:
                following = _due(state, pool, following, key, until)
            if following <= until:
                due[count] = key
                count += 1
            elif following < INFINITE:  # never moved further back than it was
                heap[left, 0], heap[left, 1] = following, key
                left += 1
        counts[C_TIMERS] = left
        order_timers(heap, left)
    return count


@inside
def _due(state, pool, code, key, until):  # type: ignore[no-untyped-def]
    """Return the time code at which the key of an expired timer next changes.

    The result is INFINITE if the timer was out of date, or if the key's result does not change again. If the change is
    after `until`, the key keeps a timer for it.
    """
    if state[key, TIMER] != code:
        return INFINITE
    following = _next(state, pool, key)
    state[key, TIMER] = INFINITE if following <= until else following
    return following


@bare
def next_due(state, pool, heap, counts):  # type: ignore[no-untyped-def]
    """Return the next code at which the passing of time changes a result, or INFINITE."""
    while counts[C_TIMERS] > 0:
        code, key = heap[0, 0], heap[0, 1]
        if state[key, TIMER] == code:
            following = _next(state, pool, key)
            if following == code:
                return code
            state[key, TIMER] = following
            counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
            if following < INFINITE:  # replace the dropped timer
                put_timer(heap, counts[C_TIMERS], following, key)
                counts[C_TIMERS] += 1
        else:
            counts[C_TIMERS] = drop_timer(heap, counts[C_TIMERS])
    return INFINITE


@bare
def intervals_kept(state, pool, keys, out):  # type: ignore[no-untyped-def]
    """Write the intervals of these keys into `out`, sorted by key, then by time."""
    count = 0
    for i in range(len(keys)):
        row = state[keys[i], HEAD]
        while row >= 0:
            out[count, P_START], out[count, P_END] = pool[row, P_START], pool[row, P_END]
            count += 1
            row = pool[row, P_NEXT]


@bare
def keep_intervals(state, pool, heap, counts, keys, rows):  # type: ignore[no-untyped-def]
    """Load intervals of keys, in the form that `intervals_kept` writes, and set a timer for each key.

    The keys must have no intervals. `state[key, WAITING]` is the number of intervals that each key gets. The pool and
    the heap must have room.
    """
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
    """Return the code up to which the result is decided, if the inputs are decided up to just before `code`."""
    low = rule[R_LOW]
    if rule[R_KIND] == LAST:
        return min(2 * ((code >> 1) - rule[R_LEAST]) + 1, code - 1)
    known = -INFINITE - 1 if low == -INFINITE else code + low - (code & low & 1) - 1
    return min(known, code - 1) if rule[R_KIND] >= SINCE else known


@bare
def touch(state, keys, touched, count, room):  # type: ignore[no-untyped-def]
    """Append the keys to `touched`, except those that it already contains. Return the new count of keys.

    Also return `room`, the number of output changes that need room, increased by two for each stored interval of the
    appended keys.
    """
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
    """Process input changes, and output changes of the result up to the code `until`, unsorted. Return their count.

    - `left_key`, `left_code`, `left_begins` and the same for `right`: the changes of both inputs, sorted by code.
    - `touched`: all keys that have changes or expired timers, each once.
    - `pool`: must have room for one interval per change. `heap`: must have room for one timer per key of `touched`.
    - `keys`, `codes`, `begins`: the output. They need room for two changes per interval that was stored (`touch`) or
      begins.

    A change of the result is output as soon as no further input change can affect it.

    Changes that have the same code are processed in this order: if the code is an instant, the right operand comes
    first; if it is a gap, the left operand comes first. So a left operand that holds between two instants includes both
    instants, at which the right operand may hold.
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


BEFORE_ALL = -INFINITE - 1
"""The code up to which inputs are decided at the start, when nothing has arrived. It is before all times."""

Arrays = dict[str, Ints]


class TemporalEvaluation:
    """The evaluation of one temporal operator.

    - `operator`: its name in TEMPORAL. SINCE and UNTIL have two inputs, in the order in which they are written.
    - `by`: the displacements that are written in the operator's brackets (see `interval_sets.reach`). They are never
      negative, even if the operator looks ahead.
    - `least`: for LASTING, the minimum length of an interval in microseconds.
    - `decided`, `given`: the codes up to which the inputs and the result are decided.
    """

    __slots__ = ("_by", "_counts", "_heap", "_pool", "_rule", "_state", "_watched", "decided", "given", "inputs")

    def __init__(self, operator: str, by: Reach | None = None, least: int = 0) -> None:
        row = TEMPORAL[operator]
        kind, ahead, self.inputs = row.kernel, row.ahead, row.inputs
        by = reach(0) if by is None else by
        assert by.low >= 0, "a reach is written with displacements from 0 on"
        self._by = by.mirrored if ahead else by
        self._rule: Ints = np.array([kind, self._by.low, self._by.high, least if kind == LAST else 0], np.int64)
        assert len(self._rule) == R_WIDTH
        self._clear()

    def _clear(self) -> None:
        self.decided = self.given = BEFORE_ALL
        self._state: Ints = np.empty((0, CELLS), np.int64)
        self._pool: Ints = np.empty((0, P_WIDTH), np.int64)
        self._heap: Ints = np.empty((0, 2), np.int64)
        self._counts: Ints = np.zeros(C_WIDTH, np.int64)
        self._counts[C_FREE] = -1
        self._watched = 1024

    def step(self, inputs: Sequence[Changes], decided: int, until: int | None = None) -> tuple[Changes, int]:
        """Return the changes of the result that are newly decided, and the code up to which they are decided.

        - `inputs`: for each input, its changes after the last step and up to the code `decided`.
        - `decided`: INFINITE if the inputs never change again.
        - `until`: the code up to which to return the result, by default `decided`. This code may be later than
          `decided`: the result of `ONCE[1 s, 1 s]` is known a second ahead.
        """
        assert len(inputs) == self.inputs and decided >= self.decided, "inputs go on"
        self.decided = decided
        self.given = max(self.given, min(self._known(decided), decided if until is None else until))
        left, right = inputs[0], inputs[-1] if self.inputs == 2 else no_changes()
        due: Ints = np.empty(int(self._counts[C_TIMERS]), np.int64)
        due = due[: due_keys(self._state, self._pool, self._heap, self._counts, self.given, due)]
        some = len(left.key) + len(right.key)
        if not some and not len(due):
            return no_changes(), self.given
        self._reserve(max((int(keys.max()) + 1 for keys in (left.key, right.key) if len(keys)), default=0), some)
        touched: Ints = np.empty(some + len(due), np.int64)
        count, room = 0, 2 * int(left.begins.sum() + right.begins.sum())
        for keys in (due, left.key, right.key):
            count, room = touch(self._state, keys, touched, count, room)
        self._heap = _grown(self._heap, int(self._counts[C_TIMERS]), count)
        changes: Ints = np.empty((3, room), np.int64)
        changed = advance(
            self._rule, *left, *right, touched[:count], self.given, self._state, self._pool, self._counts, self._heap,
            *changes,
        )  # fmt: skip
        if self._counts[C_TIMERS] > self._watched:
            self._sweep()
        return by_code(*changes[:, :changed]), self.given

    def close(self, end: int = INFINITE) -> tuple[Changes, int]:
        """Return the changes of the result up to the code `end`, if the inputs never change again."""
        return self.step([no_changes()] * self.inputs, INFINITE, end)

    def due(self) -> int | None:
        """Return the code up to which the inputs must be decided so that the next change of the result is known.

        It is assumed that the inputs do not change. Returns None if the result does not change either, or if its change
        is known only at the end of the input.
        """
        code = int(next_due(self._state, self._pool, self._heap, self._counts))
        if code == INFINITE or self._known(INFINITE - 1) < code:
            return None
        back = 2 * int(self._rule[R_LEAST]) if self._rule[R_KIND] == LAST else -min(self._by.low, 0)
        return next(d for d in range(max(code, code + back - 2), code + back + 3) if self._known(d) >= code)

    def to_come(self) -> tuple[Ints, Ints, Ints]:
        """For an operator that looks back, return the results that will begin even if the inputs do not change.

        The result is three arrays: the key of each result, the time of the input that causes it, and the time at which
        it begins.
        """
        kept = self.snapshot()
        count = kept["cells"][:, 2]
        key = np.repeat(kept["key"], count)
        start, end = kept["intervals"].T
        first = np.cumsum(count) - count
        begun = np.zeros(len(key), np.bool_)
        begun[first[count > 0]] = self._state[kept["key"][count > 0], FLAGS] & BEGUN != 0
        if self._rule[R_KIND] == LAST:
            later, since = start + 2 * int(self._rule[R_LEAST]), start
        else:
            later, since = start, start - int(self._rule[R_HIGH if self._rule[R_KIND] == ERODE else R_LOW])
        come = ~begun & (start > -INFINITE) & (later > self.given) & (later < INFINITE) & (later <= end)
        key, since, later = key[come], since[come], later[come]
        return key, since >> 1, later >> 1

    def begun(self) -> Ints:
        """Return the keys whose result holds, according to the changes that were output."""
        return np.flatnonzero(self._state[:, FLAGS] & BEGUN)

    def changing(self, until: int) -> Ints:
        """Return the keys whose result changes up to the code `until`, in ascending order, assuming that the inputs do
        not change."""
        return np.flatnonzero(self._state[:, TIMER] <= until)

    def holding(self, keys: Ints, side: int | None = None) -> Bools:
        """Return a mask of the keys for which the result holds, according to the changes that were output.

        `side`: test the input with this number instead of the result.
        """
        held = np.zeros(len(keys), np.bool_)
        known = keys < len(self._state)
        flag = BEGUN if side is None else (LEFT, RIGHT)[side] if self.inputs == 2 else OPEN
        held[known] = self._state[keys[known], FLAGS] & flag != 0
        return held

    def next_change(self) -> int:
        """Return the time code at which the result next changes if the inputs stay the same. It is INFINITE if the
        result does not change."""
        return int(next_due(self._state, self._pool, self._heap, self._counts))

    def ahead(self, keys: Ints, inputs: Sequence[Intervals], first: int, last: int) -> Intervals:
        """Return the result of these keys in a stretch of time, without changing the state.

        - `keys`: the keys, in ascending order. The result refers to them by their index.
        - `inputs`: the intervals of each input in the stretch, sorted by key. Earlier input is in the state.
        - `first`, `last`: the first and the last time code of the stretch.
        """
        known = keys[keys < len(self._state)]
        flags = np.zeros(len(keys), np.int64)
        flags[: len(known)] = self._state[known, FLAGS]
        kept = self.snapshot(known[(flags[: len(known)] != 0) | (self._state[known, HEAD] >= 0)])
        other = TemporalEvaluation.of(self)
        other.restore(kept | {"key": np.searchsorted(keys, kept["key"])})
        sides = [LEFT, RIGHT] if self.inputs == 2 else [OPEN]
        changes = []
        for held, side in zip(inputs, sides, strict=True):
            placed = held._replace(key=np.searchsorted(keys, held.key))
            changes.append(changes_against(placed, np.flatnonzero(flags & side), first, last))
        stepped, _ = other.step(changes, last)
        return stretch_of(stepped, np.flatnonzero(flags & BEGUN), first, last)

    @classmethod
    def of(cls, other: TemporalEvaluation) -> TemporalEvaluation:
        """Return an evaluation of the same operator with an empty state."""
        evaluation = cls.__new__(cls)
        evaluation._by, evaluation._rule, evaluation.inputs = other._by, other._rule, other.inputs
        evaluation._clear()
        return evaluation

    def _known(self, decided: int) -> int:
        if decided >= INFINITE:
            return INFINITE
        if self._rule[R_KIND] == LAST:
            return min(2 * (((decided + 1) >> 1) - int(self._rule[R_LEAST])) + 1, decided)
        known = first_reached(decided + 1, self._by) - 1
        return min(known, decided) if self.inputs == 2 else known

    # --- what is kept ---

    @property
    def rows(self) -> int:
        """Return the number of stored intervals plus the number of keys that have state."""
        kept = self.kept()
        return int(self._state[kept, WAITING].sum()) + len(kept)

    @property
    def nbytes(self) -> int:
        return self._state.nbytes + self._pool.nbytes + self._heap.nbytes

    def kept(self) -> Ints:
        """Return the keys that have state, in ascending order."""
        return np.flatnonzero((self._state[:, FLAGS] != 0) | (self._state[:, HEAD] >= 0))

    def snapshot(self, keys: Ints | None = None) -> Arrays:
        """Return the state of `keys`, or of all keys, as these arrays:

        - `key`: the keys.
        - `cells`: a row for each key; its last cell is the number of the key's intervals.
        - `intervals`: the intervals of all keys, sorted by key.
        - `decided`: the codes up to which the inputs and the result are decided.
        """
        chosen = self.kept() if keys is None else keys
        intervals = np.empty((int(self._state[chosen, WAITING].sum()), 2), np.int64)
        intervals_kept(self._state, self._pool, chosen, intervals)
        return {
            "key": chosen,
            "cells": self._state[chosen][:, [FLAGS, OPENED, WAITING]],
            "intervals": intervals,
            "decided": np.array([self.decided, self.given], np.int64),
        }

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Replace the state by a result of `snapshot`, in which keys may have been renumbered."""
        self._clear()
        self.decided, self.given = state["decided"].tolist()
        self.add(state)

    def add(self, state: Mapping[str, Ints]) -> None:
        """Add the keys in a result of `snapshot`. None of them may have state already."""
        key, cells = state["key"], state["cells"]
        if not len(key):
            return
        self._reserve(int(key.max()) + 1, len(state["intervals"]))
        self._heap = _grown(self._heap, int(self._counts[C_TIMERS]), len(key))
        self._state[key[:, None], [FLAGS, OPENED, WAITING]] = cells
        keep_intervals(self._state, self._pool, self._heap, self._counts, key, state["intervals"])

    def drop(self, keys: Ints) -> None:
        left = np.setdiff1d(self.kept(), keys)
        self.restore(self.snapshot(left))

    def _reserve(self, keys: int, intervals: int) -> None:
        if keys > len(self._state):
            fresh: Ints = np.zeros((roomy(keys, 2 * len(self._state)), CELLS), np.int64)
            fresh[:, [HEAD, TAIL]], fresh[:, TIMER] = -1, INFINITE
            fresh[: len(self._state)] = self._state
            self._state = fresh
        self._pool = _grown(self._pool, int(self._counts[C_USED]), intervals)

    def _sweep(self) -> None:
        heap = np.unique(self._heap[: self._counts[C_TIMERS]], axis=0)  # a sorted array is a heap
        heap = heap[self._state[heap[:, 1], TIMER] == heap[:, 0]]
        self._heap[: len(heap)] = heap
        self._counts[C_TIMERS] = len(heap)
        self._watched = max(1024, 2 * len(heap))


def _grown(rows: Ints, used: int, more: int) -> Ints:
    if used + more <= len(rows):
        return rows
    grown: Ints = np.empty((roomy(used + more, 2 * len(rows)), rows.shape[1]), np.int64)
    grown[:used] = rows[:used]
    return grown
