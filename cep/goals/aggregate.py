"""Sliding aggregates: what a group's latest occurrences come to, at each instant at which some enter.

    goal(W):  the last n occurrences of a group, or those that end in (t - d, t]; one result a group and instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep.goals import window
from cep.goals.arrival import by_arrival
from cep.goals.contract import Ints, from_arrow, to_arrow
from cep.goals.keys import slots_of
from cep.goals.lineage import Lineage
from cep.goals.store import index_of, new_index, room
from cep.goals.window import END, HEADER, SLOT
from cep.table import Table, empty, rows

KINDS = {
    ("sum", "int"): window.SUM_INT,
    ("sum", "duration"): window.SUM_INT,
    ("sum", "float"): window.SUM_FLOAT,
    ("avg", "float"): window.AVG,
    ("stddev", "float"): window.STDDEV,
    ("min", "float"): window.MIN_FLOAT,
    ("max", "float"): window.MAX_FLOAT,
}


def kind_of(function: str, type: str, distinct: bool) -> int:
    """The kernel's number for a function over values of a type (None: `count()`)."""
    if function == "count":
        return window.DISTINCT if distinct else window.COUNT_VALUES if type else window.COUNT
    if function == "first":
        return window.FIRST_FLOAT if type == "float" else window.FIRST_VALUE
    if function == "last":
        return window.LAST_FLOAT if type == "float" else window.LAST_VALUE
    if function in ("min", "max") and type != "float":
        return window.MIN_INT if function == "min" else window.MAX_INT
    return KINDS[function, type]


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """A window of `events` occurrences, or of `duration` microseconds (the other is 0), `by` argument columns.

    `values` gives the bits of every result's argument, a row a result; `value_codes` says which are pool codes.
    """

    events: int
    duration: int
    by: tuple[int, ...]
    by_codes: tuple[int, ...]
    kinds: tuple[int, ...]
    values: Callable[[Table], Ints]
    value_codes: tuple[int, ...]


class Aggregate:
    """The goal of one aggregation node."""

    def __init__(self, spec: AggregateSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.by = np.array(spec.by, np.int64)
        self.kinds = np.array(spec.kinds, np.int64)
        self.store = np.empty((16, HEADER + 4 * len(spec.kinds)), np.int64)
        self.count = 0
        self.index, self.keys, self.slots = new_index(len(spec.by))
        self.groups = np.empty((0, window.GROUP + 3 * len(spec.kinds)), np.int64)
        self.tally_index, self.tallies, self.tally_count = _no_tallies()
        self.watched = 1024

    def step(self, inputs: Sequence[Table], watermark: int) -> Table:
        table = inputs[0]
        if not rows(table):
            return empty(len(self.spec.by) + len(self.spec.kinds))
        slots, self.index, self.keys, self.slots = slots_of(
            table, self.by, self.index, self.keys, self.slots, True, True
        )
        self.groups = _more_groups(self.groups, self.slots)
        self.store = room(self.store, self.count + rows(table))
        keys = self.keys[: self.slots]
        made, edges, self.count, self.tally_index, self.tallies, self.tally_count = window.slide(
            table, self.spec.values(table), slots, self.spec.events, self.spec.duration, self.kinds, self.store,
            self.count, self.groups, keys, self.tally_index, self.tallies, self.tally_count, self.lineage is not None,
        )  # fmt: skip
        made = np.ascontiguousarray(made)
        if self.lineage is not None:
            self.lineage.link(self.lineage.name(made)[edges[:, 0]], edges[:, 1])
        return by_arrival(made)

    def forget(self, watermark: int) -> None:
        if self.count > self.watched:
            self._compact(watermark)
            self.watched = max(1024, 2 * self.count)

    def _compact(self, watermark: int) -> None:
        """Rows out of every window go; a group whose whole window has passed goes too."""
        rows_ = self.store[: self.count]
        tails = self.groups[: self.slots, window.G_TAIL]
        used = tails >= 0
        if self.spec.duration and watermark > -(2**62):
            used[used] = rows_[tails[used], END] > watermark - self.spec.duration
        numbers = np.where(used, np.cumsum(used) - 1, -1)
        slots = rows_[:, SLOT]
        keep = np.flatnonzero((slots >= 0) & (numbers[slots] >= 0)) if self.slots else np.empty(0, np.int64)
        fresh = _more_groups(np.empty((0, self.groups.shape[1]), np.int64), int(used.sum()))
        self.store, self.tally_index, self.tallies, self.tally_count = window.regroup(
            self.store, keep, self.groups, numbers, fresh, self.kinds, self.tallies
        )
        self.groups, self.count = fresh, len(keep)
        self.keys, self.slots = room(self.keys[: self.slots][used], 16), int(used.sum())
        self.index = index_of(self.keys, self.slots)

    def snapshot(self) -> pa.RecordBatch:
        self._compact(-(2**62))
        return to_arrow(
            {"store": self.store[: self.count], "keys": self.keys[: self.slots], "groups": self.groups[: self.slots]}
        )

    def restore(self, batch: pa.RecordBatch) -> None:
        arrays = from_arrow(batch)
        self.store, self.count = room(arrays["store"], 16), len(arrays["store"])
        self.keys, self.slots, self.groups = room(arrays["keys"], 16), len(arrays["keys"]), arrays["groups"]
        self._compact(-(2**62))

    def codes(self) -> list[Ints]:
        live = self.store[: self.count]
        held = [live[:, HEADER + 4 * k + cell] for k in self.spec.value_codes for cell in (0, 2)]
        held += [self.groups[: self.slots, window.GROUP + 3 * k + 1] for k in self.spec.value_codes]
        return held + [self.keys[: self.slots, k] for k in self.spec.by_codes]

    @property
    def size(self) -> tuple[int, int]:
        live = int((self.store[: self.count, SLOT] >= 0).sum())
        used = self.count * self.store.shape[1] + self.slots * (self.groups.shape[1] + self.keys.shape[1] + 2)
        return live, 8 * (used + 5 * self.tally_count)


def _no_tallies() -> tuple[Ints, Ints, int]:
    return np.full(32, -1, np.int64), np.empty((16, 3), np.int64), 0


def _more_groups(groups: Ints, slots: int) -> Ints:
    if groups.shape[0] >= slots:
        return groups
    larger = np.zeros((max(16, slots, 2 * groups.shape[0]), groups.shape[1]), np.int64)
    larger[:, :3] = -1
    larger[: groups.shape[0]] = groups
    return larger
