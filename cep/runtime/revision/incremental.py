"""Incremental revision: late rows go through a program as changes of tables.

A goal that has a reviser (see `cep.operators.goals.reviser`) processes changes. Some revisers also store the goal's
input of the revision window, by key. Goals without a reviser run again for the keys that change (see
`cep.runtime.revision.region`).

The window is divided into stretches of time. Incremental revision begins once the cost of rerunning keys exceeds that
of reading the window. It starts from the oldest stored state and the input since then. It ends if no row has arrived
late for the length of the window. The states of the stretches are only updated when a caller needs them (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from cep.core.relation import END, IDENTITY, Table, concat, contiguous, rows
from cep.core.signals import stops
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival, equal_before
from cep.operators.goals.contract import EventGoal
from cep.operators.goals.keyed_rows import GOES, parts_of, signed
from cep.operators.goals.reviser import Reviser, apart, concatenated
from cep.operators.goals.revisers import GoalInPlan, allow_twice, revisers_of
from cep.plan.dependencies import Dependencies
from cep.plan.equal import equal_records
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.plan.ties import Ties
from cep.runtime.machine import Machine
from cep.runtime.machine_part import GivenTables, SingleGoal
from cep.runtime.revision.plan_regions import PartsTogether, goes_by_order, regions_of
from cep.runtime.revision.region import Rerun, rerun_of
from cep.runtime.revision.rerunning import Revised
from cep.runtime.revision.row_window import RowChanges, parted
from cep.runtime.revision.window_segment import FEWEST, Given, Stretch, by_stretch, extend, window_of
from cep.runtime.schedule import Schedule

A_ROW, A_PUSH = 64, 4096
"""The estimated cost of rerunning keys: A_ROW per late row, and A_PUSH per push that has late rows. The unit is the
cost of reading one row of the window."""
KNOWN = 1024
"""A limit for the known keys that have no rows any more. Incremental revision ends when the number of known keys
exceeds KNOWN plus twice the number of rows."""
TABLES = 64
"""The number of tables of one unit that may accumulate before the revisers read them."""
FEW = 1024
"""A limit for pending output rows. If more rows are pending, and more than twice as many as after the last call of
`_net_given`, this method removes opposite changes of the same row."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the machine that processes changes: a goal that has a reviser, or a region.

    `place`: the position of the part's first goal among all goals of the machine.
    """

    part: SingleGoal | PartsTogether
    reviser: Reviser | Rerun
    place: int


class Incremental:
    """Incremental revision of one machine. It requires that the knowledge does not change within the window."""

    def __init__(self, plan: Plan, machine: Machine, build: Callable[[Plan], Machine], pool: Pool) -> None:
        self.plan, self.machine, self.build, self.pool = plan, machine, build, pool
        self.regions = _regions(plan, machine)
        """The groups of parts that are revised together. Each group is a list of part numbers, paired with True if the
        group is a single goal that has a reviser."""
        self.by_order = {
            unit
            for numbers, _ in self.regions
            for number in numbers
            for unit in machine.parts[number].gives
            if isinstance(unit, str) and len(numbers) > 1
        }
        """The events whose rows are output inside a region of several parts. Another goal of such a region may depend
        on the order of simultaneous rows."""
        self.sets = {*machine.given, *_read_as_sets(plan, machine, self.regions)}
        """The units that must output each occurrence only once."""
        _in_bags(machine, self.sets)
        self.parts: list[_Part] = []
        self.spent = 0
        """The estimated cost of rerunning keys so far."""
        self.used = 0
        """The watermark when a row last arrived late. Late rows of the latest instant are not counted."""
        self.pending: list[tuple[str, RowChanges]] = []
        """Changes of the output that have not been added to the stretches of the window yet."""
        self.waiting = self.netted = 0
        """The current number of rows in `pending`, and their number after the last call of `_net_given`."""
        self.since = END_OF_TIME
        """The time of the earliest change that the stored states do not reflect. The states of stretches that begin
        before this time are up to date."""
        self.keys = 0
        """The number of known keys when incremental revision began."""
        self.come: Given = {}
        """Input rows that arrived in order and have not been passed to the regions."""
        self.several = _told_apart(plan, machine, self.sets)
        """The input events whose equal records count separately, each with its goal."""
        self.equal_until = BEGINNING
        """The latest end of any record that equals another record, for the events in `several`. Incremental revision
        cannot represent such records."""
        self.schedule = Schedule((), ())
        """A schedule that knows when each of the `parts` is next due."""
        self.restored = False
        """True if the stretches come from a snapshot and have not been searched for equal records yet."""

    @property
    def stretches_of_a_window(self) -> int | None:
        """The number of stretches per window. None before incremental revision has begun, because the number then
        depends on the input."""
        return FEWEST if self.begun else None

    @property
    def begun(self) -> bool:
        return bool(self.parts)

    def tells_apart(self, stretches: Sequence[Stretch]) -> bool:
        """Return True if the stretches may contain equal records that count separately."""
        since = stretches[0].since
        for stretch in stretches if self.restored else ():
            for event in self.several.keys() & stretch.inputs.keys():
                self.look_at(stretch.inputs[event].all())
        self.restored = False
        self.equal_until = max([self.equal_until, *(goal.latest_equal for goal in self.several.values() if goal)])
        return self.equal_until > since

    def look_at(self, records: Table) -> None:
        """Search the records of an event whose equal records count separately. If some are equal, update
        `equal_until`."""
        records = by_arrival(contiguous(records))
        if (before := equal_before(records)) is not None:
            self.equal_until = max(self.equal_until, int(records[END, before > 0].max()))

    def cost(self, late: Mapping[str, RowChanges]) -> None:
        """Add the estimated cost of rerunning the keys of late rows to `spent`."""
        self.spent += A_PUSH + A_ROW * sum(rows(change.going) + rows(change.coming) for change in late.values())

    def begin(self, stretches: Sequence[Stretch], frontier: Frontier) -> None:
        """Begin incremental revision. Start from the oldest stored state and the input since then, up to `frontier`.

        All stretches must be up to date.
        """
        first = stretches[0]
        since = frontier.until(first.since)
        machine, scratch = self.machine, self.build(self.plan)
        live = machine.goals()
        _in_bags(scratch, self.sets)
        places = {unit: place for place, (unit, _) in enumerate(live)}
        revisers = _revisers(self.plan, machine)
        seen = {*machine.given, *(unit for part in machine.parts for unit in part.takes.units)}
        self.parts = []
        for numbers, alone in self.regions:
            single = machine.parts[numbers[0]]
            if alone:
                assert isinstance(single, SingleGoal), "a part that revises is a goal"
                reviser = revisers[single.unit]
                assert reviser is not None, "it revises"
                self.parts.append(_Part(single, reviser, places[single.unit]))
                continue
            part, other = (
                PartsTogether([side.parts[number] for number in numbers], seen, self.plan.inputs, machine.nothing)
                for side in (machine, scratch)
            )
            region = rerun_of(self.plan, other, live, self.pool, stretches)
            self.parts.append(_Part(part, region, places[part.goals_by_unit()[0][0]]))
        self.schedule = Schedule([part.part for part in self.parts], ())
        for (_, goal), state in zip(scratch.goals(), first.state.base, strict=True):
            goal.become_arrays({name: array.copy() for name, array in state.items()})
        length = frontier.watermark - frontier.stable
        for region_part in self.parts:
            if isinstance(region_part.reviser, Rerun):
                region_part.reviser.begin(first.state.base, since, length)
            else:
                region_part.reviser.begin(first.state.base[region_part.place], since, length)
        scratch.watched = self._watched()
        inputs: dict[str, list[Table]] = {}
        for stretch in stretches:
            extend(inputs, {event: window.runs for event, window in stretch.inputs.items()})
        tables = {event: by_arrival(contiguous(concat(tables))) for event, tables in inputs.items() if tables}
        scratch.step(tables, frontier)
        self.come = {event: [table] for event, table in tables.items()}
        self._take(scratch.watched)
        machine.watched = self._watched()
        self._forget_changes()
        self.used = frontier.watermark
        self.keys = max(part.reviser.keys for part in self.parts)

    def leave(self) -> None:
        """End incremental revision. The stretches must be up to date, or about to be replaced."""
        self.parts, self.come, self.spent = [], {}, 0
        self._forget_changes()
        self.machine.watched = {}

    def revise(
        self, late: Mapping[str, RowChanges], inputs: Mapping[str, Table], since: int, frontier: Frontier
    ) -> tuple[Revised, Given]:
        """Revise the output up to the watermark `since`, and continue to a frontier.

        `late`: changes of the input up to the watermark. `inputs`: input rows after the watermark, in order. Return the
        revised output and, separately, the output after the watermark.
        """
        self._take(self.machine.watched)
        machine, revised, ahead = self.machine, Revised(), Given()
        tables = {event: _come(late.get(event), inputs.get(event)) for event in {*late, *inputs}}
        outputs, given_events = GivenTables(machine.nothing), set(machine.given)
        machine.touched()
        schedule, began = self.schedule, perf_counter_ns()
        schedule.forget()
        schedule.begin(tables, frontier.watermark)
        while (number := schedule.next()) is not None:
            stops.between()
            part = self.parts[number]
            takes, unit = part.part.takes, part.part.unit
            read = [tables[event] if event in tables else machine.nothing[event] for event in takes.events]
            read += [outputs[other] for other in takes.units]
            outputs.update(self._revised(part, read, since, frontier, revised))
            schedule.ran(number, outputs)
            for event in part.part.gives:
                if event in given_events and rows(outputs[event]):
                    assert isinstance(event, str), "events are given"
                    self._give(event, outputs[event], since, revised, ahead)
            now = perf_counter_ns()
            machine.spent[unit] += now - began
            began = now
        ends = (table[END] for change in late.values() for table in (change.going, change.coming) if rows(table))
        first = min((int(table.min()) for table in ends), default=END_OF_TIME)
        self.since = min(self.since, first)
        if first < since:  # some changes lie before the latest instant
            self.used = frontier.watermark
        return revised, ahead

    def _revised(
        self, part: _Part, read: Sequence[Table], since: int, frontier: Frontier, all_revised: Revised
    ) -> Mapping[PlanUnit, Table]:
        """Return the changes of a part's output, including those that the passing of time causes.

        `read`: the part's inputs. `all_revised`: the result of the revision, in which this method records the number of
        keys that were rerun.
        """
        row_counts, single = self.machine.made, part.part
        if isinstance(part.reviser, Rerun):
            assert isinstance(single, PartsTogether), "a region is of parts"
            tables, keys = part.reviser.revise(read, single, since, frontier, row_counts)
            all_revised.keys = max(all_revised.keys, keys)
            return tables
        assert isinstance(single, SingleGoal), "a part that revises is a goal"
        goal, unit = single.goal, single.unit
        revised = part.reviser.revise(read, goal, since, frontier)
        all_revised.keys = max(all_revised.keys, revised.keys)
        changes = revised.changes
        due = goal.due()
        if due is not None and due <= frontier.watermark:
            passed = goal.step([table[:, :0] for table in read], frontier)
            goal.evict(frontier)
            changes = concat([changes, passed]) if rows(changes) else passed
        row_counts[unit] += rows(changes) - 2 * int(np.count_nonzero(changes[IDENTITY] == GOES))
        return {unit: changes}

    def _give(self, event: str, changes: Table, since: int, revised: Revised, ahead: Given) -> None:
        """Record changes of an output event. Changes that end at or before `since` are added to `revised`, and later
        ones to `ahead`."""
        going, coming = parts_of(changes)
        early = coming[END] <= since
        before, after = parted(coming, early) if early.any() else (coming[:, :0], coming)
        if rows(going) or rows(before):
            extend(revised.old, {event: [going]})
            extend(revised.new, {event: [before]})
            self.pending.append((event, RowChanges(going, before)))
            self.waiting += rows(going) + rows(before)
        if rows(after):
            ahead[event] = [by_arrival(after)]

    def went_on(self, stretches: Sequence[Stretch], watermark: int, length: int) -> bool:
        """Drop rows that end before the window. Return True if incremental revision should end.

        It should end if no row has arrived late for the length of the window, or if most known keys have no rows any
        more.
        """
        since = stretches[0].since
        for part in self.parts:
            part.reviser.forget(since)
        if any(len(tables) > TABLES for tables in (*self.machine.watched.values(), *self.come.values())):
            self._take(self.machine.watched)
        if self.waiting > max(FEW, 2 * self.netted):
            self._net_given(stretches)
        held = sum(window.size for stretch in stretches for window in stretch.inputs.values())
        keys = max(part.reviser.keys for part in self.parts)
        return watermark - self.used > length or keys > KNOWN + 2 * max(held, self.keys)

    def settle(self, stretches: Sequence[Stretch]) -> None:
        """Update the output and the states of the stretches."""
        if self.since == END_OF_TIME:
            return
        self._take(self.machine.watched)
        self._put_given(stretches)
        wrong = [stretch for stretch in stretches if stretch.since >= self.since]
        for part in self.parts if wrong else ():
            states = part.reviser.states_at([stretch.since for stretch in wrong])
            for stretch, state in zip(wrong, states):
                stretch.state.base[part.place] = state
        self.since = END_OF_TIME

    @property
    def nbytes(self) -> int:
        watched = *self.machine.watched.values(), *self.come.values()
        waiting = sum(table.nbytes for tables in watched for table in tables)
        return waiting + sum(part.reviser.nbytes for part in self.parts)

    def _forget_changes(self) -> None:
        self.pending, self.waiting, self.netted, self.since = [], 0, 0, END_OF_TIME

    def _watched(self) -> dict[PlanUnit, list[Table]]:
        return {unit: [] for part in self.parts if part.reviser.remembers for unit in part.part.takes.units}

    def took(self, inputs: Mapping[str, Table]) -> None:
        """Record input rows that the machine has processed in order."""
        for event in self.several.keys() & inputs.keys():
            if self.several[event] is None:
                self.look_at(inputs[event])
        if self.begun:
            extend(self.come, {event: [inputs[event]] for event in self._own & inputs.keys()})

    @property
    def _own(self) -> frozenset[str]:
        regions = (part.part for part in self.parts if isinstance(part.reviser, Rerun))
        return frozenset(event for part in regions for event in part.takes.events)

    def _take(self, watched: Mapping[PlanUnit, list[Table]]) -> None:
        """Pass the rows that arrived in order to the revisers. `watched`: for each unit, the tables of such rows, for
        the revisers that read this unit."""
        if not any(watched.values()) and not any(self.come.values()):
            return
        widths = self.machine.widths
        tables = {unit: concatenated(widths[unit], unit_parts) for unit, unit_parts in watched.items()}
        come = {event: concatenated(widths[event], event_tables) for event, event_tables in self.come.items()}
        for part in self.parts:
            takes, own = part.part.takes, come if isinstance(part.reviser, Rerun) else {}
            read = [own.get(event, self.machine.nothing[event]) for event in takes.events]
            read += [tables[unit] for unit in takes.units] if part.reviser.remembers else []
            if part.reviser.remembers and any(map(rows, read)):
                part.reviser.came(read)
        for unit_tables in watched.values():
            unit_tables.clear()
        self.come = {}

    def _net_given(self, stretches: Sequence[Stretch]) -> None:
        """Remove pending withdrawals and additions of the same row. If more changes remain than the stretches have
        output rows, add the changes to the stretches."""
        by_event: dict[str, list[RowChanges]] = {}
        for event, change in self.pending:
            by_event.setdefault(event, []).append(change)
        since, count = stretches[0].since, 0
        net_pending: list[tuple[str, RowChanges]] = []
        for event, changes in by_event.items():
            going, coming = concat([change.going for change in changes]), concat([change.coming for change in changes])
            net = apart(going.compress(going[END] > since, axis=1), coming.compress(coming[END] > since, axis=1))
            net_pending.append((event, RowChanges(*parts_of(net))))
            count += rows(net)
        self.pending, self.waiting, self.netted = net_pending, count, count
        if count > sum(window.size for stretch in stretches for window in stretch.outputs.values()):
            self._put_given(stretches)

    def _put_given(self, stretches: Sequence[Stretch]) -> None:
        for event, changes in self.pending:
            for table, come in ((changes.going, False), (changes.coming, True)):
                for number, mine in by_stretch(stretches, table):
                    held = window_of(stretches[number].outputs, event, len(self.plan.schemas[event].attributes))
                    held.change(mine, come)
        self.pending, self.waiting, self.netted = [], 0, 0


def _told_apart(plan: Plan, machine: Machine, sets: Set[PlanUnit]) -> dict[str, EventGoal | None]:
    about = equal_records(plan)
    goals = {event: goal for goal, event in machine.events()}
    taken = {event for part in machine.parts for event in part.takes.events}
    by_event = {name: goals.get(name) for name in sorted(plan.inputs & taken & (about.numbered | about.several & sets))}
    for goal in by_event.values():
        if goal is not None:
            goal.looks = True
    return by_event


def _come(late: RowChanges | None, inputs: Table | None) -> Table:
    if late is None:
        assert inputs is not None, "something comes of it"
        return contiguous(inputs)
    changes = signed(late.going, by_arrival(contiguous(late.coming)))
    return contiguous(changes) if inputs is None else np.concatenate([changes, inputs], axis=1)


def _goals(machine: Machine) -> list[GoalInPlan]:
    singles = [part for part in machine.parts if isinstance(part, SingleGoal)]
    return [GoalInPlan(part.unit, part.goal, part.reads) for part in singles]


def _revisers(plan: Plan, machine: Machine) -> dict[PlanUnit, Reviser | None]:
    goals = _goals(machine)
    revisers = revisers_of(goals, machine.widths, machine.given, plan)
    return {unit_goal.unit: reviser for unit_goal, reviser in zip(goals, revisers, strict=True)}


def _in_bags(machine: Machine, sets: Collection[PlanUnit]) -> None:
    """Allow the goals of all units outside `sets` to output the same occurrence several times.

    This does not change the results of the program. The output counts each occurrence once, and inertia ignores
    repeated transitions.
    """
    for goal in _goals(machine):
        allow_twice(goal, goal.unit not in sets)


def _regions(plan: Plan, machine: Machine) -> list[tuple[list[int], bool]]:
    _in_bags(machine, machine.widths)
    revisers = _revisers(plan, machine)
    parts = machine.parts
    revises = [isinstance(part, SingleGoal) and revisers[part.unit] is not None for part in parts]
    strays = [number for number, part in enumerate(parts) if not all(goal.in_time for _, goal in part.goals_by_unit())]
    regions = regions_of(parts, plan, Ties(Dependencies(plan)), strays)
    return [(region, len(region) == 1 and revises[region[0]] and region[0] not in strays) for region in regions]


def _read_as_sets(plan: Plan, machine: Machine, regions: Iterable[tuple[list[int], bool]]) -> set[PlanUnit]:
    """Return the units that must output each occurrence only once.

    They are the units that are read or output by regions, and by goals whose results depend on the order of their
    input. If such a unit is a node, the units that it reads are included too, back to the events.
    """
    set_units, waiting = set[PlanUnit](), list[PlanUnit]()
    reads = {unit: part.takes.units for part in machine.parts for unit in part.gives}
    for numbers, alone in regions:
        for part in (machine.parts[number] for number in numbers):
            waiting += [] if alone and not goes_by_order(part, plan) else [*part.gives, *part.takes.units]
    while waiting:
        unit = waiting.pop()
        if unit not in set_units:
            set_units.add(unit)
            waiting += [] if isinstance(unit, str) else reads[unit]
    return set_units
