"""A program as a streaming query: a source, the stages one after another, a sink."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cep.spark.disk import FILES, OUTGOING, holder
from cep.spark.driver.query import watched
from cep.spark.processor import stepped
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import WORLD, Stretch
from cep.spark.sink.file_sink import FileSinkOptions, sink
from cep.spark.source import kafka_connector
from cep.spark.source.data_source import SparkSourceOptions, source
from cep.spark.stage_task import GenerationStart, StageWork
from cep.spark.state.bucket_states import BucketStates, begin
from cep.spark.state.migration import FIRST, Generation
from cep.spark.ways_task import WaysWork
from connectors.inputs import Input


@dataclass(frozen=True, slots=True)
class Job:
    """What a query does. Durations are in microseconds.

    `lateness`: None, nothing is late before the end of the input. `limit`: at most so many files in a micro-batch;
    `most`: about so many messages of each live input. `closing`: the input ends with its files. `format`: jsonl or
    parquet. `dead_letters`: a folder, in which the names of files begin with `mark`. `every`: the time between two
    looks for more. `idle`: the time without input after which the watermark goes on by itself. `keep`: the span of
    event time for which output files stay. `updates`: where changes of the knowledge are. `generation`: of the
    checkpoint. `beside`: the inputs, by their places, that Spark's own connector reads. `times`: how they are written,
    `iso` or `seconds`. `stretch`: what is written lies there."""

    program: ShippedProgram
    inputs: tuple[str, ...]
    output: str
    checkpoint: str
    wanted: tuple[str, ...]
    lateness: int | None = None
    format: str = "parquet"
    input_format: str | None = None
    limit: int | None = None
    closing: bool = True
    dead_letters: str | None = None
    most: int | None = None
    every: int = 0
    idle: int | None = None
    keep: int | None = None
    updates: tuple[str, ...] = ()
    generation: Generation = FIRST
    mark: str = ""
    beside: Mapping[int, Input] = field(default_factory=dict)
    times: str = "iso"
    stretch: Stretch = (None, None)

    @property
    def dead(self) -> str | None:
        """The prefix of the paths of files of dead letters."""
        return None if self.dead_letters is None else os.path.join(self.dead_letters, self.mark)


def start(spark: SparkSession, job: Job, follow: bool = False) -> StreamingQuery:
    """Start the query: over what is there, or until it is stopped."""
    closing = job.closing and not follow
    journal = str(Path(job.checkpoint) / FILES)
    files = SparkSourceOptions.of(
        job.program,
        job.inputs,
        job.input_format,
        journal,
        job.limit,
        closing,
        job.dead,
        job.most,
        job.idle,
        job.lateness or 0,
        job.updates,
        job.generation,
        job.beside,
    )
    found = source(files)
    spark.dataSource.register(found)
    records = spark.readStream.format(found.name()).load()
    topics = kafka_connector.topic_blocks(spark, job.program, job.beside, job.most, job.dead)
    if topics is not None:
        records = topics.union(records)  # our own stays the last in Spark's log, where it is looked for
    blocks = derived(records, job)
    schemas = {event: job.program.outputs[event] for event in job.wanted}
    folder, merged = Path(job.checkpoint), job.program.merged if job.program.window is None else frozenset[str]()
    run, passing = holder(folder), Path(job.output) == folder / OUTGOING
    own, first = job.generation.spark(folder), job.generation.first
    meanings = None if job.program.window is None else job.program.meanings
    places = job.checkpoint, run, passing, own.name, first
    to = sink(FileSinkOptions(job.output, job.format, schemas, merged, job.keep, *places, job.times, meanings))
    spark.dataSource.register(to)
    writer = world(blocks, job.program).writeStream.outputMode("append").format(to.name())
    beside = f"file://{own}"  # whatever the cluster's own file system is
    writer = writer.option("checkpointLocation", beside)
    if follow:
        return writer.trigger(processingTime=f"{job.every // 1000} milliseconds").start()
    return writer.trigger(availableNow=True).start()


def derived(records: DataFrame, job: Job) -> DataFrame:
    """The blocks that all stages make of those of the source, which have a `time`."""
    late = -(-(job.lateness or 0) // 1000)  # Spark would cut what is less than a millisecond
    blocks = records.withWatermark("time", f"{late} milliseconds").drop("time")
    run, folder, generation = uuid.uuid4().hex, Path(job.checkpoint), job.generation
    states = generation.states(folder)
    begin(states, job.mark)
    start = generation.start
    beginning = None if start is None else GenerationStart(generation.number, start, generation.before(folder))
    for stage in job.program.stages:
        own = BucketStates(str(states), stage.number)
        out = job.wanted, job.dead, own, beginning, job.times, job.stretch
        blocks = stepped(blocks, StageWork(job.program, stage.number, run, *out))
    if job.program.window is not None and job.program.merged:
        own = BucketStates(str(states), len(job.program.stages) + 1)
        blocks = stepped(blocks, WaysWork(job.program, run, own))
    return watched(blocks)


def world(blocks: DataFrame, program: ShippedProgram) -> DataFrame:
    """The blocks that go to the sink; those that may hold identical occurrences are in one partition."""
    found = blocks.filter(f"stage = {WORLD}").select("key", "event", "rows")
    return found.repartition("key") if program.merged and program.window is None else found
