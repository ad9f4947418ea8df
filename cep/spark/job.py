"""A program as a streaming query: source, stages one after another, sink; and how it is run to its end."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cep.spark.commits import Outlet, sink
from cep.spark.files import JOURNAL, Files, source
from cep.spark.listener import watched
from cep.spark.parcels import WORLD
from cep.spark.processor import stepped
from cep.spark.program import Program
from cep.spark.states import NAME as STATES


@dataclass(frozen=True, slots=True)
class Job:
    """`lateness` in microseconds, None: nothing is late before the end of the input. `limit`: files in a micro-batch,
    `most`: about how many messages of each live input. `closing`: the end of the files is the end of the input.
    `format`: jsonl or parquet. `letters`: a folder. `every`: microseconds from one look for more to the next."""

    program: Program
    inputs: tuple[str, ...]
    output: str
    checkpoint: str
    wanted: tuple[str, ...]
    lateness: int | None = None
    format: str = "parquet"
    input_format: str | None = None
    limit: int | None = None
    closing: bool = True
    letters: str | None = None
    most: int | None = None
    every: int = 0


def start(spark: SparkSession, job: Job, follow: bool = False) -> StreamingQuery:
    """The query, running: over what is there, or until it is stopped."""
    closing = job.closing and not follow
    journal = str(Path(job.checkpoint) / JOURNAL)
    files = Files.of(job.program, job.inputs, job.input_format, journal, job.limit, closing, job.letters, job.most)
    found = source(files)
    spark.dataSource.register(found)
    parcels = derived(spark.readStream.format(found.name()).load(), job)
    schemas = {event: job.program.schemas[event] for event in job.wanted}
    to = sink(Outlet(job.output, job.format, schemas, job.program.merged))
    spark.dataSource.register(to)
    writer = world(parcels, job.program).writeStream.outputMode("append").format(to.name())
    writer = writer.option("checkpointLocation", str(Path(job.checkpoint) / "spark"))
    if follow:
        return writer.trigger(processingTime=f"{job.every // 1000} milliseconds").start()
    return writer.trigger(availableNow=True).start()


def derived(records: DataFrame, job: Job) -> DataFrame:
    """What all stages make of parcels with their `time`."""
    late = 0 if job.lateness is None else job.lateness
    parcels = records.withWatermark("time", f"{late} microseconds").drop("time")
    run, states = uuid.uuid4().hex, Path(job.checkpoint) / STATES
    states.mkdir(exist_ok=True)
    for stage in job.program.stages:
        parcels = stepped(parcels, job.program, stage.number, run, job.wanted, job.letters, str(states))
    return watched(parcels)


def world(parcels: DataFrame, program: Program) -> DataFrame:
    """The parcels of what goes out; those that may hold the same occurrences are in one partition."""
    found = parcels.filter(f"stage = {WORLD}").select("key", "event", "rows")
    return found.repartition("key") if program.merged else found
