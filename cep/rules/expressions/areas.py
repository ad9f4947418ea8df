"""Areas in WKT, and a test if a point lies in an area. Longitudes wrap around. Edges are straight lines in degrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from cep.core.values import IRI, MISSING, STRING, Areas, Floats, Ints, Pool
from cep.rules.expressions.functions import Operand

Shape = Any
"""A geometry of the library shapely."""
Shapes = NDArray[np.object_]

LONG_FIRST = re.compile(r"(?:https?://www\.opengis\.net/def/crs/OGC/[\d.]+/|urn:ogc:def:crs:OGC:[\d.]*:)CRS84")
LAT_FIRST = re.compile(r"(?:https?://www\.opengis\.net/def/crs/EPSG/[\d.]+/|urn:ogc:def:crs:EPSG:[\d.]*:)4326")
_LITERAL = re.compile(r"\s*(?:<([^>]*)>)?(.*)", re.DOTALL)
_KINDS = range(8)  # shapely's geometry types from point to collection; the others are curves and surfaces in space
_ROUND, _HALF = 360.0, 180.0
_FARTHEST = 720.0


class WrongArea(ValueError):
    """The error for a text that is not an area. `hint`: an example of a valid text."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


_EXAMPLE = 'an area is like `"POLYGON((-74.3 40.5, -73.7 40.5, -73.7 40.9, -74.3 40.5))"`: longitude, then latitude'


def read(text: str) -> Shape:
    """Return the shape of a WKT literal. Raises WrongArea if the literal is not valid."""
    shapes, wrong = read_all([text])
    if wrong:
        raise wrong[0]
    return shapes[0]


def read_all(texts: Sequence[str]) -> tuple[Shapes, dict[int, WrongArea]]:
    """Return the shapes of WKT literals. Also return the errors of the invalid literals, by their index.

    A literal may begin with a coordinate system. The longitudes of a shape increase from west to east and may exceed
    180 degrees. The parts of a shape do not overlap.
    """
    parts = [_LITERAL.fullmatch(text) for text in texts]
    systems = [part[1] if part else None for part in parts]
    shapes, wrong = _parsed([part[2] if part else "" for part in parts])
    lat_first = [i for i, system in enumerate(systems) if system and LAT_FIRST.fullmatch(system)]
    for i, system in enumerate(systems):
        if system and not LONG_FIRST.fullmatch(system) and not LAT_FIRST.fullmatch(system):
            hint = "WGS84 is: CRS84, longitude first, which may be left out, or EPSG:4326, latitude first"
            wrong[i] = WrongArea(f"<{system}> is not a supported coordinate system", hint)
    if lat_first:
        shapes[lat_first] = shapely.transform(shapes[lat_first], lambda points: points[:, ::-1])
    for i in np.flatnonzero(~np.isin(shapely.get_type_id(shapes), (-1, *_KINDS))).tolist():
        wrong[i] = WrongArea(f"a {shapes[i].geom_type} is not a supported area", _EXAMPLE)
    points, owner = shapely.get_coordinates(shapes, return_index=True)
    _refuse_points(points, owner, wrong)
    shapes[list(wrong)] = None
    turns = np.abs(np.diff(points[:, 0])) > _HALF
    for i in np.unique(owner[1:][turns & (np.diff(owner) == 0)]).tolist():
        try:
            shapes[i] = None if i in wrong else _unwound(shapes[i])
        except WrongArea as reason:
            wrong[i], shapes[i] = reason, None
    bounds = shapely.bounds(shapes)
    for i in np.flatnonzero(~shapely.is_valid(shapes) | (bounds[:, 2] - bounds[:, 0] > _ROUND + 1e-9)).tolist():
        if i not in wrong:
            wrong[i], shapes[i] = _invalid(shapes[i]) or WrongArea("the area goes round the earth more than once"), None
    return shapes, wrong


def _parsed(texts: list[str]) -> tuple[Shapes, dict[int, WrongArea]]:
    with np.errstate(all="ignore"):  # a number too large for a float is reported as a wrong coordinate
        try:
            return np.atleast_1d(shapely.from_wkt(texts)), {}
        except (shapely.errors.GEOSException, NotImplementedError) as error:  # shapely does not implement curves
            if len(texts) == 1:
                reason = str(error).removeprefix("ParseException: ").removeprefix("IllegalArgumentException: ")
                return np.array([None]), {0: WrongArea(f"this is not WKT: {reason[:1].lower()}{reason[1:]}", _EXAMPLE)}
        half = len(texts) // 2
        (left, wrong), (right, others) = _parsed(texts[:half]), _parsed(texts[half:])
    return np.concatenate([left, right]), wrong | {half + i: reason for i, reason in others.items()}


def _refuse_points(points: Floats, owner: Ints, wrong: dict[int, WrongArea]) -> None:
    for i in owner[~np.isfinite(points).all(axis=1)].tolist():
        wrong.setdefault(i, WrongArea("a coordinate is not a number"))
    for i in owner[np.abs(points[:, 1]) > 90.0].tolist():
        hint = f"{_EXAMPLE}; latitude comes first only after `<http://www.opengis.net/def/crs/EPSG/0/4326>`"
        wrong.setdefault(i, WrongArea("this latitude is beyond 90 degrees", hint))
    for i in owner[np.abs(points[:, 0]) > _FARTHEST].tolist():
        wrong.setdefault(i, WrongArea("this longitude is beyond 720 degrees", "use longitudes from -180 to 180"))


def _invalid(shape: Shape) -> WrongArea | None:
    if shapely.is_valid(shape):
        return None
    reason, _, place = shapely.is_valid_reason(shape).partition("[")
    where = f" at {place.removesuffix(']')}" if place else ""
    return WrongArea(f"the area is not well-formed: {reason[:1].lower()}{reason[1:]}{where}", _EXAMPLE)


# --- edges that cross the antimeridian ---


def _unwound(shape: Shape) -> Shape:
    """Replace each edge that spans more than 180 degrees of longitude by the edge in the opposite direction. Return the
    resulting shape."""
    if isinstance(shape, shapely.Point):
        return shape
    if isinstance(shape, shapely.LineString):
        return shapely.LineString(_continued(shapely.get_coordinates(shape))[0])
    if isinstance(shape, shapely.Polygon):
        rings = [shapely.get_coordinates(ring) for ring in (shape.exterior, *shape.interiors)]
        if not any(_crossing(ring).any() or _goes_round(ring) for ring in rings):
            return shape
        area = _polygon(shape.exterior)
        for hole in map(_polygon, shape.interiors):
            for turn in (-_ROUND, 0.0, _ROUND):
                area = shapely.difference(area, shapely.transform(hole, lambda points: points + (turn, 0.0)))  # noqa: B023
        return area
    parts = shapely.get_parts(shape).tolist()
    unwound = [_unwound(part) for part in parts]
    if all(after is before for after, before in zip(unwound, parts)):
        return shape
    if shape.geom_type == "GeometryCollection":
        return shapely.GeometryCollection(unwound)
    return shapely.union_all(unwound)


def _polygon(ring: Shape) -> Shape:
    points = shapely.get_coordinates(ring)
    points, turned = (points[:-1], True) if _goes_round(points) else _continued(points)
    if turned:  # the ring surrounds the pole of its hemisphere, so the area contains this pole
        lats = points[:, 1]
        if lats.min() < 0 < lats.max():
            hint = "add points along the border of the map at the pole that is meant: `..., 180 -90, -180 -90, ...`"
            raise WrongArea("a ring round the earth crosses the equator, so it may contain either pole", hint)
        pole = 90.0 if lats.max() > 0 else -90.0
        points = np.concatenate([points, [(points[-1, 0], pole), (points[0, 0], pole), points[0]]])
    polygon = shapely.Polygon(points)
    wrong = _invalid(polygon)
    if wrong is not None:
        raise wrong
    return polygon


def _crossing(points: Floats) -> NDArray[np.bool_]:
    """Return a mask of the edges that cross the antimeridian. An edge of exactly 360 degrees does not cross it."""
    steps = np.abs(np.diff(points[:, 0]))
    return (steps > _HALF) & (steps < _ROUND)


def _goes_round(points: Floats) -> bool:
    """Return True if a ring goes once around the globe, for instance `0 60, 120 60, 240 60, 360 60, 0 60`.

    The closing segment of such a ring is not an edge. A ring that touches a pole, or changes its direction between east
    and west, is an ordinary area.
    """
    steps = np.diff(points[:, 0])
    back, forth = steps[-1], steps[:-1]
    round = abs(back) == _ROUND and points[-2, 1] == points[-1, 1] and bool((forth * back <= 0).all())
    return round and abs(forth.sum()) == _ROUND and bool((np.abs(points[:, 1]) < 90).all())


def _continued(points: Floats) -> tuple[Floats, bool]:
    """Continue longitudes beyond 180 degrees, so that no edge crosses the antimeridian.

    Return the new points, and True if this changed the last point, so that a closed ring is no longer closed.
    """
    turns = np.cumsum(np.where(_crossing(points), -np.sign(np.diff(points[:, 0])), 0.0))
    moved = points.copy()
    moved[1:, 0] += _ROUND * turns
    return moved, bool(turns[-1] != 0)


# --- points in areas ---


def covers(shapes: Shapes, bounds: Floats, which: Ints, lat: Operand, long: Operand) -> NDArray[np.bool_]:
    """Return a mask of the points that lie in their area or on its edge. `which`: for each point, the index in `shapes`
    of the area to test.

    A pole lies in every area that reaches the pole's latitude, at any longitude.
    """
    west, south, east, north = bounds[which].T
    longitude = np.where(np.abs(long) <= _HALF, long, np.remainder(long + _HALF, _ROUND) - _HALF)
    covered = np.where(np.abs(lat) == 90.0, np.where(lat > 0, north, south) == lat, False)
    level = (south <= lat) & (lat <= north) & ~covered & (longitude == longitude)
    if not level.any():
        return covered
    first = np.floor(((west - longitude)[level] / _ROUND).min())
    last = np.ceil(((east - longitude)[level] / _ROUND).max())
    for turn in np.arange(first, last + 1):
        turned = longitude + _ROUND * turn
        rows = np.flatnonzero(level & (west <= turned) & (turned <= east))
        covered[rows] |= shapely.intersects_xy(shapes[which[rows]], turned[rows], lat[rows])
    return covered


MOST_CACHES = 4
"""The greatest number of shape caches that a condition keeps, one for each version of the background knowledge."""


class Known:
    """A cache of shapes. The key of a shape is the code of its text in the pool. The cache is cleared if the pool
    forgets values. `areas`: the lookup from places to their shapes."""

    def __init__(self, pool: Pool, areas: Areas | None) -> None:
        self._pool, self.areas = pool, areas
        self._reset()

    def _reset(self) -> None:
        self._generation = self._pool.generation
        self._place: Ints = np.empty(0, dtype=np.int64)  # index of the shape by code; -1: not read; last: missing code
        self.shapes: Shapes = np.array([None])  # the shape at index 0 is for texts that have none
        self.bounds: Floats = np.full((1, 4), np.nan)

    def places(self, codes: Ints) -> Ints:
        """Return, for each code, the index of its shape in the arrays `shapes` and `bounds`. The index is 0 if the
        code's text is not an area."""
        if self._generation != self._pool.generation:
            self._reset()
        if len(self._place) != self._pool.capacity:
            grown: Ints = np.full(self._pool.capacity, -1, dtype=np.int64)
            grown[: max(0, len(self._place) - 1)] = self._place[:-1]
            grown[-1] = 0
            self._place = grown
        places = self._place[np.maximum(codes, -1)]
        if (places < 0).any():
            self._meet(np.unique(codes[places < 0]))
            places = self._place[np.maximum(codes, -1)]
        return places

    def _meet(self, codes: Ints) -> None:
        kinds = self._pool.kinds(codes)
        shapes: Shapes = np.full(len(codes), None)
        texts = np.flatnonzero(kinds == STRING)
        shapes[texts] = read_all([str(value) for value in self._pool.decode_values(codes[texts])])[0]
        named = np.flatnonzero(kinds == IRI)
        if len(named) and self.areas is not None:
            shapes[named] = self.areas([str(value) for value in self._pool.decode_values(codes[named])])
        present = ~shapely.is_missing(shapes)
        shapely.prepare(shapes[present])
        self._place[codes] = np.where(present, len(self.shapes) + np.cumsum(present) - 1, 0)
        self.shapes = np.concatenate([self.shapes, shapes[present]])
        self.bounds = np.concatenate([self.bounds, shapely.bounds(shapes[present])])


def containment(type: str, pool: Pool) -> Callable[..., Operand]:
    """Return the implementation of `inside(Lat, Long, Area)` for whole columns. The result is missing if the point or
    the area is missing.

    The last argument of the implementation contains the end of each row's occurrence. The shape of a place is read from
    the background knowledge that is valid at this time or, without this argument, from the latest knowledge.

    `type`: the type of the areas. Raises CepError if the background knowledge contains an invalid geometry.
    """
    caches = [Known(pool, pool.areas.latest)]
    if type != "string" and pool.areas.latest is not None:
        pool.areas.latest([])

    def cache_of(areas: Areas | None) -> Known:
        for known in caches:
            if known.areas == areas:
                return known
        caches[:] = [*caches[1 - MOST_CACHES :], Known(pool, areas)]
        return caches[-1]

    def apply(lat: Operand, long: Operand, area: Operand, ends: Operand | None = None) -> Operand:
        times: list[Any] = [ends] if pool.areas.several and ends is not None else []
        columns = np.broadcast_arrays(lat, long, area, *times)
        lat, long, area, *times = map(np.atleast_1d, columns)
        result: Ints = np.empty(len(lat), np.int64)
        for areas, index in pool.areas.at(times[0] if times else None):
            rows = slice(None) if index is None else index
            known = cache_of(areas)
            which = known.places(area[rows])
            inside = covers(known.shapes, known.bounds, which, lat[rows], long[rows])
            result[rows] = np.where((which > 0) & (np.abs(lat[rows]) <= 90.0) & (long == long)[rows], inside, MISSING)
        return result if np.ndim(columns[0]) else result[0]

    return apply
