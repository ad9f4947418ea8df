"""Recursion in general: slice by slice of equal end, in rounds where a cycle closes inside the instant (M6).

The common iterative rule runs in a kernel of its own (`cep.operators.goals.pairs.linear_recursion`), and a cycle of
conditions on fluents goes by many instants at once (`cep.runtime.stretch_recursion`); this way is the reference for
both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.intervals import FOLLOWS
from cep.core.relation import END, FIRST, START, Table, concat, empty, rows
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import by_arrival, first_of_equal, take
from cep.operators.goals.contract import Goal, Takes
from cep.plan.order import PlanUnit
from cep.runtime.machine_part import GoalByGoal

Reader = tuple[PlanUnit, Goal, tuple[PlanUnit, ...], str | None]
# Of what an instant may derive, so many deadlines may pass in a row without any input, besides those that were open: a
# rule that starts its own timer again never ends.
TENTH = 10


@dataclass(frozen=True, slots=True)
class CyclePart:
    """Units (name, goal, what it reads, own event) of a cycle that run together in an instant; `rounds`: they
    are a cycle inside the instant. `later`: (unit, place among what it reads) where it asks only for what ended
    before; an instant comes there whole."""

    units: tuple[Reader, ...]
    rounds: bool
    later: frozenset[tuple[PlanUnit, int]] = frozenset()


class Cycle(GoalByGoal, ABC):
    """Goals of a cycle, as the machine runs them."""

    def __init__(self, parts: Sequence[CyclePart]) -> None:
        self.parts = parts
        self.inside = {unit for part in parts for unit, *_ in part.units}
        self.unit: PlanUnit = min(unit for unit in self.inside if isinstance(unit, int))

    @property
    def gives(self) -> Collection[PlanUnit]:
        """See `cep.runtime.machine_part`."""
        return self.inside

    @property
    def takes(self) -> Takes | None:
        """See `cep.runtime.machine_part`."""
        return None

    def due(self) -> int | None:
        """See `cep.runtime.machine_part`."""
        return None

    def from_elsewhere(self) -> Takes:
        """Rows of units that do not lie on the cycle, and of events that are on it; and their time."""
        readers = [each for part in self.parts for each in part.units]
        units = dict.fromkeys(other for _, _, reads, _ in readers for other in reads if other not in self.inside)
        return Takes(tuple(units), tuple(event for *_, event in readers if event is not None), True)

    @abstractmethod
    def step(self, inputs: Mapping[str, Table], outputs: dict[PlanUnit, Table], frontier: Frontier) -> None:
        """Add to `outputs` what every unit of the cycle gives."""

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """See `cep.runtime.machine_part`."""
        self.step(inputs, outputs, frontier)
        for unit in self.inside:
            made[unit] += rows(outputs[unit])
        return True

    def goals_by_unit(self) -> list[tuple[PlanUnit, Goal]]:
        """See `cep.runtime.machine_part`."""
        return [(unit, goal) for part in self.parts for unit, goal, _, _ in part.units]

    def from_outside(
        self, inputs: Mapping[str, Table], outputs: Mapping[PlanUnit, Table]
    ) -> dict[tuple[PlanUnit, int], Table]:
        """What comes to each unit, at this place among what it reads, from where it does not lie on the cycle."""
        outer: dict[tuple[PlanUnit, int], Table] = {}
        for part in self.parts:
            for unit, _, reads, event in part.units:
                if event is not None and event in inputs:
                    outer[unit, 0] = inputs[event]
                for port, other in enumerate(reads, 1 if event is not None else 0):
                    if other not in self.inside:
                        outer[unit, port] = outputs[other]
        return outer


class Recursion(Cycle):
    """The goals of one cycle."""

    def __init__(
        self, parts: Sequence[CyclePart], widths: Mapping[PlanUnit, int], max_derivations: int, rules: Sequence[str]
    ) -> None:
        super().__init__(parts)
        self.widths = widths
        self.limit = max_derivations
        self.rules = rules
        self.goals = [goal for part in parts for _, goal, _, _ in part.units]

    @property
    def takes(self) -> Takes:
        """See `cep.runtime.machine_part`."""
        return self.from_elsewhere()

    def due(self) -> int | None:
        """See `cep.runtime.machine_part`."""
        return min((due for goal in self.goals if (due := goal.due()) is not None), default=None)

    def step(self, inputs: Mapping[str, Table], outputs: dict[PlanUnit, Table], frontier: Frontier) -> None:
        """Add to `outputs` what every unit of the cycle gives."""
        outer = self.from_outside(inputs, outputs)
        made: dict[PlanUnit, list[Table]] = {unit: [] for unit in self.inside}
        self.one_by_one(outer, made, frontier)
        for part in self.parts:
            for unit, goal, _, _ in part.units:
                outputs[unit] = concat(made[unit]) if made[unit] else empty(self.widths[unit])
                goal.evict(frontier)

    def one_by_one(
        self, outer: Mapping[tuple[PlanUnit, int], Table], made: dict[PlanUnit, list[Table]], frontier: Frontier
    ) -> None:
        """Add to `made` what every unit gives, instant by instant."""
        alone = most = 0
        for instant, slice_ in self._instants(outer, frontier.watermark):
            stops.between()
            if slice_:
                alone = 0
            elif not alone:
                most = self.limit // TENTH + sum(goal.pending() for goal in self.goals)
            alone = 0 if slice_ else alone + 1
            if alone > most:
                raise self._endless(f"{alone:,} deadlines in a row, and no input between them")
            now_at = frontier.until(instant)
            now = self._instant(slice_, now_at)
            for unit, table in now.items():
                if rows(table):
                    made[unit].append(table)
            for goal in self.goals:
                goal.evict(now_at)

    def _instants(
        self, outer: Mapping[tuple[PlanUnit, int], Table], watermark: int
    ) -> Iterator[tuple[int, dict[tuple[PlanUnit, int], Table]]]:
        """Ends that occur outside, and deadlines inside as they come up, in order, with the outer rows of each."""
        done = dict.fromkeys(outer, 0)
        while True:
            instant = END_OF_TIME
            for place, table in outer.items():
                if done[place] < rows(table):
                    instant = min(instant, int(table[END, done[place]]))
            for goal in self.goals:
                due = goal.due()
                instant = instant if due is None else min(instant, due)
            if instant > watermark or instant == END_OF_TIME:
                return
            slice_: dict[tuple[PlanUnit, int], Table] = {}
            for place, table in outer.items():
                first = done[place]
                if first < rows(table) and table[END, first] == instant:
                    last = int(np.searchsorted(table[END], instant, side="right"))
                    slice_[place] = table[:, first:last]
                    done[place] = last
            yield instant, slice_

    def _instant(self, outer: Mapping[tuple[PlanUnit, int], Table], frontier: Frontier) -> dict[PlanUnit, Table]:
        now: dict[PlanUnit, Table] = {}
        seen: dict[tuple[PlanUnit, int], bool] = {}
        for part in self.parts:
            if part.rounds:
                self._rounds(part, outer, now, seen, frontier)
            else:
                for unit, goal, reads, event in part.units:
                    now[unit] = self._unit(unit, goal, reads, event, outer, now, seen, frontier)
        # What a unit reads from units that ran after it belongs to later instants: it waits there now.
        for part in self.parts:
            for unit, goal, reads, event in part.units:
                late = [
                    now[other]
                    if other in self.inside and not seen.get((unit, port), False)
                    else empty(self.widths[other])
                    for port, other in enumerate(reads, 1 if event is not None else 0)
                ]
                if any(rows(table) for table in late):
                    assert event is None, "an event's heads run before it"
                    rest = goal.step(late, frontier)
                    assert not rows(rest), "what is strictly later completes nothing"
        return now

    def _unit(
        self,
        unit: PlanUnit,
        goal: Goal,
        reads: tuple[PlanUnit, ...],
        event: str | None,
        outer: Mapping[tuple[PlanUnit, int], Table],
        now: Mapping[PlanUnit, Table],
        seen: dict[tuple[PlanUnit, int], bool],
        frontier: Frontier,
    ) -> Table:
        tables = []
        if event is not None:
            tables.append(outer.get((unit, 0), empty(self.widths[unit])))
        for port, other in enumerate(reads, len(tables)):
            if other in self.inside and other in now:
                tables.append(now[other])
                seen[unit, port] = True
            else:
                tables.append(outer.get((unit, port), empty(self.widths[other])))
        if not any(rows(t) for t in tables):
            due = goal.due()
            if due is None or due > frontier.watermark:
                return empty(self.widths[unit])
        return goal.step(tables, frontier)

    def _rounds(
        self,
        part: CyclePart,
        outer: Mapping[tuple[PlanUnit, int], Table],
        now: dict[PlanUnit, Table],
        seen: dict[tuple[PlanUnit, int], bool],
        frontier: Frontier,
    ) -> None:
        members = {unit for unit, *_ in part.units}
        events = [reader for reader in part.units if reader[3] is not None]
        nodes = [reader for reader in part.units if reader[3] is None]
        known: dict[PlanUnit, list[Table]] = {}
        delta: dict[PlanUnit, Table] = {}
        seen_rows: dict[PlanUnit, KeySet] = {}
        for unit, _, _, _ in events:
            delta[unit] = first_of_equal(outer.get((unit, 0), empty(self.widths[unit])))
            seen_rows[unit] = KeySet(2 + self.widths[unit])
            seen_rows[unit].insert(_identity(delta[unit]))
            known[unit] = [delta[unit]]
        whole: dict[PlanUnit, list[Table]] = {unit: [] for unit in members}
        first = True
        derived = rounds = 0
        while True:
            stops.between()
            for unit, goal, reads, _ in nodes:
                tables = []
                for port, other in enumerate(reads):
                    if (unit, port) in part.later and other in members:
                        tables.append(empty(self.widths[other]))
                    elif other in members:
                        tables.append(delta[other])
                        seen[unit, port] = True
                    elif other in self.inside and other in now:
                        tables.append(now[other] if first else empty(self.widths[other]))
                        seen[unit, port] = True
                    else:
                        table = outer.get((unit, port)) if first else None
                        tables.append(empty(self.widths[other]) if table is None else table)
                delta[unit] = (
                    goal.step(tables, frontier) if first or any(rows(t) for t in tables) else empty(self.widths[unit])
                )
                if rows(delta[unit]):
                    whole[unit].append(delta[unit])
            fresh: dict[PlanUnit, Table] = {}
            for unit, goal, reads, _ in events:
                tables = [empty(self.widths[unit])]
                for port, other in enumerate(reads, 1):
                    if other in members:
                        tables.append(delta[other])
                    elif other in self.inside and other in now:
                        tables.append(now[other] if first else empty(self.widths[other]))
                    else:
                        table = outer.get((unit, port)) if first else None
                        tables.append(empty(self.widths[other]) if table is None else table)
                    seen[unit, port] = True
                made = goal.step(tables, frontier)
                _, new = seen_rows[unit].insert(_identity(made))
                fresh[unit] = made if len(new) == rows(made) else take(made, np.sort(new))
            first = False
            grown = sum(rows(table) for table in fresh.values())
            if not grown:
                break
            derived += grown
            rounds += 1
            if derived > self.limit:
                raise self._endless(f"{derived:,} occurrences in {rounds:,} rounds at one instant")
            for unit, table in fresh.items():
                delta[unit] = table
                known[unit].append(table)
        for unit, *_ in nodes:
            now[unit] = by_arrival(concat(whole[unit])) if whole[unit] else empty(self.widths[unit])
        for unit, *_ in events:
            now[unit] = by_arrival(concat(known[unit]))

    def _endless(self, so_far: str) -> CepError:
        return CepError(
            f"a recursion goes on for ever: {so_far}, of " + ", ".join(f"`{r}`" for r in dict.fromkeys(self.rules)),
            hint=f"each round has to wait for something new: the recursive event on the left of a {FOLLOWS}; "
            "or `--max-derivations` raises the limit",
            code="recursion",
        )


def _identity(table: Table) -> Table:
    """What makes an occurrence the same as another: interval and arguments, a row each."""
    return np.ascontiguousarray(np.concatenate([table[[START, END]], table[FIRST:]]).T)
