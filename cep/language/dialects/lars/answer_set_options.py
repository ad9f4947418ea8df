"""Options for answer sets of LARS programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerSetOptions:
    """Options of the solver.

    `models`: 1 returns only the answer stream nearest to the answer stream of the tick before; any other number returns
    all. `seconds`: the time limit of a search (None: unlimited). `first`: the tick at which the stream begins unless
    earlier input arrives.
    """

    models: int = 1
    seconds: float | None = None
    first: int | None = None

    @property
    def every(self) -> bool:
        return self.models != 1
