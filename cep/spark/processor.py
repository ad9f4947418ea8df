"""A stage in buckets: Spark's stateful operator, called once a micro-batch for each bucket with its shuffle blocks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from cep.spark.worker import freeze_garbage

if TYPE_CHECKING:  # loaded only where a stage runs: a process that plans a query only asks for the state variables
    from cep.spark.stage_task import StageTask, StageWork
    from cep.spark.ways_task import WaysTask, WaysWork


def stepped(blocks: DataFrame, work: StageWork | WaysWork) -> DataFrame:
    """The blocks after a stage, or after the ways are counted: without those that it took, with those that it made."""
    from cep.spark.shuffle_blocks import BLOCK_COLUMNS

    processor = Buckets(pickle.dumps(work))
    return blocks.groupBy("key").transformWithState(processor, BLOCK_COLUMNS, "Append", "EventTime")


class Buckets(StatefulProcessor):
    """The buckets of one stage. `work`: pickled."""

    def __init__(self, work: bytes) -> None:
        self.work = work

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_garbage()
        self.handle = handle
        self.version = handle.getValueState("version", StructType([StructField("version", LongType())]))
        self.task: StageTask | WaysTask | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield from self.here().take(key[0], rows, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield from self.here().call(key[0], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def here(self) -> StageTask | WaysTask:
        """The engines of the stage, loaded with the first block or timer."""
        if self.task is None:
            from cep.spark.bucket_store import BucketStore

            store = BucketStore(
                self.saved_version, lambda version: self.version.update((version,)), self.handle.registerTimer
            )
            work: StageWork | WaysWork = pickle.loads(self.work)
            self.task = work.task(store)
        return self.task

    def saved_version(self) -> int:
        """The version of the state of the current bucket; 0: it has none yet."""
        there = self.version.get()
        return 0 if there is None else int(there[0])
