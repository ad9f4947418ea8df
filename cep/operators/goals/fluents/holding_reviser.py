"""How a condition on a fluent revises: of each key the occurrences in the window, and when its tuples begin and end.

Where what begins and ends changes, the occurrences of its key after it are looked at again: what held at them then and
now, by two sweeps over the beginnings and ends side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.fluents import BEGINS, ENDS
from cep.core.relation import END, FIRST, ORDER, START, Table, concat, empty, rows
from cep.core.room import filled_room
from cep.core.time import Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.fluents.holding import HOLDS, HoldingGoal
from cep.operators.goals.fluents.holding_sweep import (
    E_BEGINS,
    E_END,
    E_TUPLE,
    count_held,
    edges_of,
    sweep,
    told,
    told_rows,
    without_ended,
)
from cep.operators.goals.keyed_changes import ROW, changes_of, in_turn, words_of
from cep.operators.goals.keyed_rows import KeyedRows, demand_there
from cep.operators.goals.keys import Keys
from cep.operators.goals.reviser import Revised, Reviser, apart


class Edges(KeyedRows):
    """Edges of fluents, with each how many tuples of its key hold after it: of what holds when they are forgotten the
    beginning stays."""

    def __init__(self) -> None:
        super().__init__(3, 1, bag=False)
        self.tuples = 0

    def change(self, changes: Ints) -> None:
        super().change(changes)
        count_held(self.rows, self.spans, changes)

    def forget(self, keys: Ints) -> None:
        without_ended(self.rows, self.spans, keys, self.floor, np.empty(self.tuples, np.int64))


class HoldingReviser:
    """Of one Holding node."""

    remembers = True

    def __init__(self, goal: HoldingGoal) -> None:
        self.spec = spec = goal.spec
        self.own = HoldingGoal(spec)
        self.keys_known, self.tuples = Keys(len(spec.right_key)), self.own.tuples
        self.left, self.edges = KeyedRows(3 + spec.left_width), Edges()
        self.places = np.zeros((0, 4), np.int64)
        self.words = words_of(spec.left_width)
        self.taken = np.array([int(np.flatnonzero(self.own.columns == each)[0]) for each in spec.take], np.int64)
        self.wholly = not spec.negated and len(spec.take) + len(spec.right_key) < len(goal.columns)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """See `Reviser`."""
        self.left.length = self.edges.length = length
        right = np.zeros((FIRST + self.spec.right_width, len(state["tuples"])), np.int64)
        right[START] = right[END] = frontier.watermark
        right[FIRST + self.own.columns] = state["tuples"].T
        right[FIRST + self.own.right_key] = state["keys"].T
        right[FIRST + self.spec.kind] = BEGINS
        self.came((empty(self.spec.left_width), right))
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        self.edges.change(self._edge_changes(inputs[1]))
        self.left.change(self._left_changes(inputs[0]))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`."""
        left, right = inputs
        spec = self.spec
        if not rows(left) and not rows(right):
            return Revised(empty(spec.left_width + len(spec.take)))
        alone = self._without_key(left)
        edges, lefts = self._edge_changes(right), self._left_changes(left)
        self.edges.make_room(edges)
        self.left.make_room(lefts)
        lists = np.zeros((3, 1 + self.tuples.count), np.int64)
        self.places = filled_room(self.places, self.tuples.count, 0)
        found, counted, was, old, now, new, ends, keys, wrong = sweep(
            edges, self.edges.rows, self.edges.spans, lefts, self.left.rows, self.left.spans, since, spec.negated,
            self.wholly, lists, self.places, np.empty((len(lefts), self.left.rows.shape[1] + 1), np.int64),
            np.empty((len(lefts), 2), np.int64), np.empty((len(lefts), 2), np.int64),
            ended := np.empty(len(edges), np.int64),
        )  # fmt: skip
        demand_there(wrong)
        self._put_right(cast(HoldingGoal, goal), ended[:ends])
        changes = self._told(found[:counted], was[:old], now[:new])
        return Revised(concat([changes, alone]) if rows(alone) else changes, int(keys))

    def _told(self, found: Ints, was: Ints, now: Ints) -> Table:
        """What pairs of occurrences and tuples come to that were, and that are."""
        if self.wholly:
            met, times = found[:, :-2], found[:, -2:].T
            return apart(self._paired(met, times[0], was), self._paired(met, times[1], now))
        width = self.spec.left_width + len(self.taken)
        made = np.empty((FIRST + width, told_rows(found, was, now)), np.int64)
        told(found, was, now, self.tuples.table, self.taken, made)
        return made

    def _paired(self, found: Ints, times: Ints, pairs: Ints) -> Table:
        """What pairs of occurrences and tuples come to; each occurrence is there so many times."""
        if (times > 1).any():  # each of these has a number of its own
            beyond = np.cumsum(times)
            found, several = np.repeat(found, times, axis=0), times[pairs[:, 0]]
            of_pair = np.arange(int(several.sum())) - np.repeat(np.cumsum(several) - several, several)
            pairs = np.repeat(pairs, several, axis=0)
            pairs[:, 0] = (beyond - times)[pairs[:, 0]] + of_pair
        table = np.zeros((FIRST + self.spec.left_width, len(found)), np.int64)
        table[END], table[START], table[ORDER] = found[:, 0], found[:, 1], found[:, 2]
        table[FIRST:] = found[:, 3:].T
        named = np.zeros((len(pairs), 3), np.int64)
        named[:, :2] = pairs
        return self.own._paired(table, named)

    def _without_key(self, left: Table) -> Table:
        """Occurrences without a key, which meet nothing."""
        if not self.spec.negated or not rows(left):
            return left[:, :0]
        found: Table = take(left, np.flatnonzero(self.keys_known.slots(left, self.own.left_key) < 0))
        return found

    def _left_changes(self, table: Table) -> Ints:
        slots = self.keys_known.slots(table, self.own.left_key)
        self._know()
        return changes_of(table, slots, self.words, self.keys_known.count)

    def _edge_changes(self, table: Table) -> Ints:
        tuples = self.tuples.slots(table, self.own.columns, True, True)
        slots = self.keys_known.slots(table, self.own.right_key)
        self._know()
        made = np.empty((rows(table), ROW + 3), np.int64)
        count = edges_of(table, FIRST + self.spec.kind, slots, tuples, made)
        return in_turn(made[:count], self.keys_known.count)

    def _know(self) -> None:
        self.edges.know(self.keys_known.count)
        self.left.know(self.keys_known.count)
        self.edges.tuples = self.tuples.count

    def _put_right(self, goal: HoldingGoal, ended: Ints) -> None:
        """What has changed of what holds begins or ends to hold in the goal, too."""
        if not len(ended):
            return
        right = np.zeros((FIRST + self.spec.right_width, len(ended)), np.int64)
        right[FIRST + self.own.columns] = self.tuples.known[ended].T
        held = goal.tuples.slots(right, self.own.columns, False, True)
        holds = np.zeros(len(ended), np.bool_)
        holds[held >= 0] = goal.state[held[held >= 0], HOLDS] == 1
        right[FIRST + self.spec.kind] = np.where(holds, ENDS, BEGINS)
        goal.step((empty(self.spec.left_width), right), Frontier.at(0))

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        self.left.floor = self.edges.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`."""
        found, keys = self.edges.every()
        return [self._state_at(time, found, keys) for time in times]

    def _state_at(self, time: int, found: Ints, keys: Ints) -> Arrays:
        there = found[:, E_END] <= time
        found, keys = found[there], keys[there]
        holds = np.full(self.tuples.count, -1)
        holds[found[:, E_TUPLE]] = np.where(found[:, E_BEGINS] == 1, np.arange(len(found)), -1)
        kept = np.sort(holds[holds >= 0])
        known = self.keys_known.known[keys[kept]]
        return {
            "tuples": self.tuples.known[found[kept, E_TUPLE]],
            "keys": known,
            "names": np.zeros((len(kept), 1), np.int64),
        }

    @property
    def keys(self) -> int:
        """See `Reviser`."""
        return max(self.keys_known.count, self.tuples.count)

    @property
    def nbytes(self) -> int:
        """See `Reviser`."""
        known = self.keys_known.nbytes + self.tuples.nbytes + self.places.nbytes
        return self.left.nbytes + self.edges.nbytes + known


def holding_reviser(goal: HoldingGoal) -> Reviser | None:
    """Not with lineage."""
    return HoldingReviser(goal) if goal.lineage is None else None
