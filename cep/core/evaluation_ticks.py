"""Evaluation ticks: periods of equal length at which a LARS program evaluates its windows.

Tick k is [k * tick, (k + 1) * tick) in microseconds. A window contains an atom for some consecutive ticks (Beck, Eiter,
Folie, *Ticker*, 2017, Definition 3). The code of a time is the integer that `cep.core.interval_sets` uses for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.interval_sets import FAR, INFINITE

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowTicks:
    """The ticks at which a window contains an atom. An atom of tick k is in the window from tick k + `first` to k +
    `last`.

    - `last`: None if the atom stays in the window for ever.
    - `step`: the window moves only at ticks that are multiples of `step`.
    - `tick`: the length of a tick in microseconds.
    """

    tick: int
    first: int = 0
    last: int | None = 0
    step: int = 1

    @property
    def late(self) -> int:
        """The delay from the start of a tick until the tick is complete, in microseconds."""
        return self.tick - 1

    def opens(self, ticks: Ints) -> Ints:
        """Return, for each atom's tick, the code of the time at which the window begins to contain the atom."""
        return self._code(ticks + self.first)

    def closes(self, ticks: Ints) -> Ints:
        """Return, for each atom's tick, the code of the time at which the window ceases to contain the atom."""
        if self.last is None:
            return np.full(len(ticks), INFINITE)
        return self._code(ticks + self.last + 1)

    def _code(self, ticks: Ints) -> Ints:
        """Return, for each tick, the code of the first tick at or after it at which the window moves."""
        if self.step > 1:
            ticks = -(-ticks // self.step) * self.step
        far = FAR // 2 // self.tick
        return (
            2 * self.tick * np.minimum(np.maximum(ticks, -far), far)
        )  # for few values, `clip` takes three times as long
