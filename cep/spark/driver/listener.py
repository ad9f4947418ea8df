"""The progress of a query: the time of each micro-batch, and its reports, which reach the driver as a metric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from cep.runtime.report import Report
from cep.spark.shuffle_blocks import REPORT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "semcep"

_TIMEOUT = 10.0  # seconds that the last event of a query may take


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """`seconds`: how long it took; `phases`: of that, by Spark's names. `files`: how many were read until then, None:
    the query reads no files. `stored`: the bytes of Spark's state stores in memory."""

    number: int
    seconds: float
    phases: dict[str, float]
    files: int | None
    stored: int
    reports: Sequence[Report]

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> MicroBatch:
        """The micro-batch of a progress event of Spark."""
        lines = progress.observedMetrics[NAME]["reports"] if NAME in progress.observedMetrics else ()
        ends = [json.loads(source.endOffset) for source in progress.sources if source.endOffset]
        files = [end["files"] for end in ends if isinstance(end, dict) and isinstance(end.get("files"), int)]
        phases = {name: number / 1000 for name, number in progress.durationMs.items()}
        return cls(
            progress.batchId,
            phases.pop("triggerExecution", 0.0),
            phases,
            files[0] if files else None,
            sum(one.memoryUsedBytes for one in progress.stateOperators),
            [Report.of_line(line) for line in lines],
        )


TakeMicroBatch = Callable[[MicroBatch], None]


def watched(blocks: DataFrame) -> DataFrame:
    """The shuffle blocks after all stages; the reports among them are observed."""
    lines = sql.when(sql.col("stage") == REPORT, sql.col("source"))
    return blocks.observe(NAME, sql.collect_list(lines).alias("reports"))


class QueryListener(StreamingQueryListener):
    """Passes each finished micro-batch to `take`, in a thread of its own; `ended` is set when the query has."""

    def __init__(self, take: TakeMicroBatch) -> None:
        self.take = take
        self.ended = Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self.ended.clear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.take(MicroBatch.of(event.progress))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended.set()


@contextmanager
def listening(spark: SparkSession, take: TakeMicroBatch) -> Iterator[None]:
    """Pass each micro-batch of queries that run while the block runs to `take`; all were passed when it ends."""
    listener = QueryListener(take)
    spark.streams.addListener(listener)
    try:
        yield
        listener.ended.wait(_TIMEOUT)
    finally:
        with suppress(Py4JError, OSError):  # Java may have ended
            spark.streams.removeListener(listener)
