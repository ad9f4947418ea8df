"""The net result of a changelog, written as plain tables: one file for each event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import polars as pl

from cep.connectors.records.revised import VERSION, WITHDRAW
from cep.connectors.writing.layout import BOUNDS, ParquetLayout
from cep.connectors.writing.writers import time_columns
from cep.core.errors import CepError
from cep.core.identity import ID
from cep.core.schema import CHANGE, Schema
from cep.spark.disk import writing_to
from cep.spark.sink.changelog import changelog_schemas
from cep.spark.sink.commit_log import CommitLog, file_name


def compact(folder: Path, format: str, schemas: Mapping[str, Schema], to: Path) -> None:
    """Write the net result of a changelog as one file `<event>.jsonl` or `<event>.parquet` per event.

    `format`: the format of the changelog's files. Each file is replaced atomically. Raises CepError if the result
    cannot be written, or if a file of the changelog is missing.
    """
    files = [folder / file_name(line) for line in CommitLog(folder).lines()]
    with writing_to("--compact", to):
        to.mkdir(parents=True, exist_ok=True)
        for event in schemas:
            partial_path = to / f".{event}.{uuid4().hex}"
            try:
                if format == "jsonl":
                    partial_path.write_text("".join(_lines(files, event)), encoding="utf-8")
                else:
                    _table(files, event, schemas).write_parquet(partial_path, compression="snappy")
                partial_path.replace(to / f"{event}.{format}")
            finally:
                partial_path.unlink(missing_ok=True)


def _lines(files: Sequence[Path], event: str) -> Iterator[str]:
    ways: Counter[str] = Counter()
    for file in files:
        for line in _opened(file).splitlines():
            row = json.loads(line)
            if row["type"] == event:
                sign = -1 if row.pop(CHANGE) == WITHDRAW else 1
                del row[ID], row[VERSION]
                ways[json.dumps(row, ensure_ascii=False)] += sign
    return (f"{row}\n" for row, number in ways.items() if number > 0)


def _opened(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "restore it from a copy; then the same command writes the net result"
        message = f"--output: {file} is missing: it is a part of the changelog"
        raise CepError(message, hint=hint, code="failed") from None


def _table(files: Sequence[Path], event: str, schemas: Mapping[str, Schema]) -> pl.DataFrame:
    """Return the net result of an event as a table, without the columns of the changelog, sorted by time."""
    layout = ParquetLayout(changelog_schemas(schemas))
    own = time_columns(schemas[event]), [BOUNDS] if schemas[event].fluent is not None else []
    attributes = {layout.names[event][attribute.name]: attribute.name for attribute in schemas[event].attributes}
    columns = {name: name for name in own[0]} | attributes | {name: name for name in own[1]}
    mine = files if layout.single else [file for file in files if file.parent.name == f"type={event}"]
    if absent := [file for file in mine if not file.exists()]:
        _opened(absent[0])
    change = layout.names[event][CHANGE]
    none = pl.from_arrow(layout.schema.empty_table())
    assert isinstance(none, pl.DataFrame), "it is a table"
    every = [none.lazy(), *(pl.scan_parquet(file, hive_partitioning=False) for file in mine)]
    parts = [frame.select(*columns, change) for frame in every]
    ways = pl.when(pl.col(change) == WITHDRAW).then(-1).otherwise(1).sum().alias(change)
    remaining = pl.concat(parts).group_by(list(columns)).agg(ways).filter(pl.col(change) > 0).drop(change)
    return remaining.rename(columns).collect().sort(list(columns.values()))
