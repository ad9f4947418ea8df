"""Merge warnings into storms: the warnings of one station that overlap or touch are one storm."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Storm:
    """A storm at a station, over the closed interval [start, end] (microseconds UTC).

    `readings`: the number of the storm's readings that satisfied the rule's conditions. wind, visib and temp are the
    worst values of these readings.
    """

    station: str
    start: int
    end: int
    readings: int
    wind: float
    visib: float
    temp: float

    @property
    def hours(self) -> float:
        """The duration in hours."""
        return (self.end - self.start) / HOUR


def merge(warnings: pl.DataFrame, settling: pl.DataFrame, readings: pl.DataFrame) -> list[Storm]:
    """Return the storms, sorted by start, then station.

    A chain of readings (`settling`) lasts at most six hours. So a longer storm consists of several warnings, each of
    which begins within or at the end of the previous one.
    """
    judged = settled(settling, readings)
    storms = [
        _storm(station, start, end, judged) for station, spans in _spans(warnings).items() for start, end in spans
    ]
    return sorted(storms, key=lambda storm: (storm.start, storm.station))


def lasted(on: pl.DataFrame, settling: pl.DataFrame, readings: pl.DataFrame) -> list[Storm]:
    """Return the storms from the intervals of the fluent, sorted as by `merge`. A storm holds from just after its first
    warning."""
    judged = settled(settling, readings)
    rows = on.select("station", "start", "end").sort("start", "station").iter_rows()
    return [_storm(station, start, end, judged) for station, start, end in rows]


def settled(settling: pl.DataFrame, readings: pl.DataFrame) -> pl.DataFrame:
    """Return the readings that satisfied the rule's conditions. They are the chains of length one in `settling`."""
    met = settling.filter(pl.col("readings") == 1).select("station", "end").unique()
    return readings.join(met, on=["station", "end"], how="semi")


def episodes(storms: list[Storm], apart: int = 24 * HOUR) -> list[list[Storm]]:
    """Group the storms of all stations into spells of weather. Two spells are at least `apart` microseconds apart."""
    spells: list[list[Storm]] = []
    for storm in storms:
        if spells and storm.start - max(other.end for other in spells[-1]) < apart:
            spells[-1].append(storm)
        else:
            spells.append([storm])
    return spells


def _spans(warnings: pl.DataFrame) -> dict[str, list[tuple[int, int]]]:
    spans: dict[str, list[tuple[int, int]]] = {}
    for station, start, end in warnings.select("station", "start", "end").sort("station", "start", "end").iter_rows():
        own = spans.setdefault(station, [])
        if own and start <= own[-1][1]:
            own[-1] = (own[-1][0], max(end, own[-1][1]))
        else:
            own.append((start, end))
    return spans


def _storm(station: str, start: int, end: int, judged: pl.DataFrame) -> Storm:
    within = judged.filter((pl.col("station") == station) & pl.col("end").is_between(start, end))
    wind, visib, temp = within.select(pl.max("wind"), pl.min("visib"), pl.min("temp")).row(0)
    return Storm(station, start, end, within.height, wind, visib, temp)
