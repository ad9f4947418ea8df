"""The latest instant: events that come at the very time of the latest ones, as where times are whole seconds.

Results are given up to and with the latest time, so such an event is late by a moment. Where this has happened lately,
the machine steps so that this instant can be taken back. It is then run again with what follows, and not each key from
further back.
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE = 16
"""So many instants later it is not expected any more that one comes in pieces."""
SHORT, TIMES = 1 << 16, 8
"""Rows: of an instant of more, and of more than so many times those that come, each key is run again by itself."""


@dataclass(slots=True)
class LatestInstant:
    """`end`: the instant that can be taken back. `expected`: of how many instants more it is to be so. `stretch_ends`:
    a stretch is to end just before the next one. `goes_on`: more of it has come, and waits to be run again with it."""

    end: int | None = None
    expected: int = 0
    stretch_ends: bool = False
    goes_on: bool = False

    def expect(self) -> None:
        """An instant has come in pieces: the next ones may, too."""
        self.expected = PATIENCE

    def begins(self, end: int, since: int) -> bool:
        """The machine is about to step up to this instant so that it can be taken back; whether the stretch that began
        at `since` is to end just before it."""
        if self.end != end:
            self.end = end
            self.expected -= 1
        return self.stretch_ends and since < end - 1

    def forget(self) -> None:
        """There is nothing to be taken back."""
        self.end = None

    def is_short(self, changed: int, every: int) -> bool:
        """Whether the instant, of so many rows of which so many changed, is to be run again."""
        return every <= max(SHORT, TIMES * changed)
