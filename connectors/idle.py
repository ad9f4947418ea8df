"""Idle inputs: the time without data, and when to report it."""

from __future__ import annotations

import time
from collections.abc import Callable

from cep.connectors.records.times import SECOND

BEAT = 1.0
"""The least interval between two reports, in seconds."""


class IdleTimer:
    """A timer that says when the silence of an input must be reported.

    The first report is due `idle` seconds after the last data, and the next ones every `idle` seconds or BEAT,
    whichever is longer. If `idle` is None, no report is ever due. `clock` returns seconds; only differences matter.
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
        """Return the time since the last data, in microseconds, at least 1."""
        return max(1, round((self._clock() - self._since) * SECOND))

    @property
    def remaining(self) -> float | None:
        """Return the seconds until a report is due, or None if there will be none."""
        return None if self.idle is None else max(0.0, self._since + self._due - self._clock())

    def due(self) -> bool:
        """Return True if a report is due now, and schedule the next one."""
        if self.idle is None or self.remaining:
            return False
        self._due = self._clock() - self._since + max(self.idle, BEAT)
        return True
