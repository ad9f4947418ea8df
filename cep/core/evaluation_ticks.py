"""Evaluation ticks: whole numbers of a clock, each with the time from it to the next, as codes of intervals.

Tick k is [k * tick, (k + 1) * tick) in microseconds. A window of a LARS program is asked at a tick; what is in one is
so for some ticks on (Beck, Eiter, Folie, *Ticker*, 2017, Definition 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import FAR, INFINITE

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowTicks:
    """For which evaluation ticks what is at tick k is in a window: from k + `first` to k + `last` (None: for ever);
    `step`: the window is that of the last multiple of it. `tick`: microseconds of one."""

    tick: int
    first: int = 0
    last: int | None = 0
    step: int = 1

    @property
    def late(self) -> int:
        """The delay, in microseconds, until a tick is complete: at its end."""
        return self.tick - 1

    def opens(self, at: Ints) -> Ints:
        """The codes from which on what is at these ticks is in the window."""
        return self._code(at + self.first)

    def closes(self, at: Ints) -> Ints:
        """The codes from which on it is no more."""
        if self.last is None:
            return np.full(len(at), INFINITE)
        return self._code(at + self.last + 1)

    def _code(self, at: Ints) -> Ints:
        """The code of the first tick from these on at which the window is another."""
        if self.step > 1:
            at = -(-at // self.step) * self.step
        far = FAR // 2 // self.tick
        return 2 * self.tick * np.minimum(np.maximum(at, -far), far)  # `clip` takes three times as long of a few
