"""Atoms of ticks: goal(E) gives E's occurrences but those that are equal to another of their tick that came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cep.core.relation import END, FIRST, Table, rows
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.coded_columns import codes_of
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    StateKeys,
    Translation,
    Untimed,
    demand,
    from_arrow,
    restored,
    to_arrow,
)
from cep.operators.goals.keyed_state import KeyedState, Parts
from cep.operators.goals.keys import Keys

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.tick_atoms import TickAtoms


class TickAtomsGoal(Untimed, KeyedState):
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

    def _read(self, batch: pa.RecordBatch) -> Arrays:
        arrays = restored(batch, seen=self.width, now=1)
        demand(len(arrays["now"]) == 1)
        return arrays

    def _become(self, state: Arrays) -> None:
        self.seen, self.now = state["seen"].copy(), int(state["now"][0, 0])

    def _taken_apart(self, state: Arrays, keys: StateKeys) -> Parts:
        going = keys.going(0, state["seen"])
        return Parts.chosen(lambda some: {"seen": state["seen"][some], "now": state["now"]}, keys, 0, going)

    def _put_together(self, one: Arrays, other: Arrays) -> Arrays:
        now = max(int(one["now"][0, 0]), int(other["now"][0, 0]))
        seen = [each["seen"] for each in (one, other) if int(each["now"][0, 0]) == now]
        return {"seen": np.concatenate(seen), "now": np.array([[now]], np.int64)}

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        arrays = from_arrow(state)
        for column in self._codes:
            if len(arrays["seen"]):
                arrays["seen"][:, column] = codes(arrays["seen"][:, column])
        return to_arrow(arrays)

    def codes(self) -> list[Ints]:
        return [self.seen[:, column] for column in self._codes]

    def coded(self) -> list[Ints]:
        return self.codes()

    def names(self) -> list[Ints]:
        return []

    @property
    def size(self) -> tuple[int, int]:
        return len(self.seen), int(self.seen.nbytes)


def tick_atoms_of(node: TickAtoms, builder: GoalBuilder) -> Goal:
    """The goal of a node."""
    types = builder.types(node.child)
    return TickAtomsGoal(len(types), node.tick, codes_of(types))
