"""Where windows that follow each other begin and end: counted from 1970 in UTC, or by the clock of a zone.

By a clock, a window is the time in which it stays between two multiples of the length, from midnight on: longer where
the clock is set back within it, shorter where it is set forward. Where the clock is set back by whole windows, it goes
through them twice, and each time is a window of its own.
"""

from __future__ import annotations

import numpy as np

from cep.core.time import END_OF_TIME
from cep.core.zones import Zone, zone
from cep.operators.goals.contract import Bools, Ints
from cep.operators.goals.windows.windowed_aggregate import Bounds
from cep.rules.window_forms import Over


def bounds_of(over: Over) -> Bounds:
    """For sorted times the start of each one's window, and its last microsecond."""
    length, origin = over.length, over.origin
    if over.zone is not None:
        clock = Clock(zone(over.zone), length, origin)
        return clock.bounds

    def counted(times: Ints) -> tuple[Ints, Ints]:
        starts = (times - origin) // length * length + origin
        return starts, starts + length - 1

    return counted


class Clock:
    """The windows of a length by the clock of a zone, counted from a local time."""

    def __init__(self, zone: Zone, length: int, origin: int) -> None:
        self.zone, self.length, self.origin = zone, length, origin
        self.offsets = zone.offsets
        self.until = np.append(zone.instants[1:], END_OF_TIME)
        back = -np.diff(zone.offsets)
        self.repeats = np.append((back > 0) & (back % length == 0), False)
        """Whether the clock is set back by whole windows where each offset ends."""

    def bounds(self, times: Ints) -> tuple[Ints, Ints]:
        """For sorted times the start of each one's window, and its last microsecond."""
        places, cycles = self.zone.places(times)
        numbers = (times + self.offsets[places] - self.origin) // self.length
        news = np.ones(len(times), np.bool_)
        news[1:] = (numbers[1:] != numbers[:-1]) | (places[1:] != places[:-1]) | (cycles[1:] != cycles[:-1])
        which, each = np.flatnonzero(news), np.cumsum(news) - 1
        given = numbers[which], places[which], cycles[which]
        return self._start(*given)[each], self._end(*given)[each] - 1

    def _start(self, numbers: Ints, places: Ints, cycles: Ints) -> Ints:
        places, shown = places.copy(), numbers * self.length + self.origin
        while True:
            since = self.zone.instants[places] + cycles
            starts: Ints = np.maximum(shown - self.offsets[places], since)
            before = np.maximum(places - 1, 0)
            goes_on = (starts == since) & (places > 0) & self._joined(before, numbers, since - 1)
            if not goes_on.any():
                return starts
            places[goes_on] -= 1

    def _end(self, numbers: Ints, places: Ints, cycles: Ints) -> Ints:
        places, shown = places.copy(), (numbers + 1) * self.length + self.origin
        while True:
            until = self.until[places] + cycles
            ends: Ints = np.minimum(shown - self.offsets[places], until)
            after = np.minimum(places + 1, len(self.offsets) - 1)
            goes_on = (ends == until) & (places < after) & ~self.repeats[places]
            goes_on &= (until + self.offsets[after] - self.origin) // self.length == numbers
            if not goes_on.any():
                return ends
            places[goes_on] += 1

    def _joined(self, before: Ints, numbers: Ints, last: Ints) -> Bools:
        """Whether a window had begun under the offset before, which ended then."""
        same: Bools = (last + self.offsets[before] - self.origin) // self.length == numbers
        same &= ~self.repeats[before]
        return same
