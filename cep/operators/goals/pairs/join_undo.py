"""A step of a join that can be taken back: the chains of the keys that come are kept as they were.

A step adds rows behind those of a store, and links rows anew in the chains of the keys of what comes, nowhere else. It
moves no row: that is done by what forgets, and by what takes very much at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import Table, contiguous
from cep.operators.goals.contract import Arrays, Ints
from cep.operators.goals.keys import grow
from cep.operators.goals.store import NEXT, PREVIOUS, more_chains

if TYPE_CHECKING:
    from cep.operators.goals.pairs.join import JoinGoal

ROW, ROW_NEXT, ROW_PREVIOUS = range(3)


@njit()
def _linked(hot, chains, slots, found):  # type: ignore[no-untyped-def]
    """The rows in the chains of these slots, each with what it is linked to. `found` has room for some, and grows."""
    count = 0
    for slot in slots:
        for head in range(0, chains.shape[1], 2):
            p = chains[slot, head]
            while p >= 0:
                if count == found.shape[0]:
                    found = grow(found, count + 1)
                found[count, ROW] = p
                found[count, ROW_NEXT] = hot[p, NEXT]
                found[count, ROW_PREVIOUS] = hot[p, PREVIOUS]
                count += 1
                p = hot[p, NEXT]
    return found[:count]


@dataclass(frozen=True, slots=True)
class _Chains:
    """The chains of some slots of a store of so many rows, and the rows in them."""

    count: int
    slots: Ints
    chains: Ints
    rows: Ints

    @classmethod
    def of(cls, hot: Ints, chains: Ints, count: int, slots: Sequence[Ints]) -> _Chains:
        known = np.unique(np.concatenate(slots))
        known = known[np.searchsorted(known, 0) :]
        return cls(
            count, known, chains[known], _linked(hot, chains, known, np.empty((4 * len(known) + 1, 3), np.int64))
        )

    def put_back(self, hot: Ints, chains: Ints) -> int:
        """Link the rows as they were; gives how many there were."""
        chains[self.slots] = self.chains
        places = self.rows[:, ROW]
        hot[places, NEXT], hot[places, PREVIOUS] = self.rows[:, ROW_NEXT], self.rows[:, ROW_PREVIOUS]
        return self.count


@dataclass(frozen=True, slots=True)
class JoinBefore:
    """A join before a step. `state`: all of it, where the step moves rows."""

    waiting: _Chains | None
    absent: _Chains | None = None
    state: Arrays | None = None

    @classmethod
    def of(cls, goal: JoinGoal, inputs: Sequence[Table], moves: bool) -> JoinBefore:
        """Before these inputs; `moves`: the step moves rows."""
        if moves:
            return cls(None, None, {name: array.copy() for name, array in goal.as_arrays().items()})
        left, right, *others = map(contiguous, inputs)
        slots = [goal.keys.slots(left, goal.left_key), goal.keys.slots(right, goal.right_key, goal.keep_right)]
        goal.chains = more_chains(goal.chains, goal.keys.count)
        waiting = _Chains.of(goal.hot, goal.chains, goal.count, slots)
        if not goal.spec.absent:
            return cls(waiting)
        slots = [goal.absent_keys.slots(others[0], goal.absent_key)]
        goal.absent_chains = more_chains(goal.absent_chains, goal.absent_keys.count)
        return cls(waiting, _Chains.of(goal.absent_hot, goal.absent_chains, goal.absent_count, slots))

    def put_back(self, goal: JoinGoal) -> None:
        """The join is what it was. Keys that no row has may stay."""
        if self.state is not None:
            goal.become_arrays(self.state)
            return
        assert self.waiting is not None, "it was kept by key"
        goal.count = self.waiting.put_back(goal.hot, goal.chains)
        if self.absent is not None:
            goal.absent_count = self.absent.put_back(goal.absent_hot, goal.absent_chains)
