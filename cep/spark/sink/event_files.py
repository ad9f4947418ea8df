"""Files of derived events. JSON Lines files are as those of a run in one process. Parquet files have typed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.brokers.sending import with_ids
from cep.connectors.records.revised import ADD, WITHDRAW
from cep.connectors.records.times import ISO, SECONDS
from cep.connectors.writing.layout import ParquetLayout
from cep.connectors.writing.row_groups import encodings
from cep.connectors.writing.writers import json_lines
from cep.core.schema import CHANGE
from cep.runtime.buckets import merged_identical
from cep.spark.disk import writing_to
from cep.spark.sink.changelog import as_changelog, changelog_schemas
from cep.spark.sink.commit_log import WITHDRAWN, CommitLog, OutputFile

if TYPE_CHECKING:  # `file_sink` imports this module in tasks
    from cep.spark.sink.file_sink import FileSinkOptions

Rows = Iterable[tuple[str, pl.DataFrame]]


def write_event_files(options: FileSinkOptions, rows: Rows, name: str, first: bool, batch: int = 0) -> list[OutputFile]:
    """Write the tables of a task as files. The files get their final `name` when they are committed.

    - `rows`: pairs of an event's name and a table.
    - `first`: True if this is the first task. If only one event is written as Parquet, this task writes a file even
      without rows.
    - `batch`: the number of the micro-batch, from which a changelog computes versions.

    Parquet files of several events are in a folder `type=...` per event. Raises CepError if a file cannot be written.
    """
    log = CommitLog(Path(options.folder))
    tables = merged_tables(rows, options.merged)
    if options.meanings is not None:
        tables = as_changelog(tables, options.schemas, options.meanings, batch)
        options = replace(options, schemas=changelog_schemas(options.schemas))
    with writing_to("--output", log.files):
        log.coming(name).parent.mkdir(parents=True, exist_ok=True)
        if options.format == "jsonl":
            if options.passing and options.meanings is not None:  # withdrawals are sent first
                gone, come = (_changed(tables, word) for word in (WITHDRAW, ADD))
                return [
                    *_lines(options, gone, log, f"{name}{WITHDRAWN}"),
                    *_lines(options, come, log, f"{name}.jsonl"),
                ]
            return list(_lines(options, tables, log, f"{name}.jsonl"))
        return list(_columns(options, tables, log, f"{name}.parquet", first))


def _changed(by_event: Mapping[str, list[pl.DataFrame]], word: str) -> dict[str, list[pl.DataFrame]]:
    parts = {event: [table.filter(pl.col(CHANGE) == word) for table in tables] for event, tables in by_event.items()}
    parts = {event: [table for table in tables if table.height] for event, tables in parts.items()}
    return {event: tables for event, tables in parts.items() if tables}


def _lines(
    options: FileSinkOptions, by_event: Mapping[str, list[pl.DataFrame]], log: CommitLog, name: str
) -> Iterator[OutputFile]:
    if not by_event:
        return
    out = log.coming(name)
    with out.open("wb") as file:
        for event, tables in by_event.items():
            for table in tables:
                written = json_lines({event: table}, options.schemas, options.times, False)
                if options.passing and options.times != ISO:
                    written = with_ids(written, json_lines({event: table}, options.schemas, ISO, False))
                file.write(written)
    rows = {event: sum(table.height for table in tables) for event, tables in by_event.items()}
    latest = _latest([table for tables in by_event.values() for table in tables])
    yield OutputFile.of(out, log.files / name, rows, latest, None if options.times in (ISO, SECONDS) else options.times)


def _columns(
    options: FileSinkOptions, parts: Mapping[str, list[pl.DataFrame]], log: CommitLog, name: str, first: bool
) -> Iterator[OutputFile]:
    layout = ParquetLayout(options.schemas)
    whole = {event: pa.concat_tables(layout.table(event, table) for table in tables) for event, tables in parts.items()}
    if first and layout.single and not whole:
        whole = {event: layout.schema.empty_table() for event in options.schemas}
    for event, table in whole.items():
        place = name if layout.single else f"type={event}/{name}"
        pending = log.coming(place)
        pq.write_table(table, pending, compression="snappy", **encodings(layout.schema))
        rows = {event: table.num_rows} if table.num_rows else {}
        yield OutputFile.of(pending, log.files / place, rows, _latest(parts.get(event, ())))


def _latest(tables: Iterable[pl.DataFrame]) -> int | None:
    """Return the latest end of all rows in microseconds. For beginnings and ends of fluents, return the latest time."""
    ends = [table["end" if "end" in table.columns else "time"].max() for table in tables]
    return max((end for end in ends if isinstance(end, int)), default=None)


def merged_tables(rows: Rows, merged: frozenset[str]) -> dict[str, list[pl.DataFrame]]:
    """Group the tables of a task by event. `merged`: the events of which identical occurrences become one row."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for event, table in rows:
        parts.setdefault(event, []).append(table)
    return {event: [merged_identical(parts[event])] if event in merged else parts[event] for event in sorted(parts)}
