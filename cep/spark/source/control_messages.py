"""Messages of a source that are not records, such as the end of the input, or the time while there is no input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cep.connectors.ahead_limits import AheadLimits
from cep.connectors.idle import IdleTimer
from cep.connectors.records.times import SECOND
from cep.spark import spark_files
from cep.spark.source.work_item import WorkItem

if TYPE_CHECKING:  # loaded only where files are read, because processes that plan start often
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock


class WakeUp(WorkItem):
    """A message that makes buckets run without input. These are the buckets that must run before the first row, or all
    buckets if `every` is True."""

    def __init__(self, every: bool = False) -> None:
        super().__init__("call")
        self.every = every

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.shuffle_blocks import wake_ups

        yield from wake_ups(program, self.every)


class WaitingEvents(WorkItem):
    """Rows of some events that wait for the watermark. A migration reads them from the states of the former program."""

    def __init__(self, state: str, events: Sequence[str]) -> None:
        super().__init__(state)
        self.state, self.events = state, list(events)

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.source import reading

        yield from reading.waiting(program, self.state, self.events)


class TimeReached(WorkItem):
    """A message that event time has reached `time` (microseconds). If `time` is None, the input has ended."""

    def __init__(self, time: int | None) -> None:
        super().__init__(time)
        self.time = time

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.shuffle_blocks import END, TIME, ShuffleBlock

        yield ShuffleBlock(TIME, 0, latest=END if self.time is None else self.time)


class IdleWatermark:
    """The watermark while there is no input. It advances by the clock, beginning at the last watermark. If there is no
    watermark yet, it does not advance."""

    def __init__(
        self,
        idle: int,
        lateness: int,
        checkpoint: Path,
        watermark: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the timer.

        - `idle`: the time without input after which the watermark advances, in microseconds.
        - `lateness`: how far out of order records may arrive, in microseconds.
        - `checkpoint`: the folder of Spark's own files.
        - `watermark`: a function that returns the watermark of the next micro-batch, in microseconds.
        """
        self._timer = IdleTimer(idle / SECOND, clock)
        self._lateness = lateness
        self._checkpoint, self._watermark = checkpoint, watermark
        self._from: int | None = None
        self._others = spark_files.other_sources(checkpoint)

    def reset(self) -> None:
        """Restart the timer, because input has arrived."""
        self._timer.reset()
        self._from = None

    def due(self) -> int | None:
        """Return the event time (microseconds) to send now so that the watermark advances, or None."""
        if (planned := spark_files.other_sources(self._checkpoint)) != self._others:
            self._others = planned
            self.reset()
        if not self._timer.due():
            return None
        if self._from is None:
            self._from = self._watermark()
        return None if self._from is None else self._from + self._timer.length + self._lateness
