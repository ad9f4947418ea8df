"""The area of an alert: a circle, or polygons, in degrees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

from cep.rules.alert import AREA, LATITUDE, LONGITUDE, RADIUS

MOST = 500
"""The maximum number of points of a polygon. A larger polygon is replaced by its convex hull."""

AlertPlace = Mapping[str, Any]
"""The place of an alert. It has a `circle`, `[latitude, longitude, metres]`, or `polygons`, `[[[latitude, longitude],
...], ...]`. It may also have both, or neither.

The last point of a polygon equals the first point. Holes are left out.
"""


def alert_place(values: Mapping[str, Any]) -> AlertPlace:
    """Return the place that an occurrence's columns describe, or an empty mapping if they describe no valid place."""
    place: dict[str, Any] = {}
    lat, long, radius = (_number(values.get(name)) for name in (LATITUDE, LONGITUDE, RADIUS))
    if lat is not None and long is not None and abs(lat) <= 90 and abs(long) <= 720:
        place["circle"] = [round(lat, 6), _turned(long), round(max(radius or 0.0, 0.0), 3)]
    if isinstance(text := values.get(AREA), str) and (polygons := _polygons(text)):
        place["polygons"] = [[list(point) for point in polygon] for polygon in polygons]
    return place


def nowhere(values: Mapping[str, Any], place: AlertPlace) -> bool:
    """Return True if the columns of an occurrence describe a place that is not valid.

    `place`: the result of `alert_place` for these columns.
    """
    circle = values.get(LATITUDE) is not None and values.get(LONGITUDE) is not None
    return (circle and "circle" not in place) or (values.get(AREA) is not None and "polygons" not in place)


def _number(value: object) -> float | None:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if numeric and isfinite(value) else None  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _polygons(text: str) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Return the outlines of a shape in WKT.

    A shape that has no interior, such as a line, is replaced by its convex hull. If the hull has no interior either,
    the result is empty.
    """
    from cep.rules.expressions.areas import WrongArea, read

    try:
        shape = read(text)
    except WrongArea:
        return ()
    parts = getattr(shape, "geoms", [shape])
    polygons = [part for part in parts if part.geom_type == "Polygon" and not part.is_empty]
    if not polygons:
        polygons = [hull for hull in [shape.convex_hull] if hull.geom_type == "Polygon" and not hull.is_empty]
    return tuple(outline for polygon in polygons for outline in map(_outline, _cut(polygon)))


def _cut(polygon: Any) -> list[Any]:
    """Split a polygon at 180 degrees, so that each part is within -180 to 180."""
    from shapely import affinity, box

    west, _, east, _ = polygon.bounds
    if west >= -180 and east <= 180:
        return [polygon]
    pieces = []
    for revolution in range(-2, 3):
        part = affinity.translate(
            polygon.intersection(box(360 * revolution - 180, -90, 360 * revolution + 180, 90)), -360 * revolution
        )
        pieces += [geom for geom in getattr(part, "geoms", [part]) if geom.geom_type == "Polygon" and not geom.is_empty]
    return pieces


def _outline(polygon: Any) -> tuple[tuple[float, float], ...]:
    line = polygon.exterior
    if len(line.coords) > MOST:
        line = polygon.convex_hull.exterior
    if len(line.coords) > MOST:
        line = polygon.envelope.exterior
    return tuple((round(y, 6), _turned(x)) for x, y, *_ in line.coords)


def _turned(longitude: float) -> float:
    return round(longitude if abs(longitude) <= 180 else (longitude + 180) % 360 - 180, 6)
