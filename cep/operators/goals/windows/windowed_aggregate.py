"""The goal of aggregates over windows of every form. It also supports functions that need sorted values.

goal(W):  windows that slide, follow each other, or end after a silence; the kernel is in `general_window`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.array_capacity import SPARE, roomy
from cep.core.relation import END, FIRST, Table, contiguous, empty, rows
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import (
    Arrays,
    Bools,
    Ints,
    demand,
)
from cep.operators.goals.keys import MISSING, NAN, Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import DeclaredState, StateTable, tuples_of
from cep.operators.goals.store import room
from cep.operators.goals.value_order import ValueOrder
from cep.operators.goals.windows import general_window, ordered_multiset, partial_aggregates
from cep.operators.goals.windows.general_window import (
    CELLS,
    EACH,
    ENTERED,
    EVERY,
    G_AFTER,
    G_BACK,
    G_BEFORE,
    G_COUNT,
    G_DUE,
    G_END,
    G_HEAD,
    G_ORDER,
    G_SEQUENCE,
    G_TAIL,
    GROUP,
    HEAD,
    HEADER,
    LAST_EVENTS,
    LAST_TIME,
    NAME,
    NEXT,
    PARTIAL,
    PREVIOUS,
    RANK,
    ROWS,
    SESSION,
    SLOT,
    STATE,
    TAIL,
    TICK,
    VALUE,
    EnteringRows,
    ResultKinds,
    WindowArrays,
    WindowNumbers,
    advance,
    chained,
    gathered,
    slide_on,
)
from cep.operators.goals.windows.order_labels import Labels
from cep.operators.goals.windows.slopes_and_percentiles import MEDIAN, MODE, MODE_FLOAT, PERCENTILE, WORDS

SORTED = (partial_aggregates.DISTINCT, PERCENTILE, MEDIAN, MODE, MODE_FLOAT)
UNORDERED = (partial_aggregates.DISTINCT, MODE)
"""The functions that do not need their values sorted by size: any fixed order suffices. A MODE of pool codes sorts by
order labels."""

Bounds = Callable[[Ints], tuple[Ints, Ints]]
"""A function that computes windows from the ends of occurrences.

The function returns the start and the last microsecond of the window that contains each end.
"""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The specification of windows of a `form` (see `general_window`).

    - `length`: the length in events or microseconds. `step`: the step of EVERY in microseconds.
    - `bounds`: the function that returns the windows of EACH; None for other forms.
    - `by`: the columns of the BY key. `by_codes`: the columns among them that contain pool codes.
    - `kinds`: the aggregate functions. `parameters`: the parameter of each function, 0 if it has none.
    - `values`: a function that computes the values to aggregate from a table, as bits, one row per function.
    - `value_codes`: the functions whose values are pool codes.
    - `order`: the function that computes the order of arrival of a group's results from its key. Results of windows
      that slide at each arrival have the order of the arrival instead.
    """

    form: int
    length: int
    step: int
    bounds: Bounds | None
    by: tuple[int, ...]
    by_codes: tuple[int, ...]
    kinds: tuple[int, ...]
    parameters: tuple[float, ...]
    values: Callable[[Table], Ints]
    value_codes: tuple[int, ...]
    order: ValueOrder


class WindowedAggregate(DeclaredState):
    """The goal of an Aggregation node, for windows of every form."""

    in_time = True

    def __init__(self, spec: WindowSpec, labels: Callable[[], Labels], lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.by, self.by_codes = np.array(spec.by, np.int64), spec.by_codes
        self.kinds = np.array(spec.kinds, np.int64)
        self.parameters = np.array(spec.parameters, np.float64)
        self.sorted = sum(kind in SORTED for kind in spec.kinds)
        sliding = spec.form in (LAST_EVENTS, LAST_TIME, EVERY)
        self.keeps = sliding or lineage is not None or self.sorted > 0
        self.new_labels = labels
        self.labels = {k: labels() for k in spec.value_codes if spec.kinds[k] == MODE}
        self._begin()

    def _begin(self) -> None:
        self.state = np.zeros(STATE, np.int64)
        self.state[[ordered_multiset.FREE, HEAD, TAIL]] = -1
        self.store = np.empty((roomy(0, 16), HEADER + CELLS * len(self.kinds)), np.int64)
        self.groups = more_groups(np.empty((0, GROUP + WORDS * len(self.kinds)), np.int64), 0)
        self.nodes = np.empty((roomy(0, 16), ordered_multiset.NODE), np.int64)
        self.keys = Keys(len(self.spec.by))
        self.watched = 1024

    @property
    def count(self) -> int:
        """Return the number of stored rows, including those that have left their window."""
        return int(self.state[ROWS])

    # --- steps ---

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        spec, table = self.spec, inputs[0]
        if not rows(table) and ((due := self.due()) is None or due > frontier.watermark):
            return empty(len(spec.by) + len(spec.kinds))
        known = self.keys.count
        slots = self.keys.slots(table, self.by, groups=True)
        self.groups = more_groups(self.groups, self.keys.count)
        self._put_orders(known)
        if self.keeps:
            self.store = room(self.store, self.count + rows(table))
        values = spec.values(table)
        ends = table[END]
        opens = dues = ends
        if spec.form == EACH:
            assert spec.bounds is not None, "EACH has bounds"
            opens, dues = spec.bounds(ends)
        elif spec.form == SESSION:
            dues = ends + spec.length
        entering = EnteringRows(contiguous(table[:FIRST]), values, self._ranks(values), slots, opens, dues)
        numbers = WindowNumbers(spec.form, spec.length, spec.step, self.keeps, self.sorted)
        results = ResultKinds(self.kinds, self.parameters, np.zeros((1, WORDS), np.int64))
        windows = WindowArrays(self.store, self.groups, self.nodes, self.state, self.keys.known)
        outputs: Table
        if spec.form < EVERY and not self.sorted and self.lineage is None:
            outputs = slide_on(entering, numbers, results, windows)
            return by_arrival(np.ascontiguousarray(outputs))
        outputs, edges, self.nodes = advance(
            entering, numbers, results, windows, frontier.watermark, self.lineage is not None
        )  # fmt: skip
        for k, labels in self.labels.items():
            column = FIRST + len(spec.by) + k
            outputs[column] = labels.codes_of(outputs[column])
        if self.lineage is not None:
            self.lineage.link(self.lineage.name(outputs)[edges[:, 0]], edges[:, 1])
        return outputs

    def _put_orders(self, since: int) -> None:
        """Store the order of the results of all groups from the slot `since` on."""
        if self.spec.form >= EVERY and since < self.keys.count:
            self.groups[since : self.keys.count, G_ORDER] = self.spec.order(self.keys.known[since:].T)

    def _ranks(self, values: Ints) -> Ints:
        """Return integers by which kernels sort the values of each function. For functions that need no order, they are
        0.

        For a MODE of pool codes, the integers are order labels. For other functions, they are the values themselves, or
        floats converted to integers that sort like them.
        """
        ranks = np.zeros(values.shape, np.int64)
        for k, kind in enumerate(self.spec.kinds):
            if k in self.labels:
                if self.labels[k].meet(values[k]):
                    self._rebuild()
                ranks[k] = self.labels[k].of(values[k])
            elif kind in SORTED:
                ranks[k] = values[k] if kind in UNORDERED else _sortable(values[k])
        return ranks

    def due(self) -> int | None:
        first = int(self.state[HEAD])
        if first < 0:
            return None
        return int(self.state[TICK] if self.spec.form == EVERY else self.groups[first, G_DUE])

    def pending(self) -> int:
        if self.state[HEAD] < 0:
            return 0
        open_ = self.keys.count
        return open_ * (self.spec.length // self.spec.step + 1) if self.spec.form == EVERY else open_

    # --- what is no longer needed ---

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        if max(self.count, self.keys.count) <= self.watched and not wholly:
            return
        if self.spec.form == LAST_EVENTS and not wholly:  # time alone ends no window
            inside = int(self.groups[: self.keys.count, G_COUNT].sum())
            if self.count <= 2 * inside:
                self.watched = max(1024, 2 * inside)
                return
        self._compact(frontier.watermark)
        self.watched = max(1024, 2 * max(self.count, self.keys.count))

    def _compact(self, watermark: int) -> None:
        """Drop rows that are in no window any more, and groups without rows."""
        groups = self.groups[: self.keys.count]
        used = groups[:, G_COUNT] > 0
        if self.spec.form == LAST_TIME and watermark > BEGINNING:
            over = used & (groups[:, G_END] <= watermark - self.spec.length)
            for root in groups[over][:, self._roots()].reshape(-1).tolist():
                ordered_multiset.give_up(self.nodes, self.state, root - 1)
            used &= ~over
        self.keys = Keys.of(self.keys.known[used], int(used.sum()))
        self.store, groups, count = gathered(self.store[: self.count], groups, *_numbers(used), SPARE)
        self.groups, self.state[ROWS] = more_groups(groups, len(groups)), count
        self._relink()
        for k, labels in self.labels.items():
            if len(labels) > 1024 + 2 * self.count:
                self._relabel(k)

    def _roots(self) -> list[int]:
        return [GROUP + WORDS * k for k, kind in enumerate(self.spec.kinds) if kind in SORTED]

    def _relabel(self, k: int) -> None:
        """Give new labels to the values in stored rows, and drop the labels of all other values.

        `k`: the number of the aggregate function.
        """
        self.labels[k] = self.new_labels()
        self.labels[k].meet(self.store[: self.count, HEADER + CELLS * k + VALUE])
        self._rebuild()

    def _relink(self) -> None:
        """Rebuild the list of groups, in the order of their latest arrivals.

        Windows that slide at each arrival do not need the list.
        """
        if self.spec.form < EVERY:
            return
        groups = self.groups[: self.keys.count]
        order = np.lexsort((groups[:, G_SEQUENCE], groups[:, G_END]))
        groups[order, G_BEFORE] = np.append(-1, order[:-1])[: len(order)]
        groups[order, G_AFTER] = np.append(order[1:], -1)[: len(order)]
        self.state[HEAD], self.state[TAIL] = (order[0], order[-1]) if len(order) else (-1, -1)

    def _rebuild(self) -> None:
        for k, labels in self.labels.items():
            cell = HEADER + CELLS * k
            self.store[: self.count, cell + RANK] = labels.of(self.store[: self.count, cell + VALUE])
        for k, kind in enumerate(self.spec.kinds):
            if kind == partial_aggregates.DISTINCT:  # sorted by codes, which may have changed
                cell = HEADER + CELLS * k
                self.store[: self.count, cell + RANK] = self.store[: self.count, cell + VALUE]
        groups = self.groups[: self.keys.count]
        self.nodes = general_window.rebuild(self.store, groups, self.kinds, self.nodes, self.state)

    # --- the state as a whole and by key ---

    def _live(self) -> Arrays:
        """Return the state as arrays. They may include rows and groups that are no longer needed."""
        keys = self.keys.count
        return {"store": self.store[: self.count], "keys": self.keys.known, "groups": self.groups[:keys]}

    def _state(self) -> Arrays:
        self._compact(BEGINNING)
        arrays = {name: array.copy() for name, array in self._live().items()}
        if self.spec.form == EVERY:
            arrays["groups"][:, G_DUE] = self.state[TICK]
        for k, kind in enumerate(self.spec.kinds):
            if kind in SORTED:  # is rebuilt when the state is loaded
                arrays["groups"][:, GROUP + WORDS * k : GROUP + WORDS * k + WORDS] = 0
            if k in self.labels:
                arrays["store"][:, HEADER + CELLS * k + RANK] = 0
        return arrays

    def _fits(self, state: Arrays) -> None:
        store, groups = state["store"], state["groups"]
        if self.keeps:
            demand(chained(store, groups))
        else:
            demand(not len(store) and bool((groups[:, : G_BACK + 1] == -1).all()))

    def _become(self, state: Arrays) -> None:
        self._begin()
        self.keys.become(state["keys"], len(state["keys"]))
        self.store, self.groups = state["store"], state["groups"]
        self.state[ROWS] = len(self.store)
        self._put_orders(0)
        groups = self.groups
        self.state[ENTERED] = int(groups[:, G_SEQUENCE].max(initial=-1)) + 1
        if self.spec.form == EVERY and len(groups):
            self.state[TICK] = int(groups[:, G_DUE].min())
        for k in self.labels:
            self.labels[k] = self.new_labels()
            self.labels[k].meet(self.store[:, HEADER + CELLS * k + VALUE])
        if self.keeps:
            self._rebuild()
        self._compact(BEGINNING)

    def _tables(self) -> dict[str, StateTable]:
        """Declare the tables of the state. Pool codes occur in the values of rows, and in the partial results of
        `first` and `last`."""
        first = [
            k
            for k in self.spec.value_codes
            if self.spec.kinds[k] in (partial_aggregates.FIRST_VALUE, partial_aggregates.LAST_VALUE)
        ]
        values = [HEADER + CELLS * k + VALUE for k in self.spec.value_codes]
        values += [HEADER + CELLS * k + PARTIAL + 1 for k in first]
        ranges = dict.fromkeys((G_END, G_DUE) if self.spec.form >= EVERY else (G_END,), (BEGINNING, -BEGINNING))
        by = self.by.tolist()
        links = dict.fromkeys((NEXT, PREVIOUS), ("store", -1))
        return {
            "store": StateTable(
                width=self.store.shape[1],
                owner=SLOT,
                refers={SLOT: ("keys", 0)} | links,
                handles=(NAME,),
                codes=tuple(values),
            ),
            "keys": StateTable(width=len(by), keyed=tuples_of("keys", by), codes=self.by_codes),
            "groups": StateTable(
                width=self.groups.shape[1],
                beside="keys",
                refers=dict.fromkeys((G_HEAD, G_TAIL, G_BACK), ("store", -1)),
                codes=tuple(GROUP + WORDS * k + 1 for k in first),
                ranges=ranges,
            ),
        }

    def codes(self) -> list[Ints]:
        live = self._live()
        codes = [array[:, column] for name, array in live.items() for column in self.tables[name].codes]
        return [*codes, *(labels.codes for labels in self.labels.values())]

    def names(self) -> list[Ints]:
        return [self._live()["store"][:, NAME]]

    @property
    def size(self) -> tuple[int, int]:
        groups = self.groups[: self.keys.count]
        used = self.count * self.store.shape[1] + len(groups) * (groups.shape[1] + len(self.spec.by) + 2)
        used += ordered_multiset.NODE * int(self.state[ordered_multiset.USED])
        inside = int(groups[:, G_COUNT].sum()) if self.keeps else int((groups[:, G_COUNT] > 0).sum())
        return inside, 8 * used


def _sortable(bits: Ints) -> Ints:
    """Convert the bits of floats to integers that sort like the floats. Missing values sort first."""
    sorted_: Ints = np.where(bits == NAN, MISSING, np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF)))
    return sorted_


def _numbers(groups: Bools) -> tuple[Ints, int]:
    return np.where(groups, np.cumsum(groups) - 1, -1), int(groups.sum())


def more_groups(groups: Ints, slots: int) -> Ints:
    if groups.shape[0] >= slots:
        return groups
    larger = np.zeros((roomy(slots, max(16, 2 * groups.shape[0])), groups.shape[1]), np.int64)
    larger[:, : G_BACK + 1] = -1
    larger[: groups.shape[0]] = groups
    return larger
