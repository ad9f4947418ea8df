"""Parquet to batches: typed columns, only the needed ones, row group by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, Attribute, Schema
from connectors.batch import Block, DeadLetter
from connectors.header import bind
from connectors.records import NOT_IRI, time_keys
from connectors.times import (
    FIRST,
    LARGEST,
    LAST,
    OUTSIDE,
    SECOND,
    beyond,
    is_number,
    of_duration,
    of_iso,
    scaled,
    shown,
)

_MICROSECONDS = {"ms": 1_000, "us": 1, "ns": 0}  # 0: less than one
_FITS = {
    "int": "whole numbers",
    "float": "numbers",
    "string": "strings",
    "iri": "strings",
    "bool": "booleans",
    "time": "datetimes, dates, seconds or ISO 8601 strings",
    "duration": "durations or seconds",
    "any": "numbers, strings or booleans",
}


_EMPTY: dict[str, type[pl.DataType]] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
    "time": pl.Int64,
    "duration": pl.Int64,
}

Reasons = dict[int, tuple[str, str]]
"""Why rows cannot be read: a code and a reason by row; the first found stays."""


def open_parquet(file: str) -> pq.ParquetFile:
    """The file's footer. CepError: it is no Parquet file."""
    try:
        return pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise CepError(f"{file}: no Parquet file: {_first(error)}", code="input") from None


def _type(kind: pa.DataType) -> str:
    """The type that a declaration would give a column."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return "string"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    return "bool" if pa.types.is_boolean(kind) else "int" if pa.types.is_integer(kind) else "float"


def read_parquet(
    file: str, opened: pq.ParquetFile, schema: Schema, rows: int, first: int
) -> Iterator[tuple[pl.DataFrame, list[DeadLetter], Block]]:
    """Tables of one event of up to `rows` rows. CepError: a column is missing or holds something else."""
    bound = bind(file, schema, opened.schema_arrow.names, {each.name: _type(each.type) for each in opened.schema_arrow})
    yield from read_batches(file, _batches(file, opened, rows, columns_of(bound)), bound, first)


def columns_of(schema: Schema) -> list[str]:
    """The columns that are read for an event whose time columns are said."""
    sources = (attribute.source or attribute.name for attribute in schema.attributes)
    return list(dict.fromkeys([*time_keys(schema), *sources]))


def read_batches(
    file: str, batches: Iterable[pa.RecordBatch], schema: Schema, first: int
) -> Iterator[tuple[pl.DataFrame, list[DeadLetter], Block]]:
    """Tables of one event from Arrow batches; `schema` says its time columns (`connectors.header.bind`), the first row
    has the number `first`. A column goes on as it is where that can be, without a copy. CepError: it holds something
    else."""
    keys = time_keys(schema)
    line = 1
    for batch in batches:
        reasons: Reasons = {}
        columns = pl.DataFrame(pl.from_arrow(_textual(batch, reasons)))
        n = columns.height
        block = Block(file, first, n, line)
        times = []
        for key in keys:
            ticks = _ticks(file, columns[key], Attribute(key, "time"), reasons, "time")
            for row in np.flatnonzero(ticks.is_null().to_numpy()).tolist():
                reasons.setdefault(row, ("time", f"no time: `{key}` is missing"))
            times.append(ticks)
        found = [
            times[0].alias("start"),
            times[-1].alias("end"),
            pl.Series(ARRIVAL, np.arange(first, first + n, dtype=np.int64)),
        ]
        for attribute in schema.attributes:
            column = columns[attribute.source or attribute.name]
            found.append(_column(file, column, attribute, reasons).alias(attribute.name))
        table = pl.DataFrame(found)
        if reasons:
            good = np.ones(n, np.bool_)
            good[list(reasons)] = False
            table = table.filter(pl.Series(good))
        if table.height:
            block = replace(block, times="seconds" if columns[keys[0]].dtype.is_numeric() else "iso")
        dead = [DeadLetter(file, line + row, reason, code, None) for row, (code, reason) in sorted(reasons.items())]
        yield table, dead, block
        line += n
        first += n


def _batches(file: str, opened: pq.ParquetFile, rows: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from opened.iter_batches(batch_size=rows, columns=columns)
    except pa.ArrowException as error:
        raise CepError(f"{file}: {_first(error)}", code="input") from None


def _textual(batch: pa.RecordBatch, reasons: Reasons) -> pa.RecordBatch:
    """The same; texts that are not UTF-8, which nobody has looked at, are missing, and their rows noted."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            try:
                (column.dictionary if pa.types.is_dictionary(column.type) else column).validate(full=True)
            except pa.ArrowInvalid:
                column = _decoded(name, column, reasons)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _decoded(name: str, column: pa.Array, reasons: Reasons) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    texts: list[str | None] = []
    for row, raw in enumerate(plain.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if raw is None else raw.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
            reasons.setdefault(row, ("utf-8", f"{name}: a text is not UTF-8"))
    return pa.array(texts, pa.large_string())


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".").lower()


def _column(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons) -> pl.Series:
    dtype = column.dtype
    match attribute.type:
        case "time" | "duration":
            return _ticks(file, column, attribute, reasons, "ill-typed")
        case "bool" if dtype == pl.Boolean:
            return column
        case "string" | "iri" | "any" if dtype == pl.String or isinstance(dtype, (pl.Categorical, pl.Enum)):
            texts = column.cast(pl.String)
            if attribute.type == "iri":
                wrong = texts.str.contains(NOT_IRI.pattern) | (texts == "")
                _refuse(wrong, texts, attribute, "is no IRI", reasons)
            return texts
        case "any" if dtype == pl.Boolean:
            return column
        case "int" | "any" if dtype.is_integer():
            return _fitting(column, attribute, reasons)
        case "int" if dtype.is_float() or dtype.is_decimal():
            return _whole(column, attribute, reasons)
        case "float" | "any" if dtype.is_numeric():
            numbers = column.cast(pl.Float64)
            _refuse(numbers.is_infinite(), column, attribute, "is beyond the floats", reasons)
            return numbers.fill_nan(None) if numbers.is_nan().any() else numbers
    if dtype == pl.Null:
        return pl.Series(attribute.name, [None] * len(column), dtype=_EMPTY.get(attribute.type, pl.String))
    raise _mismatch(file, column, attribute)


def _mismatch(file: str, column: pl.Series, attribute: Attribute) -> CepError:
    return CepError(
        f"{file}: the column `{column.name}` holds {column.dtype}; {attribute.type} wants {_FITS[attribute.type]}",
        code="input",
    )


def _ticks(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Microseconds; nanoseconds and decimals of seconds round half to even. A float's NaN is missing."""
    if attribute.type == "duration":
        return _counted(file, column, attribute, reasons, code)
    if column.dtype.is_numeric():
        column = _seconds(column, attribute, reasons, code)
    ticks = _counted(file, column, attribute, reasons, code)
    far = ((ticks < FIRST) | (ticks > LAST)).fill_null(False)
    for row in np.flatnonzero(far.to_numpy()).tolist():
        reasons.setdefault(row, (code, f"{attribute.name}: {OUTSIDE}"))
    return _without(ticks, far)


def _seconds(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Numbers of seconds without those that lie beyond the calendar, of which perhaps the unit is wrong."""
    sizes = column.cast(pl.Float64).fill_nan(None)
    far = ((sizes < FIRST / SECOND) | (sizes > LAST / SECOND)).fill_null(False)
    for row in np.flatnonzero(far.to_numpy()).tolist():
        text = str(column[row])
        why = beyond(Decimal(text)) if is_number(text) else OUTSIDE
        reasons.setdefault(row, (code, f"{attribute.name}: `{shown(text)}` {why}"))
    return column.zip_with(~far, pl.Series([None], dtype=column.dtype).new_from_index(0, len(column)))


def _counted(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """What is as many microseconds; nanoseconds and decimals round half to even."""
    dtype = column.dtype
    calendar = attribute.type == "time"
    if dtype == pl.Null:
        return pl.Series(column.name, [None] * len(column), dtype=pl.Int64)
    if isinstance(dtype, pl.Datetime if calendar else pl.Duration):
        return _scaled(column.to_physical(), _MICROSECONDS[dtype.time_unit], attribute, reasons, code)
    if calendar and dtype == pl.Date:
        return column.cast(pl.Datetime("us")).to_physical()
    if dtype.is_integer():
        return _scaled(_fitting(column, attribute, reasons, code), SECOND, attribute, reasons, code)
    if dtype.is_float():
        column = column.cast(pl.Float64).fill_nan(None)
        far = column.abs() > LARGEST // SECOND
        far = _refuse(far, column, attribute, "is beyond 64 bits of microseconds", reasons, code)
        column = _without(column, far)
        whole = column.floor()  # so that what is multiplied has bits to spare
        micros = ((column - whole) * SECOND).round(0, mode="half_to_even")
        return whole.cast(pl.Int64) * SECOND + micros.cast(pl.Int64)
    if dtype.is_decimal() or dtype == pl.String:
        return _parsed(column, attribute, reasons, code)
    raise _mismatch(file, column, attribute)


def _scaled(column: pl.Series, unit: int, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Counts of a unit of so many microseconds, 0 for nanoseconds, as microseconds."""
    if unit == 0:
        whole = column // 1000
        rest = column - whole * 1000
        return whole + ((rest > 500) | ((rest == 500) & (whole % 2 == 1))).cast(pl.Int64)
    far = (column > LARGEST // unit) | (column < -(LARGEST // unit))
    far = _refuse(far, column, attribute, "is beyond 64 bits of microseconds", reasons, code)
    return _without(column, far) if unit == 1 else _without(column, far) * unit


def _parsed(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Texts or decimals, each different one once."""
    exact = column.dtype != pl.String
    read: dict[str, int | None] = {}
    texts = column.cast(pl.String)
    different = texts.unique().drop_nulls()
    for text in different.to_list():
        try:
            read[text] = scaled(text) if exact else of_iso(text) if attribute.type == "time" else of_duration(text)
        except ValueError:
            read[text] = None
    found = texts.replace_strict(different, [read[t] for t in different.to_list()], default=None, return_dtype=pl.Int64)
    _refuse(found.is_null() & texts.is_not_null(), texts, attribute, f"is no {attribute.type}", reasons, code)
    return found


def _fitting(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str = "ill-typed") -> pl.Series:
    """Integers of any width as 64 bits."""
    fits = column.cast(pl.Int64, strict=False)
    far = (fits.is_null() & column.is_not_null()) | (fits == -LARGEST - 1)
    return _without(fits, _refuse(far, column, attribute, "is an integer of more than 64 bits", reasons, code))


def _whole(column: pl.Series, attribute: Attribute, reasons: Reasons) -> pl.Series:
    """Floats and decimals that are whole, as integers."""
    if column.dtype.is_float():
        column = column.cast(pl.Float64).fill_nan(None)
        whole = _without(column, (column.abs() >= 2.0**63) | (column != column.round(0))).cast(pl.Int64)
    else:
        whole = column.cast(pl.Int64, strict=False)
        whole = _without(whole, whole.cast(column.dtype, strict=False) != column)
    odd = whole.is_null() & column.is_not_null()
    _refuse(odd, column, attribute, "is no integer of 64 bits", reasons)
    return whole


def _refuse(
    wrong: pl.Series, column: pl.Series, attribute: Attribute, why: str, reasons: Reasons, code: str = "ill-typed"
) -> pl.Series:
    """Note the rows that are wrong; which they are, without missing ones."""
    wrong = wrong.fill_null(False)
    if wrong.any():
        for row in np.flatnonzero(wrong.to_numpy()).tolist():
            reasons.setdefault(row, (code, f"{attribute.name}: `{shown(str(column[row]))}` {why}"))
    return wrong


def _without(column: pl.Series, wrong: pl.Series) -> pl.Series:
    return column.set(wrong.fill_null(False), None) if wrong.any() else column
