"""Reading of a query's output. The derived events of each micro-batch are read as soon as the sink's log contains them.

This module needs neither Spark nor Java.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from cep.connectors.files import CHUNK
from cep.connectors.formats.jsonl import LineReader, ReadsLines, read_jsonl
from cep.connectors.formats.parquet import columns_of, open_parquet, read_batches, read_parquet
from cep.connectors.formats.streams import ByteStream
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.connectors.records.times import ISO, SHIFTS
from cep.core.errors import CepError, reason_of
from cep.core.fluents import EDGE
from cep.core.schema import CHANGE, Attribute, Schema, TimeFormat
from cep.core.time import BEGINNING
from cep.spark.disk import SINK_LOG
from cep.spark.sink.changelog import is_changelog
from cep.spark.sink.commit_log import CommitLog, entry, file_name
from cep.spark.sink.held_fluents import BOUNDS, TIMES, HeldFluents, OpenTimes, as_taken, with_far_times

PAUSE = 0.5
"""The number of seconds between two reads of the log."""

_TYPE = "type="
_OWN = ("type", "start", "end")  # columns that are never attributes
_ROWS = 1 << 17  # rows of Parquet that are read at once


class SinkReader:
    """A reader of the folder of a sink. Each batch that it yields contains one micro-batch.

    `schemas`: the schemas of derived events and fluents. `edges`: the same as for `HeldFluents`. Raises CepError if the
    folder does not belong to a sink.
    """

    def __init__(self, path: str, schemas: Mapping[str, Schema], edges: Mapping[str, Schema] | None = None) -> None:
        self.path = Path(path)
        self._schemas = schemas
        hint = "use the folder that `cep run --on spark --output FOLDER` writes"
        if not self.path.is_dir():
            message = "is a file, not a folder" if self.path.exists() else "does not exist"
            raise CepError(f"{path}: the folder {message}", hint=hint, code="input")
        if not (self.path / SINK_LOG).is_dir() and any(self.path.iterdir()):
            raise CepError(f"{path}: the folder has no log of output files, `{SINK_LOG}`", hint=hint, code="input")
        fluents = {name: schema for name, schema in schemas.items() if schema.fluent is not None}
        self._held = HeldFluents(path, fluents, edges or {})
        self._times: dict[str, str] = {}  # the format of times by file, if stated
        self._batches: dict[str, int] = {}  # the micro-batch of each file
        self._readers: dict[str | None, ReadsLines] = {None: self._reader(None)}
        self._last = -1
        self._seen: set[str] = set()
        self._rows = 0
        self._reached = BEGINNING

    def follow(self) -> Iterator[Batch]:
        """Yield all micro-batches. Wait for later ones without end.

        The watermark of a batch is the latest end of its rows.
        """
        while True:
            yield from self.new()
            time.sleep(PAUSE)

    def new(self) -> Iterator[Batch]:
        """Yield the micro-batches that were committed since the last call. Micro-batches without rows are omitted."""
        while (files := self._next()) is not None:
            for _, group in groupby(files, self._batches.__getitem__):
                batch = self._read(list(group))
                if batch.tables or batch.dead or batch.held:
                    yield batch

    def _next(self) -> list[str] | None:
        """Return the files in the next entry of the log, relative to the folder, or None if there is no entry yet.

        If old entries were removed, the next entry is the compact entry that repeats them.
        """
        log_files = {path.name: path for path in (self.path / SINK_LOG).glob("[0-9]*")}
        wanted = self._last + 1
        later = [number for name in log_files if (number := _number(name)) is not None and number >= wanted]
        if not later:
            return None
        if str(wanted) in log_files or f"{wanted}.compact" in log_files:
            number = wanted
        else:
            compact = [number for number in later if f"{number}.compact" in log_files]
            number = max(compact) if compact else min(later)
        path = log_files.get(str(number)) or log_files[f"{number}.compact"]
        try:
            entries = entry(path)
        except FileNotFoundError:  # the entry was just compacted
            return None
        fields_by_file = {file_name(line): json.loads(line) for line in entries}
        self._times = {name: times for name, known in fields_by_file.items() if (times := known.get("times"))}
        self._batches = {name: known["batch"] for name, known in fields_by_file.items()}
        files = [name for name in fields_by_file if name not in self._seen]
        if path.suffix == ".compact":
            self._seen = set(fields_by_file)  # files that have left the log do not return
        else:
            self._seen.update(files)
        self._last = number
        return files

    def _read(self, files: Sequence[str]) -> Batch:
        parts: dict[str, list[pl.DataFrame]] = {}
        dead: list[DeadLetter] = []
        blocks: list[Block] = []
        for name in files:
            for tables, refused, block in self._file(name):
                for event, table in tables.items():
                    if table.height:
                        parts.setdefault(event, []).append(table)
                dead += refused
                blocks.append(block)
                self._rows = block.beyond
        merged = {event: pl.concat(tables).sort("end", "start", maintain_order=True) for event, tables in parts.items()}
        fluents = {event: merged.pop(event) for event in [*merged] if self._schemas[event].fluent is not None}
        held, edges, latest = self._held.take(fluents, self._reached)
        ends = [int(table["end"][-1]) for table in merged.values()]
        reached = max(ends if latest is None else [*ends, latest], default=None)
        self._reached = max(self._reached, BEGINNING if reached is None else reached)
        return Batch(merged | edges, dead, blocks, watermark=reached, held=held)

    def _file(self, name: str) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]]:
        path = str(self.path / name)
        try:
            if name.endswith(".parquet"):
                opened = open_parquet(path)
                if CHANGE in opened.schema_arrow.names:
                    raise self._changelog(path)
                schema = self._event(name, opened.schema_arrow.names)
                columns = dict.fromkeys(opened.schema_arrow.names)
                bound = _as_written(schema, {a.name: _column(schema.name, a.name, columns) for a in schema.attributes})
                for table, dead, block in self._columns(path, opened, bound):
                    yield {schema.name: table}, dead, block
            else:
                if is_changelog(Path(path)):
                    raise self._changelog(path)
                with closing(ByteStream(path)) as stream:
                    for tables, dead, part in read_jsonl(path, stream, self._lines_of(name), CHUNK, self._rows):
                        if part is not None:
                            yield tables, dead, part.without_data()
        except FileNotFoundError as error:
            if name in map(file_name, CommitLog(self.path).lines()):
                raise CepError(f"{path}: {reason_of(error)}", code="input") from None
            return  # the job keeps files only for a while, and has removed this one
        except OSError as error:
            raise CepError(f"{path}: {reason_of(error)}", code="input") from None

    def _lines_of(self, name: str) -> ReadsLines:
        times = self._times.get(name)
        if times not in self._readers:
            self._readers[times] = self._reader(times)
        return self._readers[times]

    def _reader(self, times: str | None) -> ReadsLines:
        """Return a reader for lines. `times`: the format of their times. None means ISO 8601 or seconds.

        Raises CepError if the times are in another unit that cannot be read back.
        """
        if times is not None and times not in SHIFTS:
            message = f"{self.path}: its times count ticks of {times}, which cannot be read back"
            raise CepError(message, hint="use `--output-format parquet`, which has timestamps", code="input")
        schemas = {name: _as_written(schema, {}) for name, schema in self._schemas.items()}
        if times is not None:
            schemas = {name: _counted(schema, TimeFormat(unit=times)) for name, schema in schemas.items()}
        lines = LineReader(schemas, None, False)
        fluents = any(schema.fluent is not None for schema in self._schemas.values())
        return OpenTimes(lines, times or ISO) if fluents else lines

    def _changelog(self, path: str) -> CepError:
        hint = "run the job with `--final` or without --revise; `--compact FOLDER` writes the net result as plain files"
        message = "this job may withdraw rows, which is not supported here yet"
        return CepError(f"{path}: {message}", hint=hint, code="input")

    def _columns(
        self, path: str, opened: pq.ParquetFile, schema: Schema
    ) -> Iterator[tuple[pl.DataFrame, list[DeadLetter], Block]]:
        """Yield the rows of a Parquet file as tables."""
        if schema.fluent is None:
            for tables, dead, block in read_parquet(path, opened, [schema], _ROWS, self._rows):
                yield tables[schema.name], dead, block
            return
        names = opened.schema_arrow.names
        if EDGE in names:
            schema = replace(schema, time="time")
        else:
            schema = replace(schema, start="start", end="end")
            schema = replace(
                schema, attributes=tuple(attribute for attribute in schema.attributes if attribute.name != EDGE)
            )
        present = [name for name in names if name in columns_of(schema)]
        for table, dead, block in read_batches(
            path, with_far_times(opened.iter_batches(_ROWS, columns=present)), schema, self._rows
        ):
            if EDGE not in table.columns:
                table = table.with_columns(pl.lit(None, pl.String).alias(EDGE))
            yield table, dead, block

    def _event(self, name: str, columns: Sequence[str]) -> Schema:
        """Return the schema of the event in a Parquet file.

        If the sink writes several events, the file's folder names the event. Otherwise the event is the one that has
        exactly the file's columns.
        """
        folder, slash, _ = name.rpartition("/")
        if slash:
            if (schema := self._schemas.get(folder.removeprefix(_TYPE))) is not None:
                return schema
            hint = "use the rules that the job runs"
            raise CepError(f"{self.path / name}: no rule derives {folder.removeprefix(_TYPE)}", hint=hint, code="input")
        own_columns = set(columns) - {*TIMES, EDGE}
        fitting = [
            schema
            for schema in self._schemas.values()
            if {a.name for a in schema.attributes} | ({BOUNDS} if schema.fluent is not None else set()) == own_columns
        ]
        if len(fitting) == 1:
            return fitting[0]
        message = "no event has" if not fitting else f"{' and '.join(candidate.name for candidate in fitting)} have"
        hint = "use the rules that the job runs; `--output-format jsonl` names the event in each line"
        raise CepError(
            f"{self.path / name}: {message} exactly these columns: {', '.join(columns)}", hint=hint, code="input"
        )


def _number(name: str) -> int | None:
    text = name.removesuffix(".compact")
    return int(text) if text.isdecimal() else None


def _column(event: str, attribute: str, columns: Mapping[str, None]) -> str:
    named = f"{event}_{attribute}"
    return named if named in columns and (attribute in _OWN or attribute not in columns) else attribute


def _counted(schema: Schema, format: TimeFormat) -> Schema:
    attributes = (
        replace(attribute, format=format) if attribute.type == "time" else attribute for attribute in schema.attributes
    )
    return replace(schema, format=format, attributes=tuple(attributes))


def _as_written(schema: Schema, columns: Mapping[str, str]) -> Schema:
    """Return the schema with which an event's rows are read back. It repeats no checks, because the rows were checked
    before they were written."""
    attributes = tuple(
        Attribute(
            attribute.name,
            "string" if attribute.type == "iri" else attribute.type,
            True,
            source=columns.get(attribute.name),
        )
        for attribute in schema.attributes
    )
    written = replace(schema, attributes=attributes, declared=True, point=False, time=None, start="start", end="end")
    return written if schema.fluent is None else as_taken(written)
