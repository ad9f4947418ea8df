"""One stage of a program, to be run again for the keys that a change has: from their state at a time that was kept.

What states hold of keys is taken out of what was kept, and put back, without a look at that of other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, KeyedRows, StateKeys
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.plan.staged import needed, staged
from cep.runtime.keyed_stage import KeyedStage, KeySide
from cep.runtime.machine import Machine
from cep.runtime.revision.kept_state import KeptState, Overlay, States, copied
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.knowledge_replay import Step
from cep.runtime.revision.row_window import RowWindow

SMALL = 2_000_000
"""Of so many bytes what is kept is changed where it is, not overlaid."""

Tables = dict[str, Table]


class StageReplay:
    """`goals`: where the goals of the stage are among those of the whole program; `alone`: whether no other stage has
    any of them; `gives`: what of its outputs others see. Keys are given as masks over their numbers, None for all."""

    def __init__(
        self,
        whole: Machine,
        plan: Plan,
        stage: Stage,
        build: Callable[[Plan], Machine],
        pool: Pool,
        seen: Iterable[str],
    ) -> None:
        self.stage, self.plan = stage, plan
        self.gives = tuple(event for event in stage.outputs if event in seen)
        self.machine = build(staged(plan, stage.number) if stage.number else plan)
        self.machine.given = self.gives
        places = {unit: place for place, (unit, _) in enumerate(whole.goals())}
        inner = self.machine.plan
        origin = range(len(plan.nodes)) if inner.origin is None or not stage.number else inner.origin
        units: list[PlanUnit] = [u if isinstance(u, str) else origin[u] for u, _ in self.machine.goals()]
        self.goals = [places[unit] for unit in units]
        theirs = {each for other in partition(plan) if other.number != stage.number for each in needed(plan, other)}
        self.alone = theirs.isdisjoint(needed(plan, stage)) if stage.number else True
        self.numbers = KeyNumbers(pool)
        self.sides: list[tuple[KeySide, ...]] = []
        self.inputs: dict[str, KeySide | None] = {}
        self.outputs: dict[str, KeySide] = {}
        self.keyed = stage.keyed
        if stage.keyed:
            try:
                found = KeyedStage(plan, stage.number)
                chained = set(self.machine.compiled)
                self.sides = [
                    found.sides(unit) if not isinstance(unit, str) or unit in chained else () for unit in units
                ]
                self.inputs = {event: found.taken(event) for event in stage.inputs}
                self.outputs = {event: found.given(event) for event in self.gives if event not in stage.merged}
            except CepError:  # something in it is held of no key
                self.keyed = False

    # --- rows ---

    def keys_of(self, event: str, table: Table) -> Ints:
        """The numbers of the keys of rows of an input that goes by key."""
        side = self.inputs[event]
        assert side is not None and side.columns is not None, "it goes by key"
        return self.numbers.entered(side.types, _columns(table, side.columns))

    def taken(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """The rows of an input that keys have, sorted by arrival; none where rows go by no key."""
        side = None if keys is None else self.inputs[event]
        if keys is not None and side is None:
            return empty(window.arguments)
        return self._of(window, side, keys)

    def given(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """The rows that the stage has given for keys."""
        return self._of(window, None if keys is None else self.outputs[event], keys)

    def _of(self, window: RowWindow, side: KeySide | None, keys: Bools | None) -> Table:
        found = window.runs
        if side is not None and side.columns is not None:
            assert keys is not None, "all rows are of all keys"
            test, columns = self.numbers.test(side.types, keys), side.columns
            found = [run[:, np.flatnonzero(test(_columns(run, columns)))] for run in found]
        found = [run for run in found if rows(run)]
        return by_arrival(contiguous(np.concatenate([empty(window.arguments), *found], axis=1)))

    # --- states ---

    def state(self, at: KeptState, keys: Bools | None) -> States:
        """What the goals of the stage hold of keys, as arrays of their own."""
        over = at.overlays.get(self.stage.number)
        base = [at.base[place] for place in self.goals]
        if keys is None:
            return copied(base if over is None else self._merged(base, over))
        if over is None:
            return self._part(base, keys)
        if over.keys is None:
            return self._part(over.states, keys)
        mask = _sized(over.keys, len(keys))
        inside, outside = keys & mask, keys & ~mask
        if not outside.any():
            return self._part(over.states, keys)
        if not inside.any():
            return self._part(base, keys)
        return self._together(self._part(base, outside), self._others(over.states, ~inside))

    def put(self, at: KeptState, keys: Bools | None, states: States) -> None:
        """From now on that is what the goals hold of keys."""
        over = at.overlays.get(self.stage.number)
        if keys is not None and over is None and self.alone and _few(at.base[place] for place in self.goals):
            base = self._together(self._others([at.base[place] for place in self.goals], keys), states)
            for place, state in zip(self.goals, base, strict=True):
                at.base[place] = state
        elif keys is None:
            at.overlays[self.stage.number] = Overlay(None, copied(states))
        elif over is None:
            at.overlays[self.stage.number] = Overlay(keys.copy(), copied(states))
        else:
            over.states = self._together(self._others(over.states, keys), states)
            if over.keys is not None:
                over.keys = _sized(over.keys, len(keys)) | keys

    def settle(self, at: KeptState) -> None:
        """Put what was made of the goals of the stage in the place of what they had."""
        if (over := at.overlays.pop(self.stage.number, None)) is not None:
            base = [at.base[place] for place in self.goals]
            for place, state in zip(self.goals, self._merged(base, over), strict=True):
                at.base[place] = state

    def become(self, live: Sequence[tuple[PlanUnit, Goal]], held: States, keys: Bools | None, states: States) -> None:
        """The goals of the whole program, which have `held` these states, hold that of keys now."""
        chosen = self._chosen(keys) if keys is not None else []
        for number, (place, state) in enumerate(zip(self.goals, states, strict=True)):
            if keys is None:
                live[place][1].become_arrays(state)
            elif self.sides[number]:
                goal = live[place][1]
                goal.become_arrays(goal.together(goal.others(held[place], chosen[number]), state))

    def differing(self, was: States, now: States, keys: Bools) -> Bools:
        """Of which of the keys two states of them are not the same."""
        found = np.zeros(len(keys), np.bool_)
        for (_, goal), chosen, one, other in zip(self.machine.goals(), self._chosen(keys), was, now, strict=True):
            if not chosen.columns or same(one, other):
                continue
            both = goal.rows_by_key(one, chosen), goal.rows_by_key(other, chosen)
            if both[0] is None or both[1] is None:
                return keys
            for mine, theirs in zip(*cast("tuple[list[KeyedRows], list[KeyedRows]]", both), strict=True):
                if _shared(mine, theirs):
                    return keys
                found |= _differing(mine, theirs, len(keys))
        return found & keys

    def part(self, states: States, keys: Bools) -> States:
        """Of states those of keys."""
        return self._part(states, keys)

    def _part(self, states: States, keys: Bools) -> States:
        return [
            goal.part(state, chosen) if chosen.columns else state
            for (_, goal), chosen, state in zip(self.machine.goals(), self._chosen(keys), states, strict=True)
        ]

    def _others(self, states: States, keys: Bools) -> States:
        return [
            goal.others(state, chosen) if chosen.columns else state
            for (_, goal), chosen, state in zip(self.machine.goals(), self._chosen(keys), states, strict=True)
        ]

    def _together(self, some: States, others: States) -> States:
        return [
            goal.together(one, other) if sides else one
            for (_, goal), sides, one, other in zip(self.machine.goals(), self.sides, some, others, strict=True)
        ]

    def _merged(self, base: States, over: Overlay) -> States:
        return over.states if over.keys is None else self._together(self._others(base, over.keys), over.states)

    def _chosen(self, keys: Bools) -> list[StateKeys]:
        tests = {types: self.numbers.test(types, keys) for types in {each.types for s in self.sides for each in s}}
        return [
            StateKeys(
                tuple(side.columns for side in sides),
                tuple(tests[side.types] for side in sides),
                tuple(_numbered(self.numbers, side.types) for side in sides),
            )
            for sides in self.sides
        ]

    # --- running ---

    def run(
        self, states: States, inputs: Tables, frontier: Frontier, step: Step
    ) -> tuple[dict[str, list[Table]], States]:
        """What the stage gives of inputs up to a frontier, and what its goals hold then; they take these states on."""
        for (_, goal), state in zip(self.machine.goals(), states, strict=True):
            goal.become_arrays(state)
        inputs = {event: table for event, table in sorted(inputs.items()) if rows(table)}
        return step(self.machine, inputs, frontier), self.machine.states()


def _few(states: Iterable[Arrays]) -> bool:
    """Whether states are so small that to look through them is nothing."""
    return sum(int(array.nbytes) for state in states for array in state.values()) < SMALL


def same(one: Arrays, other: Arrays) -> bool:
    """Whether two states are the same, row by row."""
    return all(np.array_equal(array, other[name]) for name, array in one.items())


def _columns(table: Table, columns: Sequence[int]) -> Ints:
    """The arguments of these numbers, a row an occurrence."""
    return table[[FIRST + column for column in columns]].T if len(columns) > 1 else table[FIRST + columns[0]][:, None]


def _numbered(numbers: KeyNumbers, types: tuple[str, ...]) -> Callable[[Ints], Ints]:
    return lambda table: numbers.found(types, table)


def _sized(keys: Bools, count: int) -> Bools:
    """A mask over so many keys."""
    return keys if len(keys) >= count else np.concatenate([keys, np.zeros(count - len(keys), np.bool_)])


def _shared(one: KeyedRows, other: KeyedRows) -> bool:
    """Whether two states have other rows that belong to every key."""
    mine, theirs = one[1][one[0] < 0], other[1][other[0] < 0]
    return not np.array_equal(mine, theirs)


def _differing(one: KeyedRows, other: KeyedRows, count: int) -> Bools:
    """The keys whose rows are not the same, in the same order."""
    sides = []
    for numbers, table in (one, other):
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 0) :]
        sides.append((numbers[order], table[order]))
    (mine, left), (theirs, right) = sides
    counts = np.bincount(mine, minlength=count), np.bincount(theirs, minlength=count)
    found: Bools = counts[0] != counts[1]
    left, right, mine = left[~found[mine]], right[~found[theirs]], mine[~found[mine]]
    found[mine[(left != right).any(axis=1)]] = True
    return found
