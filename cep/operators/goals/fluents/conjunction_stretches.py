"""Conjunctions of formulas in a recursion: the pairs of intervals of a stretch that is found in rounds.

open, shrink, grow:  what of each side may go on no more, and intervals that are new -> what follows of them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.fluents import BEGINS
from cep.core.interval_sets import Intervals, coalesce, subtract
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, START, Table, concat, empty, rows
from cep.operators.goals.contract import Ints
from cep.operators.goals.fluents.stretches import Rows
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.keys import Keys, grow

# of each tuple of a side: whether it holds, its neighbours under its key, when it began among all
HOLDS, AFTER, BEFORE, TURN = range(4)
CELLS = 4
# of each key: the first and the last tuple that holds
HEAD, TAIL = range(2)


@njit()
def _lose(  # type: ignore[no-untyped-def]
    count, tuples, keys, negated, left, right, left_chains, right_chains, left_gone, right_gone, pairs
):
    """Tuples (the first `count` are the left's; -1: none) go on no more. Gives the pairs that go with them, each once:
    rows (tuple of the left, of the right), which grow as they must, and how many. What is gone has a cell a tuple."""
    made = 0
    for i in range(len(tuples)):
        p, key = tuples[i], keys[i]
        own, gone, other, others_gone, facing = right, right_gone, left, left_gone, left_chains
        if i < count:
            own, gone, other, others_gone, facing = left, left_gone, right, right_gone, right_chains
        if p < 0 or not own[p, HOLDS] or gone[p]:
            continue
        gone[p] = 1
        if negated:
            if key < 0 or facing[key, HEAD] < 0:
                if made == pairs.shape[0]:
                    pairs = grow(pairs, made + 1)
                pairs[made, 0], pairs[made, 1] = p, -1
                made += 1
            continue
        if key < 0:
            continue
        q = facing[key, HEAD]
        while q >= 0:
            if not others_gone[q]:
                if made == pairs.shape[0]:
                    pairs = grow(pairs, made + 1)
                pairs[made, 0], pairs[made, 1] = (p, q) if i < count else (q, p)
                made += 1
            q = other[q, AFTER]
    return pairs, made


@njit()
def _facing(keys, chains, state, gone, pairs):  # type: ignore[no-untyped-def]
    """Of each key the tuples of a side that go on: rows (row, tuple), which grow as they must, and how many."""
    made = 0
    for i in range(len(keys)):
        if keys[i] < 0:
            continue
        q = chains[keys[i], HEAD]
        while q >= 0:
            if not gone[q]:
                if made == pairs.shape[0]:
                    pairs = grow(pairs, made + 1)
                pairs[made, 0], pairs[made, 1] = i, q
                made += 1
            q = state[q, AFTER]
    return pairs, made


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: how many columns it has, which says what a change is, which are the key (of one representation
    with the other's), which hold pool codes; `take`: which go on."""

    width: int
    kind: int
    key: tuple[int, ...]
    codes: tuple[int, ...]
    take: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """Those that make a tuple."""
        return tuple(column for column in range(self.width) if column != self.kind)


@dataclass(frozen=True, slots=True)
class ConjunctionSpec:
    """`negated`: tuples of the left while none of the right with their key holds."""

    left: Side
    right: Side
    negated: bool
    lates: tuple[int, int]


class ConjunctionStretches(InRounds):
    """What a conjunction does in a stretch, beside its state: of each side the `tuples` that hold, in `chains` by
    `keys`."""

    spec: ConjunctionSpec
    sides: tuple[Side, Side]
    columns: list[Ints]
    key: list[Ints]
    keys: Keys
    tuples: list[Keys]
    state: list[Ints]
    chains: list[Ints]
    _reserve: Callable[[], None]

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.stretch, self.goes_on = (first, last), goes_on
        if goes_on:
            self._reserve()
            self.gone = [np.zeros(len(state), np.uint8) for state in self.state]
        self.met_by = Keys(len(self.spec.left.key))
        self.met = [Rows(side.width) for side in self.sides]

    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Nothing changes of what is negated."""
        tuples = [self.tuples[n].slots(inputs[n], self.columns[n], False, True) for n in range(2)]
        keys = [self.keys.slots(inputs[n], self.key[n], False) for n in range(2)]
        pairs, made = _lose(
            rows(inputs[0]), np.concatenate(tuples), np.concatenate(keys), self.spec.negated, *self.state, *self.chains,
            *self.gone, np.empty((rows(inputs[0]) + rows(inputs[1]), 2), np.int64),
        )  # fmt: skip
        places = np.arange(made)
        start, end = (np.full(made, code) for code in self.stretch)
        right = empty(self.sides[1].width) if self.spec.negated else self._known(1, pairs[:made, 1])
        return self._pairs(self._known(0, pairs[:made, 0]), places, right, places[: rows(right)], start, end)

    def _known(self, side: int, tuples: Ints) -> Table:
        """Tuples of a side as rows that hold throughout the stretch."""
        made = np.zeros((FIRST + self.sides[side].width, len(tuples)), np.int64)
        made[START], made[END] = self.stretch[0], self.stretch[1]
        made[FIRST + self.columns[side]] = self.tuples[side].known[tuples].T
        return made

    def _on(self, side: int, table: Table) -> tuple[Ints, Table]:
        """Rows of one side by the tuples of the other, `side`, that go on: which rows, and these."""
        keys = self.keys.slots(table, self.key[1 - side], False)
        pairs, made = _facing(
            keys, self.chains[side], self.state[side], self.gone[side], np.empty((max(1, len(keys)), 2), np.int64)
        )
        return pairs[:made, 0], self._known(side, pairs[:made, 1])

    def grow(self, inputs: Sequence[Table]) -> Table:
        """What is negated is there whole, when the stretch begins, or does not change in it: it lies on no cycle."""
        left, right = (np.ascontiguousarray(table) for table in inputs)
        if self.spec.negated and self.goes_on:
            facing = self.keys.slots(left, self.key[0], False)
            met = facing >= 0
            met[met] = self.chains[1][facing[met], HEAD] >= 0
            rest = np.flatnonzero(~met)
            return self._pairs(left, rest, right[:, :0], rest[:0], left[START, rest], left[END, rest])
        mine, theirs = self.met[0], self.met[1]
        left_keys = self.met_by.slots(left, self.key[0])
        right_keys = self.met_by.slots(right, self.key[1])
        if self.spec.negated:
            theirs.add(right, right_keys, self.met_by.count)
            rows_of, others = theirs.met(left, left_keys)
            alone = Intervals(np.arange(rows(left)), left[START].copy(), left[END].copy())
            away = coalesce(rows_of, theirs.table[START, others], theirs.table[END, others])
            kept = subtract(alone, away)
            return self._pairs(left, kept.key, right[:, :0], kept.key[:0], kept.start, kept.end)
        news = [theirs.met(left, left_keys)]
        mine.add(left, left_keys, self.met_by.count)
        theirs_new, mine_old = mine.met(right, right_keys)
        found = []
        for lefts, left_rows, rights, right_rows in (
            (left, news[0][0], theirs.table, news[0][1]),
            (mine.table, mine_old, right, theirs_new),
        ):
            start = np.maximum(lefts[START, left_rows], rights[START, right_rows])
            end = np.minimum(lefts[END, left_rows], rights[END, right_rows])
            found.append(self._pairs(lefts, left_rows, rights, right_rows, start, end))
        theirs.add(right, right_keys, self.met_by.count)
        if self.goes_on:
            mine_rows, others = self._on(1, left)
            found.append(
                self._pairs(left, mine_rows, others, np.arange(rows(others)), *left[[START, END]][:, mine_rows])
            )
            their_rows, others = self._on(0, right)
            found.append(
                self._pairs(others, np.arange(rows(others)), right, their_rows, *right[[START, END]][:, their_rows])
            )
        return concat(found)

    def _pairs(self, left: Table, left_rows: Ints, right: Table, right_rows: Ints, start: Ints, end: Ints) -> Table:
        made = np.zeros((FIRST + len(self.spec.left.take) + len(self.spec.right.take) + 1, len(start)), np.int64)
        made[START], made[END] = start, end
        place = FIRST
        for table, chosen, side in ((left, left_rows, self.spec.left), (right, right_rows, self.spec.right)):
            for column in side.take:
                made[place] = table[FIRST + column, chosen]
                place += 1
        made[place] = BEGINS
        return made
