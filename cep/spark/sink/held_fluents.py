"""Fluents in the output folder of a query. This module reads the rows of fluents, and combines them into intervals.

A query writes complete intervals of a fluent or, with `--changes`, each beginning and end when it becomes known. A
server needs the intervals in another form: without an end when the fluent begins, and again when they are complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from cep.connectors.formats.jsonl import ReadsLines
from cep.connectors.records.batch import Block, DeadLetter
from cep.connectors.records.records import series
from cep.connectors.records.times import FIRST, ISO, LAST, time_text
from cep.core.errors import CepError
from cep.core.fluents import BEFORE, BEGINNING, BEGINS, EDGE, HELD, SINCE_EVER, WHOLE
from cep.core.schema import ARRIVAL, Attribute, Schema
from cep.events import Value

BOUNDS = "bounds"
TIMES = ("start", "end", "time")

_FAR = {"start": FIRST, "time": FIRST, "end": LAST}
"""The times that replace a missing time: the first and the last time that records can have."""
_NULL = re.compile(rb'"(start|end|time)":\s*null')

Tables = dict[str, pl.DataFrame]


def attributes_read(schema: Schema) -> tuple[Attribute, ...]:
    """Return the columns `@edge` and `bounds`, which rows of a fluent have in addition, or nothing for an event."""
    return () if schema.fluent is None else (Attribute(EDGE, "string", True), Attribute(BOUNDS, "string", True))


class OpenTimes:
    """A reader of lines of JSON in which a time may be null.

    `lines`: a reader that does not accept null as a time. Each null is replaced by the first or last possible time
    before the line is passed to this reader.
    """

    def __init__(self, lines: ReadsLines, times: str) -> None:
        self._lines = lines
        quote = '"' if times == ISO else ""
        self._far = {name: f'"{name}": {quote}{time_text(time, times)}{quote}'.encode() for name, time in _FAR.items()}

    def read(
        self, file: str, data: bytes, position: int, line: int, first: int
    ) -> tuple[Tables, list[DeadLetter], Block]:
        data = _NULL.sub(lambda null_match: self._far[null_match[1].decode()], data)
        return self._lines.read(file, data, position, line, first)


def with_far_times(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace null times in batches of Parquet rows by the first or last time that records can have."""
    for batch in batches:
        for name, time in _FAR.items():
            if name in batch.schema.names and (column := batch[name]).null_count:
                far = pa.scalar(time, pa.int64()).cast(column.type)
                batch = batch.set_column(batch.schema.names.index(name), name, column.fill_null(far))
        yield batch


class HeldFluents:
    """The fluents that hold according to the rows that have been read.

    - `schemas`: the schemas of fluents as they are written.
    - `edges`: for each fluent that an engine reads, the schema of its table of beginnings and ends.
    """

    def __init__(self, folder: str, schemas: Mapping[str, Schema], edges: Mapping[str, Schema]) -> None:
        self._folder, self._schemas, self._edges = folder, schemas, edges
        self._open: dict[str, dict[tuple[Value, ...], tuple[int, str]]] = {name: {} for name in schemas}

    def take(self, tables: Mapping[str, pl.DataFrame], reached: int) -> tuple[Tables, Tables, int | None]:
        """Process the rows of a micro-batch, by fluent. Return three values:

        - the intervals, as an engine outputs them with the option `begins`
        - the input tables for an engine
        - the latest time at which a row became known, or None if there are no rows

        `reached`: the watermark of the engine. Raises CepError if the engine needs beginnings but rows are intervals.
        """
        held, edges, latest = {}, {}, []
        for name, table in tables.items():
            schema = self._schemas[name]
            late = 0 if schema.fluent is None else schema.fluent.late
            whole = table.filter(pl.col(EDGE).is_null())
            changes = table.filter(pl.col(EDGE).is_not_null())
            if whole.height and name in self._edges:
                message = f"{self._folder}: it has only complete intervals of `{name}`, and no beginnings"
                hint = "an alert needs the beginnings: run the job with `--changes` and with other folders"
                raise CepError(message, hint=hint, code="input")
            changed = self._changed(name, changes)
            parts = [part for part in (_intervals(whole, schema), changed) if part.height]
            if parts:
                held[name] = pl.concat(parts)
            if name in self._edges and changes.height:
                edges[self._edges[name].name] = _edges(changes, changed, self._edges[name], late, reached)
            ends = table["end"].filter((table["end"] > FIRST) & (table["end"] < LAST))
            if isinstance(last := ends.max(), int):
                latest.append(last + late)
        return held, edges, max(latest, default=None)

    def _changed(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """Convert a table of beginnings and ends to intervals: those that begin, and those that end."""
        schema, open = self._schemas[name], self._open[name]
        begins = table[EDGE] == "begins"
        closed = table[BOUNDS].is_in(["[", "]"])
        # In half ticks: where the fluent begins, or no longer holds.
        place = 2 * table["end"] + (begins != closed).cast(pl.Int64)
        table = table.with_columns(begins.alias("begins"), place.alias("place")).sort("place", maintain_order=True)
        columns = [table[attribute.name].to_list() for attribute in schema.attributes]
        arguments = list(zip(*columns, strict=True)) if columns else [()] * table.height
        rows: list[tuple[tuple[Value, ...], int, int | None, str]] = []
        begun: dict[tuple[Value, ...], None] = {}
        for key, what, time, bound in zip(
            arguments, table["begins"].to_list(), table["end"].to_list(), table[BOUNDS].to_list(), strict=True
        ):
            if what:
                open[key] = time, bound
                begun[key] = None
            elif key in open:  # otherwise, the file with its beginning has left the folder
                start, first = open.pop(key)
                begun.pop(key, None)
                rows.append((key, start, time, first + bound))
        rows += [(key, open[key][0], None, open[key][1] + ")") for key in begun]
        return _table(rows, schema)


def _table(rows: Sequence[tuple[tuple[Value, ...], int, int | None, str]], schema: Schema) -> pl.DataFrame:
    columns = [pl.Series("start", [start for _, start, _, _ in rows], dtype=pl.Int64)]
    columns.append(pl.Series("end", [end for _, _, end, _ in rows], dtype=pl.Int64))
    for number, attribute in enumerate(schema.attributes):
        columns.append(series(attribute, [key[number] for key, *_ in rows]))
    columns.append(pl.Series(BOUNDS, [bounds for *_, bounds in rows], dtype=pl.String))
    return _with_nulls(pl.DataFrame(columns))


def _intervals(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return the rows of complete intervals. An interval that still holds at the end of the input has no end."""
    return _with_nulls(table.select("start", "end", *(attribute.name for attribute in schema.attributes), BOUNDS))


def _with_nulls(table: pl.DataFrame) -> pl.DataFrame:
    start, end = pl.col("start"), pl.col("end")
    return table.with_columns(pl.when(start > FIRST).then(start), pl.when(end < LAST).then(end))


def _edges(changes: pl.DataFrame, changed: pl.DataFrame, edges: Schema, late: int, reached: int) -> pl.DataFrame:
    """Convert the changes of a fluent to input of an engine: beginnings, initial values and complete intervals.

    - `changed`: the intervals that begin or end by these changes.
    - `edges`: the schema of the engine's table.
    - `late`: the delay after which a change of the fluent is known.
    - `reached`: the watermark of the engine. Rows of initial values get an end after it, because a bucket may report an
      initial value late. The value itself may have held for longer.
    """
    *attributes, kind = (attribute.name for attribute in edges.attributes)
    begins = BEGINNING if edges.fluent is not None and edges.fluent.defined else BEGINS
    began, over = changes.filter(pl.col(EDGE) == "begins"), changed.filter(pl.col("end").is_not_null())
    initial, ever, since = pl.col("end") <= FIRST, pl.col("start").is_null(), pl.lit(SINCE_EVER, pl.Int64)
    known = pl.lit(max(SINCE_EVER, reached - late + 1), pl.Int64)
    tables = (
        (began.filter(~initial), begins),
        (began.filter(initial).with_columns(since.alias("start"), known.alias("end")), BEFORE),
        (over.filter(~ever), WHOLE),
        (over.filter(ever).with_columns(since.alias("start")), HELD),
    )
    edge_tables = [
        table.select("start", pl.col("end") + late, *attributes, pl.lit(code, pl.Int64).alias(kind))
        for table, code in tables
    ]
    first = changes[ARRIVAL][0]
    return pl.concat(edge_tables).with_columns(pl.lit(first, pl.Int64).alias(ARRIVAL))


def as_taken(schema: Schema) -> Schema:
    """Return the schema with which rows of a fluent are read. They have `start` and `end`, or `time`."""
    return replace(schema, start=None, end=None, attributes=(*schema.attributes, *attributes_read(schema)))
