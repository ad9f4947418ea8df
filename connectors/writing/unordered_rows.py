"""Derived rows that have been converted to the output format, but not yet sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa

from cep.connectors.writing.json_lines import Ints, TextPieces, one_array

PIECE = 1 << 14
"""The number of rows that are copied at a time, so that the copied rows are close together in memory."""


class WrittenRows(pl.DataFrame):
    """A table with the times of rows, whose output texts are in `parts`.

    `order`: for each row, the number of its text. Texts are numbered through all parts.
    """

    parts: Sequence[TextPieces]
    order: Ints

    @classmethod
    def of(cls, times: pl.DataFrame, parts: Sequence[TextPieces], order: Ints | None = None) -> Self:
        """Create a table from the times and texts of rows. Without `order`, row i has the text number i."""
        rows = cls(times)
        rows.parts = parts
        rows.order = np.arange(times.height) if order is None else order
        return rows


def stacked_rows(tables: Sequence[pl.DataFrame]) -> WrittenRows:
    """Concatenate tables of `WrittenRows`."""
    parts, orders = together(tables)
    times = pl.concat([pl.DataFrame(table.get_columns()) for table in tables])
    return WrittenRows.of(times, parts, np.concatenate(orders))


def together(tables: Sequence[pl.DataFrame]) -> tuple[list[TextPieces], list[Ints]]:
    """Concatenate the parts of several tables of `WrittenRows`.

    Return the parts, and for each table the new text numbers of its rows.
    """
    pairs = [(table.parts, table.order) for table in tables if isinstance(table, WrittenRows)]
    assert len(pairs) == len(tables), "rows of an event are written, or they are not"
    return _together(pairs)


def in_order(tables: Sequence[tuple[Sequence[TextPieces], Ints]], order: Ints | None = None) -> Iterator[memoryview]:
    """Yield the texts of several tables' rows in a common order, some rows at a time.

    `tables`: for each table, its parts and the text number of each row. `order`: the row numbers in output order,
    counted through all tables; None: the order of the tables.
    """
    parts, orders = _together(tables)
    rows = orders[0] if len(orders) == 1 else np.concatenate(orders)
    rows = rows if order is None else rows[order]
    texts = one_array(parts)
    for first in range(0, len(rows), PIECE):
        _, stops, data = texts.take(pa.array(rows[first : first + PIECE])).buffers()  # copies each text at once
        size = int(np.frombuffer(stops, np.int64)[min(PIECE, len(rows) - first)])
        if size:
            yield memoryview(data)[:size]


def _together(
    tables: Sequence[tuple[Sequence[TextPieces], Ints]],
) -> tuple[list[TextPieces], list[Ints]]:
    """Concatenate the parts of several tables. Return the parts, and for each table the new text numbers of its
    rows."""
    parts: list[TextPieces] = []
    orders, base = [], 0
    for pieces, order in tables:
        orders.append(order + base if base else order)
        parts += pieces
        base += sum(len(part.ends) - 1 for part in pieces)
    return parts, orders
