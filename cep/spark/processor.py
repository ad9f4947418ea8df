"""A stage in buckets: Spark's stateful operator, called once a micro-batch for each bucket with its parcels."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from cep.spark.worker import freeze_garbage

if TYPE_CHECKING:  # loaded by those that step alone: who plans a query asks only what state there is
    from cep.spark.stepping import Stepping, Work


def stepped(parcels: DataFrame, work: Work) -> DataFrame:
    """The parcels after a stage: those for it are gone, what it made is there."""
    from cep.spark.shuffle_blocks import BLOCK_COLUMNS

    processor = Buckets(pickle.dumps(work))
    return parcels.groupBy("key").transformWithState(processor, BLOCK_COLUMNS, "Append", "EventTime")


class Buckets(StatefulProcessor):
    """The buckets of one stage. `work`: pickled."""

    def __init__(self, work: bytes) -> None:
        self.work = work

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_garbage()
        self.handle = handle
        self.version = handle.getValueState("version", StructType([StructField("version", LongType())]))
        self.stepping: Stepping | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield from self.here().take(key[0], rows, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield from self.here().call(key[0], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def here(self) -> Stepping:
        """What steps, from the first parcel or timer on."""
        if self.stepping is None:
            from cep.spark.stepping import BucketTurn, Stepping

            turn = BucketTurn(self.kept, lambda version: self.version.update((version,)), self.handle.registerTimer)
            self.stepping = Stepping(pickle.loads(self.work), turn)
        return self.stepping

    def kept(self) -> int:
        """The version of the bucket whose turn it is; 0: there is none."""
        there = self.version.get()
        return 0 if there is None else int(there[0])
