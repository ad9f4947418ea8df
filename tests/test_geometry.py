"""Places of the knowledge: what is near is what trying every place finds; areas by name; what cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import Pool
from cep.engine import Engine
from cep.events import Event, Iri
from cep.knowledge import geometry, point_index
from cep.knowledge.geometry import Geometries, Near
from cep.knowledge.graph import Knowledge
from cep.knowledge.point_index import PointIndex
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.rules.expressions import geodesy
from tests.long import examples

PREFIXES = """
PREFIX : <http://e/>
PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
PREFIX geo: <http://www.opengis.net/ont/geosparql#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
"""
Point = tuple[float, float]

# The ends of the earth, and points near to each other.
lats = st.one_of(st.integers(-90, 90), st.sampled_from([-90, -89.99, 0, 0.001, 40, 40.0001, 89.9, 89.99, 90]))
longs = st.one_of(st.integers(-180, 180), st.sampled_from([-180, -179.999, -73, -73.0001, 0, 179.999, 180, 270, 539]))
points = st.tuples(lats.map(float), longs.map(float))
radii = st.one_of(st.sampled_from([-1.0, 0.0, 1e-3, 15.0, 3e3, 2e7, 3e7]), st.floats(0, 20_100_000))


def places(turtle: str) -> Geometries:
    terms = Terms()
    quads = list(ox.parse((PREFIXES + turtle).encode(), format=ox.RdfFormat.TURTLE))
    s, p, o = (terms.ids([getattr(quad, part) for quad in quads]) for part in ("subject", "predicate", "object"))
    return Geometries(terms, TripleSet.of(s, p, o))


def gazetteer(features: Sequence[Sequence[Point]]) -> Geometries:
    """Features f0, f1, ... each at some points."""
    lines = [
        f":f{i} wgs84:location [ wgs84:lat {lat!r} ; wgs84:long {long!r} ] ." if n else
        f":f{i} wgs84:lat {lat!r} ; wgs84:long {long!r} ."
        for i, every in enumerate(features) for n, (lat, long) in enumerate(every)
    ]  # fmt: skip
    return places("\n".join(lines))


class Asked:
    """`near` of some places, asked with some of its arguments."""

    def __init__(self, known: Geometries) -> None:
        self.pool = Pool()
        self.near = Near(known, self.pool)

    def columns(self, given: dict[int, list[Any]]) -> list[np.ndarray[Any, Any]]:
        return [
            self.pool.encode_values(values) if i == 3 else np.array(values, dtype=np.float64)
            for i, values in given.items()
        ]

    def answers(self, given: dict[int, list[Any]], wanted: tuple[int, ...]) -> list[tuple[Any, ...]]:
        probe = self.near.probe({i: str(self.near.types[i]) for i in given}, wanted)
        columns, rows = self.columns(given), len(given[0])
        index, found = probe.answers(columns, rows)
        assert index.dtype == np.int64 and (np.diff(index) >= 0).all() and len(found) == len(wanted)
        assert probe.types == tuple(self.near.types[i] for i in wanted)
        lists = [self.pool.decode_values(c) if i == 3 else c.tolist() for i, c in zip(wanted, found)]
        result = list(zip(index.tolist(), *lists))
        assert len(set(result)) == len(result), "answers of a row are distinct"
        assert not probe.single or len(set(index.tolist())) == len(index)
        held = self.near.probe({i: str(self.near.types[i]) for i in given}, ()).holds(columns, rows)
        assert np.flatnonzero(held).tolist() == sorted(set(index.tolist()))
        return result


def brute(
    features: Sequence[Sequence[Point]], asked: Sequence[tuple[Point, float]]
) -> Iterator[tuple[int, Iri, float]]:
    order = sorted(range(len(features)), key=lambda i: f"http://e/f{i}")
    for row, ((lat, long), radius) in enumerate(asked):
        for i in order:
            metres = [float(geodesy.geod().inv(long, lat, x, y)[2]) for y, x in features[i]]
            if metres and min(metres) <= radius and abs(lat) <= 90:
                yield row, Iri(f"http://e/f{i}"), min(metres)


@examples(60)
@given(
    st.lists(st.lists(points, min_size=1, max_size=2), max_size=40),
    st.lists(st.tuples(points, radii), min_size=1, max_size=6),
)
def test_near_is_what_trying_every_place_finds(features: list[list[Point]], asked: list[tuple[Point, float]]) -> None:
    near, expected = Asked(gazetteer(features)), list(brute(features, asked))
    given_: dict[int, list[Any]] = {0: [p[0] for p, _ in asked], 1: [p[1] for p, _ in asked], 2: [r for _, r in asked]}
    assert near.answers(given_, (3, 4)) == expected
    assert near.answers(given_, (3,)) == [(row, feature) for row, feature, _ in expected]
    distances = sorted({(row, metres) for row, _, metres in expected})
    assert near.answers(given_, (4,)) == distances
    assert near.answers(given_, ()) == sorted({(row,) for row, *_ in expected}) or not near.answers(given_, (3,))
    for i in range(0, len(features) + 1, 7):  # one that is not there as well
        feature = Iri(f"http://e/f{i}")
        of_it = [(row, metres) for row, found, metres in expected if found == feature]
        named = given_ | {3: [feature] * len(asked)}
        assert near.answers(named, (4,)) == of_it
        wanted = [metres for _, metres in of_it] + [1.5] * len(asked)
        exactly = named | {4: wanted[: len(asked)]}
        assert near.answers(exactly, ()) == [(row,) for row, metres in of_it if exactly[4][row] == metres]


@given(
    st.lists(points, max_size=200),
    st.lists(st.tuples(points, st.floats(0, 13e6)), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_the_globe_finds_all_within_reach(known: list[Point], asked: list[tuple[Point, float]], times: int) -> None:
    known = known * times  # the same place more than once
    lat, long = (np.array([p[i] for p in known], dtype=np.float64) for i in (0, 1))
    of, at = (np.array([p[i] for p, _ in asked], dtype=np.float64) for i in (0, 1))
    reach = np.array([r for _, r in asked])
    globe = PointIndex(lat, long)
    there, here = geodesy.cartesian(lat, long).reshape(-1, 3), geodesy.cartesian(of, at)
    squares = ((here[:, None, :] - there[None, :, :]) ** 2).sum(axis=2)
    index, rows = np.nonzero(squares <= (reach**2)[:, None])
    found = globe.within(of, at, reach)
    assert found[0].tolist() == index.tolist() and found[1].tolist() == rows.tolist()
    sure = reach * 0.9
    nearest = [2 if (row < s * s).any() else int((row <= r * r).any()) for row, s, r in zip(squares, sure, reach)]
    assert globe.nearest_is(of, at, sure, reach).tolist() == nearest


def test_a_point_with_more_neighbours_than_there_was_room_for() -> None:
    random = np.random.default_rng(2)
    lat, long = random.uniform(40, 41, 9000), random.uniform(-74, -73, 9000)
    index, rows = PointIndex(lat, long).within(lat[:3], long[:3], np.full(3, 1e6))
    assert index.tolist() == [i for i in range(3) for _ in range(9000)]
    assert rows.tolist() == list(range(9000)) * 3


def test_nothing_is_near_to_nowhere() -> None:
    near = Asked(gazetteer([[(40.0, -73.0)], [(90.0, 0.0)]]))
    asked: dict[int, list[Any]] = {0: [91.0, np.nan, 40.0, -95.0], 1: [0.0, 0.0, np.nan, 0.0], 2: [3e7] * 4}
    assert near.answers(asked, (3, 4)) == []
    assert Asked(places(":a :b :c .")).answers({0: [1.0], 1: [1.0], 2: [3e7]}, (3, 4)) == []
    assert Asked(places(":a :b :c .")).answers({0: [1.0], 1: [1.0], 2: [3e7], 3: [Iri("http://e/a")]}, (4,)) == []


def test_near_is_ready_when_it_knows_where_and_how_far() -> None:
    near = Asked(gazetteer([])).near
    for size in range(6):
        for bound in itertools.combinations(range(5), size):
            assert near.ready(frozenset(bound)) == ({0, 1, 2} <= set(bound))


FORMS = """
:own wgs84:lat 40.5 ; wgs84:long "-73" .
:text wgs84:lat "40.5" ; wgs84:long " -7.3e1 "^^xsd:double .
:located wgs84:location _:b . _:b wgs84:lat 40.5 ; wgs84:long -73 .
:at_a_feature wgs84:location :own .
:shaped geo:hasGeometry :point . :point geo:asWKT "POINT(-73 40.5)"^^geo:wktLiteral .
:default geo:hasDefaultGeometry [ geo:asWKT "<http://www.opengis.net/def/crs/EPSG/0/4326> POINT(40.5 -73)" ] .
:area geo:hasGeometry :polygon . :polygon geo:asWKT "POLYGON((-74 40, -72 40, -72 41, -74 40))"^^geo:wktLiteral .
:line geo:hasGeometry [ geo:asWKT "LINESTRING(-73 40.5, -73 41)" ] .
:empty geo:hasGeometry [ geo:asWKT "POINT EMPTY" ] .
:half wgs84:lat 40.5 .
:several geo:hasGeometry [ geo:asWKT "MULTIPOINT((10 10), (-73 40.5), (-73 40.6))" ] .
:many geo:asWKT "MULTIPOINT EMPTY", "MULTIPOINT(-73 40.5)" .
:written wgs84:lat_long " 40.5, -73.0" .
:written_elsewhere wgs84:location [ wgs84:lat_long "40.5,-73" ] .
:web <https://schema.org/latitude> 40.5 ; <https://schema.org/longitude> -73 .
:web_shop <http://schema.org/geo> [ <http://schema.org/latitude> "40.5" ; <http://schema.org/longitude> "-73" ] .
:mixed <http://schema.org/latitude> 40.5 ; wgs84:long -73 .
"""


def test_where_things_are() -> None:
    known = places(FORMS)
    found = Asked(known).answers({0: [40.5], 1: [-73.0], 2: [1.0]}, (3, 4))
    names = ["at_a_feature", "default", "located", "many", "own", "several", "shaped", "text"]
    names += ["web", "web_shop", "written", "written_elsewhere"]
    assert found == [(0, Iri(f"http://e/{name}"), 0.0) for name in names]
    asked = [
        "http://e/" + name for name in ("own", "area", "polygon", "line", "empty", "half", "point", "text", "unknown")
    ]
    shapes = [None if shape is None else shape.wkt.split(" (")[0] for shape in known.areas(asked)]
    assert shapes == ["POINT", "POLYGON", "POLYGON", "LINESTRING", "POINT EMPTY", None, "POINT", "POINT", None]


@pytest.mark.parametrize(
    ("turtle", "message"),
    [
        (':a wgs84:lat "north" ; wgs84:long 3 .', "wgs84:lat of <http://e/a>: `north` is not a number"),
        (":a wgs84:lat 3 ; wgs84:long :b .", "wgs84:long of <http://e/a>: `http://e/b` is not a number"),
        (
            ":a wgs84:lat -90.5 ; wgs84:long 3 .",
            "wgs84:lat of <http://e/a>: a latitude lies between -90 and 90, but this is",
        ),
        (":a wgs84:lat 3 ; wgs84:long 3 . :b wgs84:lat 99, 98 .", "wgs84:lat of <http://e/b>: a latitude lies between"),
        (':a wgs84:lat "NaN"^^xsd:double ; wgs84:long 3 .', "wgs84:lat of <http://e/a>: "),
        (
            ':a wgs84:lat_long "40.5 -73" .',
            "wgs84:lat_long of <http://e/a>: `40.5 -73` is not a latitude and longitude",
        ),
        (':a wgs84:lat_long "-73,100,1", "100,3" .', "wgs84:lat_long of <http://e/a>: `"),
        (
            ':a <https://schema.org/latitude> "47° N" ; <https://schema.org/longitude> 8 .',
            "schema:latitude of <http://e/a>: `47° N` is not a number",
        ),
        (':a geo:asWKT "POINT(3 4" .', "geo:asWKT of <http://e/a>: this is not WKT: "),
        (
            ':a geo:asWKT "<http://x> POINT(3 4)" .',
            "geo:asWKT of <http://e/a>: <http://x> is not a supported coordinate system",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_thing(turtle: str, message: str) -> None:
    for ask in (lambda known: known.features, lambda known: known.areas([])):
        with pytest.raises(CepError) as caught:
            ask(places(turtle))
        assert caught.value.message.startswith(f"knowledge: {message}") and caught.value.code == "geometry"


def test_pieces_however_small_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the earth around each of many points: all features, of which some have several points."""
    random = np.random.default_rng(7)
    where = [[(float(a), float(b)) for a, b in random.uniform(-80, 80, (1 + n % 3, 2))] for n in range(40)]
    near, asked = Asked(gazetteer(where)), random.uniform(-80, 80, (9, 2)).T.tolist()
    some: list[dict[int, list[Any]]] = [{0: asked[0], 1: asked[1], 2: [radius] * 9} for radius in (0.0, 3e6, 2.1e7)]
    some += [given | {3: [Iri(f"http://e/f{n * 7}") for n in range(9)]} for given in some]
    whole = [near.answers(given, wanted) for given in some for wanted in ((4,), ()) if 3 in given or wanted]
    every = near.answers(some[2], (3, 4))
    assert len(every) == 9 * 40
    monkeypatch.setattr(point_index, "MOST", 50)
    monkeypatch.setattr(geometry, "_PIECE", 2)
    assert [near.answers(given, wanted) for given in some for wanted in ((4,), ()) if 3 in given or wanted] == whole
    assert near.answers(some[2], (3, 4)) == every


def test_many_places_are_ready_soon() -> None:
    """50,000 points: read and indexed without a loop over them."""
    random = np.random.default_rng(3)
    count = 50_000
    terms = Terms()
    things = terms.iris(pl.Series([f"http://e/f{i}" for i in range(count)]))
    lat, long = np.degrees(np.arcsin(random.uniform(-1, 1, count))), random.uniform(-180, 180, count)
    numbers = [
        terms.literals(pl.Series(x).cast(pl.String), "http://www.w3.org/2001/XMLSchema#double") for x in (lat, long)
    ]
    properties = [terms.iri(f"http://www.w3.org/2003/01/geo/wgs84_pos#{name}") for name in ("lat", "long")]
    triples = TripleSet.of(np.tile(things, 2), np.repeat(properties, count), np.concatenate(numbers))
    known = Geometries(terms, triples)
    found = Asked(known).answers({0: lat[:2000].tolist(), 1: long[:2000].tolist(), 2: [50_000.0] * 2000}, (3, 4))
    each = [(index, Iri(f"http://e/f{index}"), 0.0) for index in range(2000)]
    assert set(each) <= set(found)
    assert known.features.point_index.nbytes < 100 * count


MOVING = """
PREFIX : <http://e/>
event at(lat: float, long: float).
close(P) <- at(Lat, Long) WHERE near(Lat, Long, 1000, P, _).
home <- at(Lat, Long) WHERE near(Lat, Long, 1000, :ship, _).
in(A) <- at(Lat, Long) WHERE zone(A), inside(Lat, Long, A).
called(A) <- at(Lat, Long) WHERE warned(Lat, Long, A).
zone(:zone).
warned(Lat, Long, A) :- zone(A), inside(Lat, Long, A).
closed(A) :- zone(A), inside(40, -73, A).
blocked(A) <- at(_, _) WHERE closed(A).
fixed <- at(_, _) WHERE inside(40, -73, :zone).
"""
ZONE = ':zone geo:asWKT "POLYGON(({} 30, -60 30, -60 50, {} 50, {} 30))"^^geo:wktLiteral .'


def test_places_move_when_their_time_comes() -> None:
    """Each event is judged by the places of its time, also when later ones are known already."""
    west, east = ZONE.replace("{}", "-80"), ZONE.replace("{}", "-70")
    loaded = Knowledge.of(ox.parse(PREFIXES + ":ship wgs84:lat 40 ; wgs84:long -73 ." + west, ox.RdfFormat.TURTLE))
    engine = Engine.from_text(MOVING, knowledge=loaded)
    second = 1_000_000
    engine.update(5 * second, add=PREFIXES + east, remove=PREFIXES + west)
    engine.update(
        3 * second,
        add=PREFIXES + ":ship wgs84:long -72 . :boat wgs84:lat 40 ; wgs84:long -73 .",
        remove=PREFIXES + ":ship wgs84:long -73 .",
    )
    for wrong in (':a geo:asWKT "POINT(1" .', ":a wgs84:lat 99 .", ':a wgs84:long "east" .'):
        with pytest.raises(CepError) as caught:
            engine.update(4 * second, add=PREFIXES + wrong)
        assert caught.value.code == "geometry"
    given_ = [Event("at", (40.0, long), t * second, t * second) for t in (1, 3, 5, 7) for long in (-73.0, -72.0)]
    frames = [engine.push(given_[:3]), engine.push(given_[3:]), engine.close()]
    found: dict[int, set[tuple[Any, ...]]] = {}
    for frame in frames:
        for name, table in frame.items():
            for row in table.rows(named=True):
                values = [value for key, value in row.items() if key not in ("start", "end")]
                found.setdefault(row["end"] // second, set()).add((name, *(str(v)[9:] for v in values)))
    wide = {("in", "zone"), ("called", "zone"), ("blocked", "zone"), ("fixed",)}
    assert found == {
        1: {("close", "ship"), ("home",), *wide},
        3: {("close", "ship"), ("close", "boat"), ("home",), *wide},
        5: {("close", "ship"), ("close", "boat"), ("home",)},
        7: {("close", "ship"), ("close", "boat"), ("home",)},
    }
