"""Cycles of rows at instants: what comes back later comes back at the next instant, so a piece is an instant.

Where nothing is a cycle at one instant and each goal takes a step back, as conditions on fluents do, many instants are
guessed at once: all goals are given a stretch as if no goal of the cycle changed anything in it; then again, with the
changes that they have given, until these stay the same. What depends on itself only from instant to instant has one
solution, and a pass makes at least one instant more right. So there are as many passes as instants at most, and only as
many as things follow from each other. A stretch that takes too many is taken back, and begun anew with fewer instants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from cep.core.relation import Table, contiguous
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.checkpoint import Checkpoint
from cep.plan.order import PlanUnit
from cep.runtime.cycle import Cycle, CycleGoals, next_due
from cep.runtime.machine_part import GivenTables
from cep.runtime.row_rounds import endless_rows

LEAST, FEW, MOST = 8, 4, 16
"""Instants of the shortest stretch; of passes so few that the next stretch is longer, and how many are too many: more
than a shortest stretch takes, which is its instants and two, unless deadlines make others, one after the other."""
TENTH = 10
"""This part of what an instant may derive is how many deadlines may pass in a row without any input, besides those that
were open: a rule that starts its own timer again never ends."""


class Instants(Cycle):
    """The goals of one cycle of rows, which may derive `limit` occurrences an instant."""

    def __init__(
        self, goals: CycleGoals, widths: Mapping[PlanUnit, int], limit: int, rules: Sequence[str], guesses: bool
    ) -> None:
        """`guesses`: many instants at once."""
        super().__init__(goals, widths)
        self.limit, self.rules, self.guesses = limit, rules, guesses
        self.most = 8 * LEAST
        """Instants of the next stretch at most."""

    def go(self, frontier: Frontier) -> None:
        """Run stretch by stretch, or instant by instant."""
        if not self.guesses:
            self._one_by_one(frontier)
            return
        ends, first = self.arrivals.ends(), 0
        while True:
            stops.between()
            last = min(first + self.most, len(ends))
            until = frontier if last == len(ends) else frontier.until(int(ends[last - 1]))
            taken = self.arrivals.taken.copy()
            if self._guessed(self.arrivals.until(until), until):
                first = last
            else:
                self.arrivals.taken = taken
                if last - first > LEAST:
                    self.most = max(LEAST, (last - first) // 4)
                    continue
                self._one_by_one(until)
                first = last
            if last == len(ends):
                return

    def _one_by_one(self, frontier: Frontier) -> None:
        alone = most = 0
        while True:
            coming = self.arrivals.next()
            instant = min(coming, next_due(self.timed))
            if instant > frontier.watermark or instant == END_OF_TIME:
                break
            stops.between()
            if coming == instant:
                alone = 0
            else:
                most = most if alone else self.limit // TENTH + sum(goal.pending() for goal in self.goals)
                alone += 1
            if alone > most:
                raise endless_rows(f"{alone:,} deadlines in a row, and no input between them", self.rules)
            now = frontier.until(instant)
            self.piece(now, now, self.arrivals.until(now))
            assert not self.begun, "what is strictly later completes nothing"
        for goal in self.goals:
            goal.evict(frontier)

    def _guessed(self, come: Mapping[PlanUnit, Table], frontier: Frontier) -> bool:
        """Give what comes of a stretch. False: it takes too many passes, and no goal has taken anything."""
        outer = {unit: contiguous(table) for unit, table in come.items()}
        inputs = {event: outer.pop(event, self.nothing[event]) for event in self.own}
        found = GivenTables(self.nothing)
        found.update(outer)
        seen: dict[PlanUnit, tuple[list[Table], Checkpoint]] = {}
        for passes in count():
            if not self._pass(inputs, found, seen, frontier):
                break
            if passes + 1 == MOST:
                for single in self.singles:
                    if single.unit in seen:
                        single.goal.take_back(seen[single.unit][1])
                return False
        if passes <= FEW:
            self.most *= 2
        elif passes > MOST // 2:
            self.most = max(LEAST, self.most // 2)
        for single in self.singles:
            self.give(single.unit, found[single.unit])
            single.goal.evict(frontier)
        return True

    def _pass(
        self,
        inputs: Mapping[str, Table],
        found: GivenTables,
        seen: dict[PlanUnit, tuple[list[Table], Checkpoint]],
        frontier: Frontier,
    ) -> bool:
        """Have each goal take what it has not `seen` yet. Returns True if any gives something else than before."""
        changed = False
        for single in self.singles:
            goal, tables = single.goal, single.taken(inputs, found)
            if single.unit in seen:
                before, checkpoint = seen[single.unit]
                if all(one is other for one, other in zip(tables, before, strict=True)):
                    continue
                goal.take_back(checkpoint)
            elif not single.is_due(tables, frontier):
                continue
            seen[single.unit] = tables, goal.checkpoint(tables, frontier)
            given = goal.step(tables, frontier)
            if not np.array_equal(given, found[single.unit]):
                found[single.unit], changed = given, True
        return changed
