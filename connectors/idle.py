"""IdleTimer: for how long nothing has come, and when that is to be told."""

from __future__ import annotations

import time
from collections.abc import Callable

from connectors.times import SECOND

BEAT = 1.0
"""Seconds between two times of telling, at least."""


class IdleTimer:
    """A silence is told when it has lasted `idle` seconds, and again each `idle` seconds or BEAT, whichever is longer,
    until something comes. `idle` None: it never is. `clock`: seconds, which only their differences mean something."""

    def __init__(self, idle: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.idle = idle
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Something has come."""
        self._since = self._clock()
        self._due = self.idle or 0.0

    @property
    def length(self) -> int:
        """For how long nothing has come (microseconds, 1 or more)."""
        return max(1, round((self._clock() - self._since) * SECOND))

    @property
    def remaining(self) -> float | None:
        """The seconds until it is to be told, None: it never is."""
        return None if self.idle is None else max(0.0, self._since + self._due - self._clock())

    def due(self) -> bool:
        """Whether it is to be told now; then it is told."""
        if self.idle is None or self.remaining:
            return False
        self._due = self._clock() - self._since + max(self.idle, BEAT)
        return True
