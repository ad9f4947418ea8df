"""One stage of a program, to be run again for the keys that a change has: from their state at a time that was kept.

What states hold of keys is taken out of what was kept, and put back, without a look at that of other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

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
Goals = tuple[int, ...]
"""The numbers of goals among those of a stage that keep something."""


class StageReplay:
    """`own`: the goals of the stage that keep something; `goals`: where these are among those of the whole program, in
    the same order, as are the states of a stage; `alone`: whether no other stage has any of its goals; `gives`: what of
    its outputs others see. Keys are given as masks over their numbers, None for all."""

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
        kept = [number for number, (_, goal) in enumerate(self.machine.goals()) if goal.as_arrays()]
        self.own: list[Goal] = [self.machine.goals()[number][1] for number in kept]
        units = [units[number] for number in kept]
        self.goals = [places[unit] for unit in units]
        theirs = {each for other in partition(plan) if other.number != stage.number for each in needed(plan, other)}
        self.alone = theirs.isdisjoint(needed(plan, stage)) if stage.number else True
        self.numbers = KeyNumbers(pool)
        self._selected: list[_Selected] = []
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
            test, columns = self._of_keys(keys).test(side.types), side.columns
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

    def put(self, at: KeptState, keys: Bools | None, states: States, goals: Goals) -> None:
        """From now on that is what the goals hold of keys; it is what they held but for these `goals`."""
        over = at.overlays.get(self.stage.number)
        if keys is not None and over is None and self.alone and _few(at.base[place] for place in self.goals):
            chosen = self._of_keys(keys).chosen
            for number in goals:
                goal, place = self.own[number], self.goals[number]
                at.base[place] = goal.together(goal.others(at.base[place], chosen[number]), states[number])
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

    def live(self, goals: Sequence[tuple[PlanUnit, Goal]]) -> KeptState:
        """What those of the stage among the goals of the whole program hold, which these may change later."""
        own = set(self.goals)
        return KeptState([goal.as_arrays() if place in own else {} for place, (_, goal) in enumerate(goals)])

    def become(
        self, live: Sequence[tuple[PlanUnit, Goal]], held: States, keys: Bools | None, states: States, goals: Goals
    ) -> None:
        """The goals of the whole program, which have `held` these states, hold that of keys now; it is what they held
        but for these `goals`."""
        for number in range(len(states)) if keys is None else goals:
            place, state = self.goals[number], states[number]
            goal = live[place][1]
            if keys is not None:
                state = goal.together(goal.others(held[place], self._of_keys(keys).chosen[number]), state)
            goal.become_arrays(state)

    def differing(self, was: States, now: States, keys: Bools) -> tuple[Bools, tuple[int, ...]]:
        """Of which of the keys two states of them are not the same; and of which goals, by number."""
        found, goals, every = np.zeros(len(keys), np.bool_), list[int](), False
        for number, (goal, chosen) in enumerate(zip(self.own, self._of_keys(keys).chosen, strict=True)):
            one, other = was[number], now[number]
            if not chosen.columns or same(one, other):
                continue
            mine, theirs = goal.rows_by_key(one, chosen), goal.rows_by_key(other, chosen)
            if mine is None or theirs is None:
                every = True
                goals.append(number)
                continue
            differs, shared = np.zeros(len(keys), np.bool_), False
            for each, its in zip(mine, theirs, strict=True):
                shared |= _shared(each, its)
                differs |= _differing(each, its, len(keys))
            every |= shared
            if shared or differs.any():
                goals.append(number)
                found |= differs
        return keys if every else found & keys, tuple(goals)

    def part(self, states: States, keys: Bools) -> States:
        """Of states those of keys."""
        return self._part(states, keys)

    def joined(self, states: States, more: States, keys: Bools) -> States:
        """States, and of more states that have no key in common with them those of keys."""
        return self._together(states, self._others(more, ~keys))

    def _part(self, states: States, keys: Bools) -> States:
        return [
            goal.part(state, chosen) if chosen.columns else state
            for goal, chosen, state in zip(self.own, self._of_keys(keys).chosen, states, strict=True)
        ]

    def _others(self, states: States, keys: Bools) -> States:
        return [
            goal.others(state, chosen) if chosen.columns else state
            for goal, chosen, state in zip(self.own, self._of_keys(keys).chosen, states, strict=True)
        ]

    def _together(self, some: States, others: States) -> States:
        return [
            goal.together(one, other) if sides else one
            for goal, sides, one, other in zip(self.own, self.sides, some, others, strict=True)
        ]

    def _merged(self, base: States, over: Overlay) -> States:
        return over.states if over.keys is None else self._together(self._others(base, over.keys), over.states)

    def _of_keys(self, keys: Bools) -> _Selected:
        """The keys as goals see them: the same as before where they were asked for just now. Masks are not written."""
        for each in self._selected:
            if each.keys is keys and each.known == self.numbers.count:
                return each
        self._selected = [_Selected(self.numbers, keys, self.sides), *self._selected[:1]]
        return self._selected[0]

    # --- running ---

    def run(
        self, states: States, inputs: Tables, frontier: Frontier, step: Step
    ) -> tuple[dict[str, list[Table]], States]:
        """What the stage gives of inputs up to a frontier, and what its goals hold then; they take these states on."""
        for goal, state in zip(self.own, states, strict=True):
            goal.become_arrays(state)
        self.machine.touched()
        inputs = {event: table for event, table in sorted(inputs.items()) if rows(table)}
        return step(self.machine, inputs, frontier), [goal.needed_arrays(frontier) for goal in self.own]


def _few(states: Iterable[Arrays]) -> bool:
    """Whether states are so small that to look through them is nothing."""
    return sum(int(array.nbytes) for state in states for array in state.values()) < SMALL


def same(one: Arrays, other: Arrays) -> bool:
    """Whether two states are the same, row by row."""
    return all(np.array_equal(array, other[name]) for name, array in one.items())


def _columns(table: Table, columns: Sequence[int]) -> Ints:
    """The arguments of these numbers, a row an occurrence."""
    return table[[FIRST + column for column in columns]].T if len(columns) > 1 else table[FIRST + columns[0]][:, None]


class _Selected:
    """Keys, given as a mask over their numbers, of which so many were known, as goals and windows see them."""

    def __init__(self, numbers: KeyNumbers, keys: Bools, sides: Sequence[Sequence[KeySide]]) -> None:
        self.numbers, self.keys, self.sides, self.known = numbers, keys, sides, numbers.count
        self._tests: dict[tuple[str, ...], Callable[[Ints], Bools]] = {}

    def test(self, types: tuple[str, ...]) -> Callable[[Ints], Bools]:
        """Which rows of columns of these types have one of them."""
        if types not in self._tests:
            self._tests[types] = self.numbers.test(types, self.keys)
        return self._tests[types]

    @cached_property
    def chosen(self) -> list[StateKeys]:
        """The keys for each goal."""
        return [
            StateKeys(
                tuple(side.columns for side in sides),
                tuple(self.test(side.types) for side in sides),
                tuple(partial(self.numbers.found, side.types) for side in sides),
            )
            for sides in self.sides
        ]


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
