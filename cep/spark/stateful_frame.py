"""Rules over streaming DataFrames whose result is a streaming DataFrame. Each stage is a stateful operator of Spark.

Spark keeps the state of each bucket in its own stores. Spark Connect can run such a plan, and the user can write the
result with any sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from warnings import warn

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from cep.core.errors import CepError
from cep.core.time import FARTHEST
from cep.spark.frame_events import Events
from cep.spark.grouped import BLOCKS, TIMED, dealing, parted, stage_work, step
from cep.spark.shuffle_blocks import ShuffleBlock
from cep.spark.source.knowledge_changes import ChangeRows
from cep.spark.worker import Packed, freeze_garbage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep.engine import Engine
    from cep.spark.program import ShippedProgram
    from cep.spark.source.data_frames import Provided
    from cep.spark.stage_task import StageTask

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_FEW = 8  # with up to twice as many stores, there is no warning
_STORES = "spark.sql.shuffle.partitions"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_engines: dict[tuple[str, int, int], tuple[int, Engine]] = {}
"""The engines that this worker keeps, and their versions. A key consists of the run, the stage and the bucket."""


def streamed(
    spark: SparkSession,
    program: ShippedProgram,
    frames: Sequence[Provided],
    lateness: int,
) -> Events:
    """Return the events that a program derives from streaming DataFrames, as streaming DataFrames.

    `lateness`: how far out of order rows may arrive, in microseconds. Raises CepError if Spark does not keep state in
    RocksDB, or if the program cannot run this way.
    """
    if (provider := spark.conf.get(PROVIDER, "")) != _ROCKS:
        raise CepError(
            f"frame: the session keeps state in {str(provider).rpartition('.')[2] or 'an unknown store'}, but "
            "Spark's `transformWithState` needs RocksDB",
            hint=f'use `spark.conf.set("{PROVIDER}", "{_ROCKS}")` before the query starts',
            code="spark",
        )
    refused = (
        (any(isinstance(reader, ChangeRows) for _, reader in frames), "a DataFrame of `changes` of the knowledge"),
        (program.window is not None or program.revises, "`revise` or input that withdraws records"),
        (bool(program.ticking), "a rule at a point of time"),
        (bool(program.beginning), "a cycle through NOT or AGGREGATE, which begins with the input"),
    )
    for wrong, what in refused:
        if wrong:
            raise CepError(
                f"frame: a streaming DataFrame does not support {what}", hint="use `start` or `each`", code="spark"
            )
    if (stores := str(spark.conf.get(_STORES))).isdecimal() and int(stores) > 2 * max(program.buckets, _FEW):
        warn(
            f"frame: each micro-batch runs {stores} tasks per stage, as {_STORES} says, but only {program.buckets} "
            f'have work: use `spark.conf.set("{_STORES}", {program.buckets})` before the query starts',
            stacklevel=5,
        )
    timed = f"{BLOCKS}, {TIMED} timestamp"
    every = [frame.mapInArrow(dealing(program, reader, timed=True), timed) for frame, reader in frames]
    late = -(-lateness // 1000)  # rounded up, because Spark drops fractions of a millisecond
    blocks = reduce(DataFrame.unionAll, every).withWatermark(TIMED, f"{late} milliseconds").drop(TIMED)
    packed = Packed.of(program)
    for stage in program.stages:
        processor = Buckets(packed, stage.number)
        blocks = blocks.groupBy("bucket").transformWithState(processor, BLOCKS, "Append", "EventTime")
    return Events(*parted(program, blocks))


class Buckets(StatefulProcessor):
    """The buckets of a stage, as a stateful operator of Spark. The state of a bucket consists of a version and the
    snapshot of its engine.

    A worker also keeps engines in memory. It continues with such an engine if Spark's store has the same version.
    """

    def __init__(self, packed: Packed[ShippedProgram], number: int) -> None:
        self._packed, self._number = packed, number
        self._task: StageTask | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Prepare a task."""
        freeze_garbage()
        self._handle = handle
        self._version = handle.getValueState("version", StructType([StructField("version", LongType())]))
        self._state = handle.getValueState("state", StructType([StructField("state", BinaryType())]))
        self._run = _run_of_task()

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Advance a bucket with the rows of this stage. Yield its results, and the rows of other stages unchanged."""
        mine = []
        for row in rows:
            if row.stage == self._number:
                mine.append(ShuffleBlock(row.stage, row.bucket, row.event, row.place, row.source, bytes(row.rows), 0))
            else:
                yield row
        if mine:
            yield from self._step(key[0], mine, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Advance a bucket that has no input. This is necessary if rows in its state wait for the watermark."""
        yield from self._step(key[0], (), timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Do nothing at the end of a task."""

    def _step(self, bucket: int, rows: Sequence[ShuffleBlock], watermark: int) -> Iterator[Row]:
        if self._task is None:
            self._task = stage_work(self._packed, self._number).task()
        kept = self._version.get()
        version = 0 if kept is None else int(kept[0])
        engine = self._engine(bucket, version)
        blocks = list(step(self._task, engine, bucket, version, rows, max(watermark, 0)))
        self._version.update((version + 1,))
        self._state.update((engine.snapshot(),))
        _engines[self._run, self._number, bucket] = version + 1, engine
        if engine.state_rows and engine.watermark < FARTHEST:
            self._handle.registerTimer(max(watermark, 0) + 1)
        for block in blocks:
            yield Row(
                stage=block.stage,
                bucket=block.bucket,
                event=block.event,
                place=block.place,
                source=block.source,
                rows=block.rows,
            )

    def _engine(self, bucket: int, version: int) -> Engine:
        known, engine = _engines.pop((self._run, self._number, bucket), (-1, None))
        if engine is not None and known == version:
            return engine
        for key in [engine for engine in _engines if engine[0] != self._run]:
            del _engines[key]  # of runs that have ended, or that will load the state again
        assert self._task is not None, "it is made first"
        engine = self._task.program.engine(self._number)
        if version:
            state = self._state.get()
            assert state is not None, "it is kept with its version"
            engine.restore(bytes(state[0]))
        return engine


def _run_of_task() -> str:
    """Return the name of the query run to which the task belongs. If Spark does not provide it, return a unique name.

    Engines are stored under this name, because an engine of another run may have processed other rows.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    job_group = None if task is None else task.getLocalProperty("spark.jobGroup.id")
    return job_group or uuid4().hex
