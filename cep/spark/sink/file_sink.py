"""The sink: files that tasks write, and the log of those that count, kept as Spark's own file sink keeps it.

Spark commits a micro-batch once all its tasks have written: its files then get their names, and are named by one file
of the log, which readers of the folder with Spark go by. A micro-batch that is done again after that adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from cep.core.schema import Schema
from cep.spark.sink.commit_log import CommitLog, OutputFile
from cep.spark.storage.disk import writing_to
from cep.spark.storage.layout import SPARK
from cep.spark.storage.lock import turn
from cep.spark.storage.spark_files import planned, settle

if TYPE_CHECKING:  # loaded by those that write alone: who commits need not
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`folder`: where files go; `format`: jsonl or parquet. `schemas`: of the events that are written; those of
    `merged` may come from several buckets, identical ones. `keep`: for how many microseconds of the events' time files
    stay, None: for good; `passing`: whoever takes them removes them. `holder`: the run that holds the folder
    `checkpoint`, where there is one; `spark`: the folder of Spark's own files there. `first`: the number that the
    query's first micro-batch has in the log. `times`: how they are written, `iso` or `seconds`."""

    folder: str
    format: str
    schemas: Mapping[str, Schema]
    merged: frozenset[str]
    keep: int | None = None
    checkpoint: str | None = None
    holder: str = ""
    passing: bool = False
    spark: str = SPARK
    first: int = 0
    times: str = "iso"


class TaskFiles(WriterCommitMessage):
    """The files of a task."""

    def __init__(self, files: Sequence[OutputFile]) -> None:
        self.files = tuple(files)


class FileSink(DataSource):
    """Parcels of the world as files."""

    outlet: SinkOptions

    @classmethod
    def name(cls) -> str:
        return "semcep_sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> FileWriter:  # noqa: N802
        return FileWriter(self.outlet)


def sink(outlet: SinkOptions) -> type[DataSource]:
    """The data sink of an outlet."""
    return type("FileSink", (FileSink,), {"outlet": outlet})


class FileWriter(DataSourceStreamArrowWriter):
    """`write` in a task; `commit` or `abort` where the query is run."""

    def __init__(self, outlet: SinkOptions) -> None:
        self.outlet = outlet

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        from pyspark import TaskContext

        from cep.spark.sink import event_files

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        files = event_files.write(self.outlet, iterator, f"part-{number:05}-{uuid4()}", first=number == 0)
        return TaskFiles(files)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        outlet = self.outlet
        number, files = outlet.first + batchId, _files(messages)
        if outlet.checkpoint is None:
            self._count(number, files, "")
            return
        with turn(Path(outlet.checkpoint), outlet.holder):
            spark = Path(outlet.checkpoint, outlet.spark)
            settle(spark, batchId)
            self._count(number, files, planned(spark, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        folder = Path(self.outlet.folder)
        for one in _files(messages):
            CommitLog(folder).coming(str(Path(one.path).relative_to(folder))).unlink(missing_ok=True)

    def _count(self, number: int, files: Sequence[OutputFile], plan: str) -> None:
        """Once, and away with what tasks have left that failed, or that another did as well."""
        outlet = self.outlet
        ledger = CommitLog(Path(outlet.folder))
        with writing_to("--output", ledger.files):
            if ledger.has(number, plan):
                ledger.settle(outlet.keep, outlet.passing)
            else:
                counting = [one for one in files if one.rows or number == 0]
                ledger.add(number, counting, outlet.keep, outlet.passing, plan)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[OutputFile]:
    return [file for one in messages if isinstance(one, TaskFiles) for file in one.files]
