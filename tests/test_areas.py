"""Areas: a point lies in one exactly where an independent count of edges says so, over date line and poles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import MISSING, Pool
from cep.core.versions import Versions
from cep.engine import Engine
from cep.events import Iri
from cep.rules.expressions.areas import WrongArea, containment, covers, read, read_all
from tests import reference_places

Point = tuple[float, float]


def between(least: int, most: int) -> st.SearchStrategy[float]:
    """Numbers that floats hold exactly, also a turn further, and none of them whole: no edge here lies there."""
    return st.integers(64 * least, 64 * most - 1).map(lambda n: (2 * n + 1) / 128)


def ring(points: list[Point]) -> str:
    return "(" + ", ".join(f"{long!r} {lat!r}" for long, lat in [*points, points[0]]) + ")"


@st.composite
def stars(draw: st.DrawFn) -> list[Point]:
    """The corners of a polygon that is seen whole from its middle, at some angles and distances from it."""
    long, lat = draw(st.sampled_from([-180, -175, 0, 60, 179, 180, 359])), draw(st.integers(-60, 60))
    far = draw(st.sampled_from([1, 8, 25]))
    corners = draw(
        st.lists(st.tuples(st.integers(0, 23), st.integers(1, 8)), min_size=3, max_size=9, unique_by=lambda c: c[0])
    )
    angles = sorted(angle for angle, _ in corners)
    assume(max((b - a) % 24 for a, b in zip(angles, angles[1:] + angles[:1])) < 12)
    return [
        (long + far * size / 8 * math.cos(angle * math.pi / 12), lat + far * size / 8 * math.sin(angle * math.pi / 12))
        for angle, size in sorted(corners)
    ]


def normal(points: list[Point]) -> list[Point]:
    return [((long + 180) % 360 - 180, lat) for long, lat in points]


def found(text: str, points: list[Point]) -> list[bool]:
    shapes = np.array([None, read(text)])
    lats, longs = np.array([lat for _, lat in points]), np.array([long for long, _ in points])
    return covers(shapes, shapely.bounds(shapes), np.ones(len(points), np.int64), lats, longs).tolist()


@given(stars(), st.lists(st.tuples(between(-30, 30), between(-30, 30)), min_size=1, max_size=20), st.booleans())
def test_a_polygon_holds_what_the_reference_says(corners: list[Point], steps: list[Point], crossing: bool) -> None:
    middle = corners[0]
    points = [(middle[0] + x, max(-89.0, min(89.0, middle[1] + y))) for x, y in steps]
    text = "POLYGON(" + ring(normal(corners) if crossing else corners) + ")"
    expected = [reference_places.inside(lat, long, text) for long, lat in points]
    assert found(text, points) == expected
    assert found(text, normal(points)) == expected
    swapped = "POLYGON(" + ring([(lat, long) for long, lat in corners]) + ")"
    assert found("<http://www.opengis.net/def/crs/EPSG/0/4326> " + swapped, points) == expected


@given(stars(), st.lists(st.tuples(between(-30, 30), between(-30, 30)), min_size=1, max_size=20))
def test_a_polygon_in_the_plane_is_shapely_s(corners: list[Point], steps: list[Point]) -> None:
    text = "POLYGON(" + ring([(long / 3, lat) for long, lat in corners]) + ")"
    points = [(x, y) for x, y in steps]
    assert found(text, points) == [bool(shapely.from_wkt(text).intersects(shapely.Point(x, y))) for x, y in points]


@given(stars(), st.integers(2, 5), st.lists(st.tuples(between(-30, 30), between(-30, 30)), min_size=1, max_size=20))
def test_holes(corners: list[Point], part: int, steps: list[Point]) -> None:
    long, lat = (sum(p[i] for p in corners) / len(corners) for i in (0, 1))
    hole = [(long + (x - long) / (4 * part), lat + (y - lat) / (4 * part)) for x, y in corners]
    assume(reference_places.inside(lat, long, "POLYGON(" + ring(corners) + ")"))
    assume(shapely.Polygon(corners).contains(shapely.Polygon(hole)))
    points = [(long + x, max(-89.0, min(89.0, lat + y))) for x, y in steps]
    text = "POLYGON(" + ring(normal(corners)) + ", " + ring(normal(hole)) + ")"
    assert found(text, points) == [reference_places.inside(y, x, text) for x, y in points]


@given(
    st.lists(st.tuples(st.integers(1, 80), st.integers(1, 3)), min_size=3, max_size=12),
    st.sampled_from([-1, 1]),
    st.integers(-180, 180),
    st.booleans(),
    st.lists(st.tuples(between(-180, 180), between(-90, 90)), min_size=1, max_size=20),
)
def test_a_ring_round_a_pole(
    corners: list[tuple[int, int]], side: int, first: int, back: bool, points: list[Point]
) -> None:
    widths = [width for _, width in corners]
    longs = [first + 360 * sum(widths[:i]) / sum(widths) for i in range(len(widths))]
    assume(max(widths) / sum(widths) < 0.5)
    cap = [(long, float(side * lat)) for long, (lat, _) in zip(longs, corners)]
    text = "POLYGON(" + ring(normal(cap[::-1] if back else cap)) + ")"
    assert found(text, points) == [reference_places.inside(lat, long, text) for long, lat in points]
    assert found(text, [(12.0, 90.0 * side), (12.0, -90.0 * side)]) == [True, False]


@pytest.mark.parametrize("step", [90, 120, 180])
@pytest.mark.parametrize("west", [0, -180])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_cap_is_written_once_round(step: int, west: int, back: bool, side: int) -> None:
    around = [(float(west + long), float(side * (60 + long // 10 % 25))) for long in range(0, 361, step)]
    around[-1] = (around[-1][0], around[0][1])
    text = "POLYGON(" + ring(around[::-1] if back else around) + ")"
    points = [(12.0, 90.0 * side), (200.0, 85.0 * side), (3.0, 59.0 * side), (12.0, -90.0 * side), (179.0, 0.0)]
    assert found(text, points) == [True, True, False, False, False]
    globe = "POLYGON((-180 -90, 180 -90, 180 90, -180 90, -180 -90), " + ring(around) + ")"
    assert found(globe, points[1:]) == [False, True, True, True]


def test_what_goes_round_on_a_parallel_is_as_written() -> None:
    assert found("POLYGON((-180 -10, 180 -10, 180 10, -180 10, -180 -10))", [(5, 0), (5, 20)]) == [True, False]
    assert found("POLYGON((180 60, 0 90, -180 60, 180 60))", [(0, 80), (170, 80)]) == [True, False]


def test_edges_belong_to_an_area() -> None:
    text = "POLYGON((170 -20, -170 -20, -170 20, 170 20, 170 -20), (175 0, 178 0, 178 3, 175 0))"
    edge = [(170.0, 0.0), (-170.0, 5.0), (190.0, 5.0), (180.0, 20.0), (-180.0, -20.0), (176.0, 0.0), (530.0, 1.0)]
    assert all(found(text, edge))
    assert found(text, [(169.999999, 0.0), (-169.999999, 0.0), (177.0, 1.0)]) == [False, False, False]


def test_other_geometries() -> None:
    assert found("MULTIPOINT((1 2), (181 4))", [(1, 2), (-179, 4), (2, 1)]) == [True, True, False]
    assert found("LINESTRING(170 0, -170 0)", [(180, 0), (0, 0), (-170, 0)]) == [True, False, True]
    collection = "GEOMETRYCOLLECTION(POINT(3 3), POLYGON((170 0, -170 0, -170 10, 170 0)))"
    assert found(collection, [(3, 3), (-171, 5), (0, 5), (4, 3)]) == [True, True, False, False]
    assert found("POLYGON EMPTY", [(0, 0), (0, 90)]) == [False, False]
    assert found("POLYGON Z((0 0 5, 4 0 5, 0 4 5, 0 0 5))", [(1, 1), (3, 3)]) == [True, False]
    antarctica = "POLYGON((-180 -90, -180 -70, 0 -65, 180 -70, 180 -90, -180 -90))"
    assert found(antarctica, [(12, -90), (100, -80), (0, -66), (0, -64), (12, 90)]) == [True, True, True, False, False]


WRONG = """
PLGON((0 0))                                       | this is not WKT: unknown type: 'PLGON'
POLYGON((0 0, 1 0, 1 1, 0 0.5))                    | this is not WKT: points of LinearRing do not form a
POLYGON((0 0, 1 1, 0 1, 1 0, 0 0))                 | the area is not well-formed: self-intersection at 0.5 0.5
POINT(1e999 2)                                     | a coordinate is not a number
POINT(2 91)                                        | this latitude is beyond 90 degrees
POINT(800 1)                                       | this longitude is beyond 720 degrees
<http://example.org/crs> POINT(1 2)| <http://example.org/crs> is not a supported coordinate system
POLYGON((0 -1, 120 1, -120 1, 0 -1))               | a ring round the earth crosses the equator, so it may
POLYGON((-300 0, -100 0, 100 0, 300 0, 300 9, 100 9, -100 9, -300 9, -300 0))| the area goes round the earth
POLYGON((170 0, -170 10, -170 0, 170 10, 170 0))   | the area is not well-formed: self-intersection at 180 5
CIRCULARSTRING(0 0, 1 1, 2 0)                      | this is not WKT: nonlinear geometry
"""


@pytest.mark.parametrize(("text", "reason"), [line.split("| ") for line in WRONG.strip().splitlines()])
def test_what_is_no_area(text: str, reason: str) -> None:
    with pytest.raises(WrongArea) as caught:
        read(text.strip())
    assert str(caught.value).startswith(reason.strip())


def test_many_are_read_at_once_each_by_itself() -> None:
    texts = [
        "POINT(1 2)",
        "POINT(1",
        "POLYGON((170 0, -170 0, -170 9, 170 0))",
        "POINT(1 95)",
        "CIRCULARSTRING(0 0, 1 1, 2 0)",
    ]
    shapes, wrong = read_all(texts * 3)
    assert sorted(wrong) == [1, 3, 4, 6, 8, 9, 11, 13, 14]
    assert [shape is None for shape in shapes] == [i in wrong for i in range(15)]
    assert shapes[2].bounds == (170, 0, 190, 9) and shapes[0] == shapes[5] == shapely.Point(1, 2)
    assert [len(part) for part in read_all([])] == [0, 0]


def test_areas_of_a_column_are_known_again_and_forgotten_with_the_pool() -> None:
    pool = Pool()
    asked: list[str] = []

    def areas(iris: Sequence[str]) -> list[object]:
        asked.extend(iris)
        return [shapely.box(0, 0, 9, 9) if iri == "http://e/park" else None for iri in iris]

    pool.areas = Versions(areas)
    inside = containment("any", pool)
    values = ["POLYGON((0 0, 2 0, 0 2, 0 0))", Iri("http://e/park"), Iri("http://e/none"), "nothing", 7, None]
    one = np.full(len(values), 1.0)
    expected = [1, 1, MISSING, MISSING, MISSING, MISSING]
    for _ in range(2):
        assert inside(one, one, pool.encode_values(values)).tolist() == expected
    assert asked == ["http://e/park", "http://e/none"]
    assert inside(one + 4, one + 4, pool.encode_values(values)).tolist() == [0, 1] + expected[2:]
    pool.sweep([])
    assert inside(one, one, pool.encode_values(values[::-1])).tolist() == expected[::-1]
    pool.areas = Versions(lambda iris: [None for _ in iris])
    assert inside(one, one, pool.encode_values(values)).tolist() == [1] + [MISSING] * 5


def test_a_constant_area_that_is_none_is_told_with_its_place() -> None:
    with pytest.raises(CepError) as caught:
        Engine.from_text('e(1) <- a(X, Y) WHERE\n  inside(X, Y, "POINT(0 0"), X > 1.')
    assert caught.value.code == "area"
    assert caught.value.span is not None and (caught.value.span.line, caught.value.span.column) == (2, 16)
