"""The reviser of inertia. It stores the recent transitions of each key, and the key's state after each instant.

A late transition is inserted among the other transitions of its key. From its instant on, the key is evaluated twice,
with and without the change, until both states are equal. The output changes are the differences between both results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import ENDED_ALL, INITIATED
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.fluents.inertia import InertiaGoal, InertiaSpec
from cep.operators.goals.fluents.inertia_kernel import (
    BY_TIME,
    CELLS,
    D_ENDLESS,
    DUE,
    HOLDS,
    KEPT,
    NEVER,
    S_HEAP,
    S_TURN,
    STOPPER,
    decide,
    initiated,
    pass_deadline,
    terminated,
    touch,
)
from cep.operators.goals.fluents.timers import put_timer
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keyed_rows import (
    AT,
    COUNT,
    GOES,
    KEY,
    NONE,
    R_END,
    R_ORDER,
    ROW,
    KeyedRows,
    changes_of,
    coming,
    copied,
    demand_there,
    first_from,
    moved,
    put,
    same_key,
    turn,
)
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.reviser import KeyedReviser, Revised, Reviser

# Columns of a transition after end, start and order: the value, the kind of transition, its multiplicity, and the state
# of its key after its instant.
T_VALUE, T_KIND, T_TIMES, T_AFTER = range(3, 7)
WORDS = T_TIMES
# Columns of an output row: its end, and a mark that both runs have it.
G_END, G_BOTH = 1, 4


@inside
def _instant(table, first, last, now, state, keys, deadlines, wanted, told, count, number):  # type: ignore[no-untyped-def]
    """Process one instant of a key: its transitions, in the rows `first` to `last` of a table, and its deadline.

    `state`: the state of the key. `now`: the instant. Return the new number of output rows.
    """
    among = 0
    for i in range(first, last):
        among = touch(state, keys, among, 0, table[i, R_ORDER])
        if table[i, T_KIND] == INITIATED:
            initiated(state, keys, 0, table[i, T_VALUE], 0)
    if state[0, HOLDS] and state[0, DUE] == now:
        among = touch(state, keys, among, 0, BY_TIME)
        pass_deadline(state, keys, 0, deadlines)
    for i in range(first, last):
        if table[i, T_KIND] != INITIATED:
            terminated(state, keys, 0, table[i, T_KIND] == ENDED_ALL, table[i, T_VALUE], 0)
    count, _ = decide(state, keys, 0, now, deadlines, wanted, told, count, number)
    return count


@njit()
def _time_passes(table, until, state, keys, deadlines, wanted, told, count, number):  # type: ignore[no-untyped-def]
    """Process the deadlines of a key up to `until`. The key must have no transition in this period.

    Return the output rows, in an array that may be larger than `told`, and their number.
    """
    while state[0, HOLDS] and state[0, DUE] <= until:
        told = grow(told, count + 3) if told.shape[0] < count + 3 else told
        count = _instant(table, 0, 0, state[0, DUE], state, keys, deadlines, wanted, told, count, number)
    return told, count


@inside
def _same(left, other):  # type: ignore[no-untyped-def]
    """Return True if two states of a key are the same. All states in which the fluent does not hold are the same."""
    if left[0, HOLDS] == 0 and other[0, HOLDS] == 0:
        return True
    for cell in range(KEPT):
        if left[0, cell] != other[0, cell]:
            return False
    return True


@inside
def _without_both(was, before, old, now, first, new):  # type: ignore[no-untyped-def]
    """Remove the rows that are in both the old and the new output of a key. Return how many of each remain.

    - `was`, `old`: the old output of all keys, and its number of rows. `now`, `new`: the same for the new output.
    - `before`, `first`: the first row of the key in `was` and in `now`. Its rows are in order of time.
    """
    i, j = before, first
    while i < old and j < new:
        if was[i, G_END] != now[j, G_END]:
            if was[i, G_END] < now[j, G_END]:
                i += 1
            else:
                j += 1
            continue
        stop = j
        while stop < new and now[stop, G_END] == was[i, G_END]:
            stop += 1
        end = was[i, G_END]
        while i < old and was[i, G_END] == end:
            for k in range(j, stop):
                same = now[k, G_BOTH] == 0
                for word in range(was.shape[1]):
                    same = same and (word == G_BOTH or was[i, word] == now[k, word])
                if same:
                    was[i, G_BOTH] = now[k, G_BOTH] = 1
                    break
            i += 1
        j = stop
    kept = before
    for i in range(before, old):
        if was[i, G_BOTH] == 0:
            copied(was, i, was, kept)
            kept += 1
    left = first
    for j in range(first, new):
        if now[j, G_BOTH] == 0:
            copied(now, j, now, left)
            left += 1
    return kept, left


@njit()
def _revise(  # type: ignore[no-untyped-def]
    table, spans, before, changes, deadlines, wanted, since, until, tells, was, now, ended
):
    """Apply changes to the stored transitions of keys, and update the states that are stored with them.

    The store of each key must have room for its changes. `tells`: True to compute how the output changes. Otherwise the
    changes must follow all stored rows. With `tells`, returns:

    - `was`, `old`: the old output up to `since`, and its number of rows
    - `now`, `new`: the new output up to `until`, and its number of rows; rows that are in both outputs are left out
    - `ends`: the number of keys whose final state changes; `ended` gets their numbers and states
    - `again`: the number of keys with changes up to `since`
    - `wrong`: the number of invalid changes, which remove a row that does not exist or add a row that exists
    """
    state, start = np.zeros((1, CELLS), np.int64), np.zeros((1, CELLS), np.int64)
    keys = np.zeros((1, STOPPER + 1), np.int64)
    old = new = ends = again = c = wrong = 0
    while c < changes.shape[0]:
        stop, number = same_key(changes, c), changes[c, KEY]
        again += changes[c, ROW + R_END] <= since
        first_row = spans[number, AT]
        last = first_row + spans[number, COUNT]
        j = first_from(table, first_row, last, changes[c, ROW + R_END])
        more = coming(changes, c, stop)
        moved(table, j, last, more)
        i, last = j + more, last + more
        since_old, since_new = old, new
        same = True
        while c < stop or (i < last and not same):
            if same:  # rows before the next change stay the same, and are only moved
                beyond = first_from(table, i, last, changes[c, ROW + R_END])
                moved(table, i, beyond, j - i)
                i, j = beyond, j + beyond - i
                for cell in range(KEPT):
                    state[0, cell] = table[j - 1, T_AFTER + cell] if j > first_row else before[number, cell]
                    start[0, cell] = state[0, cell]
            end = changes[c, ROW + R_END] if c < stop else table[i, R_END]
            if i < last:
                end = min(end, table[i, R_END])
            beyond = i
            while beyond < last and table[beyond, R_END] == end:
                beyond += 1
            if tells:
                passed = end - 1 if beyond > i else min(end, since)
                if start[0, HOLDS] and start[0, DUE] <= passed:
                    was, old = _time_passes(table, passed, start, keys, deadlines, wanted, was, old, number)
                if beyond > i:
                    was = grow(was, old + 3) if was.shape[0] < old + 3 else was
                    old = _instant(table, i, beyond, end, start, keys, deadlines, wanted, was, old, number)
            first = j
            while i < beyond or (c < stop and changes[c, ROW + R_END] == end):
                which = turn(table, i, beyond, changes, c, stop, WORDS)
                i, j, c, none = put(table, i, j, changes, c, which, WORDS, True)
                wrong += none
            passed = end - 1 if j > first else end
            if state[0, HOLDS] and state[0, DUE] <= passed:
                now, new = _time_passes(table, passed, state, keys, deadlines, wanted, now, new, number)
            if j > first:
                now = grow(now, new + 3) if now.shape[0] < new + 3 else now
                new = _instant(table, first, j, end, state, keys, deadlines, wanted, now, new, number)
                for row in range(first, j):
                    for cell in range(KEPT):
                        table[row, T_AFTER + cell] = state[0, cell]
            same = tells and _same(state, start)
        moved(table, i, last, j - i)
        spans[number, COUNT] = j + last - i - first_row
        if not tells:
            new = since_new
            continue
        if not same:
            was, old = _time_passes(table, since, start, keys, deadlines, wanted, was, old, number)
            now, new = _time_passes(table, until, state, keys, deadlines, wanted, now, new, number)
            if not _same(state, start):
                ended[ends, 0] = number
                for cell in range(KEPT):
                    ended[ends, 1 + cell] = state[0, cell]
                ends += 1
        old, new = _without_both(was, since_old, old, now, since_new, new)
    return was, old, now, new, ends, again, wrong


@inside
def _into(told, i, sign, known, valued, table, place):  # type: ignore[no-untyped-def]
    """Write an output row into a table of changes. `sign`: GOES if it is removed, 0 if it is added."""
    width = known.shape[1]
    table[START, place], table[END, place], table[ORDER, place] = told[i, 0], told[i, 1], told[i, 2]
    table[IDENTITY, place] = sign
    for word in range(width):
        table[FIRST + word, place] = known[told[i, 5], word]
    if valued:
        table[FIRST + width, place] = told[i, 6]
    table[FIRST + width + valued, place] = told[i, 7]


@bare
def _told(was, now, known, valued, table):  # type: ignore[no-untyped-def]
    for i in range(was.shape[0]):
        _into(was, i, GOES, known, valued, table, i)
    for i in range(now.shape[0]):
        _into(now, i, 0, known, valued, table, was.shape[0] + i)


@bare
def _become(state, heap, counts, slots, ended):  # type: ignore[no-untyped-def]
    """Replace the states of the keys at these slots of the goal. `heap` must have room for one deadline per key."""
    for i in range(len(slots)):
        due = ended[i, 1 + DUE]
        if ended[i, 1 + HOLDS] and due != NEVER and not (state[slots[i], HOLDS] and state[slots[i], DUE] == due):
            put_timer(heap, counts[S_HEAP], due, counts[S_TURN], slots[i])
            counts[S_HEAP] += 1
            counts[S_TURN] += 1
        for cell in range(KEPT):
            state[slots[i], cell] = ended[i, 1 + cell]


class InertiaReviser(KeyedReviser):
    remembers = True

    def __init__(self, spec: InertiaSpec) -> None:
        self.spec = spec
        self.places = np.arange(spec.keys)
        value = FIRST + spec.keys if spec.valued else NONE
        self.words = np.array([END, START, ORDER, value, FIRST + spec.width], np.int64)
        self.known = Keys(spec.keys)
        self.rows = KeyedRows(WORDS, KEPT, KEPT)
        self.sides = (self.rows,)
        self.nothing = np.zeros_like(spec.wanted)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        self.known.become(state["keys"].copy(), len(state["keys"]))
        self.rows.know(self.known.count)
        self.rows.before[: self.known.count] = state["held"]
        self.rows.floor, self.rows.length = frontier.watermark, length

    def came(self, inputs: Sequence[Table]) -> None:
        if rows(inputs[0]):
            self._revised(self._changes(inputs[0]), 0, 0, False, 0)

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        if not rows(inputs[0]):
            return Revised(empty(self.spec.width + 1))
        changes = self._changes(inputs[0])
        was, now, ended, keys = self._revised(changes, since, frontier.watermark, True, len(changes))
        self._put_right(cast(InertiaGoal, goal), ended)
        table = np.empty((FIRST + self.spec.width + 1, len(was) + len(now)), np.int64)
        _told(was, now, self.known.table, self.spec.valued, table)
        self.spec.put_orders(table)
        return Revised(table, keys)

    def _changes(self, table: Table) -> Ints:
        slots = self.known.slots(table, self.places, groups=True)
        self.rows.know(self.known.count)
        return changes_of(table, slots, self.words, self.known.count)

    def _revised(self, changes: Ints, since: int, until: int, tells: bool, count: int) -> tuple[Ints, Ints, Ints, int]:
        """Apply changes to the stored transitions. The arguments are those of `_revise`; `count`: the number of rows to
        allocate.

        Return the old output rows and the new output rows. Also return the final states that have changed, one row per
        key, and the number of keys that have changes up to `since`.
        """
        self.rows.make_room(changes)
        room = np.empty((4 * count + 6, 8), np.int64)
        was, old, now, new, ends, keys, wrong = _revise(
            self.rows.rows, self.rows.spans, self.rows.before, changes, self.spec.deadlines,
            self.spec.wanted if tells else self.nothing, since, until, tells, room[: 2 * count + 3],
            room[2 * count + 3 :], ended := np.empty((count, 1 + KEPT), np.int64),
        )  # fmt: skip
        demand_there(wrong)
        return was[:old], now[:new], ended[:ends], int(keys)

    def _put_right(self, goal: InertiaGoal, ended: Ints) -> None:
        if not len(ended):
            return
        table = np.zeros((FIRST + self.spec.keys, len(ended)), np.int64)
        table[FIRST:] = self.known.known[ended[:, 0]].T
        slots = goal.keys.slots(table, self.places, groups=True)
        goal.state = filled_room(goal.state, goal.keys.count, 0)
        if len(self.spec.deadlines):
            goal.heap = filled_room(goal.heap, int(goal.counts[S_HEAP]) + len(ended), 0)
        _become(goal.state, goal.heap, goal.counts, slots, ended)

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        kept, keys = self.rows.every()
        return [self._state_at(time, kept, keys) for time in times]

    def _state_at(self, time: int, kept: Ints, keys: Ints) -> Arrays:
        cells = self.rows.before[: self.known.count].copy()
        past = kept[:, R_END] <= time
        cells[keys[past]] = kept[past][:, T_AFTER:]  # the last row of each key counts
        cells = _passed(cells, time, self.spec.deadlines, self.nothing)
        held = np.flatnonzero(cells[:, HOLDS])
        due = cells[held, DUE]
        heap = np.stack([due, np.zeros_like(due), np.arange(len(held))], axis=1)[due != NEVER]
        heap = heap[np.argsort(heap[:, 0], kind="stable")]
        heap[:, 1] = np.arange(len(heap))
        return {"keys": self.known.known[held], "held": cells[held], "heap": heap}


@njit()
def _passed(cells, time, deadlines, wanted):  # type: ignore[no-untyped-def]
    """Return the states of keys at `time`, which is later than their last transitions. Deadlines of the keys may have
    passed by then."""
    state, keys = np.zeros((1, CELLS), np.int64), np.zeros((1, STOPPER + 1), np.int64)
    nothing, told = np.zeros((0, T_AFTER), np.int64), np.zeros((3, 8), np.int64)
    for number in range(cells.shape[0]):
        for cell in range(KEPT):
            state[0, cell] = cells[number, cell]
        told, _ = _time_passes(nothing, time, state, keys, deadlines, wanted, told, 0, number)
        for cell in range(KEPT):
            cells[number, cell] = state[0, cell]
    return cells


def inertia_reviser(goal: InertiaGoal) -> Reviser | None:
    """Return the reviser of a goal, or None if the goal cannot revise.

    A goal cannot revise if it records lineage. It also cannot revise if its deadlines form a cycle, because results
    then depend on the end of the input.
    """
    endless = len(goal.spec.deadlines) and bool(goal.spec.deadlines[:, D_ENDLESS].any())
    return None if goal.lineage is not None or endless else InertiaReviser(goal.spec)
