"""Convert pushed events to tables that can be sent to workers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from cep.core.schema import ARRIVAL, Schema
from cep.events import Event

COLUMNS = {"float": pl.Float64, "string": pl.String, "iri": pl.String, "bool": pl.Boolean, "any": pl.Object}


def as_table(events: Sequence[Event], schema: Schema) -> pl.DataFrame:
    """Convert valid events of one type to a table."""
    columns = [pl.Series(key, [getattr(event, key) for event in events], dtype=pl.Int64) for key in ("start", "end")]
    for i, attribute in enumerate(schema.attributes):
        values = [event.args[i] for event in events]
        columns.append(pl.Series(attribute.name, values, dtype=COLUMNS.get(attribute.type, pl.Int64), strict=False))
    return pl.DataFrame(columns)


def taken_columns(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return a pushed table with only the columns that an engine uses, and `@order`."""
    start = frame["start" if "start" in frame.columns else "time"].alias("start")
    end = frame["end"] if "end" in frame.columns else start.alias("end")
    present = [attribute.name for attribute in schema.attributes if attribute.name in frame.columns]
    lacking = [
        pl.Series(attribute.name, [None] * frame.height)
        for attribute in schema.attributes
        if attribute.name not in present
    ]
    return pl.DataFrame([start, end, frame[ARRIVAL], *(frame[name] for name in present), *lacking])
