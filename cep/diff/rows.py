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
"""Start, end, the values of the attributes and, for a fluent, its bounds. A start or end of None means that there is
none."""
FIRST = 2
"""The index of the first attribute in a row, after the start and the end."""


_BESIDE = (CHANGE, ID, BECAUSE, CONSTITUENTS)


class DerivedRows:
    """The rows that the steps of an engine return, without rows that are withdrawn later."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Row]] = {}

    def add(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Add the tables of a step."""
        for name, table in tables.items():
            own = self._counts.setdefault(name, Counter())
            if CHANGE not in table.columns:
                own.update(_rows(table))
                continue
            for row, sign in zip(_rows(table), table[CHANGE].to_list()):
                own[row] += sign

    def hold(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Add the intervals that have not ended. The engine may also return them at the end of the input."""
        for name, table in tables.items():
            own = self._counts.setdefault(name, Counter())
            for row in _rows(table):
                own[row] = 1

    def changes(self) -> dict[str, Counter[Row]]:
        """Return how often each row was added, less how often it was withdrawn."""
        return self._counts

    def rows(self) -> dict[str, Counter[Row]]:
        """Return the remaining rows, by event, fluent and alert table."""
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
