"""What a query tells of each micro-batch: its reports, which reach the driver as an observed metric, and its time."""

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

_PATIENCE = 10.0  # seconds that the last word of a query may take to come


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """`seconds`: how long it took, of which `phases` are parts, as Spark calls them. `files`: how many have been read,
    None: it does not read files. `stored`: the bytes of Spark's state stores in memory."""

    number: int
    seconds: float
    phases: dict[str, float]
    files: int | None
    stored: int
    reports: Sequence[Report]

    @classmethod
    def of(cls, told: StreamingQueryProgress) -> MicroBatch:
        """Of what Spark tells."""
        lines = told.observedMetrics[NAME]["reports"] if NAME in told.observedMetrics else ()
        ends = [json.loads(source.endOffset) for source in told.sources if source.endOffset]
        files = [end["files"] for end in ends if isinstance(end, dict) and isinstance(end.get("files"), int)]
        phases = {name: number / 1000 for name, number in told.durationMs.items()}
        return cls(
            told.batchId,
            phases.pop("triggerExecution", 0.0),
            phases,
            files[0] if files else None,
            sum(one.memoryUsedBytes for one in told.stateOperators),
            [Report.of_line(line) for line in lines],
        )


Take = Callable[[MicroBatch], None]


def watched(parcels: DataFrame) -> DataFrame:
    """The parcels behind all stages, the reports among them observed."""
    lines = sql.when(sql.col("stage") == REPORT, sql.col("source"))
    return parcels.observe(NAME, sql.collect_list(lines).alias("reports"))


class Listener(StreamingQueryListener):
    """Hands each micro-batch that was run to `take`, in a thread of its own; `ended` when the query has."""

    def __init__(self, take: Take) -> None:
        self.take = take
        self.ended = Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self.ended.clear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.take(MicroBatch.of(event.progress))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended.set()


@contextmanager
def listening(spark: SparkSession, take: Take) -> Iterator[None]:
    """Each micro-batch of queries that run while the block runs; all of them have been told when it ends."""
    listener = Listener(take)
    spark.streams.addListener(listener)
    try:
        yield
        listener.ended.wait(_PATIENCE)
    finally:
        with suppress(Py4JError, OSError):  # Java may have ended
            spark.streams.removeListener(listener)
