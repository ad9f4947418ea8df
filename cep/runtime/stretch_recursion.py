"""Recursion through conditions on fluents, which ask what was so before: many instants at once, in passes.

step:  a stretch of instants -> what every goal gives of all its rows, as if nothing changed in it;
       and again, with the changes that this leads to, until it leads to the same.

What depends on itself only from instant to instant has one solution, and a pass makes at least one instant more right.
So there are as many passes as instants at most, and only as many as things follow from each other: what happens to one
key seldom asks what just happened to another. A stretch in which they would be many is taken in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from cep.core.hashtable import NO_ROOM
from cep.core.relation import END, Table, concat, contiguous, empty, rows, slice_until
from cep.core.signals import stops
from cep.core.time import Frontier
from cep.operators.goals.contract import UndoableGoal
from cep.plan.order import PlanUnit
from cep.runtime.recursion import CyclePart, Recursion

LEAST, FEW, MOST = 8, 4, 16
"""Instants of the shortest stretch; of passes so few that the next stretch is longer, and how many are too many: more
than a shortest stretch takes, which is its instants and two, unless deadlines make others, one after the other."""

Place = tuple[PlanUnit, int]
"""A unit, and a place among what it reads."""


class StretchRecursion(Recursion):
    """The goals of one cycle that goes `by_stretches` (`cep.plan.order`)."""

    def __init__(
        self, parts: Sequence[CyclePart], widths: Mapping[PlanUnit, int], max_derivations: int, rules: Sequence[str]
    ) -> None:
        super().__init__(parts, widths, max_derivations, rules)
        self.nothing = {unit: empty(width) for unit, width in widths.items()}
        self.readers = [(u, cast(UndoableGoal, goal), reads, e) for part in parts for u, goal, reads, e in part.units]
        self.most = 8 * LEAST
        """Instants of the next stretch at most."""

    def step(self, inputs: Mapping[str, Table], outputs: dict[PlanUnit, Table], frontier: Frontier) -> None:
        """Add to `outputs` what every unit of the cycle gives."""
        outer = self.from_outside(inputs, outputs)
        ends = np.unique(np.concatenate([NO_ROOM, *(table[END] for table in outer.values())]))
        made: dict[PlanUnit, list[Table]] = {unit: [] for unit in self.inside}
        taken, first = dict.fromkeys(outer, 0), 0
        while True:
            stops.between()
            last = min(first + self.most, len(ends))
            now = frontier if last == len(ends) else frontier.until(int(ends[last - 1]))
            limits = {place: slice_until(table, now.watermark) for place, table in outer.items()}
            pieces = {place: contiguous(table[:, taken[place] : limits[place]]) for place, table in outer.items()}
            found = self._settled(pieces, now)
            if found is None and last - first > LEAST:
                self.most = max(LEAST, (last - first) // 4)
                continue
            if found is None:
                self.one_by_one(pieces, made, now)
            else:
                for unit, goal, _, _ in self.readers:
                    if rows(found[unit]):
                        made[unit].append(found[unit])
                    goal.evict(now)
            if last == len(ends):
                break
            taken, first = limits, last
        for unit, tables in made.items():
            outputs[unit] = concat(tables) if tables else self.nothing[unit]

    def _settled(self, outer: Mapping[Place, Table], frontier: Frontier) -> dict[PlanUnit, Table] | None:
        """What each unit gives of a stretch, which ends at `frontier`. None: it takes too many passes, and no goal has
        taken anything."""
        found = {unit: self.nothing[unit] for unit in self.inside}
        seen: dict[PlanUnit, list[Table]] = {}
        passes = 0
        while self._pass(found, seen, outer, frontier):
            passes += 1
            if passes == MOST:
                for unit, goal, _, _ in self.readers:
                    if unit in seen:
                        goal.undo()
                return None
        if passes <= FEW:
            self.most *= 2
        elif passes > MOST // 2:
            self.most = max(LEAST, self.most // 2)
        return found

    def _pass(
        self,
        found: dict[PlanUnit, Table],
        seen: dict[PlanUnit, list[Table]],
        outer: Mapping[Place, Table],
        frontier: Frontier,
    ) -> bool:
        """Have each goal take what it has not `seen` yet; whether any gives something else than before (`found`)."""
        changed = False
        for unit, goal, reads, event in self.readers:
            tables = [] if event is None else [outer.get((unit, 0), self.nothing[unit])]
            for place, other in enumerate(reads, len(tables)):
                tables.append(found[other] if other in self.inside else outer[unit, place])
            if unit in seen:
                if all(one is other for one, other in zip(tables, seen[unit], strict=True)):
                    continue
                goal.undo()
            elif not any(map(rows, tables)):
                due = goal.due()
                if due is None or due > frontier.watermark:
                    continue
            seen[unit] = tables
            given = goal.attempt(tables, frontier)
            if not np.array_equal(given, found[unit]):
                found[unit], changed = given, True
        return changed
