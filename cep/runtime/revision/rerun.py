"""A goal without a reviser of its own, as a region: keys that change are run again, as they were and as they are.

It keeps the rows that the goal took in the window, by key. The difference of what both runs give is what changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.errors import CepError
from cep.core.relation import END, FIRST, Table, concat, empty, rows
from cep.core.time import BEGINNING, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints
from cep.operators.goals.keyed_changes import KEY, ROW, changes_of, words_of
from cep.operators.goals.keyed_rows import R_END, KeyedRows, as_table
from cep.operators.goals.reviser import Revised, apart
from cep.plan.order import PlanUnit
from cep.plan.partition import partition
from cep.plan.plan import Plan
from cep.plan.staged import needed
from cep.runtime.keyed_stage import KeyedStage, KeySide
from cep.runtime.revision.kept_state import States, copied
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.region import LiveGoals, Region, Window, due_of
from cep.runtime.revision.row_window import parted
from cep.runtime.revision.stretch import Stretch

SHARED = KeySide(None)


@dataclass(frozen=True, slots=True)
class GoalPlace:
    """The node of a goal, the place of the goal among those of the program, and the units that it reads."""

    unit: int
    place: int
    reads: tuple[PlanUnit, ...]


class _Input:
    """The rows that a goal took at one input, by the numbers of their keys; those that belong to every key under one
    number."""

    def __init__(self, side: KeySide, width: int, numbers: KeyNumbers) -> None:
        self.side, self.numbers = side, numbers
        self.words, self.rows = words_of(width), KeyedRows(3 + width)

    @property
    def shared(self) -> bool:
        return self.side.columns is None

    def changes(self, table: Table) -> Ints:
        """A table of changes by the numbers of their keys."""
        if self.side.columns is None:
            slots, known = np.zeros(rows(table), np.int64), 1
        else:
            columns = np.ascontiguousarray(table[[FIRST + column for column in self.side.columns]].T)
            slots = self.numbers.entered(self.side.types, columns)
            known = self.numbers.count
        self.rows.know(known)
        return changes_of(table, slots, self.words, known)

    def ending(self, keys: Ints, after: Ints, until: Ints) -> Table:
        """The rows of keys that end after a time and at or before another, which each key has of its own."""
        if self.shared:
            keys, after, until = _merged(np.zeros(len(keys), np.int64), after, until)
        known = keys < len(self.rows.spans)
        return as_table(self.rows.ending(keys[known], after[known], until[known]))


class Rerun(ABC):
    """The region of one goal. `goal`: another one of the same operator, to run keys again with; `live`: the goals of
    the program."""

    remembers = True

    def __init__(self, plan: Plan, at: GoalPlace, goal: Goal, live: LiveGoals, pool: Pool) -> None:
        self.goal, self.live = goal, live
        self.width = len(plan.columns[at.unit])
        self.numbers = KeyNumbers(pool)
        coming, sides = _keyed(plan, at.unit)
        self.region = Region(-1 - at.place, [goal], [at.place], [sides], self.numbers, True)
        widths = [len(plan.columns[child]) for child in plan.nodes[at.unit].parts]
        each_read = list(zip(at.reads, coming, widths, strict=True))
        self.firsts = [place for place, each in enumerate(each_read) if each not in each_read[:place]]
        """Inputs that no earlier one is the same as: rows are kept of these alone."""
        self.reads = [self.firsts.index(each_read.index(each)) for each in each_read]
        self.inputs = [_Input(*each_read[place][1:], self.numbers) for place in self.firsts]

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """See `Reviser`."""
        for each in self.inputs:
            each.rows.length = length
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        for each, place in zip(self.inputs, self.firsts, strict=True):
            each.rows.change(each.changes(inputs[place]))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`. What is late is run again up to now; what comes in order is taken after it."""
        late, ahead = zip(*(parted(table, table[END] <= since) for table in inputs), strict=True)
        found = Revised(empty(self.width))
        if any(map(rows, late)):
            changes = [each.changes(late[place]) for each, place in zip(self.inputs, self.firsts, strict=True)]
            if any(map(len, changes)):
                found = self._again(changes, frontier.until(since))
        if any(map(rows, ahead)):
            made = goal.step([by_arrival(table) for table in ahead], frontier)
            goal.evict(frontier)
            self.came(ahead)
            found = Revised(concat([found.changes, made]), found.keys)
        return found

    @abstractmethod
    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> Revised:
        """Run the keys again that have changes, up to now."""

    def _whole(self, changes: Sequence[Ints]) -> bool:
        """Whether something changes that belongs to every key."""
        return any(each.shared and len(change) for each, change in zip(self.inputs, changes, strict=True))

    def _put(self, changes: Sequence[Ints], was: Sequence[Table], ranges: tuple[Ints, Ints, Ints]) -> list[Table]:
        """Put changes in; returns the rows of the ranges, which `was` has as they were."""
        now = list(was)
        for place, (each, change) in enumerate(zip(self.inputs, changes, strict=True)):
            if len(change):
                each.rows.change(change)
                now[place] = each.ending(*ranges)
        return now

    def _run(self, states: States, inputs: Sequence[Table], frontier: Frontier) -> tuple[Table, States]:
        """What the goal gives of inputs from a state on, which becomes its own, and its state then."""
        self.goal.become_arrays(states[0])
        made = self.goal.step([inputs[place] for place in self.reads], frontier)
        return made, [self.goal.needed_arrays(frontier)]

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        for each in self.inputs:
            each.rows.floor = until

    @abstractmethod
    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`."""

    @property
    def keys(self) -> int:
        """See `Reviser`."""
        return self.numbers.count

    @property
    def nbytes(self) -> int:
        """See `Reviser`."""
        return sum(each.rows.nbytes for each in self.inputs)


class RerunFromStretches(Rerun):
    """Of a goal that remembers without a bound: keys are run again from the states of stretches, which it puts
    right."""

    def __init__(
        self, plan: Plan, at: GoalPlace, goal: Goal, live: LiveGoals, pool: Pool, stretches: Sequence[Stretch]
    ) -> None:
        super().__init__(plan, at, goal, live, pool)
        self.stretches = stretches

    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> Revised:
        """See `Rerun`."""
        window = Window(self.stretches, frontier.watermark, frontier.until)
        begins = np.array([each.since for each in self.stretches])
        places = [np.searchsorted(begins, each[:, ROW + R_END], "left") - 1 for each in changes]
        whole = self._whole(changes)
        due = due_of(
            (
                (number, None if whole else change[place == number, KEY])
                for change, place in zip(changes, places, strict=True)
                for number in np.unique(place).tolist()
            ),
            self.numbers.count,
        )
        old, new = list[Table](), list[Table]()
        last: tuple[int, States] | None = None
        """The stretch that was run last, and the states that its keys had at its end before."""

        def run(number: int, keys: Bools | None, joining: Bools | None, before: States) -> States:
            nonlocal last
            was, after, until = copied(before), self.stretches[number].since, window.until(number)
            if last is not None and last[0] == number - 1:
                was = last[1]
                if keys is not None and joining is not None:
                    was = self.region.part(was, keys & ~joining)
                    was = self.region.joined(was, before, joining) if joining.any() else was
            every = np.arange(max(1, self.numbers.count)) if keys is None else np.flatnonzero(keys)
            ranges = every, np.full(len(every), after), np.full(len(every), until)
            taken = [each.ending(*ranges) for each in self.inputs]
            made, ended = self._run(was, taken, frontier.until(until))
            old.append(made)
            last = number, copied(ended)
            mine = [change[place == number] for change, place in zip(changes, places, strict=True)]
            made, ended = self._run(copied(before), self._put(mine, taken, ranges), frontier.until(until))
            new.append(made)
            return ended

        keys = self.region.run_again(due, window, self.live, run)
        return Revised(apart(concat(old), concat(new)), keys)

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`. The states of stretches are right, but for what lies beside them."""
        for each in self.stretches:
            self.region.settle(each.state)
        return ()


class BoundedRerun(Rerun):
    """Of a goal that remembers what has ended for so long at most: a key is run again from so long before a change
    until so long after it, from nothing. `base`: the state of the goal when the rows begin that are kept."""

    def __init__(self, plan: Plan, at: GoalPlace, goal: Goal, live: LiveGoals, pool: Pool, memory: int) -> None:
        super().__init__(plan, at, goal, live, pool)
        self.place, self.memory = at.place, memory
        self.nothing = {name: array.copy() for name, array in goal.as_arrays().items()}
        self.base: Arrays | None = None
        self.since = BEGINNING

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """See `Reviser`."""
        super().begin(state, frontier, length)
        self.base, self.since = {name: array.copy() for name, array in state.items()}, frontier.watermark

    def _again(self, changes: Sequence[Ints], frontier: Frontier) -> Revised:
        """See `Rerun`. Within the memory after a change all is known that has a part in what is given; later than that
        both runs give the same."""
        times = np.concatenate([change[:, ROW + R_END] for change in changes])
        keys = np.concatenate([change[:, KEY] for change in changes])
        whole = self._whole(changes)
        if whole:
            count = max(1, self.numbers.count)
            keys, times = np.tile(np.arange(count), len(times)), np.repeat(times, count)
        ranges = _merged(keys, times - self.memory - 1, np.minimum(times + self.memory, frontier.watermark))
        taken = [each.ending(*ranges) for each in self.inputs]
        before = self._before(*ranges[:2], whole)
        old, _ = self._run(copied(before), taken, frontier)
        new, now = self._run(before, self._put(changes, taken, ranges), frontier)
        recent = keys[times + self.memory >= frontier.watermark]
        if whole and len(recent):
            self.live[self.place][1].become_arrays(copied(now)[0])
        elif len(recent):
            mask = self._mask(recent)
            held = self.region.live(self.live).base
            self.region.become(self.live, held, mask, self.region.part(now, mask), (0,))
        return Revised(apart(old, new), len(np.unique(keys)))

    def _mask(self, keys: Ints) -> Bools:
        mask = np.zeros(self.numbers.count, np.bool_)
        mask[keys] = True
        return mask

    def _before(self, keys: Ints, after: Ints, whole: bool) -> States:
        """The state from which keys are run whose rows begin after these times; `whole`: all keys."""
        early = keys[after < self.since]
        if self.base is None or not len(early):
            return copied([self.nothing])
        return copied([self.base]) if whole else self.region.part([self.base], self._mask(early))

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        super().forget(until - self.memory)
        if self.base is not None and until - self.memory > self.since:
            self.base = None

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`."""
        return list(self._states_at(times))

    def _states_at(self, times: Sequence[int]) -> Iterator[Arrays]:
        every = np.arange(max(1, self.numbers.count))
        for time in times:
            after, until = np.full(len(every), time - self.memory - 1), np.full(len(every), time)
            taken = [each.ending(every, after, until) for each in self.inputs]
            _, (state,) = self._run(self._before(every, after, True), taken, Frontier.at(time))
            yield {name: array.copy() for name, array in state.items()}


def rerun_of(plan: Plan, at: GoalPlace, goal: Goal, live: LiveGoals, pool: Pool, stretches: Sequence[Stretch]) -> Rerun:
    """The region of a goal."""
    memory = plan.nodes[at.unit].memory(plan.types(at.unit))
    if memory is None:
        return RerunFromStretches(plan, at, goal, live, pool, stretches)
    return BoundedRerun(plan, at, goal, live, pool, memory)


def _merged(keys: Ints, after: Ints, until: Ints) -> tuple[Ints, Ints, Ints]:
    """Ranges of time by key, those of one key that meet made one. Of several keys those that begin later end later."""
    order = np.lexsort((after, keys))
    keys, after, until = keys[order], after[order], until[order]
    reached = np.maximum.accumulate(until) if keys[0] == keys[-1] else until
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]) | (after[1:] > reached[:-1])
    places = np.flatnonzero(first)
    return keys[places], after[places], np.maximum.reduceat(until, places)


def _keyed(plan: Plan, unit: int) -> tuple[tuple[KeySide, ...], tuple[KeySide, ...]]:
    """Where the rows that come to a goal have a key, and what it holds of them; by no key they belong to every key."""
    for stage in partition(plan):
        if stage.keyed and unit in needed(plan, stage):
            try:
                keyed = KeyedStage.of(plan, stage.number)
                return keyed.coming(unit), keyed.sides(unit)
            except CepError:
                pass
    every = (SHARED,) * len(plan.nodes[unit].parts)
    return every, every
