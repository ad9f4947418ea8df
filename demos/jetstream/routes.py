"""Streams in the sky: the most frequent routes of airplanes, each a row of linked points, in RDF.

There is no free register of airways, so routes are derived from the positions. Flights that enter and leave the
observed sky at the same places share a route. Its points are those of its first flight, one per minute.
"""

from __future__ import annotations

import polars as pl
from pyproj import Geod

AIR = "urn:semcep:air:"
WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
LOWEST = 29_000
"""The minimum altitude of a position in feet. Jet streams are higher."""
CELL = 0.3
"""The size in degrees of a cell of the map. Flights share a route if they enter and leave in the same cells."""
SHORTEST = 10
"""The least number of points of a route."""


def routes(positions: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return the points of the `count` most frequent routes.

    Columns: route (from 1), point (from 1), lat, long, course to the next point (degrees; the last point repeats that
    of its predecessor), flights (the number of flights on the route).
    """
    high = positions.filter(pl.col("altitude") >= LOWEST).sort("callsign", "time")
    cells = [(pl.col(column) / CELL).floor() for column in ("latitude", "longitude")]
    ways = high.group_by("callsign", maintain_order=True).agg(
        time=pl.col("time").first(),
        way=pl.concat_str([end for cell in cells for end in (cell.first(), cell.last())], separator=" "),
        minutes=(pl.col("time").last() - pl.col("time").first()) // 60_000_000,
    )
    common = (
        ways.filter(pl.col("minutes") >= SHORTEST)
        .sort("time", "callsign")
        .group_by("way", maintain_order=True)
        .agg(flights=pl.len(), callsign=pl.col("callsign").first())
        .sort("flights", "callsign", descending=[True, False])
        .head(count)
        .with_row_index("route", offset=1)
    )
    points = (
        high.join(common, on="callsign")
        .with_columns(minute=(pl.col("time") - pl.col("time").min().over("route")) // 60_000_000)
        .sort("route", "time")
        .group_by("route", "minute", maintain_order=True)
        .agg(pl.col("flights").first(), lat=pl.col("latitude").first(), long=pl.col("longitude").first())
        .with_columns(point=pl.int_range(1, pl.len() + 1).over("route"))
    )
    later = points.with_columns(pl.col("lat", "long").shift(-1).over("route").name.suffix("2"))
    long, lat, long2, lat2 = (later[name].to_numpy() for name in ("long", "lat", "long2", "lat2"))
    course = Geod(ellps="WGS84").inv(long, lat, long2, lat2)[0] % 360
    courses = later.with_columns(course=pl.Series(course).fill_nan(None).forward_fill())
    return courses.select("route", "point", "lat", "long", pl.col("course").round(1), "flights")


def triples(points: pl.DataFrame) -> str:
    """Return the routes as N-Triples: the position and stream of each point, the next point, and the course to it."""
    lines: list[str] = []
    last = points.group_by("route").agg(last=pl.col("point").max())
    for route, point, lat, long, course, last_point in (
        points.join(last, on="route").select("route", "point", "lat", "long", "course", "last").iter_rows()
    ):
        subject = f"<{AIR}{route}/{point}>"
        lines.append(f"{subject} <{AIR}of> <{AIR}{route}> .")
        lines += [
            f'{subject} <{WGS84}{name}> "{value}"^^<http://www.w3.org/2001/XMLSchema#decimal> .'
            for name, value in (("lat", lat), ("long", long))
        ]
        lines.append(f'{subject} <{AIR}course> "{course}"^^<http://www.w3.org/2001/XMLSchema#decimal> .')
        if point < last_point:
            lines.append(f"{subject} <{AIR}next> <{AIR}{route}/{point + 1}> .")
    return "\n".join(lines) + "\n"
