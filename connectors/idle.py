"""Idle inputs: for how long nothing has come, and when that is to be reported."""

from __future__ import annotations

import time
from collections.abc import Callable

from cep.connectors.records.times import SECOND

BEAT = 1.0
"""Seconds between two reports, at least."""


class IdleTimer:
    """Reports are due when nothing has come for `idle` seconds, and again each `idle` seconds or BEAT, whichever is
    longer, until something comes. `idle` None: never. `clock`: seconds, of which only differences matter."""

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
        """The seconds until a report is due, None: never."""
        return None if self.idle is None else max(0.0, self._since + self._due - self._clock())

    def due(self) -> bool:
        """Return True if a report is due now; it then counts as made."""
        if self.idle is None or self.remaining:
            return False
        self._due = self._clock() - self._since + max(self.idle, BEAT)
        return True
