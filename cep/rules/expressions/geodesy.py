"""Distances on the WGS84 ellipsoid.

To compare a distance with a limit, this module first computes the length of the chord through the earth. It only uses
pyproj if the chord does not decide the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pyproj import Geod

    from cep.rules.expressions.functions import Operand

LatLong = tuple[float, float]
"""A latitude and a longitude in degrees."""

EQUATORIAL_RADIUS = 6378137.0
FLATTENING = 1 / 298.257223563
ECCENTRICITY2 = FLATTENING * (2 - FLATTENING)

TIGHTEST_RADIUS = EQUATORIAL_RADIUS * (1 - ECCENTRICITY2)
"""The smallest radius of curvature of a geodesic in metres: the radius of the meridian at the equator."""

FARTHEST_BOUNDED = 17_500_000.0
SLACK, RELATIVE_SLACK = 1e-3, 1e-9
"""The absolute tolerance in metres, and the relative tolerance, of a comparison by chord. Both are much larger than the
rounding errors of a chord, but so small that the chord decides most comparisons."""


@cache
def geod() -> Geod:
    """Return the ellipsoid. The first call loads pyproj, so programs without distances start faster."""
    from pyproj import Geod

    return Geod(ellps="WGS84")


def distance(lat1: Operand, long1: Operand, lat2: Operand, long2: Operand) -> Operand:
    """Return the geodesic distances in metres between points in degrees, accurate to some nanometres.

    The distance is NaN if a value is NaN or a latitude is beyond 90 degrees. Longitudes count modulo 360.
    """
    lat1, long1, lat2, long2 = np.broadcast_arrays(lat1, long1, lat2, long2)
    return geod().inv(long1, lat1, long2, lat2, return_back_azimuth=False)[2]


def compare(operator: str, points: Sequence[Operand], limit: Operand) -> Operand:
    """Compare `distance(*points)` with `limit` by `<`, `<=`, `>` or `>=`. The result is False if a distance is NaN.

    The exact distance is calculated only for a few pairs in a thousand, for which the chord does not decide the
    comparison.
    """
    lat1, long1, lat2, long2 = points
    square = chord_squared(lat1, long1, lat2, long2)
    less, more = square < certainly_within(limit) ** 2, square > certainly_beyond(limit) ** 2
    result = np.logical_and(less if operator in ("<", "<=") else more, True)
    doubtful = np.asarray(~(less | more) & (square == square) & np.equal(limit, limit))
    if doubtful.any():
        columns = [np.broadcast_to(column, doubtful.shape)[doubtful] for column in (*points, limit)]
        result = np.array(np.broadcast_to(result, doubtful.shape))
        result[doubtful] = _ORDERS[operator](distance(*columns[:4]), columns[4])
    return result


_ORDERS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def certainly_beyond(limit: Operand) -> Operand:
    """Return a chord length. Points whose chord is longer are certainly farther apart than `limit`, because the chord
    is the shortest line between them."""
    return np.maximum(limit, 0.0) * (1 + RELATIVE_SLACK) + SLACK


def certainly_within(limit: Operand) -> Operand:
    """Return a chord length. Points whose chord is shorter are certainly less than `limit` apart.

    By Schur's theorem, a curve of length s whose curvature is at most 1/r has a chord of at least 2 r sin(s / 2 r) if s
    is at most pi r, which is 19,903 km. A longer geodesic exceeds this length by at most 101 km, so its chord is longer
    than 12,500 km.
    """
    bounded = np.clip(limit, 0.0, FARTHEST_BOUNDED)
    return np.maximum(2 * TIGHTEST_RADIUS * np.sin(bounded / (2 * TIGHTEST_RADIUS)) * (1 - RELATIVE_SLACK) - SLACK, 0.0)


def chord_squared(lat1: Operand, long1: Operand, lat2: Operand, long2: Operand) -> Operand:
    """Return the squared chord length between points in square metres. It is NaN where `distance` is NaN."""
    apart = np.subtract(long1, long2)
    if not np.less(np.abs(apart), 1000.0).all():
        apart = np.remainder(long1, 360.0) - np.remainder(long2, 360.0)
    axis1, height1 = _meridian(lat1)
    axis2, height2 = _meridian(lat2)
    across = np.sin(np.radians(apart) / 2)
    return (axis1 - axis2) ** 2 + 4 * axis1 * axis2 * across * across + (height1 - height2) ** 2


def _meridian(lat: Operand) -> tuple[Operand, Operand]:
    angle = np.radians(np.where(np.abs(lat) <= 90.0, lat, np.nan))
    sine = np.sin(angle)
    bend = EQUATORIAL_RADIUS / np.sqrt(1 - ECCENTRICITY2 * sine * sine)
    return bend * np.cos(angle), bend * (1 - ECCENTRICITY2) * sine


def cartesian(lat: Operand, long: Operand) -> Operand:
    """Return points on the ellipsoid in metres from the earth's centre, with shape (n, 3). A point is NaN if its
    latitude is beyond 90 degrees."""
    axis, height = _meridian(lat)
    angle = np.radians(np.remainder(long, 360.0))
    return np.stack([axis * np.cos(angle), axis * np.sin(angle), height], axis=-1)
