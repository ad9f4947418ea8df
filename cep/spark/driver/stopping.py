"""Ctrl-C and SIGTERM as a wish to stop: the source gives nothing more, and the query ends when its state is kept."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException

from cep.spark.driver.failure import failed, lost
from cep.spark.driver.spark_log import NAME as LOG

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "stop"
"""While a checkpoint holds this file, sources give nothing."""

_BEAT = 0.2  # seconds between two looks at the wish


class StopRequest:
    """`wished` is the signal's number, 0 while there is none. A second one stops at once: the micro-batch at hand is
    done again the next time. `beside`: a source that knows nothing of wishes gives on, so that the micro-batch after
    the one at hand is begun, and left for the next time."""

    def __init__(self, checkpoint: Path, beside: bool = False) -> None:
        self.wished = 0
        self._again, self._beside = False, beside
        self._file = checkpoint / NAME

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """The signals that come while the block runs are wishes."""
        self._file.unlink(missing_ok=True)
        before = [(number, signal.signal(number, self._wish)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            yield self
        finally:
            for number, handler in before:
                signal.signal(number, handler)
            self._file.unlink(missing_ok=True)

    def begun(self, begin: Callable[[], StreamingQuery]) -> StreamingQuery:
        """A query that begins. CepError: it cannot; says why."""
        try:
            return begin()
        except (Py4JJavaError, PySparkException) as error:
            raise failed(error, str(self._file.with_name(LOG))) from None

    def wait(self, query: StreamingQuery, endless: bool) -> None:
        """Until the query has ended, of itself or as it is wished. CepError: it has failed; says why."""
        last: int | None = None  # micro-batch that had ended when the wish was told
        try:
            while not query.awaitTermination(_BEAT):  # type: ignore[arg-type]
                if self._again:
                    query.stop()
                elif self._file.exists():
                    last = _last(query) if last is None else last
                    if endless and not query.status["isTriggerActive"]:  # a micro-batch that begins now has no rows
                        query.stop()
                    elif self._beside and _last(query) > last:
                        query.stop()
                elif self.wished:
                    self._file.touch()
        except StreamingQueryException as error:
            raise failed(error, str(self._file.with_name(LOG))) from None
        except (Py4JError, OSError):
            raise lost(str(self._file.with_name(LOG))) from None

    def _wish(self, number: int, frame: FrameType | None) -> None:
        self._again, self.wished = bool(self.wished), number


def _last(query: StreamingQuery) -> int:
    """The last micro-batch that has ended, -1: none has."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
