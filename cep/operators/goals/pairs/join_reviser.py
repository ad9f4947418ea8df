"""How a join revises whose two sides end together: what it gives at an instant follows from what comes at it.

Of each key at whose instant something changes all pairs are made again, of what was there and of what is there now.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core import intervals
from cep.core.intervals import RIGHT_INSTANT
from cep.core.relation import Table, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.keyed_rows import COMES, GOES, KEY, KeyedRows, as_rows, as_table, changes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.pairs.join_spec import JoinSpec
from cep.operators.goals.reviser import Changed, Reviser, apart, instants


class InstantJoinReviser:
    """Of one Join node; the goal itself keeps nothing from one instant to the next."""

    remembers = True

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.known = Keys(len(spec.left_key))
        self.columns = np.array(spec.left_key, np.int64), np.array(spec.right_key, np.int64)
        self.sides = KeyedRows(3 + spec.left_width), KeyedRows(3 + spec.right_width)
        self.width = len(spec.take_left) + len(spec.take_right)

    def begin(self, state: Arrays, frontier: Frontier) -> None:
        """What waits has waited for what is there by now."""
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        for side, table in enumerate(inputs):
            self.sides[side].change(self._changes(side, [(table, COMES)]))

    def revise(self, inputs: Sequence[Changed], goal: Goal, frontier: Frontier) -> Changed:
        """See `Reviser`."""
        if not any(inputs):
            return Changed(empty(self.width), empty(self.width))
        changes = [self._changes(side, [(each.going, GOES), (each.coming, COMES)]) for side, each in enumerate(inputs)]
        words = np.concatenate([each[:, : KEY + 3] for each in changes])
        keys, ends = instants(words[np.lexsort((words[:, 2], words[:, KEY]))])
        was = self._joined(keys, ends)
        for side, each in enumerate(changes):
            self.sides[side].change(each)
        return apart(was, self._joined(keys, ends), len(np.unique(keys)))

    def _changes(self, side: int, parts: Sequence[tuple[Table, int]]) -> Ints:
        made = [(self.known.slots(table, self.columns[side]), as_rows(table), sign) for table, sign in parts]
        for each in self.sides:
            each.know(self.known.count)
        return changes_of(made)

    def _joined(self, keys: Ints, ends: Ints) -> Table:
        """The pairs of these keys at these ends."""
        found = [as_table(side.at(keys, ends)[0]) for side in self.sides]
        if not all(map(rows, found)):
            return empty(self.width)
        return JoinGoal(self.spec).step(found, Frontier.at(int(ends.max())))

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        for side in self.sides:
            side.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """See `Reviser`."""
        return ()

    @property
    def keys(self) -> int:
        """See `Reviser`."""
        return self.known.count

    @property
    def nbytes(self) -> int:
        """See `Reviser`."""
        return sum(side.nbytes for side in self.sides) + self.known.nbytes


def join_reviser(goal: JoinGoal) -> Reviser | None:
    """Of all pairs whose sides end together."""
    spec = goal.spec
    relation = intervals.relation_named(spec.relation, spec.gap)
    together = relation.ends_together() or (spec.point and relation.ends_together(RIGHT_INSTANT))
    plain = spec.policy == "unrestricted" and not spec.absent and goal.lineage is None and not goal.feeds
    return InstantJoinReviser(spec) if together and plain else None
