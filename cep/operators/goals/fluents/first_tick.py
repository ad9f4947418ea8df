"""The first tick of a stream: goal(E) says of the first of E's occurrences its tick, from which on it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cep.core.evaluation_ticks import WindowTicks
from cep.core.relation import END, Table, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import Goal
from cep.operators.goals.fluents.windowed_event import PassingGoal, PassingSpec

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.first_tick import FirstTick


class FirstTickGoal(PassingGoal):
    """The goal of one FirstTick node."""

    def __init__(self, width: int, tick: int) -> None:
        super().__init__(PassingSpec(width, (), True, (), tick - 1))
        self.window = WindowTicks(tick, 0, None)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = inputs[0]
        if rows(table) and not self.tuples.count:
            at = np.array([int(table[END].min()) // self.window.tick])
            self.passing.put(self.window.opens(at), self._slots(table[:, :1], at), True)
        return self._pass_on(frontier)


def first_tick_of(node: FirstTick, builder: GoalBuilder) -> Goal:
    """The goal of a node."""
    return FirstTickGoal(len(builder.types(node.child)), node.tick)
