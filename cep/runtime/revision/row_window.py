"""What came in lately, of one event: found by time, taken out, put in between."""

from __future__ import annotations

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import END, IDENTITY, Table, concat, contiguous, empty, rows
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints
from cep.operators.goals.sorted_runs import put


class RowWindow:
    """Rows of one event, in a few tables sorted by end, each at least twice as long as the next."""

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.runs: list[Table] = []

    def add(self, table: Table) -> None:
        """More rows, in any order."""
        put(self.runs, contiguous(table), END)

    def ending(self, after: int, until: int) -> Table:
        """Those that end after `after` and at or before `until`, sorted by arrival."""
        found = []
        for run in self.runs:
            first, last = np.searchsorted(run[END], [after, until], "right").tolist()
            if first < last:
                found.append(run[:, first:last])
        return by_arrival(contiguous(concat(found))) if found else empty(self.arguments)

    def at(self, ends: Ints) -> Table:
        """Those with one of these ends, which are sorted and distinct."""
        found = [run[:, places_of(run[END], ends)] for run in self.runs]
        return np.concatenate([empty(self.arguments), *found], axis=1)

    def drop(self, table: Table) -> None:
        """Take out these rows. Runs that have none of them are not touched."""
        if not rows(table):
            return
        ends = np.unique(table[END])
        gone = KeySet(len(table) - 1)
        gone.insert(_words(table))
        for number, run in enumerate(self.runs):
            places = places_of(run[END], ends)
            places = places[gone.find(_words(run[:, places])) >= 0]
            if len(places):
                self.runs[number] = np.delete(run, places, axis=1)
        self.runs = [run for run in self.runs if rows(run)]

    def drop_until(self, end: int) -> None:
        """Take out all that end at or before `end`."""
        kept = [run[:, int(np.searchsorted(run[END], end, "right")) :] for run in self.runs]
        self.runs = [
            run if rows(run) == rows(before) else run.copy() for run, before in zip(kept, self.runs) if rows(run)
        ]

    def all(self) -> Table:
        """Every row, in no order."""
        return np.concatenate([empty(self.arguments), *self.runs], axis=1)

    @property
    def size(self) -> int:
        """How many rows."""
        return sum(map(rows, self.runs))


def places_of(column: Ints, values: Ints) -> Ints:
    """Where a sorted column has one of these values, which are sorted and distinct."""
    first = np.searchsorted(column, values, "left")
    counts = np.searchsorted(column, values, "right") - first
    found: Ints = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return found


def without(table: Table, others: Table) -> Table:
    """The rows that the others do not have."""
    if not rows(others) or not rows(table):
        return table
    gone = KeySet(len(table) - 1)
    gone.insert(_words(others))
    return contiguous(table[:, gone.find(_words(table)) < 0])


def _words(table: Table) -> Ints:
    """What makes a row what it is, whatever it is called in lineage."""
    return np.ascontiguousarray(np.delete(table, IDENTITY, axis=0).T)
