"""The goal that counts the supports of tuples. A tuple holds while it has at least one support.

goal(F):  projects F's tuples to some columns; for a fluent that formulas define, also returns other kinds of rows
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import (
    BEFORE,
    BEGINNING,
    BEGINS,
    BEGINS_AT,
    ENDING,
    ENDS,
    ENDS_AT,
    FOREVER,
    GIVEN,
    HELD,
    KINDS,
    SINCE_EVER,
    WHOLE,
)
from cep.core.interval_sets import INFINITE, Intervals
from cep.core.kernels import njit
from cep.core.prefetch import prefetch
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, rows
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Goal, Ints, Lasting
from cep.operators.goals.fluents.changes import (
    GrowingIntervals,
    PendingChanges,
    changes_against,
    clipped,
    decided,
    delay_of,
    due,
    held_in,
    in_order,
    put_changes,
    put_tuples,
    table_of,
    waiting_table,
)
from cep.operators.goals.heads import codes_of
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of
from cep.operators.goals.value_order import ValueOrder

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.supports import Extent, FormulaEvent, Projection

# Columns of a tuple: the number of its supports, and the time code since which it holds.
COUNT, SINCE = range(2)


@njit()
def counted(slots, code, begins, state):  # type: ignore[no-untyped-def]
    """Count the beginnings and ends of supports. They must be in order of codes, with beginnings first at equal codes.

    Return the changes of tuples, which begin to hold with their first support and stop with their last one. For each
    change, also return the code at which its tuple began. `state` must have room for all slots.
    """
    turns, since = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        before = state[slot, COUNT]
        if begins[i]:
            state[slot, COUNT] = before + 1
            if before > 0:
                continue
            state[slot, SINCE] = code[i]
        elif before > 0:
            state[slot, COUNT] = before - 1
            if before > 1:
                continue
        else:
            continue
        turns[count], since[count] = i, state[slot, SINCE]
        count += 1
    return turns[:count], since[:count]


@dataclass(frozen=True, slots=True)
class SupportsSpec:
    """Columns and options of a goal that counts supports.

    - `width`: the number of input columns. `take`: the columns that form the tuple. `codes`: the columns of pool codes.
    - `kind`: the column with the kind of change. If it is None, input rows are occurrences.
    - `within`: the maximum length of occurrences; longer ones are ignored.
    - `late`: the delay of the input in microseconds. `delay`: the delay of the output rows.
    - `wanted`: the kinds of a fluent's rows that another goal or the output reads; None for projections.
    - `closed`: a pair of kinds of change, or None. The first kind is replaced by the second: a beginning just after an
      instant becomes one at the instant, or an end just before an instant becomes one just after it.
    - `order`: the function that computes the order of arrival of a fluent's rows from the tuple; None for projections.
    """

    width: int
    take: tuple[int, ...]
    codes: tuple[int, ...]
    kind: int | None
    within: int | None
    late: int
    wanted: Ints | None = None
    delay: int = 0
    closed: tuple[int, int] | None = None
    order: ValueOrder | None = None


class SupportsStretches(InRounds):
    """Methods that evaluate a goal that counts supports over a stretch, in rounds.

    `state` has a row for each of `tuples`.
    """

    spec: SupportsSpec
    columns: Ints
    tuples: Keys
    state: Ints
    _taken: Ints
    _early: Ints | None

    @abstractmethod
    def _read_in(self, table: Table) -> Table:
        """Convert the input to changes of the tuples."""

    def bound(self, first: int) -> None:
        if first != self.holds_from:
            self.holds_from, self._early = first, None

    def _from_first(self, slots: Ints, code: Ints, begins: Ints, known: int) -> tuple[Ints, Ints, Ints]:
        """Adapt changes so that no tuple holds before the code `holds_from`. A tuple that has a support earlier begins
        to hold at `holds_from`."""
        before = (code < self.holds_from) | ((code == self.holds_from) & (begins == 0))
        if before.any():
            counted(slots[before], code[before], begins[before], self.state)
            slots, code, begins = slots[~before], code[~before], begins[~before]
            self._early = None
        if known < self.holds_from or not len(held := self._held_early()):
            return slots, code, begins
        # all their supports begin there, and are counted again
        counts = self.state[held, COUNT]
        self.state[held, COUNT] = 0
        self._early = held[:0]
        return (
            np.concatenate([np.repeat(held, counts), slots]),
            np.concatenate([np.full(int(counts.sum()), self.holds_from), code]),
            np.concatenate([np.ones(int(counts.sum()), np.int64), begins]),
        )

    def _held_early(self) -> Ints:
        """Return the tuples that have had a support since before `holds_from`."""
        if self._early is None:
            state = self.state[: self.tuples.count]
            self._early = np.flatnonzero((state[:, COUNT] > 0) & (state[:, SINCE] < self.holds_from))
        return self._early

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.lost = np.zeros(self.tuples.count, np.int32) if goes_on else None
        self.shrunk: list[Ints] = []
        self.stretch = (max(first, self.holds_from), last)
        self.grown, self.numbers = GrowingIntervals(), Keys(len(self.spec.take))

    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Return the tuples that lose a support.

        They are returned even if they have other supports, because these may depend on the tuple itself.
        """
        assert self.lost is not None, "what holds goes on"
        slots = self.tuples.slots(inputs[0], self._taken, insert=False, groups=True)
        slots = slots[slots >= 0]
        fresh = np.unique(slots)
        fresh = fresh[(self.lost[fresh] == 0) & (self.state[fresh, COUNT] > 0)]
        np.add.at(self.lost, slots, 1)
        self.shrunk.append(fresh)
        return self._through(fresh)

    def remaining(self) -> Table:
        """Return the tuples from `shrink` that have other supports."""
        assert self.lost is not None, "what holds goes on"
        slots = np.concatenate([*self.shrunk, np.empty(0, np.int64)])
        table = self._through(slots[self.state[slots, COUNT] > self.lost[slots]])
        if self.spec.wanted is None:
            return table
        key = self.numbers.slots(table, self.columns, groups=True)
        return table_of(self.grown.added(key, table[START], table[END]), self.numbers.known)

    def _through(self, slots: Ints) -> Table:
        start, end = (np.full(len(slots), code) for code in self.stretch)
        return table_of(Intervals(slots, start, end), self.tuples.known)

    def _new(self, table: Table) -> Table:
        """Drop the rows of tuples that hold through the whole stretch, because such rows add nothing."""
        if self.lost is None or not len(self.lost):
            return table
        slots = self.tuples.slots(table, self.columns, insert=False, groups=True)
        known = np.flatnonzero((slots >= 0) & (slots < len(self.lost)))
        goes_on = (self.state[slots[known], COUNT] > 0) & (self.lost[slots[known]] == 0)
        return np.delete(table, known[goes_on], axis=1) if goes_on.any() else table

    def grow(self, inputs: Sequence[Table]) -> Table:
        table = self._new(clipped(self._read_in(inputs[0]), *self.stretch))
        if self.stretch[0] > self.stretch[1]:
            table = table[:, :0]
        if self.spec.wanted is None:
            return table
        key = self.numbers.slots(table, self.columns, groups=True)
        return table_of(self.grown.added(key, table[START], table[END]), self.numbers.known)

    def settled(self) -> Table:
        """Return the changes of tuples that result from the rounds of this stretch."""
        if self.lost is None:
            held = self._held()
        else:
            held = self.tuples.known[np.concatenate([*self.shrunk, np.empty(0, np.int64)])]
        before = np.zeros((FIRST + held.shape[1], len(held)), np.int64)
        before[FIRST:] = held.T
        keys = self.numbers.slots(before, self.columns, groups=True)
        changes = changes_against(self.grown.all(), keys, *self.stretch)
        table = np.empty((FIRST + len(self.spec.take) + 1, len(changes.key)), np.int64)
        table[FIRST:-1] = self.numbers.known[changes.key].T
        put_changes(table, FIRST + len(self.spec.take), changes.code, changes.begins, self.spec.delay)
        return table

    def held(self, changes: Table, first: int, last: int) -> Table:
        return held_in(changes, self._held(), first, last)

    def _held(self) -> Ints:
        state = self.state[: self.tuples.count]
        return self.tuples.known[(state[:, COUNT] > 0) & (state[:, SINCE] >= self.holds_from)]


_OPENING, _CLOSING = [BEGINS, BEGINS_AT, BEFORE], [ENDS, ENDS_AT]
AHEAD = 16
"""The number of changes by which prefetching is ahead of processing."""


@inside
def _row(table, place, start, end, order, kind, known, slot):  # type: ignore[no-untyped-def]
    table[START, place], table[END, place], table[ORDER, place], table[IDENTITY, place] = start, end, order, 0
    for column in range(known.shape[1]):
        table[FIRST + column, place] = known[slot, column]
    table[FIRST + known.shape[1], place] = kind
    return place + 1


@bare
def _become(slots, code, begins, state, orders, wanted, known, delay, table):  # type: ignore[no-untyped-def]
    """Convert changes of supports to rows of a fluent in `table`, and return their count.

    Changes are in order of codes. At one code, beginnings come first. `wanted`: for each kind of row, True if it is
    written. `table` must have room for all rows, and `state` must have a row for each slot. `orders`: the order of
    arrival of a tuple's rows, by slot.
    """
    place = 0
    for i in range(len(slots)):
        if i + AHEAD < len(slots):
            prefetch(state, slots[i + AHEAD])
        slot, instant = slots[i], code[i]
        before = state[slot, COUNT]
        if begins[i]:
            state[slot, COUNT] = before + 1
            if before > 0:
                continue
            state[slot, SINCE] = instant
            ever = instant == -INFINITE
            start = SINCE_EVER if ever else instant >> 1
            kind = BEGINS if instant & 1 else BEGINS_AT
            if ever:
                kind = BEFORE
            if wanted[kind]:
                place = _row(table, place, start, start + delay, orders[slot, 0], kind, known, slot)
            if wanted[BEGINNING] and not ever:
                place = _row(table, place, start, start + delay, orders[slot, 0], BEGINNING, known, slot)
            continue
        if before == 0:
            continue
        state[slot, COUNT] = before - 1
        if before > 1:
            continue
        since = state[slot, SINCE]
        ever = since == -INFINITE
        start = SINCE_EVER if ever else since >> 1
        end = instant >> 1
        kind = ENDS if instant & 1 else ENDS_AT
        if wanted[kind]:
            place = _row(table, place, end, end + delay, orders[slot, 0], kind, known, slot)
        if wanted[ENDING]:
            place = _row(table, place, end, end + delay, orders[slot, 0], ENDING, known, slot)
        if wanted[WHOLE] and not ever:
            place = _row(table, place, start, end + delay, orders[slot, 0], WHOLE, known, slot)
        if wanted[HELD] and ever:
            place = _row(table, place, start, end + delay, orders[slot, 0], HELD, known, slot)
        if wanted[GIVEN]:
            bounds = (1 if since & 1 == 0 else 0) + (2 if instant & 1 else 0)
            place = _row(table, place, start, end + delay, bounds, GIVEN, known, slot)
    return place


class SupportsGoal(NumberedState, SupportsStretches, Lasting):
    """The goal of nodes that count the supports of tuples."""

    def __init__(self, spec: SupportsSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.columns, self._taken = np.arange(len(spec.take)), np.array(spec.take, np.int64)
        self.waiting = PendingChanges([len(spec.take) + 1], [len(spec.take)], [spec.late])
        self.late = spec.late
        self._as_given = spec.closed is None and (*spec.take, spec.kind) == tuple(range(spec.width))
        if spec.kind is not None:
            self._read_rows = np.array([*range(FIRST), *(FIRST + column for column in (*spec.take, spec.kind))])
        if spec.wanted is not None:
            self._opening = int(spec.wanted[_OPENING].max() + spec.wanted[BEGINNING])
            self._closing = int(
                spec.wanted[_CLOSING].max() + spec.wanted[[WHOLE, HELD]].max() + spec.wanted[[ENDING, GIVEN]].sum()
            )
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(len(self.spec.take))
        self.state = np.zeros((0, 2), np.int64)
        self.orders, self._ordered = np.zeros((0, 1), np.int64), 0
        self._early: Ints | None = None
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        ((table, code, begins),) = self.waiting.take([self._read_in(inputs[0])], frontier)
        slots, code, begins = in_order(self.tuples.slots(table, self.columns, groups=True), code, begins)
        self.state = filled_room(self.state, self.tuples.count, 0)
        if self.spec.order is not None and self._ordered < self.tuples.count:
            self.orders = filled_room(self.orders, self.tuples.count, 0)
            self.orders[self._ordered : self.tuples.count, 0] = self.spec.order(self.tuples.known[self._ordered :].T)
            self._ordered = self.tuples.count
        if self.holds_from > -INFINITE:
            slots, code, begins = self._from_first(slots, code, begins, decided(frontier, self.spec.late))
        if self.spec.wanted is not None:
            return self._given(slots, code, begins, self.spec.wanted)
        turns, _ = counted(slots, code, begins, self.state)
        return self._changes(slots[turns], code[turns], begins[turns])

    def _read_in(self, table: Table) -> Table:
        if self._as_given:
            return table
        spec, width = self.spec, len(self.spec.take)
        if spec.kind is not None:
            read_in: Table = table.take(self._read_rows, axis=0)
            if spec.closed is not None:
                was, is_ = spec.closed
                read_in[-1, read_in[-1] == was] = is_
            return read_in
        if spec.within is not None and rows(table):
            table = table.compress(table[END] - table[START] <= spec.within, axis=1)
        read_in = np.zeros((FIRST + width + 1, 2 * rows(table)), np.int64)
        code = np.concatenate([2 * table[START], 2 * table[END] + 1])
        own = table[FIRST + self._taken]
        read_in[FIRST:-1] = np.concatenate([own, own], axis=1)
        put_changes(read_in, FIRST + width, code, np.repeat(np.array([1, 0]), rows(table)))
        return read_in

    def _changes(self, slots: Ints, code: Ints, begins: Ints) -> Table:
        width = len(self.spec.take)
        table = np.empty((FIRST + width + 1, len(slots)), np.int64)
        put_tuples(table, FIRST, self.tuples.known, slots, 0)
        put_changes(table, FIRST + width, code, begins, self.spec.delay)
        return table

    def _given(self, slots: Ints, code: Ints, begins: Ints, wanted: Ints) -> Table:
        """Return the fluent's output rows for changes of its supports. `wanted`: for each kind of row, True if it is
        output."""
        room = self._closing * len(begins)
        if self._opening != self._closing:
            room += (self._opening - self._closing) * int(np.count_nonzero(begins))
        table = np.empty((FIRST + len(self.spec.take) + 1, room), np.int64)
        count = _become(
            slots, code, begins, self.state, self.orders, wanted, self.tuples.known, self.spec.delay, table
        )  # fmt: skip
        if count < room:
            table = np.ascontiguousarray(table[:, :count])
        table = by_arrival(table)
        if count and self.lineage is not None:
            self.lineage.name(table)
        return table

    def open(self, ended: bool = True) -> Table:
        slots = np.flatnonzero(self.state[: self.tuples.count, COUNT])
        since = self.state[slots, SINCE]
        table = np.zeros((FIRST + len(self.spec.take), len(slots)), np.int64)
        table[START] = np.where(since == -INFINITE, SINCE_EVER, since >> 1)
        table[END] = END_OF_TIME
        table[ORDER] = (since & 1) == 0
        table[FIRST:] = self.tuples.known[slots].T
        return table[:, np.lexsort((slots, table[START]))]

    def due(self) -> int | None:
        waits = self.waiting.due()
        if self.holds_from == -INFINITE or not len(self._held_early()):
            return waits
        begins = due(self.holds_from, self.spec.late)
        return begins if waits is None else min(waits, begins)

    def pending(self) -> int:
        return self.waiting.count

    def _numbers(self) -> int:
        return self.tuples.count

    # --- state ---

    def _state(self) -> Arrays:
        held = np.flatnonzero(self.state[: self.tuples.count, COUNT])
        (waiting,) = self.waiting.state()
        return {"tuples": self.tuples.known[held], "held": self.state[held], "waiting": waiting}

    def _tables(self) -> dict[str, StateTable]:
        spec, width = self.spec, len(self.spec.take)
        return {
            "tuples": StateTable(distinct=True, width=width, keyed=tuples_of("tuples", spec.take), codes=spec.codes),
            "held": StateTable(width=2, beside="tuples"),
            "waiting": waiting_table("waiting", width + 1, width, spec.codes, columns=spec.take),
        }

    def _become(self, state: Arrays) -> None:
        self._clear()
        self.tuples.become(state["tuples"].copy(), len(state["tuples"]))
        self.state = state["held"].copy()
        self.waiting.become([state["waiting"]])

    def codes(self) -> list[Ints]:
        (table,) = self.waiting.tables
        return [column for c in self.spec.codes for column in (self.tuples.known[:, c], table[FIRST + c])]

    @property
    def size(self) -> tuple[int, int]:
        held = int(np.count_nonzero(self.state[: self.tuples.count, COUNT]))
        return held + self.waiting.count, int(self.state.nbytes + self.orders.nbytes + self.tuples.nbytes)


def projection_of(node: Projection, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    if node.late >= FOREVER and builder.knowledge is not None:
        builder.knowledge.follow(node.late)  # a cycle run at the end of the input needs all versions
    closed = {None: None, "begin": (BEGINS, BEGINS_AT), "end": (ENDS_AT, ENDS)}[node.closed]
    spec = SupportsSpec(len(types), node.take, codes, node.kind, None, node.late, None, node.delay, closed)
    return SupportsGoal(spec, builder.lineage)


def formula_event_of(node: FormulaEvent, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    late = node.within or 0
    return SupportsGoal(SupportsSpec(len(types), node.take, codes, None, node.within, late), builder.lineage)


def extent_of(node: Extent, builder: GoalBuilder, number: int, kinds: Sequence[int]) -> Goal:
    """Return the goal of an Extent node.

    `number`: the node's number in the plan. `kinds`: the kinds of output rows that another goal or the output reads.
    """
    types = builder.types(node.child)
    wanted = np.zeros(KINDS, np.int64)
    wanted[list(kinds)] = 1
    take = tuple(range(node.width))
    spec = SupportsSpec(
        len(types), take, codes_of(types[: node.width]), node.width, None, node.late, wanted, delay_of(node.late),
        order=builder.order(number, types[: node.width]),
    )  # fmt: skip
    return SupportsGoal(spec, builder.lineage)
