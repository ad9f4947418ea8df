"""Goals that depend on each other: a piece of time, rounds in it until nothing is new, then what comes back later.

step:  what comes in between two watermarks -> what every goal of the cycle gives

Some edges of a cycle feed back. What comes back at the same time is found in rounds within a piece, of rows
(`cep.runtime.instants`) or of intervals (`cep.runtime.delayed_cycle`). Readers get what comes back later when the
piece is done, so the least of these delays says how long a piece may be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from cep.core.errors import CepError
from cep.core.fluents import BEGINS, ENDS
from cep.core.hashtable import NO_ROOM
from cep.core.relation import END, START, Table, concat, empty, rows, slice_until
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import Goal, Ints, Takes
from cep.operators.goals.in_rounds import InRounds
from cep.plan.order import PlanUnit
from cep.runtime.machine_part import GivenTables, GoalByGoal, SingleGoal

if TYPE_CHECKING:
    from cep.runtime.delayed_cycle import IntervalRounds
    from cep.runtime.instants import RowRounds


@dataclass(frozen=True, slots=True)
class Later:
    """A goal that takes the rows of some inputs (`ports`) when a piece is done."""

    single: SingleGoal
    ports: Collection[int]

    def taken(self, given: GivenTables) -> list[Table]:
        """The inputs of the goal, those that it has had in the piece without rows."""
        reads = self.single.reads
        return [given[unit] if port in self.ports else given.nothing[unit] for port, unit in enumerate(reads)]


@dataclass(frozen=True, slots=True)
class CycleGoals:
    """The goals of a cycle, cut at the edges on which something comes back later.

    - `parts`: what runs in a piece, in this order.
    - `later`: goals to which something comes back when the piece is done. What they then give is of the next piece.
    - `back`: those of them that look back, by `lag` microseconds at least. What they give in a piece is known when it
      begins.
    """

    parts: Sequence[SingleGoal | RowRounds | IntervalRounds]
    later: Sequence[Later] = ()
    back: Sequence[SingleGoal] = ()
    lag: int = 0


class Cycle(GoalByGoal, ABC):
    """The goals of one cycle, as the machine runs them."""

    def __init__(self, goals: CycleGoals, widths: Mapping[PlanUnit, int]) -> None:
        self.parts, self.later, self.back, self.lag = goals.parts, goals.later, goals.back, goals.lag
        inner = [single for part in goals.parts for single in part.singles]
        outer = [later.single for later in goals.later if all(later.single is not single for single in inner)]
        self.singles = [*outer, *inner]
        self.goals: list[Goal] = [single.goal for single in self.singles]
        self.timed = [single.goal for single in self.singles if single.takes.timed]
        self.inside = frozenset(single.unit for single in self.singles)
        self.own = tuple(single.event for single in self.singles if single.event is not None)
        reads = dict.fromkeys(unit for single in self.singles for unit in single.reads)
        self.outside = tuple(unit for unit in reads if unit not in self.inside)
        self.unit: PlanUnit = min(unit for unit in self.inside if isinstance(unit, int))
        self.nothing = {unit: empty(width) for unit, width in widths.items()}
        self._counts = dict.fromkeys(self.inside, 0)

    @property
    def gives(self) -> Collection[PlanUnit]:
        """See `cep.runtime.machine_part`."""
        return self.inside

    @property
    def takes(self) -> Takes:
        """See `cep.runtime.machine_part`."""
        return Takes(self.outside, self.own, True)

    def due(self) -> int | None:
        """See `cep.runtime.machine_part`."""
        due = next_due(self.timed)
        return None if due == END_OF_TIME else due

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """See `cep.runtime.machine_part`."""
        return [(single.unit, single.goal) for single in self.singles]

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """See `cep.runtime.machine_part`."""
        tables = {unit: outputs[unit] for unit in self.outside}
        self.arrivals = Arrivals({**{event: inputs[event] for event in self.own if event in inputs}, **tables})
        self.given: dict[PlanUnit, list[Table]] = {unit: [] for unit in self.inside}
        self.here: Frontier | None = None
        self.begun: dict[PlanUnit, Table] = {}
        self.go(frontier)
        for unit, found in self.given.items():
            outputs[unit] = concat(found) if found else self.nothing[unit]
            made[unit] += rows(outputs[unit])
        del self.arrivals, self.given, self.begun
        return True

    @abstractmethod
    def go(self, frontier: Frontier) -> None:
        """Run piece by piece up to the frontier."""

    def piece(self, start: Frontier, end: Frontier, come: Mapping[PlanUnit, Table]) -> None:
        """Run a piece: what goals give that look back, the parts in order, then what comes back later.

        `come`: what comes in from outside.
        """
        given = GivenTables(self.nothing)
        given.update(self.begun)
        for single in self.back:
            ahead = cast(InRounds, single.goal).look_ahead(start, end)
            if rows(ahead):
                given[single.unit] = concat([self.begun[single.unit], ahead]) if single.unit in self.begun else ahead
                self.given[single.unit].append(ahead)
        inputs = {str(unit): table for unit, table in come.items() if unit in self.inside}
        given.update((unit, table) for unit, table in come.items() if unit not in self.inside)
        for part in self.parts:
            part.run(inputs, given, end, self._counts)
            for unit in part.gives:
                self.give(unit, given[unit])
        self.here, self.begun = end, {}
        for later in self.later:
            tables = later.taken(given)
            if later.single.is_due(tables, end):
                made = later.single.goal.step(tables, end)
                later.single.goal.evict(end)
                if rows(made):
                    self.begun[later.single.unit] = made
                    self.give(later.single.unit, made)

    def give(self, unit: PlanUnit, table: Table) -> None:
        """Add rows to what a unit gives."""
        if rows(table):
            self.given[unit].append(table)


def next_due(goals: Iterable[Goal]) -> int:
    """Return the time at which time alone makes something of what waits in a goal."""
    return min((due for goal in goals if (due := goal.due()) is not None), default=END_OF_TIME)


class Whole(Cycle):
    """A cycle on which everything comes back at the same time: a step is one piece."""

    def __init__(self, rounds: IntervalRounds, widths: Mapping[PlanUnit, int]) -> None:
        super().__init__(CycleGoals([rounds]), widths)
        self.rounds = rounds

    def due(self) -> int | None:
        """See `cep.runtime.machine_part`."""
        return self.rounds.due()

    def go(self, frontier: Frontier) -> None:
        """Run the step."""
        self.piece(frontier, frontier, self.arrivals.until(None))


class Arrivals:
    """The input of a cycle, piece by piece."""

    def __init__(self, tables: Mapping[PlanUnit, Table]) -> None:
        self.tables = {unit: table for unit, table in tables.items() if rows(table)}
        self.taken = dict.fromkeys(self.tables, 0)

    def ends(self) -> Ints:
        """The times at which something comes in, ascending."""
        return np.unique(np.concatenate([NO_ROOM, *(table[END] for table in self.tables.values())]))

    def next(self) -> int:
        """Return the time at which something comes in next."""
        time = END_OF_TIME
        for unit, first in self.taken.items():
            table = self.tables[unit]
            if first < table.shape[1] and table[END, first] < time:
                time = int(table[END, first])
        return time

    def left(self) -> bool:
        """Return True if something is still to come in, perhaps with a time that is ahead."""
        return any(first < rows(self.tables[unit]) for unit, first in self.taken.items())

    def until(self, end: Frontier | None, changes: Container[PlanUnit] = ()) -> dict[PlanUnit, Table]:
        """Take what comes in up to a frontier; None: all of it.

        `changes`: the tables of changes, of which those just after a half frontier are left.
        """
        found = {}
        for unit, first in self.taken.items():
            table = self.tables[unit]
            if first == table.shape[1] or (end is not None and table[END, first] > end.watermark):
                continue
            last = table.shape[1] if end is None else slice_until(table, end.watermark)
            found[unit] = table[:, first:last]
            self.taken[unit] = last
            if end is not None and end.half and unit in changes:
                after = (found[unit][START] == end.watermark) & np.isin(found[unit][-1], (BEGINS, ENDS))
                if after.any():
                    self.tables[unit] = np.concatenate([found[unit][:, after], table[:, last:]], axis=1)
                    self.taken[unit] = 0
                    found[unit] = found[unit][:, ~after]
        return found


def endless(what: str, rules: Sequence[str], hint: str) -> CepError:
    """An error: a recursion does not end."""
    return CepError(
        f"{what}, of " + ", ".join(f"`{rule}`" for rule in dict.fromkeys(rules)),
        hint=f"{hint} `--max-derivations` raises the limit",
        code="recursion",
    )
