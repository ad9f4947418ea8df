"""Derived events in RDF: names that stay, triples by columns, what a run writes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.rdf import triples
from cep.connectors.rdf.derivations import Derivations
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.connectors.why.lines import tree as lines
from cep.connectors.why.prov import provenance
from cep.connectors.why.text import why
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from cep.events import Event
from cep.runtime.history import CONSTITUENTS
from tests.long import examples
from tests.serving import EIGHT, FRIDGES, MINUTE, TWICE, derived, program

Readings = st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab"), st.sampled_from([5.0, 8.0])), max_size=12)


@examples(100)
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
    for quad in ox.parse(
        triples.event_triples([triples.Derived(table, schema, None)], EventVocabulary("http://e.org/")),
        ox.RdfFormat.N_QUADS,
    ):
        if "attribute" in quad.predicate.value:
            found.setdefault(quad.predicate.value.rpartition("/")[2], []).append(str(quad.object))
    xsd = "^^<http://www.w3.org/2001/XMLSchema#"
    assert found["string"] == [str(ox.Literal(nasty)), '""']
    assert found["iri"] == ["<http://example.org/é#a>", f'"x:a> <b"{xsd}anyURI>', f'"no iri"{xsd}anyURI>']
    assert found["int"] == [f'"{-(2**63)}"{xsd}integer>', f'"{2**63 - 1}"{xsd}integer>']
    assert found["float"] == [f'"0.1"{xsd}double>', f'"INF"{xsd}double>', f'"-1{"0" * 300}"{xsd}double>']
    assert found["bool"] == [f'"true"{xsd}boolean>', f'"false"{xsd}boolean>']
    stamp = f"{xsd}dateTime>"
    assert found["time"] == [f'"2024-05-01T08:00:00.000001Z"{stamp}', f'"1970-01-01T00:00:00Z"{stamp}']
    assert found["duration"] == [f'"PT1M30.000001S"{xsd}dayTimeDuration>', f'"-PT0.000001S"{xsd}dayTimeDuration>']
    assert found["any"] == [str(ox.Literal(nasty)), f'"3"{xsd}integer>', f'"2.5"{xsd}double>']


def test_an_event_says_what_it_is_when_it_was_and_what_it_comes_from(tmp_path: Path) -> None:
    with program(tmp_path, TWICE.replace("warm(F) <-", "hot: warm(F) <-"), readings=True) as one:
        one.push((0, "a", 5.0), (10, "a", 8.0), (10, "a", 8.0))
        one.close()

        def ask(query: str) -> list[str]:
            asked = Question(query, table="csv", prefixes=tuple(PREFIXES.items()))
            return one.store.ask(asked).result().body.decode().splitlines()[1:]

        warm = "?e a <urn:semcep:type/warm> ; time:hasEnd/time:inXSDDateTimeStamp ?t ; prov:wasDerivedFrom ?r"
        reading = "?r a sosa:Observation ; <urn:semcep:attribute/reading/temp> ?d"
        assert ask(f"SELECT DISTINCT ?r ?t ?d {{ {warm} . {reading} }}")[0].endswith("2024-05-01T08:10:00Z,8")
        assert len(ask(f"SELECT ?e {{ {warm} . {reading} }}")) == 2, "equal records make an event each"
        assert len(ask(f"SELECT DISTINCT ?r {{ {warm} . {reading} }}")) == 1, "and are one observation"
        plan = "prov:wasGeneratedBy/prov:qualifiedAssociation/prov:hadPlan/<http://www.w3.org/2000/01/rdf-schema#label>"
        assert ask(f"SELECT DISTINCT ?l {{ ?e a <urn:semcep:type/warm> ; {plan} ?l }}") == [
            '"hot: warm(F) <- reading(F, T) WHERE T > 7."'
        ]


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
        answered = CliRunner().invoke(app, asked)
        assert answered.exit_code == 0, answered.output
        graphs.append({str(q.triple) for q in ox.parse(out.read_bytes(), getattr(ox.RdfFormat, format))})
    assert all(graph == graphs[0] for graph in graphs)
    (id,) = {line.split(">")[0].rpartition("/")[2] for line in graphs[0] if "type/warm>" in line}
    assert len(id) == 32 and sum("wasDerivedFrom" in line and id in line for line in graphs[0]) == 1
    folder = ["-o", f"{tmp_path}/all/", "--output-format", "turtle"]
    answered = CliRunner().invoke(app, ["run", str(rules), "-i", f"reading={readings}", *folder])
    assert answered.exit_code == 2 and "one file" in answered.output


LED = """
event a(x: string) TIME time.
event b(x: string) TIME time.
hot: c(X) <- a(X).
c(X) <- b(X).
c(X) <- a(X) SEQ b(X) WITHIN 1 min.
d(X) <- (c(X) SEQ c(X)) SEQ a(X).
e(X) <- d(X).
f(X) <- e(X) SEQ c(X).
"""
RECORDS = [("a", 0), ("b", 0), ("b", 5), ("a", 6), ("b", 8)]


def led(engine: Engine, records: list[tuple[str, int]], again: bool = False) -> str:
    """What a program derives, as N-Triples; with `again` each step goes on from a snapshot."""
    text = ""
    for step in [*([one] for one in records), None]:
        if again:
            blob = engine.snapshot()
            engine = Engine.from_text(LED, policy="unrestricted", explain=True)
            assert engine.history is not None
            engine.set_lineage_columns(CONSTITUENTS)
            engine.restore(blob)
        pushed = step and [Event(type, ("s",), EIGHT + t * MINUTE, EIGHT + t * MINUTE) for type, t in step]
        made = Derivations(engine.plan, engine.meanings(), EventVocabulary(), frozenset(engine.outputs))
        derived = engine.close() if pushed is None else engine.push(pushed)
        named = {
            name: identified(table, engine.outputs[name], engine.meanings()[name]) for name, table in derived.items()
        }
        text += made.events(named, engine.outputs)
    return made.rules() + text


def test_what_holds_as_a_record_says_comes_from_that_before_it_has_ended() -> None:
    """As a server has it, which is told when a fluent begins."""
    text = "event a(x: string) TIME time.\nfluent up(x: string) START s END e.\nb(X) <- a(X)."
    engine = Engine.from_text(text, explain=True, begins=True)
    engine.set_lineage_columns(CONSTITUENTS)
    made = Derivations(engine.plan, engine.meanings(), EventVocabulary(), frozenset(engine.outputs))
    engine.push([Event("up", ("p",), 1_000_000, 5_000_000)])
    table = engine.push([Event("a", ("p",), 3_000_000, 3_000_000)])["up"]
    told = made.events({"up": identified(table, engine.outputs["up"], engine.meanings()["up"])}, engine.outputs)
    assert "/up/1> ." in told and table["end"].to_list() == [None]


def test_an_event_comes_from_what_it_was_made_of_at_once_by_the_rules_that_made_it(tmp_path: Path) -> None:
    """The same whatever is kept or cut, in the store, in files and from `cep explain`."""
    engine = Engine.from_text(LED, policy="unrestricted", explain=True)
    assert engine.history is not None
    engine.set_lineage_columns(CONSTITUENTS)
    text = led(engine, RECORDS)
    again = led(Engine.from_text(LED, policy="unrestricted", explain=True), RECORDS, again=True)
    assert set(again.splitlines()) == set(text.splitlines()), "a snapshot holds what is needed"
    graph = ox.Store()
    graph.load(text, ox.RdfFormat.N_TRIPLES, lenient=True)

    def ask(query: str) -> list[tuple[str, ...]]:
        found = graph.query(query, prefixes={**PREFIXES, "rdfs": "http://www.w3.org/2000/01/rdf-schema#"})
        assert isinstance(found, ox.QuerySolutions)
        return sorted(tuple(str(term.value).rpartition("/")[2] for term in row) for row in found)

    parts = "SELECT ?kind ?of { ?e a ?kind ; prov:wasDerivedFrom ?p . ?p a ?of . FILTER(?kind != ?of) } ORDER BY ?e"
    assert ask(parts) == [
        *[("c", "a")] * 2, *[("c", "b")] * 2, ("d", "a"), *[("d", "c")] * 2, ("e", "d"), ("f", "c"), ("f", "e"),
    ]  # fmt: skip
    assert ask("SELECT ?p { ?e prov:wasDerivedFrom ?p FILTER NOT EXISTS { ?p a ?kind } }") == [], "nothing dangles"
    rules = "?e a <urn:semcep:type/c> ; time:hasEnd ?end ; prov:wasGeneratedBy ?by ."
    assert [by for _, by in ask(f"SELECT ?end ?by {{ {rules} }}")] == ["hot+2", "2", "hot", "2"]
    plan = "?by prov:qualifiedAssociation/prov:hadPlan/rdfs:label ?text"
    assert ask(f"SELECT ?end ?text {{ {rules} {plan} }}")[:2] == [
        ("2024-05-01T08:00:00.000000Z", "c(X) <- b(X)."),
        ("2024-05-01T08:00:00.000000Z", "hot: c(X) <- a(X)."),
    ]

    remembering = Engine.from_text(LED, policy="unrestricted", remember=2**60)
    for type, t in RECORDS:
        remembering.push([Event(type, ("s",), EIGHT + t * MINUTE, EIGHT + t * MINUTE)])
    remembering.close()
    for (f,) in ask("SELECT ?e { ?e a <urn:semcep:type/f> }"):
        tree = why(remembering, "f", f)
        both = provenance(tree, remembering).splitlines()
        mine = (line for line in both if line.startswith("<urn:semcep:event/"))
        links = {line for line in mine if "#wasDerivedFrom" in line or "#wasGeneratedBy" in line}
        assert len(links) == 15 and links <= set(text.splitlines())
        answered = next(
            part for part in tree["parts"][0]["parts"][0]["parts"] if part["start"] == "2024-05-01T08:00:00Z"
        )
        assert (answered["rule"]["line"], [rule["line"] for rule in answered["also"]]) == (4, [5])
        assert "also by line 5" in "\n".join(lines(tree))


def test_a_reading_has_the_time_of_what_it_is_about() -> None:
    cars = Attribute("cars", "int", iri="http://www.w3.org/ns/sosa/hasSimpleResult")
    schema = Schema("count", (cars,), True, False)
    table = pl.DataFrame({"start": [EIGHT, EIGHT], "end": [EIGHT, EIGHT + MINUTE], "cars": [3, 4]})
    graph = ox.Store()
    graph.load(triples.reading_triples(table, schema, EventVocabulary()), ox.RdfFormat.N_TRIPLES, lenient=True)
    found = graph.query(
        """SELECT ?n ?since ?until { ?o a sosa:Observation ; sosa:hasSimpleResult ?n ; sosa:phenomenonTime ?p .
        OPTIONAL { ?p time:hasBeginning/time:inXSDDateTimeStamp ?since ; time:hasEnd/time:inXSDDateTimeStamp ?until }
        OPTIONAL { ?p time:inXSDDateTimeStamp ?since, ?until } } ORDER BY ?n""",
        prefixes=PREFIXES,
    )
    assert isinstance(found, ox.QuerySolutions)
    assert [[term.value for term in row] for row in found] == [
        ["3", "2024-05-01T08:00:00Z", "2024-05-01T08:00:00Z"],
        ["4", "2024-05-01T08:00:00Z", "2024-05-01T08:01:00Z"],
    ]
