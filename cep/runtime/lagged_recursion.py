"""Recursion that goes back: piece by piece of time, in each of which what lags is known from what was before it.

step:  changes and events from outside -> of each piece first what lags gives, then all else in order, as without a
       cycle; what that comes to goes to what lags, for the pieces behind.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from cep.core.fluents import BEGINS, ENDS
from cep.core.interval_sets import INFINITE
from cep.core.relation import END, START, Table, concat, empty, rows, slice_until
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import BoundedGoal, Goal, KnowsHeld, LaggingGoal, kept
from cep.operators.goals.fluents.stretches import clipped
from cep.plan.order import PlanUnit
from cep.runtime.formula_recursion import MOST, FormulaRecursion
from cep.runtime.machine_part import MachinePart
from cep.runtime.recursion import Cycle, CyclePart, Reader

Tables = Mapping[PlanUnit, Table]


class HeldOutside:
    """What goals outside of the cycle know to hold. They have gone on to the end of the step before its first piece."""

    def __init__(self, goal: Goal) -> None:
        self.goal = cast(KnowsHeld, goal)

    def open(self, changes: Table) -> None:
        """A step begins; these are its changes."""
        self.table = self.goal.held(changes, -INFINITE, INFINITE)

    def held(self, changes: Table, first: int, last: int) -> Table:
        """See `cep.operators.goals.contract.KnowsHeld`."""
        return clipped(self.table, first, last)


@dataclass(frozen=True, slots=True)
class LaggedCycle:
    """A cycle, cut where it lags. `after`: units whose results begin just after what they take; `back`: those that look
    back, by `lag` microseconds at least; `parts`: all else in order. `events`: the goals by whose time events go on;
    `extents`: those of its fluents, which are given so `late`; `outside`: what formulas that are a cycle at one time
    ask from outside; `whole`: NOT or AGGREGATE lies on it."""

    readers: tuple[Reader, ...]
    after: tuple[Reader, ...]
    back: tuple[Reader, ...]
    lag: int
    parts: tuple[MachinePart, ...]
    events: tuple[Goal, ...]
    extents: tuple[Goal, ...]
    outside: Mapping[PlanUnit, HeldOutside]
    late: int
    whole: bool


class LaggedRecursion(Cycle):
    """The goals of one cycle that goes back on every way round."""

    def __init__(self, cycle: LaggedCycle, widths: Mapping[PlanUnit, int]) -> None:
        super().__init__([CyclePart(cycle.readers, True)])
        self.cycle, self.widths = cycle, widths
        self.goals = [goal for _, goal, _, _ in cycle.readers]
        self.own = {event for _, _, _, event in cycle.readers if event is not None}
        self.outside = {unit for _, _, reads, _ in cycle.readers for unit in reads} - self.inside
        self.extents = [cast(BoundedGoal, goal) for goal in cycle.extents]
        self.back = [(unit, cast(LaggingGoal, goal), reads) for unit, goal, reads, _ in cycle.back]
        self.counts = dict.fromkeys(widths, 0)

    def step(self, inputs: Mapping[str, Table], outputs: dict[PlanUnit, Table], frontier: Frontier) -> None:
        """Add to `outputs` what every unit of the cycle gives."""
        if self.cycle.whole:
            first = INFINITE if frontier.first >= END_OF_TIME else 2 * frontier.first
            for extent in self.extents:
                extent.bound(first)
        for unit, known in self.cycle.outside.items():
            known.open(outputs[unit])
        given = {unit: outputs[unit] for unit in self.outside}
        run = _Run(self, _Arrivals({**{e: inputs[e] for e in self.own if e in inputs}, **given}, self.cycle.outside))
        if frontier.watermark < END_OF_TIME:
            run.to(frontier)
        else:
            run.to(frontier.until(frontier.latest + self.cycle.late), rest=False)
            states = kept(goal.snapshot() for goal in self.goals)
            counts = {unit: len(tables) for unit, tables in run.made.items()}
            if not run.to(frontier, MOST):  # it never ends, so it goes to the latest time alone
                for goal, state in zip(self.goals, states, strict=True):
                    goal.restore(state)
                run.made = {unit: tables[: counts[unit]] for unit, tables in run.made.items()}
        for unit, tables in run.made.items():
            outputs[unit] = concat(tables) if tables else empty(self.widths[unit])


class _Arrivals:
    """What comes in from outside, piece by piece; `changes`: the tables of changes that are taken code by code."""

    def __init__(self, tables: Mapping[PlanUnit, Table], changes: Container[PlanUnit]) -> None:
        self.tables, self.changes = dict(tables), changes
        self.taken = dict.fromkeys(tables, 0)

    def next(self) -> int:
        """When something comes in."""
        some = [table[END, self.taken[unit]] for unit, table in self.tables.items() if self.taken[unit] < rows(table)]
        return int(min(some, default=END_OF_TIME))

    def left(self) -> bool:
        """Whether something is still to come in, perhaps with a time that is ahead."""
        return any(self.taken[unit] < rows(table) for unit, table in self.tables.items())

    def until(self, end: Frontier | None) -> dict[PlanUnit, Table]:
        """What comes in up to then; None: all of it."""
        found = {}
        for unit, table in self.tables.items():
            first = self.taken[unit]
            last = rows(table) if end is None else slice_until(table, end.watermark)
            found[unit] = table[:, first:last]
            self.taken[unit] = max(first, last)
            if end is not None and end.half and unit in self.changes:
                later = (found[unit][START] == end.watermark) & np.isin(found[unit][-1], (BEGINS, ENDS))
                if later.any():
                    self.tables[unit] = np.concatenate([found[unit][:, later], table[:, max(first, last) :]], axis=1)
                    self.taken[unit] = 0
                    found[unit] = found[unit][:, ~later]
        return found


class _Run:
    """Pieces, one after the other. `here`: where the last one ends."""

    def __init__(self, of: LaggedRecursion, arrivals: _Arrivals) -> None:
        self.of, self.cycle, self.arrivals = of, of.cycle, arrivals
        self.made: dict[PlanUnit, list[Table]] = {unit: [] for unit in of.inside}
        self.here: Frontier | None = None
        self.now: dict[PlanUnit, Table] = {}

    def to(self, frontier: Frontier, most: int | None = None, rest: bool = True) -> bool:
        """Go on to there, and take the rest of what comes in. False: in so many pieces something was to be done, and it
        goes on and on."""
        busy = 0
        while True:
            stops.between()
            begun = self._flushed()
            if self.here is not None and self.here.watermark >= frontier.watermark and not self.here.half:
                return True
            some = any(map(rows, begun.values()))
            due = min(self.arrivals.next(), _due(self.of.goals))
            if not some and due > frontier.watermark and not (rest and self.arrivals.left()):
                return True
            start, piece = self._piece(frontier, due, some)
            self.now = begun
            for unit, goal, reads in self.of.back:
                ahead = self._put(unit, goal.step([empty(self.of.widths[r]) for r in reads], start, piece))
                self.now[unit] = concat([begun[unit], ahead]) if unit in begun else ahead
            self.now |= (come := self.arrivals.until(None if rest and piece is frontier else piece))
            inputs = {str(event): come[event] for event in self.of.own if event in come}
            for part in self.cycle.parts:
                part.run(inputs, self.now, piece, self.of.counts)
                if isinstance(part, FormulaRecursion) and part.unending:
                    return False
                for unit, _ in part.goals_by_unit():
                    self._put(unit, self.now[unit])
            self.here = piece
            busy += most is not None
            if most is not None and busy > most:
                return False

    def _put(self, unit: PlanUnit, table: Table) -> Table:
        if rows(table):
            self.made[unit].append(table)
        return table

    def _flushed(self) -> dict[PlanUnit, Table]:
        """Give what lags what the last piece came to. Gives what begins just after that, and what has held for ever
        since something else has: that does not lag."""
        begun = {unit: empty(self.of.widths[unit]) for unit, *_ in self.cycle.after}
        if self.here is None or not self.now:
            return begun
        there = replace(self.here, half=False)
        for unit, goal, reads, _ in self.cycle.after:
            due = goal.due()
            tables = [self.now[other] for other in reads]
            if any(map(rows, tables)) or (due is not None and due <= there.watermark):
                begun[unit] = self._put(unit, goal.step(tables, there))
                goal.evict(there)
        for unit, goal, reads in self.of.back:
            tables = [self.now[other] for other in reads]
            if any(map(rows, tables)) and rows(made := goal.step(tables, self.here, self.here)):
                begun[unit] = self._put(unit, made)
        self.now = {}
        return begun

    def _piece(self, frontier: Frontier, due: int, some: bool) -> tuple[Frontier, Frontier]:
        """Where the next piece begins and ends: nothing happens before it, and what lags is known to its end."""
        if not some and (due >= END_OF_TIME or due > frontier.watermark):
            return frontier, frontier
        start = self.here
        if start is None or (not some and due > start.watermark):
            start = frontier.until(due - 1)
        last = start.watermark + self.cycle.lag if self.cycle.back else END_OF_TIME
        if not self.cycle.after:
            return start, frontier.until(last)
        last = min(last, max(self.arrivals.next(), start.watermark + 1), _due(self.cycle.events))
        if last > frontier.watermark or last >= END_OF_TIME:
            return start, frontier
        return start, replace(frontier.until(last), half=True)


def _due(goals: Iterable[Goal]) -> int:
    """When time alone makes something of what waits."""
    return min((due for goal in goals if (due := goal.due()) is not None), default=END_OF_TIME)
