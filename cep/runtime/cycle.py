"""Cycles: groups of goals that depend on each other.

    step:  input between two watermarks -> output of every goal of the cycle

A cycle divides the time of a step into pieces, and processes these pieces one after the other. It runs a piece in
rounds, until a round derives nothing new.

Some edges of a cycle feed rows back. Rows that are fed back without a delay are derived in rounds within a piece, as
rows (`cep.runtime.instants`) or as intervals (`cep.runtime.delayed_cycle`). Rows that are fed back with a delay reach
their readers after the piece. So a piece is no longer than the smallest of these delays.
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
    """A goal that reads some of its inputs only at the end of a piece of time. `ports`: their positions."""

    single: SingleGoal
    ports: Collection[int]

    def taken(self, tables: GivenTables) -> list[Table]:
        """Return the tables for the goal's inputs. Inputs that the goal already reads during the piece are empty."""
        reads = self.single.reads
        return [tables[unit] if port in self.ports else tables.nothing[unit] for port, unit in enumerate(reads)]


@dataclass(frozen=True, slots=True)
class CycleGoals:
    """The goals of a cycle, cut at the edges that feed rows back with a delay.

    - `parts`: the parts that run within a piece of time, in the order in which they run.
    - `later`: the goals that receive fed-back rows at the end of a piece. Their output belongs to the next piece.
    - `back`: those goals of `later` that delay their results by at least `lag` microseconds. Their output in a piece
      is therefore known when the piece begins.
    """

    parts: Sequence[SingleGoal | RowRounds | IntervalRounds]
    later: Sequence[Later] = ()
    back: Sequence[SingleGoal] = ()
    lag: int = 0


class Cycle(GoalByGoal, ABC):
    """The goals of one cycle, as a part of the machine."""

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
        return self.inside

    @property
    def takes(self) -> Takes:
        """The units and input events that the cycle reads from outside. The cycle also runs when a goal is due."""
        return Takes(self.outside, self.own, True)

    def due(self) -> int | None:
        due = next_due(self.timed)
        return None if due == END_OF_TIME else due

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        return [(single.unit, single.goal) for single in self.singles]

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        tables = {unit: outputs[unit] for unit in self.outside}
        self.arrivals = Arrivals({**{event: inputs[event] for event in self.own if event in inputs}, **tables})
        self.given: dict[PlanUnit, list[Table]] = {unit: [] for unit in self.inside}
        self.here: Frontier | None = None
        self.begun: dict[PlanUnit, Table] = {}
        self.go(frontier)
        for unit, begun in self.given.items():
            outputs[unit] = concat(begun) if begun else self.nothing[unit]
            row_counts[unit] += rows(outputs[unit])
        del self.arrivals, self.given, self.begun
        return True

    @abstractmethod
    def go(self, frontier: Frontier) -> None:
        """Run the cycle piece by piece up to the frontier."""

    def piece(self, start: Frontier, end: Frontier, come: Mapping[PlanUnit, Table]) -> None:
        """Run one piece of time, from `start` to `end`.

        First compute the output of the goals in `back`, then run the parts in order. Last, pass rows that are fed back
        with a delay to the goals that read them. `come`: the piece's input from outside the cycle.
        """
        arrived = GivenTables(self.nothing)
        arrived.update(self.begun)
        for single in self.back:
            ahead = cast(InRounds, single.goal).look_ahead(start, end)
            if rows(ahead):
                arrived[single.unit] = concat([self.begun[single.unit], ahead]) if single.unit in self.begun else ahead
                self.given[single.unit].append(ahead)
        inputs = {str(unit): table for unit, table in come.items() if unit in self.inside}
        arrived.update((unit, table) for unit, table in come.items() if unit not in self.inside)
        for part in self.parts:
            part.run(inputs, arrived, end, self._counts)
            for unit in part.gives:
                self.give(unit, arrived[unit])
        self.here, self.begun = end, {}
        for later in self.later:
            tables = later.taken(arrived)
            if later.single.is_due(tables, end):
                output = later.single.goal.step(tables, end)
                later.single.goal.evict(end)
                if rows(output):
                    self.begun[later.single.unit] = output
                    self.give(later.single.unit, output)

    def give(self, unit: PlanUnit, table: Table) -> None:
        if rows(table):
            self.given[unit].append(table)


def next_due(goals: Iterable[Goal]) -> int:
    """Return the earliest time at which the output of one of `goals` changes without new input."""
    return min((due for goal in goals if (due := goal.due()) is not None), default=END_OF_TIME)


class Whole(Cycle):
    """A cycle that feeds rows back only without a delay, so that a step is one piece."""

    def __init__(self, rounds: IntervalRounds, widths: Mapping[PlanUnit, int]) -> None:
        super().__init__(CycleGoals([rounds]), widths)
        self.rounds = rounds

    def due(self) -> int | None:
        return self.rounds.due()

    def go(self, frontier: Frontier) -> None:
        self.piece(frontier, frontier, self.arrivals.until(None))


class Arrivals:
    """The input of a cycle in one step. `until` returns this input one piece of time after the other."""

    def __init__(self, tables: Mapping[PlanUnit, Table]) -> None:
        self.tables = {unit: table for unit, table in tables.items() if rows(table)}
        self.taken = dict.fromkeys(self.tables, 0)

    def ends(self) -> Ints:
        """Return the distinct end times of the input, ascending."""
        return np.unique(np.concatenate([NO_ROOM, *(table[END] for table in self.tables.values())]))

    def next(self) -> int:
        """Return the end time of the next input row."""
        time = END_OF_TIME
        for unit, first in self.taken.items():
            table = self.tables[unit]
            if first < table.shape[1] and table[END, first] < time:
                time = int(table[END, first])
        return time

    def left(self) -> bool:
        """Return True if `until` has not returned all rows yet. This includes rows beyond the frontier."""
        return any(first < rows(self.tables[unit]) for unit, first in self.taken.items())

    def until(self, end: Frontier | None, changes: Container[PlanUnit] = ()) -> dict[PlanUnit, Table]:
        """Return the remaining input up to the frontier `end`, or all remaining input if `end` is None. Later calls do
        not return these rows again.

        `changes`: the units whose tables contain changes of fluents. Some of these changes take effect just after the
        watermark of `end`. If `end.half` is set, they are left for the next call.
        """
        arrived = {}
        for unit, first in self.taken.items():
            table = self.tables[unit]
            if first == table.shape[1] or (end is not None and table[END, first] > end.watermark):
                continue
            last = table.shape[1] if end is None else slice_until(table, end.watermark)
            arrived[unit] = table[:, first:last]
            self.taken[unit] = last
            if end is not None and end.half and unit in changes:
                after = (arrived[unit][START] == end.watermark) & np.isin(arrived[unit][-1], (BEGINS, ENDS))
                if after.any():
                    self.tables[unit] = np.concatenate([arrived[unit][:, after], table[:, last:]], axis=1)
                    self.taken[unit] = 0
                    arrived[unit] = arrived[unit][:, ~after]
        return arrived


def endless(what: str, rules: Sequence[str], hint: str) -> CepError:
    """Return the error for a recursion that has exceeded the limit of derivations. `what`: the message. `rules`: the
    rules of the recursion."""
    return CepError(
        f"{what}, in " + ", ".join(f"`{rule}`" for rule in dict.fromkeys(rules)),
        hint=f"{hint} `--max-derivations` raises the limit",
        code="recursion",
    )
