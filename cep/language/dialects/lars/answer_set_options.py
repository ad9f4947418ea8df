"""Options for answer sets of LARS programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerSetOptions:
    """`models`: 1, of several answer streams the one nearest to the last; otherwise all. `seconds`: for how long a
    search may go on, None: any. `first`: the tick at which the stream begins, if nothing comes earlier."""

    models: int = 1
    seconds: float | None = None
    first: int | None = None

    @property
    def every(self) -> bool:
        return self.models != 1
