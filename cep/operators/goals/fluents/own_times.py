"""The goal of tuples that contain a tick. A tuple holds only at evaluation ticks whose window contains this tick.

goal(F):  returns the changes of F's tuples, limited to the period of each tuple
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.evaluation_ticks import WindowTicks
from cep.core.interval_sets import INFINITE, Intervals
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, START, Table, empty
from cep.core.time import Frontier
from cep.operators.goals.contract import (
    Arrays,
    Bools,
    Goal,
    Ints,
)
from cep.operators.goals.fluents.changes import (
    NOTHING,
    Changes,
    PendingChanges,
    decided,
    due,
    held_in,
    in_order,
    put_changes,
    put_tuples,
    table_of,
    waiting_table,
)
from cep.operators.goals.fluents.timers import drop_timer, put_timer
from cep.operators.goals.heads import codes_of
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.own_times import OwnTimes

HOLDS, GIVEN, TIMED = 1, 2, 4
"""Flags of a tuple. HOLDS: the input holds. GIVEN: the tuple holds in the output. TIMED: its period is among the
timers."""
OPENS, CLOSES = range(2)


@njit()
def _clipped(slots, code, begins, done, until, bounds, flags, heap, waiting, key, instants, kind):  # type: ignore[no-untyped-def]
    """Process changes, sorted by code, from row `done` on, and timers up to the code `until`.

    - `bounds`: the time codes at which the period of each tuple begins and ends. `flags`: the flags of each tuple.
    - `heap`, `waiting`: the timers and their number. There must be room for two timers per change.
    - `key`, `instants`, `kind`: buffers for the output changes. The kernel stops when they are full.

    Return the number of processed changes, the number of remaining timers, and the number of output changes.
    """
    n, written, room = len(slots), 0, len(key)
    while written < room:
        if done < n and (waiting == 0 or code[done] <= heap[0, 0]):
            slot, now = slots[done], code[done]
            flags[slot, 0] = flags[slot, 0] & ~HOLDS | (HOLDS if begins[done] else 0)
            done += 1
            if not flags[slot, 0] & TIMED:
                flags[slot, 0] |= TIMED
                for bound in range(2):
                    if now < bounds[slot, bound] < INFINITE:
                        put_timer(heap, waiting, bounds[slot, bound], slot)
                        waiting += 1
        elif waiting > 0 and heap[0, 0] <= until:
            now, slot = heap[0, 0], heap[0, 1]
            waiting = drop_timer(heap, waiting)
        else:
            break
        inside = flags[slot, 0] & HOLDS != 0 and bounds[slot, OPENS] <= now < bounds[slot, CLOSES]
        if inside != (flags[slot, 0] & GIVEN != 0):
            flags[slot, 0] ^= GIVEN
            key[written], instants[written], kind[written] = slot, now, 1 if inside else 0
            written += 1
    return done, waiting, written


@dataclass(frozen=True, slots=True)
class OwnTimesSpec:
    """Columns and window of an OwnTimesGoal.

    - `columns`: the number of input columns.
    - `take`: the input columns that form the tuple, then the column with the kind of change.
    - `tick_column`: the position of the tick in the tuple.
    - `window`: the evaluation ticks at which a tuple holds, relative to its tick.
    - `codes`: the columns of pool codes. `late`: the delay of the input in microseconds.
    """

    columns: int
    take: tuple[int, ...]
    tick_column: int
    window: WindowTicks
    codes: tuple[int, ...]
    late: int

    @property
    def width(self) -> int:
        """Return the number of columns in `take`."""
        return len(self.take)


class OwnTimesGoal(NumberedState, InRounds):
    timed = True

    def __init__(self, spec: OwnTimesSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.columns = np.arange(spec.width - 1)
        self._as_given = spec.take == tuple(range(spec.columns))
        self._read_rows = np.array([*range(FIRST), *(FIRST + column for column in spec.take)])
        self.waiting = PendingChanges([spec.width], [spec.width - 1], [spec.late])
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(self.spec.width - 1)
        self.flags = np.zeros((0, 1), np.int64)
        self.bounds = np.zeros((0, 2), np.int64)
        self.known = 0
        self.heap = np.empty((0, 2), np.int64)
        self.timers = 0
        self.decided = NOTHING
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        until = max(decided(frontier, self.spec.late), self.decided)
        ((table, code, begins),) = self.waiting.take([self._read_in(inputs[0])], frontier)
        slots, code, begins = in_order(self._slots(table), code, begins)
        clipped = self._run(slots, code, begins, until)
        self.decided = until
        if not len(clipped.key):
            return empty(self.spec.width)
        output = np.empty((FIRST + self.spec.width, len(clipped.key)), np.int64)
        put_tuples(output, FIRST, self.tuples.known, clipped.key, 0)
        put_changes(output, FIRST + self.spec.width - 1, clipped.code, clipped.begins)
        if self.lineage is not None:
            self.lineage.name(output)
        return output

    def _read_in(self, table: Table) -> Table:
        return table if self._as_given else table.take(self._read_rows, axis=0)

    def _run(self, slots: Ints, code: Ints, begins: Ints, until: int) -> Changes:
        if self.timers + 2 * len(slots) > len(self.heap):
            heap = np.empty((roomy(self.timers + 2 * len(slots), 2 * len(self.heap)), 2), np.int64)
            heap[: self.timers] = self.heap[: self.timers]
            self.heap = heap
        pieces: list[Ints] = []
        done = 0
        while True:
            piece: Ints = np.empty((3, len(slots) + 1024), np.int64)
            done, self.timers, count = _clipped(
                slots, code, begins, done, until, self.bounds, self.flags, self.heap, self.timers, *piece
            )
            pieces.append(piece[:, :count])
            if count < piece.shape[1]:
                return Changes(*(pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)))

    def _slots(self, table: Table, insert: bool = True) -> Ints:
        slots = self.tuples.slots(table, self.columns, insert=insert, groups=True)
        count = self.tuples.count
        if count > self.known:
            self.flags = filled_room(self.flags, count, 0)
            self.bounds = filled_room(self.bounds, count, 0)
            times = self.tuples.known[self.known : count, self.spec.tick_column]
            self.bounds[self.known : count, OPENS] = self.spec.window.opens(times)
            self.bounds[self.known : count, CLOSES] = self.spec.window.closes(times)
            self.known = count
        return slots

    def _holding(self, flag: int) -> Bools:
        holding: Bools = self.flags[: self.known, 0] & flag != 0
        return holding

    # --- in a recursion ---

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.stretch, self.goes_on, self.opened, self.told = (first, last), goes_on, False, False
        count = self.known if goes_on else 0
        self.lost, self.stopped = np.zeros(count, np.bool_), np.zeros(count, np.bool_)

    def shrink(self, inputs: Sequence[Table]) -> Table:
        count, (first, last) = len(self.lost), self.stretch
        slots = self._slots(self._read_in(inputs[0]), False)
        slots = slots[(slots >= 0) & (slots < count)]
        self.lost[slots] = True
        touched = np.zeros(count, np.bool_)
        touched[slots] = True
        if not self.told:
            self.told = True
            touched |= self.bounds[:count, CLOSES] <= last
        fresh = np.flatnonzero(touched & self._holding(GIVEN)[:count] & ~self.stopped)
        self.stopped[fresh] = True
        return table_of(Intervals(fresh, *(np.full(len(fresh), code) for code in (first, last))), self.tuples.known)

    def grow(self, inputs: Sequence[Table]) -> Table:
        table = self._read_in(inputs[0])
        slots = self._slots(table)
        start, end = table[START].copy(), table[END].copy()
        if self.goes_on:
            slots, start, end = self._news(slots, start, end)
        start = np.maximum(start, self.bounds[slots, OPENS])
        end = np.minimum(end, self.bounds[slots, CLOSES] - 1)
        some = start <= end
        return table_of(Intervals(slots[some], start[some], end[some]), self.tuples.known)

    def _news(self, slots: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Drop the intervals of tuples that hold through the whole stretch, because such intervals add nothing.

        In the first round, add intervals for tuples that hold in the input, but did not hold in the output.
        """
        count, (first, last) = len(self.lost), self.stretch
        goes_on = self._holding(GIVEN)[:count] & ~self.stopped
        old = slots < count
        old[old] = goes_on[slots[old]]
        slots, start, end = slots[~old], start[~old], end[~old]
        if self.opened:
            return slots, start, end
        self.opened = True
        more = np.flatnonzero(self._holding(HOLDS)[:count] & ~self.lost & ~goes_on)
        return (
            np.concatenate([slots, more]),
            np.concatenate([start, np.full(len(more), first)]),
            np.concatenate([end, np.full(len(more), last)]),
        )

    def held(self, changes: Table, first: int, last: int) -> Table:
        return held_in(changes, self.tuples.known[np.flatnonzero(self._holding(GIVEN))], first, last)

    def next_change(self) -> int:
        return int(self.heap[0, 0]) if self.timers else INFINITE

    def due(self) -> int | None:
        times = [] if (waits := self.waiting.due()) is None else [waits]
        if self.timers:
            times.append(due(self.next_change(), self.spec.late))
        return min(times) if times else None

    def pending(self) -> int:
        return self.waiting.count + self.timers

    def _numbers(self) -> int:
        return self.tuples.count

    # --- state ---

    def _state(self) -> Arrays:
        kept = np.flatnonzero(self._holding(HOLDS))
        (waiting,) = self.waiting.state()
        return {
            "tuples": self.tuples.known[kept],
            "given": self.flags[kept] & GIVEN,
            "decided": np.array([[self.decided]], np.int64),
            "waiting": waiting,
        }

    def _tables(self) -> dict[str, StateTable]:
        spec, width = self.spec, self.spec.width
        columns = spec.take[:-1]
        return {
            "tuples": StateTable(width=width - 1, keyed=tuples_of("tuples", columns), codes=spec.codes),
            "given": StateTable(width=1, beside="tuples", ranges={0: (0, GIVEN + 1)}),
            "decided": StateTable(width=1, clock=True),
            "waiting": waiting_table("waiting", width, width - 1, spec.codes, columns=columns),
        }

    def _become(self, state: Arrays) -> None:
        self._clear()
        tuples = state["tuples"]
        table = np.zeros((FIRST + self.spec.width - 1, len(tuples)), np.int64)
        table[FIRST:] = tuples.T
        slots = self._slots(table)
        self.decided = int(state["decided"][0, 0])
        self.flags[slots, 0] = HOLDS | TIMED | (state["given"][:, 0] & GIVEN)
        ahead = self.bounds[slots]
        place, bound = np.nonzero((ahead > self.decided) & (ahead < INFINITE))
        heap = np.stack([ahead[place, bound], slots[place]], axis=1)
        self.heap, self.timers = heap[np.lexsort((heap[:, 1], heap[:, 0]))], len(heap)  # a sorted array is a heap
        self.waiting.become([state["waiting"]])

    def codes(self) -> list[Ints]:
        (table,) = self.waiting.tables
        return [column for c in self.spec.codes for column in (self.tuples.known[:, c], table[FIRST + c])]

    @property
    def size(self) -> tuple[int, int]:
        held = int(np.count_nonzero(self._holding(HOLDS)))
        return held + self.waiting.count, int(
            self.flags.nbytes + self.bounds.nbytes + self.heap.nbytes + self.tuples.nbytes
        )


def own_times_of(node: OwnTimes, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take[:-1]])
    spec = OwnTimesSpec(len(types), node.take, node.tick_column, node.ticks, codes, node.late)
    return OwnTimesGoal(spec, builder.lineage)
