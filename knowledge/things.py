"""Conversion of the entities of a SensorThings service to triples in terms of SOSA and GeoSPARQL. The entities are
Things, Locations and Datastreams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import isfinite
from typing import Any
from urllib.parse import quote, urlsplit

import pyoxigraph as ox

from cep.knowledge.change import Change, merge, unnamed
from cep.knowledge.graph import Knowledge
from cep.knowledge.query.store import store_quads
from cep.knowledge.rdf.namespaces import DCTERMS, GEO, OWN, RDF_TYPE, RDFS, SCHEMA, SKOS, WGS84, XSD

SOSA = "http://www.w3.org/ns/sosa/"
QUDT = "http://qudt.org/schema/qudt/"

Entity = Mapping[str, Any]
Triple = tuple[ox.NamedNode, ox.NamedNode, ox.NamedNode | ox.Literal]

_OF, _BY = ox.NamedNode(SOSA + "hasFeatureOfInterest"), ox.NamedNode(SOSA + "madeBySensor")


def things_to_rdf(base: str, entities: Mapping[str, Sequence[Entity]]) -> str:
    """Convert the entities of a service to N-Triples, sorted by line. `base`: the address of the service.

    `entities`: the Things, Datastreams and MultiDatastreams of the service. A Thing contains its Locations. A
    Datastream or MultiDatastream contains its Thing, its Sensor, and its ObservedProperty or ObservedProperties.
    """
    triples: set[Triple] = set()
    for stream in entities.get("Datastreams", ()):
        triples.update(_stream(base, stream))
    for stream in entities.get("MultiDatastreams", ()):
        triples.update(_multiple(base, stream))
    sensors: dict[ox.NamedNode, set[ox.NamedNode]] = {}
    streams = {s: o for s, p, o in triples if p == _OF and isinstance(o, ox.NamedNode)}
    for s, p, o in triples:
        if p == _BY and s in streams and isinstance(o, ox.NamedNode):
            sensors.setdefault(streams[s], set()).add(o)
    for thing in entities.get("Things", ()):
        triples.update(_thing(base, thing, sensors.get(_node(base, "Things", thing), set())))
    return "".join(sorted(f"{s} {p} {o} .\n" for s, p, o in triples))


def _thing(base: str, thing: Entity, sensors: Set[ox.NamedNode]) -> Iterator[Triple]:
    """Describe a Thing. `sensors`: the sensors of this Thing.

    A Thing that has a name, a point and sensors is also described as a station (`ontologies/stations.shapes.ttl`).
    """
    node = _node(base, "Things", thing)
    yield from _named(node, SOSA + "FeatureOfInterest", thing)
    for name, value in _members(thing.get("properties")).items():
        if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
            yield node, _iri(f"{OWN}thing/{quote(name, safe='')}"), _literal(value)
    point: tuple[str, str] | None = None
    for location in sorted(_list(thing.get("Locations")), key=lambda entity: str(entity["@iot.id"])):
        place = _node(base, "Locations", location)
        yield node, _iri(GEO + "hasGeometry"), place
        yield from _named(place, GEO + "Geometry", location)
        if (text := _wkt(_members(location.get("location")))) is not None:
            yield place, _iri(GEO + "asWKT"), ox.Literal(text, datatype=_iri(GEO + "wktLiteral"))
            if text.startswith("POINT "):
                long, lat = text[7:-1].split()
                point = point or (long, lat)
                yield place, _iri(WGS84 + "lat"), _literal(float(lat))
                yield place, _iri(WGS84 + "long"), _literal(float(long))
    if point is not None and sensors and thing.get("name"):
        yield node, _iri(RDF_TYPE), _iri(SOSA + "Platform")
        for word, number in zip(("long", "lat"), point):
            yield node, _iri(WGS84 + word), _literal(float(number))
        for sensor in sensors:
            yield node, _iri(SOSA + "hosts"), sensor


def _stream(base: str, stream: Entity) -> Iterator[Triple]:
    node = _node(base, "Datastreams", stream)
    yield from _named(node, SOSA + "ObservationCollection", stream)
    yield from _measured(base, node, stream, stream.get("unitOfMeasurement"), stream.get("ObservedProperty"))


def _multiple(base: str, stream: Entity) -> Iterator[Triple]:
    node = _node(base, "MultiDatastreams", stream)
    yield from _named(node, SOSA + "ObservationCollection", stream)
    units, properties = _list(stream.get("unitOfMeasurements")), _list(stream.get("ObservedProperties"))
    for place in range(max(len(units), len(properties))):
        part = _iri(f"{node.value}#{place}")
        yield node, _iri(DCTERMS + "hasPart"), part
        yield part, _iri(RDF_TYPE), _iri(SOSA + "ObservationCollection")
        yield part, _iri(SCHEMA[1] + "position"), _literal(place)
        both = (members[place] if place < len(members) else None for members in (units, properties))
        yield from _measured(base, part, stream, *both)


def _measured(base: str, node: ox.NamedNode, stream: Entity, unit: object, property: object) -> Iterator[Triple]:
    """Describe a series of values: its unit, Thing, Sensor and ObservedProperty. `node`: the IRI of the series."""
    unit = _members(unit)
    if unit.get("symbol"):
        yield node, _iri(SCHEMA[1] + "unitText"), ox.Literal(str(unit["symbol"]))
    if _is_iri(unit.get("definition")):
        yield node, _iri(QUDT + "hasUnit"), _iri(unit["definition"])
    if thing := _members(stream.get("Thing")):
        yield node, _iri(SOSA + "hasFeatureOfInterest"), _node(base, "Things", thing)
    for name, kind, word, description in (
        ("Sensors", "Sensor", "madeBySensor", stream.get("Sensor")),
        ("ObservedProperties", "ObservableProperty", "observedProperty", property),
    ):
        if not (other := _members(description)):
            continue
        place = _node(base, name, other)
        yield node, _iri(SOSA + word), place
        if word == "madeBySensor" and (seen := _members(property)):
            yield place, _iri(SOSA + "observes"), _node(base, "ObservedProperties", seen)
        yield from _named(place, SOSA + kind, other)
        if _is_iri(other.get("definition")):
            yield place, _iri(SKOS + "exactMatch"), _iri(other["definition"])


def _named(node: ox.NamedNode, kind: str, entity: Entity) -> Iterator[Triple]:
    yield node, _iri(RDF_TYPE), _iri(kind)
    yield node, _iri(DCTERMS + "identifier"), _literal(entity["@iot.id"])
    for name, property in (("name", RDFS + "label"), ("description", DCTERMS + "description")):
        if entity.get(name):
            yield node, _iri(property), ox.Literal(str(entity[name]))


def in_graph(triples: str, graph: str) -> frozenset[str]:
    """Convert N-Triples to lines of N-Quads in the graph `graph`. The lines have the form of the lines in `Change`."""
    name = _iri(graph)
    return _lines(
        [ox.Quad(quad.subject, quad.predicate, quad.object, name) for quad in ox.parse(triples, ox.RdfFormat.N_TRIPLES)]
    )


def known_in_graph(known: Knowledge, changes: Sequence[bytes], graph: str) -> frozenset[str]:
    """Return the quads that the graph `graph` contains after changes of the knowledge, as lines of N-Quads."""
    id = known.terms.id_of(graph)
    lines = _lines(store_quads(known.terms, known.graphs[id], id)) if id in known.graphs else frozenset()
    change, end = Change.read(merge(changes)), f" {_iri(graph)} ."
    lines = frozenset(line for line in lines - change.removed if unnamed(line) not in change.removed)
    return lines | {line for line in change.added if line.endswith(end)}


def _lines(quads: list[ox.Quad]) -> frozenset[str]:
    written = ox.serialize(quads, format=ox.RdfFormat.N_QUADS)
    assert written is not None, "without an output the text is given back"
    return frozenset(written.decode().split("\n")) - {""}


def _wkt(place: Entity) -> str | None:
    if place.get("type") == "Feature":
        return _wkt(_members(place.get("geometry")))
    kind, numbers = place.get("type"), place.get("coordinates")
    if kind not in ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"):
        return None
    try:
        text = _numbers(numbers)
    except (TypeError, ValueError, IndexError):
        return None
    return f"{kind.upper()} {text if text.startswith('(') else f'({text})'}"


def _numbers(coordinates: Any) -> str:
    if not isinstance(coordinates, list):
        raise ValueError
    if isinstance(coordinates[0], (int, float)):
        long, lat = float(coordinates[0]), float(coordinates[1])
        if not (abs(long) <= 180 and abs(lat) <= 90):
            raise ValueError("the coordinates are not in WGS 84, which GeoJSON requires")
        return f"{long!r} {lat!r}"
    return f"({', '.join(_numbers(part) for part in coordinates)})"


def _node(base: str, name: str, entity: Entity) -> ox.NamedNode:
    id = entity["@iot.id"]
    text = str(id) if isinstance(id, int) else "'" + quote(str(id).replace("'", "''"), safe="") + "'"
    return _iri(f"{base}/{name}({text})")


def _is_iri(text: object) -> bool:
    try:
        return isinstance(text, str) and urlsplit(text).scheme in ("http", "https", "urn") and bool(_iri(text))
    except ValueError:
        return False


def _iri(text: str) -> ox.NamedNode:
    return ox.NamedNode(text)


def _literal(value: str | bool | int | float) -> ox.Literal:
    if isinstance(value, float):
        return ox.Literal(repr(value), datatype=_iri(XSD + "double"))
    return ox.Literal(value)


def _members(entity: object) -> Mapping[str, Any]:
    return entity if isinstance(entity, dict) else {}


def _list(entities: object) -> list[Entity]:
    return [entity for entity in entities if isinstance(entity, dict)] if isinstance(entities, list) else []
