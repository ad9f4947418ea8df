"""Absence after: what happens unless something else does, known when the deadline passes.

    goal(L, X):  L = [a, b] waits until b + q; an X that ends strictly between kills it; else [a, b + q] occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit

from cep.goals import pairing
from cep.goals.contract import Ints, from_arrow, to_arrow
from cep.goals.join import fresh_index, index_of, more_chains, room
from cep.goals.keys import slots_of
from cep.goals.lineage import Lineage
from cep.goals.pairing import END, HEADER, NEXT, SLOT, link, put
from cep.table import END as T_END
from cep.table import IDENTITY, Table, empty, rows

# A waiting row outside every chain that no X can kill any more (its key is missing, or its deadline has been passed).
SAFE = -2


@njit(cache=True)
def _unless(left, absent, left_slots, absent_slots, duration, store, count, first, chains, watermark):  # type: ignore[no-untyped-def]
    """Arrivals by end, X before L at one instant (X kills what ended strictly before it). Gives (count, first, fired rows)."""
    i = 0
    x = 0
    n_left = left.shape[1]
    n_absent = absent.shape[1]
    while i < n_left or x < n_absent:
        if x < n_absent and (i >= n_left or absent[T_END, x] <= left[T_END, i]):
            slot = absent_slots[x]
            if slot >= 0:
                y = absent[T_END, x]
                p = chains[slot, 0]
                while p >= 0 and store[p, END] < y:
                    after = store[p, NEXT]
                    store[p, SLOT] = SAFE if store[p, END] + duration <= y else -1
                    p = after
                chains[slot, 0] = p
                if p < 0:
                    chains[slot, 1] = -1
                else:
                    store[p, pairing.PREVIOUS] = -1
            x += 1
        else:
            slot = left_slots[i]
            put(store, count, left, i, slot, store.shape[1] - HEADER)
            if slot >= 0:
                link(store, chains, slot, 0, count)
            else:
                store[count, SLOT] = SAFE
            count += 1
            i += 1
    fired = np.empty(count - first, np.int64)
    n = 0
    while first < count and store[first, END] + duration <= watermark:
        slot = store[first, SLOT]
        if slot != -1:
            fired[n] = first
            n += 1
            if slot >= 0:
                pairing.unlink(store, chains, slot, 0, first)
            store[first, SLOT] = -1
        first += 1
    return count, first, fired[:n]


@dataclass(frozen=True, slots=True)
class DeadlineSpec:
    """`left UNLESS absent WITHIN duration` (microseconds); keys are argument columns of one representation."""

    duration: int
    width: int
    left_key: tuple[int, ...]
    absent_key: tuple[int, ...]
    left_codes: tuple[int, ...]


class Deadline:
    """The goal of one UNLESS node. Inputs: left, absent."""

    def __init__(self, spec: DeadlineSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.left_key = np.array(spec.left_key, np.int64)
        self.absent_key = np.array(spec.absent_key, np.int64)
        self.store = np.empty((16, HEADER + spec.width), np.int64)
        self.count = self.first = 0
        self.index, self.keys, self.slots = fresh_index(len(spec.left_key))
        self.chains = np.full((16, 2), -1, np.int64)

    def step(self, inputs: Sequence[Table], watermark: int) -> Table:
        left, absent = inputs
        if not rows(left) and self.first == self.count:
            return empty(self.spec.width)
        if not rows(left) and not rows(absent) and self.next_deadline() > watermark:
            return empty(self.spec.width)
        left_slots, self.index, self.keys, self.slots = slots_of(
            left, self.left_key, self.index, self.keys, self.slots, True, False
        )
        absent_slots, *_ = slots_of(absent, self.absent_key, self.index, self.keys, self.slots, False, False)
        self.chains = more_chains(self.chains, self.slots)
        self.store = room(self.store, self.count + rows(left))
        self.count, self.first, fired = _unless(
            left, absent, left_slots, absent_slots, self.spec.duration, self.store, self.count, self.first,
            self.chains, watermark,
        )  # fmt: skip
        table: Table = pairing.rows_table(self.store, fired, self.spec.width)
        table[T_END] += self.spec.duration
        if self.lineage is not None:
            parts = table[IDENTITY].copy()
            self.lineage.link(self.lineage.name(table), parts)
        return table

    def next_deadline(self) -> int:
        """The earliest deadline still open; 2**62 where none is."""
        waiting = self.store[self.first : self.count]
        alive = np.flatnonzero(waiting[:, SLOT] != -1)
        return int(waiting[alive[0], END]) + self.spec.duration if len(alive) else pairing.FOREVER

    def forget(self, watermark: int) -> None:
        if self.count > 1024 and self.first > self.count // 2:
            self._compact()

    def _compact(self) -> None:
        alive = self.first + np.flatnonzero(self.store[self.first : self.count, SLOT] != -1)
        self.store, self.count, self.first = pairing.compacted(self.store, alive), len(alive), 0
        safe = self.store[: self.count, SLOT] == SAFE
        chained = self.store[: self.count][~safe]
        self.keys, self.slots, _ = pairing.renumber(
            chained, len(chained), np.empty((0, HEADER), np.int64), 0, self.keys, self.slots
        )
        self.store[: self.count][~safe] = chained
        self.index = index_of(self.keys, self.slots)
        self.chains = np.full((max(16, self.slots), 2), -1, np.int64)
        _relink(self.store, self.count, self.chains)

    def snapshot(self) -> pa.RecordBatch:
        self._compact()
        return to_arrow({"store": self.store[: self.count], "keys": self.keys[: self.slots]})

    def restore(self, batch: pa.RecordBatch) -> None:
        arrays = from_arrow(batch)
        self.store, self.count, self.first = room(arrays["store"], 16), len(arrays["store"]), 0
        self.keys, self.slots = room(arrays["keys"], 16), len(arrays["keys"])
        self._compact()

    def codes(self) -> list[Ints]:
        held = [self.store[self.first : self.count, HEADER + c] for c in self.spec.left_codes]
        return [*held, self.keys[: self.slots].reshape(-1)]

    @property
    def size(self) -> tuple[int, int]:
        alive = int((self.store[self.first : self.count, SLOT] != -1).sum())
        used = (self.count - self.first) * self.store.shape[1] + self.slots * (4 + self.keys.shape[1])
        return alive, 8 * used


@njit(cache=True)
def _relink(store, count, chains):  # type: ignore[no-untyped-def]
    for p in range(count):
        store[p, NEXT] = -1
        store[p, pairing.PREVIOUS] = -1
        if store[p, SLOT] >= 0:
            link(store, chains, store[p, SLOT], 0, p)
