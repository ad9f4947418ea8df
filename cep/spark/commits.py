"""The sink: files that tasks write, and the log of those that count, kept as Spark's own file sink keeps it.

Spark commits a micro-batch once all its tasks have written: its files are then named by one file of the log, which
readers of the folder with Spark go by. A micro-batch that is done again after that adds nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from cep.schema import Schema
from cep.spark.tidy import LOG

if TYPE_CHECKING:  # loaded by those that write alone: who commits need not
    import pyarrow as pa

COMPACTED = 10
"""Each so many micro-batches the log is written as one file, as Spark's readers expect it."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """`folder`: where files go; `format`: jsonl or parquet. `schemas`: of the events that are written; those of
    `merged` may come from several buckets, identical ones."""

    folder: str
    format: str
    schemas: Mapping[str, Schema]
    merged: frozenset[str]


@dataclass(frozen=True, slots=True)
class File:
    """`size` in bytes, `changed` in milliseconds. `bare`: it has no rows, and says what columns there are."""

    path: str
    size: int
    changed: int
    bare: bool

    @classmethod
    def of(cls, path: Path, bare: bool = False) -> File:
        """A file that is there."""
        found = path.stat()
        return cls(str(path), found.st_size, found.st_mtime_ns // 1_000_000, bare)

    def line(self) -> str:
        """As Spark's log has it."""
        known = {"size": self.size, "isDir": False, "modificationTime": self.changed}
        rest = {"blockReplication": 1, "blockSize": 32 << 20, "action": "add"}
        return json.dumps({"path": Path(self.path).as_uri()} | known | rest, separators=(",", ":"))


class Written(WriterCommitMessage):
    """The files of a task."""

    def __init__(self, files: Sequence[File]) -> None:
        self.files = tuple(files)


class FileSink(DataSource):
    """Parcels of the world as files."""

    outlet: Outlet

    @classmethod
    def name(cls) -> str:
        return "semcep_sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> FileWriter:  # noqa: N802
        return FileWriter(self.outlet)


def sink(outlet: Outlet) -> type[DataSource]:
    """The data sink of an outlet."""
    return type("FileSink", (FileSink,), {"outlet": outlet})


class FileWriter(DataSourceStreamArrowWriter):
    """`write` in a task; `commit` or `abort` where the query is run."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        from cep.spark import output

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        return Written(output.write(self.outlet, iterator, f"part-{number:05}-{uuid4()}", first=number == 0))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        log, files = Log(Path(self.outlet.folder) / LOG), _files(messages)
        again = log.has(batchId)
        counting = [] if again else [one for one in files if not one.bare or batchId == 0]
        if not again:
            log.add(batchId, counting)
        _remove([one for one in files if one not in counting])

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _remove(_files(messages))


class Log:
    """A file of each micro-batch, `7`, or of all until it, `9.compact`: a line `v1`, then one of JSON for each file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, batch: int) -> bool:
        return (self._folder / _name(batch)).exists()

    def add(self, batch: int, files: Sequence[File]) -> None:
        """The files of a micro-batch; those before it are there."""
        lines = [one.line() for one in files]
        compacted = _name(batch) != str(batch)
        if compacted:
            lines = [line for before in range(max(0, batch - COMPACTED), batch) for line in self._lines(before)] + lines
        self._folder.mkdir(parents=True, exist_ok=True)
        made = self._folder / f".{batch}.{uuid4()}.tmp"
        try:
            made.write_text("\n".join(["v1", *lines]), encoding="utf-8")
            made.replace(self._folder / _name(batch))
        except OSError:
            made.unlink(missing_ok=True)
            raise
        if compacted:
            self._forget(batch - COMPACTED)

    def _lines(self, batch: int) -> list[str]:
        return (self._folder / _name(batch)).read_text(encoding="utf-8").splitlines()[1:]

    def _forget(self, until: int) -> None:
        """Away with what a later file holds. The ten before the last stay for readers that are at them."""
        for file in self._folder.iterdir():
            number = re.match(r"\d+", file.name)
            if number and int(number[0]) < until:
                file.unlink(missing_ok=True)


def _name(batch: int) -> str:
    return f"{batch}.compact" if (batch + 1) % COMPACTED == 0 else str(batch)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[File]:
    return [file for one in messages if isinstance(one, Written) for file in one.files]


def _remove(files: Sequence[File]) -> None:
    for one in files:
        Path(one.path).unlink(missing_ok=True)
