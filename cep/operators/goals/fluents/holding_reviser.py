"""How a condition on a fluent revises: of each key the occurrences in the window, and when its tuples begin and end.

Where what begins and ends changes, the occurrences of its key after it are looked at again: what held at them then and
now, by two sweeps over the beginnings and ends side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.fluents import BEGINS, ENDS
from cep.core.relation import END, FIRST, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.room import filled_room
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.fluents.holding import HOLDS, HoldingGoal
from cep.operators.goals.fluents.holding_sweep import E_BEGINS, E_END, E_TUPLE, count_held, sweep, without_ended
from cep.operators.goals.keyed_rows import COMES, GOES, KEY, KeyedRows, as_rows, changes_of, demand_there
from cep.operators.goals.keys import Keys
from cep.operators.goals.reviser import Changed, Reviser, apart


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
        self.wholly = not spec.negated and len(spec.take) + len(spec.right_key) < len(goal.columns)

    def begin(self, state: Arrays, frontier: Frontier) -> None:
        """See `Reviser`."""
        right = np.zeros((FIRST + self.spec.right_width, len(state["tuples"])), np.int64)
        right[START] = right[END] = frontier.watermark
        right[FIRST + self.own.columns] = state["tuples"].T
        right[FIRST + self.own.right_key] = state["keys"].T
        right[FIRST + self.spec.kind] = BEGINS
        self.came((empty(self.spec.left_width), right))
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        self.edges.change(self._edge_changes([(inputs[1], COMES)]))
        self.left.change(self._left_changes([(inputs[0], COMES)]))

    def revise(self, inputs: Sequence[Changed], goal: Goal, frontier: Frontier) -> Changed:
        """See `Reviser`."""
        left, right = inputs
        spec = self.spec
        nothing = empty(spec.left_width + len(spec.take))
        if not left and not right:
            return Changed(nothing, nothing)
        alone = self._without_key(left)
        edges = self._edge_changes([(right.going, GOES), (right.coming, COMES)])
        lefts = self._left_changes([(left.going, GOES), (left.coming, COMES)])
        keys = len(np.unique(np.concatenate([edges[:, KEY], lefts[:, KEY]])))
        self.edges.make_room(edges)
        self.left.make_room(lefts)
        lists = np.zeros((3, 1 + self.tuples.count), np.int64)
        self.places = filled_room(self.places, self.tuples.count, 0)
        found, counted, was, old, now, new, ends, wrong = sweep(
            edges, self.edges.rows, self.edges.spans, lefts, self.left.rows, self.left.spans, spec.negated,
            self.wholly, lists, self.places, np.empty((len(lefts), self.left.rows.shape[1] + 1), np.int64),
            np.empty((len(lefts), 2), np.int64), np.empty((len(lefts), 2), np.int64),
            ended := np.empty(len(edges), np.int64),
        )  # fmt: skip
        demand_there(wrong)
        self._put_right(cast(HoldingGoal, goal), ended[:ends])
        met, times = found[:counted, :-2], found[:counted, -2:].T
        going, coming = (self._paired(met, *each) for each in ((times[0], was[:old]), (times[1], now[:new])))
        changed = apart(going, coming, keys)
        if alone:
            going, coming = (concat([one, other]) for one, other in zip(
                (changed.going, changed.coming), (alone.going, alone.coming)))  # fmt: skip
            changed = Changed(by_arrival(going), by_arrival(coming), changed.keys)
        return changed

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
        return by_arrival(self.own._paired(table, named))

    def _without_key(self, left: Changed) -> Changed:
        """Occurrences without a key, which meet nothing."""

        def alone(table: Table) -> Table:
            if not self.spec.negated or not rows(table):
                return table[:, :0]
            found: Table = take(contiguous(table), np.flatnonzero(self.keys_known.slots(table, self.own.left_key) < 0))
            return found

        return Changed(alone(left.going), alone(left.coming))

    def _left_changes(self, parts: Sequence[tuple[Table, int]]) -> Ints:
        made = []
        for table, sign in parts:
            made.append((self.keys_known.slots(table, self.own.left_key), as_rows(table), sign))
        self._know()
        return changes_of(made)

    def _edge_changes(self, parts: Sequence[tuple[Table, int]]) -> Ints:
        made = []
        for table, sign in parts:
            kinds = table[FIRST + self.spec.kind]
            table = contiguous(table[:, (kinds == BEGINS) | (kinds == ENDS)])
            columns = np.empty((3, rows(table)), np.int64)
            columns[E_END], columns[E_BEGINS] = table[END], table[FIRST + self.spec.kind] == BEGINS
            columns[E_TUPLE] = self.tuples.slots(table, self.own.columns, True, True)
            made.append((self.keys_known.slots(table, self.own.right_key), columns, sign))
        self._know()
        return changes_of(made)

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
