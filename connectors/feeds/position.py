"""How far a receiver is, where entries reach it out of order: up to a number it has all, beyond it some."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Ranges = Sequence[tuple[int, int]]
"""Numbers of entries, from and to, both included."""


class Position:
    """`cursor`: the receiver has all entries up to this number. `changed`: something was done since that was noted."""

    def __init__(self, cursor: int, ahead: Ranges = ()) -> None:
        """`ahead`: those beyond the cursor that it had at the last start."""
        self.cursor, self.changed = cursor, False
        self._before = deque(ahead)
        self._taken: deque[int] = deque()
        self._done: set[int] = set()

    def take(self, number: int) -> bool:
        """Take the next entry, in order; False: the receiver has it already."""
        self._taken.append(number)
        while self._before and self._before[0][1] < number:
            self._before.popleft()
        if self._before and self._before[0][0] <= number:
            self.done(number)
            return False
        return True

    def done(self, number: int) -> None:
        """The receiver has an entry that was taken, or it needs it no more."""
        self._done.add(number)
        self.changed = True
        while self._taken and self._taken[0] in self._done:
            self.cursor = self._taken.popleft()
            self._done.discard(self.cursor)

    def ahead(self) -> list[tuple[int, int]]:
        """Those beyond the cursor that it has, also of the last start; entries between two numbers are all of them."""
        found: list[tuple[int, int]] = []
        together = False
        for number in self._taken:
            if number in self._done:
                first = found.pop()[0] if together else number
                found.append((first, number))
            together = number in self._done
        last = self._taken[-1] if self._taken else self.cursor
        return [*found, *((max(low, last + 1), high) for low, high in self._before if high > last)]
