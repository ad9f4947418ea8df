"""Conversion of data in a Python session to batches: data frames of polars and pandas, Arrow tables, arrays, records.

Columns must have the names that the declarations use. All data are converted to Arrow batches, and then read like
Parquet (see `cep.connectors.formats.parquet`). Data that have Arrow's memory layout are not copied. Columns that the
program does not use are not read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.connectors.formats.nested_columns import leaves, resolved
from cep.connectors.formats.parquet import columns_of, first_line, read_events
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.connectors.records.double_hours import FoldedTables
from cep.connectors.records.header import bind
from cep.connectors.records.order import in_order
from cep.connectors.records.paths import Path, path, sources, written
from cep.connectors.records.records import closest
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.rules.static.materialized import type_of

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1 << 17
"""The number of rows in a batch."""

TAKEN = (
    "data are a data frame of polars or pandas, an Arrow table or stream, `{column: array}`, a list of records (dicts) "
    "or of `Event`, several of them in turn, or `{event: data}`"
)


@dataclass(frozen=True, slots=True)
class _Table:
    """Data that consist of columns.

    - `types`: for each column, the type to use in a declaration.
    - `rows`: a function that returns the rows of the columns with the given names.
    - `hint`: the hint of an error about a missing column, or None.
    - `unnamed`: True if an index that has no name contains times.
    """

    names: Sequence[str]
    types: Mapping[str, str]
    rows: Callable[[list[str]], Iterable[pa.RecordBatch]]
    hint: str | None = None
    unnamed: bool = False


def read_data(
    data: Any,
    schemas: Mapping[str, Schema],
    only: str | None,
    first: int = 0,
    rows: int = ROWS,
    folded: FoldedTables | None = None,
    together: bool = False,
) -> Iterator[Batch]:
    """Yield the data as batches. `data`: columns, records, or a dictionary of columns or records by event type.

    - `only`: the event type of rows that do not name their event type. It is None if every row must name it.
    - `first`: the record number of the first row.
    - `folded`: the object that has assigned the times of earlier data to the passes of double hours (see
      `cep.connectors.records.double_hours`). It is None if there is no earlier data.
    - `together`: True to put the rows of all event types into one batch. In this batch, the order of the rows has no
      meaning, so none of them is late.

    The blocks of the batches contain the name of the data as `file`: the text `data`, or `data["reading"]` for the
    dictionary's entry `reading`. Raises CepError if the data do not match the declarations or cannot be read.
    """
    if not schemas:
        raise CepError("the program reads no events", hint="use an input event in a pattern of a rule", code="input")
    folded = folded or FoldedTables(schemas)
    if not _by_event(data, schemas):
        yield from _read("data", data, schemas, only, False, first, rows, folded, together)
        return
    if together and len(data) > 1:
        batches = list(read_data(data, schemas, only, first, rows, folded))
        if batches:
            (batch,) = in_order(batches, schemas, sys.maxsize)
            yield replace(batch, watermark=None, together=True)
        return
    for name, table in data.items():
        if name not in schemas:
            known = ", ".join(sorted(schemas))
            near = closest(str(name), list(schemas))
            raise CepError(
                f"data: no pattern of the program uses an input event `{name}`{near}",
                hint=f"input events are {known}",
                code="input",
            )
        for batch in _read(f'data["{name}"]', table, schemas, name, True, first, rows, folded):
            yield batch
            first = batch.blocks[-1].beyond


def needed_columns(label: str, columns: pa.Schema, schema: Schema) -> list[str]:
    """Return the columns that an event type needs. Raises CepError if one is missing or has the wrong type."""
    empty = pa.RecordBatch.from_arrays([pa.array([], column.type) for column in columns], schema=columns)
    bound, nested = _bound(label, _Table(columns.names, _arrow_types(columns), lambda names: [empty]), schema)
    needed = columns_of(bound, nested)
    for _ in _rows(label, iter([empty.select(needed)]), [(bound, nested)], 0):
        pass  # reading checks the types; there are no rows
    return needed


def whole_table(data: Any, label: str) -> pl.DataFrame:
    """Return all columns of the data as a data frame. Raises CepError if the data do not consist of columns."""
    if isinstance(data, pl.DataFrame):
        return data
    columns = _opened(label, data)
    if columns is None:
        raise _no_table(label, data)
    batches = list(columns.rows(list(columns.names)))
    return pl.DataFrame(pl.from_arrow(batches)) if batches else pl.DataFrame(schema=list(columns.names))


def _by_event(data: Any, schemas: Mapping[str, Schema]) -> bool:
    """Return True if the data are a dictionary that maps event types to data. Return False if the data are columns or
    records, such as a dictionary that maps column names to arrays."""
    return isinstance(data, Mapping) and all(
        _tabular(tab) or (name in schemas and isinstance(tab, list | tuple) and not tab) for name, tab in data.items()
    )


def _tabular(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return bool(data) and (isinstance(data[0], Mapping) or _tabular(data[0]))
    if _is_pandas(data) or isinstance(data, pl.DataFrame | pl.LazyFrame | pa.Table | pa.RecordBatch | Mapping):
        return True
    if isinstance(data, pl.Series | pa.Array | pa.ChunkedArray) or hasattr(data, "dtype"):
        return False
    return any(hasattr(data, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "scanner", "__next__"))


def _read(
    label: str,
    data: Any,
    schemas: Mapping[str, Schema],
    event: str | None,
    named: bool,
    first: int,
    rows: int,
    folded: FoldedTables,
    together: bool = False,
) -> Iterator[Batch]:
    columns = None if hasattr(data, "dtype") else _opened(label, data)
    if columns is not None:
        yield from _columns(label, columns, _events(label, schemas, event), first, rows, folded)
        return
    if not isinstance(data, Iterable) or isinstance(data, str | bytes) or hasattr(data, "dtype"):
        raise _no_table(label, data)
    pieces = iter(data)
    head = next(pieces, None)
    if head is None:
        return
    pieces = chain([head], pieces)
    if isinstance(head, Mapping) and not _in_turn(head, schemas):
        yield from _records(label, pieces, schemas, event, named, first, folded)
        return
    counts: dict[str, int] = {}
    for piece in pieces:
        if not named and isinstance(piece, Mapping) and not any(map(_is_column, piece.values())):
            batches = read_data(piece, schemas, event, first, rows, folded, together)
        else:
            batches = _read(label, piece, schemas, event, named, first, rows, folded, together)
        before = dict(counts)
        for batch in batches:
            yield _further(batch, before)
            for block in batch.blocks:
                counts[block.file] = counts.get(block.file, 0) + block.count
                first = block.beyond


def _further(batch: Batch, rows: Mapping[str, int]) -> Batch:
    dead = [replace(letter, line=letter.line + rows.get(letter.file or "", 0)) for letter in batch.dead]
    return replace(
        batch, dead=dead, blocks=[replace(block, line=block.line + rows.get(block.file, 0)) for block in batch.blocks]
    )


def _in_turn(piece: Mapping[Any, Any], schemas: Mapping[str, Schema]) -> bool:
    """Return True if a piece of data is a dictionary that maps event types to tables, or column names to arrays. Return
    False if it is a single record, which may be nested."""
    nested = any(isinstance(value, Mapping | list | tuple) for value in piece.values())
    return any(map(_is_column, piece.values())) or (bool(piece) and not nested and _by_event(piece, schemas))


def _is_column(value: Any) -> bool:
    return isinstance(value, np.ndarray | pl.Series | pa.Array | pa.ChunkedArray)


def _events(label: str, schemas: Mapping[str, Schema], event: str | None) -> list[Schema]:
    """Return the event types that a row may have. This is only `event` if it is not None, and otherwise every event
    type that has a WHEN condition."""
    if event is not None:
        return [schemas[event]]
    tested = [schema for schema in schemas.values() if schema.when is not None]
    if not tested:
        names = sorted(schemas)
        raise CepError(
            f"{label}: the data do not say which event the rows are",
            hint=f'name it: `{{"{names[0]}": data}}`; input events are {", ".join(names)}',
            code="input",
        )
    return tested


def _columns(
    label: str, rows_table: _Table, schemas: Sequence[Schema], first: int, rows: int, folded: FoldedTables
) -> Iterator[Batch]:
    events = [_bound(label, rows_table, schema) for schema in schemas]
    columns = dict.fromkeys(name for bound, nested in events for name in columns_of(bound, nested))
    for tables, dead, block in _rows(label, _cut(rows_table.rows(list(columns)), rows), events, first):
        dead = [replace(letter, event=letter.event or schemas[0].name) for letter in dead]
        filled = {name: table for name, table in tables.items() if table.height}
        yield Batch(folded.settled(filled), dead, [block])


def _rows(
    label: str, batches: Iterator[pa.RecordBatch], events: Sequence[tuple[Schema, Mapping[str, Path]]], first: int
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]]:
    for bound, nested in events:
        if nested:
            batches = _with_paths(label, batches, nested, bound)
    try:
        yield from read_events(label, batches, [bound for bound, _ in events], first)
    except CepError as error:
        hint = error.hint or "declare the attribute as what its column holds, or convert the column"
        raise CepError(error.message, hint=hint, code=error.code) from None


def _bound(label: str, table: _Table, schema: Schema) -> tuple[Schema, dict[str, Path]]:
    keys = [key for key in (schema.time, *schema.further, schema.start, schema.end) if key is not None]
    paths = {source: path(source) for source in sources(schema, keys) if source not in table.names}
    nested = {name: steps for name, steps in paths.items() if len(steps) > 1 and steps[0] in table.names}
    try:
        return bind(label, schema, [*table.names, *nested], table.types), nested
    except CepError as error:
        time = next((key for key in keys or ["time"] if key not in table.names), None)
        index = f'the index of times has no name, `data.rename_axis("{time}")` gives it one'
        hints = (table.hint, index if table.unnamed and time else None, _within(table, schema), error.hint)
        raise CepError(error.message, hint="; ".join(filter(None, hints)) or None, code=error.code) from None


def _with_paths(
    label: str, batches: Iterator[pa.RecordBatch], nested: Mapping[str, Path], schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged. Raises CepError if they lack one of the nested paths."""
    for batch in batches:
        known = resolved(batch.schema, list(nested))
        for source, steps in nested.items():
            if source not in known:
                inside = [written(leaf) for leaf in leaves(batch.schema, steps[0]) if len(leaf) > 1]
                contents = (
                    ", ".join(f"`{leaf}`" for leaf in inside[:8]) or f"{batch.schema.field(steps[0]).type}, not structs"
                )
                hint = f"the column `{steps[0]}` holds {contents}"
                raise CepError(f"{label}: {schema.name} needs `{source}`", hint=hint, code="input")
        yield batch


def _within(table: _Table, schema: Schema) -> str | None:
    """Return a hint that names the nested column which may contain the values of a missing column. Return None if no
    column contains structs."""
    missing = [source for source in sources(schema, ()) if source not in table.names]
    batch = next(iter(table.rows([name for name in table.names if table.names.count(name) == 1])), None)
    if batch is None:
        return None
    nested = [field.name for field in batch.schema if pa.types.is_struct(field.type)]
    for name in nested:
        for steps in leaves(batch.schema, name):
            if steps[-1] in missing:
                return f'`{name}` holds structs with `{steps[-1]}`: write FROM "{written(steps)}"'
    if not nested:
        return None
    first = written(leaves(batch.schema, nested[0])[0])
    flat = f'`data.unnest("{nested[0]}")` of polars or `pandas.json_normalize` make columns of them'
    return f'`{nested[0]}` holds structs: their values are FROM "{first}"; {flat}'


def _cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _records(
    label: str,
    records: Iterator[Any],
    schemas: Mapping[str, Schema],
    event: str | None,
    named: bool,
    first: int,
    folded: FoldedTables,
) -> Iterator[Batch]:
    """Read Python records like lines of JSON, with the same meaning of keys and the same dead letters."""
    # imported here, because tables do not need its compiled scanner
    from cep.connectors.formats.jsonl import LineReader
    from cep.connectors.frames.objects import as_lines

    lines = LineReader(schemas, event, named)
    line = 1
    while some := list(islice(records, ROWS)):
        tables, dead, block = lines.read(label, as_lines(label, some), 0, line, first)
        dead = [replace(letter, event=letter.event or event) for letter in dead]
        yield Batch(folded.settled({name: table for name, table in tables.items() if table.height}), dead, [block])
        line, first = line + len(some), block.beyond


def _opened(label: str, data: Any) -> _Table | None:
    """Return the data as a table. Return None if the data do not consist of columns."""
    if isinstance(data, pl.LazyFrame):
        schema = data.collect_schema()
        return _Table(
            schema.names(),
            _types(schema),
            lambda names: _of_polars(label, data.select(names).collect(engine="streaming")),
        )
    if isinstance(data, pl.DataFrame):
        return _Table(data.columns, _types(data.schema), lambda names: _of_polars(label, data.select(names)))
    if _is_pandas(data):
        return _of_pandas(label, data)
    if isinstance(data, Mapping):
        names = [str(name) for name in data]
        return _Table(
            names, {}, lambda names: _together(label, {name: _array(label, name, data[name]) for name in names})
        )
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if hasattr(data, "scanner") and isinstance(getattr(data, "schema", None), pa.Schema):  # pyarrow.dataset
        return _Table(data.schema.names, _arrow_types(data.schema), lambda names: data.to_batches(columns=names))
    if not isinstance(data, pa.Table | pa.RecordBatchReader | pl.Series):
        if hasattr(data, "__arrow_c_stream__"):
            data = _imported(label, pa.RecordBatchReader.from_stream, data)
        elif hasattr(data, "__arrow_c_array__") and not isinstance(data, pa.Array):
            data = pa.Table.from_batches([_imported(label, pa.record_batch, data)])
    if isinstance(data, pa.Table):
        return _Table(data.column_names, _arrow_types(data.schema), lambda names: data.select(names).to_batches())
    if isinstance(data, pa.RecordBatchReader):
        types = _arrow_types(data.schema)
        return _Table(data.schema.names, types, lambda names: (batch.select(names) for batch in data))
    return None


def _imported(label: str, read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise CepError(f"{label}: {first_line(error)}", hint=TAKEN, code="input") from None


def _of_polars(label: str, data: pl.DataFrame) -> list[pa.RecordBatch]:
    for name, dtype in data.schema.items():
        if dtype == pl.Object:
            raise CepError(
                f"{label}: the column `{name}` holds Python objects of unknown types",
                hint=f'use one type for the column: `pl.Series("{name}", values, dtype=pl.String)`',
                code="input",
            )
    batches: list[pa.RecordBatch] = _imported(label, _arrow, data)
    return batches


def _arrow(data: pl.DataFrame) -> list[pa.RecordBatch]:
    return list(data.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches())


def _is_pandas(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _of_pandas(label: str, data: pd.DataFrame) -> _Table:
    """Return the columns of a pandas frame as a table. Levels of its index that have a name also become columns."""
    columns = list(map(str, data.columns))
    index = [name for name in data.index.names if isinstance(name, str) and name not in columns]
    kinds = {"M": "time", "m": "duration", "b": "bool", "i": "int", "u": "int", "f": "float"}
    types = {str(name): kinds.get(dtype.kind, "string") for name, dtype in data.dtypes.items()}
    types |= {name: kinds.get(data.index.get_level_values(name).dtype.kind, "string") for name in index}

    def rows(names: list[str]) -> Iterable[pa.RecordBatch]:
        arrays = {}
        for name in names:
            values = data.index.get_level_values(name) if name in index else data.iloc[:, columns.index(name)]
            arrays[name] = _array(label, name, values)
        return _together(label, arrays)

    unnamed = data.index.names == [None] and data.index.dtype.kind == "M"
    joined = '`data.columns = ["_".join(filter(None, map(str, each))) for each in data.columns]` makes one of them'
    hint = f"its columns have {data.columns.nlevels} levels: {joined}" if data.columns.nlevels > 1 else None
    return _Table([*columns, *index], types, rows, hint, unnamed)


def _array(label: str, name: str, values: Any) -> Any:
    """Convert a column of Python values to Arrow. Numbers that are contiguous in memory are not copied.

    NaN in a column of Python objects becomes a missing value.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, pl.Series):
        return values.to_frame(name).to_arrow(compat_level=pl.CompatLevel.newest()).column(0)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CepError(
            f"{label}: the column `{name}` cannot be read: {first_line(error)}",
            hint="use values of one type in a column, and None for a missing value",
            code="input",
        ) from None


def _together(label: str, columns: Mapping[str, Any]) -> list[pa.RecordBatch]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
        raise CepError(f"{label}: the columns have different lengths: {said}", code="input")
    batches: list[pa.RecordBatch] = pa.table(dict(columns)).to_batches()
    return batches


def _types(schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    return {name: type_of(dtype) or "any" for name, dtype in schema.items()}


def _arrow_types(schema: pa.Schema) -> dict[str, str]:
    try:
        return _types(pl.DataFrame(pl.from_arrow(schema.empty_table())).schema)
    except Exception:  # types that polars does not know, perhaps of columns that nobody reads
        return {}


def _no_table(label: str, data: Any) -> CepError:
    kind = type(data)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    hint = TAKEN
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        hint = f'read the file first: `pl.scan_csv("{data}")`, `pl.scan_parquet(..)`; ' + TAKEN
    return CepError(f"{label}: a `{name}` has no columns", hint=hint, code="input")
