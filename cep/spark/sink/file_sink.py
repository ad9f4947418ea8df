"""The sink of a query: files that tasks write, and a log of those that count, like that of Spark's own file sink.

Spark commits a micro-batch once all its tasks have written: then its files get their names, and an entry in the log,
by which Spark reads the folder. A micro-batch that is repeated after that adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from cep.spark.sink.commit_log import CommitLog, OutputFile
from cep.spark.sink.sink_options import FileSinkOptions
from cep.spark.storage.disk import writing_to
from cep.spark.storage.lock import exclusive
from cep.spark.storage.spark_files import plan_hash, sync_batch

if TYPE_CHECKING:  # loaded only where files are written: the process that commits does without
    import pyarrow as pa


class TaskFiles(WriterCommitMessage):
    """The files of a task."""

    def __init__(self, files: Sequence[OutputFile]) -> None:
        self.files = tuple(files)


class FileSink(DataSource):
    """Derived events as files."""

    sink_options: FileSinkOptions

    @classmethod
    def name(cls) -> str:
        return "semcep_sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> FileWriter:  # noqa: N802
        return FileWriter(self.sink_options)


def sink(options: FileSinkOptions) -> type[DataSource]:
    """The data sink with these options."""
    return type("FileSink", (FileSink,), {"sink_options": options})


class FileWriter(DataSourceStreamArrowWriter):
    """`write` runs in a task; `commit` or `abort` where the query runs."""

    def __init__(self, options: FileSinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        from pyspark import TaskContext

        from cep.spark.sink import event_files

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        files = event_files.write_event_files(self.options, iterator, f"part-{number:05}-{uuid4()}", first=number == 0)
        return TaskFiles(files)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        options = self.options
        number, files = options.first + batchId, _files(messages)
        if options.checkpoint is None:
            self._count(number, files, "")
            return
        with exclusive(Path(options.checkpoint), options.holder):
            spark = Path(options.checkpoint, options.spark)
            sync_batch(spark, batchId)
            self._count(number, files, plan_hash(spark, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        folder = Path(self.options.folder)
        for one in _files(messages):
            CommitLog(folder).coming(str(Path(one.path).relative_to(folder))).unlink(missing_ok=True)

    def _count(self, number: int, files: Sequence[OutputFile], plan: str) -> None:
        """Commit a micro-batch once; remove the files of tasks that failed, or that ran twice."""
        options = self.options
        log = CommitLog(Path(options.folder))
        with writing_to("--output", log.files):
            if log.has(number, plan):
                log.settle(options.keep, options.passing)
            else:
                counting = [one for one in files if one.rows or number == 0]
                log.add(number, counting, options.keep, options.passing, plan)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[OutputFile]:
    return [file for one in messages if isinstance(one, TaskFiles) for file in one.files]
