"""Cycles in which every loop has a delay, so that a piece of time depends only on earlier times.

A piece is no longer than the smallest delay. It also ends at the next event or deadline, before the changes that take
effect just after that instant. Pieces in which nothing is due are skipped.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cep.core.interval_sets import INFINITE
from cep.core.relation import END, START, Table, concat, empty, rows
from cep.core.signals import stops
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.operators.goals.contract import Goal, Takes
from cep.operators.goals.fluents.changes import changed_in, changes_in, clipped, decided, due
from cep.operators.goals.in_rounds import InRounds
from cep.plan.order import PlanUnit
from cep.runtime.cycle import Cycle, CycleGoals, endless, next_due
from cep.runtime.machine_part import SingleGoal

MOST = 100
"""The number of rounds after which a recursion counts as endless, once the input has ended.

Only rounds in a row count, and only rounds whose results all begin after the latest time of the input.
"""


@dataclass(frozen=True, slots=True)
class FormulaCycle:
    """A cycle of formulas, which define fluents.

    - `settling`: the units that output the final changes of the cycle's fluents.
    - `outside`: for each unit outside the cycle, a function that returns the tuples that hold in a period. Its
      arguments are the unit's changes in this period, and the period's first and last time code.
    - `negated`: the units that a NOT in the cycle reads.
    """

    singles: tuple[SingleGoal, ...]
    settling: frozenset[PlanUnit]
    outside: Mapping[PlanUnit, Callable[[Table, int, int], Table]]
    negated: frozenset[PlanUnit]
    rules: Sequence[str]


class IntervalRounds:
    """A part that runs the goals of one cycle of formulas. In each round, the goals derive new intervals from those of
    the round before. `limit`: the maximum number of intervals that they may derive per step."""

    def __init__(self, cycle: FormulaCycle, widths: Mapping[PlanUnit, int], limit: int) -> None:
        self.cycle, self.widths, self.limit = cycle, widths, limit
        self.singles = cycle.singles
        self.gives = frozenset(single.unit for single in cycle.singles)
        self.goals = {single.unit: cast(InRounds, single.goal) for single in cycle.singles}
        self.fixpoints = {unit: goal for unit, goal in self.goals.items() if unit in cycle.settling}
        self.timed = frozenset(unit for unit, goal in self.goals.items() if goal.timed)
        self.following = [goal for goal in self.goals.values() if goal.follows]
        self.ahead = any(goal.ahead for goal in self.goals.values())
        """True if a goal depends on later times. The cycle then runs once, backwards from the end of the input."""
        self.late = max(goal.late for goal in self.fixpoints.values())
        self.unending = False

    def due(self) -> int | None:
        """Return the next time at which the output changes without new input, or None if no such time exists."""
        code = min((self.goals[unit].next_change() for unit in self.timed), default=INFINITE)
        return None if code == INFINITE else due(code, self.late)

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        first, last = self._first(outputs), decided(frontier, self.late)
        for unit in self.gives:
            outputs[unit] = empty(self.widths[unit])
        if first > last or first == INFINITE:
            return False
        if self.ahead:
            if not self._grow(outputs, -INFINITE, last, frontier.earliest):
                self._grow(outputs, 2 * frontier.earliest, last, BEGINNING)
        else:
            if not self._grow(outputs, first, last, frontier.latest):
                self.unending = True
                frontier = frontier.until(frontier.latest + self.late)
                last = decided(frontier, self.late)
                if first > last:
                    return False
                self._grow(outputs, first, last, END_OF_TIME)
        settled = {unit: goal.settled() for unit, goal in self.fixpoints.items()}
        seen = ChainMap(settled, outputs)  # the other goals read the settled rows of the fixpoints
        for single in self.singles:
            outputs[single.unit] = single.goal.step(single.taken({}, seen), frontier)
        for single in self.singles:
            if single.event is not None and self.cycle.settling.intersection(single.reads):
                outputs[single.unit] = single.goal.step(single.taken({}, outputs), frontier)
            single.goal.evict(frontier)
        return True

    def _first(self, outputs: Mapping[PlanUnit, Table]) -> int:
        first = min(goal.next_change() for goal in self.goals.values())
        for single in self.singles:
            for other in single.reads:
                if other not in self.gives and rows(outputs[other]):
                    _, code, _ = changes_in(outputs[other], outputs[other].shape[0] - 1)
                    first = min(first, int(code.min(initial=INFINITE)))
        return first

    def _grow(self, outputs: Mapping[PlanUnit, Table], first: int, last: int, known: int) -> bool:
        """Derive tuples in rounds, until a round adds nothing. The tuples hold between the time codes `first` and
        `last`.

        Each round starts from the additions of the round before. `known`: the latest time of the input. If a goal looks
        ahead, `known` is the earliest time.

        Return False if `last` is infinite and the recursion seems endless. It seems endless if more than `MOST` rounds
        in a row have only results that begin after `known`. If a goal looks ahead, it seems endless if more than `MOST`
        rounds in a row have only results that end before `known`.
        """
        new: dict[PlanUnit, Table] = {}
        goes_on = self._goes_on(outputs, last)
        gone: dict[PlanUnit, Table] = {}
        for single in self.singles:
            self.goals[single.unit].open_stretch(first, last, goes_on)
            new[single.unit] = empty(self.widths[single.unit])
            for other in single.reads:
                if other in self.gives or other in new:
                    continue
                if goes_on:
                    gone[other], new[other] = changed_in(outputs[other], first, last)
                else:
                    new[other] = clipped(self.cycle.outside[other](outputs[other], first, last), first, last)
        nothing = {unit: table[:, :0] for unit, table in new.items()}
        changing = goes_on and any(self.goals[unit].next_change() <= last for unit in self.timed)
        again = self._shrunk(nothing, gone) if changing or any(map(rows, gone.values())) else {}
        derived, alone, opening = 0, 0, True
        while opening or any(rows(new[unit]) for unit in self.cycle.settling):
            stops.between()
            grown: dict[PlanUnit, Table] = {}
            for single in self.singles:
                unit, tables = single.unit, single.taken({}, ChainMap(grown, new))
                some = (opening and (not goes_on or unit in self.timed)) or any(map(rows, tables))
                grown[unit] = self.goals[unit].grow(tables) if some else empty(self.widths[unit])
                if self.ahead:
                    grown[unit] = clipped(grown[unit], first, last)
                if unit in again:
                    grown[unit] = concat([grown[unit], again.pop(unit)])
            new = nothing | {unit: grown[unit] for unit in self.cycle.settling}
            opening = False
            settled = [grown[unit] for unit in self.cycle.settling]
            derived += sum(map(rows, settled))
            if derived > self.limit:
                raise endless(
                    f"a recursion among formulas has found {derived:,} intervals in one step",
                    self.cycle.rules,
                    "add a bound, `WHERE X < 100`, in LARS `X < 100`;",
                )
            if self.timed and (first == -INFINITE if self.ahead else last == INFINITE):
                alone = alone + 1 if all(self._beyond(table, known) for table in settled) else 0
                if alone > MOST:
                    return False
        return True

    def _beyond(self, table: Table, known: int) -> bool:
        if self.ahead:
            return int(table[END].max(initial=-INFINITE)) < 2 * known
        return int(table[START].min(initial=INFINITE)) > 2 * known + 1

    def _goes_on(self, outputs: Mapping[PlanUnit, Table], last: int) -> bool:
        """Return True if tuples that hold before a period of time also hold in the period, until a change ends them.

        Otherwise all tuples of the period are derived anew. This is necessary in three cases:

        - the knowledge changes
        - the input of a NOT changes
        - the period goes on to the end of time, and the passing of time causes changes in it
        """
        if (self.timed and last == INFINITE) or any(rows(outputs[unit]) for unit in self.cycle.negated):
            return False
        if any(goal.next_change() <= last for goal in self.following):
            return False
        return not any(goal.holds_from > -INFINITE for goal in self.goals.values())

    def _shrunk(self, nothing: Mapping[PlanUnit, Table], gone: Mapping[PlanUnit, Table]) -> dict[PlanUnit, Table]:
        """Tell each goal which tuples may have lost their derivation. Return those tuples that still have another
        derivation, by unit.

        `gone`: for each unit outside the cycle, the tuples that no longer hold. `nothing`: an empty table for each
        unit.

        Source of the method, delete and rederive: Gupta, Mumick, Subrahmanian, *Maintaining views incrementally*,
        SIGMOD 1993.
        """
        new, opening = {**nothing, **gone}, True
        while True:
            removed: dict[PlanUnit, Table] = {}
            for single in self.singles:
                unit, tables = single.unit, single.taken({}, ChainMap(removed, new))
                some = (opening and unit in self.timed) or any(map(rows, tables))
                removed[unit] = self.goals[unit].shrink(tables) if some else empty(self.widths[unit])
            new, opening = {**nothing, **{unit: removed[unit] for unit in self.cycle.settling}}, False
            if not any(rows(removed[unit]) for unit in self.cycle.settling):
                break
        remaining = {unit: goal.remaining() for unit, goal in self.goals.items()}
        return {unit: table for unit, table in remaining.items() if table is not None and rows(table)}


class HeldOutside:
    """The tuples of a goal outside the cycle whose output the cycle reads. This goal has already processed the whole
    step before the cycle processes its first piece of time."""

    def __init__(self, goal: Goal) -> None:
        self.goal = cast(InRounds, goal)

    def open(self, changes: Table) -> None:
        """Begin a step. `changes`: the goal's output in the step."""
        self.table = self.goal.held(changes, -INFINITE, INFINITE)

    def held(self, changes: Table, first: int, last: int) -> Table:
        return clipped(self.table, first, last)


@dataclass(frozen=True, slots=True)
class FluentsOfCycle:
    """The fluents of a cycle with delays.

    - `events`: the goals that are not formulas. When one of them is due, the current piece of time ends.
    - `extents`: the goals that output the final changes of the cycle's fluents.
    - `whole`: True if no fluent may hold before the first time of the input, because a rule uses NOT or AGGREGATE.
    - `outside`: for each unit outside the cycle that formulas without a delay read, the unit's tuples.
    """

    events: Sequence[Goal]
    extents: Sequence[InRounds]
    whole: bool
    outside: Mapping[PlanUnit, HeldOutside]


class Lagged(Cycle):
    """The goals of one cycle in which every loop has a delay."""

    def __init__(self, goals: CycleGoals, widths: Mapping[PlanUnit, int], fluents: FluentsOfCycle) -> None:
        super().__init__(goals, widths)
        self.fluents = fluents
        self.late = max(extent.late for extent in fluents.extents)

    @property
    def takes(self) -> Takes:
        """The inputs from outside the cycle. The cycle runs in every step, because its output may change when the
        engine learns of an earlier first time of the input."""
        return Takes(self.outside, self.own, True, always=True)

    def go(self, frontier: Frontier) -> None:
        """Run the cycle piece by piece. An endless recursion stops at the latest time of the input."""
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
        checkpoints = [goal.whole_checkpoint() for goal in self.goals]
        counts = {unit: len(tables) for unit, tables in self.given.items()}
        if not self._to(frontier, MOST):
            for goal, checkpoint in zip(self.goals, checkpoints, strict=True):
                goal.take_back(checkpoint)
            self.given = {unit: tables[: counts[unit]] for unit, tables in self.given.items()}

    def _to(self, frontier: Frontier, most: int | None = None, rest: bool = True) -> bool:
        """Run to a frontier. Return False early if the recursion is endless, or after more than `most` pieces of time.

        `rest`: True to take also the input rows beyond the frontier.
        """
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
        """Return the start and the end of the next piece of time. `due`: the time of the next input or deadline.

        Nothing happens between the current time and the start. Rows that are fed back with a delay are known up to the
        end.
        """
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
