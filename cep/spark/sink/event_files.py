"""Derived events as files: lines of JSON as a run in one process writes them, or Parquet with typed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.core.schema import CHANGE, Schema
from cep.runtime.buckets import merged_identical
from cep.spark.disk import writing_to
from cep.spark.sink.changelog import as_changelog, changelog_schemas
from cep.spark.sink.commit_log import WITHDRAWN, CommitLog, OutputFile
from cep.spark.worker import freeze_garbage
from connectors.arrow_bytes import unpack
from connectors.revised import ADD, WITHDRAW
from connectors.sending import with_ids
from connectors.writers import arrow, json_lines, time_columns, typed

if TYPE_CHECKING:  # which has tasks call this module
    from cep.spark.sink.file_sink import FileSinkOptions

_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "duration": pa.float64(),
}

BOUNDS = "bounds"
"""The column that says which ends belong to the intervals of fluents."""
TIMES = ("start", "end", "time")
"""The columns of times: of events and intervals, and of what begins and ends."""
Batches = Iterable[pa.RecordBatch]


def write_event_files(
    options: FileSinkOptions, batches: Batches, name: str, first: bool, batch: int = 0
) -> list[OutputFile]:
    """Write the blocks of a task as files of this name, which they have once they count. Parquet of several events has
    a folder `type=...` for each. The `first` task writes a file without rows if it has none and there is only one
    event. `batch`: the number of the micro-batch, of which the versions of a changelog are. CepError: files cannot be
    written."""
    freeze_garbage()
    log = CommitLog(Path(options.folder))
    found = merged_tables(batches, options.merged)
    if options.meanings is not None:
        found = as_changelog(found, options.schemas, options.meanings, batch)
        options = replace(options, schemas=changelog_schemas(options.schemas))
    with writing_to("--output", log.files):
        log.coming(name).parent.mkdir(parents=True, exist_ok=True)
        if options.format == "jsonl":
            if options.passing and options.meanings is not None:  # what is withdrawn is sent first
                gone, come = (_changed(found, word) for word in (WITHDRAW, ADD))
                return [
                    *_lines(options, gone, log, f"{name}{WITHDRAWN}"),
                    *_lines(options, come, log, f"{name}.jsonl"),
                ]
            return list(_lines(options, found, log, f"{name}.jsonl"))
        return list(_columns(options, found, log, f"{name}.parquet", first))


def _changed(found: Mapping[str, list[pl.DataFrame]], word: str) -> dict[str, list[pl.DataFrame]]:
    """The rows of a changelog whose `@change` is that."""
    parts = {event: [table.filter(pl.col(CHANGE) == word) for table in tables] for event, tables in found.items()}
    parts = {event: [table for table in tables if table.height] for event, tables in parts.items()}
    return {event: tables for event, tables in parts.items() if tables}


def _lines(
    options: FileSinkOptions, found: Mapping[str, list[pl.DataFrame]], log: CommitLog, name: str
) -> Iterator[OutputFile]:
    if not found:
        return
    at = log.coming(name)
    with at.open("wb") as file:
        for event, tables in found.items():
            for table in tables:
                written = json_lines({event: table}, options.schemas, options.times == "iso", False)
                if options.passing and options.times != "iso":
                    written = with_ids(written, json_lines({event: table}, options.schemas, True, False))
                file.write(written)
    rows = {event: sum(table.height for table in tables) for event, tables in found.items()}
    latest = _latest([table for tables in found.values() for table in tables])
    yield OutputFile.of(at, log.files / name, rows, latest)


def _columns(
    options: FileSinkOptions, found: Mapping[str, list[pl.DataFrame]], log: CommitLog, name: str, first: bool
) -> Iterator[OutputFile]:
    layout = ParquetLayout(options.schemas)
    made = {event: pa.concat_tables(layout.table(event, table) for table in tables) for event, tables in found.items()}
    if first and layout.single and not made:
        made = {event: layout.schema.empty_table() for event in options.schemas}
    for event, table in made.items():
        place = name if layout.single else f"type={event}/{name}"
        at = log.coming(place)
        pq.write_table(table, at, compression="snappy", use_dictionary=layout.repeating)
        rows = {event: table.num_rows} if table.num_rows else {}
        yield OutputFile.of(at, log.files / place, rows, _latest(found.get(event, ())))


def _latest(tables: Iterable[pl.DataFrame]) -> int | None:
    """The latest end of all rows, of what begins and ends the latest time (microseconds)."""
    ends = [table["end" if "end" in table.columns else "time"].max() for table in tables]
    return max((end for end in ends if isinstance(end, int)), default=None)


class ParquetLayout:
    """Which column of a Parquet file holds which attribute: attributes of one name and type share a column, others are
    called `<event>_<attribute>`."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self.single = len(schemas) == 1
        types: dict[str, set[str]] = {}
        for schema in schemas.values():
            for attribute in schema.attributes:
                types.setdefault(attribute.name, set()).add(attribute.type)
        taken = {"type", "start", "end", BOUNDS}
        self.names: dict[str, dict[str, str]] = {}
        first = dict.fromkeys(name for schema in schemas.values() for name in time_columns(schema))
        fields = [(name, "time" if name in TIMES else "string") for name in first]
        for event, schema in schemas.items():
            self.names[event] = {}
            for attribute in schema.attributes:
                shared = len(types[attribute.name]) == 1 and attribute.name not in taken
                name = attribute.name if self.single or shared else f"{event}_{attribute.name}"
                self.names[event][attribute.name] = name
                if (name, attribute.type) not in fields:
                    fields.append((name, attribute.type))
        if any(schema.fluent is not None for schema in schemas.values()):
            fields.append((BOUNDS, "string"))
        self.schema = pa.schema([(name, _TYPES.get(type, pa.string())) for name, type in fields])

    @property
    def repeating(self) -> list[str]:
        """The columns that are worth a dictionary: not the times, of which few are equal."""
        return [field.name for field in self.schema if not pa.types.is_timestamp(field.type)]

    def table(self, event: str, table: pl.DataFrame) -> pa.Table:
        """A table of an event with the columns of all events; those of others have no values."""
        found = typed(table, self._schemas[event]).to_arrow().cast(arrow(self._schemas[event]))
        found = found.rename_columns([self.names[event].get(name, name) for name in found.column_names])
        there = {name: found[name] for name in found.column_names}
        each = [
            there[field.name].cast(field.type) if field.name in there else pa.nulls(table.height, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(each, schema=self.schema)


def merged_tables(batches: Batches, merged: frozenset[str]) -> dict[str, list[pl.DataFrame]]:
    """The tables of the blocks of a partition, by event; of `merged` events each occurrence once."""
    found: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for event, rows in zip(batch.column("event").to_pylist(), batch.column("rows")):
            found.setdefault(event, []).append(unpack(rows.as_py()))
    return {event: [merged_identical(found[event])] if event in merged else found[event] for event in sorted(found)}
