"""Cycles on which every way round goes back: in a piece of time, what lags is known from what was before it.

A piece is no longer than the least lag, and ends before what begins just after an event or a deadline. Pieces in which
nothing is due are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cep.core.interval_sets import INFINITE
from cep.core.relation import Table
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import Goal, Takes, kept
from cep.operators.goals.fluents.stretches import clipped
from cep.operators.goals.in_rounds import InRounds
from cep.plan.order import PlanUnit
from cep.runtime.cycle import Cycle, CycleGoals, next_due
from cep.runtime.interval_rounds import MOST, IntervalRounds


class HeldOutside:
    """What a goal outside of the cycle knows to hold. It has gone on to the end of the step before the first piece."""

    def __init__(self, goal: Goal) -> None:
        self.goal = cast(InRounds, goal)

    def open(self, changes: Table) -> None:
        """Begin a step with these changes."""
        self.table = self.goal.held(changes, -INFINITE, INFINITE)

    def held(self, changes: Table, first: int, last: int) -> Table:
        """See `InRounds`."""
        return clipped(self.table, first, last)


@dataclass(frozen=True, slots=True)
class FluentsOfCycle:
    """The fluents of a cycle that lags.

    - `events`: the goals by whose time events go on.
    - `extents`: those of its fluents; `whole`: nothing holds before the first of the input, as NOT or AGGREGATE asks.
    - `outside`: what formulas that are a cycle at one time ask from outside.
    """

    events: Sequence[Goal]
    extents: Sequence[InRounds]
    whole: bool
    outside: Mapping[PlanUnit, HeldOutside]


class Lagged(Cycle):
    """The goals of one cycle that goes back on every way round."""

    def __init__(self, goals: CycleGoals, widths: Mapping[PlanUnit, int], fluents: FluentsOfCycle) -> None:
        super().__init__(goals, widths)
        self.fluents = fluents
        self.late = max(extent.late for extent in fluents.extents)

    @property
    def takes(self) -> Takes | None:
        """See `cep.runtime.machine_part`. The first time of the input alone may change something."""
        return None

    def go(self, frontier: Frontier) -> None:
        """Run piece by piece. A recursion that never ends goes to the latest time of the input alone."""
        if self.fluents.whole:
            first = INFINITE if frontier.first >= END_OF_TIME else 2 * frontier.first
            for extent in self.fluents.extents:
                extent.bound(first)
        for unit, outside in self.fluents.outside.items():
            outside.open(self.arrivals.tables.get(unit, self.nothing[unit]))
        if frontier.watermark < END_OF_TIME:
            self._to(frontier)
            return
        self._to(frontier.until(frontier.latest + self.late), rest=False)
        states = kept(goal.snapshot() for goal in self.goals)
        counts = {unit: len(tables) for unit, tables in self.given.items()}
        if not self._to(frontier, MOST):
            for goal, state in zip(self.goals, states, strict=True):
                goal.restore(state)
            self.given = {unit: tables[: counts[unit]] for unit, tables in self.given.items()}

    def _to(self, frontier: Frontier, most: int | None = None, rest: bool = True) -> bool:
        """Go on to a frontier, and take the `rest` of what comes in. False: it is not done in so many pieces."""
        pieces = 0
        while self.here is None or self.here.watermark < frontier.watermark or self.here.half:
            stops.between()
            due = min(self.arrivals.next(), next_due(self.goals))
            if not self.begun and due > frontier.watermark and not (rest and self.arrivals.left()):
                break
            start, end = self._next(frontier, due)
            come = self.arrivals.until(None if rest and end is frontier else end, self.fluents.outside)
            self.piece(start, end, come)
            if any(isinstance(part, IntervalRounds) and part.unending for part in self.parts):
                return False
            pieces += 1
            if most is not None and pieces > most:
                return False
        return True

    def _next(self, frontier: Frontier, due: int) -> tuple[Frontier, Frontier]:
        """Where the next piece begins and ends: nothing happens before it, and what lags is known to its end."""
        if not self.begun and (due >= END_OF_TIME or due > frontier.watermark):
            return frontier, frontier
        start = self.here
        if start is None or (not self.begun and due > start.watermark):
            start = frontier.until(due - 1)
        last = start.watermark + self.lag if self.back else END_OF_TIME
        if len(self.later) == len(self.back):
            return start, frontier.until(last)
        last = min(last, max(self.arrivals.next(), start.watermark + 1), next_due(self.fluents.events))
        if last > frontier.watermark or last >= END_OF_TIME:
            return start, frontier
        return start, replace(frontier.until(last), half=True)
