"""A synthetic network of weather stations in RDF: an ontology, and any number of stations with five sensors each.

A station has about 20 triples: types, the observed property of each sensor, its place, an identifier. Places contain
each other. One station in ten is also in a second register under another name, and one in ten has a near neighbour.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet

PREFIXES = {
    "": "http://example.org/weather#",
    "id": "http://example.org/id/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "gn": "http://www.geonames.org/ontology#",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
}

KINDS = ("Wind", "Temperature", "Visibility", "Snowfall", "Pressure")

ONTOLOGY = """
sosa:Platform a owl:Class . sosa:Sensor a owl:Class . sosa:ObservableProperty a owl:Class . gn:Feature a owl:Class .
:Station a owl:Class ; rdfs:subClassOf sosa:Platform, [ owl:onProperty :id ; owl:maxCardinality 1 ] .
:WeatherStation a owl:Class ; rdfs:subClassOf :Station .
:AirportStation a owl:Class ; rdfs:subClassOf :WeatherStation .
:WeatherSensor a owl:Class ; rdfs:subClassOf sosa:Sensor .
sosa:Platform owl:disjointWith sosa:Sensor . gn:Feature owl:disjointWith sosa:Sensor .
:WeatherProperty a owl:Class ; rdfs:subClassOf sosa:ObservableProperty ;
    owl:oneOf (:wind :temperature :visibility :snowfall :pressure) .
:WinterProperty owl:oneOf (:wind :temperature :visibility :snowfall) ; rdfs:subClassOf :WeatherProperty .

sosa:hosts a owl:ObjectProperty ; rdfs:domain sosa:Platform ; rdfs:range sosa:Sensor ; owl:inverseOf sosa:isHostedBy .
sosa:observes a owl:ObjectProperty ; rdfs:domain sosa:Sensor ; rdfs:range sosa:ObservableProperty .
:hostsWindSensor rdfs:subPropertyOf sosa:hosts .
:measures owl:propertyChainAxiom (sosa:hosts sosa:observes) .
:id a owl:InverseFunctionalProperty, owl:DatatypeProperty .
:locatedIn a owl:ObjectProperty ; rdfs:subPropertyOf :within ; rdfs:range gn:Feature .
gn:parentFeature a owl:TransitiveProperty ; rdfs:domain gn:Feature ; rdfs:range gn:Feature .
:within owl:propertyChainAxiom (:locatedIn gn:parentFeature) .
gn:nearby a owl:SymmetricProperty .
:BlizzardStation owl:intersectionOf (:WeatherStation :HasWind :HasSnowfall) .
:HasWind owl:onProperty :measures ; owl:hasValue :wind .
:HasSnowfall owl:onProperty sosa:hosts ; owl:someValuesFrom :SnowfallSensor .
:ColdStation owl:equivalentClass [ owl:unionOf (:HasSnowfall :PolarStation) ] .
"""
ONTOLOGY += "".join(
    f":{kind}Sensor a owl:Class ; rdfs:subClassOf :WeatherSensor, "
    f"[ owl:onProperty sosa:observes ; owl:hasValue :{kind.lower()} ] .\n"
    for kind in KINDS
)

PLACES = 10
"""The number of stations per place, of places per district, and of districts per country."""


def loaded(stations: int) -> tuple[Terms, TripleSet]:
    """Return the ontology and the stations as triples of term ids."""
    terms = Terms()
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())
    schema = [tuple(quad.triple) for quad in ox.parse(prefixes + ONTOLOGY, ox.RdfFormat.TURTLE)]
    rows = triples(stations)
    columns = [np.concatenate([terms.ids([row[i] for row in schema]), terms.tokens(rows["spo"[i]])]) for i in range(3)]
    return terms, TripleSet.of(*columns)


def turtle(stations: int) -> str:
    """Return the ontology and the stations in Turtle."""
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())
    return prefixes + ONTOLOGY + "".join(f"{s} {p} {o} .\n" for s, p, o in triples(stations).iter_rows())


def triples(stations: int) -> pl.DataFrame:
    """Return only the stations, in columns s, p, o of N-Triples terms."""
    n = pl.DataFrame({"n": range(stations)}, schema={"n": pl.Int64})["n"]
    station, place = _name("station", n), _name("place", n // PLACES)
    parts = [
        (station, "rdf:type", _iri(":WeatherStation")),
        (station, "rdfs:label", '"Station ' + n.cast(pl.String) + '"'),
        (station, "geo:lat", _number(30 + n * 7919 % 30_000 / 1000)),
        (station, "geo:long", _number(-120 + n * 104_729 % 60_000 / 1000)),
        (station, ":id", '"' + n.cast(pl.String).str.zfill(6) + '"'),
        (station, ":locatedIn", place),
    ]
    for kind in KINDS:
        sensor = _name(f"{kind.lower()}-sensor", n)
        parts.append((station, ":hostsWindSensor" if kind == "Wind" else "sosa:hosts", sensor))
        parts.append((sensor, "rdf:type", _iri(f":{kind}Sensor")))
        if kind != "Pressure":
            parts.append((sensor, "sosa:observes", _iri(f":{kind.lower()}")))
    tenth = n.filter(n % 10 == 0)
    twin = _name("airport", tenth)
    parts += [
        (_name("station", tenth), "gn:nearby", _name("station", tenth + 1)),
        (twin, ":id", '"' + tenth.cast(pl.String).str.zfill(6) + '"'),
        (twin, "rdf:type", _iri(":AirportStation")),
    ]
    for level, above, many in (("place", "district", PLACES), ("district", "country", PLACES**2)):
        inner = pl.Series(range(-(-stations // many)), dtype=pl.Int64)
        parts.append((_name(level, inner), "gn:parentFeature", _name(above, inner // PLACES)))
    frames = [pl.DataFrame({"s": s, "p": _iri(p), "o": o}) for s, p, o in parts]
    return pl.concat(frames)


def _name(kind: str, numbers: pl.Series) -> pl.Series:
    return f"<{PREFIXES['id']}{kind}-" + numbers.cast(pl.String) + ">"


def _number(values: pl.Series) -> pl.Series:
    return '"' + values.cast(pl.String) + f'"^^<{PREFIXES["xsd"]}decimal>'


def _iri(name: str) -> str:
    prefix, _, local = name.partition(":")
    return f"<{PREFIXES[prefix]}{local}>"
