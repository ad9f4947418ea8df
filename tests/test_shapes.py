"""Registers of stations against their shapes: what is wrong is told with the node and what would be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Graph

from benchmarks import registers
from knowledge.graph import Knowledge
from knowledge.shapes import Problem, check, spoken_of
from knowledge.terms import NONE, Terms
from knowledge.triples import Triples

SHOWN = Path(__file__).parent.parent / "demos" / "blizzard" / "stations.ttl"
ONTOLOGIES = Path(__file__).parent.parent / "ontologies"
PREFIXES = """
@prefix : <http://example.org/> .
@prefix gn: <http://www.geonames.org/ontology#> .
@prefix om-owl: <http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
"""
SENSORS = ":s a sosa:Sensor ; sosa:observes :p ."
STATION = f""":a a sosa:Platform ; rdfs:label "A" ; wgs84:lat 40.7 ; wgs84:long -74.2 ; sosa:hosts :s . {SENSORS}"""


def turtle(text: str) -> Graph:
    return Graph().parse(data=PREFIXES + text, format="turtle")


def test_the_register_of_the_demo_fits() -> None:
    assert check(Knowledge.load(SHOWN)) == []
    assert check(Knowledge.load([SHOWN, ONTOLOGIES / "sensors.ttl"], reasoning="owlrl")) == []
    assert check(Graph().parse(SHOWN)) == []


def test_made_up_stations_fit() -> None:
    terms = Terms()
    made = Triples.of(*registers.stations(30).triples(terms))
    assert check(Knowledge(terms, {NONE: made})) == []


def test_knowledge_without_stations_fits() -> None:
    assert check(Knowledge.of(turtle(':a rdfs:label "A" ; gn:name "a place" .'))) == []


WRONG = [
    pytest.param(
        "wgs84:lat 40.7 ;",
        "",
        "<http://example.org/a>: a station has one latitude (wgs84:lat)",
        id="no latitude",
    ),
    pytest.param(
        "wgs84:lat 40.7",
        "wgs84:lat 40.7, 40.8",
        '<http://example.org/a>: a station has one latitude (wgs84:lat: found "40.7"^^xsd:decimal, "40.8"^^xsd:decimal)',
        id="two latitudes",
    ),
    pytest.param(
        "-74.2",
        "-181",
        "<http://example.org/a>: a longitude is a number from -180 to 180, with a numeric datatype "
        '(wgs84:long: found "-181"^^xsd:integer)',
        id="longitude out of range",
    ),
    pytest.param(
        "40.7",
        '"40.7"',
        "<http://example.org/a>: a latitude is a number from -90 to 90, with a numeric datatype "
        '(wgs84:lat: found "40.7")',
        id="latitude a string",
    ),
    pytest.param(
        'rdfs:label "A" ;',
        "",
        "<http://example.org/a>: a station has a name (rdfs:label | skos:prefLabel | gn:name)",
        id="no name",
    ),
    pytest.param(
        "; sosa:hosts :s",
        "",
        "<http://example.org/a>: a station hosts at least one sensor (sosa:hosts | ^sosa:isHostedBy)",
        id="no sensor",
    ),
    pytest.param(
        "sosa:observes :p",
        'rdfs:label "blind"',
        "<http://example.org/s>: what a station hosts observes a property (sosa:observes), acts on one, or hosts sensors "
        "itself (sosa:observes | ^sosa:isObservedBy | sosa:actsOnProperty | sosa:forProperty | sosa:hosts)",
        id="a sensor of nothing",
    ),
]


@pytest.mark.parametrize("right, wrong, told", WRONG)
def test_what_is_wrong_is_told(right: str, wrong: str, told: str) -> None:
    assert right in STATION
    graph = turtle(STATION.replace(right, wrong))
    assert [str(problem) for problem in check(graph)] == [told]
    assert [str(problem) for problem in check(Knowledge.of(graph))] == [told]
    assert check(turtle(STATION)) == []


def test_two_stations_with_one_id_are_told() -> None:
    data = STATION + STATION.replace(":a a", ":b a") + ':a om-owl:ID "EWR" . :b om-owl:ID "EWR" .'
    (problem,) = check(turtle(data))
    assert problem == Problem(
        '"EWR"', "^om-owl:ID", ("<http://example.org/a>", "<http://example.org/b>"), "an ID is that of one station"
    )


def test_a_station_that_is_only_inferred_is_looked_at() -> None:
    graph = turtle(":s sosa:isHostedBy :a . " + SENSORS)
    assert check(Knowledge.of(graph)) == [], "nothing says that there is a station"
    closed = Knowledge.of(graph + Graph().parse(ONTOLOGIES / "sensors.ttl"), reasoning="owlrl")
    assert {problem.focus for problem in check(closed)} == {"<http://example.org/a>"}


def test_a_station_of_a_subclass_is_looked_at() -> None:
    below = ":Buoy rdfs:subClassOf :Float . :Float rdfs:subClassOf sosa:Platform . :a a :Buoy ."
    assert len(check(Knowledge.of(turtle(below)))) == len(check(turtle(below))) == 4


PARTS = [
    ":a a sosa:Platform .",
    ":b a sosa:Platform .",
    ":a sosa:hosts :s .",
    ":t sosa:isHostedBy :b .",
    ":b sosa:hosts :a .",
    ":s a sosa:Sensor .",
    ":s sosa:observes :p .",
    ":p sosa:isObservedBy :t .",
    ":a wgs84:lat 1.5 .",
    ":a wgs84:lat 95.0 .",
    ":b wgs84:long 3 .",
    ':a rdfs:label "A" .',
    ':b gn:name "B" .',
    ':c gn:name "B" ; wgs84:lat 100.0 .',
    ':a om-owl:ID "x" .',
    ':b om-owl:ID "x" .',
    ":M rdfs:subClassOf sosa:Platform .",
    ":m a :M .",
]


@given(st.sets(st.sampled_from(PARTS)))
def test_knowledge_is_judged_as_its_graph_is(parts: set[str]) -> None:
    graph = turtle("\n".join(sorted(parts)))
    assert check(Knowledge.of(graph)) == check(graph)


def test_of_large_knowledge_only_stations_are_looked_at() -> None:
    terms = Terms()
    place = np.arange(2000)
    text = "".join(f':f{i} a gn:Feature ; gn:name "A" ; wgs84:lat 1.0 ; wgs84:long 2.0 .\n' for i in place)
    graph = turtle(STATION + text)
    triples = Triples.of(*(terms.ids([triple[i] for triple in graph]) for i in range(3)))
    shapes = Graph().parse(ONTOLOGIES / "stations.shapes.ttl")
    assert set(spoken_of(terms, triples, shapes)) == set(turtle(STATION))
