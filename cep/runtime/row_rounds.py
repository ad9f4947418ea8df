"""Rounds of rows: goals that depend on each other at one instant, each round from what the one before has added."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np

from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.intervals import FOLLOWS
from cep.core.relation import ORDER, Table, concat, rows
from cep.core.signals import stops
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.contract import EventGoal, Goal
from cep.plan.order import PlanUnit
from cep.runtime.cycle import endless
from cep.runtime.machine_part import GivenTables, SingleGoal


class RowRounds:
    """Goals that are a cycle at one instant, which may derive `limit` occurrences there.

    `later`: units with places among what they read, from which rows come back after the instant.
    """

    def __init__(
        self,
        singles: Sequence[SingleGoal],
        later: Collection[tuple[PlanUnit, int]],
        nothing: Mapping[PlanUnit, Table],
        limit: int,
        rules: Sequence[str],
    ) -> None:
        self.singles, self.later, self.nothing, self.limit, self.rules = singles, later, nothing, limit, rules
        self.gives = [single.unit for single in singles]
        self.nodes = [single for single in singles if single.event is None]
        self.events = [(single.event, single) for single in singles if single.event is not None]

    def run(
        self,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """See `cep.runtime.cycle`."""
        new = GivenTables(self.nothing)
        new.update(outputs)
        whole: dict[PlanUnit, list[Table]] = {unit: [] for unit in self.gives}
        seen: dict[PlanUnit, KeySet] = {}
        for event, single in self.events:
            new[event] = cast(EventGoal, single.goal).taken(inputs.get(event, self.nothing[event]))
            seen[event] = KeySet(3 + single.width)
            seen[event].insert(_identity(single.goal, new[event]))
            whole[event].append(new[event])
        derived = rounds = 0
        while True:
            stops.between()
            for single in self.nodes:
                unit = single.unit
                tables = [
                    self.nothing[other] if (unit, port) in self.later else new[other]
                    for port, other in enumerate(single.reads)
                ]
                if not rounds or any(map(rows, tables)):
                    new[unit] = single.goal.step(tables, frontier)
                    if rows(new[unit]):
                        whole[unit].append(new[unit])
            fresh = GivenTables(self.nothing)
            for event, single in self.events:
                made_now = single.goal.step([self.nothing[event], *(new[other] for other in single.reads)], frontier)
                if not rows(made_now):
                    continue
                places = seen[event].insert(_identity(single.goal, made_now))[1]
                fresh[event] = made_now if len(places) == rows(made_now) else take(made_now, np.sort(places))
                whole[event].append(fresh[event])
            grown = sum(map(rows, fresh.values()))
            if not grown:
                break
            derived += grown
            rounds += 1
            if derived > self.limit:
                raise endless_rows(f"{derived:,} occurrences in {rounds:,} rounds at one instant", self.rules)
            new = fresh
        for single in self.singles:
            found = whole[single.unit]
            outputs[single.unit] = by_arrival(concat(found)) if found else self.nothing[single.unit]
            single.goal.evict(frontier)
        return True


def endless_rows(so_far: str, rules: Sequence[str]) -> CepError:
    """An error: a recursion of events does not end."""
    return endless(
        f"a recursion goes on for ever: {so_far}",
        rules,
        f"each round has to wait for something new: the recursive event on the left of a {FOLLOWS}; or",
    )


def _identity(goal: Goal, table: Table) -> Table:
    """What makes an occurrence of an event the same as another: interval, number and arguments, a row each."""
    table = cast(EventGoal, goal).numbered(table)
    return np.concatenate([table[:ORDER], table[ORDER + 1 :]]).T.copy()
