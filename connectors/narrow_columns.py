"""A compact form of Arrow tables that stores whole numbers in fewer bytes, for tables that processes exchange and log.

For a column of similar numbers, the differences from the minimum are stored. For a column that equals an earlier
column, nothing is stored. The metadata of the column's field describe how to restore the column.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROWS = 1 << 10
"""The minimum number of rows of a table that is converted to the compact form."""

_LEAST, _LIKE = b"semcep.least", b"semcep.like"
_WIDTHS = tuple((1 << bits, np.dtype(f"u{bits // 8}")) for bits in (8, 16, 32))


def narrowed(table: pa.Table) -> pa.Table:
    """Return the table in its compact form. Columns that this form would not make smaller stay unchanged."""
    if table.num_rows < ROWS or sys.byteorder != "little":
        return table
    known: list[tuple[str, int, NDArray[Any]]] = []
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        narrow_column, said = _narrow(field.name, column, known)
        columns.append(narrow_column)
        fields.append(pa.field(field.name, narrow_column.type, metadata=said) if said else field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _narrow(
    name: str, column: pa.ChunkedArray, known: list[tuple[str, int, NDArray[Any]]]
) -> tuple[Any, Mapping[bytes, bytes] | None]:
    """Return the compact form of a column, and the metadata of its field.

    If the column stays unchanged, the metadata are None. `known`: the name, the minimum and the stored differences of
    each compact column so far.
    """
    if column.type != pa.int64() or column.null_count:
        return column, None
    values = column.to_numpy()
    least = int(values.min())
    span = int(values.max()) - least
    dtype = next((dtype for below, dtype in _WIDTHS if span < below), None)
    if dtype is None:
        return column, None
    # The lowest bytes of a difference depend only on the lowest bytes of its operands.
    small = values.view(dtype)[:: 8 // dtype.itemsize] - np.array(least & ((1 << 8 * dtype.itemsize) - 1), dtype)
    for other, least_of, earlier in known:
        if least_of == least and earlier.dtype == dtype and np.array_equal(earlier, small):
            return pa.nulls(len(small)), {_LIKE: other.encode()}
    known.append((name, least, small))
    return pa.array(small), {_LEAST: str(least).encode()}


def is_narrow(stream: bytes) -> bool:
    """Return True if the schema at the beginning of an Arrow stream contains compact columns."""
    return _LEAST in stream[: 8 + int.from_bytes(stream[4:8], "little")]


def widened(table: pa.Table) -> pa.Table:
    """Restore the original columns of a table that `narrowed` has converted. Other tables are returned unchanged."""
    if not any(_LEAST in (field.metadata or {}) for field in table.schema):
        return table
    columns: dict[str, Any] = {}
    fields = []
    for field, column in zip(table.schema, table.columns, strict=True):
        said = field.metadata or {}
        if _LEAST in said:
            values = column.to_numpy().astype(np.int64)
            values += int(said[_LEAST])
            column = pa.array(values)
        elif _LIKE in said:
            column = columns[said[_LIKE].decode()]
        columns[field.name] = column
        fields.append(pa.field(field.name, pa.int64()) if _LEAST in said or _LIKE in said else field)
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
