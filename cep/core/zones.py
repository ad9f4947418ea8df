"""Time zones as tables. They convert many instants to local times at once, and local times to instants.

The rules are those of the IANA time zone database, read through Python's `zoneinfo`: the system's copy, or the package
`tzdata` if the system has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from cep.core.suggest import nearest

SECONDS = 86_400
DAY = SECONDS * 1_000_000
MICROSECOND = timedelta(microseconds=1)
CYCLE = 146_097 * DAY
"""The length of 400 years in microseconds. After that time, dates fall on the same weekdays again, so rules without an
end repeat."""

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST, _LAST = date(1840, 1, 1).toordinal(), date(2500, 1, 1).toordinal()
"""The range of days in which changes of offsets are searched. No zone has earlier changes, and later changes repeat."""
_DENSE = range(date(1900, 1, 1).toordinal(), date(2040, 1, 1).toordinal())
"""The days that are searched one by one. Before and after these days, every seventh day is searched, because changes of
the offset are more than a week apart there."""


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """A time zone. From `instants[i]` on (microseconds UTC), local time is UTC plus `offsets[i]` microseconds.

    The first instant is before all times.
    """

    name: str
    instants: NDArray[np.int64]
    offsets: NDArray[np.int64]
    _ends: NDArray[np.int64]
    """The local time at which each offset ends, exclusive."""
    _starts: NDArray[np.int64]
    """The local time at which each offset begins."""

    def local(self, instants: Any) -> NDArray[np.int64]:
        """Return the local times of instants, both in int64 microseconds. A local time is counted as if it were UTC."""
        times: NDArray[np.int64] = np.asarray(instants, np.int64)
        return times + self.offsets[self.places(times)[0]]

    def places(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each instant the index of its offset, and the multiple of CYCLE that was subtracted to find it."""
        cycles = _cycles(times)
        return np.searchsorted(self.instants, times - cycles, "right") - 1, cycles

    def utc(self, local: Any, later: bool = False) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the instants at which clocks show the local times. Also return a mask: True if clocks ever show the
        local time.

        If clocks show a time twice, the result is the earlier instant, or the later one if `later` is True. For a
        skipped time, it is the instant of the skip.
        """
        local = np.asarray(local, np.int64)
        cycles = _cycles(local)
        within = local - cycles
        if later:
            place = np.searchsorted(self._starts, within, "right") - 1
            shown = within < self._ends[place]
            skipped = self.instants[np.minimum(place + 1, len(self.instants) - 1)]
        else:
            place = np.searchsorted(self._ends, within, "right")
            shown = within >= self._starts[place]
            skipped = self.instants[place]
        return np.where(shown, within - self.offsets[place], skipped) + cycles, shown


@lru_cache(maxsize=64)
def zone(name: str) -> Zone:
    """Return a zone by its name, such as `Europe/Zurich`. Raises ValueError if the name is unknown."""
    if name not in names():
        raise ValueError(f"there is no time zone `{name}`")
    info = ZoneInfo(name)
    last, old = _FIRST, _ahead(info, datetime.fromordinal(_FIRST))
    instants, offsets = [-(2**62)], [old]
    for day in (*range(_FIRST, _DENSE.start, 7), *_DENSE, *range(_DENSE.stop, _LAST, 7), _LAST):
        new = _ahead(info, datetime.fromordinal(day))
        if new != old:
            instants.append(_change(info, last, day, new))
            offsets.append(new)
        last, old = day, new
    starts, by = np.array(instants, np.int64), np.array(offsets, np.int64)
    return Zone(name, starts, by, np.append(starts[1:] + by[:-1], np.int64(2**62)), starts + by)


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    return frozenset(available_timezones())


_CALLED = {
    "Europe/Berlin": ("CEST", "MEZ", "MESZ", "CET/CEST"),
    "Europe/London": ("BST", "GMT/BST"),
    "Europe/Athens": ("EEST", "OEZ", "OESZ"),
    "Europe/Moscow": ("MSK",),
    "America/New_York": ("EDT", "ET"),
    "America/Chicago": ("CDT", "CT"),
    "America/Denver": ("MDT", "MT"),
    "America/Los_Angeles": ("PST", "PDT", "PT"),
    "Asia/Kolkata": ("IST",),
    "Asia/Tokyo": ("JST",),
    "Australia/Sydney": ("AEST", "AEDT"),
    "UTC": ("Z", "+00:00"),
}
_OFFSET = re.compile(r"(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2})?", re.ASCII)


def zone_hint(name: str) -> str:
    """Return a hint for an unknown zone: what to write instead."""
    for place, letters in _CALLED.items():
        if name.upper() in letters:
            return f"abbreviations can mean several zones; name a place: `{place}`"
    if _OFFSET.fullmatch(name):
        return 'an offset is not a zone; times with an offset need no zone: `FORMAT "... %z"`; for UTC, write `UTC`'
    last = {name.rpartition("/")[2].casefold(): name for name in sorted(names())}
    near = last.get(name.rpartition("/")[2].replace(" ", "_").casefold()) or nearest(name, sorted(names()))
    listed = "a zone is one of the IANA database: `Europe/Zurich`, `America/New_York`, `UTC`"
    return f"did you mean `{near}`?" if near else listed


def _ahead(info: ZoneInfo, local: datetime) -> int:
    """Return by how many microseconds the local time `local` is ahead of UTC."""
    ahead = info.utcoffset(local)
    assert ahead is not None
    return ahead // MICROSECOND


def _change(info: ZoneInfo, before: int, after: int, new: int) -> int:
    """Return the first instant, between two local dates, at which local time is `new` microseconds ahead of UTC."""
    begin = datetime.fromordinal(before - 1).replace(tzinfo=info)

    def changed(second: int) -> bool:
        return _ahead(info, info.fromutc(begin + timedelta(seconds=second))) == new

    low, high = 0, (after - before + 2) * SECONDS
    for step in (3600, 1):  # nearly all transitions are at a full hour
        while high - low > step:
            middle = low + (high - low) // (2 * step) * step
            low, high = (low, middle) if changed(middle) else (middle, high)
        if not changed(high - 1):
            break
    return ((before - 1 - _EPOCH) * SECONDS + high) * 1_000_000


def _cycles(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the shifts, in microseconds, that move times after the table's end into the table's last 400 years."""
    beyond = times - (_LAST - _EPOCH) * DAY
    return np.where(beyond >= 0, (beyond // CYCLE + 1) * CYCLE, 0)
