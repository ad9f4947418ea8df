"""Derived rows in their output format, before they are sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa

from cep.connectors.writing.json_lines import Ints, TextPieces, one_array

PIECE = 1 << 14
"""The number of rows that are sorted at a time, so that rows which are written together are close in memory."""


class WrittenRows(pl.DataFrame):
    """The times of rows, whose texts are in `parts`: row i is text order[i], counted through all parts."""

    parts: Sequence[TextPieces]
    order: Ints

    @classmethod
    def of(cls, times: pl.DataFrame, parts: Sequence[TextPieces], order: Ints | None = None) -> Self:
        """Return rows whose order, if there is none, is that of the parts."""
        made = cls(times)
        made.parts = parts
        made.order = np.arange(times.height) if order is None else order
        return made


def stacked_rows(tables: Sequence[pl.DataFrame]) -> WrittenRows:
    """Concatenate the rows of tables, which are all `WrittenRows`."""
    parts, orders = together(tables)
    times = pl.concat([pl.DataFrame(table.get_columns()) for table in tables])
    return WrittenRows.of(times, parts, np.concatenate(orders))


def together(tables: Sequence[pl.DataFrame]) -> tuple[list[TextPieces], list[Ints]]:
    """Return the parts of all tables, which are all `WrittenRows`, and the numbers of each table's texts in them."""
    each = [(table.parts, table.order) for table in tables if isinstance(table, WrittenRows)]
    assert len(each) == len(tables), "rows of an event are written, or they are not"
    return _together(each)


def in_order(tables: Sequence[tuple[Sequence[TextPieces], Ints]], order: Ints | None = None) -> Iterator[memoryview]:
    """Return the rows of several (parts, numbers of the texts of rows) in a common order, piece by piece. The order
    numbers the rows of the first before those of the second."""
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
    """Return the parts of all, and the numbers of each table's texts in them."""
    parts: list[TextPieces] = []
    orders, base = [], 0
    for each, order in tables:
        orders.append(order + base if base else order)
        parts += each
        base += sum(len(part.ends) - 1 for part in each)
    return parts, orders
