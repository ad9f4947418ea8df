"""What is kept of a program while it runs, and the paths at which it is asked for."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry

from cep.app.meter import Meter, charts
from cep.app.metrics import Exposition
from cep.app.pipeline import Interrupt
from cep.app.program_thread import Run, measure
from cep.core.errors import CepError
from cep.runtime.run_stats import RunStats
from cep.server.dead_letters import ReportedDeadLetters
from cep.server.options import ServeOptions
from cep.server.program import ServedProgram
from connectors.alerts.listener import Alerting
from connectors.alerts.outbox import Outbox
from connectors.dead_letters import DeadLetters
from connectors.feeds import document
from connectors.feeds import router as feeds
from connectors.feeds.document import Origin
from connectors.feeds.metrics import AlertMetrics, SourceMetrics
from connectors.feeds.sse import Stream
from connectors.rdf.history import History
from connectors.rdf.store_process import StoreProcess
from connectors.rdf.vocabulary import PREFIXES, Vocabulary
from connectors.serving import ldes, page, sparql, subscribe, why
from connectors.serving.app import application
from connectors.serving.gazette import Gazette
from connectors.serving.guard import Limits
from connectors.serving.scene import Scene
from connectors.serving.service import Relay, Service
from connectors.sources import Sources
from knowledge.provenance import Provenance
from knowledge.rdf.prefixed_names import KNOWN
from knowledge.report import prefixes


@dataclass(frozen=True, slots=True)
class Answers:
    """`app` is asked, `run` is the program, to be started; `outbox`: the changes of its alerts, of which `origin` is
    told as the one who speaks. The rest has to end before the server waits for its clients to go."""

    app: FastAPI
    run: Run
    tally: RunStats
    outbox: Outbox
    origin: Origin
    stream: Stream
    store: StoreProcess
    scene: Scene
    subscriptions: subscribe.Subscriptions
    questions: why.Questions | None

    async def close(self) -> None:
        """What would be answered without an end ends."""
        self.stream.close()
        self.store.refuse_questions()
        self.scene.close()
        await self.subscriptions.close()
        if self.questions is not None:
            self.questions.close()


def answering(wish: ServeOptions, program: ServedProgram, token: str | None, stack: ExitStack) -> Answers:
    """The knowledge is in the store when this returns. `token`: what requests have to bring. Raises CepError."""
    engine, tally = program.engine, RunStats()
    service = _service(wish, program, tally)
    outbox = stack.enter_context(closing(Outbox(None if wish.state is None else program.folder / "alerts.db")))
    threading.Thread(target=outbox.verify, args=[partial(_damaged, wish)], name="outbox", daemon=True).start()
    alerting = Alerting(engine, outbox, lambda text, /, **more: wish.log("alert", text, "warning", **more))
    service.listen(alerting)  # before the store: alerts do not wait for it
    vocabulary = Vocabulary(wish.base)
    store = stack.enter_context(closing(StoreProcess(program.folder / "events", vocabulary, wish.query_memory)))
    history = History(service, store, vocabulary, wish.kept, wish.readings, again=not program.live)
    history.troubled = lambda text: wish.log("store", f"{text}; answers lack them", "error")
    history.begin(program.known)
    name, sender = document.parse_sender(wish.sender or outbox.kept("sender", document.own_name(wish.base)))
    origin = Origin(wish.rules.name, wish.base, sender, wish.status, name)
    stream = Stream(outbox, wish.status)
    scene = Scene(service, Gazette.of(program.known))
    program.sources.listen(partial(_lost, program.sources, outbox, scene))
    meter = Meter(charts(engine.plan))
    kept = wish.dead_letter is not None
    letters = stack.enter_context(closing(ReportedDeadLetters(DeadLetters(wish.dead_letter), wish.log, kept)))
    service.listen(lambda one: measure(meter, engine, one, letters, tally.dead))
    run = Run(
        program.teller or engine,
        program.batches,
        tally,
        service,
        letters,
        Interrupt(),
        program.journal,
        wish.log,
        program.changes,
        program.rest,
    )
    subscriptions = subscribe.Subscriptions(history, engine.outputs, subscribe.PollingRate())
    questions = _questions(wish, program, why.ended(scene, store, vocabulary), vocabulary) if wish.explain else None
    asking = sparql.SparqlOptions(wish.query_seconds, wish.query_bytes, {**KNOWN, **PREFIXES}, wish.log_queries)
    lasting = None if wish.kept is None else f"PT{wish.kept // 1_000_000}S"
    routers: list[APIRouter] = [
        sparql.router(store, asking, wish.log),
        subscribe.router(subscriptions, asking),
        feeds.router(outbox, origin, stream, token is not None or wish.local),
        page.router(scene, outbox, wish.status, vocabulary),
        why.router(questions),
        ldes.router(history, lasting),
    ]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposition(meter))
    registry.register(SourceMetrics(program.sources))
    registry.register(AlertMetrics(outbox, stream, alerting.lives.unplaced))
    app = application(
        routers,
        Limits(token, wish.rate, hosts=wish.hosts, streams=wish.streams),
        title=f"semcep: {wish.rules.name}",
        trouble=partial(_trouble, run, history, store),
        lost=lambda: program.sources.lost,
        registry=registry,
        origins=wish.allow_origin,
        root=wish.root,
    )
    return Answers(app, run, tally, outbox, origin, stream, store, scene, subscriptions, questions)


def _service(wish: ServeOptions, program: ServedProgram, tally: RunStats) -> Service:
    engine, teller = program.engine, program.teller
    if teller is None:
        return Service(engine, program.text, wish.rules.name, tally)
    for name in sorted({alert.name for alert in engine.alerts if alert.event not in engine.outputs}):
        told = f"alert {name}: its event is read, not derived, so it is not in the folder"
        wish.log("alert", told, "warning")
    return Relay(engine, program.text, wish.rules.name, tally, teller)


def _questions(wish: ServeOptions, program: ServedProgram, ended: why.Ended, vocabulary: Vocabulary) -> why.Questions:
    """Who answers why, between two batches."""
    known = program.known
    used = None if known is None else Provenance(known, prefixes(wish.knowledge or ()))
    lock = program.batches.lock
    return why.Questions(program.engine, lock, ended, used, program.origins, wish.query_seconds, vocabulary)


def _lost(sources: Sources, outbox: Outbox, scene: Scene) -> None:
    """Whoever asks for alerts is told of sources that are lost, and so is the page."""
    outbox.lost = tuple(sources.lost)
    scene.without(outbox.lost)


def _damaged(wish: ServeOptions, error: CepError) -> None:
    """Old changes of alerts are; the server goes on, since who reads them is told so."""
    wish.log("damaged", str(error), "error", code=error.code)


def _trouble(run: Run, history: History, store: StoreProcess) -> str | None:
    """Why nothing can be asked; None: it can."""
    return run.failed or history.trouble or (None if store.alive else "the store is being opened again")
