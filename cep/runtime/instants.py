"""Cycles of rows that run instant by instant. Rows that are fed back with a delay arrive at the next instant.

Several instants can be processed at once if no cycle closes within one instant and each goal can undo a step. First,
all goals run through these instants as if no goal of the cycle had any output in them. This is a guess. Then the goals
run again in passes, each time with the output of the previous pass, until the output no longer changes.

There is exactly one solution, because dependencies only lead from an instant to a later one. Each pass corrects the
output of at least one more instant, so there are at most as many passes as instants. Usually their number is the length
of the longest chain of effects. If there are too many passes, the attempt is undone and repeated with fewer instants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import cast

import numpy as np

from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.interval_relations import FOLLOWS
from cep.core.relation import ORDER, Table, concat, contiguous, rows
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.checkpoint import Checkpoint
from cep.operators.goals.contract import EventGoal, Goal
from cep.plan.order import PlanUnit
from cep.runtime.cycle import Cycle, CycleGoals, endless, next_due
from cep.runtime.machine_part import GivenTables, SingleGoal


class RowRounds:
    """Goals that form a cycle within one instant. They may derive at most `limit` occurrences per instant.

    `later`: pairs of a unit and the position of one of its inputs. Rows reach this input only after the instant.
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
        row_counts: dict[PlanUnit, int],
    ) -> bool:
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
            pieces = whole[single.unit]
            outputs[single.unit] = by_arrival(concat(pieces)) if pieces else self.nothing[single.unit]
            single.goal.evict(frontier)
        return True


def endless_rows(so_far: str, rules: Sequence[str]) -> CepError:
    """Return the error for a recursion of events that has exceeded its limit. `so_far`: what it has derived."""
    return endless(
        f"a recursion does not end: {so_far}",
        rules,
        f"put the recursive event on the left of a {FOLLOWS}, so that each round waits for a later event;",
    )


def _identity(goal: Goal, table: Table) -> Table:
    """Return the values that identify each occurrence, one row per occurrence: its interval, its rank among equal
    occurrences, and its arguments."""
    table = cast(EventGoal, goal).numbered(table)
    return np.concatenate([table[:ORDER], table[ORDER + 1 :]]).T.copy()


LEAST, FEW, MOST = 8, 4, 16
"""The limits for processing several instants at once. LEAST is the smallest number of instants. If an attempt needs at
most FEW passes, the next attempt processes more instants. An attempt that reaches MOST passes is undone.

MOST exceeds the number of passes that LEAST instants need, unless deadlines add instants.
"""
TENTH = 10
"""The divisor in the limit of deadlines. A recursion counts as endless after more than `limit` / TENTH deadlines in a
row without input. The limit rises by the number of deadlines that were open when this series of deadlines began.

Without this limit, a rule that restarts its own timer would never end.
"""


class Instants(Cycle):
    """The goals of one cycle that derives rows. They may derive at most `limit` occurrences per instant."""

    def __init__(
        self, goals: CycleGoals, widths: Mapping[PlanUnit, int], limit: int, rules: Sequence[str], guesses: bool
    ) -> None:
        """Set up the cycle. `guesses`: True if the cycle may process several instants at once."""
        super().__init__(goals, widths)
        self.limit, self.rules, self.guesses = limit, rules, guesses
        self.most = 8 * LEAST
        """The maximum number of instants that the next attempt processes at once."""

    def go(self, frontier: Frontier) -> None:
        """Run up to the frontier, several instants at once or instant by instant."""
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
                raise endless_rows(f"{alone:,} deadlines in a row without input between them", self.rules)
            now = frontier.until(instant)
            self.piece(now, now, self.arrivals.until(now))
            assert not self.begun, "what is strictly later completes nothing"
        for goal in self.goals:
            goal.evict(frontier)

    def _guessed(self, come: Mapping[PlanUnit, Table], frontier: Frontier) -> bool:
        """Process several instants at once. If this takes too many passes, undo the step and return False.

        `come`: the input of these instants from outside the cycle.
        """
        outer = {unit: contiguous(table) for unit, table in come.items()}
        inputs = {event: outer.pop(event, self.nothing[event]) for event in self.own}
        guessed = GivenTables(self.nothing)
        guessed.update(outer)
        seen: dict[PlanUnit, tuple[list[Table], Checkpoint]] = {}
        for passes in count():
            if not self._pass(inputs, guessed, seen, frontier):
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
            self.give(single.unit, guessed[single.unit])
            single.goal.evict(frontier)
        return True

    def _pass(
        self,
        inputs: Mapping[str, Table],
        guessed: GivenTables,
        seen: dict[PlanUnit, tuple[list[Table], Checkpoint]],
        frontier: Frontier,
    ) -> bool:
        """Run each goal whose inputs have changed since its last run. Return True if the output of any goal changed.

        - `inputs`: the input events. `guessed`: the current output of each unit.
        - `seen`: for each unit, the inputs of its last run, and the checkpoint before that run.
        """
        changed = False
        for single in self.singles:
            goal, tables = single.goal, single.taken(inputs, guessed)
            if single.unit in seen:
                before, checkpoint = seen[single.unit]
                if all(table is other for table, other in zip(tables, before, strict=True)):
                    continue
                goal.take_back(checkpoint)
            elif not single.is_due(tables, frontier):
                continue
            seen[single.unit] = tables, goal.checkpoint(tables, frontier)
            output = goal.step(tables, frontier)
            if not np.array_equal(output, guessed[single.unit]):
                guessed[single.unit], changed = output, True
        return changed
