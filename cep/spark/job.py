"""A program as a streaming query. A data source reads the input, and each micro-batch runs as plain Spark jobs."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cep.spark import handover
from cep.spark.disk import HANDED, OUTGOING, holder
from cep.spark.foreach_batch import Each, GivenBatches, Receiver
from cep.spark.former_fluents import FormerFluents
from cep.spark.keepalive import keep_awake
from cep.spark.key_lateness import KeyRule
from cep.spark.micro_batch import MicroBatches
from cep.spark.mirror import OUTPUT, Mirror, spark_address
from cep.spark.multiplicity_task import WaysWork
from cep.spark.parameters import parameters_named
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import Stretch
from cep.spark.sink.file_sink import FileSinkOptions
from cep.spark.source.data_frames import Provided, provided
from cep.spark.source.data_source import InputOptions, SparkSourceOptions, source
from cep.spark.stage_task import GenerationStart, StageWork
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.bucket_states import BucketStates, begin
from cep.spark.state.migration import EarlierInput, WarmStates
from cep.spark.tasks import QueryWork

if TYPE_CHECKING:
    from cep.spark.sink.forwarding import Forwarding


@dataclass(frozen=True, slots=True)
class Job(InputOptions):
    """A description of a query, with the options of its input. Durations are in microseconds.

    - `dead_letters`: the folder of dead-letter files. `mark`: the prefix of their names.
    - `every`: the time between two searches for more input.
    - `keep`: the span of event time for which output files are kept.
    - `times`: the format of times (see `cep.connectors.records.times`).
    - `stretch`: the range of times for which output is written.
    - `frames`: the DataFrames to read, each with the reader of its rows.
    - `callback`: a user's function that is called with the output of each micro-batch.
    - `forwarding`: the object that sends the output to a broker, or None.
    - `mirror`: the object that copies the folders to an object store, or None if they stay in local or shared folders.
    - `run`: the name of this run, by which workers recognize their engines.
    - `earlier`: the earlier input that new rules must read, or None.
    - `former`: the query of an earlier program and its fluents, which end with the first micro-batch. If it is None, no
      fluents end, and `callback` has received all micro-batches of the earlier program.
    """

    program: ShippedProgram
    inputs: tuple[str, ...]
    output: str
    checkpoint: str
    wanted: tuple[str, ...]
    format: str = "parquet"
    dead_letters: str | None = None
    every: int = 0
    keep: int | None = None
    mark: str = ""
    times: str = "iso"
    stretch: Stretch = (None, None)
    mirror: Mirror | None = None
    frames: tuple[Provided, ...] = ()
    callback: Each | None = None
    forwarding: Forwarding | None = None
    earlier: EarlierInput | None = None
    former: FormerFluents | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def apart(self) -> bool:
        """True if workers share no folder."""
        return self.mirror is not None and self.mirror.apart

    @property
    def rule(self) -> KeyRule | None:
        """The rule by which each key has its own lateness, or None if all records share one clock."""
        if self.program.lateness_by is None:
            return None
        running, behind = self.program.options.running, self.lateness or 0
        own = behind - (running.revise or 0) if running.final else behind
        return KeyRule(self.program.bare(), own, behind, self.program.window or 0)

    @property
    def warmed(self) -> WarmStates | None:
        """The states from which new rules start. It is None if new rules start with an empty state, or if the first
        micro-batch is already committed."""
        folder = Path(self.checkpoint)
        if self.earlier is None or self.generation.begun(folder):
            return None
        return self.generation.warmed(folder, self.earlier)

    @property
    def dead(self) -> str | None:
        """The path prefix of dead-letter files, or None if dead letters are dropped."""
        return None if self.dead_letters is None else os.path.join(self.dead_letters, self.mark)


def start(spark: SparkSession, job: Job, follow: bool = False) -> StreamingQuery:
    """Start the query. `follow`: True to run it until it is stopped, False to end it after the existing input."""
    closing, folder = job.closing and not follow, Path(job.checkpoint)
    handed = None if job.apart else str(folder / HANDED)
    if handed is not None:
        handover.begin(Path(handed))
    warm = job.warmed
    waits = () if warm is None or job.earlier is None else job.earlier.waiting(warm)
    more = tuple((state, tuple(events)) for state, events in waits)
    data_source = source(SparkSourceOptions.of(job, closing, spark.sparkContext.defaultParallelism, more))
    spark.dataSource.register(data_source)
    records = spark.readStream.format(data_source.name()).load()
    for frame, reader in reversed(job.frames):
        rows = provided(frame, reader, job.program, job.dead, handed)
        records = rows.union(records)  # our own source must be the last one in Spark's log
    late = -(-(job.lateness or 0) // 1000)  # rounded up, because Spark drops fractions of a millisecond
    stream = records.withWatermark("time", f"{late} milliseconds")
    own, states = job.generation.spark(folder), job.generation.states(folder)
    begin(states, job.mark)
    notes = BatchNotes(states, None if job.rule is None else job.generation.clocks(folder), job.generation.begins)
    work = work_of(job, states, handed, warm)
    receiver: Receiver | None = job.forwarding
    if job.callback is not None:
        receiver = batches_given = GivenBatches(job.callback, work.sink, notes, job.dead, job.generation, job.former)
        batches_given.resume(spark)
    batches = MicroBatches(spark, work, own, notes, job.mirror, receiver, job.former)
    writer = stream.writeStream.foreachBatch(parameters_named()(batches.__call__) if job.frames else batches)
    # The checkpoint is local, even if the cluster's default file system is another one.
    writer = writer.option("checkpointLocation", f"file://{own}")
    if follow:
        batches.load()
        query = writer.trigger(processingTime=f"{job.every // 1000} milliseconds").start()
        keep_awake(spark.sparkContext, query, batches.touch)
        return query
    return writer.trigger(availableNow=True).start()


def work_of(job: Job, states: Path, handed: str | None = None, warm: WarmStates | None = None) -> QueryWork:
    """Return the work of the query's tasks.

    - `states`: the folder of the states.
    - `handed`: the shared folder for blocks. If it is None, there is none.
    - `warm`: the states from which new rules start.
    """
    program, generation, folder = job.program, job.generation, Path(job.checkpoint)
    run, start = job.run, generation.start
    beginning = None if start is None else GenerationStart(start, generation.before(folder), warm)
    stages = []
    for stage in program.stages:
        own = BucketStates(str(states), stage.number)
        out = job.wanted, job.dead, own, beginning, job.times, job.stretch, generation.number
        stages.append(StageWork(program, stage.number, run, *out, cuts=generation.cuts))
    ways = None
    if program.window is not None and program.merged:
        ways = WaysWork(program, run, BucketStates(str(states), len(stages) + 1))
    schemas = {event: program.outputs[event] for event in job.wanted}
    merged = program.merged if program.window is None else frozenset[str]()
    passing = Path(job.output) == folder / OUTGOING
    meanings = None if program.window is None else program.meanings
    places = job.checkpoint, holder(folder), passing, generation.spark(folder).name, generation.first
    address = None if job.mirror is None else spark_address(job.mirror.places[OUTPUT])
    sink = FileSinkOptions(job.output, job.format, schemas, merged, job.keep, *places, job.times, meanings, address)
    return QueryWork(stages, ways, sink, handed, job.rule)
