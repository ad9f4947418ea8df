"""Registers of stations against their shapes: what is wrong is reported with the node and what would be right."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Graph

from benchmarks import registers
from cep.core.errors import CepError
from cep.knowledge.data_graph import data_graph
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.shapes import STATIONS, ValidationResult, undescribed_properties, validate, with_files
from tests.long import examples

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
SHACL = "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n@prefix sh: <http://www.w3.org/ns/shacl#> .\n"
SENSORS = ":s a sosa:Sensor ; sosa:observes :p ."
STATION = f""":a a sosa:Platform ; rdfs:label "A" ; wgs84:lat 40.7 ; wgs84:long -74.2 ; sosa:hosts :s . {SENSORS}"""


def turtle(text: str) -> Graph:
    return Graph().parse(data=PREFIXES + text, format="turtle")


def test_the_register_of_the_demo_fits() -> None:
    assert validate(Knowledge.load(SHOWN)) == []
    assert validate(Knowledge.load([SHOWN, ONTOLOGIES / "sensors.ttl"], reasoning="owlrl")) == []
    assert validate(Graph().parse(SHOWN)) == []


def test_made_up_stations_fit() -> None:
    terms = Terms()
    made = TripleSet.of(*registers.stations(30).triples(terms))
    assert validate(Knowledge(terms, {NONE: made})) == []


def test_knowledge_without_stations_fits() -> None:
    assert validate(Knowledge.of(turtle(':a rdfs:label "A" ; gn:name "a place" .'))) == []


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
        "<http://example.org/a>: a station has one latitude (wgs84:lat: found 40.7, 40.8)",
        id="two latitudes",
    ),
    pytest.param(
        "-74.2",
        "-181",
        "<http://example.org/a>: a longitude is a number from -180 to 180, with a numeric datatype "
        "(wgs84:long: found -181)",
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
        "<http://example.org/s>: what a station hosts observes a property, acts on one, or hosts sensors itself "
        "(sosa:observes | ^sosa:isObservedBy | sosa:actsOnProperty | sosa:forProperty | sosa:hosts)",
        id="a sensor of nothing",
    ),
]


@pytest.mark.parametrize("right, wrong, message", WRONG)
def test_what_is_wrong_is_told(right: str, wrong: str, message: str) -> None:
    assert right in STATION
    graph = turtle(STATION.replace(right, wrong))
    assert [str(problem) for problem in validate(graph)] == [message]
    assert [str(problem) for problem in validate(Knowledge.of(graph))] == [message]
    assert validate(turtle(STATION)) == []


def test_two_stations_with_one_id_are_told() -> None:
    data = STATION + STATION.replace(":a a", ":b a") + ':a om-owl:ID "EWR" . :b om-owl:ID "EWR" .'
    (problem,) = validate(turtle(data))
    assert problem == ValidationResult(
        '"EWR"', "^om-owl:ID", ("<http://example.org/a>", "<http://example.org/b>"), "an ID is that of one station"
    )


def test_a_station_that_is_only_inferred_is_looked_at() -> None:
    graph = turtle(":s sosa:isHostedBy :a . " + SENSORS)
    assert validate(Knowledge.of(graph)) == [], "nothing says that there is a station"
    closed = Knowledge.of(graph + Graph().parse(ONTOLOGIES / "sensors.ttl"), reasoning="owlrl")
    assert {problem.focus for problem in validate(closed)} == {"<http://example.org/a>"}


def test_a_station_of_a_subclass_is_looked_at() -> None:
    below = ":Buoy rdfs:subClassOf :Float . :Float rdfs:subClassOf sosa:Platform . :a a :Buoy ."
    assert len(validate(Knowledge.of(turtle(below)))) == len(validate(turtle(below))) == 4


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


@examples(50)
@given(st.sets(st.sampled_from(PARTS)))
def test_knowledge_is_judged_as_its_graph_is(parts: set[str]) -> None:
    graph = turtle("\n".join(sorted(parts)))
    assert validate(Knowledge.of(graph)) == validate(graph)


SHAPES = [
    "sh:targetClass sosa:Platform ; sh:property [ sh:path ( sosa:hosts sosa:observes ) ; sh:minCount 1 ]",
    "sh:targetClass sosa:Sensor ; sh:property [ sh:path [ sh:inversePath ( sosa:hosts sosa:hosts ) ] ; sh:maxCount 0 ]",
    "sh:targetClass sosa:Platform ; sh:property [ sh:path [ sh:oneOrMorePath sosa:hosts ] ; sh:class sosa:Sensor ]",
    "sh:targetNode :a, :nobody ; sh:property [ sh:path [ sh:zeroOrOnePath sosa:hosts ] ; sh:maxCount 1 ]",
    "sh:targetSubjectsOf gn:name ; sh:property [ sh:path gn:name ; sh:disjoint rdfs:label ; sh:maxLength 0 ]",
    "sh:targetObjectsOf sosa:observes ; sh:property [ sh:path sosa:isObservedBy ; sh:minCount 1 ; sh:node :Sensing ]",
    "sh:targetClass sosa:Platform ; sh:closed true ; sh:ignoredProperties ( rdf:type sosa:hosts )",
    "a rdfs:Class ; sh:property [ sh:path [ sh:zeroOrMorePath [ sh:inversePath sosa:hosts ] ] ; sh:hasValue :b ]",
]
MORE = [
    ":M rdfs:subClassOf :Shape .",
    ":a a :Shape .",
    ':b rdfs:label "B" .',
    ":b sosa:hosts :t .",
    ":t a sosa:Sensor .",
]


@pytest.mark.parametrize("shape", SHAPES)
@examples(30)
@given(parts=st.sets(st.sampled_from(PARTS + MORE)))
def test_any_shape_judges_knowledge_as_it_judges_its_graph(
    tmp_path_factory: pytest.TempPathFactory, shape: str, parts: set[str]
) -> None:
    shapes = tmp_path_factory.mktemp("shapes") / "own.ttl"
    sensing = ":Sensing a sh:NodeShape ; sh:property [ sh:path rdf:type ; sh:minCount 1 ] ."
    shapes.write_text(f"{PREFIXES}{SHACL}:Shape a sh:NodeShape ; {shape} .\n{sensing}", encoding="utf-8")
    graph = turtle("\n".join(sorted(parts)))
    assert validate(Knowledge.of(graph), shapes) == validate(graph, shapes)


def test_paths_are_written_as_sparql_writes_them(tmp_path: Path) -> None:
    shapes = tmp_path / "own.ttl"
    path = "[ sh:alternativePath ( ( sosa:hosts [ sh:inversePath :q ] ) [ sh:oneOrMorePath :r ] ) ]"
    shapes.write_text(f"{PREFIXES}{SHACL}:S sh:targetNode :a ; sh:property [ sh:path {path} ; sh:minCount 1 ] .")
    (problem,) = validate(turtle(""), shapes)
    assert str(problem) == ("<http://example.org/a>: it does not fit sh:minCount 1 (sosa:hosts / ^:q | :r+)")


WRONG_SHAPES = [
    ("", "the shapes are not valid: the file has no shapes"),
    (":S sh:targetclass :C .", "the shapes are not valid: SHACL has no word `sh:targetclass`"),
    (":S sh:targetNode :a ; sh:property [ sh:path :p ; sh:minCount 'x' ] .", "sh:minCount must be a literal with"),
    (":S sh:targetNode :a ; sh:property [ sh:minCount 1 ] .", "is not a well-formed SHACL PropertyShape"),
    (":S sh:targetNode :a ; sh:property [ sh:path :p ; sh:pattern '(' ] .", "missing ), unterminated subpattern"),
    (":S sh:targetNode .", "own.ttl:10:18: "),
]


@pytest.mark.parametrize("text, reason", WRONG_SHAPES)
def test_a_file_without_right_shapes_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    shapes = tmp_path / "own.ttl"
    shapes.write_text(PREFIXES + SHACL + text, encoding="utf-8")
    with pytest.raises(CepError, match=re.escape(reason)):
        validate(turtle(':a :p "x" .'), shapes)


def test_of_large_knowledge_only_stations_are_looked_at() -> None:
    terms = Terms()
    place = np.arange(2000)
    text = "".join(f':f{i} a gn:Feature ; gn:name "A" ; wgs84:lat 1.0 ; wgs84:long 2.0 .\n' for i in place)
    graph = turtle(STATION + text)
    triples = TripleSet.of(*(terms.ids([triple[i] for triple in graph]) for i in range(3)))
    shapes = Graph().parse(STATIONS)
    assert set(data_graph(terms, triples, shapes)) == set(turtle(STATION))


def test_a_property_that_nobody_defines_is_told(tmp_path: Path) -> None:
    """A warning, with the file and the line that it stands on where a file says something of it."""
    register = tmp_path / "stations.ttl"
    names = PREFIXES + "@prefix wt: <http://knoesis.wright.edu/ssw/ont/weather.owl#> .\n"
    register.write_text(names + STATION.replace("observes :p", "observes wt:_Visiblity, wt:_WindSpeed"))
    (alone,) = undescribed_properties(Knowledge.load(register))
    assert alone.warning and "does not define what sensors observe" in str(alone)
    (found,) = undescribed_properties(
        Knowledge.load([register, ONTOLOGIES], reasoning="owlrl")
    )  # where all have a class
    weather = "http://knoesis.wright.edu/ssw/ont/weather.owl#"
    meant = f"sensors observe it, but nothing defines it, did you mean <{weather}_Visibility>?"
    assert str(found) == f"warning: <{weather}_Visiblity>: {meant}"
    assert (
        undescribed_properties(Knowledge.load([SHOWN, ONTOLOGIES]))
        == undescribed_properties(Knowledge.of(turtle(":a :b :c .")))
        == []
    )


def test_problems_name_the_file_and_the_line(tmp_path: Path) -> None:
    broken, other = tmp_path / "broken.ttl", tmp_path / "other.nt"
    broken.write_text(PREFIXES + "\n" + STATION.replace("wgs84:lat 40.7 ;", ""))
    other.write_text("<http://example.org/z> <http://www.w3.org/ns/sosa/hosts> <http://example.org/s> .\n")
    known = Knowledge.load([broken, other])
    found = with_files(validate(known), [str(broken), str(other)])
    line = [text[:4] for text in broken.read_text().splitlines()].index(":a a") + 1
    assert {(problem.focus[-2], problem.place) for problem in found} == {("a", f"{broken}:{line}"), ("z", f"{other}:1")}


def test_a_shape_may_be_a_warning(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.ttl"
    shapes.write_text(
        PREFIXES + SHACL + "[] a sh:NodeShape ; sh:targetClass sosa:Platform ; sh:severity sh:Warning ;"
        ' sh:property [ sh:path gn:name ; sh:minCount 1 ; sh:severity sh:Warning ; sh:message "it has a name" ] .'
    )
    (found,) = validate(Knowledge.of(turtle(STATION)), shapes)
    assert str(found) == "warning: <http://example.org/a>: it has a name (gn:name)"


@pytest.mark.parametrize(
    ("value", "constraint", "reason"),
    [
        ('"b"', "sh:minInclusive 5", "a string and a number cannot be compared"),
        ("3", 'sh:minInclusive "2020-01-01"^^xsd:date', "a number and a date cannot be compared"),
        ("3", 'sh:maxExclusive "2020-01-01"^^xsd:date', "a number and a date cannot be compared"),
        (
            '"2021-01-01T00:00:00Z"^^xsd:dateTime',
            'sh:minInclusive "2020-01-01T00:00:00"^^xsd:dateTime',
            "a time with a zone and a time without a zone cannot be compared",
        ),
        (":x", "sh:maxInclusive 2", "an IRI and a number cannot be compared"),
        ('"b"@en', 'sh:maxInclusive "c"', "a text with a language and a string cannot be compared"),
        ("3", "sh:lessThan :day", "a number and a date cannot be compared"),
        ("3", "sh:lessThanOrEquals :thing", "a number and a blank node cannot be compared"),
        (":x", "sh:lessThan :other", "an IRI has no order"),
        ("3", "sh:lessThan :less", None),
        ("3", "sh:maxInclusive 2.5", None),
    ],
)
def test_values_without_an_order_are_told(tmp_path: Path, value: str, constraint: str, reason: str | None) -> None:
    shapes = tmp_path / "shapes.ttl"
    prefixes = PREFIXES + SHACL + "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    shapes.write_text(f"{prefixes} :S a sh:NodeShape ; sh:targetNode :a ; sh:property [ sh:path :v ; {constraint} ] .")
    data = f':a :v {value} ; :day "2020-01-01"^^xsd:date ; :thing [] ; :other :y ; :less 3.0 .'
    (problem,) = validate(Graph().parse(data=prefixes + data, format="turtle"), shapes)
    assert problem.reason.startswith(f"it does not fit {constraint.split()[0]}")
    assert problem.reason.endswith(reason or constraint.split()[1])


def test_queries_of_shapes_need_not_declare_usual_prefixes(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.ttl"
    query = "SELECT $this ?value { $this wgs84:lat ?value ; rdfs:label ?name FILTER(?value > 40) }"
    shapes.write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix e: <http://example.org/> .\n"
        f'e:S a sh:NodeShape ; sh:targetNode e:a ; sh:sparql [ sh:message "too far north" ; sh:select "{query}" ] .'
    )
    (problem,) = validate(Knowledge.of(turtle(STATION)), shapes)
    assert problem.reason == "too far north" and problem.values == ("40.7",)
