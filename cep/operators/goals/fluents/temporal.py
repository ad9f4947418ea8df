"""The goal of temporal operators. It numbers the tuples of its inputs for the evaluation (`TemporalEvaluation`), which
proceeds in stretches, that is, ranges of time codes.

    goal(P) or goal(P, Q):  returns the beginnings and ends of each tuple's results
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.interval_sets import INFINITE, Intervals, Reach
from cep.core.metric_operators import TEMPORAL
from cep.core.relation import END, FIRST, START, Table, empty
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    WaitingRows,
)
from cep.operators.goals.fluents.changes import (
    GrowingIntervals,
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
from cep.operators.goals.fluents.temporal_evaluation import TemporalEvaluation
from cep.operators.goals.heads import codes_of, project
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of
from cep.rules.expressions.evaluate import Evaluation

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.temporal import Temporal

_WAITING = 2
"""The column with the number of stored intervals, in the array of per-tuple state."""


@dataclass(frozen=True, slots=True)
class TemporalSpec:
    """The operator of a TemporalGoal, and the columns of its inputs.

    - `by`: the range of displacements in time over which the operator looks, or None for LASTING.
    - `least`: the minimum length of the intervals that LASTING selects, in microseconds.
    - `widths`: the number of columns of each input.
    - `take`: for each input, the columns of the tuple, then the column with the kind of change.
    - `lates`: the delay of each input in microseconds. At watermark w, the changes of an input up to w minus its delay
      are known.
    - `codes`: the columns of the tuple with pool codes.
    - `converted`: for each input, the evaluations that convert its columns to types that all inputs share. It is None
      if its columns already have these types.
    """

    operator: str
    by: Reach | None
    least: int
    widths: tuple[int, ...]
    take: tuple[tuple[int, ...], ...]
    lates: tuple[int, ...]
    codes: tuple[int, ...]
    converted: tuple[tuple[Evaluation, ...] | None, ...]
    types: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        return len(self.take[0]) - 1


class TemporalGoal(NumberedState, InRounds):
    timed = True

    def __init__(self, spec: TemporalSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        inputs = len(spec.take)
        self.columns = np.arange(spec.width)
        self.waiting = PendingChanges([spec.width + 1] * inputs, [spec.width] * inputs, spec.lates)
        self.evaluation = TemporalEvaluation(spec.operator, spec.by, spec.least)
        self.ahead = TEMPORAL[spec.operator].ahead
        self.endless = self.ahead and spec.by is not None and spec.by.high == INFINITE
        self.tuples = Keys(spec.width)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        return self._up_to(inputs, frontier, None)

    def look_ahead(self, frontier: Frontier, ahead: Frontier) -> Table:
        nothing = [empty(width) for width in self.spec.widths]
        return self._up_to(nothing, frontier, decided(ahead, self.waiting.late))

    def _up_to(self, inputs: Sequence[Table], frontier: Frontier, ahead: int | None) -> Table:
        taken = self.waiting.take([self._read_in(n, table) for n, table in enumerate(inputs)], frontier)
        changes = []
        for table, code, begins in taken:
            changes.append(in_order(self.tuples.slots(table, self.columns, groups=True), code, begins))
        until = max(decided(frontier, self.waiting.late), self.evaluation.decided)
        evaluated, _ = self.evaluation.step(changes, until, ahead)
        if not len(evaluated.key):
            return empty(self.spec.width + 1)
        table = np.empty((FIRST + self.spec.width + 1, len(evaluated.key)), np.int64)
        put_tuples(table, FIRST, self.tuples.known, evaluated.key, 0)
        put_changes(table, FIRST + self.spec.width, evaluated.code, evaluated.begins)
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def _read_in(self, number: int, table: Table) -> Table:
        convert = self.spec.converted[number]
        if convert is not None:
            return project(table, self.spec.types[number], convert)
        take = self.spec.take[number]
        if take == tuple(range(self.spec.widths[number])):
            return table
        return table[[*range(FIRST), *(FIRST + column for column in take)]]

    # --- in a recursion ---

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.stretch = (first, last)
        self.grown = [GrowingIntervals() for _ in self.spec.take]
        self.found = GrowingIntervals()
        self.opened = False
        count = self.tuples.count if goes_on else 0
        self.goes_on = goes_on
        self.lost = [np.zeros(count, np.bool_) for _ in self.spec.take]
        """For each input, a mask of the tuples that the input has lost in the current stretch."""
        self.stopped = np.zeros(count, np.bool_)
        self.known = np.zeros(count, np.bool_)
        """A mask of the tuples whose intervals `_going_on` has already extended through the current stretch."""

    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Return the results that may end in the stretch.

        A result may end because time passes, or because an input has lost the tuple of this result.
        """
        touched = [np.empty(0, np.int64)]
        if not self.opened:
            touched, self.opened = [self._changing()], True
        for number, (table, lost) in enumerate(zip(inputs, self.lost)):
            slots = self.tuples.slots(self._read_in(number, table), self.columns, insert=False, groups=True)
            slots = slots[(slots >= 0) & (slots < len(lost))]
            lost[slots] = True
            touched.append(slots)
        keys = np.unique(np.concatenate(touched))
        keys = keys[self.evaluation.holding(keys) & ~self.stopped[keys]]
        self.stopped[keys] = True
        start, end = (np.full(len(keys), code) for code in self.stretch)
        return table_of(Intervals(keys, start, end), self.tuples.known)

    def _changing(self) -> Ints:
        keys = self.evaluation.changing(self.stretch[1])
        return keys[keys < len(self.stopped)]

    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return the results that follow from new intervals of the inputs.

        The first round evaluates all stored tuples or, if this stretch continues the previous one, only those whose
        results may change because time passes or an input has lost the tuple. Later rounds evaluate the tuples that
        have new input intervals.
        """
        changed = [np.empty(0, np.int64)]
        if not self.goes_on:
            changed += [] if self.opened else [self.evaluation.kept()]
            self.opened = True
        elif not self.known.any():
            changed += [self._changing(), np.flatnonzero(np.logical_or.reduce([self.stopped, *self.lost]))]
        for number, table in enumerate(inputs):
            table = self._read_in(number, table)
            slots = self.tuples.slots(table, self.columns, groups=True)
            changed.append(self.grown[number].added(slots, table[START], table[END]).key)
        keys = np.unique(np.concatenate(changed))
        self._going_on(keys)
        evaluated = self.evaluation.ahead(keys, [side.of(keys) for side in self.grown], *self.stretch)
        fresh = self.found.added(keys[evaluated.key], evaluated.start, evaluated.end)
        if self.goes_on:  # drop results that continue anyway
            old = fresh.key < len(self.stopped)
            old[old] = self.evaluation.holding(fresh.key[old]) & ~self.stopped[fresh.key[old]]
            fresh = Intervals(fresh.key[~old], fresh.start[~old], fresh.end[~old])
        return table_of(fresh, self.tuples.known)

    def _going_on(self, keys: Ints) -> None:
        """Extend the intervals of the tuples `keys` through the whole stretch.

        An input is skipped for a tuple if the tuple does not hold in it, or if the input has lost the tuple.
        """
        keys = keys[keys < len(self.known)]
        keys = keys[~self.known[keys]]
        self.known[keys] = True
        for number, lost in enumerate(self.lost):
            mine = keys[self.evaluation.holding(keys, number) & ~lost[keys]]
            start, end = (np.full(len(mine), code) for code in self.stretch)
            self.grown[number].added(mine, start, end)

    def held(self, changes: Table, first: int, last: int) -> Table:
        return held_in(changes, self.tuples.known[self.evaluation.begun()], first, last)

    def next_change(self) -> int:
        return self.evaluation.next_change()

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """Return the stored tuples that will lead to further results as time passes, even if no input changes.

        See `cep.operators.goals.contract`. The result is empty for operators that look ahead.
        """
        key, since, until = self.evaluation.to_come()
        arguments = np.zeros((width, len(key)), np.int64)
        take = self.spec.take[side][:-1]
        if self.ahead or self.spec.converted[side] is not None or any(column >= width for column in take):
            key, arguments = key[:0], arguments[:, :0]
        arguments[list(take)] = self.tuples.known[key].T
        since, until = since[: len(key)], until[: len(key)]
        return WaitingRows(since, since, arguments, until, np.zeros(len(key), np.int64))

    def due(self) -> int | None:
        times = [] if (waits := self.waiting.due()) is None else [waits]
        code = self.evaluation.due()
        if code is not None:
            times.append(due(code, self.waiting.late))
        elif self.endless and self.evaluation.decided < INFINITE and len(self.evaluation.kept()):
            times.append(END_OF_TIME)
        return min(times) if times else None

    def pending(self) -> int:
        return self.waiting.count + 2 * self.evaluation.rows

    def _numbers(self) -> int:
        return self.tuples.count

    # --- state ---

    def _state(self) -> Arrays:
        kept = self.evaluation.snapshot()
        arrays = {
            "tuples": self.tuples.known[kept["key"]],
            "cells": kept["cells"],
            "intervals": kept["intervals"],
            "decided": kept["decided"].reshape(1, 2),
        }
        return arrays | {f"waiting{n}": array for n, array in enumerate(self.waiting.state())}

    def _tables(self) -> dict[str, StateTable]:
        spec, width = self.spec, self.spec.width
        tables = {
            "tuples": StateTable(
                distinct=True, width=width, keyed=tuples_of("tuples", spec.take[0][:-1]), codes=spec.codes
            ),
            "cells": StateTable(width=3, beside="tuples"),
            "intervals": StateTable(width=2, counted=("cells", _WAITING)),
            "decided": StateTable(width=2, clock=True),
        }
        for n, take in enumerate(spec.take):
            name = f"waiting{n}"
            tables[name] = waiting_table(name, width + 1, width, spec.codes, n, take[:-1])
        return tables

    def _become(self, state: Arrays) -> None:
        count = len(state["tuples"])
        self.tuples = Keys(self.spec.width)
        self.tuples.become(state["tuples"].copy(), count)
        kept = {"key": np.arange(count), "cells": state["cells"], "intervals": state["intervals"]}
        self.evaluation.restore(kept | {"decided": state["decided"][0]})
        self.waiting.become([state[f"waiting{n}"] for n in range(len(self.spec.take))])

    def codes(self) -> list[Ints]:
        tables = [self.tuples.known.T, *(table[FIRST:] for table in self.waiting.tables)]
        return [table[column] for column in self.spec.codes for table in tables]

    @property
    def size(self) -> tuple[int, int]:
        return self.evaluation.rows + self.waiting.count, int(self.evaluation.nbytes + self.tuples.nbytes)


def temporal_of(node: Temporal, builder: GoalBuilder, number: int) -> Goal:
    wanted = builder.types(number)
    types = [builder.types(part) for part in node.parts]
    converted: list[tuple[Evaluation, ...] | None] = []
    for own, take in zip(types, node.take):
        if [own[column] for column in take] == wanted:
            converted.append(None)
        else:
            pairs = zip(take, wanted, strict=True)
            converted.append(tuple(builder.converted(f"v{column}", own[column], type) for column, type in pairs))
    spec = TemporalSpec(
        node.operator,
        node.by,
        node.least,
        tuple(map(len, types)),
        node.take,
        node.lates,
        codes_of(wanted[:-1]),
        tuple(converted),
        tuple(map(tuple, types)),
    )
    return TemporalGoal(spec, builder.lineage)
