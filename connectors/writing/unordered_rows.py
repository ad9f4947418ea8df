"""Derived rows that have been converted to the text of the output, but not yet sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa

from cep.connectors.writing.json_lines import Ints, TextPieces, one_array

PIECE = 1 << 14
"""The number of rows whose texts are copied at a time, so few that these texts are close together in memory."""


class WrittenRows(pl.DataFrame):
    """A table of derived rows, with their texts for the output. The columns of the table contain only the times.

    - `parts`: pieces of text, one after another. Each piece contains the texts of several rows.
    - `order`: for each row, the position of its text among the texts of all parts.
    """

    parts: Sequence[TextPieces]
    order: Ints

    @classmethod
    def of(cls, times: pl.DataFrame, parts: Sequence[TextPieces], order: Ints | None = None) -> Self:
        """Create a table from the times and texts of rows. If `order` is None, both are in the same order."""
        rows = cls(times)
        rows.parts = parts
        rows.order = np.arange(times.height) if order is None else order
        return rows


def stacked_rows(tables: Sequence[pl.DataFrame]) -> WrittenRows:
    """Concatenate tables, which must be `WrittenRows`."""
    parts, orders = together(tables)
    times = pl.concat([pl.DataFrame(table.get_columns()) for table in tables])
    return WrittenRows.of(times, parts, np.concatenate(orders))


def together(tables: Sequence[pl.DataFrame]) -> tuple[list[TextPieces], list[Ints]]:
    """Concatenate the parts of several tables, which must be `WrittenRows`.

    Return all parts, and for each table the positions of its rows' texts among the texts of all parts.
    """
    pairs = [(table.parts, table.order) for table in tables if isinstance(table, WrittenRows)]
    assert len(pairs) == len(tables), "rows of an event are written, or they are not"
    return _together(pairs)


def in_order(tables: Sequence[tuple[Sequence[TextPieces], Ints]], order: Ints | None = None) -> Iterator[memoryview]:
    """Yield the texts of the rows of several tables in a common order. Each piece contains the texts of some rows.

    - `tables`: the `parts` and the `order` of each table (see `WrittenRows`).
    - `order`: the positions of the rows in the concatenated tables, in the order of the output. None means the order of
      the tables.
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
    """Concatenate the parts of several tables.

    Return all parts, and for each table the positions of its rows' texts among the texts of all parts.
    """
    parts: list[TextPieces] = []
    orders, base = [], 0
    for pieces, order in tables:
        orders.append(order + base if base else order)
        parts += pieces
        base += sum(len(part.ends) - 1 for part in pieces)
    return parts, orders
