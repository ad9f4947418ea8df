"""A reader of Parquet files. It reads only the needed columns, row group by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.formats.column_times import column_ticks, fitting, mismatch, refuse, without, written_times
from cep.connectors.formats.nested_columns import Reasons, flattened, leaves, resolved
from cep.connectors.records.batch import Block, DeadLetter
from cep.connectors.records.columns import intervals, quoted_numbers, text_cells
from cep.connectors.records.header import bind
from cep.connectors.records.numbers import GOOD
from cep.connectors.records.paths import EACH, Path, source_of, sources, written
from cep.connectors.records.record_tests import ColumnValues, passed
from cep.connectors.records.records import NO_EVENT, interval, part_patterns, time_keys
from cep.connectors.records.times import (
    form,
)
from cep.connectors.records.values import FALSE_WORDS, NOT_IRI, TRUE_WORDS, Unreadable, text_time, text_value
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, Attribute, Schema
from cep.core.storage.files import opened
from cep.core.storage.urls import is_url
from cep.core.unpacking import UnpackedTooLarge, check_unpacked

_EMPTY: dict[str, type[pl.DataType]] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
    "time": pl.Int64,
    "duration": pl.Int64,
}


def open_parquet(file: str) -> pq.ParquetFile:
    """Open the file and read its footer. Raise CepError if it is not Parquet, or too large when decompressed."""
    try:
        parquet = pq.ParquetFile(opened(file), pre_buffer=True) if is_url(file) else pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise CepError(f"{file}: this is not a valid Parquet file: {first_line(error)}", code="input") from None
    chunks = _chunks(parquet.metadata)
    try:
        check_unpacked(sum(unpacked for unpacked, _ in chunks), sum(packed for _, packed in chunks))
    except UnpackedTooLarge as error:
        parquet.close()
        raise CepError(f"{file}: {error}", code="input") from None
    return parquet


def _chunks(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return [(column.total_uncompressed_size, column.total_compressed_size) for column in columns]


def _type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return "string"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    return "bool" if pa.types.is_boolean(kind) else "int" if pa.types.is_integer(kind) else "float"


def read_parquet(
    file: str, opened: pq.ParquetFile, schemas: Sequence[Schema], rows: int, first: int
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]]:
    """Yield blocks of at most `rows` rows: the tables by event type, the dead letters, and the records' positions.

    `schemas`: one schema, or several schemas whose WHEN conditions select the rows of each event type. Raise CepError
    if a column is missing or has a wrong type.
    """
    arrow = opened.schema_arrow
    events, columns = [], dict[str, None]()
    for schema in schemas:
        keys = [key for key in (schema.time, *schema.further, schema.start, schema.end) if key is not None]
        nested = resolved(arrow, sources(schema, keys))
        events.append(bind(file, schema, [*arrow.names, *nested], {batch.name: _type(batch.type) for batch in arrow}))
        columns |= dict.fromkeys(columns_of(events[-1], nested))
    yield from read_events(file, _batches(file, opened, rows, list(columns)), events, first)


def read_events(
    file: str, batches: Iterable[pa.RecordBatch], schemas: Sequence[Schema], first: int
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]]:
    """Yield, for each Arrow batch, the table of each event type, the dead letters, and the positions of the records.

    If an event type has a WHEN condition, its table contains only the rows that satisfy the condition. Record numbers
    start at `first` and follow the order of the rows. Raise CepError as `read_batches` does.
    """
    if len(schemas) == 1 and schemas[0].when is None:
        for table, dead, block in read_batches(file, batches, schemas[0], first):
            yield {schemas[0].name: table}, dead, block
        return
    line = 1
    for batch in batches:
        parts = [next(read_batches(file, [batch], schema, 0, line)) for schema in schemas]
        every = [
            block.lines if block.lines is not None else np.arange(line, line + block.count) for _, _, block in parts
        ]
        lines = np.concatenate(every)
        order = np.lexsort((np.repeat(np.arange(len(every)), [len(rows) for rows in every]), lines))
        numbers = np.empty(len(lines), np.int64)
        numbers[order] = np.arange(first, first + len(lines))
        tables, dead, position = {}, list[DeadLetter](), 0
        for schema, (table, refused, block) in zip(schemas, parts, strict=True):
            mine = numbers[position : position + block.count]
            tables[schema.name] = table.with_columns(pl.Series(ARRIVAL, mine[table[ARRIVAL].to_numpy()]))
            dead += [replace(record, event=schema.name) for record in refused] if len(schemas) > 1 else refused
            position += block.count
        none = np.setdiff1d(np.arange(line, line + batch.num_rows), lines)
        if schemas[0].strict:
            dead += [DeadLetter(file, row, NO_EVENT, "type", None) for row in none.tolist()]
            none = none[:0]
        times = next((block.times for *_, block in parts if block.times is not None), None)
        block = Block(file, first, len(lines), line, lines[order], times=times, unmatched=len(none))
        yield tables, sorted(dead, key=lambda record: record.line), block
        line += batch.num_rows
        first += len(lines)


def columns_of(schema: Schema, nested: Mapping[str, Path] | None = None) -> list[str]:
    """Return the columns that an event type needs. `schema`: a schema whose time columns are filled in.

    `nested`: the path of each source that lies inside a nested column.
    """
    inner = nested or {}
    return list(
        dict.fromkeys(inner[source][0] if source in inner else source for source in sources(schema, time_keys(schema)))
    )


def read_batches(
    file: str, batches: Iterable[pa.RecordBatch], schema: Schema, first: int, line: int = 1
) -> Iterator[tuple[pl.DataFrame, list[DeadLetter], Block]]:
    """Yield, for each Arrow batch, the table of one event type, the dead letters, and the positions of the records.
    Columns are not copied if that is possible.

    - `schema`: a schema whose time columns are filled in (see `cep.connectors.records.header.bind`).
    - `line`: the line number of the first row.
    - `first`: the record number of the first row.

    Raise CepError if a column has a wrong type.
    """
    keys = time_keys(schema)
    wanted = list(dict.fromkeys(sources(schema, keys)))
    for batch in batches:
        nested = resolved(batch.schema, wanted)
        plain = [name for name in wanted if name not in nested]
        for name in plain:
            if pa.types.is_nested(batch.schema.field(name).type):
                raise _holds_more(file, batch.schema, name, next(iter(leaves(batch.schema, name)), (name,)))
        reasons: Reasons = {}
        lines = None
        height = batch.num_rows
        if nested:
            batch, place = flattened(batch, plain, nested, reasons)
            lines = place + line
        columns = pl.DataFrame(pl.from_arrow(_textual(batch, reasons)))
        if schema.when is not None:
            kept = np.flatnonzero(passed(schema, lambda source, columns=columns: ColumnValues(columns[source])))  # type: ignore[misc]
            lines = kept + line if lines is None else lines[kept]
            columns = columns[kept]
            reasons = {new: reasons[old] for new, old in enumerate(kept.tolist()) if old in reasons}
        n = columns.height
        block = Block(file, first, n, line, lines)
        start, end = _times(file, columns, schema, reasons)
        series = [
            start.alias("start"),
            end.alias("end"),
            pl.Series(ARRIVAL, np.arange(first, first + n, dtype=np.int64)),
        ]
        for attribute in schema.attributes:
            column = _present(columns[source_of(attribute)], attribute)
            series.append(_column(file, column, attribute, reasons).alias(attribute.name))
        table = pl.DataFrame(series)
        if reasons:
            good = np.ones(n, np.bool_)
            good[list(reasons)] = False
            table = table.filter(pl.Series(good))
        if table.height:
            kind = columns[keys[0]].dtype
            number = not schema.further and kind.is_numeric()
            block = replace(block, times=form(None if kind.is_temporal() else schema.format, number))
        dead = [
            DeadLetter(file, line + row if lines is None else int(lines[row]), reason, code, None)
            for row, (code, reason) in sorted(reasons.items())
        ]
        yield table, dead, block
        line += height
        first += n


def _times(file: str, columns: pl.DataFrame, schema: Schema, reasons: Reasons) -> tuple[pl.Series, pl.Series]:
    """Return the start and the end of each row. The start or the end is null if the row lacks this time."""
    keys = time_keys(schema)
    if len(keys) == 2 and keys[0] == keys[1] and columns[keys[0]].dtype == pl.String:
        return _intervals(columns[keys[0]], schema, reasons)
    times = []
    in_parts = [_joined([columns[key] for key in keys], schema)] if schema.further else []
    for column in in_parts or [columns[key] for key in keys]:
        key = ", ".join(keys) if in_parts else column.name
        ticks = column_ticks(file, column, Attribute(key, "time", format=schema.format), reasons, "time")
        for row in np.flatnonzero(ticks.is_null().to_numpy()).tolist():
            lacking = next((key for key in keys if columns[key][row] is None), key) if in_parts else key
            reasons.setdefault(row, ("time", f"no time: `{lacking}` is missing"))
        times.append(ticks)
    return times[0], times[-1]


def _intervals(column: pl.Series, schema: Schema, reasons: Reasons) -> tuple[pl.Series, pl.Series]:
    start, end, states = intervals(schema, text_cells(column))
    for row in np.flatnonzero(states != GOOD).tolist():
        try:
            if column[row] is None:
                raise Unreadable("time", f"no time: `{column.name}` is missing")
            read = partial(text_time, format=schema.format)
            start[row], end[row] = interval(column.name, column[row], read, schema)
        except Unreadable as reason:
            reasons.setdefault(row, (reason.code, reason.reason))
    return pl.Series(start), pl.Series(end)


def _holds_more(file: str, schema: pa.Schema, name: str, steps: Path) -> CepError:
    what = "a list" if EACH in steps[:2] else "a struct"
    hint = f'read a value inside it, with `FROM "{written(steps)}"`'
    return CepError(f"{file}: the column `{name}` holds {what}, {schema.field(name).type}", hint=hint, code="input")


def _joined(columns: Sequence[pl.Series], schema: Schema) -> pl.Series:
    texts: list[pl.Series] = []
    for column, pattern in zip(columns, part_patterns(schema.format, len(columns))):
        if isinstance(column.dtype, pl.Datetime) and not texts:
            column = column.dt.date()
        clock = column.dtype == pl.Time
        text = column.dt.to_string("%H:%M:%S%.f") if clock else written_times(column, pattern)
        texts.append(text.str.strip_chars(" \t"))
    return reduce(lambda whole, text: whole + " " + text, texts).alias("time")


def _present(column: pl.Series, attribute: Attribute) -> pl.Series:
    if not attribute.missing:
        return column
    if column.dtype.is_numeric():
        numbers = [float(value) for value in attribute.missing if not isinstance(value, str)]
        return column.set(column.cast(pl.Float64).is_in(numbers).fill_null(False), None) if numbers else column
    if column.dtype == pl.String or isinstance(column.dtype, (pl.Categorical, pl.Enum)):
        texts = column.cast(pl.String)
        return texts.set(texts.is_in([str(value) for value in attribute.missing]).fill_null(False), None)
    return column


def _batches(file: str, opened: pq.ParquetFile, rows: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from opened.iter_batches(batch_size=rows, columns=columns)
    except pa.ArrowException as error:
        raise CepError(f"{file}: {first_line(error)}", code="input") from None


def _textual(batch: pa.RecordBatch, reasons: Reasons) -> pa.RecordBatch:
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


def first_line(error: Exception) -> str:
    """Return the first line of an error message from another library, in lower case."""
    return str(error).partition("\n")[0].rstrip(".").lower()


def _column(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons) -> pl.Series:
    dtype = column.dtype
    match attribute.type:
        case "time" | "duration":
            return column_ticks(file, column, attribute, reasons, "ill-typed")
        case "bool" if dtype == pl.Boolean:
            return column
        case "bool" if dtype.is_integer() or dtype == pl.String:
            words = column.cast(pl.String).str.strip_chars(" \t").str.to_lowercase()
            values = pl.select(pl.when(words.is_in(TRUE_WORDS)).then(True).when(words.is_in(FALSE_WORDS)).then(False))
            answers = values.to_series()
            refuse(answers.is_null() & column.is_not_null(), column, attribute, "is not a boolean", reasons)
            return answers
        case "string" | "iri" | "any" if dtype == pl.String or isinstance(dtype, (pl.Categorical, pl.Enum)):
            texts = column.cast(pl.String)
            if attribute.type == "iri":
                wrong = texts.str.contains(NOT_IRI.pattern) | (texts == "")
                refuse(wrong, texts, attribute, "is not an IRI", reasons)
            return texts
        case "any" if dtype == pl.Boolean:
            return column
        case "int" | "float" if attribute.quoted and dtype == pl.String:
            return _quoted(column, attribute, reasons)
        case "int" | "any" if dtype.is_integer():
            return fitting(column, attribute, reasons)
        case "int" if dtype.is_float() or dtype.is_decimal():
            return _whole(column, attribute, reasons)
        case "float" | "any" if dtype.is_numeric():
            numbers = column.cast(pl.Float64)
            refuse(numbers.is_infinite(), column, attribute, "is too large for a float", reasons)
            return numbers.fill_nan(None) if numbers.is_nan().any() else numbers
    if dtype == pl.Null:
        return pl.Series(attribute.name, [None] * len(column), dtype=_EMPTY.get(attribute.type, pl.String))
    raise mismatch(file, column, attribute)


def _quoted(column: pl.Series, attribute: Attribute, reasons: Reasons) -> pl.Series:
    numbers, odd = quoted_numbers(attribute, column)
    for row in odd.tolist():
        try:
            numbers[row] = text_value(attribute, column[row] or None, declarable=False)
        except Unreadable as reason:
            reasons.setdefault(row, (reason.code, reason.reason))
    return numbers


def _whole(column: pl.Series, attribute: Attribute, reasons: Reasons) -> pl.Series:
    """Convert floats and decimals to integers. A number that is not whole becomes null, with a reason in `reasons`."""
    if column.dtype.is_float():
        column = column.cast(pl.Float64).fill_nan(None)
        whole = without(column, (column.abs() >= 2.0**63) | (column != column.round(0))).cast(pl.Int64)
    else:
        whole = column.cast(pl.Int64, strict=False)
        whole = without(whole, whole.cast(column.dtype, strict=False) != column)
    odd = whole.is_null() & column.is_not_null()
    refuse(odd, column, attribute, "is not an integer that fits in 64 bits", reasons)
    return whole
