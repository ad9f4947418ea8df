"""Detection of idle inputs. A timer measures the time without data, and decides when this silence is reported."""

from __future__ import annotations

import time
from collections.abc import Callable

from cep.connectors.records.times import SECOND

BEAT = 1.0
"""The minimum interval in seconds between two reports of the same silence."""


class IdleTimer:
    """A timer that decides when the silence of an input must be reported.

    The first report is due `idle` seconds after the last data. Later reports are due every `idle` seconds or every BEAT
    seconds, whichever is longer. If `idle` is None, no report is ever due. `clock`: a function that returns a time in
    seconds. It may count from any instant.
    """

    def __init__(self, idle: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.idle = idle
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Restart the timer, because data has arrived."""
        self._since = self._clock()
        self._due = self.idle or 0.0

    @property
    def length(self) -> int:
        """Return the time since the last data in microseconds. The result is at least 1."""
        return max(1, round((self._clock() - self._since) * SECOND))

    @property
    def remaining(self) -> float | None:
        """Return the number of seconds until the next report is due. Return None if no report will ever be due."""
        return None if self.idle is None else max(0.0, self._since + self._due - self._clock())

    def due(self) -> bool:
        """Return True if a report is due. If it is, also schedule the following report."""
        if self.idle is None or self.remaining:
            return False
        self._due = self._clock() - self._since + max(self.idle, BEAT)
        return True
