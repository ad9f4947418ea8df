"""Goals that output tuples tick by tick: each tuple at every evaluation tick at which it holds, with the tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cep.core.evaluation_ticks import WindowTicks
from cep.core.interval_sets import FAR, INFINITE
from cep.core.relation import END, FIRST, Table, rows
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.contract import Arrays, Goal, Ints, Untimed
from cep.operators.goals.fluents.changes import (
    NOTHING,
    Changes,
    PendingChanges,
    decided,
    due,
    stretch_of,
    waiting_table,
)
from cep.operators.goals.fluents.windowed_event import QUEUES, PassingGoal, PassingSpec
from cep.operators.goals.heads import codes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.state_tables import DeclaredState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.ticks import EachTick, TickAtoms


class TickAtomsGoal(Untimed, DeclaredState):
    """The goal of one TickAtoms node. `width`: the number of columns. `codes`: the columns of pool codes."""

    def __init__(self, width: int, tick: int, codes: tuple[int, ...]) -> None:
        self.width, self.tick, self._codes = width, tick, codes
        self.seen: Ints = np.empty((0, width), np.int64)
        self.now = BEGINNING

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = inputs[0]
        if not rows(table):
            return table
        ticks = table[END] // self.tick
        before = len(self.seen) if int(ticks[0]) == self.now else 0
        keyed: Table = np.zeros((FIRST + self.width + 1, before + rows(table)), np.int64)
        keyed[FIRST:-1, :before], keyed[-1, :before] = self.seen[:before].T, self.now
        keyed[FIRST:-1, before:], keyed[-1, before:] = table[FIRST:], ticks
        known = Keys(self.width + 1)
        slots = known.slots(keyed, np.arange(self.width + 1), groups=True)
        fresh = np.ones(len(slots), np.bool_)
        fresh[1:] = slots[1:] > np.maximum.accumulate(slots)[:-1]
        last = int(ticks[-1])
        self.now = last
        self.seen = keyed[FIRST:-1, fresh & (keyed[-1] == last)].T.copy()
        new = fresh[before:]
        return table if new.all() else take(table, np.flatnonzero(new))

    # --- state ---

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Do nothing: when a new tick begins, the goal drops the atoms of the tick before it."""

    def _state(self) -> Arrays:
        return {"seen": self.seen, "now": np.array([[self.now]], np.int64)}

    def _tables(self) -> dict[str, StateTable]:
        seen = StateTable(width=self.width, keyed=tuples_of("seen", range(self.width)), codes=self._codes)
        return {"seen": seen, "now": StateTable(width=1, clock=True)}

    def _become(self, state: Arrays) -> None:
        self.seen, self.now = state["seen"].copy(), int(state["now"][0, 0])

    def together(self, left: Arrays, other: Arrays) -> Arrays:
        """See `cep.operators.goals.contract`. If the states are at different ticks, only the atoms of the later tick
        remain."""
        now = max(int(left["now"][0, 0]), int(other["now"][0, 0]))
        seen = [state["seen"] for state in (left, other) if int(state["now"][0, 0]) == now]
        return {"seen": np.concatenate(seen), "now": np.array([[now]], np.int64)}

    @property
    def size(self) -> tuple[int, int]:
        return len(self.seen), int(self.seen.nbytes)


def tick_atoms_of(node: TickAtoms, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    return TickAtomsGoal(len(types), node.tick, codes_of(types))


class EachTickGoal(PassingGoal):
    """The goal of one EachTick node. `kind`: the input column with the kind of change."""

    def __init__(self, spec: PassingSpec, kind: int, tick: int) -> None:
        self.window = WindowTicks(tick)
        self.taken = [*range(FIRST), *(FIRST + column for column in (*spec.take, kind))]
        width = len(spec.take)
        self.waiting = PendingChanges([width + 1], [width], [spec.late])
        self.inner = np.arange(width)
        super().__init__(spec)

    def _clear(self) -> None:
        super()._clear()
        self.holding = Keys(len(self.spec.take))
        self.held: Ints = np.empty(0, np.int64)
        self.next = NOTHING
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        until = decided(frontier, self.spec.late)
        ((table, code, begins),) = self.waiting.take([inputs[0][self.taken]], frontier)
        last = until if until < INFINITE else max(2 * frontier.latest + 1, self.next - 1)
        if len(code) or (len(self.held) and last >= self._opening()):
            slots = self.holding.slots(table, self.inner, groups=True)
            self._expand(Changes(slots, code, begins), last)
            self._keep(slots, code, begins)
            if until < INFINITE:
                self.next = max(self.next, until + 1)
            else:
                self.next, self.held = INFINITE, self.held[:0]
        elif until < INFINITE:
            self.next = max(self.next, until + 1)
        return self._pass_on(frontier)

    def _opening(self) -> int:
        width = 2 * self.window.tick
        return -(-max(self.next, -FAR) // width) * width

    def _expand(self, changes: Changes, until: int) -> None:
        """Schedule each tuple for output at every new tick at which it holds.

        `until`: the time code of the last tick that is evaluated.
        """
        first = max(self.next, -FAR)
        stretch = stretch_of(changes, self.held, first, until)
        width = 2 * self.window.tick
        since, last = -(-np.maximum(stretch.start, first) // width), np.minimum(stretch.end, until) // width
        counts = np.maximum(last - since + 1, 0)
        ends = np.cumsum(counts)
        ticks = np.repeat(since - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
        order = np.argsort(ticks, kind="stable")
        ticks, keys = ticks[order], np.repeat(stretch.key, counts)[order]
        atoms = np.empty((FIRST + self.spec.columns, len(ticks)), np.int64)
        atoms[FIRST:-1], atoms[-1] = self.holding.known[keys].T, ticks
        slots = self.tuples.slots(atoms, self.columns, groups=True)
        self.passing.put(self.window.opens(ticks), slots, True)
        self.passing.put(self.window.closes(ticks), slots, False)

    def _keep(self, slots: Ints, code: Ints, begins: Ints) -> None:
        """Apply changes to the set of tuples that hold.

        `slots`: the tuples that change. `code`: the time codes. `begins`: 1 if the tuple begins, 0 if it ends.
        """
        if not len(slots):
            return
        order = np.lexsort((code, slots))
        slots, begins = slots[order], begins[order]
        latest = np.append(slots[1:] != slots[:-1], True)
        kept = np.setdiff1d(self.held, slots)
        self.held = np.union1d(kept, slots[latest & (begins == 1)])

    def due(self) -> int | None:
        times = [time for time in (super().due(), self.waiting.due()) if time is not None]
        if len(self.held):
            times.append(due(self._opening(), self.spec.late))
        return min(times, default=None)

    def pending(self) -> int:
        return super().pending() + self.waiting.count + len(self.held)

    def _numbers(self) -> int:
        return max(self.tuples.count, self.holding.count)

    # --- state ---

    def _state(self) -> Arrays:
        (waiting,) = self.waiting.state()
        more = {"holding": self.holding.known[self.held], "next": np.array([[self.next]], np.int64), "waiting": waiting}
        return super()._state() | more

    def _tables(self) -> dict[str, StateTable]:
        spec, width = self.spec, len(self.spec.take)
        return super()._tables() | {
            "holding": StateTable(width=width, keyed=tuples_of("holding", spec.take), codes=spec.codes),
            "next": StateTable(width=1, clock=True),
            "waiting": waiting_table("waiting", width + 1, width, spec.codes, columns=spec.take),
        }

    def _become(self, state: Arrays) -> None:
        super()._become({name: state[name] for name in ("held", *QUEUES)})
        table = np.zeros((FIRST + len(self.spec.take), len(state["holding"])), np.int64)
        table[FIRST:] = state["holding"].T
        self.held = np.unique(self.holding.slots(table, self.inner, groups=True))
        self.next = int(state["next"][0, 0])
        self.waiting.become([state["waiting"]])

    def codes(self) -> list[Ints]:
        (table,) = self.waiting.tables
        more = [column for c in self.spec.codes for column in (self.holding.known[:, c], table[FIRST + c])]
        return [*super().codes(), *more]

    @property
    def size(self) -> tuple[int, int]:
        count, weight = super().size
        return count + len(self.held) + self.waiting.count, weight + int(self.holding.nbytes)


def each_tick_of(node: EachTick, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    *take, kind = node.take
    codes = codes_of([types[column] for column in take])
    return EachTickGoal(PassingSpec(len(types), tuple(take), True, codes, node.late), kind, node.tick)
