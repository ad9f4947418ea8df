"""A table as the bytes of an Arrow stream, and back; columns of mixed values are texts."""

from __future__ import annotations

import json
from io import BytesIO

import polars as pl

from cep.events import Iri

_MIXED = "mixed:"  # before the name of a column whose values are of several kinds, each as JSON


def pack(table: pl.DataFrame) -> bytes:
    """A table as an Arrow stream."""
    mixed = [name for name in table.columns if table[name].dtype == pl.Object]
    if mixed:
        texts = [pl.Series(_MIXED + name, map(_text, table[name].to_list()), dtype=pl.String) for name in mixed]
        table = table.drop(mixed).with_columns(texts)
    sink = BytesIO()
    table.write_ipc_stream(sink)
    return sink.getvalue()


def unpack(rows: bytes) -> pl.DataFrame:
    """The table again; columns of mixed values come last."""
    table = pl.read_ipc_stream(BytesIO(rows)).rechunk()
    for name in [name for name in table.columns if name.startswith(_MIXED)]:
        values = pl.Series(name.removeprefix(_MIXED), map(_value, table[name].to_list()), dtype=pl.Object)
        table = table.drop(name).with_columns(values)
    return table


def _text(value: object) -> str | None:
    if value is None:
        return None
    return json.dumps({"iri": str(value)} if isinstance(value, Iri) else value)


def _value(text: str | None) -> object:
    found = None if text is None else json.loads(text)
    return Iri(found["iri"]) if isinstance(found, dict) else found
