"""Rows of ids with their valid times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.values import Ints
from cep.rules.static.materialized import ALWAYS, NEVER, Column


@dataclass(frozen=True, slots=True)
class ValidTimeRows:
    """Rows of ids, perhaps repeated, with valid times. A row holds from `since` until just before `until`."""

    columns: tuple[Column, ...]
    since: Ints
    until: Ints

    @property
    def rows(self) -> int:
        return len(self.since)

    def take(self, chosen: Ints | NDArray[np.bool_]) -> ValidTimeRows:
        return ValidTimeRows(tuple(column[chosen] for column in self.columns), self.since[chosen], self.until[chosen])

    def united(self) -> tuple[ValidTimeRows, Ints]:
        """Merge the intervals of equal rows if they touch or overlap, and sort the rows.

        Also return, for each resulting row, the index of an original row that has the same ids.
        """
        order = np.lexsort([self.until, self.since, *reversed(self.columns)])
        if not self.rows:
            return self, order
        sorted = self.take(order)
        same = np.ones(self.rows - 1, dtype=np.bool_)
        for column in sorted.columns:
            same &= column[1:] == column[:-1]
        row = np.concatenate([[0], np.cumsum(~same)])  # equal rows have the same number
        # The latest end so far of each row. Numbers ascend, so ends of earlier rows do not interfere.
        ends, places = np.unique(sorted.until, return_inverse=True)
        latest = np.maximum.accumulate(row * len(ends) + places) % len(ends)
        first = np.ones(self.rows, dtype=np.bool_)
        first[1:] = ~same | (sorted.since[1:] > ends[latest[:-1]])
        begins = np.flatnonzero(first)
        lasts = np.append(begins[1:], self.rows) - 1
        rows = ValidTimeRows(tuple(c[begins] for c in sorted.columns), sorted.since[begins], ends[latest[lasts]])
        return rows, order[begins]


def always(columns: tuple[Ints, ...], rows: int) -> ValidTimeRows:
    """Return rows that hold at all times."""
    return ValidTimeRows(columns, np.full(rows, ALWAYS, dtype=np.int64), np.full(rows, NEVER, dtype=np.int64))


def concat_rows(parts: Sequence[ValidTimeRows]) -> ValidTimeRows:
    """Concatenate rows, sort them, and merge the intervals of equal rows if they touch or overlap."""
    columns = tuple(np.concatenate(column) for column in zip(*(part.columns for part in parts)))
    since, until = (np.concatenate([getattr(part, name) for part in parts]) for name in ("since", "until"))
    return ValidTimeRows(columns, since, until).united()[0]
