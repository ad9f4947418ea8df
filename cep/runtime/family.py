"""Families: rules of the same shape, which run as one part of the machine.

A component is a set of goals that are connected because they read each other's output. Components are members of one
family if they differ only in names and in constants. Each goal of a family processes the rows of all members (see
`cep.operators.goals.in_family`).

Some units have rows from which many goals select by constants. A component ends at such a unit, and each of these goals
begins a component of its own. In a family, each row of the unit is repeated for the members whose constants it matches
(see `cep.runtime.constant_index`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np

from cep.core.components import components
from cep.core.relation import Table, concat, contiguous, empty, rows
from cep.core.schema import Attribute, Schema
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.contract import EventGoal, Goal, Ints, Takes
from cep.operators.goals.in_family import InFamily
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.rules.conditions.column_tests import NEGATED, Tests
from cep.runtime.constant_index import ConstantIndex, constant_indexes
from cep.runtime.machine_part import GoalByGoal, MachinePart, SingleGoal, slices

LEAST = 64
"""The minimum number of members of a family. Fewer components of the same shape run separately."""
REPEATED = 1 << 16
"""The number of repeated rows that a family processes at a time, so that they stay in the processor's cache."""
MANY = 1 << 10
"""The maximum average number of input rows per goal for which the members run as a family. With more rows, running the
members one by one is faster."""


MEMBER = "@member"
"""The attribute of a family's rows that holds the number of the member to which the row belongs."""


Inlet: TypeAlias = "tuple[Schema, int]"
"""The place where the rows of an input event enter a family. It consists of the schema of the family's input table, and
the number of the member that reads the event. The input table holds the rows of all members."""


@dataclass(slots=True)
class Slot:
    """One goal of a family. It does the work of one goal of each member.

    - `singles`: the replaced goals, one per member.
    - `reads`: the numbers of the slots whose output this slot reads.
    - `inlet`: the schema of the family's input table, if the slot reads input events.
    - `shared`: if the slot reads units outside the family, the indexes of the members that read each unit.
    - `out`: True if the slot's rows are output of the engine, or if parts outside the family read them.
    - `totals`: for each member, the number of rows since `count` was last called.
    """

    singles: Sequence[SingleGoal]
    goal: Goal
    reads: Sequence[int]
    inlet: Schema | None
    shared: Mapping[PlanUnit, Sequence[ConstantIndex]]
    out: bool
    totals: Ints

    @property
    def goals(self) -> list[InFamily]:
        """The replaced goals, one per member."""
        return [cast(InFamily, single.goal) for single in self.singles]


class Family(GoalByGoal):
    """Components of the same shape, as one part of the machine.

    The goals of the family hold the state of all members. A caller that needs the state of a single goal first calls
    `spread`, which copies the state of each member to the goals of this member. If the caller may have changed a copied
    state, it must call `touched` before the next run.
    """

    def __init__(self, slots: Sequence[Slot], kept: Container[PlanUnit]) -> None:
        """Create the family. `kept`: units that also run outside the family, and are counted there."""
        self.slots, self.kept = slots, kept
        self.singles = [single for slot in slots for single in slot.singles]
        self.events = {
            slot.inlet.name: [str(single.event) for single in slot.singles] for slot in slots if slot.inlet is not None
        }
        """The input events of each inlet, in the order of the members."""
        self.inlets: dict[str, Inlet] = {
            str(single.event): (slot.inlet, number)
            for slot in slots
            if slot.inlet is not None
            for number, single in enumerate(slot.singles)
        }
        self.shared = tuple(dict.fromkeys(unit for slot in slots for unit in slot.shared))
        """The units outside the family that its slots read."""
        self.members = len(slots[0].singles)
        self.entrances = self.members * sum(slot.inlet is not None or bool(slot.shared) for slot in slots)
        """The number of members' goals that read units or input events outside the family."""
        self.unit = slots[-1].singles[0].unit
        self.gives = [single.unit for slot in slots if slot.out for single in slot.singles]
        self._copied, self._apart = False, True

    @property
    def takes(self) -> Takes:
        return Takes(self.shared, (*self.events, *self.inlets), False)

    def due(self) -> int | None:
        return None

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """See `MachinePart`. The goals' states are valid between `spread` and the next run."""
        return [(single.unit, single.goal) for single in self.singles]

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        """See `MachinePart`. The rows of each member are counted in the `totals` of the slots, not in `row_counts`."""
        whole: dict[PlanUnit, Table] = dict(inputs.items())
        whole |= {unit: outputs[unit] for unit in self.shared}
        repeated = 0
        if sum(rows(whole[unit]) for unit in self.shared) * self.members > REPEATED:
            spread = [(whole[unit], indexes) for slot in self.slots for unit, indexes in slot.shared.items()]
            repeated = sum(index.count(table) for table, indexes in spread for index in indexes)
        if self._singly(repeated + sum(rows(inputs[event]) for event in inputs if event in self.inlets), inputs):
            self._run_singly(inputs, outputs, frontier, row_counts)
            return True
        if self._apart:
            self._gather()
        self._copied, pieces = False, [(whole, frontier.watermark)]
        if repeated > 2 * REPEATED:
            size = sum(map(rows, whole.values())) * REPEATED // repeated
            pieces = slices(whole, frontier.watermark, max(1, size))
        stepped = [self._step(piece, frontier.until(until)) for piece, until in pieces]
        for slot, *tables in zip(self.slots, *stepped):
            if slot.out and any(map(rows, tables)):
                outputs |= {slot.singles[member].unit: own for member, own in by_member(concat(tables))}
        return True

    def _singly(self, count: int, inputs: Mapping[str, Table]) -> bool:
        """Return True if the members run faster one by one. `count`: the number of their input rows.

        The result is False if the state has more rows than the input. To divide the state among the members and gather
        it again would then take too long.
        """
        if count <= MANY * self.entrances or not self.events.keys().isdisjoint(inputs):
            return False
        waiting = 0 if self._apart else sum(slot.goal.size[0] for slot in self.slots)
        return waiting <= count

    def _run_singly(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> None:
        """Run the members one by one."""
        self.spread()
        self.touched()
        for slot in self.slots:
            for unit, indexes in slot.shared.items():
                for member, table in (pair for index in indexes for pair in index.concerned(outputs[unit])):
                    single = slot.singles[member]
                    if single.unit not in outputs:
                        outputs[single.unit] = single.goal.step([table], frontier)
                        row_counts[single.unit] += 0 if single.unit in self.kept else rows(outputs[single.unit])
            for single in () if slot.shared else slot.singles:
                single.run(inputs, outputs, frontier, row_counts)

    def _step(self, inputs: Mapping[PlanUnit, Table], frontier: Frontier) -> list[Table]:
        """Process a slice of the input. Return the output of each slot."""
        tables: list[Table] = []
        for slot in self.slots:
            taken = [tables[number] for number in slot.reads]
            if slot.shared or slot.singles[0].event is not None:
                taken.insert(0, self._own(slot, inputs))
            if not any(map(rows, taken)):
                tables.append(empty(slot.singles[0].width + 1))
                continue
            table = slot.goal.step(taken, frontier)
            slot.goal.evict(frontier)
            if slot.inlet is not None and rows(table) < rows(taken[0]):
                _share_merged(slot, taken[0], table)
            tables.append(table)
            slot.totals += np.bincount(table[-1], minlength=len(slot.totals))
        return tables

    def _own(self, slot: Slot, inputs: Mapping[PlanUnit, Table]) -> Table:
        """Return the rows of input events and of units outside the family that a slot reads.

        Rows of input events may be in one table for all members, in tables for single events, or in both.
        """
        if slot.shared:
            tables = [index.repeated(inputs[unit]) for unit, indexes in slot.shared.items() for index in indexes]
            return tables[0] if len(tables) == 1 else by_arrival(concat(tables))
        if slot.inlet is None:
            return empty(slot.singles[0].width + 1)
        tables = [inputs[slot.inlet.name]] if slot.inlet.name in inputs else []
        mine = self.events[slot.inlet.name]
        for event in mine if len(mine) < len(inputs) else inputs:
            inlet, member = self.inlets.get(str(event), (None, 0))
            if inlet is slot.inlet and event in inputs:
                tables.append(with_member(inputs[event], member))
        return by_arrival(concat(tables)) if tables else empty(slot.singles[0].width + 1)

    # --- state ---

    def sizes(self) -> dict[PlanUnit, tuple[int, int]]:
        """Return the number of waiting rows and their size in bytes, for each goal of each member. The state is not
        copied to the members' goals."""
        if self._apart:
            return {single.unit: single.goal.size for single in self.singles}
        sizes = [cast(InFamily, slot.goal).sizes(slot.goals) for slot in self.slots]
        return {single.unit: size for slot, own in zip(self.slots, sizes) for single, size in zip(slot.singles, own)}

    def spread(self) -> None:
        """Copy each member's state to the member's own goals."""
        if self._copied or self._apart:
            return
        for slot in self.slots:
            cast(InFamily, slot.goal).divide(slot.goals)
        self._copied = True

    def touched(self) -> None:
        """Record that the caller may have changed states that `spread` copied."""
        self._apart = self._apart or self._copied

    def _gather(self) -> None:
        for slot in self.slots:
            cast(InFamily, slot.goal).gather(slot.goals)
        self._apart = False

    def count(self, row_counts: dict[PlanUnit, int], spent: dict[PlanUnit, int]) -> None:
        """Add the number of rows of each member to `row_counts`. Divide the time that the family has used among the
        members, in proportion to their numbers of rows. `spent`: the time that each unit has used."""
        time, total = spent[self.unit], sum(int(slot.totals.sum()) for slot in self.slots)
        if not total:
            return
        for slot in self.slots:
            units = [single.unit for single in slot.singles]
            for unit, count in dict(zip(units, slot.totals.tolist())).items():  # members may share an entry
                if not (slot.shared and unit in self.kept):
                    row_counts[unit] += count
                    spent[unit] = time * count // total
            slot.totals[:] = 0


def _share_merged(slot: Slot, before: Table, after: Table) -> None:
    fewer = np.bincount(before[-1], minlength=len(slot.totals)) - np.bincount(after[-1], minlength=len(slot.totals))
    for member in np.flatnonzero(fewer).tolist():
        cast(EventGoal, slot.singles[member].goal).merged += int(fewer[member])


def with_member(table: Table, member: int) -> Table:
    """Return a member's rows as rows of its family, with the member's number in the last row of the matrix."""
    wider = np.empty((len(table) + 1, rows(table)), np.int64)
    wider[:-1], wider[-1] = table, member
    return wider


def by_member(table: Table) -> list[tuple[int, Table]]:
    """Split a family's rows into the rows of each member. Members without rows are omitted."""
    if rows(table) < 2:
        return [(int(table[-1, 0]), table[:-1])] if rows(table) else []
    order = np.argsort(table[-1].astype(np.uint16) if table[-1].max() < 1 << 16 else table[-1], kind="stable")
    ordered: Table = take(contiguous(table), order)
    firsts = [0, *(1 + np.flatnonzero(ordered[-1, 1:] != ordered[-1, :-1])).tolist(), rows(table)]
    return [(int(ordered[-1, first]), ordered[:-1, first:stop]) for first, stop in pairwise(firsts)]


def with_families(
    parts: Sequence[MachinePart], plan: Plan, heads: Mapping[str, Sequence[int]], sharing: bool = True
) -> list[MachinePart]:
    """Group the parts of a machine into families. Return all parts in running order, with families for their members.

    `heads`: for each event, the numbers of the rules that derive it. `sharing`: True if members may read units outside
    their family.
    """
    entries = _entries(parts) if sharing else {}
    shared = set(entries.values())
    shapes: dict[int, Hashable] = {}
    places: dict[PlanUnit, int] = {}
    """For each unit whose part can belong to a family, the number of this part."""
    joint: dict[int, list[int]] = {}
    """For each part that can belong to a family, except the keys of `entries`, the numbers of all parts of its
    component."""
    for number, part in enumerate(parts):
        reads = () if number in entries else part.takes.units
        if isinstance(part, SingleGoal) and all(unit in places and unit not in shared for unit in reads):
            form = _shape(part, plan, heads)
            if form is not None:
                shapes[number], places[part.unit] = form, number
                if number not in entries:
                    _connect(joint, number, [places[unit] for unit in reads if places[unit] not in entries])
    others = [part.takes for number, part in enumerate(parts) if number not in shapes]
    out = {*plan.derived, *shared, *(unit for takes in others for unit in (*takes.units, *takes.events))}
    out.difference_update(parts[number].unit for number in entries)
    alike: dict[Hashable, list[list[SingleGoal]]] = {}
    for component in {id(component): sorted(component) for component in joint.values()}.values():
        singles = _with_entries([parts[number] for number in component], parts, places, entries)
        own = {single.unit: place for place, single in enumerate(singles)}
        form = tuple((tuple(own.get(unit, -1) for unit in single.reads), single.unit in out) for single in singles)
        alike.setdefault((form, tuple(shapes[places[single.unit]] for single in singles)), []).append(singles)
    alike = {form: members for form, members in alike.items() if len(members) >= LEAST}
    families = {min({places[single.unit] for single in m[0]} - entries.keys()): m for m in alike.values()}
    inside = {places[single.unit] for members in alike.values() for singles in members for single in singles}
    alone = [part.takes.units for number, part in enumerate(parts) if number not in inside]
    uses = Counter(unit for members in alike.values() for unit in {s.unit for singles in members for s in singles})
    kept = shared.union(*alone, (unit for unit, count in uses.items() if count > 1))
    """The units of a family that parts outside this family read, and the units that several families read. If the part
    of such a unit is in `entries`, it also runs outside its family."""
    joined: list[MachinePart] = []
    for number, part in enumerate(parts):
        if number in families:
            joined.append(_family(f"@family {len(joined)}", families[number], out, kept, plan))
        if number not in inside or (number in entries and part.unit in kept):
            joined.append(part)
    ordered = _in_order(joined)
    return with_families(parts, plan, heads, False) if ordered is None else ordered


def _entries(parts: Sequence[MachinePart]) -> dict[int, PlanUnit]:
    entries = {
        number: part.reads[0]
        for number, part in enumerate(parts)
        if isinstance(part, SingleGoal) and not part.tests[:, NEGATED].all()
    }
    selects = {parts[number].unit: unit for number, unit in entries.items()}
    readers = Counter(selects[unit] for part in parts for unit in part.takes.units if unit in selects)
    return {number: unit for number, unit in entries.items() if readers[unit] >= LEAST}


def _with_entries(
    component: Sequence[MachinePart],
    parts: Sequence[MachinePart],
    places: Mapping[PlanUnit, int],
    entries: Container[int],
) -> list[SingleGoal]:
    singles: dict[PlanUnit, MachinePart] = {}
    for part in component:
        read = [places[unit] for unit in part.takes.units]
        singles |= {parts[number].unit: parts[number] for number in read if number in entries}
        singles[part.unit] = part
    return [single for single in singles.values() if isinstance(single, SingleGoal)]


def _in_order(parts: list[MachinePart]) -> list[MachinePart] | None:
    if not any(isinstance(part, Family) and part.shared for part in parts):
        return parts
    givers = {unit: number for number, part in enumerate(parts) for unit in part.gives}
    needs = [[givers[unit] for unit in part.takes.units if unit in givers] for part in parts]
    order = components(range(len(parts)), needs.__getitem__)
    if any(len(cycle) > 1 or (cycle[0] in needs[cycle[0]]) for cycle in order):
        return None
    return [parts[number] for (number,) in order]


def _connect(joint: dict[int, list[int]], number: int, reads: Sequence[int]) -> None:
    component = joint[number] = [number]
    for other in reads:
        joining = joint[other]
        if joining is not component:
            if len(joining) > len(component):
                component, joining = joining, component
            component += joining
            joint |= dict.fromkeys(joining, component)


def _shape(part: SingleGoal, plan: Plan, heads: Mapping[str, Sequence[int]]) -> Hashable:
    """Return a description of a part. Parts with equal descriptions may run as one. Returns None if the part cannot
    belong to a family."""
    if part.event is None:
        if not isinstance(part.unit, int) or not part.reads:
            return None
        own = _own_shape(part)
        return None if own is None else (own, *(tuple(plan.types(child)) for child in plan.nodes[part.unit].parts))
    schema, rules = plan.schemas[part.event], heads.get(part.event, ())
    taken = part.event in plan.inputs
    own = None if taken == bool(rules) or schema.fluent is not None else _own_shape(part)
    if own is None:
        return None
    return own, taken, schema.attributes, schema.point, schema.declared, tuple(plan.arguments[rule] for rule in rules)


def _own_shape(part: SingleGoal) -> Hashable:
    own = part.goal.shape() if isinstance(part.goal, InFamily) else None
    return None if own is None else (type(part.goal), own)


def _family(
    name: str,
    members: Sequence[Sequence[SingleGoal]],
    out: Container[PlanUnit],
    kept: Container[PlanUnit],
    plan: Plan,
) -> Family:
    slots, own = [], {single.unit: place for place, single in enumerate(members[0])}
    for place, single in enumerate(members[0]):
        singles = [member[place] for member in members]
        inlet = None
        if single.event in plan.inputs:
            schema = plan.schemas[single.event]
            attributes = (*schema.attributes, Attribute(MEMBER, "int"))
            inlet = replace(schema, name=f"{name} {place}", attributes=attributes)
        goals = [cast(InFamily, other.goal) for other in singles]
        united, reads = goals[0].united(goals), [own[unit] for unit in single.reads if unit in own]
        shared = {} if len(reads) == len(single.reads) else _readers(singles)
        if shared and len(single.tests) == 1:
            united.skip_tests()  # the index has tested it
        totals = np.zeros(len(members), np.int64)
        slots.append(Slot(singles, cast(Goal, united), reads, inlet, shared, single.unit in out, totals))
    return Family(slots, kept)


def _readers(singles: Sequence[SingleGoal]) -> dict[PlanUnit, Sequence[ConstantIndex]]:
    tests: dict[PlanUnit, dict[int, Tests]] = {}
    for member, single in enumerate(singles):
        tests.setdefault(single.reads[0], {})[member] = single.tests
    return {unit: constant_indexes(own, 0)[0] for unit, own in tests.items()}
