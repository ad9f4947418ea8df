"""The goal of UNLESS: occurrences that no other occurrence follows. Such a result is known when its deadline passes.

goal(L, X):  stores L = [a, b] until b + q; an X that ends strictly in between cancels L; otherwise outputs [a, b + q]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import roomy
from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, Table, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    WaitingRows,
)
from cep.operators.goals.converted_keys import WithConvertedKeys, with_converted_keys
from cep.operators.goals.heads import codes_of, others
from cep.operators.goals.intrinsics import prefetch
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage, first_of_each
from cep.operators.goals.state_tables import StateTable
from cep.operators.goals.store import (
    END,
    FAR,
    FOREVER,
    GONE,
    HEADER,
    HOT,
    NAME,
    NEAR,
    NEXT,
    PREVIOUS,
    SLOT,
    StoredState,
    kept,
    link,
    more_chains,
    new_store,
    put,
    relink,
    renumber,
    room,
    rows_table,
    stored,
    unlink,
    waiting_rows,
)
from cep.operators.goals.value_order import ValueOrder

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.unless import Deadline


# The slot of a waiting row in no chain, which no X can cancel: its key is missing, or its deadline has passed.
SAFE = -2


@njit()
def _unless(  # type: ignore[no-untyped-def]
    left, absent, left_slots, absent_slots, duration, store, cold, count, first, chains, watermark
):
    """Process arrivals in order of their ends. At one instant, the rows of X are processed before those of L, because
    an X cancels only rows of L that ended earlier.

    Return the new `count` and `first`, and the output rows. The store must have room for all rows of `left`, and
    `chains` for all slots.
    """
    i = 0
    x = 0
    n_left = left.shape[1]
    n_absent = absent.shape[1]
    width = cold.shape[1] - HEADER
    while i < n_left or x < n_absent:
        if x < n_absent and (i >= n_left or absent[T_END, x] <= left[T_END, i]):
            if x + FAR < n_absent:
                prefetch(chains, absent_slots[x + FAR])
                ahead = absent_slots[x + NEAR]
                if ahead >= 0:
                    prefetch(store, chains[ahead, 0])
            slot = absent_slots[x]
            if slot >= 0:
                y = absent[T_END, x]
                p = chains[slot, 0]
                while p >= 0 and store[p, END] < y:
                    after = store[p, NEXT]
                    if store[p, END] + duration <= y:
                        cold[p, SLOT] = SAFE
                    else:
                        store[p, NEXT] = GONE
                    p = after
                chains[slot, 0] = p
                if p < 0:
                    chains[slot, 1] = -1
                else:
                    store[p, PREVIOUS] = -1
            x += 1
        else:
            if i + FAR < n_left:
                prefetch(chains, left_slots[i + FAR])
                ahead = left_slots[i + NEAR]
                if ahead >= 0:
                    prefetch(store, chains[ahead, 1])
            slot = left_slots[i]
            put(store, cold, count, left, i, slot, 0, width)
            if slot >= 0:
                link(store, chains, slot, 0, count)
            else:
                cold[count, SLOT] = SAFE
            count += 1
            i += 1
    fired = np.empty(count - first, np.int64)
    n = 0
    while first < count and store[first, END] + duration <= watermark:
        if store[first, NEXT] != GONE:
            fired[n] = first
            n += 1
            if cold[first, SLOT] >= 0:
                unlink(store, chains, cold[first, SLOT], 0, first)
            store[first, NEXT] = GONE
        first += 1
    return count, first, fired[:n]


@dataclass(frozen=True, slots=True)
class DeadlineSpec:
    """The specification of `left UNLESS absent WITHIN duration`, with the duration in microseconds.

    Key columns of both sides have the same representation. `order`: the function that computes the order of arrival of
    results from the columns of the left side. It is None if the duration is 0, because results then have the order of
    the left side.
    """

    duration: int
    width: int
    left_key: tuple[int, ...]
    absent_key: tuple[int, ...]
    left_codes: tuple[int, ...]
    order: ValueOrder | None


class AbsenceDeadline(StoredState):
    """The goal of one UNLESS node. Inputs: left, absent.

    `once`: for each input, True if the goal needs only the first of equal occurrences.
    """

    in_time = True

    def __init__(self, spec: DeadlineSpec, lineage: Lineage | None = None, once: Sequence[bool] = ()) -> None:
        self.spec = spec
        self.lineage = lineage
        self.left_key = np.array(spec.left_key, np.int64)
        self.absent_key = np.array(spec.absent_key, np.int64)
        self.store, self.cold = new_store(spec.width)
        self.count = self.first = 0
        self.keys = Keys(len(spec.left_key))
        self.chains = np.full((roomy(0, 16), 2), -1, np.int64)
        self.once = once

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        left, absent = first_of_each(inputs, self.once, self.lineage) if any(self.once) else inputs
        if not rows(left) and self.first == self.count:
            return empty(self.spec.width)
        left_slots = self.keys.slots(left, self.left_key)
        absent_slots = self.keys.slots(absent, self.absent_key, insert=False)
        self.chains = more_chains(self.chains, self.keys.count)
        needed = self.count + rows(left)
        self.store, self.cold = room(self.store, needed), room(self.cold, needed)
        self.count, self.first, fired = _unless(
            left, absent, left_slots, absent_slots, self.spec.duration, self.store, self.cold, self.count, self.first,
            self.chains, frontier.watermark,
        )  # fmt: skip
        table: Table = rows_table(self.store, self.cold, fired, self.spec.width)
        table[T_END] += self.spec.duration
        if self.spec.order is not None:
            table[ORDER] = self.spec.order(table[FIRST:])
            table = by_arrival(table)
        if self.lineage is not None:
            parts = table[IDENTITY].copy()
            self.lineage.link(self.lineage.name(table), parts)
        return table

    def due(self) -> int | None:
        while self.first < self.count:
            some = self.store[self.first : min(self.count, self.first + 64), NEXT] != GONE
            if some.any():
                self.first += int(some.argmax())
                return int(self.store[self.first, END]) + self.spec.duration
            self.first += len(some)
        return None

    def pending(self) -> int:
        return self.count - self.first

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """See `cep.operators.goals.contract`. A stored row is output at its deadline, unless it is cancelled before."""
        hot, cold = self.store[self.first : self.count], self.cold[self.first : self.count]
        return waiting_rows(hot, cold, side, width, FOREVER, self.spec.duration, watermark)[0]

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        if wholly or (self.count > 1024 and self.first > self.count // 2):
            self._compact()

    def _compact(self) -> None:
        alive = self.first + np.flatnonzero(self.store[self.first : self.count, NEXT] != GONE)
        store, cold, count = kept(self.store, self.cold, alive)
        keys = renumber(cold, count, self.keys)
        chains = np.full((roomy(keys.count, 16), 2), -1, np.int64)
        relink(store, cold, count, chains, True)
        self.store, self.cold, self.count, self.first, self.keys, self.chains = store, cold, count, 0, keys, chains

    def _state(self) -> Arrays:
        self._compact()
        return self._needed()

    def _needed(self) -> Arrays:
        return {"store": self.store[: self.count], "cold": self.cold[: self.count], "keys": self.keys.known}

    def _tables(self) -> dict[str, StateTable]:
        return stored("store", self.spec.width, (self.spec.left_codes,), self.spec.left_key, SAFE)

    def _become(self, state: Arrays) -> None:
        self.store, self.cold, self.count, self.first = state["store"], state["cold"], len(state["store"]), 0
        self.keys.become(state["keys"], len(state["keys"]))
        self._compact()

    def codes(self) -> list[Ints]:
        held = [self.cold[self.first : self.count, HEADER + c] for c in self.spec.left_codes]
        return [*held, self.keys.known.reshape(-1)]

    def names(self) -> list[Ints]:
        return [self.cold[self.first : self.count, NAME]]

    @property
    def size(self) -> tuple[int, int]:
        alive = int((self.store[self.first : self.count, NEXT] != GONE).sum())
        used = (self.count - self.first) * (HOT + self.cold.shape[1]) + self.keys.count * (4 + len(self.spec.left_key))
        return alive, 8 * used


def deadline_of(node: Deadline, builder: GoalBuilder, number: int) -> Goal:
    once = builder.equal.once.get(number, ())
    left, absent = builder.types(node.left), builder.types(node.absent)
    mine, theirs = builder.keys(node.key, left, absent)
    left_key, left_added = builder.widened_key(mine, left)
    absent_key, absent_added = builder.widened_key(theirs, absent)
    order = builder.order(number, left) if node.duration else None
    if left_added:
        # The output is the left side, without converted key columns.
        inner = AbsenceDeadline(
            DeadlineSpec(
                node.duration,
                len(left) + len(left_added),
                left_key,
                absent_key,
                codes_of([*left, *others(mine, left)]),
                order,
            ),
            builder.lineage,
            once,
        )
        wide = WithConvertedKeys(inner, (left_added, absent_added), (left, absent))
        wide.drop = len(left_added)
        return wide
    spec = DeadlineSpec(node.duration, len(left), left_key, absent_key, codes_of(left), order)
    return with_converted_keys(AbsenceDeadline(spec, builder.lineage, once), ((), absent_added), (left, absent))
