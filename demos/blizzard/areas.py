"""Collect areas from derived events: the stations of an area, the times of their warnings, and the affected places."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

REACH = 40_000
"""The distance in metres from a station within which a place is affected, as in areas.cep."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A station of an area, and the time of the warning by which it joined the area (microseconds UTC)."""

    station: str
    time: int


@dataclass(frozen=True, slots=True)
class Place:
    """A place that an area affects. `time`: when it was first affected (microseconds UTC). `metres`: the distance from
    the station whose warning first affected it.

    `code` is the feature code of GeoNames (`S.AIRP`), or its class (`P`) if the source has no code. Coordinates are in
    degrees WGS84.
    """

    iri: str
    name: str
    code: str
    time: int
    metres: float
    lat: float
    long: float
    population: int | None

    @property
    def populated(self) -> bool:
        """True if the place is a city, a town, or a part of one."""
        return self.code.startswith("P")


@dataclass(frozen=True, slots=True)
class Area:
    """An area with its stations in the order in which they joined, and its places, the most populous first.

    `start`: the beginning of the weather that caused the first warning.
    """

    start: int
    joined: tuple[Joined, ...]
    places: tuple[Place, ...]

    @property
    def end(self) -> int:
        """The time when the last station joined."""
        return self.joined[-1].time


def gather(derived: dict[str, pl.DataFrame], features: pl.DataFrame) -> list[Area]:
    """Return the areas in order of time. `features`: the positions of places (iri, lat, long, population)."""
    placed = derived["affected"].join(features, left_on="place", right_on="iri", how="inner")
    assert placed.height == derived["affected"].height, "every affected place is one of the features"
    areas: list[Area] = []
    for name, start, end in derived["area"].sort("end", "area").select("area", "start", "end").iter_rows():
        own = (pl.col("area") == name) & (pl.col("start") >= start) & (pl.col("end") <= end)
        joined = derived["area_settling"].filter(own).sort("count").select("station", "end").iter_rows()
        places = placed.filter((pl.col("area") == name) & pl.col("end").is_between(start, end)).sort(
            "population", "name", descending=[True, False], nulls_last=True
        )
        columns = ("place", "name", "code", "end", "metres", "lat", "long", "population")
        areas.append(
            Area(
                start,
                tuple(Joined(station, time) for station, time in joined),
                tuple(Place(*row) for row in places.select(columns).iter_rows()),
            )
        )
    return areas
