"""Sliding aggregates: aggregate a group's latest occurrences, at each instant at which one enters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import roomy
from cep.core.relation import FIRST, Table, bits, contiguous, empty, rows
from cep.core.schema import CODED
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.zones import Zone, zone
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, Untimed, demand
from cep.operators.goals.heads import columns_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import StateTable
from cep.operators.goals.store import room
from cep.operators.goals.windows import (
    general_window,
    partial_aggregates,
    ring_buffer,
    two_stacks,
    wide_partial_aggregates,
)
from cep.operators.goals.windows.order_labels import Labels
from cep.operators.goals.windows.two_stacks import END, HEADER, SLOT
from cep.operators.goals.windows.window_state import WindowState, more_groups, no_tallies
from cep.operators.goals.windows.windowed_aggregate import Bounds, WindowedAggregate, WindowSpec
from cep.rules.expressions.checking import check
from cep.rules.expressions.evaluate import Evaluation, compile_expression
from cep.rules.expressions.typed import coerced
from cep.rules.terms import AggregateResult
from cep.rules.window_forms import Over

if TYPE_CHECKING:
    from cep.operators.aggregate import Aggregation
    from cep.operators.build import GoalBuilder


def bounds_of(over: Over) -> Bounds:
    """Return a function that maps sorted times to the start and the last microsecond of the window that contains each
    time."""
    length, origin = over.length, over.origin
    if over.zone is not None:
        clock = Clock(zone(over.zone), length, origin)
        return clock.bounds

    def counted(times: Ints) -> tuple[Ints, Ints]:
        starts = (times - origin) // length * length + origin
        return starts, starts + length - 1

    return counted


class Clock:
    """Windows of a fixed length on the local clock of a time zone, counted from a local time."""

    def __init__(self, zone: Zone, length: int, origin: int) -> None:
        self.zone, self.length, self.origin = zone, length, origin
        self.offsets = zone.offsets
        self.until = np.append(zone.instants[1:], END_OF_TIME)
        back = -np.diff(zone.offsets)
        self.repeats = np.append((back > 0) & (back % length == 0), False)
        """A mask of the offsets after which the clock goes back by a multiple of the window length."""

    def bounds(self, times: Ints) -> tuple[Ints, Ints]:
        """Return, for sorted times, the start and the last microsecond of the window that contains each time."""
        places, cycles = self.zone.places(times)
        numbers = (times + self.offsets[places] - self.origin) // self.length
        news = np.ones(len(times), np.bool_)
        news[1:] = (numbers[1:] != numbers[:-1]) | (places[1:] != places[:-1]) | (cycles[1:] != cycles[:-1])
        which, run = np.flatnonzero(news), np.cumsum(news) - 1
        positions = numbers[which], places[which], cycles[which]
        return self._start(*positions)[run], self._end(*positions)[run] - 1

    def _start(self, numbers: Ints, places: Ints, cycles: Ints) -> Ints:
        places, shown = places.copy(), numbers * self.length + self.origin
        while True:
            since = self.zone.instants[places] + cycles
            starts: Ints = np.maximum(shown - self.offsets[places], since)
            before = np.maximum(places - 1, 0)
            goes_on = (starts == since) & (places > 0) & self._joined(before, numbers, since - 1)
            if not goes_on.any():
                return starts
            places[goes_on] -= 1

    def _end(self, numbers: Ints, places: Ints, cycles: Ints) -> Ints:
        places, shown = places.copy(), (numbers + 1) * self.length + self.origin
        while True:
            until = self.until[places] + cycles
            ends: Ints = np.minimum(shown - self.offsets[places], until)
            after = np.minimum(places + 1, len(self.offsets) - 1)
            goes_on = (ends == until) & (places < after) & ~self.repeats[places]
            goes_on &= (until + self.offsets[after] - self.origin) // self.length == numbers
            if not goes_on.any():
                return ends
            places[goes_on] += 1

    def _joined(self, before: Ints, numbers: Ints, last: Ints) -> Bools:
        """Return True for windows that began before the last change of the zone's offset, and continue after it."""
        same: Bools = (last + self.offsets[before] - self.origin) // self.length == numbers
        same &= ~self.repeats[before]
        return same


OF_FLOATS = ("avg", "stddev", "median", "percentile", "slope", "rate", "ewma")
"""Functions that read numbers as floats and return a float."""

KINDS = {
    ("median", "float"): wide_partial_aggregates.MEDIAN,
    ("percentile", "float"): wide_partial_aggregates.PERCENTILE,
    ("slope", "float"): wide_partial_aggregates.SLOPE,
    ("rate", "float"): wide_partial_aggregates.RATE,
    ("ewma", "float"): wide_partial_aggregates.EWMA,
    ("sum", "int"): partial_aggregates.SUM_INT,
    ("sum", "duration"): partial_aggregates.SUM_INT,
    ("sum", "float"): partial_aggregates.SUM_FLOAT,
    ("avg", "float"): partial_aggregates.AVG,
    ("stddev", "float"): partial_aggregates.STDDEV,
    ("min", "float"): partial_aggregates.MIN_FLOAT,
    ("max", "float"): partial_aggregates.MAX_FLOAT,
}


def kind_of(function: str, type: str, distinct: bool) -> int:
    """Return the kernel's number of a function over values of a type. `type` is empty for `count()`."""
    if function == "count":
        return (
            partial_aggregates.DISTINCT
            if distinct
            else partial_aggregates.COUNT_VALUES
            if type
            else partial_aggregates.COUNT
        )
    if function == "first":
        return partial_aggregates.FIRST_FLOAT if type == "float" else partial_aggregates.FIRST_VALUE
    if function == "last":
        return partial_aggregates.LAST_FLOAT if type == "float" else partial_aggregates.LAST_VALUE
    if function == "mode":
        return wide_partial_aggregates.MODE_FLOAT if type == "float" else wide_partial_aggregates.MODE
    if function in ("min", "max") and type != "float":
        return partial_aggregates.MIN_INT if function == "min" else partial_aggregates.MAX_INT
    return KINDS[function, type]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an aggregate: for each result, its function (`kinds`) and its argument's type (None: no argument).

    `values` computes the bits of the arguments over a table, one row per result.
    """

    kinds: tuple[int, ...]
    types: tuple[str | None, ...]
    values: Callable[[Table], Ints]


def results_of(results: Sequence[AggregateResult], types: Sequence[str], builder: GoalBuilder) -> Results:
    """Return the results of a node over columns of these types."""
    names = {f"v{i}": type for i, type in enumerate(types)}
    kinds: list[int] = []
    taken: list[str | None] = []
    evaluations: list[Evaluation | None] = []
    for result in results:
        if result.argument is None:
            kinds.append(kind_of("count", "", False))
            taken.append(None)
            evaluations.append(None)
            continue
        typed = check(result.argument, names, builder.plan.source)
        wanted = typed.type
        if result.function in OF_FLOATS or (typed.type == "any" and result.function in ("sum", "min", "max")):
            wanted = "float"
        fitted = coerced(typed, wanted)
        assert fitted is not None, "arguments that are no numbers were refused"
        kinds.append(kind_of(result.function, wanted, result.distinct))
        taken.append(wanted)
        evaluations.append(compile_expression(fitted, builder.pool))

    def values(table: Table) -> Ints:
        named = columns_of(table, types)
        columns = np.zeros((len(evaluations), rows(table)), np.int64)
        for k, evaluate in enumerate(evaluations):
            if evaluate is not None:
                columns[k] = bits(evaluate(named, rows(table)))
        return columns

    return Results(tuple(kinds), tuple(taken), values)


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """The specification of a window: `events` occurrences, or `duration` microseconds (the other is 0).

    `by`: the argument columns of the group. `values`: computes the bits of the arguments, one row per result.
    `value_codes`: the results whose values are pool codes.
    """

    events: int
    duration: int
    by: tuple[int, ...]
    by_codes: tuple[int, ...]
    kinds: tuple[int, ...]
    values: Callable[[Table], Ints]
    value_codes: tuple[int, ...]


class SlidingAggregate(WindowState, Untimed):
    """The goal of a sliding aggregate. Windows of few events are kept in ring buffers."""

    def __init__(self, spec: AggregateSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.by, self.by_codes = np.array(spec.by, np.int64), spec.by_codes
        self.kinds = np.array(spec.kinds, np.int64)
        self.short = 0 < spec.events <= ring_buffer.SHORT
        self.rings = np.zeros(
            (0, ring_buffer.RING + spec.events * (2 + len(spec.kinds)) if self.short else 0), np.int64
        )
        self.store = np.empty((roomy(0, 16), HEADER + 4 * len(spec.kinds)), np.int64)
        self.count, self.free = 0, -1
        self.keys = Keys(len(spec.by))
        self.groups = np.empty((0, two_stacks.GROUP + 3 * len(spec.kinds)), np.int64)
        self.tally_index, self.tallies = no_tallies()
        self.tally_count = 0
        self.watched = 1024

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = inputs[0]
        if not rows(table):
            return empty(len(self.spec.by) + len(self.spec.kinds))
        slots = self.keys.slots(table, self.by, groups=True)
        keys, times = self.keys.known, contiguous(table[:FIRST])
        if self.short:
            self.rings = _more_rings(self.rings, self.keys.count)
            results, edges = ring_buffer.turn(
                times, self.spec.values(table), slots, self.spec.events, self.kinds, self.rings, keys,
                self.lineage is not None,
            )  # fmt: skip
            return self._named(results, edges)
        self.groups = more_groups(self.groups, self.keys.count)
        self.store = room(self.store, self.count + rows(table))
        self._room_for_tallies(self.tally_count, rows(table) * self.spec.kinds.count(partial_aggregates.DISTINCT))
        results, edges, self.count, self.free, self.tally_count = two_stacks.slide(
            times, self.spec.values(table), slots, self.spec.events, self.spec.duration, self.kinds, self.store,
            self.count, self.free, self.groups, keys, self.tally_index, self.tallies, self.tally_count,
            self.lineage is not None,
        )  # fmt: skip
        return self._named(results, edges)

    def _named(self, outputs: Table, edges: Ints) -> Table:
        outputs = np.ascontiguousarray(outputs)
        if self.lineage is not None:
            self.lineage.link(self.lineage.name(outputs)[edges[:, 0]], edges[:, 1])
        return by_arrival(outputs)

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        if (self.spec.duration and self.count > self.watched) or (wholly and not self.short):
            self._compact(frontier.watermark)
            self.watched = max(1024, 2 * self.count)

    def _compact(self, watermark: int) -> None:
        """Drop rows outside every window, and groups whose whole window has passed."""
        groups = self.groups[: self.keys.count]
        tails = groups[:, two_stacks.G_TAIL]
        used = tails >= 0
        if self.spec.duration and watermark > BEGINNING:
            used[used] = self.store[tails[used], END] > watermark - self.spec.duration
        numbers = np.where(used, np.cumsum(used) - 1, -1)
        count = int(groups[used, two_stacks.G_COUNT].sum())
        fresh = more_groups(np.empty((0, self.groups.shape[1]), np.int64), int(used.sum()))
        regrouped = two_stacks.regroup(self.store, count, groups, numbers, fresh, self.kinds)
        keys = Keys.of(self.keys.known[used], int(used.sum()))
        self.store, self.tally_index, self.tallies, self.tally_count = regrouped
        self.groups, self.keys, self.count, self.free = fresh, keys, count, -1

    def _tables(self) -> dict[str, StateTable]:
        values = self.spec.value_codes
        if self.short:
            step = 2 + len(self.spec.kinds)
            rings = StateTable(
                width=self.rings.shape[1],
                beside="keys",
                codes=tuple(ring_buffer.RING + 2 + k + step * r for k in values for r in range(self.spec.events)),
                handles=tuple(ring_buffer.RING + 1 + step * r for r in range(self.spec.events)),
                ranges={ring_buffer.R_COUNT: (0, self.spec.events + 1), ring_buffer.R_OLDEST: (0, self.spec.events)},
            )
            return {"rings": rings, "keys": self._keys()}
        return self._windows(
            StateTable(
                width=self.store.shape[1], codes=tuple(HEADER + 4 * k + cell for k in values for cell in (0, 2))
            ),
            StateTable(width=self.groups.shape[1], codes=tuple(two_stacks.GROUP + 3 * k + 1 for k in values)),
        )

    def _live(self) -> Arrays:
        keys = self.keys.count
        if self.short:
            return {"rings": self.rings[:keys], "keys": self.keys.known}
        return {"store": self.store[: self.count], "keys": self.keys.known, "groups": self.groups[:keys]}

    def _state(self) -> Arrays:
        if not self.short:
            self._compact(BEGINNING)
        return self._live()

    def _fits(self, state: Arrays) -> None:
        demand(self.short or two_stacks.chained(state["store"], state["groups"]))

    def _become(self, state: Arrays) -> None:
        self.keys.become(state["keys"], len(state["keys"]))
        if self.short:
            self.rings = state["rings"]
            return
        self.store, self.count, self.groups = state["store"], len(state["store"]), state["groups"]
        self._compact(BEGINNING)

    @property
    def size(self) -> tuple[int, int]:
        if self.short:
            words = self.rings.shape[1] + len(self.spec.by) + 2
            return int(self.rings[: self.keys.count, ring_buffer.R_COUNT].sum()), 8 * self.keys.count * words
        live = int((self.store[: self.count, SLOT] >= 0).sum())
        used = self.count * self.store.shape[1] + self.keys.count * (self.groups.shape[1] + len(self.spec.by) + 2)
        return live, 8 * (used + 5 * self.tally_count)


def _more_rings(rings: Ints, slots: int) -> Ints:
    if rings.shape[0] >= slots:
        return rings
    larger = np.zeros((roomy(slots, max(16, 2 * rings.shape[0])), rings.shape[1]), np.int64)
    larger[: rings.shape[0]] = rings
    return larger


def window_of(node: Aggregation, builder: GoalBuilder) -> Goal:
    """Return the goal of a node."""
    types = builder.types(node.child)
    results = results_of(node.results, types, builder)
    kinds, values = results.kinds, results.values
    coded = tuple(k for k, type in enumerate(results.types) if type in CODED)
    by_codes = tuple(i for i, c in enumerate(node.by) if types[c] in CODED)
    if node.over is None and max(kinds) < wide_partial_aggregates.RATE:
        events, duration = node.events or 0, node.duration or 0
        plain = AggregateSpec(events, duration, node.by, by_codes, kinds, values, coded)
        return SlidingAggregate(plain, builder.lineage)
    form, length, step, bounds = _form(node)
    parameters = tuple(float(result.parameter or 0) for result in node.results)
    spec = WindowSpec(form, length, step, bounds, node.by, by_codes, kinds, parameters, values, coded)
    return WindowedAggregate(spec, lambda: Labels(builder.pool), builder.lineage)


def _form(node: Aggregation) -> tuple[int, int, int, Bounds | None]:
    """Return the form of a node's windows, their length in events or microseconds, the step of EVERY, and the bounds of
    EACH."""
    if node.over is None:
        if node.events is not None:
            return general_window.LAST_EVENTS, node.events, 1, None
        return general_window.LAST_TIME, node.duration or 0, 1, None
    if node.over.form == "every":
        return general_window.EVERY, node.duration or 0, node.over.length, None
    if node.over.form == "session":
        return general_window.SESSION, node.over.length, 1, None
    return general_window.EACH, node.over.length, 1, bounds_of(node.over)
