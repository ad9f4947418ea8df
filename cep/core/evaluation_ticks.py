"""Evaluation ticks: whole numbers of a clock, each with the time until the next tick, as codes of intervals.

Tick k is [k * tick, (k + 1) * tick) in microseconds. A LARS program evaluates its windows at each tick. An atom is in a
window for some consecutive ticks (Beck, Eiter, Folie, *Ticker*, 2017, Definition 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import FAR, INFINITE

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowTicks:
    """The evaluation ticks whose window contains an atom of tick k: k + `first` to k + `last` (None: for ever).

    `step`: windows move only at multiples of `step`. `tick`: the length of a tick in microseconds.
    """

    tick: int
    first: int = 0
    last: int | None = 0
    step: int = 1

    @property
    def late(self) -> int:
        """The delay until a tick is complete, in microseconds."""
        return self.tick - 1

    def opens(self, ticks: Ints) -> Ints:
        """Return the codes from which windows contain atoms of these ticks."""
        return self._code(ticks + self.first)

    def closes(self, ticks: Ints) -> Ints:
        """Return the codes from which windows no longer contain atoms of these ticks."""
        if self.last is None:
            return np.full(len(ticks), INFINITE)
        return self._code(ticks + self.last + 1)

    def _code(self, ticks: Ints) -> Ints:
        """Return the code of the first tick, at or after each of these, at which the window moves."""
        if self.step > 1:
            ticks = -(-ticks // self.step) * self.step
        far = FAR // 2 // self.tick
        return (
            2 * self.tick * np.minimum(np.maximum(ticks, -far), far)
        )  # for few values, `clip` takes three times as long
