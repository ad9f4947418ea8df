"""Things, Locations and Datastreams of a SensorThings service as triples, in the words of SOSA and GeoSPARQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import pyoxigraph as ox

from cep.knowledge.rdf.namespaces import DCTERMS, GEO, OWN, RDF_TYPE, RDFS, SCHEMA, SKOS, WGS84, XSD

SOSA = "http://www.w3.org/ns/sosa/"
QUDT = "http://qudt.org/schema/qudt/"

Entity = Mapping[str, Any]


def things_to_rdf(base: str, entities: Mapping[str, Sequence[Entity]]) -> str:
    """Return N-Triples, sorted. `base`: the address of the service; `entities`: its Things, with their Locations, and
    its Datastreams, with their Thing, Sensor and ObservedProperty."""
    triples: set[tuple[ox.NamedNode, ox.NamedNode, ox.NamedNode | ox.Literal]] = set()
    for thing in entities.get("Things", ()):
        triples.update(_thing(base, thing))
    for stream in entities.get("Datastreams", ()):
        triples.update(_stream(base, stream))
    return "".join(sorted(f"{s} {p} {o} .\n" for s, p, o in triples))


Triple = tuple[ox.NamedNode, ox.NamedNode, ox.NamedNode | ox.Literal]


def _thing(base: str, thing: Entity) -> Iterator[Triple]:
    node = _node(base, "Things", thing)
    yield from _named(node, SOSA + "Platform", thing)
    for name, value in _members(thing.get("properties")).items():
        if isinstance(value, (str, bool, int, float)):
            yield node, _iri(f"{OWN}thing/{quote(name, safe='')}"), _literal(value)
    for location in _list(thing.get("Locations")):
        place = _node(base, "Locations", location)
        yield node, _iri(GEO + "hasGeometry"), place
        yield from _named(place, GEO + "Geometry", location)
        if (text := _wkt(_members(location.get("location")))) is not None:
            yield place, _iri(GEO + "asWKT"), ox.Literal(text, datatype=_iri(GEO + "wktLiteral"))
            if text.startswith("POINT "):
                long, lat = text[7:-1].split()
                yield place, _iri(WGS84 + "lat"), _literal(float(lat))
                yield place, _iri(WGS84 + "long"), _literal(float(long))


def _stream(base: str, stream: Entity) -> Iterator[Triple]:
    node = _node(base, "Datastreams", stream)
    yield from _named(node, SOSA + "ObservationCollection", stream)
    unit = _members(stream.get("unitOfMeasurement"))
    if unit.get("symbol"):
        yield node, _iri(SCHEMA[1] + "unitText"), ox.Literal(str(unit["symbol"]))
    if _is_iri(unit.get("definition")):
        yield node, _iri(QUDT + "hasUnit"), _iri(unit["definition"])
    if thing := _members(stream.get("Thing")):
        yield node, _iri(SOSA + "hasFeatureOfInterest"), _node(base, "Things", thing)
    for name, kind, property in (
        ("Sensor", "Sensor", "madeBySensor"),
        ("ObservedProperty", "ObservableProperty", "observedProperty"),
    ):
        if not (other := _members(stream.get(name))):
            continue
        place = _node(base, "ObservedProperties" if name == "ObservedProperty" else "Sensors", other)
        yield node, _iri(SOSA + property), place
        yield from _named(place, SOSA + kind, other)
        if _is_iri(other.get("definition")):
            yield place, _iri(SKOS + "exactMatch"), _iri(other["definition"])


def _named(node: ox.NamedNode, kind: str, entity: Entity) -> Iterator[Triple]:
    yield node, _iri(RDF_TYPE), _iri(kind)
    yield node, _iri(DCTERMS + "identifier"), _literal(entity["@iot.id"])
    for name, property in (("name", RDFS + "label"), ("description", DCTERMS + "description")):
        if entity.get(name):
            yield node, _iri(property), ox.Literal(str(entity[name]))


def _wkt(place: Entity) -> str | None:
    """A GeoJSON geometry, or that of a feature, as well-known text; None: it is another thing."""
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


def _numbers(found: Any) -> str:
    """Coordinates as text. ValueError, IndexError: they are none."""
    if not isinstance(found, list):
        raise ValueError
    if isinstance(found[0], (int, float)):
        return f"{float(found[0])!r} {float(found[1])!r}"
    return f"({', '.join(_numbers(each) for each in found)})"


def _node(base: str, name: str, entity: Entity) -> ox.NamedNode:
    """The address of an entity."""
    id = entity["@iot.id"]
    text = str(id) if isinstance(id, int) else "'" + quote(str(id).replace("'", "''"), safe="") + "'"
    return _iri(f"{base}/{name}({text})")


def _is_iri(found: object) -> bool:
    try:
        return isinstance(found, str) and urlsplit(found).scheme in ("http", "https", "urn") and bool(_iri(found))
    except ValueError:
        return False


def _iri(text: str) -> ox.NamedNode:
    return ox.NamedNode(text)


def _literal(value: str | bool | int | float) -> ox.Literal:
    if isinstance(value, float):
        return ox.Literal(repr(value), datatype=_iri(XSD + "double"))
    return ox.Literal(value)


def _members(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _list(found: object) -> list[Entity]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
