"""A run of the new rules of a migrated checkpoint over the earlier input files.

This takes one micro-batch, before the first micro-batch of the new generation. The new program reads all files up to
the watermark at which it starts, and writes no output. The states of its buckets are stored in a folder of the
checkpoint, such as `warm-2`. A note in this folder records that the states are complete. If a run is killed before the
note is written, the files are read again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import polars as pl

from cep.connectors.records.batch import Batch
from cep.core.storage.urls import is_url
from cep.core.time import END_OF_TIME
from cep.spark import handover
from cep.spark.disk import FILES, HANDED
from cep.spark.handed_blocks import HandedBlocks
from cep.spark.job import Job
from cep.spark.micro_batch import MicroBatch, MicroBatches
from cep.spark.outbox import Outbox
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import wake_ups
from cep.spark.sink.file_sink import FileSinkOptions
from cep.spark.source import reading
from cep.spark.source.data_source import FileReader, SparkSourceOptions
from cep.spark.source.file_list import FileList, ListedFile
from cep.spark.source.knowledge_changes import FileChangeLog
from cep.spark.source.work_item import FilePack, packed
from cep.spark.stage_task import StageWork
from cep.spark.state.batch_notes import BatchNote, BatchNotes
from cep.spark.state.bucket_states import BucketStates, begin
from cep.spark.tasks import QueryWork

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Warmed:
    """A summary of the earlier input that new rules have read.

    - `since`: the time (microseconds) from which the rows were read, or None if no rows were read.
    - `gone`: the files that no longer exist.
    - `unread`: the files that cannot be read, and the reason for each.
    """

    since: int | None
    gone: Sequence[str]
    unread: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A selection of the rows that end from `since` to `until`, both included (microseconds).

    - `until`: the upper limit, or None if there is no upper limit.
    - `events`: the events to read, or None to read all events.
    - `ahead`: the same as for `cep.spark.source.reading.in_time`.
    """

    since: int
    until: int | None
    events: frozenset[str] | None
    ahead: tuple[int | None, int | None]


@dataclass(slots=True)
class _Seen:
    """The earliest `start` and the earliest `end` of rows that tasks have read, and the files that cannot be read
    (`unread`), each with the reason."""

    start: int = END_OF_TIME
    end: int = END_OF_TIME
    unread: list[str] = field(default_factory=list)

    def taken(self, pieces: Iterable[Batch], stretch: _Stretch) -> Iterator[Batch]:
        """Yield the batches of a file with only the selected rows. Record the earliest times of all rows."""
        for piece in pieces:
            self.unread += [f"{letter.file}: {letter.reason}" for letter in piece.dead if letter.code == reading.FILE]
            tables = {
                event: self._rows(table, stretch)
                for event, table in piece.tables.items()
                if stretch.events is None or event in stretch.events
            }
            yield replace(piece, tables={event: rows for event, rows in tables.items() if rows.height}, dead=[])

    def join(self, other: _Seen) -> None:
        """Add the earliest times and the errors that another task has found."""
        self.start, self.end = min(self.start, other.start), min(self.end, other.end)
        self.unread += other.unread

    def _rows(self, table: pl.DataFrame, stretch: _Stretch) -> pl.DataFrame:
        start, end = table["start"].min(), table["end"].min()
        self.start = min(self.start, start) if isinstance(start, int) else self.start
        self.end = min(self.end, end) if isinstance(end, int) else self.end
        late = pl.col("end") < stretch.since  # rows without an end stay: they may withdraw others by key
        gone = late if stretch.until is None else late | (pl.col("end") > stretch.until)
        return table.filter(~gone.fill_null(value=False))


def warmed(spark: SparkSession, job: Job, begins: Callable[[int], None] = lambda _: None) -> Warmed | None:
    """Run a job's new rules over the earlier input. Return a summary of this input, or None if the rules need no
    earlier input or an earlier call has processed it.

    `begins`: a function that is called with the number of files before they are read. Raises CepError if an input
    cannot be listed or a state cannot be written. Spark's errors are raised.
    """
    earlier, generation, folder = job.earlier, job.generation, Path(job.checkpoint)
    start = generation.start
    if earlier is None or start is None or generation.begun(folder) or generation.warmed(folder, earlier) is not None:
        return None
    states, shared = generation.warm(folder), folder / HANDED
    shutil.rmtree(states, ignore_errors=True)
    begin(states, job.mark)
    handover.begin(shared)
    program, context = job.program, spark.sparkContext
    ahead = job.ahead.files, time.time_ns() // 1000
    listed, read = FileList(str(folder / FILES)), start.offset["files"]
    files = [(listed.entries(0, read), _Stretch(earlier.since, None, None, ahead))]
    if earlier.events:
        beyond = FileReader(SparkSourceOptions.of(job, closing=False)).discover()
        later = [entry for entry in listed.entries(read, beyond) if entry.input.type in (None, *earlier.events)]
        files.append((later, _Stretch(earlier.since, start.time, earlier.events, ahead)))
    lines = FileChangeLog(folder, ()).lines(0, start.offset.get("changes", 0))
    calls = [*wake_ups(program, every=True), *(reading.changes(program, "", lines, None) if lines else ())]
    blocks, seen, gone = [HandedBlocks.of(calls)], _Seen(), list[str]()
    for some, stretch in files:
        existing = [source for source in some if is_url(source.path) or Path(source.path).exists()]
        gone += sorted({source.path for source in some} - {source.path for source in existing})
        begins(len(existing))
        for rows, chunk in _read(context, program, existing, stretch, str(shared)):
            blocks.append(rows)
            seen.join(chunk)
    batches = MicroBatches(spark, _work(job, states, str(shared)), states, BatchNotes(states))
    done = MicroBatch(batches, 0, max((start.time + 1) // 1000, 0), HandedBlocks.joined(blocks))
    done.run()
    batches.notes.write(0, BatchNote(done.versions))
    handover.clear(shared)
    reached = earlier.since if seen.end <= earlier.since else seen.start
    return Warmed(None if seen.start == END_OF_TIME else reached, gone, seen.unread)


def _read(
    context: SparkContext, program: ShippedProgram, files: Sequence[ListedFile], stretch: _Stretch, shared: str
) -> Sequence[tuple[HandedBlocks, _Seen]]:
    """Read rows of files, and distribute them to the program's buckets. `shared`: the shared folder for blocks.

    Return for each task its blocks, and the earliest times in its files.
    """
    packs = packed([file.seen() for file in files], context.defaultParallelism)
    if not packs:
        return ()
    sent, few = context.broadcast(program.bare()), handover.share(len(packs))

    def read(some: Iterable[FilePack]) -> Iterator[tuple[HandedBlocks, _Seen]]:
        for pack in some:
            outbox, seen = Outbox(shared, few), _Seen()
            for file in pack.files:
                kept = partial(seen.taken, stretch=stretch)
                blocks = reading.file_blocks(
                    sent.value, file.number, file.input, None, file.readable, stretch.ahead, kept
                )
                for block in blocks:
                    outbox.add(block)
            yield outbox.close(), seen

    return context.parallelize(packs, len(packs)).mapPartitions(read).collect()


def _work(job: Job, states: Path, shared: str) -> QueryWork:
    program, run = job.program, uuid4().hex
    stages = [
        StageWork(program, stage.number, run, (), None, BucketStates(str(states), stage.number), None, warms=True)
        for stage in program.stages
    ]
    sink = FileSinkOptions(str(states / "sink"), "jsonl", {}, frozenset(), first=1)
    return QueryWork(stages, None, sink, shared)
