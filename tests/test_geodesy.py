"""Distances are those of the ellipsoid, and what the chord decides is what the exact distance would."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyproj import Geod

from cep.core.values import Pool
from cep.language.syntax.parser import parse
from cep.rules.expressions import geodesy
from cep.rules.expressions.checking import check, check_comparison, compile_expression, compile_test
from cep.rules.terms import Comparison, StaticRule

ELLIPSOID = Geod(ellps="WGS84")
lats = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, -89.999999, -0.0, 0.0, 1e-9, 45.0, 89.999999, 90.0]))
longs = st.one_of(st.floats(-540, 540), st.sampled_from([-180.0, -179.9999999, 0.0, 90.0, 179.9999999, 180.0, 360.0]))
points = st.tuples(lats, longs)


def exact(a: tuple[float, float], b: tuple[float, float]) -> float:
    return float(ELLIPSOID.inv(a[1], a[0], b[1], b[0])[2])


def measured(*degrees: float) -> float:
    return float(geodesy.distance(*(np.array([degree]) for degree in degrees))[0])


@pytest.mark.parametrize(
    ("degrees", "metres"),
    [
        ((0, 0, 0, 1), 111_319.49079327358),  # a degree of the equator
        ((0, 0, 90, 0), 10_001_965.729312724),  # a quarter of a meridian
        ((90, 0, -90, 0), 20_003_931.458625448),
        ((0, 0, 0, 180), 20_003_931.458625448),  # over a pole
        ((40, -73, 40, -73), 0.0),
        ((0, 179.5, 0, -179.5), 111_319.49079327358),
        ((89, 0, 89, 180), 2 * 111_693.86491391223),  # over the pole
    ],
)
def test_known_distances(degrees: tuple[float, ...], metres: float) -> None:
    assert measured(*degrees) == pytest.approx(metres, abs=1e-5)


@given(points, points)
def test_a_distance_is_that_of_the_ellipsoid_there_and_back(a: tuple[float, float], b: tuple[float, float]) -> None:
    assert measured(*a, *b) == exact(a, b)
    assert measured(*a, *b) == pytest.approx(measured(*b, *a), abs=1e-7)
    assert measured(*a, *b) == pytest.approx(measured(a[0], a[1] + 360, *b), abs=1e-6)


def test_what_has_no_distance() -> None:
    lat = np.array([90.5, -91.0, np.nan, 40.0, 40.0])
    long = np.array([0.0, 0.0, 0.0, np.nan, 1e300])
    found = geodesy.distance(lat, long, np.float64(40.0), np.float64(3.0))
    assert np.isnan(found).tolist() == [True, True, True, True, False]
    for operator in ("<", "<=", ">", ">="):
        places = (lat, long, np.float64(40.0), np.float64(3.0))
        assert geodesy.compare(operator, places, np.float64(1e6))[:4].tolist() == [False] * 4
        assert not geodesy.compare(operator, (lat[4:], long[4:], *places[2:]), np.array([np.nan])).any()


@given(points, points, st.floats(-1e-7, 1e-7), st.floats(0, 21e6))
@example((0.0, 0.0), (0.0, 180.0), 0.0, 0.0)
@example((0.0, 0.0), (0.0, 179.4), 0.0, 2e7)
def test_a_limit_is_decided_as_the_distance_would(
    a: tuple[float, float], b: tuple[float, float], about: float, other: float
) -> None:
    metres = exact(a, b)
    limits = [metres, metres * (1 + about), np.nextafter(metres, 0), np.nextafter(metres, 1e9), metres + about, other]
    limits += [0.0, -1.0, metres + 0.001, metres - 0.001, metres * (1 + 1e-4), metres * (1 - 1e-4)]
    columns = [np.full(len(limits), degree) for degree in (*a, *b)]
    limit = np.array(limits)
    assert (geodesy.compare("<", columns, limit) == (metres < limit)).all()
    assert (geodesy.compare("<=", columns, limit) == (metres <= limit)).all()
    assert (geodesy.compare(">", columns, limit) == (metres > limit)).all()
    assert (geodesy.compare(">=", columns, limit) == (metres >= limit)).all()


def test_the_chord_bounds_the_distance_everywhere() -> None:
    """Where the earth bends most (north and south at the equator) and least, near and far."""
    random = np.random.default_rng(7)
    lat = np.concatenate([np.degrees(np.arcsin(random.uniform(-1, 1, 200_000))), np.zeros(200_000)])
    long, azimuth = random.uniform(-180, 180, 400_000), random.choice([0, 90, 180, 12.5, 359], 400_000)
    far = 10 ** random.uniform(-2, np.log10(20_003_931), 400_000)
    long2, lat2, _ = ELLIPSOID.fwd(long, lat, azimuth, far)
    metres = geodesy.distance(lat, long, lat2, long2)
    chord = np.sqrt(geodesy.chord_squared(lat, long, lat2, long2))
    assert (chord < geodesy.certainly_beyond(metres)).all()
    assert (chord >= geodesy.certainly_within(metres)).all()
    # And they leave little open: for 300 km less than 30 m.
    near = metres < 300_000
    assert (chord[near] > metres[near] - 30).all() and (geodesy.certainly_within(metres) > metres * 0.9999 - 1)[
        near
    ].all()


def expression(text: str) -> Comparison:
    (rule,) = parse(f"p(0) :- {text}.").statements
    assert isinstance(rule, StaticRule)
    (comparison,) = rule.conditions
    assert isinstance(comparison, Comparison)
    return comparison


TYPES = {"A": "float", "B": "float", "I": "int", "J": "any", "L": "float"}
LIMITS = (
    "distance(A, B, 40.6, -73.8) < 300000",
    "300000 >= distance(A, B, 40.6, -73.8)",
    "distance(A, B, I, J) > L",
    "L > distance(A, B, A, B)",
    "distance(A, B, I, J) <= distance(A, B, 0, 0)",
    "distance(40, -73, 41, -73) < L",
)


@pytest.mark.parametrize("text", LIMITS)
@given(st.data())
def test_conditions(text: str, data: st.DataObject) -> None:
    """A condition holds where the comparison of both sides' values does; what is missing fails."""
    maybe = st.one_of(st.none(), st.floats(-95, 95).map(lambda x: round(x, 1)))
    rows = data.draw(st.lists(st.tuples(maybe, maybe, st.integers(-90, 90), maybe, st.floats(0, 2e7)), max_size=8))
    pool = Pool()

    def column(i: int, type: str) -> np.ndarray[Any, Any]:
        values = [row[i] for row in rows]
        if type == "any":
            return pool.encode_values(values)
        return np.array([np.nan if x is None else x for x in values], np.float64 if type == "float" else np.int64)

    columns = {name: column(i, type) for i, (name, type) in enumerate(TYPES.items())}
    written = expression(text)
    left = compile_expression(check(written.left, TYPES), pool)(columns, len(rows)) + 0.0
    right = compile_expression(check(written.right, TYPES), pool)(columns, len(rows)) + 0.0
    plain = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[written.operator]
    found = compile_test(check_comparison(written, TYPES), pool)(columns, len(rows))
    assert found.tolist() == plain(left, right).tolist()


def test_a_program_without_places_loads_no_library_for_them() -> None:
    script = (
        "import sys; from cep.engine import Engine; Engine.from_text('e(X) <- a(X) WHERE X > 1.');"
        "assert not {'pyproj', 'shapely', 'rdflib', 'pyoxigraph'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
