"""Families: rules of the same shape over different events, which run as one part of the machine.

A component is a set of goals that are connected because they read each other's output. Components are members of one
family if they differ only in names and in constants. Each goal of a family processes the rows of all members
(`cep.operators.goals.in_family`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np

from cep.core.relation import Table, concat, contiguous, empty, rows
from cep.core.schema import Attribute, Schema
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.contract import EventGoal, Goal, Ints, Takes
from cep.operators.goals.in_family import InFamily
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.runtime.machine_part import GoalByGoal, MachinePart, SingleGoal

LEAST = 64
"""The minimum number of members of a family. Fewer components of the same shape run separately."""


MEMBER = "@member"
"""The attribute of a family's rows that holds the number of the member to which the row belongs."""


Inlet: TypeAlias = "tuple[Schema, int]"
"""The place where the rows of an input event enter a family: the schema of the family's input table, and the number of
the member that reads the event. The input table holds the rows of all members."""


@dataclass(slots=True)
class Slot:
    """One goal of a family. It does the work of one goal of each member.

    - `singles`: the replaced goals, one per member.
    - `reads`: the numbers of the slots whose output this slot reads.
    - `inlet`: the schema of the family's input table, if the slot reads input events.
    - `out`: True if the slot's rows are output of the engine, or if parts outside the family read them.
    - `totals`: for each member, the number of rows since `count` was last called.
    """

    singles: Sequence[SingleGoal]
    goal: Goal
    reads: Sequence[int]
    inlet: Schema | None
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
    state, it must call `touched`.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
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
        self.unit = self.singles[0].unit
        self.gives = [single.unit for slot in slots if slot.out for single in slot.singles]
        self._copied, self._apart = False, True

    @property
    def takes(self) -> Takes:
        """See `MachinePart`."""
        return Takes((), (*self.events, *self.inlets), False)

    def due(self) -> int | None:
        """See `MachinePart`."""
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
        """See `MachinePart`. The rows of each member are counted in the `totals` of the slots, instead of in
        `row_counts`."""
        if self._apart:
            self._gather()
        self._copied = False
        tables: list[Table] = []
        for slot in self.slots:
            taken = [tables[number] for number in slot.reads]
            if slot.singles[0].event is not None:
                taken.insert(0, self._own(slot, inputs))
            if not any(map(rows, taken)):
                tables.append(empty(slot.singles[0].width + 1))
                continue
            table = slot.goal.step(taken, frontier)
            slot.goal.evict(frontier)
            if slot.inlet is not None and rows(table) < rows(taken[0]):
                _share_merged(slot, taken[0], table)
            tables.append(table)
            np.add.at(slot.totals, table[-1], 1)
            if slot.out:
                outputs |= {slot.singles[member].unit: own for member, own in by_member(table)}
        return True

    def _own(self, slot: Slot, inputs: Mapping[str, Table]) -> Table:
        """Return the input events of a slot. `inputs` may contain them in one table for all members, in tables for
        single events, or both."""
        if slot.inlet is None:
            return empty(slot.singles[0].width + 1)
        tables = [inputs[slot.inlet.name]] if slot.inlet.name in inputs else []
        mine = self.events[slot.inlet.name]
        for event in mine if len(mine) < len(inputs) else inputs:
            inlet, member = self.inlets.get(event, (None, 0))
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
            for single, count in zip(slot.singles, slot.totals.tolist()):
                row_counts[single.unit] += count
                spent[single.unit] = time * count // total
            slot.totals[:] = 0


def _share_merged(slot: Slot, before: Table, after: Table) -> None:
    """Add the number of merged records to the count of each member's event goal. `before`, `after`: the rows before and
    after equal records were merged."""
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


def with_families(parts: Sequence[MachinePart], plan: Plan, heads: Mapping[str, Sequence[int]]) -> list[MachinePart]:
    """Group the parts of a machine into families. Return all parts, in which each family replaces its members.

    `heads`: for each event, the numbers of the rules that derive it.
    """
    shapes: dict[int, Hashable] = {}
    places: dict[PlanUnit, int] = {}
    """For each unit whose part can belong to a family, the number of this part."""
    components: dict[int, list[int]] = {}
    """For each part that can belong to a family, the numbers of all parts of its component."""
    for number, part in enumerate(parts):
        if isinstance(part, SingleGoal) and all(unit in places for unit in part.reads):
            form = _shape(part, plan, heads)
            if form is not None:
                shapes[number], places[part.unit] = form, number
                _connect(components, number, [places[unit] for unit in part.reads])
    others = [part.takes for number, part in enumerate(parts) if number not in shapes]
    out = {*plan.derived, *(unit for takes in others for unit in (*takes.units, *takes.events))}
    alike: dict[Hashable, list[list[SingleGoal]]] = {}
    for component in {id(component): sorted(component) for component in components.values()}.values():
        singles = [part for number in component if isinstance(part := parts[number], SingleGoal)]
        own = {single.unit: place for place, single in enumerate(singles)}
        reads = tuple((tuple(own[unit] for unit in single.reads), single.unit in out) for single in singles)
        alike.setdefault((reads, tuple(shapes[number] for number in component)), []).append(singles)
    families = {places[members[0][0].unit]: members for members in alike.values() if len(members) >= LEAST}
    gone = {places[single.unit] for members in families.values() for singles in members for single in singles}
    joined: list[MachinePart] = []
    for number, part in enumerate(parts):
        if number in families:
            joined.append(_family(f"@family {len(joined)}", families[number], out, plan))
        if number not in gone:
            joined.append(part)
    return joined


def _connect(components: dict[int, list[int]], number: int, reads: Sequence[int]) -> None:
    """Merge the components of the parts `reads` into one, and add the part `number`, which reads these parts."""
    component = components[number] = [number]
    for other in reads:
        joining = components[other]
        if joining is not component:
            if len(joining) > len(component):
                component, joining = joining, component
            component += joining
            components |= dict.fromkeys(joining, component)


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


def _family(name: str, members: Sequence[Sequence[SingleGoal]], out: Container[PlanUnit], plan: Plan) -> Family:
    slots, own = [], {single.unit: place for place, single in enumerate(members[0])}
    for place, single in enumerate(members[0]):
        singles = [member[place] for member in members]
        inlet = None
        if single.event in plan.inputs:
            schema = plan.schemas[single.event]
            attributes = (*schema.attributes, Attribute(MEMBER, "int"))
            inlet = replace(schema, name=f"{name} {place}", attributes=attributes)
        goals = [cast(InFamily, other.goal) for other in singles]
        goal, reads = cast(Goal, goals[0].united(goals)), [own[unit] for unit in single.reads]
        slots.append(Slot(singles, goal, reads, inlet, single.unit in out, np.zeros(len(members), np.int64)))
    return Family(slots)
