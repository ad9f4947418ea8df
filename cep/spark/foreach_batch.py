"""Calls of a user's function for each micro-batch. The function receives the committed files as DataFrames.

The function is called after the micro-batch is committed, and the files stay until the next commit. If the run is
killed or the function raises an error, the next call has the same number and the same rows.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.pandas.types import from_arrow_schema

from cep.connectors.writing.layout import ParquetLayout
from cep.connectors.writing.writers import arrow
from cep.spark.dead_letters import stage_letters
from cep.spark.frame_events import LETTERS, Events
from cep.spark.sink.changelog import changelog_schemas
from cep.spark.sink.commit_log import CommitLog
from cep.spark.source.data_frames import letters_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cep.spark.sink.file_sink import FileSinkOptions
    from cep.spark.state.batch_notes import BatchNotes
    from cep.spark.state.migration import Generation

Each = Callable[[Events, int], object]
"""A function that receives the output of a micro-batch and the number of the micro-batch."""


class Receiver(Protocol):
    """A receiver of committed micro-batches. If the processing of a micro-batch was interrupted, it receives the same
    micro-batch again after a restart."""

    def begins(self, batch: int) -> None:
        """Prepare for a micro-batch, which an earlier run may have tried before."""

    def give(self, spark: SparkSession, batch: int) -> None:
        """Process a committed micro-batch. Any exception ends the query."""


class GivenBatches:
    """A receiver that passes micro-batches to the user's function `callback`.

    `sink`: the options of the sink that writes the output files. `dead`: the path prefix of dead-letter files, or None
    if dead letters are dropped.
    """

    def __init__(
        self, callback: Each, sink: FileSinkOptions, notes: BatchNotes, dead: str | None, generation: Generation
    ) -> None:
        self._each, self._sink, self._notes, self._dead, self._generation = callback, sink, notes, dead, generation
        self._schemas = sink.schemas if sink.meanings is None else changelog_schemas(sink.schemas)
        self._layout = ParquetLayout(self._schemas)

    def begins(self, batch: int) -> None:
        """Remove the dead letters of an earlier attempt at this micro-batch. The new attempt may write files with other
        names."""
        for path in self._read_letters(self._sink.first + batch):
            path.unlink(missing_ok=True)

    def give(self, spark: SparkSession, batch: int) -> None:
        """Call the function for a committed micro-batch. Remove the files of earlier micro-batches first.

        Exceptions of the function are raised.
        """
        folder, number = Path(self._sink.folder), self._sink.first + batch
        log = CommitLog(folder)
        for before in (number - 1, number - 2):
            for name in log.written(before):
                (folder / name).unlink(missing_ok=True)
        if batch:
            for path in self._letters(batch - 1):
                path.unlink(missing_ok=True)
        columns = from_arrow_schema(self._layout.schema, prefer_timestamp_ntz=True)
        names = log.written(number)
        events = {event: self._table(spark, event, columns, names) for event in self._schemas}
        letters = [f"file://{path}" for path in self._letters(batch) if path.exists()]
        dead = spark.read.schema(LETTERS.replace("event", "file", 1)).json(letters) if letters else None
        self._each(
            Events(
                events,
                spark.createDataFrame([], LETTERS) if dead is None else dead.withColumnRenamed("file", "event"),
            ),
            number,
        )

    def _table(self, spark: SparkSession, event: str, columns: StructType, names: list[str]) -> DataFrame:
        folder = Path(self._sink.folder)
        mine = [f"file://{folder / name}" for name in names if self._layout.single or name.startswith(f"type={event}/")]
        rows = spark.read.schema(columns).parquet(*mine) if mine else spark.createDataFrame([], columns)
        called = self._layout.names[event]
        names = arrow(self._schemas[event]).names
        return rows.select(*(F.col(f"`{called.get(name, name)}`").alias(name) for name in names))

    def _letters(self, batch: int) -> Iterator[Path]:
        yield from self._read_letters(self._sink.first + batch)
        if self._dead is None:
            return
        before: Mapping[str, int] = self._notes.after(batch - 1).versions
        for name, version in self._notes.after(batch).versions.items():
            if version != before.get(name, 0):
                stage, _, bucket = name.partition("-")
                file = stage_letters(int(stage), int(bucket), before.get(name, 0), self._generation.number)
                yield Path(f"{self._dead}{file}.jsonl")

    def _read_letters(self, number: int) -> list[Path]:
        if self._dead is None:
            return []
        pattern = letters_of(0, number).replace(f"{0:08}", "*", 1)
        return sorted(map(Path, glob.glob(f"{glob.escape(self._dead)}{pattern}*.jsonl")))
