"""Conversion of tables to the bytes of an Arrow stream, and back. Columns of several types are stored as text."""

from __future__ import annotations

import json
from io import BytesIO

import polars as pl
import pyarrow as pa

from cep.connectors.narrow_columns import ROWS, is_narrow, narrowed, widened
from cep.events import Iri

_MIXED = "mixed:"  # the prefix of the name of a column with values of several kinds, each as JSON
_SMALL = 1 << 16
"""The maximum size in bytes of a stream that is read with polars. For small streams, polars is faster than pyarrow,
which takes 20 microseconds per column."""


def pack(table: pl.DataFrame, narrow: bool = False) -> bytes:
    """Write a table as an Arrow stream.

    `narrow`: True to store whole numbers in fewer bytes (see `cep.connectors.narrow_columns`). Tables that have few
    rows are written with polars, which is five times as fast for them as pyarrow.
    """
    if table.height >= ROWS:
        return bytes(stream(table, narrow))
    sink = BytesIO()
    plain(table).write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return sink.getvalue()


def stream(table: pl.DataFrame, narrow: bool = False) -> pa.Buffer:
    """Write a table as an Arrow stream with pyarrow, and return the stream's buffer.

    For tables that contain many texts, pyarrow is ten times as fast as polars, which first converts its string views.
    """
    sink, arrow_table = pa.BufferOutputStream(), _arrow(table)
    _write(narrowed(arrow_table) if narrow else arrow_table, sink)
    return sink.getvalue()


def _arrow(table: pl.DataFrame) -> pa.Table:
    return plain(table).to_arrow(compat_level=pl.CompatLevel.oldest())


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def plain(table: pl.DataFrame) -> pl.DataFrame:
    """Convert columns that contain values of several types to text, and move them to the end of the table."""
    mixed = [name for name, dtype in zip(table.columns, table.dtypes, strict=True) if isinstance(dtype, pl.Object)]
    if not mixed:
        return table
    texts = [pl.Series(_MIXED + name, map(_text, table[name].to_list()), dtype=pl.String) for name in mixed]
    return table.drop(mixed).with_columns(texts)


def unpack(rows: bytes | pa.Buffer) -> pl.DataFrame:
    """Read a table from an Arrow stream. Columns that contain values of several types are the last ones."""
    if isinstance(rows, bytes) and len(rows) <= _SMALL and not is_narrow(rows):
        return unplain(pl.read_ipc_stream(rows))
    with pa.ipc.open_stream(rows) as reader:
        table = pl.from_arrow(widened(reader.read_all()))
    assert isinstance(table, pl.DataFrame), "a stream is a table"
    return unplain(table)


def unplain(table: pl.DataFrame) -> pl.DataFrame:
    """Restore the values of several types from the texts that the function `plain` has written."""
    for name in [name for name in table.columns if name.startswith(_MIXED)]:
        values = pl.Series(name.removeprefix(_MIXED), map(_value, table[name].to_list()), dtype=pl.Object)
        table = table.drop(name).with_columns(values)
    return table


def _text(value: object) -> str | None:
    if value is None:
        return None
    return json.dumps({"iri": str(value)} if isinstance(value, Iri) else value)


def _value(text: str | None) -> object:
    decoded = None if text is None else json.loads(text)
    return Iri(decoded["iri"]) if isinstance(decoded, dict) else decoded
