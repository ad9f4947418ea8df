"""A wrapper for goals whose key columns must be converted. It appends the converted columns to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.relation import Table, bits, rows
from cep.core.time import Frontier
from cep.operators.goals.checkpoint import Checkpoint
from cep.operators.goals.contract import Goal, KeepsWaiting
from cep.operators.goals.heads import columns_of
from cep.operators.goals.in_rounds import InRounds
from cep.rules.expressions.evaluate import Evaluation


class WithConvertedKeys:
    """A wrapper that appends converted key columns to the inputs of `goal`.

    `drop`: the number of columns that the wrapper removes from the end of the output.
    """

    def __init__(self, goal: Goal, added: Sequence[Sequence[Evaluation]], types: Sequence[Sequence[str]]) -> None:
        self.goal = goal
        self.added = added
        self.types = types
        self.drop, self.in_time = 0, goal.in_time
        self.due, self.pending, self.begin, self.evict = goal.due, goal.pending, goal.begin, goal.evict
        self.snapshot, self.restore = goal.snapshot, goal.restore
        self.extract, self.replace, self.recoded = goal.extract, goal.replace, goal.recoded
        self.as_arrays, self.become_arrays, self.needed_arrays = (
            goal.as_arrays,
            goal.become_arrays,
            goal.needed_arrays,
        )
        self.part, self.others, self.together = goal.part, goal.others, goal.together
        self.rows_by_key = goal.rows_by_key
        self.codes, self.coded, self.names, self.renamed = goal.codes, goal.coded, goal.names, goal.renamed
        if isinstance(goal, KeepsWaiting):
            self.unmatched = goal.unmatched
        self.whole_checkpoint, self.take_back = goal.whole_checkpoint, goal.take_back

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        return self.narrowed(self.goal.step(self.widened(inputs), frontier))

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        return self.goal.checkpoint(self.widened(inputs), frontier)

    def widened(self, inputs: Sequence[Table]) -> list[Table]:
        wide = []
        for i, table in enumerate(inputs):
            if i < len(self.added) and self.added[i]:
                named = columns_of(table, self.types[i])
                more = [bits(e(named, rows(table)))[None, :] for e in self.added[i]]
                table = np.concatenate([table, *more], axis=0)
            wide.append(table)
        return wide

    def narrowed(self, table: Table) -> Table:
        return table[: table.shape[0] - self.drop] if self.drop else table

    @property
    def size(self) -> tuple[int, int]:
        return self.goal.size


class RecursiveWithConvertedKeys(WithConvertedKeys, InRounds):
    """A `WithConvertedKeys` for a goal that may be part of a cycle of formulas."""

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self._in_rounds.open_stretch(first, last, goes_on)

    def grow(self, inputs: Sequence[Table]) -> Table:
        return self.narrowed(self._in_rounds.grow(self.widened(inputs)))

    def shrink(self, inputs: Sequence[Table]) -> Table:
        return self.narrowed(self._in_rounds.shrink(self.widened(inputs)))

    @property
    def _in_rounds(self) -> InRounds:
        return cast(InRounds, self.goal)


def with_converted_keys(goal: Goal, added: Sequence[Sequence[Evaluation]], types: Sequence[Sequence[str]]) -> Goal:
    return WithConvertedKeys(goal, added, types) if any(added) else goal
