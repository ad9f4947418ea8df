"""Occurrences as columns. An int64 matrix holds a table of occurrences. Each matrix row is one column of the table.

`table[START]` and `table[END]` are in microseconds. `table[ORDER]` is the order of arrival. `table[IDENTITY]` is the
handle for lineage in this engine (docs/decisions/2026-11-22-handles.md), or 0 without lineage. From `FIRST` on, there
is one matrix row per argument. Ints, times and durations are stored as they are, floats as their bits (`column` views
them). Strings and all other values are stored as codes of the engine's value pool. A table is sorted by (end, start,
order).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit

Table = NDArray[np.int64]
Column = NDArray[Any]
"""The values of one column: float64 for floats, bool for results of tests, and int64 for all other types."""

START, END, ORDER, IDENTITY, FIRST = 0, 1, 2, 3, 4


def empty(arguments: int) -> Table:
    """Return a table that has no occurrences. `arguments`: the number of its argument columns."""
    return np.empty((FIRST + arguments, 0), np.int64)


def rows(table: Table) -> int:
    """Return the number of occurrences in a table."""
    return int(table.shape[1])


def span(table: Table) -> tuple[int, int]:
    """Return the earliest and the latest end of a table's occurrences. The table must not be empty."""
    ends = table[END]
    if len(ends) == 1:
        return int(ends[0]), int(ends[0])
    first, last = _bounds(ends)
    return int(first), int(last)


@njit(_nrt=False)
def _bounds(values):  # type: ignore[no-untyped-def]
    """Return the least and the greatest of some numbers. For few numbers, this loop is eight times as fast as two
    passes of numpy."""
    least = greatest = values[0]
    for i in range(values.shape[0]):
        least, greatest = min(least, values[i]), max(greatest, values[i])
    return least, greatest


def column(table: Table, argument: int, type: str) -> Column:
    """Return the values of an argument without a copy: float64 for floats, otherwise int64."""
    values: NDArray[np.int64] = table[FIRST + argument]
    return values.view(np.float64) if type == "float" else values


def bits(values: Column) -> NDArray[np.int64]:
    """Return a column in its stored form: ints unchanged, floats as their bits (-0.0 as 0.0, and a single NaN)."""
    if values.dtype == np.float64:
        canonical = values + 0.0
        canonical[np.isnan(values)] = np.nan
        return canonical.view(np.int64)
    return values


def contiguous(table: Table) -> Table:
    """Return the table, or a copy if it is a slice of another one. Kernels only accept contiguous matrices."""
    return np.ascontiguousarray(table)


def narrowed(table: Table, count: int) -> Table:
    """Return the first `count` occurrences of a contiguous table. The caller must not use the table again.

    If at least half of the occurrences remain, the result reuses the table's memory.
    """
    width, n = table.shape
    if 2 * count < n:
        return contiguous(table[:, :count])
    cells = table.reshape(-1)
    for row in range(1, width):
        cells[row * count : (row + 1) * count] = cells[row * n : row * n + count]
    return cells[: width * count].reshape(width, count)


def concat(tables: Sequence[Table]) -> Table:
    """Concatenate tables in this order, without sorting."""
    if len(tables) == 1:
        return tables[0]
    return np.concatenate(tables, axis=1)


def slice_until(table: Table, end: int) -> int:
    """Return the number of occurrences of a sorted table that end at or before `end`."""
    return int(table[END].searchsorted(end, side="right"))
