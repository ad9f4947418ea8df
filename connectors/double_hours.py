"""The hour that clocks show twice, in the night when summer time ends: which of its two passes times are of.

Times by the clock are read as of the first pass. Where the declaration says `FOLD order` they are of the second from
the record on at which times go back within the hour; where it says nothing they are counted.
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

from cep.core.schema import Schema
from cep.core.zones import zone

Ints = NDArray[np.int64]
_NEVER = 2**62
_MOSTLY = 2 / 3
"""Times fall throughout where so many of the steps between records are back."""


@lru_cache(maxsize=64)
def double_hours(name: str) -> tuple[Ints, Ints]:
    """The hours that a zone has twice: the instants at which the first pass begins, and those at which it ends."""
    there = zone(name)
    back = there.offsets[:-1] - there.offsets[1:]
    falls = np.flatnonzero(back > 0)
    ends = there.instants[falls + 1]
    return ends - back[falls], ends


def _within(times: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The rows that lie in one of some spans, which follow each other; and in which."""
    if not len(times) or np.searchsorted(begins, times.max(), "right") == np.searchsorted(ends, times.min(), "right"):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    span = np.searchsorted(begins, times, "right") - 1
    rows = np.flatnonzero((span >= 0) & (times < ends[span]))
    return rows, span[rows]


class OrderedTimes:
    """The times of the records of one input and event, block by block, for `FOLD order`. Between two blocks it knows
    the double hour of the last record that was in one, whether its second pass had begun, the last time, and the
    least since that record."""

    def __init__(self, name: str) -> None:
        self._begins, self._ends = double_hours(name)
        self._hour, self._passed, self._last, self._least = -1, False, -_NEVER, _NEVER
        self.falls = self.steps = self.doubtful = 0

    @property
    def hours(self) -> tuple[Ints, Ints]:
        """When the hours that the zone has twice begin, and end, in their first pass."""
        return self._begins, self._ends

    def settled(self, times: Ints) -> Ints:
        """The times of further records, which are read as of the first pass, as of the pass that they are of."""
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
        anew |= least < self._begins[hours]  # times have gone back before the hour: another time series begins
        back = np.cumsum((times[rows] < before) & ~anew) + int(self._passed and not anew[0])
        base = np.maximum.accumulate(np.where(anew, back, 0))
        second = back > base
        self._hour, self._passed = int(hours[-1]), bool(second[-1])
        self._least = int(times[rows[-1] + 1 :].min(initial=_NEVER))
        found = times.copy()
        found[rows] += np.where(second, self._ends[hours] - self._begins[hours], 0)
        return found


class FoldedTables:
    """The tables of one input, whose times are of the pass that the order of the records tells, where that is asked.
    Both ends of intervals go in an order of their own."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._series = {
            name: [OrderedTimes(schema.format.zone) for _ in range(1 if schema.start is None else 2)]
            for name, schema in schemas.items()
            if schema.format is not None and schema.format.fold == "order" and schema.format.zone is not None
        }

    def remarks(self, file: str) -> list[str]:
        """What is told of events whose times fall from record to record, so that their order tells nothing."""
        found = []
        for name, (series, *_) in self._series.items():
            if series.doubtful and series.steps >= 2 and series.falls > _MOSTLY * series.steps:
                text = (
                    f"times of `{name}` in {file} fall from record to record: `FOLD order` reads records oldest first"
                )
                text += f", and of the {series.doubtful} in the hour that comes twice most are in the wrong pass"
                found.append(f"{text}; turn the file round (`tac`, below its header), or say `FOLD earlier`")
        return found

    def settled(self, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Those of further blocks."""
        if not self._series:
            return tables
        return {name: self._of(name, table) for name, table in tables.items()}

    def _of(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        if name not in self._series:
            return table
        settled = [
            pl.Series(series.settled(table[end].to_numpy()))
            for series, end in zip(self._series[name], ("start", "end"))
        ]
        start, end = settled[0], settled[-1]
        if len(settled) > 1:
            end = self._after(name, start, end)
        return table.with_columns(start.alias("start"), end.alias("end"))

    def _after(self, name: str, start: pl.Series, end: pl.Series) -> pl.Series:
        """The ends, of the second pass where they would not be after their starts in the first."""
        begins, ends = self._series[name][1].hours
        times = end.to_numpy()
        rows, hours = _within(times, begins, ends)
        late = times[rows] <= start.to_numpy()[rows]
        if not late.any():
            return end
        times = times.copy()
        times[rows[late]] += (ends - begins)[hours[late]]
        return pl.Series(times)


@dataclass(slots=True)
class Doubtful:
    """Counts the times that a zone has twice, and of which no FOLD says which is meant. An input that has times of a
    second pass says offsets: its times are in no doubt."""

    schemas: Mapping[str, Schema]
    _first: Counter[str]
    _sure: set[str]

    @classmethod
    def of(cls, schemas: Mapping[str, Schema]) -> Doubtful:
        return cls({name: one for name, one in schemas.items() if _unsaid(one)}, Counter(), set())

    def take(self, tables: Mapping[str, Any]) -> None:
        """Further events, by their start."""
        for name in tables.keys() & self.schemas.keys():
            format = self.schemas[name].format
            assert format is not None and format.zone is not None, "it names a zone"
            begins, ends = double_hours(format.zone)
            times = tables[name]["start"].to_numpy()
            self._first[name] += len(_within(times, begins, ends)[0])
            if len(_within(times, ends, 2 * ends - begins)[0]):
                self._sure.add(name)

    def counts(self) -> Counter[str]:
        """By zone."""
        found: Counter[str] = Counter()
        for name, number in self._first.items():
            format = self.schemas[name].format
            if number and name not in self._sure and format is not None and format.zone is not None:
                found[format.zone] += number
        return found


def _unsaid(schema: Schema) -> bool:
    format = schema.format
    return format is not None and format.zone is not None and format.unit is None and format.fold is None
