"""Atoms of ticks: goal(E) gives E's occurrences but those that are equal to another of their tick that came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cep.core.relation import END, FIRST, Table, rows
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.coded_columns import codes_of
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    Untimed,
)
from cep.operators.goals.keys import Keys
from cep.operators.goals.state_tables import DeclaredState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.tick_atoms import TickAtoms


class TickAtomsGoal(Untimed, DeclaredState):
    """The goal of one TickAtoms node, of so many columns; `codes`: of which these hold pool codes."""

    def __init__(self, width: int, tick: int, codes: tuple[int, ...]) -> None:
        self.width, self.tick, self._codes = width, tick, codes
        self.seen: Ints = np.empty((0, width), np.int64)
        self.now = BEGINNING

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = inputs[0]
        if not rows(table):
            return table
        at = table[END] // self.tick
        before = len(self.seen) if int(at[0]) == self.now else 0
        keyed: Table = np.zeros((FIRST + self.width + 1, before + rows(table)), np.int64)
        keyed[FIRST:-1, :before], keyed[-1, :before] = self.seen[:before].T, self.now
        keyed[FIRST:-1, before:], keyed[-1, before:] = table[FIRST:], at
        known = Keys(self.width + 1)
        slots = known.slots(keyed, np.arange(self.width + 1), True, True)
        fresh = np.ones(len(slots), np.bool_)
        fresh[1:] = slots[1:] > np.maximum.accumulate(slots)[:-1]
        last = int(at[-1])
        self.now = last
        self.seen = keyed[FIRST:-1, fresh & (keyed[-1] == last)].T.copy()
        new = fresh[before:]
        return table if new.all() else take(table, np.flatnonzero(new))

    # --- state ---

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """The atoms of the last tick are kept until the next."""

    def _state(self) -> Arrays:
        return {"seen": self.seen, "now": np.array([[self.now]], np.int64)}

    def _tables(self) -> dict[str, StateTable]:
        seen = StateTable(width=self.width, keyed=tuples_of("seen", range(self.width)), codes=self._codes)
        return {"seen": seen, "now": StateTable(width=1, clock=True)}

    def _become(self, state: Arrays) -> None:
        self.seen, self.now = state["seen"].copy(), int(state["now"][0, 0])

    def together(self, one: Arrays, other: Arrays) -> Arrays:
        """See `cep.operators.goals.contract`. Atoms of a tick before the later one of both are not asked for."""
        now = max(int(one["now"][0, 0]), int(other["now"][0, 0]))
        seen = [each["seen"] for each in (one, other) if int(each["now"][0, 0]) == now]
        return {"seen": np.concatenate(seen), "now": np.array([[now]], np.int64)}

    @property
    def size(self) -> tuple[int, int]:
        return len(self.seen), int(self.seen.nbytes)


def tick_atoms_of(node: TickAtoms, builder: GoalBuilder) -> Goal:
    """The goal of a node."""
    types = builder.types(node.child)
    return TickAtomsGoal(len(types), node.tick, codes_of(types))
