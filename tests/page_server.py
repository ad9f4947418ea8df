"""The page, served in this process on a free port: a program with alerts, which a test feeds, stops and restarts."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import uvicorn
from prometheus_client import CollectorRegistry

from cep.connectors.alerts.handling import Handling
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.routes import Routes
from cep.connectors.receivers.sse import Stream
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving import alertmanager_api, page, partial, sparql, why
from cep.connectors.serving import alerts as handled
from cep.connectors.serving import feeds as alerts
from cep.connectors.serving.app import application
from cep.connectors.serving.fair_lock import FairLock
from cep.connectors.serving.gazette import Gazette
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.scene import Scene
from cep.connectors.why.live_revisions import LiveRevisions
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.knowledge.provenance import Provenance
from cep.language.files import joined
from cep.runtime.run_stats import RunStats
from tests.ports import free_port
from tests.waiting import Started

SECOND = 1_000_000
EIGHT = 1_714_550_400 * SECOND  # 2024-05-01T08:00:00Z

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no Chromium (Debian, Ubuntu: sudo apt install chromium)"

STATIONS = """
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix : <http://example.org/> .
:vienna a sosa:Platform ; dcterms:identifier "vie" ; rdfs:label "Vienna" ; wgs84:lat 48.2 ; wgs84:long 16.4 .
:graz a sosa:Platform ; dcterms:identifier "grz" ; rdfs:label "Graz" ; wgs84:lat 47.1 ; wgs84:long 15.4 .
:park rdfs:label "Prater" ; dcterms:identifier "vie" ; wgs84:lat 48.21 ; wgs84:long 16.41 .
:nowhere a sosa:Platform ; rdfs:label "Nowhere" ; wgs84:lat "north" ; wgs84:long 3 .
"""
PROGRAM = """
PREFIX d: <http://purl.org/dc/terms/>
PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
event reading(station: string, temp: float, y: float? AS wgs84:lat, x: float? AS wgs84:long) TIME time.
event warm(station: string, temp: float).
rising: warm(S, B) <- reading(S, A, _, _) SEQ reading(S, B, _, _) WHERE B > A WITHIN 1 h.
at(S, Lat, Long) :- { ?s d:identifier ?S ; wgs84:lat ?Lat ; wgs84:long ?Long ; a <http://www.w3.org/ns/sosa/Platform> }.
ALERT hot ON warm(station: S, temp: T) WHERE T > 30, at(S, Lat, Long)
    SEVERITY "Severe" TITLE "Heat at {S}" TEXT "{T} degrees" FOR 2 h KEYED BY S AT Lat, Long RADIUS 20000
    URGENCY "Immediate" INSTRUCTION "Stay in the shade, {S}.".
"""


@dataclass
class Shown:
    """A program and its page; `port` stays the same when it is started again."""

    engine: Engine
    service: Service
    scene: Scene
    outbox: Outbox
    handling: Handling
    port: int = field(default_factory=free_port)
    stops: list[threading.Thread] = field(default_factory=list)
    server: uvicorn.Server | None = None
    stream: Stream | None = None
    turn: FairLock = field(default_factory=FairLock)
    questions: why.Questions | None = None
    limits: Limits = field(default_factory=lambda: Limits(rate=0))
    status: str = "Actual"
    root: str = ""
    store: StoreProcess | None = None
    receivers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    routes: Routes | None = None

    @property
    def local(self) -> bool:
        """Return True if whoever asks may handle alerts: there are no tokens."""
        return self.limits.people is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def push(self, *readings: tuple[int, str, float] | tuple[int, str, float, float, float], change: int = 1) -> None:
        """Seconds after eight, station, degrees; where it says where it is, latitude and longitude. `change`: with
        revision, -1 withdraws them."""
        rows = [(*reading, None, None)[:5] for reading in readings]
        table = pl.DataFrame(
            [(EIGHT + s * SECOND, EIGHT + s * SECOND, n, *rest) for n, (s, *rest) in enumerate(rows)],
            schema={"start": pl.Int64, "end": pl.Int64, "@order": pl.Int64, "station": pl.String, "temp": pl.Float64,
                    "y": pl.Float64, "x": pl.Float64},
            orient="row",
        )  # fmt: skip
        if self.engine.withdraws:
            table = table.with_columns(pl.lit(change, pl.Int8).alias("@change"))
        batch = Batch({"reading": table}, [], [])
        with self.turn:
            self.service.stats.records += table.height
            self.service.take(batch, self.engine.push(batch.tables))
            self.service.take(batch, self.engine.advance(EIGHT + rows[-1][0] * SECOND))

    def ended(self, id: str) -> tuple[str | None, int] | None:
        """The event and its end, while the page holds it."""
        found = self.scene.event(id)
        return None if found is None else (found["type"], found["end"])

    def start(self) -> None:
        self.scene.closed = False
        self.stream = Stream(self.outbox, Publisher("heat.cep", status=self.status))
        origin = Publisher("heat.cep", status=self.status)
        routers = [
            page.router(self.scene, self.outbox, self.status, local=self.local, receivers=self.receivers),
            handled.router(self.handling, origin, self.local),
            alertmanager_api.router(self.handling, origin, self.routes, local=self.local),
            alerts.router(self.outbox, origin, self.stream),
            why.router(self.questions),
            partial.router(self.engine, self.turn),
        ]
        if self.store is not None:
            routers.append(sparql.router(self.store, sparql.SparqlOptions(10.0, 1 << 20, PREFIXES)))
        app = application(
            routers,
            self.limits,
            title="heat",
            trouble=lambda: None,
            registry=CollectorRegistry(),
            origins=(),
            root=self.root,
        )
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        self.server = Started(config, socket.create_server(("127.0.0.1", self.port)))
        self.stops.append(self.server.thread)

    def stop(self) -> None:
        assert self.server is not None and self.stream is not None, "it was started"
        self.stream.close()
        self.scene.close()
        self.server.should_exit = True
        self.stops.pop().join()


@contextmanager
def shown(
    folder: Path,
    text: str | Mapping[str, str] = PROGRAM,
    remember: int | None = None,
    limits: Limits | None = None,
    status: str = "Actual",
    root: str = "",
    revise: int | None = None,
    knowledge: str = STATIONS,
    stored: bool = False,
) -> Iterator[Shown]:
    """The page of a program; nothing has been pushed. `remember`: it can be asked why, for so many microseconds;
    `revise`: what is derived is put right for so many. `stored`: events go to a store, too, which can be asked."""
    (folder / "stations.ttl").write_text(knowledge)
    known = Knowledge.load([folder / "stations.ttl"])
    final = revise is None
    engine = Engine.from_text(
        text,
        knowledge=known,
        explain=final or remember is not None,
        remember=remember,
        alerts=True,
        begins=True,
        revise=revise,
    )
    written, name, _ = joined([("rules/heat.cep", text)] if isinstance(text, str) else text.items())
    service = Service(engine, written, name, RunStats())
    with ExitStack() as closed:
        outbox = closed.enter_context(closing(Outbox(None)))
        handling = Handling(outbox, "heat.cep", status)
        service.listen(AlertListener(engine, outbox, handling=handling))
        one = Shown(engine, service, Scene(service, Gazette.of(known)), outbox, handling, status=status, root=root)
        one.limits = limits or one.limits
        if stored:
            words = EventVocabulary()
            one.store = closed.enter_context(closing(StoreProcess(folder / "events", words)))
            StoreListener(service, one.store, words).begin(known)
        if remember is not None:
            revisions = LiveRevisions(engine) if engine.withdraws else None
            if revisions is not None:
                service.listen(revisions.take)
            one.questions = why.Questions(engine, one.turn, one.ended, Provenance(known), revisions=revisions)
        one.start()
        try:
            yield one
        finally:
            one.stop()
