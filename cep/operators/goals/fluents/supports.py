"""Supports: tuples hold while one of several things supports them, which is counted.

goal(F):  of F's tuples the columns chosen, each while any tuple with them holds; `extent`: as what becomes of a fluent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

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
    KINDS,
    SINCE_EVER,
    WHOLE,
)
from cep.core.interval_sets import INFINITE
from cep.core.prefetch import prefetch
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, rows
from cep.core.room import filled_room
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.coded_columns import codes_of
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    Lasting,
)
from cep.operators.goals.fluents.change_tables import (
    PendingChanges,
    decided,
    delay_of,
    due,
    put_changes,
    put_tuples,
    waiting_table,
)
from cep.operators.goals.fluents.changes import in_order
from cep.operators.goals.fluents.supports_stretches import COUNT, SINCE, SupportsSpec, SupportsStretches, counted
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.supports import Extent, FormulaEvent, Projection

_OPENING, _CLOSING = [BEGINS, BEGINS_AT, BEFORE], [ENDS, ENDS_AT]
AHEAD = 16
"""Changes: so far ahead the state of a tuple is asked for."""


@inside
def _row(table, place, start, end, order, kind, known, slot):  # type: ignore[no-untyped-def]
    table[START, place], table[END, place], table[ORDER, place], table[IDENTITY, place] = start, end, order, 0
    for column in range(known.shape[1]):
        table[FIRST + column, place] = known[slot, column]
    table[FIRST + known.shape[1], place] = kind
    return place + 1


@bare
def _become(slots, code, begins, state, wanted, known, delay, table):  # type: ignore[no-untyped-def]
    """What becomes of a fluent by changes of what supports its tuples, in order, at one code those that begin first:
    rows of the kinds `wanted`, into `table`, and how many. It has room for all that changes which begin can make, and
    those which end; `state` has a row for each slot."""
    place = 0
    for i in range(len(slots)):
        if i + AHEAD < len(slots):
            prefetch(state, slots[i + AHEAD])
        slot, at = slots[i], code[i]
        before = state[slot, COUNT]
        if begins[i]:
            state[slot, COUNT] = before + 1
            if before > 0:
                continue
            state[slot, SINCE] = at
            ever = at == -INFINITE
            start = SINCE_EVER if ever else at >> 1
            kind = BEGINS if at & 1 else BEGINS_AT
            if ever:
                kind = BEFORE
            if wanted[kind]:
                place = _row(table, place, start, start + delay, 0, kind, known, slot)
            if wanted[BEGINNING] and not ever:
                place = _row(table, place, start, start + delay, 0, BEGINNING, known, slot)
            continue
        if before == 0:
            continue
        state[slot, COUNT] = before - 1
        if before > 1:
            continue
        since = state[slot, SINCE]
        ever = since == -INFINITE
        start = SINCE_EVER if ever else since >> 1
        end = at >> 1
        kind = ENDS if at & 1 else ENDS_AT
        if wanted[kind]:
            place = _row(table, place, end, end + delay, 0, kind, known, slot)
        if wanted[ENDING]:
            place = _row(table, place, end, end + delay, 0, ENDING, known, slot)
        if wanted[WHOLE] and not ever:
            place = _row(table, place, start, end + delay, 0, WHOLE, known, slot)
        if wanted[GIVEN]:
            bounds = (1 if since & 1 == 0 else 0) + (2 if at & 1 else 0)
            place = _row(table, place, start, end + delay, bounds, GIVEN, known, slot)
    return place


class SupportsGoal(NumberedState, SupportsStretches, Lasting):
    """The goal of nodes whose tuples are counted."""

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
            self._closing = int(spec.wanted[_CLOSING].max() + spec.wanted[[ENDING, WHOLE, GIVEN]].sum())
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(len(self.spec.take))
        self.state = np.zeros((0, 2), np.int64)
        self._early: Ints | None = None
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        ((table, code, begins),) = self.waiting.take([self._read_in(inputs[0])], frontier)
        slots, code, begins = in_order(self.tuples.slots(table, self.columns, True, True), code, begins)
        self.state = filled_room(self.state, self.tuples.count, 0)
        if self.holds_from > -INFINITE:
            slots, code, begins = self._from_first(slots, code, begins, decided(frontier, self.spec.late))
        if self.spec.wanted is not None:
            return self._given(slots, code, begins, self.spec.wanted)
        turns, _ = counted(slots, code, begins, self.state)
        return self._changes(slots[turns], code[turns], begins[turns])

    def _read_in(self, table: Table) -> Table:
        """The input as changes of the tuples."""
        if self._as_given:
            return table
        spec, width = self.spec, len(self.spec.take)
        if spec.kind is not None:
            made: Table = table.take(self._read_rows, axis=0)
            if spec.closed is not None:
                was, is_ = spec.closed
                made[-1, made[-1] == was] = is_
            return made
        if spec.within is not None and rows(table):
            table = table[:, table[END] - table[START] <= spec.within]
        made = np.zeros((FIRST + width + 1, 2 * rows(table)), np.int64)
        code = np.concatenate([2 * table[START], 2 * table[END] + 1])
        own = table[FIRST + self._taken]
        made[FIRST:-1] = np.concatenate([own, own], axis=1)
        put_changes(made, FIRST + width, code, np.repeat(np.array([1, 0]), rows(table)))
        return made

    def _changes(self, slots: Ints, code: Ints, begins: Ints) -> Table:
        width = len(self.spec.take)
        made = np.empty((FIRST + width + 1, len(slots)), np.int64)
        put_tuples(made, FIRST, self.tuples.known, slots, 0)
        put_changes(made, FIRST + width, code, begins, self.spec.delay)
        return made

    def _given(self, slots: Ints, code: Ints, begins: Ints, wanted: Ints) -> Table:
        """What becomes of a fluent."""
        room = self._closing * len(begins)
        if self._opening != self._closing:
            room += (self._opening - self._closing) * int(np.count_nonzero(begins))
        made = np.empty((FIRST + len(self.spec.take) + 1, room), np.int64)
        count = _become(slots, code, begins, self.state, wanted, self.tuples.known, self.spec.delay, made)
        if count < room:
            made = np.ascontiguousarray(made[:, :count])
        if count and self.lineage is not None:
            self.lineage.name(made)
        return made

    def open(self, ended: bool = True) -> Table:
        """What still holds: its intervals, with an end after every time."""
        slots = np.flatnonzero(self.state[: self.tuples.count, COUNT])
        since = self.state[slots, SINCE]
        made = np.zeros((FIRST + len(self.spec.take), len(slots)), np.int64)
        made[START] = np.where(since == -INFINITE, SINCE_EVER, since >> 1)
        made[END] = END_OF_TIME
        made[ORDER] = (since & 1) == 0
        made[FIRST:] = self.tuples.known[slots].T
        return made[:, np.lexsort((slots, made[START]))]

    def due(self) -> int | None:
        found = self.waiting.due()
        if self.holds_from == -INFINITE or not len(self._held_early()):
            return found
        begins = due(self.holds_from, self.spec.late)
        return begins if found is None else min(found, begins)

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
        return [each for c in self.spec.codes for each in (self.tuples.known[:, c], table[FIRST + c])]

    @property
    def size(self) -> tuple[int, int]:
        held = int(np.count_nonzero(self.state[: self.tuples.count, COUNT]))
        return held + self.waiting.count, int(self.state.nbytes + self.tuples.nbytes)


def projection_of(node: Projection, builder: GoalBuilder) -> Goal:
    """The goal of a node that leaves columns of a formula out."""
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    if node.late >= FOREVER and builder.knowledge is not None:
        builder.knowledge.follow(node.late)  # a cycle that runs at the end of the input asks what was known then
    closed = {None: None, "begin": (BEGINS, BEGINS_AT), "end": (ENDS_AT, ENDS)}[node.closed]
    spec = SupportsSpec(len(types), node.take, codes, node.kind, None, node.late, None, node.delay, closed)
    return SupportsGoal(spec, builder.lineage)


def formula_event_of(node: FormulaEvent, builder: GoalBuilder) -> Goal:
    """The goal of a node of events in a formula."""
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    late = node.within or 0
    return SupportsGoal(SupportsSpec(len(types), node.take, codes, None, node.within, late), builder.lineage)


def extent_of(node: Extent, builder: GoalBuilder, kinds: Sequence[int]) -> Goal:
    """The goal of a node of a fluent, of whose rows somebody reads those of these kinds."""
    types = builder.types(node.child)
    wanted = np.zeros(KINDS, np.int64)
    wanted[list(kinds)] = 1
    take = tuple(range(node.width))
    spec = SupportsSpec(
        len(types), take, codes_of(types[: node.width]), node.width, None, node.late, wanted, delay_of(node.late)
    )
    return SupportsGoal(spec, builder.lineage)
