"""Recursion among formulas: the least of what holds, found stretch by stretch.

step:  changes from outside, between two watermarks -> in rounds of intervals
       (`cep.operators.goals.fluents.stretches`) what the fluents of the cycle come to;
       then every goal takes its inputs as it would without a cycle.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cep.core.errors import CepError
from cep.core.interval_sets import INFINITE
from cep.core.relation import END, START, Table, concat, empty, rows
from cep.core.signals import stops
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.operators.goals.contract import (
    CountingGoal,
    FixpointGoal,
    KnowledgeGoal,
    KnowsHeld,
    RecursiveGoal,
    Takes,
    TimedGoal,
)
from cep.operators.goals.fluents.change_tables import changes_in, decided, due
from cep.operators.goals.fluents.stretches import changed_in, clipped
from cep.plan.order import PlanUnit
from cep.runtime.recursion import Cycle, CyclePart, Reader

MOST = 100
"""After so many rounds at the end of the input that find nothing but what begins behind the latest time in it, a
recursion counts as one that never ends."""


@dataclass(frozen=True, slots=True)
class FormulaCycle:
    """A cycle of formulas. `settling`: the units that give what its fluents come to; `timed`: those of which time alone
    changes what they give, `following`: the knowledge does; `outside`: the goals that what comes in comes from,
    `negated`: those of them that NOT asks; `counting`: the units that count what supports their tuples. `ahead`: it
    looks ahead, so that all of it is found at the end of the input, back from there."""

    readers: tuple[Reader, ...]
    settling: frozenset[PlanUnit]
    timed: frozenset[PlanUnit]
    following: frozenset[PlanUnit]
    outside: Mapping[PlanUnit, object]
    negated: frozenset[PlanUnit]
    counting: frozenset[PlanUnit]
    rules: Sequence[str]
    ahead: bool = False


class FormulaRecursion(Cycle):
    """The goals of one cycle of formulas, which may derive `limit` intervals a step.

    The plan says what each goal promises; here, once, it is taken at its word.
    """

    def __init__(self, cycle: FormulaCycle, widths: Mapping[PlanUnit, int], limit: int) -> None:
        super().__init__([CyclePart(cycle.readers, True)])
        self.cycle, self.widths, self.limit = cycle, widths, limit
        goals = {unit: goal for unit, goal, _, _ in cycle.readers}
        self.recursive = cast(Mapping[PlanUnit, RecursiveGoal], goals)
        self.fixpoints = {unit: cast(FixpointGoal, goal) for unit, goal in goals.items() if unit in cycle.settling}
        self.timed = [cast(TimedGoal, goal) for unit, goal in goals.items() if unit in cycle.timed]
        self.following = [cast(KnowledgeGoal, goal) for unit, goal in goals.items() if unit in cycle.following]
        self.outside = cast(Mapping[PlanUnit, KnowsHeld], cycle.outside)
        self.counting = {unit: cast(CountingGoal, goal) for unit, goal in goals.items() if unit in cycle.counting}
        self.late = max(goal.late for goal in self.fixpoints.values())
        self.unending = False

    @property
    def takes(self) -> Takes:
        """See `cep.runtime.machine_part`."""
        return self.from_elsewhere()

    def due(self) -> int | None:
        """See `cep.runtime.machine_part`."""
        code = min((goal.next_change() for goal in self.timed), default=INFINITE)
        return None if code == INFINITE else due(code, self.late)

    def step(self, inputs: Mapping[str, Table], outputs: dict[PlanUnit, Table], frontier: Frontier) -> None:
        """Add to `outputs` what every unit of the cycle gives."""
        first, last = self._first(outputs), decided(frontier, self.late)
        for unit in self.inside:
            outputs[unit] = empty(self.widths[unit])
        if first > last or first == INFINITE:
            return
        if self.cycle.ahead:
            if not self._grow(outputs, -INFINITE, last, frontier.earliest):
                self._grow(outputs, 2 * frontier.earliest, last, BEGINNING)
        else:
            if not self._grow(outputs, first, last, frontier.latest):
                self.unending = True
                frontier = frontier.until(frontier.latest + self.late)
                last = decided(frontier, self.late)
                if first > last:
                    return
                self._grow(outputs, first, last, END_OF_TIME)
        given = {unit: goal.settled() for unit, goal in self.fixpoints.items()}
        seen = ChainMap(given, outputs)  # the goals of its fluents are given what these come to
        for unit, goal, reads, event in self.cycle.readers:
            outputs[unit] = goal.step(self._tables(reads, event, unit, seen), frontier)
        for unit, goal, reads, event in self.cycle.readers:
            if event is not None and self.cycle.settling.intersection(reads):
                outputs[unit] = goal.step(self._tables(reads, event, unit, outputs), frontier)
            goal.evict(frontier)

    def _tables(
        self, reads: Sequence[PlanUnit], event: str | None, unit: PlanUnit, known: Mapping[PlanUnit, Table]
    ) -> list[Table]:
        own = [] if event is None else [empty(self.widths[unit])]
        return [*own, *(known[other] for other in reads)]

    def _first(self, outputs: Mapping[PlanUnit, Table]) -> int:
        """The code at which something changes first, from outside or with time alone."""
        first = min((goal.next_change() for goal in (*self.timed, *self.following)), default=INFINITE)
        for _, _, reads, _ in self.cycle.readers:
            for other in reads:
                if other not in self.inside and rows(outputs[other]):
                    _, code, _ = changes_in(outputs[other], outputs[other].shape[0] - 1)
                    first = min(first, int(code.min(initial=INFINITE)))
        return first

    def _grow(self, outputs: Mapping[PlanUnit, Table], first: int, last: int, known: int) -> bool:
        """Rounds, each from what the one before has added, until nothing is. False: the stretch has no end, and they go
        on and on beyond the latest time in the input, which is `known`, or before the earliest."""
        new: dict[PlanUnit, Table] = {}
        goes_on = self._goes_on(outputs, last)
        gone: dict[PlanUnit, Table] = {}
        for unit, _, reads, _ in self.cycle.readers:
            self.recursive[unit].open_stretch(first, last, goes_on)
            new[unit] = empty(self.widths[unit])
            for other in reads:
                if other in self.inside or other in new:
                    continue
                if goes_on:
                    gone[other], new[other] = changed_in(outputs[other], first, last)
                else:
                    new[other] = clipped(self.outside[other].held(outputs[other], first, last), first, last)
        nothing = {unit: table[:, :0] for unit, table in new.items()}
        changing = goes_on and any(goal.next_change() <= last for goal in self.timed)
        again = self._shrunk(nothing, gone) if changing or any(map(rows, gone.values())) else {}
        derived, alone, opening = 0, 0, True
        while opening or any(rows(new[unit]) for unit in self.cycle.settling):
            stops.between()
            made: dict[PlanUnit, Table] = {}
            for unit, _, reads, event in self.cycle.readers:
                tables = self._tables(reads, event, unit, ChainMap(made, new))
                some = (opening and (not goes_on or unit in self.cycle.timed)) or any(map(rows, tables))
                made[unit] = self.recursive[unit].grow(tables) if some else empty(self.widths[unit])
                if self.cycle.ahead:
                    made[unit] = clipped(made[unit], first, last)
                if unit in again:
                    made[unit] = concat([made[unit], again.pop(unit)])
            new = nothing | {unit: made[unit] for unit in self.cycle.settling}
            opening = False
            found = [made[unit] for unit in self.cycle.settling]
            derived += sum(map(rows, found))
            if derived > self.limit:
                raise self._endless(derived)
            if self.timed and (first == -INFINITE if self.cycle.ahead else last == INFINITE):
                alone = alone + 1 if all(self._beyond(table, known) for table in found) else 0
                if alone > MOST:
                    return False
        return True

    def _beyond(self, found: Table, known: int) -> bool:
        """Whether all intervals begin after a time, or where it looks ahead end before it."""
        if self.cycle.ahead:
            return int(found[END].max(initial=-INFINITE)) < 2 * known
        return int(found[START].min(initial=INFINITE)) > 2 * known + 1

    def _goes_on(self, outputs: Mapping[PlanUnit, Table], last: int) -> bool:
        """Whether what holds goes on but for what follows of the changes, and of what time changes: the knowledge
        changes nothing, and of what NOT asks nothing changes. To the end of all time it is found from nothing."""
        if (self.timed and last == INFINITE) or any(rows(outputs[unit]) for unit in self.cycle.negated):
            return False
        if any(goal.next_change() <= last for goal in self.following):
            return False
        return not any(goal.first > -INFINITE for goal in self.counting.values())

    def _shrunk(self, nothing: Mapping[PlanUnit, Table], gone: Mapping[PlanUnit, Table]) -> dict[PlanUnit, Table]:
        """Tell all goals what may go on no more, as what it came from may not (Gupta, Mumick, Subrahmanian,
        *Maintaining views incrementally*, SIGMOD 1993). Gives what goes on nonetheless, by unit."""
        new, opening = {**nothing, **gone}, True
        while True:
            made: dict[PlanUnit, Table] = {}
            for unit, _, reads, event in self.cycle.readers:
                tables = self._tables(reads, event, unit, ChainMap(made, new))
                some = (opening and unit in self.cycle.timed) or any(map(rows, tables))
                made[unit] = self.recursive[unit].shrink(tables) if some else empty(self.widths[unit])
            new, opening = {**nothing, **{unit: made[unit] for unit in self.cycle.settling}}, False
            if not any(rows(made[unit]) for unit in self.cycle.settling):
                break
        found = {unit: goal.remaining() for unit, goal in self.counting.items()}
        return {unit: table for unit, table in found.items() if rows(table)}

    def _endless(self, derived: int) -> CepError:
        return CepError(
            f"a recursion among formulas has found {derived:,} intervals in one step, of "
            + ", ".join(f"`{r}`" for r in dict.fromkeys(self.cycle.rules)),
            hint="a bound ends it, `WHERE X < 100`, in LARS `X < 100`; `--max-derivations` raises the limit",
            code="recursion",
        )
