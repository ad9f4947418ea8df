"""The units that a machine runs one after the other: a goal, or the goals of a cycle together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cep.core.relation import Table, empty
from cep.core.time import Frontier
from cep.operators.goals.contract import Goal, Takes, Untimed
from cep.plan.order import PlanUnit
from cep.rules.conditions.column_tests import NO_TESTS, Tests


class MachinePart(Protocol):
    """Goals that run as one."""

    @property
    def unit(self) -> PlanUnit:
        """The unit under which its time is counted."""
        ...

    @property
    def gives(self) -> Collection[PlanUnit]:
        """The units whose rows it adds to the outputs."""
        ...

    @property
    def takes(self) -> Takes:
        """Return the rows, and the time, for which it has something to do."""
        ...

    def due(self) -> int | None:
        """The time at which a goal of the part is next due. Only a step changes it."""
        ...

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """Add to `outputs` what each of its units gives, and to `made` how many rows these are. False: there was
        nothing to do. What has given nothing need not be in `outputs`, which then has no rows for it."""
        ...

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """Its goals that have a state, each with its unit."""
        ...

    @property
    def counted_as(self) -> Mapping[PlanUnit, PlanUnit]:
        """The units that are counted as others."""
        ...

    def goal_names(self, names: Mapping[PlanUnit, str]) -> Mapping[PlanUnit, str]:
        """Return the goal names that differ from the names of units, for a cycle whose kernel runs other goals."""
        ...

    @property
    def compiled(self) -> str | None:
        """The recursive event that it runs in a kernel of its own; None: it is none."""
        ...


class GoalByGoal:
    """The methods shared by parts that run goal by goal, where each goal is counted and named as its own unit."""

    __slots__ = ()

    @property
    def counted_as(self) -> Mapping[PlanUnit, PlanUnit]:
        """Each unit by itself."""
        return {}

    def goal_names(self, names: Mapping[PlanUnit, str]) -> Mapping[PlanUnit, str]:
        """Return no names but those of the units."""
        return {}

    @property
    def compiled(self) -> str | None:
        """No event runs in a kernel of its own."""
        return None


@dataclass(slots=True)
class SingleGoal(GoalByGoal):
    """One unit: its goal and the units it reads; for an event first its own input (`event`). `width`: its columns; for
    an event also those of its input."""

    unit: PlanUnit
    goal: Goal
    reads: tuple[PlanUnit, ...]
    event: str | None
    width: int

    @property
    def gives(self) -> tuple[PlanUnit, ...]:
        """See `MachinePart`."""
        return (self.unit,)

    @property
    def takes(self) -> Takes:
        """See `MachinePart`."""
        timed = getattr(type(self.goal), "due", None) is not Untimed.due
        return Takes(self.reads, () if self.event is None else (self.event,), timed)

    @property
    def singles(self) -> tuple[SingleGoal, ...]:
        """Itself."""
        return (self,)

    def due(self) -> int | None:
        """See `MachinePart`."""
        return self.goal.due()

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """See `MachinePart`."""
        unit, tables = self.unit, self.taken(inputs, outputs)
        if not self.is_due(tables, frontier):
            outputs[unit] = empty(self.width)
            return False
        outputs[unit] = found = self.goal.step(tables, frontier)
        self.goal.evict(frontier)
        made[unit] += found.shape[1]
        return True

    @property
    def tests(self) -> Tests:
        """The tests by which the rows of its only input are found, if it has any."""
        tests: Tests = getattr(self.goal, "tests", NO_TESTS)
        return tests if len(self.reads) == 1 and self.event is None else NO_TESTS

    def taken(self, inputs: Mapping[str, Table], outputs: Mapping[PlanUnit, Table]) -> list[Table]:
        """The inputs of the goal."""
        if isinstance(outputs, GivenTables) and self.unit in outputs.concerning:
            return [outputs.concerning[self.unit]]
        tables = [outputs[unit] for unit in self.reads]
        if self.event is not None:
            own = inputs.get(self.event)
            tables.insert(0, empty(self.width) if own is None else own)
        return tables

    def is_due(self, tables: Iterable[Table], frontier: Frontier) -> bool:
        """Return True if these inputs, or the time up to a frontier, give the part something to do."""
        for table in tables:
            if table.shape[1]:
                return True
        due = self.goal.due()
        return due is not None and due <= frontier.watermark

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """See `MachinePart`."""
        return [(self.unit, self.goal)]


class GivenTables(dict[PlanUnit, Table]):
    """The outputs of units in a slice; units that have not run output nothing.

    `concerning`: for some units, the rows that concern their readers, or more.
    """

    __slots__ = ("concerning", "nothing")

    def __init__(self, nothing: Mapping[PlanUnit, Table]) -> None:
        super().__init__()
        self.nothing = nothing
        self.concerning: dict[PlanUnit, Table] = {}

    def __missing__(self, unit: PlanUnit) -> Table:
        return self.nothing[unit]
