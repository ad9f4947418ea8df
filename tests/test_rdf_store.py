"""The store of derived events: it keeps and forgets, goes on, answers by pages, and closes."""

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

from cep.connectors.rdf import triples
from cep.connectors.rdf.question import Page, QueryRefused, Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.serving import ldes
from cep.core.errors import CepError
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema
from cep.knowledge.graph import Knowledge
from tests.serving import EIGHT, FRIDGES, KITCHEN, MINUTE, TWICE, Served, program


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
        made.add(
            triples.event_triples(
                [triples.Derived(identified(table, schema, "p"), schema, None)], EventVocabulary()
            ).encode()
        )
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
    with pytest.raises(QueryRefused, match="time limit"):
        store.page("2024-05-01T08", 1, 500, -1.0)
    old = tmp_path / "old"  # hours held instants themselves
    before = EventStore(str(old), EventVocabulary())
    table = identified(pl.DataFrame({"start": [EIGHT], "end": [EIGHT], "n": [1]}), schema, "p")
    text = triples.event_triples([triples.Derived(table, schema, None)], EventVocabulary())
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
        with pytest.raises(QueryRefused, match="exceeds its memory limit"):
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
        with pytest.raises(QueryRefused, match="stopping"):
            one.store.ask(endless)
        one.push((70, "a", 8.0), (71, "a", 1.0))
        os.kill(one.store.process, signal.SIGTERM)  # to all that belong to a service: it is not for this one
        os.kill(one.store.process, signal.SIGKILL)
    assert one.store.restarts == 1
    with pytest.raises(QueryRefused, match="closed"):
        one.store.flush()
    with program(tmp_path, TWICE) as one:
        counted = Question("SELECT (COUNT(*) AS ?n) { ?e a <urn:semcep:type/warm> }", table="csv")
        assert one.store.ask(counted).result().body.split()[1] == b"61"
