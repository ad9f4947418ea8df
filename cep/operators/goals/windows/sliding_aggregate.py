"""The goal of sliding aggregates, which aggregate the latest occurrences of a group whenever another one arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.relation import FIRST, Table, bits, contiguous, empty, narrowed, rows
from cep.core.schema import CODED
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.zones import Zone, zone
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, Untimed, demand
from cep.operators.goals.heads import columns_of
from cep.operators.goals.keys import Keys, capacity_for, reindex
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import DeclaredState, StateTable, tuples_of
from cep.operators.goals.store import room
from cep.operators.goals.windows import general_window, partial_aggregates, slopes_and_percentiles
from cep.operators.goals.windows.order_labels import Labels
from cep.operators.goals.windows.sliding_rings import (
    COUNTS,
    DISORDER,
    EDGES,
    FOLDS,
    FRONT,
    G_BACK,
    G_COUNT,
    G_OLDEST,
    G_PARTS,
    G_RING,
    G_SIZE,
    LEAST_SIZE,
    MORE_EDGES,
    MORE_ROWS,
    PARTIAL,
    ROWS,
    SHORT,
    TALLIES,
    UNLIMITED,
    VALUES,
    Entering,
    SlidingResults,
    Windows,
    rebuild,
    slide,
)
from cep.operators.goals.windows.sliding_rings import END as ROW_END
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
    """Return a function that computes the windows of given times.

    The function takes sorted times. It returns the start and the last microsecond of the window that contains each
    time.
    """
    length, origin = over.length, over.origin
    if over.zone is not None:
        clock = Clock(zone(over.zone), length, origin)
        return clock.bounds

    def counted(times: Ints) -> tuple[Ints, Ints]:
        starts = (times - origin) // length * length + origin
        return starts, starts + length - 1

    return counted


class Clock:
    """Windows of a fixed length on the local clock of a time zone. `origin`: a local time at which a window begins."""

    def __init__(self, zone: Zone, length: int, origin: int) -> None:
        self.zone, self.length, self.origin = zone, length, origin
        self.offsets = zone.offsets
        self.until = np.append(zone.instants[1:], END_OF_TIME)
        back = -np.diff(zone.offsets)
        self.repeats = np.append((back > 0) & (back % length == 0), False)
        """For each offset of the zone, True if the clock is set back by a multiple of the window length when this
        offset ends."""

    def bounds(self, times: Ints) -> tuple[Ints, Ints]:
        """Return the start and the last microsecond of the window that contains each time. `times` must be sorted."""
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
        """Return a mask of the windows that continue across a change of the zone's offset.

        - `before`: for each window, the index of the offset before the change.
        - `numbers`: the numbers of the windows after the change.
        - `last`: the last microsecond before the change.
        """
        same: Bools = (last + self.offsets[before] - self.origin) // self.length == numbers
        same &= ~self.repeats[before]
        return same


OF_FLOATS = ("avg", "stddev", "median", "percentile", "slope", "rate", "ewma")
"""Functions that convert numbers to floats and return a float."""

KINDS = {
    ("median", "float"): slopes_and_percentiles.MEDIAN,
    ("percentile", "float"): slopes_and_percentiles.PERCENTILE,
    ("slope", "float"): slopes_and_percentiles.SLOPE,
    ("rate", "float"): slopes_and_percentiles.RATE,
    ("ewma", "float"): slopes_and_percentiles.EWMA,
    ("sum", "int"): partial_aggregates.SUM_INT,
    ("sum", "duration"): partial_aggregates.SUM_INT,
    ("sum", "float"): partial_aggregates.SUM_FLOAT,
    ("avg", "float"): partial_aggregates.AVG,
    ("stddev", "float"): partial_aggregates.STDDEV,
    ("min", "float"): partial_aggregates.MIN_FLOAT,
    ("max", "float"): partial_aggregates.MAX_FLOAT,
}


def kind_of(function: str, type: str, distinct: bool) -> int:
    """Return the number by which kernels identify an aggregate function.

    `type`: the type of the function's argument; empty for `count()`. `distinct`: True for `count(distinct X)`.
    """
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
        return slopes_and_percentiles.MODE_FLOAT if type == "float" else slopes_and_percentiles.MODE
    if function in ("min", "max") and type != "float":
        return partial_aggregates.MIN_INT if function == "min" else partial_aggregates.MAX_INT
    return KINDS[function, type]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an aggregate.

    - `kinds`: the function of each result, as the number that kernels use.
    - `types`: the type of each result's argument. None means no argument.
    - `values`: a function that computes the arguments from a table, as bits, one row per result. A row may be a view of
      the table.
    """

    kinds: tuple[int, ...]
    types: tuple[str | None, ...]
    values: Callable[[Table], Ints]


def results_of(results: Sequence[AggregateResult], types: Sequence[str], builder: GoalBuilder) -> Results:
    """Return the functions, types and values that kernels need to compute `results`. `types`: the types of the input
    columns."""
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
        n = rows(table)
        columns = [np.zeros(n, np.int64) if e is None else bits(e(named, n)) for e in evaluations]
        return np.ascontiguousarray(columns[0], np.int64)[None] if len(columns) == 1 else np.array(columns, np.int64)

    return Results(tuple(kinds), tuple(taken), values)


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """The specification of a sliding window.

    - `events`: the number of occurrences in a window, or 0 if the window has a duration.
    - `duration`: the length of a window in microseconds, or 0 if the window has a number of occurrences.
    - `by`: the argument columns of the group.
    - `values`: a function that computes the arguments of the results from a table, as bits, one row per result.
    - `value_codes`: the results whose arguments are pool codes.
    """

    events: int
    duration: int
    by: tuple[int, ...]
    by_codes: tuple[int, ...]
    kinds: tuple[int, ...]
    values: Callable[[Table], Ints]
    value_codes: tuple[int, ...]


class SlidingAggregate(DeclaredState, Untimed):
    """The goal of a sliding aggregate. Its kernel is in `sliding_rings`."""

    in_time = True
    rings: Ints
    partials: Ints
    identities: Ints
    groups: Ints
    tally_index: Ints
    tallies: Ints
    counts: Ints
    watched: int

    def __init__(self, spec: AggregateSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.by = np.array(spec.by, np.int64)
        self.kinds = np.array(spec.kinds, np.int64)
        self.limit = spec.events or UNLIMITED
        self.least = self.limit if self.limit <= SHORT else LEAST_SIZE
        self.distinct = spec.kinds.count(partial_aggregates.DISTINCT) if self.limit > SHORT else 0
        results = len(spec.kinds)
        self._become(
            {
                "keys": np.empty((0, len(spec.by)), np.int64),
                "groups": np.empty((0, 2), np.int64),
                "rings": np.empty((0, VALUES + results + 1), np.int64),
            }
        )

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table, width = inputs[0], FIRST + len(self.spec.by) + len(self.spec.kinds)
        n, known = rows(table), self.keys.count
        if not n:
            return empty(width - FIRST)
        slots = self.keys.slots(table, self.by, groups=True)
        self.groups = filled_room(self.groups, self.keys.count, 0)
        self._reserve(self.keys.count - known, n)
        entering = Entering(contiguous(table[:FIRST]), self.spec.values(table), slots)
        outputs, edges = np.empty((width, n), np.int64), np.empty((0, 2), np.int64)
        later, superseded = np.empty(self.keys.count, np.int64), np.empty(n, np.bool_)
        self.counts[EDGES] = self.counts[DISORDER] = done = count = 0
        while done < n:
            sliding = SlidingResults(outputs, edges, later, superseded)
            done, count = slide(
                entering, self.spec.events, self.spec.duration, self.kinds, self._windows(), self.keys.known, sliding,
                done, count,
            )  # fmt: skip
            if done < n:
                self._more_rows(int(self.counts[ROWS] + self.counts[MORE_ROWS]))
                edges = room(edges, int(self.counts[EDGES] + self.counts[MORE_EDGES]))
        outputs = narrowed(outputs, count)
        if self.lineage is not None:
            edges = edges[: self.counts[EDGES]]
            self.lineage.link(self.lineage.name(outputs)[edges[:, 0]], edges[:, 1])
        return by_arrival(outputs) if self.counts[DISORDER] else outputs

    def _windows(self) -> Windows:
        return Windows(
            self.rings, self.partials, self.identities, self.groups, self.tally_index, self.tallies, self.counts
        )

    def _reserve(self, groups: int, more: int) -> None:
        self._more_rows(int(self.counts[ROWS]) + self.least * groups)
        tallies = int(self.counts[TALLIES]) + more * self.distinct
        self.tallies = room(self.tallies, tallies)
        if 2 * tallies > len(self.tally_index):
            pairs = np.ascontiguousarray(self.tallies[:, :2])
            self.tally_index = reindex(pairs, int(self.counts[TALLIES]), capacity_for(tallies))

    def _more_rows(self, needed: int) -> None:
        if needed <= len(self.rings):
            return
        count, size = int(self.counts[ROWS]), roomy(needed, 2 * len(self.rings))
        for name in ("rings", "identities") + ("partials",) * bool(self.counts[FOLDS]):
            array = getattr(self, name)
            larger = np.empty((size, array.shape[1]), np.int64)
            larger[:count] = array[:count]
            setattr(self, name, larger)
        if len(self.partials) < size:
            self.partials = np.empty((size, self.partials.shape[1]), np.int64)

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        used = max(self.counts[ROWS], self.counts[TALLIES])
        if used <= self.watched and not wholly:
            return
        within = self._within_windows(frontier.watermark)
        groups = self.groups[: self.keys.count][within]
        needed = np.minimum(groups[:, G_SIZE], 4 * np.maximum(groups[:, G_COUNT], self.least)).sum()
        if wholly or self.counts[ROWS] > 2 * needed or self.counts[TALLIES] > 2 * self.distinct * needed:
            self._become(self._chosen_state(within))
        else:
            self.watched = 2 * used

    def _within_windows(self, watermark: int) -> Bools:
        """Return a mask of the groups whose latest row may be in a window that ends after `watermark`."""
        groups = self.groups[: self.keys.count]
        within: Bools = groups[:, G_COUNT] > 0
        if self.spec.duration and watermark > BEGINNING:
            ring, size, place = (groups[within, column] for column in (G_RING, G_SIZE, G_OLDEST))
            youngest = ring + (place + groups[within, G_COUNT] - 1) % size
            within[within] = self.rings[youngest, ROW_END] > watermark - self.spec.duration
        return within

    def _chosen_state(self, chosen: Bools) -> Arrays:
        groups = self.groups[: self.keys.count][chosen]
        counts = groups[:, G_COUNT]
        places = (np.repeat(groups[:, G_OLDEST], counts) + _numbered(counts)) % np.repeat(groups[:, G_SIZE], counts)
        places += np.repeat(groups[:, G_RING], counts)
        names = np.zeros((len(places), 1), np.int64) if self.lineage is None else self.identities[places]
        return {
            "keys": self.keys.known[chosen],
            "groups": np.stack([counts, groups[:, G_PARTS] // FRONT], axis=1),
            "rings": np.concatenate([self.rings[places], names], axis=1),
        }

    def _tables(self) -> dict[str, StateTable]:
        by, width = self.by.tolist(), VALUES + len(self.spec.kinds)
        beyond = self.limit + 1
        return {
            "keys": StateTable(width=len(by), keyed=tuples_of("keys", by), codes=self.spec.by_codes),
            "groups": StateTable(width=2, beside="keys", ranges={0: (1, beyond), 1: (0, beyond)}),
            "rings": StateTable(
                width=width + 1,
                counted=("groups", 0),
                codes=tuple(VALUES + k for k in self.spec.value_codes),
                handles=(width,),
            ),
        }

    def _state(self) -> Arrays:
        return self._chosen_state(self._within_windows(BEGINNING))

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        return self._chosen_state(self._within_windows(frontier.watermark))

    def _fits(self, state: Arrays) -> None:
        groups = state["groups"]
        demand(bool((groups[:, 1] < groups[:, 0]).all()))

    def _become(self, state: Arrays) -> None:
        counts, fronts, table = state["groups"][:, 0], state["groups"][:, 1].copy(), state["rings"]
        results, number = len(self.spec.kinds), len(counts)
        sizes = np.full(number, self.least)
        while (small := sizes < counts).any():
            sizes[small] *= 2
        sizes = np.minimum(sizes, self.limit)
        groups = np.zeros((roomy(number, 2 * number), G_BACK + 3 * results), np.int64)
        groups[:number, G_RING], groups[:number, G_SIZE] = np.cumsum(sizes) - sizes, sizes
        groups[:number, G_COUNT] = counts
        total, values = int(sizes.sum()), len(table) * self.distinct
        size = roomy(total, 2 * total)
        chosen = np.repeat(groups[:number, G_RING], counts) + _numbered(counts)
        rings, partials = (
            np.empty((size, VALUES + results), np.int64),
            np.empty((size, PARTIAL + 3 * results), np.int64),
        )
        identities = np.empty((size, 0 if self.lineage is None else 1), np.int64)
        rings[chosen], identities[chosen] = table[:, :-1], table[:, -1:][:, : identities.shape[1]]
        tally_index = np.full(capacity_for(values), -1, np.int64)
        tallies, tallied = np.empty((roomy(values, 16), 3), np.int64), np.zeros(COUNTS, np.int64)
        tallied[ROWS] = total
        windows = Windows(rings, partials, identities, groups, tally_index, tallies, tallied)
        rebuild(windows, fronts, self.kinds, self.limit)
        self.keys = Keys.of(state["keys"], number)
        self.rings, self.partials, self.identities, self.groups, self.tally_index, self.tallies, self.counts = windows
        self.watched = max(1024, 3 * max(total, int(tallied[TALLIES])))

    @property
    def size(self) -> tuple[int, int]:
        groups = self.groups[: self.keys.count]
        words = self.rings.shape[1] + self.partials.shape[1] * int(self.counts[FOLDS]) + self.identities.shape[1]
        used = int(self.counts[ROWS]) * words + len(groups) * (groups.shape[1] + len(self.by) + 2)
        return int(groups[:, G_COUNT].sum()), 8 * (used + 5 * int(self.counts[TALLIES]))


def _numbered(counts: Ints) -> Ints:
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def window_of(node: Aggregation, builder: GoalBuilder, number: int) -> Goal:
    types = builder.types(node.child)
    results = results_of(node.results, types, builder)
    kinds, values = results.kinds, results.values
    coded = tuple(k for k, type in enumerate(results.types) if type in CODED)
    by_codes = tuple(i for i, c in enumerate(node.by) if types[c] in CODED)
    if node.over is None and max(kinds) < slopes_and_percentiles.RATE:
        events, duration = node.events or 0, node.duration or 0
        plain = AggregateSpec(events, duration, node.by, by_codes, kinds, values, coded)
        return SlidingAggregate(plain, builder.lineage)
    form, length, step, bounds = _form(node)
    parameters = tuple(float(result.parameter or 0) for result in node.results)
    order = builder.order(number, [types[column] for column in node.by])
    spec = WindowSpec(form, length, step, bounds, node.by, by_codes, kinds, parameters, values, coded, order)
    return WindowedAggregate(spec, lambda: Labels(builder.pool), builder.lineage)


def _form(node: Aggregation) -> tuple[int, int, int, Bounds | None]:
    """Return the form of a node's windows, their length, their step, and their bounds.

    The length is in events or microseconds. Only EVERY has a step, and only EACH has bounds.
    """
    if node.over is None:
        if node.events is not None:
            return general_window.LAST_EVENTS, node.events, 1, None
        return general_window.LAST_TIME, node.duration or 0, 1, None
    if node.over.form == "every":
        return general_window.EVERY, node.duration or 0, node.over.length, None
    if node.over.form == "session":
        return general_window.SESSION, node.over.length, 1, None
    return general_window.EACH, node.over.length, 1, bounds_of(node.over)
