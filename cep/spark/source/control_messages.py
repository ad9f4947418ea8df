"""What the planner of a query tells besides what it finds to read: calls, the end of the input, how far time has come
while nothing comes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from cep.spark.storage import spark_files
from connectors.silence import Silence
from connectors.times import SECOND

if TYPE_CHECKING:  # loaded by those that read alone: planners come and go
    import pyarrow as pa

    from cep.spark.program import ShippedProgram


class ControlMessage(InputPartition, ABC):
    """Something to be told, where a worker runs."""

    @abstractmethod
    def read(self, program: ShippedProgram, letters: str | None) -> Iterator[pa.RecordBatch]:
        """As parcels."""


class WakeUp(ControlMessage):
    """To the buckets that have something to do when no row has come yet, or to `every` one."""

    def __init__(self, every: bool = False) -> None:
        super().__init__("call")
        self.every = every

    def read(self, program: ShippedProgram, letters: str | None) -> Iterator[pa.RecordBatch]:
        from cep.spark.source import reading

        yield reading.wake_up(program, self.every)


class WaitingEvents(ControlMessage):
    """What waits for the watermark in the state of a bucket before a migration, of these events."""

    def __init__(self, state: str, events: Sequence[str]) -> None:
        super().__init__(state)
        self.state, self.events = state, list(events)

    def read(self, program: ShippedProgram, letters: str | None) -> Iterator[pa.RecordBatch]:
        from cep.spark.source import reading

        yield reading.waiting(program, self.state, self.events)


class TimeReached(ControlMessage):
    """Time has come so far (microseconds); None: to the end of the input."""

    def __init__(self, time: int | None) -> None:
        super().__init__(time)
        self.time = time

    def read(self, program: ShippedProgram, letters: str | None) -> Iterator[pa.RecordBatch]:
        from cep.spark.source import reading

        yield reading.end() if self.time is None else reading.until(self.time)


class IdleWatermark:
    """How far time has come while nothing comes: from where Spark's watermark was, as the clock goes. Before there is
    a watermark it stands still."""

    def __init__(self, idle: int, lateness: int, checkpoint: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """`idle` and `lateness` in microseconds; `checkpoint`: Spark's own folder."""
        self._silence = Silence(idle / SECOND, clock)
        self._lateness = lateness
        self._checkpoint = checkpoint
        self._from: int | None = None
        self._elsewhere = spark_files.other_sources(checkpoint)

    def heard(self) -> None:
        """Something has come."""
        self._silence.heard()
        self._from = None

    def told(self) -> int | None:
        """The time that is to be told now, by which the watermark moves (microseconds); None: there is none."""
        if (planned := spark_files.other_sources(self._checkpoint)) != self._elsewhere:
            self._elsewhere = planned
            self.heard()
        if not self._silence.due():
            return None
        if self._from is None:
            self._from = spark_files.next_watermark(self._checkpoint)
        return None if self._from is None else self._from + self._silence.length + self._lateness
