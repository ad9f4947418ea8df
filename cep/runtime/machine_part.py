"""The parts that a machine runs in order. A part is one goal, or all goals of a cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from cep.core.relation import END, Table, empty, rows, slice_until
from cep.core.time import Frontier
from cep.operators.goals.contract import Goal, Takes, Untimed
from cep.plan.order import PlanUnit
from cep.rules.conditions.column_tests import NO_TESTS, Tests

Name = TypeVar("Name")


def slices(inputs: Mapping[Name, Table], watermark: int, size: int) -> list[tuple[dict[Name, Table], int]]:
    """Cut sorted inputs into slices of about `size` rows. Return the tables of each slice, and the watermark after it.

    All rows with the same end are in the same slice.
    """
    total = sum(rows(table) for table in inputs.values())
    if total <= 2 * size:
        return [(dict(inputs), watermark)]
    largest = max(inputs.values(), key=rows)
    stride = max(1, rows(largest) * size // total)
    cuts = np.unique(largest[END, stride - 1 :: stride])
    pieces: list[tuple[dict[Name, Table], int]] = []
    done = dict.fromkeys(inputs, 0)
    for cut in [*(int(c) for c in cuts if c < watermark), watermark]:
        piece: dict[Name, Table] = {}
        for name, table in inputs.items():
            stop = rows(table) if cut == watermark else slice_until(table, cut)
            piece[name] = table[:, done[name] : stop]
            done[name] = stop
        pieces.append((piece, cut))
    return pieces


class MachinePart(Protocol):
    """Goals that run together."""

    @property
    def unit(self) -> PlanUnit:
        """The unit that is credited with the running time of the part."""
        ...

    @property
    def gives(self) -> Collection[PlanUnit]:
        """The units whose output the part adds to `outputs`."""
        ...

    @property
    def takes(self) -> Takes:
        """The inputs that make the part run, and how the part depends on the passing of time."""
        ...

    def due(self) -> int | None:
        """Return the earliest time at which a goal of the part is due. This time changes only when the part runs."""
        ...

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        """Run the part. Add the output of its units to `outputs`, and the number of output rows of each unit to
        `row_counts`.

        A unit that is not in `outputs` has no rows. Returns False if the part had nothing to do.
        """
        ...

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """Return the goals that have a state, each with its unit."""
        ...

    @property
    def counted_as(self) -> Mapping[PlanUnit, PlanUnit]:
        """A mapping of units to other units, to whose statistics those of the mapped units are added."""
        ...

    def goal_names(self, names: Mapping[PlanUnit, str]) -> Mapping[PlanUnit, str]:
        """Return the names of the goals whose names differ from those of their units, by unit. These are goals of
        compiled kernels.

        `names`: the names of units.
        """
        ...

    @property
    def compiled(self) -> str | None:
        """The recursive event that this part derives with a specialized compiled kernel. None if there is none."""
        ...


class GoalByGoal:
    """Shared methods of the parts that run goal by goal. Each goal has the statistics and the name of its unit."""

    __slots__ = ()

    @property
    def counted_as(self) -> Mapping[PlanUnit, PlanUnit]:
        return {}

    def goal_names(self, names: Mapping[PlanUnit, str]) -> Mapping[PlanUnit, str]:
        return {}

    @property
    def compiled(self) -> str | None:
        return None


@dataclass(slots=True)
class SingleGoal(GoalByGoal):
    """A part that consists of one unit: the unit's goal, and the units that it reads.

    - `event`: the event's name if the unit is an event, otherwise None. The event's input is then the first input of
      the goal.
    - `width`: the number of arguments in the output.
    """

    unit: PlanUnit
    goal: Goal
    reads: tuple[PlanUnit, ...]
    event: str | None
    width: int

    @property
    def gives(self) -> tuple[PlanUnit, ...]:
        return (self.unit,)

    @property
    def takes(self) -> Takes:
        timed = getattr(type(self.goal), "due", None) is not Untimed.due
        return Takes(self.reads, () if self.event is None else (self.event,), timed)

    @property
    def singles(self) -> tuple[SingleGoal, ...]:
        return (self,)

    def due(self) -> int | None:
        return self.goal.due()

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        unit, tables = self.unit, self.taken(inputs, outputs)
        if not self.is_due(tables, frontier):
            outputs[unit] = empty(self.width)
            return False
        outputs[unit] = output = self.goal.step(tables, frontier)
        self.goal.evict(frontier)
        row_counts[unit] += output.shape[1]
        return True

    @property
    def tests(self) -> Tests:
        """The conditions that each row of the goal's input must satisfy. An index selects the goal's rows by them.
        There are no such conditions if the goal has several inputs or reads an input event."""
        tests: Tests = getattr(self.goal, "tests", NO_TESTS)
        return tests if len(self.reads) == 1 and self.event is None else NO_TESTS

    def taken(self, inputs: Mapping[str, Table], outputs: Mapping[PlanUnit, Table]) -> list[Table]:
        if isinstance(outputs, GivenTables) and self.unit in outputs.concerning:
            return [outputs.concerning[self.unit]]
        tables = [outputs[unit] for unit in self.reads]
        if self.event is not None:
            own = inputs.get(self.event)
            tables.insert(0, empty(self.width) if own is None else own)
        return tables

    def is_due(self, tables: Iterable[Table], frontier: Frontier) -> bool:
        """Return True if an input in `tables` has rows, or if the goal is due at or before the frontier."""
        for table in tables:
            if table.shape[1]:
                return True
        due = self.goal.due()
        return due is not None and due <= frontier.watermark

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        return [(self.unit, self.goal)]


class GivenTables(dict[PlanUnit, Table]):
    """The outputs of units in a time slice. A unit that has not run has no rows.

    `concerning`: for some readers, those rows of their input that can affect them. The other rows need not be read.
    """

    __slots__ = ("concerning", "nothing")

    def __init__(self, nothing: Mapping[PlanUnit, Table]) -> None:
        super().__init__()
        self.nothing = nothing
        self.concerning: dict[PlanUnit, Table] = {}

    def __missing__(self, unit: PlanUnit) -> Table:
        return self.nothing[unit]
