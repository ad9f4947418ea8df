"""The goal of conditions on fluents at a past time. It stores the intervals in which each tuple held.

goal(L, F):  pairs each L = [a, b], which has a time t <= b, with the tuples of F that held at t

Ends of intervals are time codes, two per microsecond: the instant t is 2t, the gap after it 2t + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT
from cep.core.hashtable import MISSING
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, Table, contiguous, rows
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.operators.goals.checkpoint import ALL, Touched
from cep.operators.goals.contract import Arrays, Goal, Ints, demand
from cep.operators.goals.fluents.holding import HoldingGoal, HoldingSpec, in_turn, spec_of, widened
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.state_tables import StateTable

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.held_at import HeldAt

# Columns of an interval: first and last code, key, the previous interval of the key, tuple, name of its beginning.
BEGIN, LAST, KEY, OLDER, TUPLE, NAME = range(6)
CELLS = 6
OPEN = END_OF_TIME
"""The end code of an interval that has not ended."""


@njit()
def _absorb(edges, tuples, slots, kind_row, cells, count, newest, latest):  # type: ignore[no-untyped-def]
    """Add beginnings and ends to the stored intervals. Return the new number of intervals.

    `cells` must have room for one more interval per row.
    """
    for j in range(edges.shape[1]):
        slot, p, kind, time = slots[j], tuples[j], edges[kind_row, j], edges[END, j]
        if slot < 0:
            continue
        last = latest[p, 0]
        holds = last >= 0 and cells[last, LAST] == OPEN
        if (kind == BEGINS or kind == BEFORE or kind == BEGINS_AT) and not holds:
            first = 2 * time
            if kind == BEGINS:
                first += 1
            elif kind == BEFORE:
                first = BEGINNING
            cells[count, BEGIN], cells[count, LAST], cells[count, KEY] = first, OPEN, slot
            cells[count, OLDER], cells[count, TUPLE], cells[count, NAME] = newest[slot, 0], p, edges[IDENTITY, j]
            newest[slot, 0] = latest[p, 0] = count
            count += 1
        elif (kind == ENDS or kind == ENDS_AT) and holds:
            cells[last, LAST] = 2 * time if kind == ENDS else 2 * time - 1
    return count


@njit()
def _ask(left, slots, at_row, back, negated, single, cells, newest, pairs):  # type: ignore[no-untyped-def]
    """Find the tuples that held at the time of each left row. Return rows (left row, tuple, lineage handle), and their
    count.

    - `negated`: True to return instead the left rows for which no tuple held.
    - `single`: True if each key has one tuple, whose intervals are in order.
    - `pairs`: a buffer for the result, which is replaced by a larger one if needed.
    """
    paired = 0
    for i in range(left.shape[1]):
        time, end = left[at_row, i], left[END, i]
        if time == MISSING or (back >= 0 and time < end - back):
            continue
        code, met = 2 * time, False
        p = newest[slots[i], 0] if slots[i] >= 0 and time <= end else -1
        while p >= 0:
            if cells[p, BEGIN] <= code and code <= cells[p, LAST]:
                met = True
                if negated:
                    break
                if paired == pairs.shape[0]:
                    pairs = grow(pairs, paired + 1)
                pairs[paired, 0], pairs[paired, 1], pairs[paired, 2] = i, cells[p, TUPLE], cells[p, NAME]
                paired += 1
            p = -1 if single and cells[p, BEGIN] <= code else cells[p, OLDER]
        if negated and not met:
            if paired == pairs.shape[0]:
                pairs = grow(pairs, paired + 1)
            pairs[paired, 0], pairs[paired, 1], pairs[paired, 2] = i, -1, 0
            paired += 1
    return pairs, paired


@dataclass(frozen=True, slots=True)
class HeldAtSpec(HoldingSpec):
    """The specification of a condition at a past time.

    - `time_column`: the left column with the time.
    - `back`: the maximum number of microseconds by which this time may precede the end of the occurrence. It is None if
      there is no limit.
    - `single`: True if each key has one tuple.
    """

    time_column: int
    back: int | None
    single: bool


class HeldAtGoal(HoldingGoal):
    """The goal of one HeldAt node. Inputs: the left occurrences, and the beginnings and ends of the fluent."""

    spec: HeldAtSpec
    in_time = False
    watched = 1024
    """The number of stored intervals above which `evict` drops those that are not needed."""

    def _begin(self) -> None:
        self.ahead.known = None
        self.keys = Keys(len(self.spec.right_key))
        self.tuples = Keys(len(self.columns))
        self.cells = np.zeros((0, CELLS), np.int64)
        self.count = 0
        self.newest = np.full((0, 1), -1, np.int64)
        self.latest = np.full((0, 1), -1, np.int64)

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched:
        """See `cep.operators.goals.checkpoint`. An end changes the latest interval of its tuple."""
        _, slots, tuples = self.ahead.look(inputs[1])
        latest = self.latest[tuples, 0]
        return {"count": ALL, "newest": slots[slots >= 0], "latest": tuples, "cells": latest[latest >= 0]}

    def _edges(self, table: Table) -> tuple[Table, Ints, Ints]:
        right = in_turn(table, self.spec.kind)
        slots = self.keys.slots(right, self.right_key)
        tuples = self.tuples.slots(right, self.columns, groups=True)
        self._room(self.count + rows(right))
        return right, slots, tuples

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        left, spec = contiguous(inputs[0]), self.spec
        right, slots, tuples = self.ahead.take(inputs[1])
        if rows(right):
            self.count = _absorb(
                right, tuples, slots, FIRST + spec.kind, self.cells, self.count, self.newest, self.latest
            )
        back = -1 if spec.back is None else spec.back
        pairs, paired = _ask(
            left, self.keys.slots(left, self.left_key, insert=False), FIRST + spec.time_column, back,
            spec.negated, spec.single,
            self.cells, self.newest, np.empty((rows(left), 3), np.int64),
        )  # fmt: skip
        return self._paired(left, pairs[:paired])

    def _room(self, count: int) -> None:
        self.cells = filled_room(self.cells, count, 0)
        self.newest = filled_room(self.newest, self.keys.count, -1)
        self.latest = filled_room(self.latest, self.tuples.count, -1)

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        held = max(self.count, self.tuples.count, self.keys.count)
        if not wholly and held <= self.watched:
            return
        state = self._state()
        if self.spec.back is not None:
            asked = max(frontier.stable - self.spec.back, BEGINNING // 2)
            kept = state["spans"][:, 1] >= 2 * min(asked, END_OF_TIME // 2)
            state = {name: array[kept] for name, array in state.items()}
        self._become(state)
        self.watched = max(1024, 2 * self.count)

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        self.evict(frontier, wholly=True)
        return self._state()

    def _numbers(self) -> int:
        return max(self.count, self.tuples.count, self.keys.count)

    # --- state ---

    def _state(self) -> Arrays:
        cells = self.cells[: self.count]
        return {
            "tuples": self.tuples.known[cells[:, TUPLE]],
            "keys": self.keys.known[cells[:, KEY]],
            "spans": cells[:, [BEGIN, LAST]],
            "names": cells[:, [NAME]],
        }

    def _tables(self) -> dict[str, StateTable]:
        spans = StateTable(width=2, beside="tuples", ranges=dict.fromkeys((0, 1), (BEGINNING, OPEN + 1)))
        tables = super()._tables()
        return {"tuples": tables["tuples"], "keys": tables["keys"], "spans": spans, "names": tables["names"]}

    def _become(self, state: Arrays) -> None:
        self._begin()
        count = len(state["spans"])
        table = np.zeros((FIRST + self.spec.right_width, count), np.int64)
        table[FIRST + self.columns] = state["tuples"].T
        table[FIRST + self.right_key] = state["keys"].T
        slots = self.keys.slots(table, self.right_key)
        demand(not count or int(slots.min()) >= 0)
        tuples = self.tuples.slots(table, self.columns, groups=True)
        self._room(count)
        cells = self.cells[:count]
        cells[:, BEGIN : LAST + 1], cells[:, [NAME]] = state["spans"], state["names"]
        cells[:, KEY], cells[:, TUPLE] = slots, tuples
        cells[:, OLDER] = _before(slots)
        numbers = np.arange(count)
        self.newest[slots, 0] = numbers
        self.latest[tuples, 0] = numbers
        self.count = count

    def names(self) -> list[Ints]:
        return [self.cells[: self.count, NAME]]

    @property
    def size(self) -> tuple[int, int]:
        arrays = (self.cells, self.newest, self.latest, self.keys, self.tuples)
        return self.count, sum(int(array.nbytes) for array in arrays)


def _before(slots: Ints) -> Ints:
    """Return, for each element, the position of the previous element with the same slot, or -1."""
    order = np.argsort(slots, kind="stable")
    before = np.full(len(slots), -1, np.int64)
    same = slots[order][1:] == slots[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def held_at_of(node: HeldAt, builder: GoalBuilder) -> Goal:
    spec, added, types = spec_of(node, builder)
    single = {other for _, other in node.key} | {node.kind} == set(range(len(types[1])))
    common = {field.name: getattr(spec, field.name) for field in fields(spec)}
    held_spec = HeldAtSpec(**common, time_column=node.time_column, back=node.back, single=single)
    return widened(HeldAtGoal(held_spec, builder.lineage), added, types)
