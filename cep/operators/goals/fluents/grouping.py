"""The goal of aggregates of formulas. After each change, it aggregates the tuples of the group that hold now.

goal(P):  when tuples of a group begin or end, ends the group's old results and begins new ones

Counts, and sums of integers, are updated. Other aggregates are computed again from all tuples of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.kernels import njit
from cep.core.relation import FIRST, Table, bits, empty
from cep.core.schema import CODED
from cep.core.stable_order import stable_order
from cep.core.time import Frontier
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
)
from cep.operators.goals.fluents.changes import PendingChanges, put_changes, waiting_table
from cep.operators.goals.fluents.conjunction import AFTER, CELLS, HEAD, HOLDS, TURN, link, unlink
from cep.operators.goals.heads import codes_of
from cep.operators.goals.intrinsics import as_bits, as_float
from cep.operators.goals.keys import MISSING, NAN, Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of
from cep.operators.goals.windows import partial_aggregates, slopes_and_percentiles
from cep.operators.goals.windows.order_labels import Labels
from cep.operators.goals.windows.sliding_aggregate import results_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.grouping import Grouping

# Columns of a group: the number of tuples that hold, 1 if it has results; then, per result, three words and its value.
SIZE, THERE = range(2)
WORDS = 4


@njit()
def _kept(kind):  # type: ignore[no-untyped-def]
    """Return True if an aggregate of this kind can be updated when a value is removed."""
    return (
        kind == partial_aggregates.COUNT
        or kind == partial_aggregates.COUNT_VALUES
        or kind == partial_aggregates.SUM_INT
    )


@njit()
def _ranked(kind, parameter, values):  # type: ignore[no-untyped-def]
    """Return the result of a function that reads sorted values: the number of distinct values, or a quantile."""
    count = len(values)
    if kind == partial_aggregates.DISTINCT:
        kinds = 0
        for i in range(count):
            if i == 0 or values[i] != values[i - 1]:
                kinds += 1
        return kinds
    if count == 0:
        return NAN
    floats = np.empty(count, np.float64)
    for i in range(count):
        floats[i] = as_float(values[i])
    floats = np.sort(floats)
    place = (count - 1) * (0.5 if kind == slopes_and_percentiles.MEDIAN else parameter / 100.0)
    rank = int(np.floor(place))
    low, share = floats[rank], place - rank
    if share <= 0.0 or rank == count - 1:
        return as_bits(low + 0.0)
    high = floats[rank + 1]
    if kind == slopes_and_percentiles.MEDIAN:
        return as_bits((low + high) / 2.0 + 0.0)
    return as_bits(low + (high - low) * share + 0.0)


@njit()
def _most_often(k, head, size, state, values, ranks):  # type: ignore[no-untyped-def]
    """Return the most frequent value of a group. Of equally frequent values, return the one that has the least rank."""
    picked, rank = np.empty(size, np.int64), np.empty(size, np.int64)
    count, p = 0, head
    while p >= 0:
        if partial_aggregates.lift(slopes_and_percentiles.MODE, values[p, k]):
            picked[count], rank[count] = values[p, k], ranks[p, k]
            count += 1
        p = state[p, AFTER]
    ordered = np.sort(rank[:count])
    best, most, run = 0, 0, 0
    for i in range(count):
        run = run + 1 if i and ordered[i] == ordered[i - 1] else 1
        if run > most:
            best, most = ordered[i], run
    for i in range(count):
        if rank[i] == best:
            return picked[i]
    return MISSING


@njit()
def _result(kind, parameter, k, head, size, state, values, ranks):  # type: ignore[no-untyped-def]
    """Return the bits of one result of a group.

    `k`: the number of the result. `head`: the first tuple in the group's chain. `size`: the number of tuples.
    """
    if kind == slopes_and_percentiles.MODE or kind == slopes_and_percentiles.MODE_FLOAT:
        best = _most_often(k, head, size, state, values, ranks)
        return NAN if kind == slopes_and_percentiles.MODE_FLOAT and best == MISSING else best
    if (
        kind == partial_aggregates.DISTINCT
        or kind == slopes_and_percentiles.MEDIAN
        or kind == slopes_and_percentiles.PERCENTILE
    ):
        picked = np.empty(size, np.int64)
        count, p = 0, head
        while p >= 0:
            if partial_aggregates.lift(kind, values[p, k]):
                picked[count] = values[p, k]
                count += 1
            p = state[p, AFTER]
        return _ranked(kind, parameter, np.sort(picked[:count]))
    n, x, y, p = 0, 0, 0, head
    while p >= 0:
        n, x, y = partial_aggregates.combine(
            kind, n, x, y, partial_aggregates.lift(kind, values[p, k]), values[p, k], 0
        )
        p = state[p, AFTER]
    return partial_aggregates.outcome(kind, n, x, y)


@njit()
def _regroup(  # type: ignore[no-untyped-def]
    order, slots, code, begins, tuples, kinds, parameters, turn, state, chains, groups, values, ranks
):
    """Process changes, ordered by group, then by code. Return the changes of results, and their count.

    A change is a row (group, code, 1 for a beginning, results). There are at most two per group and code. The arrays
    must have room for all tuples and groups. `ranks` is only used for modes.
    """
    many = len(kinds)
    told = np.empty((2 * len(order), 3 + many), np.int64)
    fresh = np.empty(many, np.int64)
    count = position = 0
    while position < len(order):
        slot, now = slots[order[position]], code[order[position]]
        while position < len(order) and slots[order[position]] == slot and code[order[position]] == now:
            i = order[position]
            p, begun = tuples[i], begins[i]
            position += 1
            if begun == state[p, HOLDS]:
                continue
            if begun:
                link(state, chains, p, slot, turn + position)
            else:
                unlink(state, chains, p, slot)
            groups[slot, SIZE] += 1 if begun else -1
            for k in range(many):
                if _kept(kinds[k]) and partial_aggregates.lift(kinds[k], values[p, k]):
                    word = 2 + WORDS * k
                    n, x, y = groups[slot, word], groups[slot, word + 1], groups[slot, word + 2]
                    value = values[p, k] if begun else -values[p, k]
                    _, x, y = partial_aggregates.combine(kinds[k], n, x, y, 1, value, 0)
                    groups[slot, word], groups[slot, word + 1] = n + (1 if begun else -1), x
                    groups[slot, word + 2] = y
        size = groups[slot, SIZE]
        same = (size > 0) == (groups[slot, THERE] == 1)
        for k in range(many) if size > 0 else range(0):
            word = 2 + WORDS * k
            if _kept(kinds[k]):
                fresh[k] = partial_aggregates.outcome(
                    kinds[k], groups[slot, word], groups[slot, word + 1], groups[slot, word + 2]
                )
            else:
                fresh[k] = _result(kinds[k], parameters[k], k, chains[slot, HEAD], size, state, values, ranks)
            same = same and fresh[k] == groups[slot, word + 3]
        if same:
            continue
        if groups[slot, THERE]:
            told[count, 0], told[count, 1], told[count, 2] = slot, now, 0
            for k in range(many):
                told[count, 3 + k] = groups[slot, 2 + WORDS * k + 3]
            count += 1
        groups[slot, THERE] = 1 if size > 0 else 0
        if size > 0:
            told[count, 0], told[count, 1], told[count, 2] = slot, now, 1
            for k in range(many):
                told[count, 3 + k] = fresh[k]
                groups[slot, 2 + WORDS * k + 3] = fresh[k]
            count += 1
    return told, count


@dataclass(frozen=True, slots=True)
class GroupingSpec:
    """Columns and functions of an aggregate over the tuples of a formula.

    - `width`: the number of input columns. `kind`: the column with the kind of change.
    - `by`: the columns of the group. `codes`: the columns of pool codes.
    - `late`: the delay of the input in microseconds.
    - `kinds`: the function of each result. `parameters`: the parameter of each function, 0 if it has none.
    - `values`: a function that computes the functions' arguments from a table, as bits, one row per result.
    - `labelled`: the results that are modes of pool codes. Their values sort by order labels.
    """

    width: int
    by: tuple[int, ...]
    kind: int
    late: int
    codes: tuple[int, ...]
    kinds: tuple[int, ...]
    parameters: tuple[float, ...]
    values: Callable[[Table], Ints]
    labelled: tuple[int, ...] = ()


class GroupingGoal(NumberedState):
    def __init__(self, spec: GroupingSpec, labels: Callable[[], Labels], lineage: Lineage | None = None) -> None:
        self.spec, self.new_labels, self.lineage = spec, labels, lineage
        self.modes = [
            k
            for k, kind in enumerate(spec.kinds)
            if kind in (slopes_and_percentiles.MODE, slopes_and_percentiles.MODE_FLOAT)
        ]
        self.columns = np.array([c for c in range(spec.width) if c != spec.kind], np.int64)
        self.by = np.array(spec.by, np.int64)
        self.kinds, self.parameters = np.array(spec.kinds, np.int64), np.array(spec.parameters, np.float64)
        self.waiting = PendingChanges([spec.width], [spec.kind], [spec.late])
        self._clear()

    def _clear(self) -> None:
        many = len(self.kinds)
        self.tuples, self.keys = Keys(len(self.columns)), Keys(len(self.by))
        self.state, self.values = np.zeros((0, CELLS), np.int64), np.zeros((0, many), np.int64)
        self.ranks = np.zeros((0, many), np.int64)
        self.labels = {k: self.new_labels() for k in self.spec.labelled}
        self.chains = np.full((0, 2), -1, np.int64)
        self.groups = np.zeros((0, 2 + WORDS * many), np.int64)
        self.turn = 0
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        ((table, code, begins),) = self.waiting.take(inputs, frontier)
        return self._rows(*self._regrouped(table, code, begins))

    def _regrouped(self, table: Table, code: Ints, begins: Ints) -> tuple[Ints, int]:
        slots = self.keys.slots(table, self.by, groups=True)
        before = self.tuples.count
        tuples = self.tuples.slots(table, self.columns, groups=True)
        self._reserve(before)
        order = stable_order(code)
        order = order[stable_order(slots[order])] if len(order) > 1 else order
        told, count = _regroup(
            order, slots, code, begins, tuples, self.kinds, self.parameters, self.turn, self.state, self.chains,
            self.groups, self.values, self.ranks,
        )  # fmt: skip
        self.turn += len(order) + 1
        return told, int(count)

    def _reserve(self, before: int) -> None:
        """Make room for all tuples and groups.

        `before`: the number of the first new tuple. The arguments of the functions are computed for the new tuples.
        """
        self.state = filled_room(self.state, self.tuples.count, 0)
        self.values = filled_room(self.values, self.tuples.count, 0)
        self.chains = filled_room(self.chains, self.keys.count, -1)
        self.groups = filled_room(self.groups, self.keys.count, 0)
        if self.tuples.count > before:
            known = self.tuples.known[before:]
            table = np.zeros((FIRST + self.spec.width, len(known)), np.int64)
            table[FIRST + self.columns] = known.T
            self.values[before : self.tuples.count] = self.spec.values(table).T
            self._rank(before)

    def _rank(self, before: int) -> None:
        """Compute the ranks that break ties between modes, for the tuples from number `before` on."""
        if not self.modes:
            return
        self.ranks = filled_room(self.ranks, self.tuples.count, 0)
        for k in self.modes:
            values, first = self.values[: self.tuples.count, k], before
            if k in self.labels:
                if self.labels[k].meet(values[before:]):
                    first = 0  # the labels of earlier values have changed
                self.ranks[first : len(values), k] = self.labels[k].of(values[first:])
            elif self.spec.kinds[k] == slopes_and_percentiles.MODE_FLOAT:
                fresh = values[before:] = bits(np.ascontiguousarray(values[before:]).view(np.float64) + 0.0)
                self.ranks[before : len(values), k] = fresh ^ ((fresh >> 63) & (2**63 - 1))
            else:
                self.ranks[before : len(values), k] = values[before:]

    def _rows(self, told: Ints, count: int) -> Table:
        width = len(self.by) + len(self.kinds)
        if not count:
            return empty(width + 1)
        told = told[:count]
        told = told[stable_order(np.ascontiguousarray(told[:, 1]))]
        table = np.empty((FIRST + width + 1, count), np.int64)
        table[FIRST : FIRST + len(self.by)] = self.keys.known[told[:, 0]].T
        table[FIRST + len(self.by) : -1] = told[:, 3:].T
        put_changes(table, FIRST + width, told[:, 1], told[:, 2])
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def due(self) -> int | None:
        return self.waiting.due()

    def pending(self) -> int:
        return 2 * self.waiting.count

    def _numbers(self) -> int:
        return max(self.tuples.count, self.keys.count)

    # --- state ---

    def _state(self) -> Arrays:
        held = np.flatnonzero(self.state[: self.tuples.count, HOLDS])
        held = held[np.argsort(self.state[held, TURN], kind="stable")]
        return {"tuples": self.tuples.known[held], "waiting": self.waiting.state()[0]}

    def _tables(self) -> dict[str, StateTable]:
        columns, spec = self.columns.tolist(), self.spec
        codes = tuple(columns.index(column) for column in spec.codes)
        return {
            "tuples": StateTable(distinct=True, width=spec.width - 1, keyed=tuples_of("tuples", columns), codes=codes),
            "waiting": waiting_table("waiting", spec.width, spec.kind, spec.codes),
        }

    def _become(self, state: Arrays) -> None:
        self._clear()
        known = state["tuples"]
        table = np.zeros((FIRST + self.spec.width, len(known)), np.int64)
        table[FIRST + self.columns] = known.T
        self._regrouped(table, np.zeros(len(known), np.int64), np.ones(len(known), np.int64))
        self.waiting.become([state["waiting"]])

    def codes(self) -> list[Ints]:
        labels = [label.codes for label in self.labels.values()]
        waiting = [self.waiting.tables[0][FIRST + column] for column in self.spec.codes]
        known = [self.tuples.known.reshape(-1), self.keys.known.reshape(-1), self.values.reshape(-1)]
        return [*waiting, *known, *labels]

    @property
    def size(self) -> tuple[int, int]:
        arrays = sum(array.nbytes for array in (self.state, self.values, self.ranks, self.chains, self.groups))
        held = int(self.state[: self.tuples.count, HOLDS].sum())
        return held + self.waiting.count, int(arrays + self.keys.nbytes + self.tuples.nbytes)


def grouping_of(node: Grouping, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    results = results_of(node.results, types, builder)
    parameters = tuple(float(result.parameter or 0) for result in node.results)
    codes = codes_of(types)
    labelled = tuple(
        k for k, kind in enumerate(results.kinds) if kind == slopes_and_percentiles.MODE and results.types[k] in CODED
    )
    spec = GroupingSpec(
        len(types), node.by, node.kind, node.late, codes, results.kinds, parameters, results.values, labelled
    )
    return GroupingGoal(spec, lambda: Labels(builder.pool), builder.lineage)
