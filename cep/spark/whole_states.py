"""Conversion of states that are logs to whole states, at the end of a run and before a migration.

A log can only be read by the program that wrote it. Others, such as the next version of the rules, need whole states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from cep.core.errors import CepError
from cep.spark import spark_files
from cep.spark.disk import SPARK_LOG
from cep.spark.driver.failure import failed
from cep.spark.program import ShippedProgram
from cep.spark.stage_task import StageWork
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.bucket_states import BucketStates, log_place
from cep.spark.worker import Packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep.spark.job import Job

Logged = tuple[int, int, int]
"""The stage, the bucket and the version of a state that is part of a log."""


def logged(states: Path, versions: Mapping[str, int]) -> list[Logged]:
    """Return the states that are part of a log. `versions`: the versions to check, by names such as `1-0003`."""
    logged_states = []
    for name, version in versions.items():
        place = log_place(states / f"{name}-{version:08}")
        if place is not None and place.whole != version:
            stage, _, bucket = name.partition("-")
            logged_states.append((int(stage), int(bucket), version))
    return logged_states


def settle(program: ShippedProgram, states: str, some: Iterable[Logged], run: str | None = None) -> None:
    """Convert states that are part of a log to whole states.

    `run`: the run of a query whose engines this worker may have in memory, or None if it has none. Raises CepError if a
    state is missing, damaged, or cannot be written.
    """
    run = run or uuid4().hex
    for stage, bucket, version in some:
        StageWork(program, stage, run, (), None, BucketStates(states, stage), None).task().settle(bucket, version)


def settle_on_spark(spark: SparkSession, job: Job, tell: Callable[[str], None]) -> None:
    """Convert the states of a finished query to whole states, in its workers.

    If this fails, for example because the disk is full, `tell` is called with a message. The next run then uses the
    logs.
    """
    try:
        _settled(spark, job)
    except (CepError, PySparkException, Py4JError) as error:
        reason = error if isinstance(error, CepError) else failed(error, str(Path(job.checkpoint, SPARK_LOG)))
        tell(f"the states could not be written, so the next run first repeats the last micro-batches: {reason.message}")


def _settled(spark: SparkSession, job: Job) -> None:
    folder = Path(job.checkpoint)
    own, states = job.generation.spark(folder), job.generation.states(folder)
    done = spark_files.last(own / "commits")
    notes = BatchNotes(states)
    unsettled = logged(states, notes.after(done).versions)
    if unsettled:
        context, name, run = spark.sparkContext, str(states), job.run
        sent = context.broadcast(Packed.of(job.program))

        def settled(some: Iterable[Logged]) -> Sequence[None]:
            settle(sent.value.open(), name, some, run)
            return ()

        context.parallelize(unsettled, min(len(unsettled), context.defaultParallelism)).mapPartitions(settled).collect()
