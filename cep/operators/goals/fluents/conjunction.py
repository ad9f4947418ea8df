"""Conjunctions of formulas: tuples of two that hold together, or of one while the other does not.

goal(P, Q):  of both what holds now, by the variables that they share; each change meets what holds on the other side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.kernels import njit
from cep.core.prefetch import prefetch
from cep.core.relation import FIRST, Table, empty
from cep.core.room import filled_room
from cep.core.stable_order import phased_order
from cep.core.time import Frontier
from cep.operators.goals.contract import (
    Arrays,
    Ints,
)
from cep.operators.goals.fluents.change_tables import PendingChanges, put_changes, waiting_table
from cep.operators.goals.fluents.conjunction_stretches import (
    AFTER,
    BEFORE,
    CELLS,
    HEAD,
    HOLDS,
    TAIL,
    TURN,
    ConjunctionSpec,
    ConjunctionStretches,
)
from cep.operators.goals.intrinsics import inside
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

AHEAD = 16
"""Changes: so far ahead what is known of a tuple is asked for."""


@inside
def link(state, chains, p, key, turn):  # type: ignore[no-untyped-def]
    """A tuple holds from now on, the last under its key (-1: under none)."""
    state[p, HOLDS], state[p, AFTER], state[p, BEFORE], state[p, TURN] = 1, -1, -1, turn
    if key < 0:
        return
    last = chains[key, TAIL]
    state[p, BEFORE] = last
    if last >= 0:
        state[last, AFTER] = p
    else:
        chains[key, HEAD] = p
    chains[key, TAIL] = p


@inside
def unlink(state, chains, p, key):  # type: ignore[no-untyped-def]
    """It holds no more."""
    state[p, HOLDS] = 0
    if key < 0:
        return
    before, after = state[p, BEFORE], state[p, AFTER]
    if before >= 0:
        state[before, AFTER] = after
    else:
        chains[key, HEAD] = after
    if after >= 0:
        state[after, BEFORE] = before
    else:
        chains[key, TAIL] = before


@inside
def _turned(state, chains, p, key, begun, turn):  # type: ignore[no-untyped-def]
    """A tuple begins or ends to hold. Gives whether it changes anything, 2 where it is the only one under its key."""
    if begun == state[p, HOLDS]:
        return 0
    alone = key < 0
    if begun:
        alone = alone or chains[key, HEAD] < 0
        link(state, chains, p, key, turn)
    else:
        unlink(state, chains, p, key)
        alone = alone or chains[key, HEAD] < 0
    return 2 if alone else 1


@njit()
def _linked(state, chains, keys):  # type: ignore[no-untyped-def]
    """All tuples hold, in this order; their cells and those of their keys are there."""
    for p in range(len(keys)):
        link(state, chains, p, keys[p], p)


@njit()
def _meet(  # type: ignore[no-untyped-def]
    order, count, begins, tuples, keys, negated, turn, left, right, left_chains, right_chains, pairs
):
    """Changes of both sides (the first `count` are the left's) in order. Gives what they make: rows (change, tuple of
    the left, of the right, whether it begins), which grow as they must, and how many. State and chains have room for
    all tuples and keys."""
    made = 0
    for at in range(len(order)):
        if at + AHEAD < len(order):
            i = order[at + AHEAD]
            prefetch(left_chains, keys[i])
            prefetch(right_chains, keys[i])
            if i < count:
                prefetch(left, tuples[i])
            else:
                prefetch(right, tuples[i])
        i = order[at]
        p, key, begun = tuples[i], keys[i], begins[i]
        mine = i < count
        if mine:
            turned = _turned(left, left_chains, p, key, begun, turn + at)
            q = right_chains[key, HEAD] if key >= 0 else -1
        else:
            turned = _turned(right, right_chains, p, key, begun, turn + at)
            q = left_chains[key, HEAD] if key >= 0 else -1
        if turned == 0:
            continue
        if negated and mine:
            if q < 0:
                if made == pairs.shape[0]:
                    pairs = grow(pairs, made + 1)
                pairs[made, 0], pairs[made, 1], pairs[made, 2], pairs[made, 3] = i, p, -1, begun
                made += 1
            continue
        if negated and turned == 1:
            continue
        while q >= 0:
            if made == pairs.shape[0]:
                pairs = grow(pairs, made + 1)
            pairs[made, 0], pairs[made, 3] = i, 1 - begun if negated else begun
            pairs[made, 1], pairs[made, 2] = (p, q) if mine else (q, p)
            made += 1
            q = right[q, AFTER] if mine else left[q, AFTER]
    return pairs, made


@njit()
def _put_pairs(table, pairs, known, columns, place, first):  # type: ignore[no-untyped-def]
    """Into the rows from `first` on of a table of pairs the columns of the tuples that stand at `place` in them."""
    for row in range(len(columns)):
        for i in range(len(pairs)):
            table[first + row, i] = known[pairs[i, place], columns[row]]


class ConjunctionGoal(NumberedState, ConjunctionStretches):
    """The goal of one Conjunction node."""

    def __init__(self, spec: ConjunctionSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.sides = (spec.left, spec.right)
        self.columns = [np.array(side.columns, np.int64) for side in self.sides]
        self.key = [np.array(side.key, np.int64) for side in self.sides]
        places = [[side.columns.index(each) for each in side.take] for side in self.sides]
        self.given_columns = [np.array(each, np.int64) for each in places]
        self.waiting = PendingChanges([s.width for s in self.sides], [s.kind for s in self.sides], spec.lates)
        self._clear()

    def _clear(self) -> None:
        self.keys = Keys(len(self.spec.left.key))
        self.tuples = [Keys(len(columns)) for columns in self.columns]
        self.state = [np.zeros((0, CELLS), np.int64) for _ in range(2)]
        self.chains = [np.full((0, 2), -1, np.int64) for _ in range(2)]
        self.turn = 0
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        taken = self.waiting.take(inputs, frontier)
        spec = self.spec
        changes: list[tuple[Ints, ...]] = []
        for side, (table, code, begins) in enumerate(taken):
            if len(code):
                keys = self.keys.slots(table, self.key[side])
                tuples = self.tuples[side].slots(table, self.columns[side], True, True)
                changes.append((code, begins, 1 - begins if spec.negated and side else begins, tuples, keys))
        width = len(spec.left.take) + len(spec.right.take) + 1
        if not changes:
            return empty(width)
        self._reserve()
        code, begins, phases, tuples, keys = changes[0] if len(changes) == 1 else map(np.concatenate, zip(*changes))
        order = phased_order(code, phases)
        pairs, made = _meet(
            order, len(taken[0][1]), begins, tuples, keys, spec.negated, self.turn, *self.state, *self.chains,
            np.empty((len(order), 4), np.int64),
        )  # fmt: skip
        self.turn += len(order)
        if not made:
            return empty(width)
        pairs = pairs[:made]
        table = np.empty((FIRST + width, made), np.int64)
        left, right = self.tuples
        _put_pairs(table, pairs, left.table, self.given_columns[0], 1, FIRST)
        _put_pairs(table, pairs, right.table, self.given_columns[1], 2, FIRST + len(spec.left.take))
        put_changes(table, FIRST + width - 1, code[pairs[:, 0]], pairs[:, 3])
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def _reserve(self) -> None:
        for side in range(2):
            self.state[side] = filled_room(self.state[side], self.tuples[side].count, 0)
            self.chains[side] = filled_room(self.chains[side], self.keys.count, -1)

    def due(self) -> int | None:
        return self.waiting.due()

    def pending(self) -> int:
        """Each change that waits may meet all that holds on the other side."""
        return self.waiting.count * (1 + max(keys.count for keys in self.tuples))

    def _numbers(self) -> int:
        return max(self.keys.count, *(keys.count for keys in self.tuples))

    # --- state ---

    def _state(self) -> Arrays:
        """What holds, in the order in which it began."""
        found: Arrays = {}
        for side, (name, waiting) in enumerate(zip(("left", "right"), self.waiting.state())):
            held = np.flatnonzero(self.state[side][: self.tuples[side].count, HOLDS])
            held = held[np.argsort(self.state[side][held, TURN], kind="stable")]
            found[name] = self.tuples[side].known[held]
            found[f"{name}_waiting"] = waiting
        return found

    def _tables(self) -> dict[str, StateTable]:
        tables = {}
        for number, (name, side) in enumerate(zip(("left", "right"), self.sides)):
            codes = tuple(side.columns.index(column) for column in side.codes)
            tables[name] = StateTable(
                distinct=True, width=side.width - 1, keyed=tuples_of(name, side.columns, number), codes=codes
            )
            waiting = f"{name}_waiting"
            tables[waiting] = waiting_table(waiting, side.width, side.kind, side.codes, number)
        return tables

    def _become(self, state: Arrays) -> None:
        self._clear()
        for side, name in enumerate(("left", "right")):
            known = state[name]
            self.tuples[side].become(known.copy(), len(known))
            table = np.zeros((FIRST + self.sides[side].width, len(known)), np.int64)
            table[FIRST + self.columns[side]] = known.T
            keys = self.keys.slots(table, self.key[side])
            self._reserve()
            _linked(self.state[side], self.chains[side], keys)
            self.turn = max(self.turn, len(known))
        self._reserve()
        self.waiting.become([state["left_waiting"], state["right_waiting"]])

    def codes(self) -> list[Ints]:
        found = [self.keys.known.reshape(-1)]
        for side, spec in enumerate(self.sides):
            for column in spec.codes:
                found += [
                    self.tuples[side].known[:, spec.columns.index(column)],
                    self.waiting.tables[side][FIRST + column],
                ]
        return found

    @property
    def size(self) -> tuple[int, int]:
        held = sum(int(self.state[side][: self.tuples[side].count, HOLDS].sum()) for side in range(2))
        arrays = sum(each.nbytes for each in (*self.state, *self.chains))
        return held + self.waiting.count, int(arrays + self.keys.nbytes + sum(keys.nbytes for keys in self.tuples))
