"""The goal of inertia. It turns the transitions of a fluent into the beginnings and ends of its intervals.

goal(F):  stores the current value of each key and its start; at each instant it applies transitions and deadlines
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import KINDS
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, empty, rows
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.checkpoint import ALL, Ahead, Touched
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    KeyedRows,
    Lasting,
    StateKeys,
    WaitingRows,
    demand,
)
from cep.operators.goals.fluents.inertia_kernel import (
    ARRIVAL,
    BY_TIME,
    CELLS,
    D_BECOMES,
    D_DURATION,
    D_ENDLESS,
    D_NEXT,
    D_ONE,
    D_RENEWED,
    D_VALUE,
    DEADLINE,
    DUE,
    HOLDS,
    KEPT,
    NAME,
    NEVER,
    S_GIVEN,
    S_HEAP,
    SINCE,
    SLOT,
    TURN,
    VALUE,
    WHEN,
    inertia,
)
from cep.operators.goals.fluents.timers import drop_timer
from cep.operators.goals.heads import codes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.relational import constant_bits
from cep.operators.goals.state_tables import KeyedBy, NumberedState, StateTable
from cep.operators.goals.value_order import ValueOrder

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.inertia import Inertia


@dataclass(frozen=True, slots=True)
class InertiaSpec:
    """The columns and deadlines of an inertia goal.

    The input columns are the arguments, the value, and the transition.

    - `keys`: the number of arguments. `valued`: True if there is a value.
    - `codes`: the columns of pool codes.
    - `deadlines`: an array with one row per deadline.
    - `wanted`: for each kind of output row, 1 if a reader needs it.
    - `order`: the function that computes the order of arrival of rows that a deadline causes, from their keys.
    """

    keys: int
    valued: bool
    codes: tuple[int, ...]
    deadlines: Ints
    wanted: Ints
    order: ValueOrder

    @property
    def width(self) -> int:
        return self.keys + self.valued

    def put_orders(self, table: Table) -> None:
        """Set the order of arrival of output rows that a deadline causes."""
        if len(self.deadlines):
            places = np.flatnonzero(table[ORDER] == BY_TIME)
            table[ORDER, places] = self.order(table[FIRST : FIRST + self.keys, places])


class InertiaGoal(NumberedState, Lasting):
    in_time = True

    def __init__(self, spec: InertiaSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.places = np.arange(spec.keys)
        self.keys = Keys(spec.keys)
        self.state = np.zeros((0, CELLS), np.int64)
        self.heap = np.zeros((0, 3), np.int64)
        self.counts = np.zeros(3, np.int64)
        self.ahead = Ahead(self._transitions)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        (transitions, slots), spec = self.ahead.take(inputs[0]), self.spec
        self.counts[S_GIVEN] = 0
        value = FIRST + spec.keys if spec.valued else -1
        told = inertia(
            transitions, slots, value, FIRST + spec.width, spec.deadlines, spec.wanted, frontier.watermark,
            frontier.latest, self.state, self.heap, self.counts, np.empty((2 * rows(transitions), 8), np.int64),
        )  # fmt: skip
        return self._table(told[: self.counts[S_GIVEN]])

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched:
        """See `cep.operators.goals.checkpoint`. A step also changes the keys whose deadlines pass."""
        count = int(self.counts[S_HEAP])
        passing = self.heap[:count][self.heap[:count, WHEN] <= frontier.watermark, SLOT]
        _, slots = self.ahead.look(inputs[0])
        return {"state": np.concatenate([slots, passing]), "heap": slice(0, count), "counts": ALL}

    def _transitions(self, table: Table) -> tuple[Table, Ints]:
        """Return the input as a contiguous table, and the slot of each row's key.

        Also reserve a state row for each new key, and room in the heap for one deadline per input row.
        """
        transitions = contiguous(table)
        slots = self.keys.slots(transitions, self.places, groups=True)
        self.state = filled_room(self.state, self.keys.count, 0)
        if len(self.spec.deadlines):
            self.heap = filled_room(self.heap, int(self.counts[S_HEAP]) + rows(transitions) + 1, 0)
        return transitions, slots

    def _table(self, told: Ints, named: bool = True) -> Table:
        """Convert the kernel's output rows to a table of occurrences.

        `named`: True to give the occurrences new handles in the lineage.
        """
        if not len(told):
            return empty(self.spec.width + 1)
        table = np.empty((FIRST + self.spec.width + 1, len(told)), np.int64)
        table[START], table[END], table[ORDER], table[IDENTITY] = told[:, 0], told[:, 1], told[:, 2], told[:, 3]
        table[FIRST : FIRST + self.spec.keys] = self.keys.known[told[:, 5]].T
        if self.spec.valued:
            table[FIRST + self.spec.keys] = told[:, 6]
        table[-1] = told[:, 7]
        self.spec.put_orders(table)
        if self.lineage is None:
            table[IDENTITY] = 0
        elif named:
            began = table[IDENTITY].copy()
            names = self.lineage.name(table)
            self.lineage.link(names, began)
            self.lineage.link(names, told[:, 4])
        return by_arrival(table)

    def open(self, ended: bool = True) -> Table:
        slots = np.flatnonzero(self.state[: self.keys.count, HOLDS])
        told = np.zeros((len(slots), 8), np.int64)
        for place, cell in ((0, SINCE), (2, ARRIVAL), (3, NAME), (6, VALUE)):
            told[:, place] = self.state[slots, cell]
        told[:, 1], told[:, 5] = END_OF_TIME, slots
        return self._table(told, ended)[:-1]

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """See `cep.operators.goals.contract`. Only values that have a deadline wait, because time alone ends them."""
        state = self.state[: self.keys.count]
        slots = np.flatnonzero((state[:, HOLDS] == 1) & (state[:, DUE] > watermark) & (state[:, DUE] < NEVER))
        arguments = np.zeros((width, len(slots)), np.int64)
        arguments[: self.spec.keys] = self.keys.known[slots].T
        if self.spec.valued:
            arguments[self.spec.keys] = state[slots, VALUE]
        since = state[slots, SINCE]
        return WaitingRows(since, since, arguments, state[slots, DUE], state[slots, ARRIVAL])

    def due(self) -> int | None:
        while self.counts[S_HEAP]:
            when, _, slot = self.heap[0].tolist()
            if self.state[slot, HOLDS] and self.state[slot, DUE] == when:
                return int(when)
            self.counts[S_HEAP] = drop_timer(self.heap, self.counts[S_HEAP], True)
        return None

    def pending(self) -> int:
        """Return an upper bound of the number of results that deadlines produce. A deadline can start another one."""
        return int(self.counts[S_HEAP]) * (1 + len(self.spec.deadlines))

    def _numbers(self) -> int:
        return max(self.keys.count, (int(self.counts[S_HEAP]) + 1) // 2)

    # --- state ---

    def _state(self) -> Arrays:
        held = np.flatnonzero(self.state[: self.keys.count, HOLDS] == 1)  # flatnonzero is ten times as fast for bools
        heap = self.heap[: self.counts[S_HEAP]]
        kept = _kept(self.state, held)
        if not len(heap):
            return {"keys": self.keys.known.take(held, axis=0), "held": kept, "heap": heap.copy()}
        place = np.full(self.keys.count, -1, np.int64)
        place[held] = np.arange(len(held))
        heap = heap[(place[heap[:, SLOT]] >= 0) & (self.state[heap[:, SLOT], DUE] == heap[:, WHEN])]
        heap = heap[np.lexsort((heap[:, TURN], heap[:, WHEN]))]
        heap[:, SLOT] = place[heap[:, SLOT]]
        heap[:, TURN] = np.arange(len(heap))
        return {"keys": self.keys.known[held], "held": kept, "heap": heap}

    def _tables(self) -> dict[str, StateTable]:
        spec = self.spec
        cells = {column: ("keys", column) if column < spec.keys else ("held", VALUE) for column in range(spec.width)}
        valued = (VALUE,) if any(column >= spec.keys for column in spec.codes) else ()
        return {
            "keys": StateTable(
                distinct=True,
                width=spec.keys,
                keyed=(KeyedBy(0, cells),),
                codes=tuple(c for c in spec.codes if c < spec.keys),
            ),
            "held": StateTable(width=KEPT, beside="keys", codes=valued, handles=(NAME,), ranges={HOLDS: (1, 2)}),
            "heap": StateTable(width=3, owner=SLOT, refers={SLOT: ("keys", 0)}),
        }

    def _fits(self, state: Arrays) -> None:
        demand(not len(state["heap"]) or len(self.spec.deadlines) > 0)

    def _become(self, state: Arrays) -> None:
        self.ahead.known = None
        self.keys = Keys(self.spec.keys)
        self.keys.become(state["keys"].copy(), len(state["keys"]))
        self.state = np.zeros((len(state["held"]), CELLS), np.int64)
        self.state[:, :KEPT] = state["held"]
        heap = state["heap"]
        heap = heap[np.lexsort((heap[:, TURN], heap[:, WHEN]))]  # a sorted array is a heap
        self.heap = heap.copy()
        self.heap[:, TURN] = np.arange(len(heap))
        self.counts = np.array([len(heap), len(heap), 0], np.int64)

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        known = np.concatenate([state["keys"], state["held"]], axis=1)
        numbers = self.keys_by_row("keys", state, keys)
        order = np.lexsort(known.T[::-1])
        slots = state["heap"][:, SLOT]
        deadlines = np.concatenate([state["heap"][:, [WHEN]], state["keys"][slots]], axis=1)
        return [(numbers[order], known[order]), (numbers[slots], deadlines)]

    def codes(self) -> list[Ints]:
        known, state = self.keys.known, self.state[: self.keys.count]
        return [known[:, c] if c < self.spec.keys else state[:, VALUE] for c in self.spec.codes]

    @property
    def size(self) -> tuple[int, int]:
        held = int(self.state[: self.keys.count, HOLDS].sum())
        return held, int(self.state.nbytes + self.heap.nbytes + self.keys.nbytes)


@njit()
def _kept(state, slots):  # type: ignore[no-untyped-def]
    """Return those cells of each key's state that belong in a snapshot, one row per slot of `slots`."""
    kept = np.empty((slots.shape[0], KEPT), np.int64)
    for i in range(slots.shape[0]):
        for cell in range(KEPT):
            kept[i, cell] = state[slots[i], cell]
    return kept


def inertia_of(node: Inertia, builder: GoalBuilder, number: int, kinds: Sequence[int]) -> Goal:
    """Return the goal of an Inertia node.

    `number`: the node's number in the plan. `kinds`: the kinds of output rows that a reader needs.
    """
    wanted = np.zeros(KINDS, np.int64)
    wanted[list(kinds)] = 1
    types = builder.types(number)
    type = types[node.keys]
    deadlines = np.zeros((len(node.deadlines), DEADLINE), np.int64)
    endless = node.endless()
    for row, deadline in zip(deadlines, node.deadlines):
        row[D_ENDLESS] = deadline in endless
        row[D_ONE], row[D_DURATION] = deadline.value is not None, deadline.duration
        row[D_NEXT], row[D_RENEWED] = deadline.becomes is not None, deadline.renewed
        row[D_VALUE] = 0 if deadline.value is None else constant_bits(builder, deadline.value, type)
        row[D_BECOMES] = 0 if deadline.becomes is None else constant_bits(builder, deadline.becomes, type)
    order = builder.order(number, types[: node.keys])
    spec = InertiaSpec(node.keys, node.valued, codes_of(types), deadlines, wanted, order)
    return InertiaGoal(spec, builder.lineage)
