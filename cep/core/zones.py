"""Time zones as tables, which convert many instants to local times at once, and back.

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
"""400 years. After these, dates fall on the same weekdays again, so rules without an end repeat."""

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST, _LAST = date(1840, 1, 1).toordinal(), date(2500, 1, 1).toordinal()
"""The range of days in which offset changes are searched. No zone has earlier ones, and later ones repeat."""
_DENSE = range(date(1900, 1, 1).toordinal(), date(2040, 1, 1).toordinal())
"""The days that are searched one by one. Outside, changes are more than a week apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """A time zone. From `instants[i]` on (microseconds UTC), local time is UTC plus `offsets[i]` microseconds.

    The first instant is before all times.
    """

    name: str
    instants: NDArray[np.int64]
    offsets: NDArray[np.int64]
    _ends: NDArray[np.int64]
    """The local time at which offset i ends, exclusive."""
    _starts: NDArray[np.int64]
    """The local time at which offset i begins."""

    def local(self, instants: Any) -> NDArray[np.int64]:
        """Return the local times at instants, both in int64 microseconds. A local time is counted as if it were UTC."""
        times: NDArray[np.int64] = np.asarray(instants, np.int64)
        return times + self.offsets[self.places(times)[0]]

    def places(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index of the offset at each instant, and the multiple of CYCLE that was subtracted to find it."""
        cycles = _cycles(times)
        return np.searchsorted(self.instants, times - cycles, "right") - 1, cycles

    def utc(self, local: Any, later: bool = False) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the instants at which clocks show these local times, and a mask of the local times that clocks ever
        show.

        For a time that clocks show twice, return the earlier instant, or with `later` the later one. For a skipped
        time, return the instant of the skip.
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
    """Return the zone with a name such as `Europe/Zurich`. Raises ValueError for an unknown name."""
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
    """Return the names of all zones."""
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
    """Return what to write instead of an unknown zone."""
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
    """Return by how many microseconds a local time is ahead of UTC."""
    ahead = info.utcoffset(local)
    assert ahead is not None
    return ahead // MICROSECOND


def _change(info: ZoneInfo, before: int, after: int, new: int) -> int:
    """Return the instant between two local dates from which on local time is `new` ahead of UTC, in microseconds."""
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
    """Return by how much to shift times after the table's end into its last 400 years."""
    beyond = times - (_LAST - _EPOCH) * DAY
    return np.where(beyond >= 0, (beyond // CYCLE + 1) * CYCLE, 0)
