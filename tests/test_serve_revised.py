"""A server whose input is revised: each consumer comes to what a run in order gives, wherever it was ended."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving import ldes
from cep.connectors.serving.scene import Scene
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.long import seeds
from tests.revised_consumers import PROGRAM, SECOND, LdesClient, Record, Truth, records, table
from tests.test_alerts_revised import standing, told

HELD = "SELECT ?e { ?e time:hasBeginning ?t }"
GONE = "SELECT ?e ?w { GRAPH ?g { ?e prov:wasInvalidatedBy ?w ; prov:invalidatedAtTime ?t . ?w prov:endedAtTime ?t } }"
ENDED = "SELECT ?w { GRAPH ?g { ?w <https://www.w3.org/ns/activitystreams#object> ?e ; time:hasEnd ?t } }"
WINDOW = 10 * SECOND


class Running:
    """A server's parts, from a snapshot on; `take` gives a batch, which goes to all of them. `explain`: it is kept what
    events come from."""

    def __init__(self, folder: Path, blob: bytes | None, explain: bool) -> None:
        remember = 3600 * SECOND if explain else None
        self.engine = Engine.from_text(
            PROGRAM, alerts=True, revise=WINDOW, begins=True, explain=explain, remember=remember
        )
        if blob is not None:
            self.engine.restore(blob)
        self.parts = ExitStack()
        service = self.service = Service(self.engine, PROGRAM, "fridge.cep", RunStats())
        self.outbox = self.parts.enter_context(closing(Outbox(folder / "alerts.db")))
        service.listen(AlertListener(self.engine, self.outbox))
        words = EventVocabulary()
        self.store = self.parts.enter_context(closing(StoreProcess(folder / "events", words)))
        self.history = StoreListener(service, self.store, words, readings=True, keep_history=True)
        self.history.begin(None)
        self.scene = Scene(service)
        self.scene.begin(service.identified(self.engine.held_now()))
        app = FastAPI()
        app.include_router(ldes.router(self.history, None))
        self.client = TestClient(app)

    def take(self, some: list[Record], first: int) -> None:
        batch = Batch({"reading": table(some, first)}, [], [])
        self.engine.receive(batch.tables, in_turn=True)
        self.service.take(batch, self.engine.advance(self.engine.reached))

    def end(self) -> None:
        self.service.take(None, self.engine.close())

    def page(self, path: str) -> bytes | None:
        answer = self.client.get(f"/{path}", headers={"Accept": "application/n-triples"})
        return answer.content if answer.status_code == 200 else None

    def rows(self, query: str) -> list[tuple[str, ...]]:
        self.store.flush()
        answer = self.store.ask(Question(query, table="csv", prefixes=PREFIXES)).result()
        return [tuple(line.split(",")) for line in answer.body.decode().splitlines()[1:]]

    def held(self, kind: str = "event") -> list[str]:
        return [event.rpartition("/")[2] for (event,) in self.rows(HELD) if event.startswith(f"urn:semcep:{kind}/")]


@pytest.mark.parametrize("seed", seeds(30))
def test_every_consumer_comes_to_what_a_run_in_order_gives(seed: int, tmp_path: Path) -> None:
    """Batches of any length; the server ends at any time, and goes on from an older snapshot with what came since."""
    rng = random.Random(seed)
    given = records(rng, 40, 10)
    cuts = sorted({0, len(given), *(rng.randrange(len(given)) for _ in range(8))})
    batches = [(cut, given[cut:until]) for cut, until in zip(cuts, cuts[1:])]
    running = Running(tmp_path, None, seed % 2 == 0)
    client = LdesClient(lambda path: running.page(path))
    blob, behind = running.engine.snapshot(), 0
    for number, (first, some) in enumerate(batches):
        running.take(some, first)
        if rng.random() < 0.3:
            running.parts.close()
            running = Running(tmp_path, blob, seed % 2 == 0)
            for again, few in batches[behind : number + 1]:
                running.take(few, again)
        elif rng.random() < 0.3:
            blob, behind = running.engine.snapshot(), number + 1
        if rng.random() < 0.3 or number + 1 == len(batches):
            truth = Truth.of(given[: first + len(some)], WINDOW)
            held = running.held()
            assert sorted(held) == sorted(truth.ids), (seed, number)
            assert sorted(running.held("reading")) == sorted(truth.records), (seed, number)
            assert standing(told(running.outbox)) == standing(truth.alerts), (seed, number)
            client.read()
            assert client.held() == set(held) - truth.open, (seed, number)
    running.end()
    truth = Truth.of(given, WINDOW, over=True)
    assert sorted(running.held()) == sorted(truth.ids)
    client.read()
    fresh = LdesClient(lambda path: running.page(path))
    fresh.read()
    assert client.held() == fresh.held() == truth.ids.keys() - truth.open
    gone = running.rows(GONE)
    assert len(gone) == len(set(gone))
    ended = {why for (why,) in running.rows(ENDED)}  # what had none was on no page
    assert {why for _, why in gone} & ended <= {name[1:-1] for name in client.members | fresh.members}
    running.parts.close()


def pages(scene: Scene, start: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """What a page is told from a number on, in messages: events that go, events that come."""
    at = start
    while True:
        news = scene.behind(at, 3)
        assert news is not None
        yield scene.taken_back(at, news[0]), news[1]
        if at == news[0]:
            return
        at = news[0]


@pytest.mark.parametrize("seed", seeds(20))
def test_a_page_that_looks_now_and_then_shows_what_holds(seed: int) -> None:
    rng = random.Random(seed)
    given = records(rng, 60, 10)
    engine = Engine.from_text(PROGRAM, alerts=True, revise=WINDOW, begins=True, explain=seed % 2 == 0)
    service = Service(engine, PROGRAM, "fridge.cep", RunStats())
    scene = Scene(service)
    shown: dict[str, int | None] = {}  # as a page does: of what comes again the last is shown
    at = position = 0
    while position < len(given):
        some = given[position : position + rng.choice((1, 2, 7))]
        batch = Batch({"reading": table(some, position)}, [], [])
        engine.receive(batch.tables, in_turn=True)
        service.take(batch, engine.advance(engine.reached))
        position += len(some)
        if rng.random() < 0.4 or position == len(given):
            for gone, come in pages(scene, at):
                for each in map(json.loads, gone):
                    shown.pop(each["id"], None)
                shown |= {each["id"]: each["end"] for each in map(json.loads, come)}
            at = scene.number
            truth = Truth.of(given[:position], WINDOW)
            assert shown.keys() == truth.ids.keys()
            assert {id for id, end in shown.items() if end is None} == truth.open
            assert sum(scene.summary()["derived"].values()) == len(shown.keys() - truth.open)
            assert all("withdrawn" not in (scene.event(id) or {}) for id in shown)
