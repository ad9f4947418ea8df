"""Values that replace each other over time."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Ints = NDArray[np.int64]


class Versions(Generic[T]):
    """The versions of a value. Each version is valid from its time until the next version begins. The first version has
    always been valid."""

    def __init__(self, first: T) -> None:
        self._times: list[int] = []  # the times at which all versions except the first begin
        self._values = [first]

    @property
    def latest(self) -> T:
        return self._values[-1]

    @property
    def several(self) -> bool:
        """True if there is more than one version."""
        return bool(self._times)

    def add(self, time: int, value: T) -> None:
        """Add a version that begins at `time`, which must not be earlier than the time of the latest version."""
        self._times.append(time)
        self._values.append(value)

    def undo(self, after: int) -> None:
        """Drop the versions that begin after a time."""
        stop = bisect_right(self._times, after)
        del self._times[stop:], self._values[stop + 1 :]

    def forget(self, until: int) -> None:
        """Drop the versions that are only valid before the time `until`."""
        start = bisect_right(self._times, until)
        del self._times[:start], self._values[:start]

    def at(self, times: Ints | None) -> list[tuple[T, Ints | None]]:
        """Return the versions that are valid at `times`. Each version is paired with the indices of the times at which
        it is valid. If it is valid at all of them, the indices are None.

        If `times` is None, return the latest version.
        """
        if times is None or not self._times or not len(times):
            return [(self.latest, None)]
        numbers = np.searchsorted(self._times, times, "right")
        distinct = np.unique(numbers).tolist()
        if len(distinct) == 1:
            return [(self._values[distinct[0]], None)]
        return [(self._values[number], np.flatnonzero(numbers == number)) for number in distinct]
