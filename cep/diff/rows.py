"""Derived events as rows that can be counted and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from cep.core.identity import ID
from cep.core.schema import CHANGE
from cep.events import Value
from cep.runtime.history import BECAUSE, CONSTITUENTS

Row = tuple[Any, ...]
"""A row: its start, its end, the values of its attributes and, for a fluent, its bounds.

If the start or the end is None, the interval is unbounded on this side.
"""
FIRST = 2
"""The index of the first attribute in a row."""


_BESIDE = (CHANGE, ID, BECAUSE, CONSTITUENTS)


class DerivedRows:
    """A collector of the rows that an engine returns. Rows that are withdrawn later are removed."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Row]] = {}

    def add(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Add the tables that a step of the engine returned."""
        for name, table in tables.items():
            own = self._counts.setdefault(name, Counter())
            if CHANGE not in table.columns:
                own.update(_rows(table))
                continue
            for row, sign in zip(_rows(table), table[CHANGE].to_list()):
                own[row] += sign

    def hold(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Add the intervals of fluents that are still open at the end of the input.

        The engine may already have returned such an interval in a step. The interval counts only once.
        """
        for name, table in tables.items():
            own = self._counts.setdefault(name, Counter())
            for row in _rows(table):
                own[row] = 1

    def changes(self) -> dict[str, Counter[Row]]:
        """Return, for each table, the rows with their counts: how often each was added, minus its withdrawals."""
        return self._counts

    def rows(self) -> dict[str, Counter[Row]]:
        """Return, for each table, the rows that were not withdrawn, with their counts."""
        return {name: +counts for name, counts in self._counts.items() if +counts}


def _rows(table: pl.DataFrame) -> Iterable[Row]:
    return zip(*(table[name].to_list() for name in table.columns if name not in _BESIDE))


def sorted_rows(counts: Counter[Row]) -> list[Row]:
    """Return rows sorted by end, start and values."""
    return sorted(counts.elements(), key=row_key)


def row_key(row: Row) -> tuple[object, ...]:
    """Return the sort key of a row: its end, start and values."""
    start, end, *values = row
    early, late = -(2**63), 2**63
    return (late if end is None else end, early if start is None else start, *map(_value_key, values))


def _value_key(value: Value) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)
