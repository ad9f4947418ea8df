"""Options for answer sets of LARS programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerSetOptions:
    """Options of the answer set solver.

    - `models`: 1 to return only the answer stream that is nearest to the answer stream of the previous tick. Any
      other number returns all answer streams.
    - `seconds`: the time limit of a search. None means unlimited.
    - `first`: the tick at which the stream begins unless earlier input arrives.
    """

    models: int = 1
    seconds: float | None = None
    first: int | None = None

    @property
    def every(self) -> bool:
        return self.models != 1
