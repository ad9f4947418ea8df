"""Idle inputs: how long nothing has arrived, and when to report that."""

from __future__ import annotations

import time
from collections.abc import Callable

from cep.connectors.records.times import SECOND

BEAT = 1.0
"""The least number of seconds between two reports."""


class IdleTimer:
    """Reports are due when nothing has arrived for `idle` seconds, and again every `idle` seconds or BEAT, whichever is
    longer, until something arrives. `idle` None: never. `clock`: returns seconds; only differences matter."""

    def __init__(self, idle: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.idle = idle
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Note that something has arrived."""
        self._since = self._clock()
        self._due = self.idle or 0.0

    @property
    def length(self) -> int:
        """Return how long nothing has arrived (microseconds, 1 or more)."""
        return max(1, round((self._clock() - self._since) * SECOND))

    @property
    def remaining(self) -> float | None:
        """Return the seconds until a report is due; None: never."""
        return None if self.idle is None else max(0.0, self._since + self._due - self._clock())

    def due(self) -> bool:
        """Return True if a report is due now; it then counts as made."""
        if self.idle is None or self.remaining:
            return False
        self._due = self._clock() - self._since + max(self.idle, BEAT)
        return True
