"""Tuples that are counted, in a recursion: which hold in a stretch that is found in rounds, and what holds from some
time on alone.

open, shrink, grow, settled:  what of the input may go on no more, and intervals that are new -> what they come to
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.interval_sets import Intervals
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, START, Table
from cep.operators.goals.contract import Ints
from cep.operators.goals.fluents.change_tables import put_changes
from cep.operators.goals.fluents.stretches import GrowingIntervals, changes_against, clipped, held_in, table_of
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.keys import Keys

# of each tuple: how many things support it, and since which code
COUNT, SINCE = range(2)


@njit()
def counted(slots, code, begins, state):  # type: ignore[no-untyped-def]
    """Changes in order, at one code those that begin first. Gives which rows change whether their tuple holds, as many
    at most, and since when it holds or held. `state` has room for all slots."""
    turns, since = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        before = state[slot, COUNT]
        if begins[i]:
            state[slot, COUNT] = before + 1
            if before > 0:
                continue
            state[slot, SINCE] = code[i]
        elif before > 0:
            state[slot, COUNT] = before - 1
            if before > 1:
                continue
        else:
            continue
        turns[count], since[count] = i, state[slot, SINCE]
        count += 1
    return turns[:count], since[:count]


@dataclass(frozen=True, slots=True)
class SupportsSpec:
    """Of an input of so many columns (`width`) those at `take` make a tuple, `codes` of them hold pool codes; `kind`
    says what a change is, None: rows are occurrences, those no longer than `within`. `late`: how late the input is
    given. `wanted`: of a fluent's extent, which kinds of rows anything reads. `delay`: how
    much later all is known. `closed`: which kind of change becomes which, of which the code is one less or more: what
    begins just after an instant begins at it, or what ends before one ends after it."""

    width: int
    take: tuple[int, ...]
    codes: tuple[int, ...]
    kind: int | None
    within: int | None
    late: int
    wanted: Ints | None = None
    delay: int = 0
    closed: tuple[int, int] | None = None


class SupportsStretches(InRounds):
    """What counted tuples do in a stretch, beside their state: a row of `state` for each of `tuples`."""

    spec: SupportsSpec
    columns: Ints
    tuples: Keys
    state: Ints
    _taken: Ints
    _early: Ints | None

    @abstractmethod
    def _read_in(self, table: Table) -> Table:
        """The input as changes of the tuples."""

    def bound(self, first: int) -> None:
        """See `InRounds`."""
        if first != self.holds_from:
            self.holds_from, self._early = first, None

    def _from_first(self, slots: Ints, code: Ints, begins: Ints, known: int) -> tuple[Ints, Ints, Ints]:
        """Changes where nothing holds before a code: what is so at that code begins there."""
        before = code < self.holds_from
        if before.any():
            counted(slots[before], code[before], begins[before], self.state)
            slots, code, begins = slots[~before], code[~before], begins[~before]
            self._early = None
        if known < self.holds_from or not len(held := self._held_early()):
            return slots, code, begins
        # all that supports them begins there, and counts anew
        counts = self.state[held, COUNT]
        self.state[held, COUNT] = 0
        self._early = held[:0]
        return (
            np.concatenate([np.repeat(held, counts), slots]),
            np.concatenate([np.full(int(counts.sum()), self.holds_from), code]),
            np.concatenate([np.ones(int(counts.sum()), np.int64), begins]),
        )

    def _held_early(self) -> Ints:
        """What holds when nothing does yet."""
        if self._early is None:
            state = self.state[: self.tuples.count]
            self._early = np.flatnonzero((state[:, COUNT] > 0) & (state[:, SINCE] < self.holds_from))
        return self._early

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.lost = np.zeros(self.tuples.count, np.int32) if goes_on else None
        self.shrunk: list[Ints] = []
        self.stretch = (max(first, self.holds_from), last)
        self.grown, self.numbers = GrowingIntervals(), Keys(len(self.spec.take))

    def shrink(self, inputs: Sequence[Table]) -> Table:
        """A tuple that loses a support may not go on, whatever else there is: that may be by itself."""
        assert self.lost is not None, "what holds goes on"
        slots = self.tuples.slots(inputs[0], self._taken, False, True)
        slots = slots[slots >= 0]
        fresh = np.unique(slots)
        fresh = fresh[(self.lost[fresh] == 0) & (self.state[fresh, COUNT] > 0)]
        np.add.at(self.lost, slots, 1)
        self.shrunk.append(fresh)
        return self._through(fresh)

    def remaining(self) -> Table:
        """What other things support that go on."""
        assert self.lost is not None, "what holds goes on"
        slots = np.concatenate([*self.shrunk, np.empty(0, np.int64)])
        made = self._through(slots[self.state[slots, COUNT] > self.lost[slots]])
        if self.spec.wanted is None:
            return made
        key = self.numbers.slots(made, self.columns, True, True)
        return table_of(self.grown.added(key, made[START], made[END]), self.numbers.known)

    def _through(self, slots: Ints) -> Table:
        """Tuples that hold throughout the stretch."""
        start, end = (np.full(len(slots), code) for code in self.stretch)
        return table_of(Intervals(slots, start, end), self.tuples.known)

    def _new(self, table: Table) -> Table:
        """Without what goes on anyway."""
        if self.lost is None or not len(self.lost):
            return table
        slots = self.tuples.slots(table, self.columns, False, True)
        known = np.flatnonzero((slots >= 0) & (slots < len(self.lost)))
        goes_on = (self.state[slots[known], COUNT] > 0) & (self.lost[slots[known]] == 0)
        return np.delete(table, known[goes_on], axis=1) if goes_on.any() else table

    def grow(self, inputs: Sequence[Table]) -> Table:
        table = self._new(clipped(self._read_in(inputs[0]), *self.stretch))
        if self.stretch[0] > self.stretch[1]:
            table = table[:, :0]
        if self.spec.wanted is None:
            return table
        key = self.numbers.slots(table, self.columns, True, True)
        return table_of(self.grown.added(key, table[START], table[END]), self.numbers.known)

    def settled(self) -> Table:
        """What all that has grown comes to, as the changes of a fluent."""
        if self.lost is None:
            held = self._held()
        else:
            held = self.tuples.known[np.concatenate([*self.shrunk, np.empty(0, np.int64)])]
        before = np.zeros((FIRST + held.shape[1], len(held)), np.int64)
        before[FIRST:] = held.T
        keys = self.numbers.slots(before, self.columns, True, True)
        changes = changes_against(self.grown.all(), keys, *self.stretch)
        made = np.empty((FIRST + len(self.spec.take) + 1, len(changes.key)), np.int64)
        made[FIRST:-1] = self.numbers.known[changes.key].T
        put_changes(made, FIRST + len(self.spec.take), changes.code, changes.begins, self.spec.delay)
        return made

    def held(self, changes: Table, first: int, last: int) -> Table:
        """See `InRounds`."""
        return held_in(changes, self._held(), first, last)

    def _held(self) -> Ints:
        state = self.state[: self.tuples.count]
        return self.tuples.known[(state[:, COUNT] > 0) & (state[:, SINCE] >= self.holds_from)]
