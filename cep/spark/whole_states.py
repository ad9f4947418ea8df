"""Write states that consist of a log as whole states: when a run ends, and before another program takes them over.

The same program can step a log again. Another program, such as the next version of the rules, needs whole states.
"""

from __future__ import annotations

import pickle
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep.spark.job import Job

Logged = tuple[int, int, int]
"""Stage, bucket, and a version of it that is in its log."""


def logged(states: Path, versions: Mapping[str, int]) -> list[Logged]:
    """Those of the versions, by the names of their buckets, that are not whole."""
    found = []
    for name, version in versions.items():
        place = log_place(states / f"{name}-{version:08}")
        if place is not None and place.whole != version:
            stage, _, bucket = name.partition("-")
            found.append((int(stage), int(bucket), version))
    return found


def settle(program: ShippedProgram, states: str, some: Iterable[Logged], run: str | None = None) -> None:
    """Write them whole. `run`: the query whose engines this worker may have, None: it has none. CepError: a state is
    missing or damaged, or cannot be written."""
    run = run or uuid4().hex
    for stage, bucket, version in some:
        StageWork(program, stage, run, (), None, BucketStates(states, stage), None).task().settle(bucket, version)


def settle_on_spark(spark: SparkSession, job: Job, tell: Callable[[str], None]) -> None:
    """The same for the last micro-batch of a query that has ended, in its workers. Where that cannot be, as for want of
    room, `tell` is told why, and the next run goes on with the logs."""
    try:
        _settled(spark, job)
    except (CepError, PySparkException, Py4JError) as error:
        reason = error if isinstance(error, CepError) else failed(error, str(Path(job.checkpoint, SPARK_LOG)))
        tell(f"the states stay a log, which the next run steps again: {reason.message}")


def _settled(spark: SparkSession, job: Job) -> None:
    folder = Path(job.checkpoint)
    own, states = job.generation.spark(folder), job.generation.states(folder)
    done = spark_files.last(own / "commits")
    notes = BatchNotes(states)
    found = logged(states, notes.after(done).versions)
    if found:
        context, name, run = spark.sparkContext, str(states), job.run
        sent = context.broadcast(pickle.dumps(job.program))

        def settled(some: Iterable[Logged]) -> Sequence[None]:
            settle(pickle.loads(sent.value), name, some, run)
            return ()

        context.parallelize(found, min(len(found), context.defaultParallelism)).mapPartitions(settled).collect()
