"""Knowledge that changes while it is served: answers go with it, who watches hears of it, a restart begins anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest
from hypothesis import given, settings

from cep.connectors.rdf.knowledge_files import Damaged, StoreChangeLog
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.core import checksum
from cep.core.errors import CepError
from cep.knowledge.graph import Knowledge
from cep.knowledge.store_follower import StoreFollower
from tests.damage import flipped
from tests.serving import EIGHT, FRIDGES, KITCHEN, MINUTE, program, served
from tests.test_knowledge_change import SCHEMA, Steps, changes

K = "PREFIX k: <http://example.org/kitchen#>\nPREFIX : <http://example.org/kitchen#>\n"
TTL = "@prefix : <http://example.org/kitchen#> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"


def test_a_query_joined_with_knowledge_that_changes(tmp_path: Path) -> None:
    """At the time of the change by the clock of events; with what is inferred; and also those hear of it who watch a
    query that names an event."""
    query = K + "SELECT ?who { ?e a k:Warming ; k:name ?n . ?f k:name ?n ; a k:Fridge ; k:keeper ?who }"
    seen = K + "SELECT ?f { ?f a k:Fridge }"
    with served(tmp_path) as one, httpx.Client(timeout=60) as client:

        def rows(query: str) -> list[str]:
            one.store.flush()
            answer = client.get(one.url + "/sparql", params={"query": query}, headers={"Accept": "text/csv"})
            return answer.raise_for_status().text.split()[1:]

        one.engine.update(EIGHT + 5 * MINUTE, add=TTL + ':f1 :keeper "Ada" ; :likes [ :name "dairy" ] .')
        one.engine.update(EIGHT + 9 * MINUTE, remove=TTL + ":DairyFridge rdfs:subClassOf :Fridge .")
        one.engine.update(EIGHT + 9 * MINUTE, add=TTL + ":DairyFridge rdfs:subClassOf :Cold .")
        one.push((0, "milk", 8.0), (1, "milk", 9.0), (4, "milk", 1.0))
        assert rows(query) == [] and len(rows(seen)) == 2
        with client.stream("GET", one.url + "/sparql/subscribe", params={"query": query}) as stream:
            lines = (line for line in stream.iter_lines() if line and not line.startswith(":"))

            def next_event() -> tuple[str, dict[str, list[object]]]:
                return next(lines).removeprefix("event: "), json.loads(next(lines).removeprefix("data: "))

            assert next_event()[0] == "answer"
            one.push((6, "milk", 1.0))
            kind, found = next_event()
            assert kind == "change" and len(found["added"]) == 2 and found["removed"] == []
            assert rows(query) == ["Ada", "Ada"] and rows(K + "SELECT ?n { [] k:likes/k:name ?n }") == ["dairy"]
            one.push((10, "milk", 1.0))
            kind, found = next_event()
            assert (len(found["added"]), len(found["removed"])) == (0, 2)
        assert rows(seen) == ["http://example.org/kitchen#f2"]
        assert rows(K + "SELECT ?f { ?f a k:Cold }") == ["http://example.org/kitchen#f1"]
        assert one.history.trouble is None
    with served(tmp_path) as one, httpx.Client(timeout=60) as client:
        assert sorted(rows(seen)) == ["http://example.org/kitchen#f1", "http://example.org/kitchen#f2"]
        assert rows(query) == [] and rows(K + "SELECT ?f { ?f a k:Cold }") == []
        assert len(rows(K + "SELECT ?e { ?e a k:Warming }")) == 2, "events stay"


def test_a_change_that_comes_late_is_put_right_in_answers_and_events(tmp_path: Path) -> None:
    """What was derived by what was known is withdrawn; who asks the knowledge hears of what is known now."""
    limits = K + "SELECT ?l { ?f k:name 'milk' ; k:limit ?l }"
    warm = K + "SELECT ?n ?t { ?e a k:Warming ; k:name ?n ; <urn:semcep:attribute/warm/temp> ?t }"
    (tmp_path / "kitchen.ttl").write_text(KITCHEN)
    knowledge = Knowledge.load([tmp_path / "kitchen.ttl"], "owlrl")
    with program(tmp_path, FRIDGES, knowledge, 60 * MINUTE) as one:

        def rows(query: str) -> list[str]:
            one.store.flush()
            return sorted(one.store.ask(Question(query, table="csv")).result().body.decode().split()[1:])

        one.push((0, "milk", 8.0), (4, "milk", 9.0))
        one.engine.update(EIGHT + 6 * MINUTE, add=TTL + ":f1 :keeper 'Ada' .")
        one.push((10, "milk", 1.0))
        assert rows(limits) == ["7"] and rows(warm) == ["milk,8", "milk,9"]
        one.engine.update(EIGHT + 3 * MINUTE, add=TTL + ":f1 :limit 20 .", remove=TTL + ":f1 :limit 7 .")
        one.push((11, "milk", 12.0))
        assert rows(limits) == ["20"] and rows(warm) == ["milk,8"], "at 9 degrees it was not warm any more"
        assert rows(K + "SELECT ?who { ?f k:keeper ?who }") == ["Ada"], "what came in order stays"
        one.engine.update(EIGHT + 12 * MINUTE, remove=TTL + ":f1 :keeper 'Ada' .")
        one.push((13, "milk", 12.0))
        assert rows(K + "SELECT ?who { ?f k:keeper ?who }") == [], "and goes on from there"
        with pytest.raises(CepError, match="is late: the results that it would change are final"):
            one.engine.update(EIGHT - 90 * MINUTE, add=TTL + ":f1 :keeper 'Bea' .")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[EventStore, Knowledge, Path]:
    """A store with knowledge, and where it notes what it learns."""
    folder = tmp_path_factory.mktemp("learned")
    knowledge = Knowledge.of((), "owlrl")
    knowledge.apply(knowledge.change(SCHEMA))
    (folder / "new.nq").write_bytes(b"".join(_quads(knowledge)))
    store = EventStore(str(folder / "events"), EventVocabulary())
    store.know("it", str(folder / "new.nq"), str(folder / "events.nq"))
    return store, knowledge, folder / "events.learned"


@settings(max_examples=12, deadline=None)
@given(changes)
def test_a_store_that_learns_has_what_one_has_that_is_filled_anew(
    loaded: tuple[EventStore, Knowledge, Path], steps: Steps
) -> None:
    """Also where a process ends in between and is begun again; and it finds back."""
    store, knowledge, noted = loaded
    now, followed = knowledge.fork(), StoreFollower(knowledge)
    for add, remove in steps:
        lines = sorted(line.decode().strip() for line in _quads(now))
        gone = [lines[one % len(lines)] if isinstance(one, int) else one for one in remove]
        change = knowledge.change("\n".join(add), "\n".join(gone))
        try:
            now.apply(change)
        except CepError:  # it contradicts itself
            continue
        quads = followed.change([change])
        for _ in range(1 + len(add) % 2):
            store.learn(*quads)
        assert _held(store) == sorted(_quads(now))
    with noted.open("ab") as file:
        file.write((b"" if file.tell() else checksum.MARK) + checksum.record(b"<http://ex.org/half", b"")[:-20])
    store.unlearn()
    store.unlearn()
    assert _held(store) == sorted(_quads(knowledge)) and store.knows("it") and not noted.exists()


def test_damage_beside_a_store_is_told(tmp_path: Path) -> None:
    """Of what it has learned, and of the knowledge that was loaded; it is put back as it was where it is whole."""

    def filled(value: int) -> str:
        path = tmp_path / "new.nq"
        path.write_text(f"<urn:s> <urn:p> <urn:o{value}> .\n<urn:s> <urn:p> <urn:x> .\n")
        return str(path)

    events, before, noted = tmp_path / "events", tmp_path / "events.nq", tmp_path / "events.learned"
    store = EventStore(str(events), EventVocabulary())
    store.know("one", filled(1), str(before))
    start = _held(store)
    for number in range(3):
        store.learn(b"<urn:s> <urn:p> <urn:x> .\n", b"<urn:s> <urn:p> <urn:y%d> .\n" % number)
    whole = noted.read_bytes()
    for place, damaged in flipped(whole, 100, Random(1)):
        noted.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"events\.learned is damaged"):
            store.unlearn()
        assert noted.read_bytes() == damaged, place
    for torn, learned in ((whole[:-3], 2), (whole, 3)):
        noted.write_bytes(torn)
        assert len(list(StoreChangeLog(str(noted)).changes())) == learned
    store.unlearn()
    assert _held(store) == start
    text = before.read_bytes()
    for _, damaged in flipped(text, 50, Random(2)):
        before.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"events\.nq is damaged"):
            store.know("two", filled(2), str(before))
    before.write_bytes(text)
    store.know("two", filled(2), str(before))
    assert _held(store) == [b"<urn:s> <urn:p> <urn:o2> .\n", b"<urn:s> <urn:p> <urn:x> .\n"]
    assert store.knows("two") and not store.knows("one")


def _quads(knowledge: Knowledge) -> Iterator[bytes]:
    return (f"{quad} .\n".encode() for quad in knowledge.store())


def _held(store: EventStore) -> list[bytes]:
    own = f"<{store.vocabulary.base}knowledge>"
    return sorted(f"{quad} .\n".encode() for quad in store.store if str(quad.subject) != own)
