"""Rows of one event that may still change, in tables sorted by end. A search by end reads only the tables that may
contain rows with this end.

Small tables are joined, so there are never many tables. A table is replaced, never modified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.time import END_OF_TIME
from cep.runtime.buckets import stacked

ROWS = 2048
"""The greatest number of rows in a table. A table with fewer rows is joined with the next rows."""

Ints = NDArray[np.int64]


class RowRuns:
    """The rows of one event in sorted tables. `tables`: the tables, in the order in which their rows arrived."""

    def __init__(self, tables: Sequence[pl.DataFrame] = ()) -> None:
        self.tables: list[pl.DataFrame] = list(tables)
        self._ends: list[Ints] = [ends_of(table) for table in self.tables]

    @property
    def height(self) -> int:
        return sum(table.height for table in self.tables)

    def add(self, table: pl.DataFrame) -> None:
        table = _sorted(table)
        for start in range(0, table.height, ROWS):
            self._append(table[start : start + ROWS])
            while len(self.tables) > 1 and self._joinable():
                self._append(_sorted(stacked([self._pop(), self._pop()][::-1])))

    def leaving(self, ends: Ints) -> Iterator[pl.DataFrame]:
        """Remove the rows whose end is one of `ends`, and yield these rows. `ends` must be sorted and distinct."""
        for number in reversed(range(len(self.tables))):
            own = self._ends[number]
            if not len(ends) or not len(own) or own[0] > ends[-1] or own[-1] < ends[0]:
                continue
            mine = ends[np.minimum(np.searchsorted(ends, own), len(ends) - 1)] == own
            if mine.any():
                table = self.tables[number]
                yield table.filter(mine)
                self.tables[number], self._ends[number] = table.filter(~mine), own[~mine]
        self._keep([len(own) > 0 for own in self._ends])

    def forget(self, until: int) -> None:
        """Drop the tables in which all rows end at or before `until` (microseconds)."""
        self._keep([bool(own[-1] > until) for own in self._ends])

    def _joinable(self) -> bool:
        before, last = self.tables[-2].height, self.tables[-1].height
        return before < 2 * last and before + last <= ROWS

    def _append(self, table: pl.DataFrame) -> None:
        self.tables.append(table)
        self._ends.append(ends_of(table))

    def _pop(self) -> pl.DataFrame:
        self._ends.pop()
        return self.tables.pop()

    def _keep(self, kept: Sequence[bool]) -> None:
        if not all(kept):
            self.tables = [table for table, stays in zip(self.tables, kept) if stays]
            self._ends = [own for own, stays in zip(self._ends, kept) if stays]


def ends_of(table: pl.DataFrame) -> Ints:
    """Return the ends of rows in microseconds. A missing end becomes END_OF_TIME."""
    ends: Any = table["end" if "end" in table.columns else "time"].fill_null(END_OF_TIME).to_numpy()
    return np.asarray(ends, np.int64)


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    ends = ends_of(table)
    return table if not (ends[1:] < ends[:-1]).any() else table[np.argsort(ends, kind="stable")]
