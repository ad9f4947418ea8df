"""Calls of a user's function for each micro-batch. The function receives the committed files as DataFrames.

The function is called after the micro-batch is committed, and the files stay until the next commit. If the run is
killed or the function raises an error, the next call has the same number and the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.pandas.types import from_arrow_schema

from cep.connectors.writing.layout import ParquetLayout
from cep.connectors.writing.writers import arrow
from cep.spark.dead_letters import stage_letters
from cep.spark.former_fluents import TASK
from cep.spark.frame_events import LETTERS, Events
from cep.spark.sink.changelog import changelog_schemas
from cep.spark.sink.commit_log import CommitLog
from cep.spark.sink.file_sink import pending
from cep.spark.source.data_frames import read_letters
from cep.spark.state.batch_notes import BatchNotes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cep.spark.former_fluents import FormerFluents
    from cep.spark.sink.file_sink import FileSinkOptions
    from cep.spark.state.migration import Generation

Each = Callable[[Events, int], object]
"""A function that receives the output of a micro-batch and the number of the micro-batch."""


class Receiver(Protocol):
    """A receiver of committed micro-batches. If the processing of a micro-batch was interrupted, it receives the same
    micro-batch again after a restart."""

    def begins(self, batch: int) -> None:
        """Prepare for a micro-batch. An earlier run may have started the same micro-batch."""

    def give(self, spark: SparkSession, batch: int) -> None:
        """Process a committed micro-batch. Any exception ends the query."""


class GivenBatches:
    """A receiver that passes micro-batches to the user's function `callback`.

    - `sink`: the options of the sink that writes the output files.
    - `dead`: the path prefix of dead-letter files, or None if dead letters are dropped.
    - `former`: the fluents that end with the first micro-batch, and the query that had them. None if there are none.
    """

    def __init__(
        self,
        callback: Each,
        sink: FileSinkOptions,
        notes: BatchNotes,
        dead: str | None,
        generation: Generation,
        former: FormerFluents | None = None,
    ) -> None:
        self._each, self._sink, self._notes, self._dead, self._generation = callback, sink, notes, dead, generation
        self._before: GivenBatches | None = None
        self._ending = frozenset[str]() if former is None else former.fluents
        if former is not None:
            earlier = BatchNotes(Path(former.work.stages[0].states.folder), first=former.generation.begins)
            self._before = GivenBatches(callback, former.work.sink, earlier, dead, former.generation)
        self._schemas = sink.schemas if sink.meanings is None else changelog_schemas(sink.schemas)
        self._layout = ParquetLayout(self._schemas)

    def begins(self, batch: int) -> None:
        """Remove the dead letters that an earlier attempt at this micro-batch has written, because the new attempt may
        write files of other names."""
        for path in () if self._dead is None else read_letters(self._dead, batch):
            path.unlink(missing_ok=True)

    def resume(self, spark: SparkSession) -> None:
        """Call the user's function for the last micro-batch of the former program, unless the function has already
        processed it completely."""
        before, last = self._before, self._generation.begins - 1
        if before is not None and before.pending() == last:
            before.give(spark, last, self._tables(spark, []))

    def pending(self) -> int | None:
        """Return the micro-batch that is committed, but not finished. Returns None if there is none."""
        assert self._sink.checkpoint is not None, "it is the sink of a query"
        return pending(Path(self._sink.checkpoint, self._sink.spark), Path(self._sink.folder), self._sink.first)

    def give(self, spark: SparkSession, batch: int, more: Mapping[str, DataFrame] = MappingProxyType({})) -> None:
        """Call the function for a committed micro-batch. Remove the files of earlier micro-batches first.

        `more`: DataFrames to pass in addition to the derived events. Exceptions of the function are raised.
        """
        folder, number = Path(self._sink.folder), self._sink.first + batch
        log = CommitLog(folder)
        for before in (number - 1, number - 2):
            for name in log.written(before):
                (folder / name).unlink(missing_ok=True)
        earlier = self._before if batch == self._generation.begins else None
        if batch:
            for path in (earlier or self)._letters(batch - 1):
                path.unlink(missing_ok=True)
        ended = [name for name in log.written(number) if f"part-{TASK}-" in name]
        events = {**more, **self._tables(spark, [name for name in log.written(number) if name not in ended])}
        for event, rows in earlier._tables(spark, ended).items() if earlier is not None and ended else ():
            if event in self._ending:  # the others have no rows, and may have other columns
                events[event] = events[event].unionByName(rows, allowMissingColumns=True) if event in events else rows
        letters = [f"file://{path}" for path in self._letters(batch) if path.exists()]
        dead = spark.read.schema(LETTERS.replace("event", "file", 1)).json(letters) if letters else None
        self._each(
            Events(
                events,
                spark.createDataFrame([], LETTERS) if dead is None else dead.withColumnRenamed("file", "event"),
            ),
            number,
        )

    def _tables(self, spark: SparkSession, names: list[str]) -> dict[str, DataFrame]:
        columns = from_arrow_schema(self._layout.schema, prefer_timestamp_ntz=True)
        return {event: self._table(spark, event, columns, names) for event in self._schemas}

    def _table(self, spark: SparkSession, event: str, columns: StructType, names: list[str]) -> DataFrame:
        folder = Path(self._sink.folder)
        mine = [f"file://{folder / name}" for name in names if self._layout.single or name.startswith(f"type={event}/")]
        rows = spark.read.schema(columns).parquet(*mine) if mine else spark.createDataFrame([], columns)
        called = self._layout.names[event]
        names = arrow(self._schemas[event]).names
        return rows.select(*(F.col(f"`{called.get(name, name)}`").alias(name) for name in names))

    def _letters(self, batch: int) -> Iterator[Path]:
        if self._dead is None:
            return
        yield from read_letters(self._dead, batch)
        before: Mapping[str, int] = self._notes.after(batch - 1).versions
        for name, version in self._notes.after(batch).versions.items():
            if version != before.get(name, 0):
                stage, _, bucket = name.partition("-")
                file = stage_letters(int(stage), int(bucket), before.get(name, 0), self._generation.number)
                yield Path(f"{self._dead}{file}.jsonl")
