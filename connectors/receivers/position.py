"""The position of a receiver that accepts entries out of order. It consists of the number up to which the receiver has
accepted all entries, and of ranges of later entries that it has also accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

Ranges = Sequence[tuple[int, int]]
"""Ranges of entry numbers. Both ends are included."""

MOST = 1000
"""The maximum number of recorded ranges. Entries in further ranges are sent again after a restart."""


class Position:
    """The position of a receiver. `changed`: True if the position has advanced since it was last recorded.

    An entry is done if the receiver has accepted it or no longer needs it. This object stores the entries that are not
    done, because one refused entry may precede a million accepted entries.
    """

    def __init__(self, cursor: int, ahead: Ranges = ()) -> None:
        """Continue from the position that was recorded last.

        `cursor`: the number up to which the receiver has accepted all entries. `ahead`: the ranges of later entries
        that it has accepted.
        """
        self.changed = False
        self._last = cursor  # the last entry that was added
        self._waiting: dict[int, None] = {}  # entries that were added and are not done, in order
        self._before = deque(ahead)

    @property
    def cursor(self) -> int:
        """The number up to which all entries are done."""
        return next(iter(self._waiting), self._last + 1) - 1

    def take(self, number: int) -> bool:
        """Add the next entry, in order. Return False if the receiver has accepted it already."""
        self._last = number
        while self._before and self._before[0][1] < number:
            self._before.popleft()
        if self._before and self._before[0][0] <= number:
            self.changed = True
            return False
        self._waiting[number] = None
        return True

    def done(self, number: int) -> None:
        """Record that the receiver has accepted an entry or no longer needs it. A second call has no effect."""
        if number in self._waiting:
            del self._waiting[number]
            self.changed = True

    def ahead(self) -> list[tuple[int, int]]:
        """Return the ranges of entries after the cursor that are done. Both ends of a range are included."""
        waiting = list(islice(self._waiting, MOST + 1))
        ends = [*waiting[1:], *([self._last + 1] if len(waiting) <= MOST else [])]
        between = [(low + 1, high - 1) for low, high in zip(waiting, ends) if high > low + 1]
        beyond = [(max(low, self._last + 1), high) for low, high in self._before if high > self._last]
        return [*between, *beyond] if len(waiting) <= MOST else between
