"""Control of a running query. This module reports finished micro-batches, stops the query on signals, and restarts it.

A query is restarted only if a Python process failed for one of two reasons:

- The process did not start and connect within 10 seconds. Spark has no setting for this limit, and a busy machine
  sometimes takes longer.
- The process in which Spark plans micro-batches was killed for lack of memory. Spark restarts the killed processes of
  tasks, but not this one. The query then continues from its checkpoint, as after any failure.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from cep.core.errors import CepError
from cep.runtime.report import Report
from cep.spark.disk import SPARK_LOG, STOP
from cep.spark.driver.failure import FAILED, failed, lost
from cep.spark.driver.reports import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cep.core.logs import Log

TRIES = 5
"""The maximum number of successive starts of a query that finish no micro-batch."""

_TIMEOUT = 10.0  # seconds that the last event of a query may take
_POLL = 0.2  # seconds between two checks for a stop request
_LOOK = 2.0  # seconds between two calls of `working`
_PASSING = ("failed to connect back", "worker to connect back", "Python worker exited unexpectedly")
_LOST = ("java.io.EOFException", "Connection reset", "Broken pipe")
"""The messages of Java's errors if the planning process dies during a request."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A finished micro-batch.

    - `seconds`: its duration.
    - `phases`: the parts of this duration in seconds, by Spark's names.
    - `files`: the number of files that the query has read so far, or None if it reads no files.
    - `reports`: the reports of its tasks.
    """

    number: int
    seconds: float
    phases: dict[str, float]
    files: int | None
    reports: Sequence[Report]

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> MicroBatch:
        """Convert a progress event of Spark."""
        ends = [json.loads(source.endOffset) for source in progress.sources if source.endOffset]
        files = [end["files"] for end in ends if isinstance(end, dict) and isinstance(end.get("files"), int)]
        phases = {name: number / 1000 for name, number in progress.durationMs.items()}
        return cls(
            progress.batchId,
            phases.pop("triggerExecution", 0.0),
            phases,
            files[0] if files else None,
            told(str(progress.id), progress.batchId),
        )


TakeMicroBatch = Callable[[MicroBatch], None]


class QueryListener(StreamingQueryListener):
    """A listener that passes each finished micro-batch to `take`, in a thread of Spark.

    The listener calls `idle` from time to time while no micro-batch finishes. `ended` is set when the query has ended.
    """

    def __init__(self, take: TakeMicroBatch, idle: Callable[[], None] = lambda: None) -> None:
        self.take, self.idle = take, idle
        self.ended = Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self.ended.clear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.take(MicroBatch.of(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        self.idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended.set()


@contextmanager
def listening(spark: SparkSession, take: TakeMicroBatch, idle: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Pass each micro-batch that finishes inside a `with` block to `take`. At its end, the block waits until the last
    micro-batch has been passed.

    `idle`: a function that is called after every ten seconds without a micro-batch.
    """
    listener = QueryListener(take, idle)
    spark.streams.addListener(listener)
    try:
        yield
        listener.ended.wait(_TIMEOUT)
    finally:
        with suppress(Py4JError, OSError):  # Java may have ended
            spark.streams.removeListener(listener)


class StopRequest:
    """A handler that treats Ctrl-C and SIGTERM as a request to stop. The source then returns no more input, and the
    query ends once its state is saved.

    - `signal`: the number of the received signal, or 0. A second signal stops the query at once. The next run then
      repeats the current micro-batch.
    - `working`: a function that is called every two seconds while the query runs.
    """

    def __init__(self, checkpoint: Path, working: Callable[[], None] = lambda: None) -> None:
        self.signal, self._working = 0, working
        self._again = False
        self._file = checkpoint / STOP

    @property
    def at_once(self) -> bool:
        """True if a second signal has arrived."""
        return self._again

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Treat signals that arrive inside a `with` block as requests to stop."""
        self._file.unlink(missing_ok=True)
        before = [(number, signal.signal(number, self._request)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            yield self
        finally:
            for number, handler in before:
                signal.signal(number, handler)
            self._file.unlink(missing_ok=True)

    def begun(self, begin: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Start a query. If the query cannot start, raises CepError with the reason."""
        try:
            return begin()
        except (Py4JJavaError, PySparkException) as error:
            raise failed(error, str(self._file.with_name(SPARK_LOG))) from None

    def wait(self, query: StreamingQuery, endless: bool) -> None:
        """Wait until the query has ended by itself or on request. Raises CepError if the query has failed.

        `endless`: True if the query runs until it is stopped.
        """
        looked = monotonic()
        try:
            while not query.awaitTermination(_POLL):  # type: ignore[arg-type]
                if self._again:
                    query.stop()
                elif self._file.exists():
                    # A micro-batch that begins now would have no rows.
                    if endless and not query.status["isTriggerActive"]:
                        query.stop()
                elif self.signal:
                    self._file.touch()
                if monotonic() > looked + _LOOK:
                    self._working()
                    looked = monotonic()
        except StreamingQueryException as error:
            raise failed(error, str(self._file.with_name(SPARK_LOG))) from None
        except (Py4JError, OSError):
            raise lost(str(self._file.with_name(SPARK_LOG))) from None

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._again, self.signal = bool(self.signal), number


def run_query(
    begin: Callable[[], StreamingQuery], stop: StopRequest, endless: bool, finished: Callable[[], int], log: Log
) -> None:
    """Run the query that `begin` starts, until it ends or is stopped. Raises CepError if the query fails.

    - `stop`: the handler of requests to stop.
    - `endless`: True if the query runs until it is stopped.
    - `finished`: a function that returns the number of finished micro-batches.
    """
    tries, done = 0, finished()
    while True:
        try:
            stop.wait(stop.begun(begin), endless)
            return
        except CepError as error:
            tries = tries + 1 if finished() == done else 1
            done = finished()
            if not passing(error) or stop.signal or tries == TRIES:
                raise
            log("again", f"{error.message}: the query starts again", "warning")


def running_tasks(spark: SparkSession) -> tuple[int, int]:
    """Return the number of finished tasks and the number of all tasks, for the stages that Spark runs now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


def passing(error: CepError) -> bool:
    """Return True if the error may be temporary: the machine was busy or short of memory."""
    why = error.message.removeprefix(FAILED)
    return why in _LOST or any(words in why for words in _PASSING)
