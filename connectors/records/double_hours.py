"""Assignment of times to the first or second pass of a double hour. A double hour is the hour that clocks pass twice
when summer time ends.

All times are first read as times of the first pass. If a declaration has `FOLD order`, the order of records decides.
The second pass then begins with the first record in the double hour whose time is earlier than that of the record
before it. Without `FOLD order`, ambiguous times are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.records.times import FIXED
from cep.core.schema import Schema
from cep.core.zones import zone

Ints = NDArray[np.int64]
_NEVER = 2**62
_MOSTLY = 2 / 3
"""If more than this share of an event type's times are earlier than the time before, the times count as descending.
Times that equal the time before are not counted."""


@lru_cache(maxsize=64)
def double_hours(name: str) -> tuple[Ints, Ints]:
    """Return when the first pass of each double hour of a time zone begins, and when it ends."""
    time_zone = zone(name)
    back = time_zone.offsets[:-1] - time_zone.offsets[1:]
    falls = np.flatnonzero(back > 0)
    ends = time_zone.instants[falls + 1]
    return ends - back[falls], ends


def _within(times: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Find the times that lie in disjoint spans. Return their indices, and for each of them the number of its span.

    `begins`, `ends`: the beginning and the end of each span.
    """
    if not len(times) or np.searchsorted(begins, times.max(), "right") == np.searchsorted(ends, times.min(), "right"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    span = np.searchsorted(begins, times, "right") - 1
    rows = np.flatnonzero((span >= 0) & (times < ends[span]))
    return rows, span[rows]


class OrderedTimes:
    """The times of one event type in one input, if the declaration has `FOLD order`.

    A double hour is the hour that clocks pass twice when summer time ends. Between blocks, the object stores:

    - the last double hour that contained a record, and whether its second pass had begun;
    - the time of the last record;
    - the earliest time of the records that came after the last record in a double hour.
    """

    def __init__(self, name: str) -> None:
        self._begins, self._ends = double_hours(name)
        self._hour, self._passed, self._last, self._least = -1, False, -_NEVER, _NEVER
        self.falls = self.steps = self.doubtful = 0

    def settled(self, times: Ints) -> Ints:
        """Assign times in double hours to the first or second pass. Return all times.

        `times`: the times of the records that follow those of the last call, read as times of the first pass. For a
        time of the second pass, the result is later by the length of the double hour.
        """
        if not len(times):
            return times
        rows, hours = _within(times, self._begins, self._ends)
        last, self._last = self._last, int(times[-1])
        before = np.diff(times, prepend=times[0] if last == -_NEVER else last)
        self.falls += int((before < 0).sum())
        self.steps += int((before != 0).sum())
        self.doubtful += len(rows)
        if not len(rows):
            self._least = min(self._least, int(times.min()))
            return times
        cuts = np.concatenate([[0], rows[:-1] + 1])
        least = np.minimum.reduceat(times[: rows[-1] + 1], cuts)
        least[0] = min(least[0], self._least)
        before = np.where(rows > 0, times[rows - 1], last)
        anew = hours != np.concatenate([[self._hour], hours[:-1]])
        anew |= least < self._begins[hours]  # times went back to before the hour, so another series begins
        back = np.cumsum((times[rows] < before) & ~anew) + int(self._passed and not anew[0])
        base = np.maximum.accumulate(np.where(anew, back, 0))
        second = back > base
        self._hour, self._passed = int(hours[-1]), bool(second[-1])
        self._least = int(times[rows[-1] + 1 :].min(initial=_NEVER))
        settled_times = times.copy()
        settled_times[rows] += np.where(second, self._ends[hours] - self._begins[hours], 0)
        return settled_times


class OrderedIntervals:
    """The intervals of one event type in one input, if the declaration has `FOLD order`.

    A double hour is the hour that clocks pass twice when summer time ends. A start in a double hour can be in its first
    or second pass, so there are two possible starts. The object chooses one by the first of these rules that applies:

    - It is the start of the previous interval, if there are fewer intervals with this start than with the start before
      it.
    - It is the end of the previous interval.
    - It is in the pass that the order of records determines, as in `OrderedTimes`.

    The end is chosen so that the interval has the length of the previous interval, if possible. An end that is written
    as a clock time is later than the start.
    """

    def __init__(self, name: str) -> None:
        self._begins, self._ends = double_hours(name)
        self._hour, self._passed, self._least = -1, False, _NEVER
        self._last, self._start, self._end = -_NEVER, -_NEVER, -_NEVER
        self._run, self._usual = 0, 0
        self.falls = self.steps = self.doubtful = self.undecided = 0

    def settled(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Assign starts and ends in double hours to the first or second pass. Return all starts and ends.

        `starts`, `ends`: the times of the records that follow those of the last call, read as times of the first pass.
        For a time of the second pass, the result is later by the length of the double hour.
        """
        if not len(starts):
            return starts, ends
        by_end, by_start = starts >= FIXED, ends >= FIXED
        starts, ends = np.where(by_end, starts - FIXED, starts), np.where(by_start, ends - FIXED, ends)
        before = np.diff(starts, prepend=starts[0] if self._last == -_NEVER else self._last)
        self.falls += int((before < 0).sum())
        self.steps += int((before != 0).sum())
        hours = np.full(len(starts), -1)
        for times, known in ((ends, by_start), (starts, by_end)):
            rows, which = _within(np.where(known, -_NEVER, times), self._begins, self._ends)
            hours[rows] = which
        settled_times, done = (starts.copy(), ends.copy()), 0
        for row in np.flatnonzero(hours >= 0).tolist():
            self._pass_over(starts[done:row], ends[done:row])
            done = row + 1
            fixed = bool(by_end[row] or by_start[row])
            start, end = self._one(int(starts[row]), int(ends[row]), int(hours[row]), fixed, bool(by_end[row]))
            settled_times[0][row], settled_times[1][row] = start, end
        self._pass_over(starts[done:], ends[done:])
        return settled_times

    def _pass_over(self, starts: Ints, ends: Ints) -> None:
        """Update the stored times with the intervals of records that lie outside of all double hours."""
        if not len(starts):
            return
        cuts = np.flatnonzero(np.diff(starts, prepend=self._start)).tolist()
        if cuts:
            sizes = np.diff([-self._run, *cuts, len(starts)]).tolist()
            self._usual, self._run = sizes[-2:]
        else:
            self._run += len(starts)
        self._least = min(self._least, int(starts.min()))
        self._last = self._start = int(starts[-1])
        self._end = int(ends[-1])

    def _one(self, start: int, end: int, hour: int, fixed: bool, by_end: bool) -> tuple[int, int]:
        """Return the true start and end of the next interval. At least one of them is in double hour number `hour`.

        `fixed`: True if the record contains the interval's length. `by_end`: True if `start` was computed from the end.
        """
        begin, over = int(self._begins[hour]), int(self._ends[hour])
        again = over - begin
        inside = begin <= (end if by_end else start) < over
        self.doubtful += inside
        if fixed:
            pairs = [(start, end), (start + again, end + again)]
        else:
            pairs = _by_clock(start, end, begin, over)
        starts = sorted({first for first, _ in pairs})
        if inside and (hour != self._hour or self._least < begin):
            self._hour, self._passed, self._least = hour, False, _NEVER
        if self._run < self._usual and self._start in starts:
            begins = self._start
        elif self._end in starts:
            begins = self._end
        else:
            begins = starts[-1] if self._passed or start < self._last else starts[0]
            self.undecided += len(starts) > 1 and 0 < self._usual <= self._run and start == self._last
        settled = (begins, self._length([last for first, last in pairs if first == begins], begins, end, hour))
        if inside:
            self._passed = begins > start
        else:
            self._least = min(self._least, start)
        if begins == self._start:
            self._run += 1
        else:
            self._usual, self._run = self._run, 1
        self._last, self._start, self._end = start, *settled
        return settled

    def _length(self, ends: list[int], start: int, end: int, hour: int) -> int:
        if len(ends) == 1:
            return ends[0]
        like = start + self._end - self._start
        if self._start != -_NEVER and like in ends:
            return like
        over, again = self._ends[hour], self._ends[hour] - self._begins[hour]
        if end < over:
            return min(ends)
        self.undecided += 1
        return min(ends) if end == over + again else end


def _by_clock(start: int, end: int, begin: int, over: int) -> list[tuple[int, int]]:
    """Return the intervals that two clock times of a record can mean. `begin`, `over`: the double hour's first pass.

    If the first pass is from 02:00 to 03:00, some meters write it as 02:00 to 02:00, and others as 02:00 to 03:00.
    """
    again = over - begin
    starts = [start, start + again] if begin <= start < over else [start]
    ends = [end, end + again] if begin <= end < over else [end]
    pairs = [(first, last) for first in starts for last in ends if first < last]
    if len(starts) > 1 and end >= over:
        pairs.append((start, end - again))
    return pairs or [(start, start) for start in starts if start in ends] or [(start, end)]


class FoldedTables:
    """Assignment of times to the passes of double hours, for all tables of one input.

    A double hour is the hour that clocks pass twice when summer time ends. If a declaration has `FOLD order`, the order
    of records decides which pass a time belongs to.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._series: dict[str, OrderedTimes | OrderedIntervals] = {
            name: (OrderedTimes if schema.start is None else OrderedIntervals)(schema.format.zone)
            for name, schema in schemas.items()
            if schema.format is not None and schema.format.fold == "order" and schema.format.zone is not None
        }

    def remarks(self, file: str) -> list[str]:
        """Return remarks about event types with descending times, and about intervals that could be in either pass.

        If times are descending, the order of records does not show which pass they belong to.
        """
        texts = []
        for name, series in self._series.items():
            if series.doubtful and series.steps >= 2 and series.falls > _MOSTLY * series.steps:
                text = f"times of `{name}` in {file} decrease, but `FOLD order` needs the oldest records first"
                text += f", and most of the {series.doubtful} times in the hour that comes twice are in the wrong pass"
                texts.append(f"{text}; reverse the file (`tac`, below its header), or use `FOLD earlier`")
            elif isinstance(series, OrderedIntervals) and series.undecided:
                number, verb = (
                    ("one interval", "begins") if series.undecided == 1 else (f"{series.undecided} intervals", "begin")
                )
                text = f"{number} of `{name}` in {file} {verb} in the hour that comes twice, and neither the records"
                texts.append(f"{text} before nor their length shows in which of the two hours: write offsets (`%z`)")
        return texts

    def settled(self, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Assign times in double hours to the first or second pass, for event types with `FOLD order`. Return all
        tables.

        `tables`: the tables of the records that follow those of the last call. A time of the second pass becomes later
        by the length of the double hour.
        """
        if not self._series:
            return tables
        return {name: self._of(name, table) for name, table in tables.items()}

    def _of(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        series = self._series.get(name)
        if series is None:
            return table
        start, end = table["start"].to_numpy(), table["end"].to_numpy()
        if isinstance(series, OrderedTimes):
            start = end = series.settled(start)
        else:
            start, end = series.settled(start, end)
        return table.with_columns(pl.Series("start", start), pl.Series("end", end))


@dataclass(slots=True)
class Doubtful:
    """Counts of ambiguous times, for event types whose declarations have a time zone but no FOLD.

    If an event type has times in the second pass of a double hour, its times were written with offsets. Then none of
    its times counts as ambiguous.
    """

    schemas: Mapping[str, Schema]
    _first: Counter[str]
    _sure: set[str]

    @classmethod
    def of(cls, schemas: Mapping[str, Schema]) -> Doubtful:
        return cls({name: schema for name, schema in schemas.items() if _unsaid(schema)}, Counter(), set())

    def take(self, tables: Mapping[str, Any]) -> None:
        """Count the events that start at an ambiguous time. `tables`: the tables of a batch."""
        for name in tables.keys() & self.schemas.keys():
            format = self.schemas[name].format
            assert format is not None and format.zone is not None, "it names a zone"
            begins, ends = double_hours(format.zone)
            times = tables[name]["start"].to_numpy()
            self._first[name] += len(_within(times, begins, ends)[0])
            if len(_within(times, ends, 2 * ends - begins)[0]):
                self._sure.add(name)

    def counts(self) -> Counter[str]:
        """Return the number of ambiguous times in each time zone."""
        counts: Counter[str] = Counter()
        for name, number in self._first.items():
            format = self.schemas[name].format
            if number and name not in self._sure and format is not None and format.zone is not None:
                counts[format.zone] += number
        return counts


def _unsaid(schema: Schema) -> bool:
    format = schema.format
    return format is not None and format.zone is not None and format.unit is None and format.fold is None
