"""The position of a receiver that accepts entries out of order: all up to a number, and some beyond it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

Ranges = Sequence[tuple[int, int]]
"""Numbers of entries, from and to, both included."""

MOST = 1000
"""The greatest number of recorded ranges. Entries beyond them are sent again after a start."""


class Position:
    """A position. `changed`: it has advanced since it was recorded. It stores the entries that are not done, because a
    refused entry may have a million done ones after it."""

    def __init__(self, cursor: int, ahead: Ranges = ()) -> None:
        """The receiver has all up to `cursor`, and at the last start it had those in `ahead`."""
        self.changed = False
        self._last = cursor  # the last one that was taken
        self._waiting: dict[int, None] = {}  # taken and not done, in order
        self._before = deque(ahead)

    @property
    def cursor(self) -> int:
        """The receiver has all entries up to this number."""
        return next(iter(self._waiting), self._last + 1) - 1

    def take(self, number: int) -> bool:
        """Take the next entry, in order; False: the receiver has it already."""
        self._last = number
        while self._before and self._before[0][1] < number:
            self._before.popleft()
        if self._before and self._before[0][0] <= number:
            self.changed = True
            return False
        self._waiting[number] = None
        return True

    def done(self, number: int) -> None:
        """Note that the receiver has an entry that was taken, or needs it no more. It may have had it before."""
        if number in self._waiting:
            del self._waiting[number]
            self.changed = True

    def ahead(self) -> list[tuple[int, int]]:
        """Return the ranges beyond the cursor that it has, including those of the last start: everything between two
        that wait."""
        waiting = list(islice(self._waiting, MOST + 1))
        ends = [*waiting[1:], *([self._last + 1] if len(waiting) <= MOST else [])]
        between = [(low + 1, high - 1) for low, high in zip(waiting, ends) if high > low + 1]
        beyond = [(max(low, self._last + 1), high) for low, high in self._before if high > self._last]
        return [*between, *beyond] if len(waiting) <= MOST else between
