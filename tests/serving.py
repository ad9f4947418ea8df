"""A served program in this process: its rounds, its store, and a real server on a free port."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import uvicorn
from prometheus_client import CollectorRegistry

from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving import ldes, page, sparql, subscribe
from cep.connectors.serving.app import application
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.scene import Scene
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.runtime.run_stats import RunStats
from tests.waiting import Started

MINUTE = 60_000_000
EIGHT = 1_714_550_400_000_000  # 2024-05-01T08:00:00Z

KITCHEN = """
@prefix :     <http://example.org/kitchen#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
:DairyFridge rdfs:subClassOf :Fridge .
:f1 a :DairyFridge ; :name "milk" ; :limit 7 ; wgs84:lat 48.20 ; wgs84:long 16.37 .
:f2 a :Fridge ; :name "fish" ; :limit 2 ; wgs84:lat 47.07 ; wgs84:long 15.44 .
:s1 a :Shop ; :name "near the milk" ; wgs84:lat 48.25 ; wgs84:long 16.40 .
:s2 a :Shop ; :name "near the fish" ; wgs84:lat 47.05 ; wgs84:long 15.45 .
"""
FRIDGES = """
PREFIX k: <http://example.org/kitchen#>
event reading(fridge: string, temp: float) TIME time.
event warm(fridge: string AS k:name, temp: float, limit: int) AS k:Warming.
warm(F, T, L) <- reading(F, T) WHERE { ?f a k:Fridge ; k:name ?F ; k:limit ?L }, T > L.
late: silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
"""
TWICE = """
event reading(fridge: string, temp: float) TIME time.
warm(F) <- reading(F, T) WHERE T > 7.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
"""


@dataclass(frozen=True)
class Served:
    """A program, and where its results are asked for."""

    engine: Engine
    service: Service
    store: StoreProcess
    history: StoreListener
    url: str = ""

    def push(self, *readings: tuple[int, str, float]) -> None:
        """Readings: minute after eight, fridge, degrees."""
        table = pl.DataFrame(
            {
                "start": [EIGHT + minute * MINUTE for minute, _, _ in readings],
                "end": [EIGHT + minute * MINUTE for minute, _, _ in readings],
                "@order": range(len(readings)),
                "fridge": [fridge for _, fridge, _ in readings],
                "temp": [degrees for _, _, degrees in readings],
            }
        )
        batch = Batch({"reading": table}, [], [])
        self.service.take(batch, self.engine.push(batch.tables))

    def close(self) -> None:
        """The end of the input."""
        self.service.take(None, self.engine.close())
        self.store.flush()


@contextmanager
def program(
    folder: Path,
    text: str = FRIDGES,
    knowledge: Knowledge | None = None,
    revise: int | None = None,
    base: str = "urn:semcep:",
    **options: object,
) -> Iterator[Served]:
    """A program with its store; `base`: the prefix of its IRIs; `options` of its history."""
    engine = Engine.from_text(text, knowledge=knowledge, explain=True, revise=revise)
    service = Service(engine, text, "fridge.cep", RunStats())
    words = EventVocabulary(base)
    with closing(StoreProcess(folder / "events", words)) as store:
        history = StoreListener(service, store, words, **options)  # type: ignore[arg-type]
        history.begin(knowledge)
        yield Served(engine, service, store, history)


@contextmanager
def served(folder: Path, limits: Limits | None = None, seconds: float = 10.0, **options: object) -> Iterator[Served]:
    """The fridges, served; nothing has been pushed."""
    ttl = folder / "kitchen.ttl"
    ttl.write_text(KITCHEN)
    with program(folder, FRIDGES, Knowledge.load([ttl], "owlrl"), **options) as one:
        asking = sparql.SparqlOptions(seconds, 1 << 20, PREFIXES)
        watched = subscribe.Subscriptions(one.history, one.engine.outputs, subscribe.PollingRate(0.05, 0.2))
        app = application(
            [
                sparql.router(one.store, asking),
                subscribe.router(watched, asking),
                ldes.router(one.history, "P30D"),
                page.router(Scene(one.service), vocabulary=one.history.vocabulary),
            ],
            limits or Limits(rate=0),
            title="fridges",
            trouble=lambda: None,
            registry=CollectorRegistry(),
            origins=["http://page.example"],
        )
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        listening = socket.create_server(("127.0.0.1", 0))
        server = Started(config, listening)
        try:
            yield Served(
                one.engine, one.service, one.store, one.history, f"http://127.0.0.1:{listening.getsockname()[1]}"
            )
        finally:
            server.should_exit = True
            server.thread.join()


def derived(engine: Engine, text: str, cuts: Mapping[int, list[tuple[int, str, float]]]) -> list[str]:
    """The ids of what a program derives from readings, cut into batches."""
    service = Service(engine, text, "fridge.cep", RunStats())
    ids: list[str] = []
    service.listen(lambda one: ids.extend(id for table in one.derived.values() for id in table["@id"]))
    for readings in cuts.values():
        if readings:
            table = pl.DataFrame(
                [(EIGHT + m * MINUTE, EIGHT + m * MINUTE, n, f, t) for n, (m, f, t) in enumerate(readings)],
                schema=["start", "end", "@order", "fridge", "temp"],
                orient="row",
            )
            batch = Batch({"reading": table}, [], [])
            service.take(batch, engine.push(batch.tables))
    service.take(None, engine.close())
    return sorted(ids)
