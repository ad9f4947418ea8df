"""Admission of whole tables, if checks of their columns show that every row fits and no row is late.

Such tables can be sent to other processes without checking row by row; those processes check the rows. All other tables
must be checked row by row (see `cep.runtime.admission`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import polars as pl

from cep.core.schema import ARRIVAL, CHANGE, Attribute, Schema
from cep.core.time import FARTHEST
from cep.core.values import MISSING
from cep.runtime.parts import EngineParts

Frames: TypeAlias = "dict[str, pl.DataFrame]"
Ends = tuple[int, int]
"""The earliest and the latest end of a table's rows."""


def fitting_tables(
    parts: EngineParts, batch: Mapping[str, pl.DataFrame], in_turn: bool = False
) -> tuple[Frames, dict[str, Ends]] | None:
    """Reduce each table to `@order` and the columns that an engine needs. Also return the earliest and the latest end
    in each table. If the start and end columns share their memory, the reduced table has one column `time` instead.

    Return None if a row may not fit its schema or may be late. `in_turn`: True to judge the lateness of a row also by
    the rows before it in the batch.
    """
    if parts.buffer.clocks is not None:
        return None
    tables: Frames = {}
    ends: dict[str, Ends] = {}
    position, ordered, increasing = parts.position, False, True
    for name, frame in batch.items():
        schema = parts.plan.schemas.get(name)
        if schema is None or name not in parts.plan.inputs or not _looked_at(frame, schema):
            return None
        if ARRIVAL in frame.columns:
            ordered = True
        else:
            frame = frame.with_columns(pl.Series(ARRIVAL, np.arange(position, position + frame.height)))
            position += frame.height
        fitted = _fitting(frame, schema)
        if fitted is None:
            return None
        tables[name], ends[name] = fitted
        increasing = increasing and bool(_end(tables[name]).is_sorted() and tables[name][ARRIVAL].is_sorted())
    if ordered and position != parts.position:
        return None
    first, last = min(earliest for earliest, _ in ends.values()), max(latest for _, latest in ends.values())
    if first <= parts.buffer.watermark:
        return None
    late = parts.buffer.lateness
    if in_turn and late is not None and not (len(tables) == 1 and increasing) and last - late - 1 >= first:
        return None
    return tables, ends


def _looked_at(frame: pl.DataFrame, schema: Schema) -> bool:
    return frame.height > 0 and schema.fluent is None and CHANGE not in frame.columns


def _end(table: pl.DataFrame) -> pl.Series:
    return table["end" if "end" in table.columns else "time"]


def _fitting(frame: pl.DataFrame, schema: Schema) -> tuple[pl.DataFrame, Ends] | None:
    columns = set(frame.columns)
    start = "start" if "start" in columns else "time"
    end = "end" if "end" in columns else start
    if not {start, ARRIVAL, *(attribute.name for attribute in schema.attributes)} <= columns:
        return None
    if any(frame[name].dtype != pl.Int64 or frame[name].null_count() for name in {start, end, ARRIVAL}):
        return None
    starts, stops = frame[start].to_numpy(), frame[end].to_numpy()
    alike = starts.ctypes.data == stops.ctypes.data
    first, last = int(stops.min()), int(stops.max())
    if not alike and not bool((starts == stops if schema.point else starts <= stops).all()):
        return None
    if (first if alike else int(starts.min())) < -FARTHEST or last > FARTHEST:
        return None
    if not all(_fits(frame[attribute.name], attribute) for attribute in schema.attributes):
        return None
    times = [frame[start].alias("time")] if alike else [frame[start].alias("start"), frame[end].alias("end")]
    return pl.DataFrame([*times, frame[ARRIVAL], *(frame[attribute.name] for attribute in schema.attributes)]), (
        first,
        last,
    )


def _fits(column: pl.Series, attribute: Attribute) -> bool:
    """Return True if every value of a column is valid for the attribute."""
    if column.null_count() and not attribute.optional:
        return False
    match attribute.type:
        case "int" | "time" | "duration":
            if column.dtype != pl.Int64 or column.null_count():
                return False
            values = column.to_numpy()
            least = int(values.min())
            if least == MISSING or (attribute.low is not None and least < attribute.low):
                return False
            return attribute.high is None or int(values.max()) <= attribute.high
        case "float":
            if column.dtype != pl.Float64 or column.null_count():
                return False
            numbers = column.to_numpy()
            if not np.isfinite(numbers).all() or (attribute.low is not None and numbers.min() < attribute.low):
                return False
            return attribute.high is None or bool(numbers.max() <= attribute.high)
        case "string" | "iri":
            return bool(column.dtype == pl.String)
        case "bool":
            return bool(column.dtype == pl.Boolean)
    return False
