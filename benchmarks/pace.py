"""How fast the machine is at the moment: what others do on it makes a virtual one half as fast for a while."""

from __future__ import annotations

import time
from dataclasses import dataclass

WORK = 1_000_000
"""How many numbers are added up to see it: some hundredths of a second."""
USUAL = 0.05
"""Seconds of a core in which a usual one does that."""


def work() -> tuple[float, float]:
    """The seconds that a fixed piece of work takes now: by the clock, and of a core."""
    began, before = time.perf_counter(), time.thread_time()
    sum(range(WORK))
    return time.perf_counter() - began, time.thread_time() - before


@dataclass(slots=True)
class Pace:
    """How many pieces of work were done between others that are measured, and the seconds of a core that they took."""

    pieces: int = 0
    seconds: float = 0.0

    def look(self) -> None:
        """Do one more."""
        self.seconds += work()[1]
        self.pieces += 1

    def usual(self, seconds: float, before: Pace | None = None) -> float:
        """What would have taken so many seconds of a usual core, measured since `before`."""
        pieces, took = self.pieces - (before.pieces if before else 0), self.seconds - (before.seconds if before else 0)
        return seconds * USUAL * pieces / took if took else seconds
