"""The choice of a reviser for a join, and a reviser for joins whose two sides end together. In such a join, the pairs
at an instant depend only on that instant.

If rows of a key change at an instant, this reviser computes all pairs of this key and instant twice: from the rows
before the change, and from the rows after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core import interval_relations
from cep.core.interval_relations import RIGHT_INSTANT
from cep.core.relation import Table, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.keyed_rows import KeyedRows, as_table, words_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.pairs.chronological_reviser import ChronologicalReviser
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.join_spec import JoinSpec
from cep.operators.goals.reviser import PairReviser, Revised, Reviser, apart, instants


class InstantJoinReviser(PairReviser):
    """The reviser of a join that keeps no rows from one instant to the next."""

    remembers = True

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.known = Keys(len(spec.left_key))
        self.columns = np.array(spec.left_key, np.int64), np.array(spec.right_key, np.int64)
        self.words = words_of(spec.left_width), words_of(spec.right_width)
        self.sides = KeyedRows(3 + spec.left_width), KeyedRows(3 + spec.right_width)
        self.width = len(spec.take_left) + len(spec.take_right)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Start with an empty state, because no row waits for a later instant."""
        for side in self.sides:
            side.length = length
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        for side, changes in zip(self.sides, self.changes(inputs)):
            side.change(changes)

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        if not any(map(rows, inputs)):
            return Revised(empty(self.width))
        changes = self.changes(inputs)
        keys, ends = instants(*changes)
        earlier = ends <= since  # later rows are new
        again = keys[earlier]
        was = self._joined(again, ends[earlier])
        for side, side_changes in zip(self.sides, changes):
            side.change(side_changes)
        return Revised(apart(was, self._joined(keys, ends)), int(np.count_nonzero(np.diff(again, prepend=-1))))

    def _joined(self, keys: Ints, ends: Ints) -> Table:
        if not len(keys):
            return empty(self.width)
        tables = [as_table(side.at(keys, ends)[0]) for side in self.sides]
        if not all(map(rows, tables)):
            return empty(self.width)
        return JoinGoal(self.spec).step(tables, Frontier.at(int(ends.max())))


def join_reviser(goal: JoinGoal) -> Reviser | None:
    spec = goal.spec
    relation = interval_relations.relation_named(spec.relation, spec.gap)
    together = relation.ends_together() or (spec.point and relation.ends_together(RIGHT_INSTANT))
    if spec.absent or goal.lineage is not None or goal.feeds:
        return None
    if spec.policy == "unrestricted" and together:
        return InstantJoinReviser(spec)
    if spec.policy == "chronological" and spec.within is not None and not goal.keep_right and not goal.external:
        return ChronologicalReviser(goal, spec.within)
    return None
