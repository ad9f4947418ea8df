"""A region: goals that share a key and run together, to be run again by key from the last kept state before a change.

A key is run again from the beginning of the first stretch in which it has a change, a stretch at a time, until its
state at the end of one is the state that was kept. What states hold of some keys is taken out of what was kept and put
back without a look at that of other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from cep.core.relation import END, Table, contiguous
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints, KeyedRows, StateKeys
from cep.plan.order import PlanUnit
from cep.runtime.keyed_stage import KeySide
from cep.runtime.revision.kept_state import KeptState, Overlay, States, copied
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.stretch import Stretch

SMALL = 2_000_000
"""Of so many bytes what is kept is changed where it is, not overlaid."""

Goals = tuple[int, ...]
"""The numbers of goals among those of a region that keep something."""

LiveGoals = Sequence[tuple[PlanUnit, Goal]]
"""The goals of the whole program, as they are now."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretches of a window, in which time has come to a watermark; `frontier`: that of a time in it."""

    stretches: Sequence[Stretch]
    watermark: int
    frontier: Callable[[int], Frontier]

    def until(self, number: int) -> int:
        """The watermark at the end of a stretch."""
        last = number + 1 == len(self.stretches)
        return self.watermark if last else self.stretches[number + 1].since

    def place(self, end: int) -> int:
        """The number of the stretch in which what ends then is."""
        return max(0, int(np.searchsorted([each.since for each in self.stretches], end, "left")) - 1)

    def places(self, table: Table) -> dict[int, Table]:
        """The rows of a table by the number of the stretch in which they end."""
        begins = np.array([each.since for each in self.stretches])
        numbers = np.searchsorted(begins, table[END], "left") - 1
        return {number: contiguous(table[:, numbers == number]) for number in np.unique(numbers).tolist()}


Due = dict[int, Bools | None]
"""The keys that have changes in each stretch, by its number."""


def due_of(changed: Iterable[tuple[int, Ints | None]], count: int) -> Due:
    """The stretches that have changes, each with the numbers of their keys among so many; None: of all keys."""
    found: Due = {}
    for number, keys in changed:
        mask = found.setdefault(number, np.zeros(count, np.bool_))
        if keys is None:
            found[number] = None
        elif mask is not None:
            mask[keys] = True
    return found


RunStretch = Callable[[int, Bools | None, Bools | None, States], States]
"""Run a stretch again, by its number, for keys, of which some have joined in it (None: all), from their states at its
beginning; returns those at its end."""


class Region:
    """`own`: the goals that keep something; `places`: where these are among those of the whole program, in the same
    order, as are the states; `sides`: where each has the key; `alone`: whether no other region has any of its goals.
    Keys are given as masks over their numbers, None for all."""

    def __init__(
        self,
        number: int,
        own: Sequence[Goal],
        places: Sequence[int],
        sides: Sequence[tuple[KeySide, ...]],
        numbers: KeyNumbers,
        alone: bool,
    ) -> None:
        self.number, self.own, self.places, self.sides = number, own, places, sides
        self.numbers, self.alone = numbers, alone
        self._selected: list[_Selected] = []

    def run_again(self, due: Due, window: Window, live: LiveGoals, run: RunStretch, to_the_end: bool = False) -> int:
        """Run keys again from where they have changes until their states are those that were kept; returns how many
        keys these were, all as one. `to_the_end`: what comes later may differ as well."""
        stretches = window.stretches
        active: Bools | None = np.zeros(self.numbers.count, np.bool_)
        ever = np.zeros(self.numbers.count, np.bool_)
        carried: States | None = None
        """The states of the active keys at the beginning of the stretch, where a stretch has just ended with them."""
        for number in range(min(due), len(stretches)):
            joining: Bools | None = None
            if number in due:
                more = due[number]
                joining = None if more is None or active is None else more & ~active
                active = None if more is None or active is None else active | more
            elif active is not None:
                joining = np.zeros_like(active)
            if active is not None:
                if not active.any():
                    continue
                ever |= active
            if carried is None or active is None:
                before = self.state(stretches[number].state, active)
            elif joining is None or not joining.any():
                before = carried
            else:
                before = self.joined(carried, self.state(stretches[number].state, joining), joining)
            now = run(number, active, joining, before)
            last = number + 1 == len(stretches)
            after = self.live(live) if last else stretches[number + 1].state
            was = self.state(after, active)
            carried = None
            goals: Goals = ()
            if active is None:
                if not to_the_end and all(same(one, other) for one, other in zip(was, now, strict=True)):
                    active = np.zeros(self.numbers.count, np.bool_)
                    continue
            else:
                active, goals = self.differing(was, now, active)
                if not active.any():
                    continue
                now = carried = self.part(now, active)
            if last:
                self.become(live, after.base, active, now if active is not None else copied(now), goals)
            else:
                self.put(after, active, now, goals)
        return 1 if any(keys is None for keys in due.values()) else int(ever.sum())

    # --- states ---

    def state(self, at: KeptState, keys: Bools | None) -> States:
        """What the goals hold of keys, as arrays of their own."""
        over = at.overlays.get(self.number)
        base = [at.base[place] for place in self.places]
        if keys is None:
            return copied(base if over is None else self._merged(base, over))
        if over is None:
            return self._part(base, keys)
        if over.keys is None:
            return self._part(over.states, keys)
        mask = sized(over.keys, len(keys))
        inside, outside = keys & mask, keys & ~mask
        if not outside.any():
            return self._part(over.states, keys)
        if not inside.any():
            return self._part(base, keys)
        return self._together(self._part(base, outside), self._others(over.states, ~inside))

    def put(self, at: KeptState, keys: Bools | None, states: States, goals: Goals) -> None:
        """From now on that is what the goals hold of keys; it is what they held but for these `goals`."""
        over = at.overlays.get(self.number)
        if keys is not None and over is None and self.alone and _few(at.base[place] for place in self.places):
            chosen = self._of_keys(keys).chosen
            for number in goals:
                goal, place = self.own[number], self.places[number]
                at.base[place] = goal.together(goal.others(at.base[place], chosen[number]), states[number])
        elif keys is None:
            at.overlays[self.number] = Overlay(None, copied(states))
        elif over is None:
            at.overlays[self.number] = Overlay(keys.copy(), copied(states))
        else:
            over.states = self._together(self._others(over.states, keys), states)
            if over.keys is not None:
                over.keys = sized(over.keys, len(keys)) | keys

    def settle(self, at: KeptState) -> None:
        """Put what was made of the goals of the region in the place of what they had."""
        if (over := at.overlays.pop(self.number, None)) is not None:
            base = [at.base[place] for place in self.places]
            for place, state in zip(self.places, self._merged(base, over), strict=True):
                at.base[place] = state

    def live(self, goals: LiveGoals) -> KeptState:
        """What those of the region among the goals of the whole program hold, which these may change later."""
        own = set(self.places)
        return KeptState([goal.as_arrays() if place in own else {} for place, (_, goal) in enumerate(goals)])

    def become(self, live: LiveGoals, held: States, keys: Bools | None, states: States, goals: Goals) -> None:
        """The goals of the whole program, which have `held` these states, hold that of keys now; it is what they held
        but for these `goals`."""
        for number in range(len(states)) if keys is None else goals:
            place, state = self.places[number], states[number]
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


def _few(states: Iterable[Arrays]) -> bool:
    """Whether states are so small that to look through them is nothing."""
    return sum(int(array.nbytes) for state in states for array in state.values()) < SMALL


def same(one: Arrays, other: Arrays) -> bool:
    """Whether two states are the same, row by row."""
    return all(np.array_equal(array, other[name]) for name, array in one.items())


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


def sized(keys: Bools, count: int) -> Bools:
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
