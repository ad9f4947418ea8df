"""The last intervals of fluents that a migration changes or removes.

These intervals end at the time at which the new program takes over. The open intervals are part of the states of the
former program. They are written and committed with the first micro-batch of the new program. If the run is killed
before this commit, the next run writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from cep.core.fluents import ENDS_AT
from cep.core.schema import CHANGE
from cep.spark.outbox import Outbox
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import ShuffleBlock, WorldRows, for_world
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.state.migration import Generation, StartingPoint
from cep.spark.tasks import QueryWork
from cep.spark.worker import Packed

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

TASK = 99_999
"""The number that stands for the task in the names of files with the last intervals. No task has this number."""

_State = tuple[int, int, int]
"""The stage, the bucket, and the version of a state."""


@dataclass(frozen=True, slots=True)
class FormerFluents:
    """The `fluents` of a former program that end when a new program takes over.

    - `work`: the description of the former query's tasks.
    - `generation`: the former query's generation in the checkpoint.
    - `start`: the point at which the new program starts.
    """

    work: QueryWork
    generation: Generation
    start: StartingPoint
    fluents: frozenset[str]

    def write(self, context: SparkContext, sink: FileSinkOptions) -> Sequence[OutputFile]:
        """Write the intervals of `fluents` that are still open. They end where the new program takes over. Return the
        files that the first micro-batch of `sink` must commit.

        If the former program wrote to another folder, the intervals are written and committed in that folder. Raises
        CepError if a state is missing or damaged, or if a file cannot be written. Spark's errors are raised.
        """
        blocks = [WorldRows.of(block) for block in self._collected(context)]
        rows = sorted(blocks, key=lambda row_block: (row_block.event, row_block.place, row_block.bucket))
        tables = [(row.event, row.table) for row in rows]
        mine, batch = self.work.sink, self.start.last + 1
        if mine.folder == sink.folder:
            return FileWriter(mine).write(tables, TASK, batch) if tables else ()
        if tables and Path(mine.folder).is_dir():
            writer = FileWriter(replace(mine, checkpoint=None, keep=None))
            writer.commit(writer.write(tables, TASK, batch), batch)
        return ()

    def _collected(self, context: SparkContext) -> Sequence[ShuffleBlock]:
        stages = self.work.stages[0].program.stages
        names = {name: tuple(map(int, name.split("-"))) for name in self.start.versions}
        derive = {stage.number for stage in stages if self._tables.intersection(stage.outputs)}
        states = [(*place, self.start.versions[name]) for name, place in names.items() if place[0] in derive]
        if not states:
            return ()
        sent, count = context.broadcast(Packed.of(self.work)), min(len(states), context.defaultParallelism)
        ended = partial(_ended, sent, self.fluents, self.start.time)
        return context.parallelize(states, count).mapPartitions(ended).collect()

    @property
    def _tables(self) -> frozenset[str]:
        program = self.work.stages[0].program
        return frozenset(table for table, name in program.written.items() if name in self.fluents)


def _ended(
    sent: Broadcast[Packed[QueryWork]], fluents: frozenset[str], until: int, states: Iterable[_State]
) -> Iterator[ShuffleBlock]:
    """Yield the open intervals of some buckets as output rows. Each interval ends at `until` (microseconds)."""
    work, outbox = sent.value.open(), Outbox(None, 0)
    for number, bucket, version in states:
        stage = work.stages[number - 1]
        held = stage.task().engine(bucket, version).held_now()
        tables = dict(_closed(stage.program, name, table, until) for name, table in held.items() if name in fluents)
        some = (stage.program, stage.program.stages[number - 1], bucket, tables, sorted(fluents), stage.stretch)
        for rows in for_world(*some, stage.cuts):
            outbox.add(rows.block())
    yield from outbox.close()


def _closed(program: ShippedProgram, name: str, table: pl.DataFrame, until: int) -> tuple[str, pl.DataFrame]:
    """End the open intervals of a fluent at `until`. Return the name of the output table, and its rows.

    If the program writes changes, each row is the end of an interval.
    """
    if program.changes:
        return program.edges(name, table, until, ENDS_AT)
    begun = table.filter((pl.col("start") < until).fill_null(value=True))
    begun = begun.with_columns(end=pl.lit(until, pl.Int64))
    return name, begun if program.window is None else begun.with_columns(pl.lit(1, pl.Int8).alias(CHANGE))
