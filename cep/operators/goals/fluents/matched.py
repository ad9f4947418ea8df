"""Conjunctions in which a tuple of one side meets one of the other at most: all its columns are shared.

goal(P, Q):  of each tuple which of the two hold; a change of one is one of both, or of one without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cep.core.hashtable import MISSING, NAN
from cep.core.prefetch import prefetch
from cep.core.relation import FIRST, Table, empty
from cep.core.room import filled_room
from cep.core.time import Frontier
from cep.operators.goals.coded_columns import codes_of, others
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.converted_keys import RecursiveWithConvertedKeys
from cep.operators.goals.fluents.change_tables import put_changes
from cep.operators.goals.fluents.changes import in_order
from cep.operators.goals.fluents.conjunction import ConjunctionGoal
from cep.operators.goals.fluents.conjunction_stretches import ConjunctionSpec, Side
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.keys import Keys

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.conjunction import Conjunction

LEFT, RIGHT, ALONE = 1, 2, 4
"""Of a tuple: the left holds, the right does; a value is missing in it, so that it meets none."""
AHEAD = 16
"""Changes: so far ahead what is known of a tuple is asked for."""


def matches(spec: ConjunctionSpec) -> bool:
    """Whether all columns of the tuples of either side are shared."""
    return all(sorted(side.key) == list(side.columns) for side in (spec.left, spec.right))


@bare
def _matched(  # type: ignore[no-untyped-def]
    left, left_code, left_begins, right, right_code, right_begins, negated, flags, made
):
    """Changes of both sides, each sorted: of one code the left's ends and then what begins there; where it is negated,
    of the right's first what begins. Gives rows (tuple, code, whether it begins), one a change at most, for which there
    is room, and how many. `flags` are there for all tuples."""
    n, m = len(left), len(right)
    i = j = count = 0
    while i < n or j < m:
        first = j == m
        if i < n and not first:
            phase, other = left_begins[i], right_begins[j] ^ (1 if negated else 0)
            first = left_code[i] < right_code[j] or (left_code[i] == right_code[j] and phase <= other)
        if first:
            if i + AHEAD < n:
                prefetch(flags, left[i + AHEAD])
            key, code, begins, bit = left[i], left_code[i], left_begins[i], LEFT
            i += 1
        else:
            if j + AHEAD < m:
                prefetch(flags, right[j + AHEAD])
            key, code, begins, bit = right[j], right_code[j], right_begins[j], RIGHT
            j += 1
        known = flags[key, 0]
        if (1 if known & bit else 0) == begins:
            continue
        flags[key, 0] = known ^ bit
        met = known & (LEFT + RIGHT - bit) if not known & ALONE else 0
        given = 1 if met else 0
        if negated and bit == LEFT:
            given = 1 - given
        made[0, count], made[1, count] = key, code
        made[2, count] = 1 - begins if negated and bit == RIGHT else begins
        count += given
    return count


class MatchedConjunctionGoal(ConjunctionGoal):
    """The goal of a Conjunction node whose sides share all their columns."""

    def _clear(self) -> None:
        self.keys = Keys(len(self.spec.left.key))
        self.flags: Ints = np.zeros((0, 1), np.int64)
        self.waiting.clear()
        places = [[side.key.index(column) for column in side.take] for side in self.sides]
        self.shown = [place for each in places for place in each]

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        changes: list[Ints] = []
        for side, (table, code, begins) in enumerate(self.waiting.take(inputs, frontier)):
            keys = self._slots(table, side)
            changes += in_order(keys, code, begins, 1 if self.spec.negated and side else 0)
        made = np.empty((3, len(changes[0]) + len(changes[3])), np.int64)
        count = _matched(*changes, self.spec.negated, self.flags, made)
        if not count:
            return empty(len(self.shown) + 1)
        table = np.empty((FIRST + len(self.shown) + 1, count), np.int64)
        for row, place in enumerate(self.shown):
            table[FIRST + row] = self.keys.known[made[0, :count], place]
        put_changes(table, FIRST + len(self.shown), made[1, :count], made[2, :count])
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def _slots(self, table: Table, side: int) -> Ints:
        """The numbers of tuples, of which flags are there from now on."""
        before = self.keys.count
        slots = self.keys.slots(table, self.key[side], True, True)
        if self.keys.count > before:
            self.flags = filled_room(self.flags, self.keys.count, 0)
            known = self.keys.known[before:]
            alone = ((known == MISSING) | (known == NAN)).any(axis=1)
            self.flags[before : self.keys.count, 0] = np.where(alone, ALONE, 0)
        return slots

    def pending(self) -> int:
        return self.waiting.count

    def _numbers(self) -> int:
        return self.keys.count

    def _held(self, side: int) -> Ints:
        return np.flatnonzero(self.flags[: self.keys.count, 0] & (LEFT, RIGHT)[side])

    def _state(self) -> Arrays:
        found: Arrays = {}
        for side, (name, waiting) in enumerate(zip(("left", "right"), self.waiting.state())):
            own = self.sides[side]
            found[name] = self.keys.known[self._held(side)][:, [own.key.index(column) for column in own.columns]]
            found[f"{name}_waiting"] = waiting
        return found

    def _become(self, state: Arrays) -> None:
        self._clear()
        for side, name in enumerate(("left", "right")):
            known = state[name]
            table = np.zeros((FIRST + self.sides[side].width, len(known)), np.int64)
            table[FIRST + self.columns[side]] = known.T
            slots = self._slots(table, side)
            self.flags[slots, 0] |= (LEFT, RIGHT)[side]
        self.waiting.become([state["left_waiting"], state["right_waiting"]])

    def codes(self) -> list[Ints]:
        waiting = [self.waiting.tables[side][FIRST + c] for side, spec in enumerate(self.sides) for c in spec.codes]
        return [*waiting, self.keys.known.reshape(-1)]

    @property
    def size(self) -> tuple[int, int]:
        held = sum(len(self._held(side)) for side in range(2))
        return held + self.waiting.count, int(self.flags.nbytes + self.keys.nbytes)


def conjunction_of(node: Conjunction, builder: GoalBuilder, number: int) -> Goal:
    """The goal of a node. On a cycle it is the general one, which can follow what holds no more."""
    left, right = builder.types(node.left), builder.types(node.right)
    mine, theirs = builder.keys(node.key, left, right)
    left_key, left_added = builder.widened_key(mine, left)
    right_key, right_added = builder.widened_key(theirs, right)
    sides = []
    for types, kind, key, pairs, take in (
        (left, node.left_kind, left_key, mine, tuple(c for c in range(len(left)) if c != node.left_kind)),
        (right, node.right_kind, right_key, theirs, node.take),
    ):
        wide = [*types, *others(pairs, types)]
        sides.append(Side(len(wide), kind, key, codes_of(wide), take))
    spec = ConjunctionSpec(sides[0], sides[1], node.negated, node.lates)
    alone = matches(spec) and number not in builder.on_cycles
    goal = (MatchedConjunctionGoal if alone else ConjunctionGoal)(spec, builder.lineage)
    added = (left_added, right_added)
    return RecursiveWithConvertedKeys(goal, added, (left, right)) if any(added) else goal
