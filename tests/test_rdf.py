"""Derived events in RDF: names that stay, triples by columns, a store that keeps and forgets."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.cli import app
from cep.engine import Engine
from cep.errors import CepError
from cep.schema import Attribute, Schema
from connectors.rdf import triples
from connectors.rdf.identity import identified
from connectors.rdf.process import StoreProcess
from connectors.rdf.store import Question, Refused
from connectors.rdf.words import PREFIXES, Words
from tests.serving import EIGHT, FRIDGES, MINUTE, derived, program

TWICE = """
event reading(fridge: string, temp: float) TIME time.
warm(F) <- reading(F, T) WHERE T > 7.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
"""
Readings = st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab"), st.sampled_from([5.0, 8.0])), max_size=12)


@given(Readings, st.lists(st.integers(0, 12), max_size=4))
def test_an_occurrence_has_one_name_however_the_input_is_cut(readings: list, cuts: list[int]) -> None:
    readings = sorted(readings, key=lambda one: one[0])
    whole = derived(Engine.from_text(TWICE), TWICE, {0: readings})
    bounds = sorted({0, len(readings), *(cut for cut in cuts if cut < len(readings))})
    parts = {a: readings[a:b] for a, b in zip(bounds, bounds[1:])}
    assert derived(Engine.from_text(TWICE), TWICE, parts) == whole
    assert len(set(whole)) == len(whole), "two occurrences never have one name"


def test_names_depend_on_program_event_times_and_arguments() -> None:
    schema = Schema("warm", (Attribute("fridge", "string"), Attribute("temp", "float")), True, True)
    table = pl.DataFrame(
        {"start": [0, -1, 0, 1], "end": [1, 1, 1, 1], "fridge": ["a", "a", "b", "a"], "temp": [1.5] * 4}
    )
    ids = identified(table, schema, "p")["@id"].to_list()
    assert len(set(ids)) == 4 and all(len(id) == 32 for id in ids)
    assert identified(table, schema, "p")["@id"].to_list() == ids
    assert set(identified(table, schema, "q")["@id"]).isdisjoint(ids)
    assert ids[0] == "f8b7f3e42d5c80661d5e8f2149876bba", "names outlive versions"


def test_every_value_is_a_term_and_none_breaks_out_of_it() -> None:
    kinds = ("string", "iri", "int", "float", "bool", "time", "duration", "any")
    schema = Schema("e", tuple(Attribute(kind, kind) for kind in kinds), True, True)
    nasty = 'a"\\\n\r\t> .\n<x:y> <x:y> <x:y> .\0é'
    table = pl.DataFrame(
        {
            "start": [EIGHT, EIGHT + 1, -62_135_596_800_000_000 - 1],
            "end": [EIGHT, EIGHT + 1, 2**62],
            "string": [nasty, "", None],
            "iri": ["http://example.org/é#a", "x:a> <b", "no iri"],
            "int": [-(2**63), 2**63 - 1, None],
            "float": [0.1, float("inf"), -1e300],
            "bool": [True, False, None],
            "time": [EIGHT + 1, None, 0],
            "duration": [90_000_001, -1, None],
            "any": pl.Series([nasty, 3, 2.5], dtype=pl.Object),
            "@id": ["0" * 32, "1" * 32, "2" * 32],
        }
    )
    found: dict[str, list[str]] = {}
    for quad in ox.parse(triples.events(table, schema, Words("http://e.org/")), ox.RdfFormat.N_QUADS):
        if "attribute" in quad.predicate.value:
            found.setdefault(quad.predicate.value.rpartition("/")[2], []).append(str(quad.object))
    xsd = "^^<http://www.w3.org/2001/XMLSchema#"
    assert found["string"] == [str(ox.Literal(nasty)), '""']
    assert found["iri"] == ["<http://example.org/é#a>", f'"x:a> <b"{xsd}anyURI>', f'"no iri"{xsd}anyURI>']
    assert found["int"] == [f'"{-(2**63)}"{xsd}integer>', f'"{2**63 - 1}"{xsd}integer>']
    assert found["float"] == [f'"0.1"{xsd}double>', f'"INF"{xsd}double>', f'"-1e+300"{xsd}double>']
    assert found["bool"] == [f'"true"{xsd}boolean>', f'"false"{xsd}boolean>']
    stamp = f"{xsd}dateTimeStamp>"
    assert found["time"] == [f'"2024-05-01T08:00:00.000001Z"{stamp}', f'"1970-01-01T00:00:00.000000Z"{stamp}']
    assert found["duration"] == [f'"PT90.000001S"{xsd}dayTimeDuration>', f'"-PT0.000001S"{xsd}dayTimeDuration>']
    assert found["any"] == [str(ox.Literal(nasty)), f'"3"{xsd}integer>', f'"2.5"{xsd}double>']


def test_an_event_says_what_it_is_when_it_was_and_what_it_comes_from(tmp_path: Path) -> None:
    with program(tmp_path, TWICE.replace("warm(F) <-", "hot: warm(F) <-"), readings=True) as one:
        one.push((0, "a", 5.0), (10, "a", 8.0), (10, "a", 8.0))
        one.close()

        def ask(query: str) -> list[str]:
            asked = Question(query, table="csv", prefixes=tuple(PREFIXES.items()))
            return one.store.ask(asked).result().body.decode().splitlines()[1:]

        warm = "?e a <urn:semcep:type/warm> ; time:hasEnd/time:inXSDDateTimeStamp ?t ; prov:wasDerivedFrom ?r"
        query = f"SELECT ?t ?d {{ {warm} . ?r a sosa:Observation ; <urn:semcep:attribute/reading/temp> ?d }}"
        assert ask(query) == ["2024-05-01T08:10:00Z,8"], "records that agree in all things are one"
        plan = "prov:wasGeneratedBy/prov:qualifiedAssociation/prov:hadPlan/<http://www.w3.org/2000/01/rdf-schema#label>"
        assert ask(f"SELECT DISTINCT ?l {{ ?e a <urn:semcep:type/warm> ; {plan} ?l }}") == [
            '"hot: warm(F) <- reading(F, T) WHERE T > 7."'
        ]


def test_the_store_forgets_what_is_older_than_it_keeps_and_nothing_else(tmp_path: Path) -> None:
    query = "SELECT (COUNT(DISTINCT ?e) AS ?n) { ?e <http://www.w3.org/2006/time#hasEnd> ?t }"
    with program(tmp_path, TWICE, keep=60 * MINUTE, readings=True) as one:
        empty = one.store.ask(Question("SELECT * { ?s ?p ?o }", table="csv")).result().body
        counts = []
        for hour in range(4):
            one.push(*((60 * hour + minute, "a", 8.0) for minute in range(0, 60, 10)))
            one.store.flush()
            counts.append(int(one.store.ask(Question(query, table="csv")).result().body.split()[1]))
        assert counts == [11, 13, 13, 13], "what is derived at the latest instant comes with the next round"
        hours = one.store.look("hours").result()
        assert [hour[-2:] for hour in hours] == ["10", "11"]
        one.store.forget("2030-01-01T00:00:00.000000Z")
        one.store.flush()
        assert one.store.ask(Question("SELECT * { ?s ?p ?o }", table="csv")).result().body == empty


def test_a_store_goes_on_with_its_program_and_begins_anew_with_another(tmp_path: Path) -> None:
    count = Question("SELECT (COUNT(*) AS ?n) { ?e <http://www.w3.org/2006/time#hasEnd> ?t }", table="csv")
    for text, before, after in ((TWICE, 0, 2), (TWICE, 2, 2), (TWICE.replace("7", "6"), 0, 2)):
        with program(tmp_path, text) as one:
            assert int(one.store.ask(count).result().body.split()[1]) == before
            one.push((0, "a", 8.0))
            one.close()
            assert int(one.store.ask(count).result().body.split()[1]) == after
    with program(tmp_path, TWICE), pytest.raises(CepError, match="cannot be opened"):
        StoreProcess(tmp_path / "events", Words())


def test_a_query_without_an_end_ends_and_takes_nothing_with_it(tmp_path: Path) -> None:
    with program(tmp_path, TWICE) as one:
        one.push(*((minute, "a", 8.0) for minute in range(60)))
        one.store.flush()
        endless = Question("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }", seconds=0.3)
        counted = Question("SELECT (COUNT(*) AS ?n) { ?e a <urn:semcep:type/warm> }", table="csv")
        first, second = one.store.ask(endless), one.store.ask(endless)
        one.push((70, "a", 8.0))
        for slow in (first, second):
            with pytest.raises(Refused, match="longer than") as told:
                slow.result()
            assert told.value.code == "slow"
        one.close()
        assert one.store.ask(counted).result().body.split()[1] == b"61"
        with pytest.raises(Refused, match="LIMIT"):
            one.store.ask(Question("SELECT * { ?a ?b ?c . ?d ?e ?f }", bytes=10_000)).result()
        with pytest.raises(Refused, match="broke"):
            one.store.ask(Question("SELECT * " + "{" * 200_000 + "}" * 200_000)).result()
        assert one.store.ask(counted).result().body.split()[1] == b"61"


def test_an_event_has_the_class_and_the_properties_that_it_declares(tmp_path: Path) -> None:
    text = FRIDGES.replace("{ ?f a k:Fridge ; k:name ?F ; k:limit ?L }, T > L", "T > 7, L = 7")
    with program(tmp_path, text) as one:
        one.push((0, "a", 8.0))
        one.close()
        query = "PREFIX k: <http://example.org/kitchen#> SELECT ?n { ?e a k:Warming ; k:name ?n }"
        assert one.store.ask(Question(query, table="csv")).result().body.split() == [b"n", b"a"]


def test_a_run_writes_what_it_derives_as_rdf(tmp_path: Path) -> None:
    """All forms hold the same triples; every event is named as in the store."""
    rules, readings = tmp_path / "fridge.cep", tmp_path / "reading.csv"
    rules.write_text(TWICE)
    readings.write_text("time,fridge,temp\n2024-05-01 08:00,a,8.5\n2024-05-01 08:50,a,1.5\n")
    graphs = []
    forms = {"nq": "N_QUADS", "nt": "N_TRIPLES", "ttl": "TURTLE", "trig": "TRIG", "jsonld": "JSON_LD"}
    for suffix, format in forms.items():
        out = tmp_path / f"out.{suffix}"
        asked = ["run", str(rules), "-i", f"reading={readings}", "-o", str(out), "--explain", "--batch", "1"]
        told = CliRunner().invoke(app, asked)
        assert told.exit_code == 0, told.output
        graphs.append({str(q.triple) for q in ox.parse(out.read_bytes(), getattr(ox.RdfFormat, format))})
    assert all(graph == graphs[0] for graph in graphs)
    (id,) = {line.split(">")[0].rpartition("/")[2] for line in graphs[0] if "type/warm>" in line}
    assert len(id) == 32 and sum("wasDerivedFrom" in line and id in line for line in graphs[0]) == 1
    folder = ["-o", f"{tmp_path}/", "--output-format", "turtle"]
    told = CliRunner().invoke(app, ["run", str(rules), "-i", f"reading={readings}", *folder])
    assert told.exit_code == 2 and "one file" in told.output
