"""Derived events in RDF: names that stay, triples by columns, a store that keeps and forgets."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pyoxigraph as ox
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from cep.events import Event
from cep.runtime.history import CONSTITUENTS
from connectors.identity import identified
from connectors.rdf import triples
from connectors.rdf.derivations import Derivations
from connectors.rdf.question import Page, QueryRefused, Question
from connectors.rdf.store import EventStore
from connectors.rdf.store_process import StoreProcess
from connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from connectors.serving import ldes
from connectors.why.lines import tree as lines
from connectors.why.prov import provenance
from connectors.why.text import why
from knowledge.graph import Knowledge
from tests.long import examples
from tests.serving import EIGHT, FRIDGES, KITCHEN, MINUTE, Served, derived, program

TWICE = """
event reading(fridge: string, temp: float) TIME time.
warm(F) <- reading(F, T) WHERE T > 7.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
"""
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
        triples.event_triples(table, schema, EventVocabulary("http://e.org/"), None), ox.RdfFormat.N_QUADS
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
        query = f"SELECT ?t ?d {{ {warm} . ?r a sosa:Observation ; <urn:semcep:attribute/reading/temp> ?d }}"
        assert ask(query) == ["2024-05-01T08:10:00Z,8"], "records that agree in all things are one"
        plan = "prov:wasGeneratedBy/prov:qualifiedAssociation/prov:hadPlan/<http://www.w3.org/2000/01/rdf-schema#label>"
        assert ask(f"SELECT DISTINCT ?l {{ ?e a <urn:semcep:type/warm> ; {plan} ?l }}") == [
            '"hot: warm(F) <- reading(F, T) WHERE T > 7."'
        ]


def test_the_store_forgets_what_is_older_than_it_keeps_and_nothing_else(tmp_path: Path) -> None:
    query = "SELECT (COUNT(DISTINCT ?e) AS ?n) { ?e <http://www.w3.org/2006/time#hasEnd> ?t }"
    with program(tmp_path, TWICE, keep=60 * MINUTE, readings=True) as one:
        everything = Question("SELECT * { ?s ?p ?o } ORDER BY ?s ?p ?o", table="csv")
        empty = one.store.ask(everything).result().body
        counts = []
        for hour in range(4):
            one.push(*((60 * hour + minute, "a", 8.0) for minute in range(0, 60, 10)))
            one.store.flush()
            counts.append(int(one.store.ask(Question(query, table="csv")).result().body.split()[1]))
        assert counts == [11, 13, 13, 13], "what is derived at the latest instant comes with the next round"
        hours = one.store.hours().result()
        assert [hour[-2:] for hour in hours] == ["10", "11"]
        one.store.forget("2030-01-01T00:00:00.000000Z")
        one.store.flush()
        assert one.store.ask(everything).result().body == empty


class Counted:
    """A store that counts what is read of it."""

    def __init__(self, store: ox.Store) -> None:
        self.store, self.count = store, 0

    def quads_for_pattern(self, *pattern: Any) -> Iterator[ox.Quad]:
        for quad in self.store.quads_for_pattern(*pattern):
            self.count += 1
            yield quad


def test_a_page_reads_what_ends_in_it_however_much_there_is_beside(tmp_path: Path) -> None:
    """An hour with many events: some in each second, many in one minute, more than a page at one instant."""
    schema, second = Schema("beat", (Attribute("n", "int"),), True, True), 1_000_000
    often = [EIGHT + n * 514_000 for n in range(7_000)]
    crowded = [EIGHT + 7 * MINUTE + n * 25_000 for n in range(2_400)]
    ends = [*often, *crowded, *[EIGHT + 9 * MINUTE + 30 * second] * 1_001]

    def stored(folder: str, ends: list[int]) -> EventStore:
        table = pl.DataFrame({"start": ends, "end": ends, "n": range(len(ends))})
        made = EventStore(str(tmp_path / folder), EventVocabulary())
        made.add(triples.event_triples(identified(table, schema, "p"), schema, EventVocabulary(), None).encode())
        made.store = Counted(made.store)  # type: ignore[assignment]
        return made

    def read(store: EventStore, span: str, number: int = 1) -> tuple[Page | None, int]:
        store.store.count = 0  # type: ignore[attr-defined]
        return store.page(span, number, 500, 60.0), store.store.count  # type: ignore[attr-defined]

    store = stored("full", ends)
    members: list[str] = []
    spans = ["2024-05-01T08"]
    for span in spans:  # what is found is looked at as well
        number, page = 1, Page(more=span)
        while page.more is not None:
            found, count = read(store, span, number)
            assert found is not None and (not found.parts or not found.members)
            page, number = found, number + 1
            assert count <= 10 * len(page.members) + (5_000 if span[:16] == "2024-05-01T08:07" else 1_300)
            members += page.members
            spans += page.parts
        assert read(store, span, number)[0] is None
    assert len(members) == len(set(members)) == len(ends)
    assert sum(len(span) == 16 for span in spans) == 60
    assert {span[:16] for span in spans if len(span) == 19} == {"2024-05-01T08:07", "2024-05-01T08:09"}
    alone = stored("alone", [end for end in ends if end // MINUTE == EIGHT // MINUTE + 30])
    page, count = read(store, "2024-05-01T08:30")
    assert read(alone, "2024-05-01T08:30")[1] == count and page is not None and len(page.members) == 117
    with pytest.raises(QueryRefused, match="longer"):
        store.page("2024-05-01T08", 1, 500, -1.0)
    old = tmp_path / "old"  # hours held instants themselves
    before = EventStore(str(old), EventVocabulary())
    text = triples.event_triples(identified(pl.DataFrame({"start": [EIGHT], "end": [EIGHT], "n": [1]}), schema, "p"),
                          schema, EventVocabulary(), None)  # fmt: skip
    before.add(re.sub(r"<[^>]*T08> <[^>]*> <[^>]*T08:00> .\n", "", text).replace("T08:00> ", "T08> ").encode())
    for _ in range(2):
        for span in ("2024-05-01T08", "2024-05-01T08:00", "2024-05-01T08:00:00"):
            found = before.page(span, 1, 500, 60.0)
            assert found is not None and len(found.members) == 1, span
        before.add(text.encode())  # the same again, as it is written now
    assert sum(before.forget("2025")) == 1 and len(before.store) == 0


def test_a_page_is_over_when_all_that_ends_in_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with program(tmp_path, TWICE) as one:
        app = FastAPI()
        app.include_router(ldes.router(one.history, None))

        def control() -> str:
            async def asked() -> str:
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
                    return str((await client.get("/ldes/2024-05-01T08")).headers.get("cache-control"))

            return asyncio.run(asked())

        texts: list[tuple[str, Future[None]]] = []
        write = one.store.add
        monkeypatch.setattr(one.store, "add", lambda text: texts.append((text, Future())) or texts[-1][1])
        one.push((0, "a", 8.0), (10, "a", 8.0))
        one.push((70, "a", 8.0))
        one.push((80, "a", 1.0))
        hour = EIGHT + 60 * MINUTE
        assert one.engine.watermark > hour > one.history.reached and len(texts) > 1
        assert control() == "None", "there is nothing yet"
        for text, future in texts[:1]:
            write(text).result()
            future.set_result(None)
        assert control() == "no-cache", "more may come"
        waiting = len(texts)
        one.push((81, "a", 1.0))
        for text, future in texts[1:]:
            assert one.history.reached < one.engine.watermark
            write(text).result()
            future.set_result(None)
        assert waiting <= len(texts) and one.history.reached == one.engine.watermark
        assert "immutable" in control()
        one.push((90, "a", 8.0), (100, "a", 1.0))
        texts[-1][1].set_exception(QueryRefused("failed", "the disk is full"))
        reached = one.history.reached
        one.push((200, "a", 1.0))
        assert one.history.trouble and one.history.reached == reached < one.engine.watermark


def test_a_store_goes_on_with_what_means_the_same(tmp_path: Path) -> None:
    """Neither layout nor other rules change the name of an event or its place in the store. Where the input comes again
    the events of a rule that was changed go, live they stay; so do those that ask a knowledge that was changed."""
    asked = "SELECT ?e { ?e <http://www.w3.org/2006/time#hasEnd> ?t } ORDER BY ?e"
    labels = "SELECT ?l { ?r a <http://www.w3.org/ns/prov#Plan> ; <http://www.w3.org/2000/01/rdf-schema#label> ?l }"

    def rows(one: Served, query: str) -> list[str]:
        one.store.flush()
        return one.store.ask(Question(query, table="csv")).result().body.decode().splitlines()[1:]

    def run(text: str, again: bool = True) -> tuple[list[str], list[str]]:
        with program(tmp_path, text, again=again) as one:
            before = rows(one, asked)
            one.push((0, "a", 8.0))
            one.close()
            return before, rows(one, asked)

    other = TWICE.replace("silent(F) <-", "% unless\nhotter(F) <- reading(F, T) WHERE T > 99.\nsilent(F) <-  ")
    changed = TWICE.replace("7", "6")
    first = run(TWICE)
    assert (first[0], len(first[1])) == ([], 2)
    assert run(other) == run(TWICE) == (first[1], first[1])
    kept, new = run(changed)
    assert len(kept) == 1 and kept[0] in first[1] and len(new) == 2, "the other rule's event is there all the time"
    assert run(TWICE, again=False) == (new, sorted({*first[1], *new})), "history"
    with program(tmp_path, TWICE, again=True) as one:
        assert len(rows(one, labels)) == 2, "rules that are no more are not told of either"
        with pytest.raises(CepError, match="cannot be opened"):
            StoreProcess(tmp_path / "events", EventVocabulary())


def test_knowledge_is_replaced_and_events_stay(tmp_path: Path) -> None:
    ttl, both = tmp_path / "kitchen.ttl", FRIDGES + TWICE.partition(".\n")[2].replace("warm", "hot").split("silent")[0]
    names = "PREFIX k: <http://example.org/kitchen#> SELECT ?n { ?f a k:Fridge ; k:name ?n } ORDER BY ?n"
    asked = "SELECT ?e { ?e <http://www.w3.org/2006/time#hasEnd> ?t } ORDER BY ?e"
    found = []
    kitchen = KITCHEN + ':milk :note [ :text "old" ] .'
    for text in (kitchen, KITCHEN.replace('"fish"', '"cheese"') + ':milk :note [ :text "new" ] .', kitchen):
        ttl.write_text(text)
        known = Knowledge.load([ttl], "owlrl")
        with program(tmp_path, both, known, again=True) as one:
            one.store.flush()
            before = one.store.ask(Question(asked, table="csv")).result().body.decode().split()[1:]
            one.push((0, "milk", 8.0))
            one.close()
            after = one.store.ask(Question(asked, table="csv")).result().body.decode().split()[1:]
            answered = one.store.ask(Question(names, table="csv")).result().body.decode().split()[1:]
            notes = "SELECT ?t { ?s <http://example.org/kitchen#note>/<http://example.org/kitchen#text> ?t }"
            answered += one.store.ask(Question(notes, table="csv")).result().body.decode().split()[1:]
            every = Question("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", table="csv")
            found.append((before, after, answered, one.store.ask(every).result().body))
    first, second, third = found
    assert (first[0], len(first[1])) == ([], 3) and second[1] == third[1] == first[1]
    assert len(second[0]) == 2 and set(second[0]) < set(first[1]), "what asks the knowledge is derived again"
    assert (first[2], second[2]) == (["fish", "milk", "old"], ["cheese", "milk", "new"])
    assert third == (second[0], *first[1:])


def test_a_query_without_an_end_ends_and_takes_nothing_with_it(tmp_path: Path) -> None:
    with program(tmp_path, TWICE) as one:
        one.push(*((minute, "a", 8.0) for minute in range(60)))
        one.store.flush()
        endless = Question("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }", seconds=0.3)
        counted = Question("SELECT (COUNT(*) AS ?n) { ?e a <urn:semcep:type/warm> }", table="csv")
        first, second = one.store.ask(endless), one.store.ask(endless)
        one.push((70, "a", 8.0))
        for slow in (first, second):
            with pytest.raises(QueryRefused, match="longer than") as answered:
                slow.result()
            assert answered.value.code == "slow"
        one.close()
        assert one.store.ask(counted).result().body.split()[1] == b"61"
        with pytest.raises(QueryRefused, match="LIMIT"):
            one.store.ask(Question("SELECT * { ?a ?b ?c . ?d ?e ?f }", bytes=10_000)).result()
        with pytest.raises(QueryRefused, match="broke"):
            one.store.ask(Question("SELECT * " + "{" * 200_000 + "}" * 200_000)).result()
        assert one.store.ask(counted).result().body.split()[1] == b"61"


def test_a_store_closes_whatever_becomes_of_its_process_and_of_who_asked(tmp_path: Path) -> None:
    endless = Question("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }", seconds=60)
    with program(tmp_path, TWICE) as one:
        one.push(*((minute, "a", 8.0) for minute in range(60)))
        one.store.flush()
        assert one.store.ask(endless).cancel(), "who is gone is not waited for"
        waiting = one.store.ask(endless)
        one.store.refuse_questions()
        with pytest.raises(QueryRefused, match="stopping"):
            waiting.result()
        one.push((70, "a", 8.0), (71, "a", 1.0))
        os.kill(one.store.process, signal.SIGTERM)  # to all that belong to a service: it is not for this one
        os.kill(one.store.process, signal.SIGKILL)
    assert one.store.restarts == 1
    with pytest.raises(QueryRefused, match="closed"):
        one.store.flush()
    with program(tmp_path, TWICE) as one:
        counted = Question("SELECT (COUNT(*) AS ?n) { ?e a <urn:semcep:type/warm> }", table="csv")
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
        for name, table in (engine.close() if pushed is None else engine.push(pushed)).items():
            text += made.events(identified(table, engine.outputs[name], engine.meanings()[name]), engine.outputs[name])
    return made.rules() + text


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
