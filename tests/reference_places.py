"""The reference's places and units: one point at a time. For areas, it counts edges on the way to the north pole."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import rdflib
from pyproj import Geod

from cep.events import Iri
from tests.reference_knowledge import Term, Triple

ELLIPSOID = Geod(ellps="WGS84")
WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
GEO = "http://www.opengis.net/ont/geosparql#"
SCHEMA = ("http://schema.org/", "https://schema.org/")
GEOMETRIES = (GEO + "hasGeometry", GEO + "hasDefaultGeometry", *(each + "geo" for each in SCHEMA))
LONGITUDES = {WGS84 + "lat": WGS84 + "long"} | {each + "latitude": each + "longitude" for each in SCHEMA}
QUDT = rdflib.Namespace("http://qudt.org/schema/qudt/")
ONTOLOGY = Path(__file__).parent.parent / "ontologies" / "units.ttl"
LITERAL = re.compile(r"\s*(?:<(.*)>)?\s*([A-Z]+)\s*(\(.*\))\s*", re.DOTALL)
Point = tuple[float, float]  # longitude, latitude


def distance(lat1: float, long1: float, lat2: float, long2: float) -> float | None:
    if abs(lat1) > 90 or abs(lat2) > 90:
        return None
    return float(ELLIPSOID.inv(long1, lat1, long2, lat2)[2])


# Units.
@cache
def units() -> dict[str, tuple[str, Fraction, Fraction]]:
    """Of each unit the kind of quantity, the multiplier and the offset, as the ontology says."""
    graph = rdflib.Graph().parse(ONTOLOGY)
    found = {}
    for unit in graph.subjects(rdflib.RDF.type, QUDT.Unit):
        (kind,), (multiplier,) = (
            graph.objects(unit, QUDT.hasQuantityKind),
            graph.objects(unit, QUDT.conversionMultiplier),
        )
        offset = graph.value(unit, QUDT.conversionOffset, default=rdflib.Literal(0))
        found[str(unit)] = (str(kind), Fraction(str(multiplier)), Fraction(str(offset)))
    return found


def value_in(x: float, source: Any, target: Any) -> float | None:
    a, b = units().get(str(source)), units().get(str(target))
    if a is None or b is None or a[0] != b[0] or not isinstance(source, Iri) or not isinstance(target, Iri):
        return None
    return float((Fraction(x) + a[2]) * a[1] / b[1] - b[2])


# Areas.
def rings(text: str) -> tuple[str, list[list[Point]]]:
    """What kind of geometry a literal is, and its rows of points. Of any kind that a case has need of."""
    match = LITERAL.fullmatch(text)
    assert match, f"{text!r} is no area"
    system, kind, body = match.groups()
    found = []
    for row in re.findall(r"\(([^()]+)\)", body):
        numbers = [tuple(map(float, pair.split())) for pair in row.split(",")]
        found.append([(y, x) if system and "4326" in system else (x, y) for x, y in numbers])
    return kind, found


def inside(lat: float, long: float, text: str) -> bool:
    """A point in a polygon: going north from it to the pole, an odd number of edges is met, or an even one if the
    pole is inside as well. Rings of holes and of other polygons count alike."""
    kind, every = rings(text)
    if any(touches((long, lat), a, b) for ring in every for a, b in zip(ring, ring[1:] or ring)):
        return True
    if "POLYGON" not in kind:
        return False
    if abs(lat) == 90:
        return sum(round_pole(ring) * lat > 0 for ring in every) % 2 == 1
    odd = False
    for ring in every:
        odd ^= round_pole(ring) > 0
        for a, b in zip(ring, ring[1:]):
            odd ^= meets((long, lat), a, b)
    return odd


def round_pole(ring: list[Point]) -> int:
    """1 where a ring goes round the north pole, -1 round the south pole, else 0."""
    round_it = abs(sum(map(turn, ring, ring[1:]))) > 180
    return (1 if max(y for _, y in ring) > 0 else -1) if round_it else 0


def turn(a: Point, b: Point) -> float:
    """How far an edge goes east: the shorter way, or round the whole earth."""
    step = b[0] - a[0]
    return step if abs(step) <= 180 or abs(step) >= 360 else step - math.copysign(360, step)


def meets(point: Point, a: Point, b: Point) -> bool:
    """Does an edge cross the meridian of a point north of it? An edge has its western end, not its eastern."""
    west, east = (a, b) if turn(a, b) >= 0 else (b, a)
    width, before = abs(turn(a, b)), (point[0] - west[0]) % 360
    return before < width and west[1] + before / width * (east[1] - west[1]) > point[1]


def touches(point: Point, a: Point, b: Point) -> bool:
    if abs(point[1]) == 90:
        return point[1] in (a[1], b[1])
    west, east = (a, b) if turn(a, b) >= 0 else (b, a)
    width, before = abs(turn(a, b)), (point[0] - west[0]) % 360
    if not width:
        return before == 0 and min(a[1], b[1]) <= point[1] <= max(a[1], b[1])
    return before <= width and before * (east[1] - west[1]) == (point[1] - west[1]) * width


# Knowledge of places.
def places(triples: list[Triple]) -> list[tuple[Iri, str]]:
    """IRIs, each with a literal of WKT for every place it has."""
    own: dict[Term, list[str]] = {}
    for thing, property, found in triples:
        if property.text in LONGITUDES:
            longs = [o.text for s, p, o in triples if s == thing and p.text == LONGITUDES[property.text]]
            own.setdefault(thing, []).extend(f"POINT({long} {found.text})" for long in longs)
        elif property.text == GEO + "asWKT":
            own.setdefault(thing, []).append(found.text)
    links = [(s, o) for s, p, o in triples if p.text in (WGS84 + "location", *GEOMETRIES)]
    every = [(thing, wkt) for thing, found in own.items() for wkt in found]
    every += [(thing, wkt) for thing, place in links for wkt in own.get(place, [])]
    return sorted({(Iri(thing.text), wkt) for thing, wkt in every if thing.kind == "iri"})


def inside_of(lat: float, long: float, area: Any, triples: list[Triple]) -> bool | None:
    """None where there is no such area."""
    shapes = [wkt for thing, wkt in places(triples) if thing == area] if isinstance(area, Iri) else [area]
    shapes = [wkt for wkt in shapes if LITERAL.fullmatch(wkt)]
    return any(inside(lat, long, wkt) for wkt in shapes) if shapes and abs(lat) <= 90 else None


def near(lat: float, long: float, radius: float, triples: list[Triple]) -> Iterator[tuple[Iri, float]]:
    """What lies within a radius of a point, and how far its nearest point is."""
    geometries = {o.text for _, p, o in triples if p.text in GEOMETRIES}
    found: dict[Iri, float] = {}
    for thing, wkt in places(triples):
        kind, rows = rings(wkt)
        metres = distance(lat, long, rows[0][0][1], rows[0][0][0]) if kind == "POINT" else None
        if metres is not None and metres <= radius and str(thing) not in geometries:
            found[thing] = min(metres, found.get(thing, math.inf))
    yield from found.items()
