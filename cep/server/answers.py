"""Create the parts of a server that store a program's results, and connect them with the routes for requests."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import polars as pl
from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from cep.app.meter import Meter, charts
from cep.app.metrics import MetricsCollector
from cep.app.pipeline import Interrupt
from cep.app.program_thread import ProgramThread
from cep.connectors.alerts.handling import Handling
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.brokers.sources import Sources
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.store_process import StoreProcess, damaged, is_damage
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.receivers import document
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.metrics import AlertMetrics, MaintenanceMetrics, ProgramMetrics, SourceMetrics
from cep.connectors.receivers.sse import Stream
from cep.connectors.service import Relay, Round, Service
from cep.connectors.serving import alertmanager_api, alerts, feeds, ldes, page, programs, sparql, subscribe, why
from cep.connectors.serving import partial as waiting
from cep.connectors.serving.app import application
from cep.connectors.serving.gazette import Gazette
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People
from cep.connectors.serving.scene import Scene
from cep.connectors.why.live_revisions import LiveRevisions
from cep.connectors.writing.time_format import number_size
from cep.core.compilation import compilation
from cep.core.errors import NO_ROOM, CepError
from cep.core.prefixes import PREFIXES
from cep.core.time import FARTHEST
from cep.engine import Engine
from cep.knowledge.provenance import Provenance
from cep.knowledge.report import prefixes
from cep.plan.input_horizon import InputHorizon
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats
from cep.server.dead_letters import LoggedDeadLetters
from cep.server.live_change import LiveProgram
from cep.server.options import ServeOptions
from cep.server.program import ServedProgram

_VERIFYING = 3.0  # seconds to verify the hashes of the store, enough for some gigabytes, before it is queried


class CurrentApp:
    """The web application of the current program. A live change of the program replaces it between two requests."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.loop = asyncio.get_running_loop()
        await self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Answers:
    """The parts of a server that are created anew for each program."""

    app: FastAPI
    stream: Stream
    scene: Scene
    history: StoreListener
    subscriptions: subscribe.Subscriptions
    questions: why.Questions | None

    async def close(self) -> None:
        """End the responses that have no end of their own, such as streams."""
        self.stream.close()
        self.scene.close()
        await self.subscriptions.close()
        if self.questions is not None:
            self.questions.close()


class ServerParts:
    """All parts of a server. Those of the current program are in `answers`. The others stay when it changes.

    - `app`: the web application.
    - `run`: the thread of the program, which is not started yet.
    - `outbox`: the store of the changes of alerts.
    - `origin`: the sender of these changes.

    The constructor also writes the knowledge to the store. It raises CepError if a part cannot be started.
    """

    def __init__(self, options: ServeOptions, program: ServedProgram, people: People | None, stack: ExitStack) -> None:
        """Create the parts. `people`: the people who may send requests, or None if everybody may."""
        self.options, self.people, self.stats = options, people, RunStats()
        self.outbox = stack.enter_context(
            closing(Outbox(None if options.retention.state is None else program.folder / "alerts.db"))
        )
        threading.Thread(
            target=self.outbox.verify, args=[partial(_damaged, options)], name="outbox", daemon=True
        ).start()
        self.vocabulary = EventVocabulary(options.retention.base)
        self.store = stack.enter_context(
            closing(
                StoreProcess(
                    program.folder / "events",
                    self.vocabulary,
                    options.queries.query_memory,
                    partial(_not_rebuilt, options),
                )
            )
        )
        verified = self.store.verify()
        wait([verified], _VERIFYING)
        if verified.done() and (error := verified.exception()) is not None:
            raise _unstored(program, str(error))
        name, sender = document.parse_sender(
            options.alerts.sender or self.outbox.remembered("sender", document.own_name(options.retention.base))
        )
        self.origin = Publisher(
            options.name, options.retention.base, sender, options.alerts.status, name, options.server.address
        )
        self.handling = Handling(self.outbox, self.origin.title, options.alerts.status, options.alerts.calendar())
        stack.callback(self.handling.stop)
        self.handling.tick()
        threading.Thread(
            target=self.handling.run,
            args=[partial(_untold, options), lambda text: options.log("silence", text, "warning")],
            name="silences",
            daemon=True,
        ).start()
        self.dead_letters = stack.enter_context(closing(LoggedDeadLetters(options.source.dead_letter, options.log)))
        service = _service(options, program, self.stats)
        self.run = ProgramThread(
            program.alert_engine or program.engine,
            program.batches,
            self.stats,
            service,
            self.dead_letters,
            Interrupt(),
            program.journal,
            options.log,
            program.changes,
            program.rest,
        )
        if program.keeps_input:
            self.run.keep_input = _kept_input(options, program)
        self.live = LiveProgram(options, program, self.run, self._begin, lambda action: self.outbox.act([], action))
        self.receivers = dict[str, list[str]]()  # the addresses of each receiver in the file of routes
        for receiver in options.alerts.receivers:
            self.receivers.setdefault(receiver.receiver or "", []).append(receiver.name)
        self.answers = self._answers(program, service, None)
        self.app = CurrentApp(self.answers.app)
        program.sources.listen(lambda: _lost(program.sources, self.outbox, self.answers.scene))
        verified.add_done_callback(partial(_verified, self.run, program))

    async def close(self) -> None:
        """End the responses that have no end of their own, and refuse further queries."""
        self.store.refuse_questions()
        await self.answers.close()

    def _begin(self, program: ServedProgram, closing: Mapping[str, pl.DataFrame]) -> Service:
        """Serve another program from now on, and return the service that publishes its results.

        `closing`: intervals of fluents of the previous program, which ends now.
        """
        before = self.answers
        before.scene.begin(closing)
        service = _service(self.options, program, self.stats)
        answers = self._answers(program, service, before)
        answers.scene.go_on(before.scene)
        if program.meant is not None:
            program.meant.note(program.engine.meanings())
        self.answers, self.app.app = answers, answers.app
        if program.keeps_input:
            self.run.keep_input = _kept_input(self.options, program)
        if self.app.loop is not None:
            asyncio.run_coroutine_threadsafe(before.close(), self.app.loop)
        return service

    def _answers(self, program: ServedProgram, service: Service, before: Answers | None) -> Answers:
        """Create the parts that depend on the program. `before`: the parts of the previous program, or None."""
        options, engine, store, run = self.options, program.engine, self.store, self.run
        log = options.log
        alerting = AlertListener(
            engine, self.outbox, lambda text, /, **more: log("alert", text, "warning", **more), self.handling
        )
        service.listen(alerting)  # before the store: alerts do not wait for it
        history = StoreListener(
            service, store, self.vocabulary, options.retention.keep_for, options.retention.readings,
            again=not program.live, keep_history=options.retention.keep_history,
        )  # fmt: skip
        stream = Stream(self.outbox, self.origin)
        scene = Scene(service, Gazette.of(program.known))
        scene.begin(service.identified(engine.held_now()))
        meter = Meter(charts(engine.plan))
        service.listen(lambda done_round: _measure(meter, engine, done_round, self.dead_letters, self.stats))
        history.troubled = lambda text: run.fail(_unstored(program, text))
        history.begin(program.known, None if before is None else before.history)
        subscriptions = subscribe.Subscriptions(history, service.outputs, subscribe.PollingRate())
        questions = (
            _questions(options, program, why.ended(scene, store, self.vocabulary), self.vocabulary, service)
            if options.retention.explain
            else None
        )
        query_options = sparql.SparqlOptions(
            options.queries.query_seconds, options.queries.query_bytes, PREFIXES, options.queries.log_queries
        )
        lasting = None if options.retention.keep_for is None else f"PT{options.retention.keep_for // 1_000_000}S"
        alone = self.people is None and options.server.local
        routers: list[APIRouter] = [
            sparql.router(store, query_options, log),
            subscribe.router(subscriptions, query_options),
            feeds.router(self.outbox, self.origin, stream, alone),
            alerts.router(self.handling, self.origin, alone, self.people),
            alertmanager_api.router(
                self.handling,
                self.origin,
                options.alerts.routing,
                {alert.name: alert.inhibitor for alert in engine.alerts},
                self.receivers.get("", ()),
                alone,
            ),
            page.router(
                scene,
                self.outbox,
                options.alerts.status,
                self.vocabulary,
                program.version.number,
                alone,
                self.live,
                self.receivers,
            ),
            why.router(questions),
            waiting.router(
                engine if program.alert_engine is None else None, program.batches.lock, options.queries.query_seconds
            ),
            ldes.router(history, lasting),
            programs.router(self.live),
            programs.shadow_router(self.live),
        ]
        registry = CollectorRegistry(auto_describe=False)
        registry.register(MetricsCollector(meter))
        registry.register(SourceMetrics(program.sources))
        registry.register(AlertMetrics(self.outbox, stream, alerting.lifecycle.unplaced))
        registry.register(ProgramMetrics(lambda: run.failed is None))
        registry.register(MaintenanceMetrics(lambda: self.handling.calendar_up))
        app = application(
            routers,
            Limits(
                self.people,
                options.server.rate,
                hosts=options.server.hosts,
                streams=options.server.streams,
                proxies=options.server.proxies,
            ),
            title=f"semcep: {options.name}",
            failed=lambda: run.failed,
            trouble=partial(_trouble, run, history, store, program.sources),
            lost=lambda: program.sources.lost,
            ahead=lambda: self.stats.dead["ahead"],
            registry=registry,
            origins=options.server.allow_origin,
            root=options.server.root,
        )
        return Answers(app, stream, scene, history, subscriptions, questions)


def _kept_input(options: ServeOptions, program: ServedProgram) -> int | None:
    """Return for how many microseconds input is kept for new rules, or None to keep all input.

    With --readings, this is the retention time of events. Otherwise it is the time that the current rules look back.
    """
    if options.retention.readings:
        return options.retention.keep_for
    return InputHorizon.of(program.engine.plan).length + program.behind


def _measure(meter: Meter, engine: Engine, done_round: Round, dead_letters: LoggedDeadLetters, stats: RunStats) -> None:
    """Add the counts of one step of the engine to the metrics, for example the numbers of rows and dead letters."""
    meter.revision = engine.revision_stats
    new, no_records = stats.dead - meter.dead, stats.no_records - meter.no_records
    unmatched, latest = stats.unmatched - meter.unmatched, engine.latest
    late, dead_letters.late = dead_letters.late, Counter()
    refused, dead_letters.refused = dead_letters.refused, Counter()
    meter.take(
        [
            Report(
                read=done_round.read,
                dead=new - refused,
                no_records=no_records,
                unmatched=unmatched,
                latest=latest if any(done_round.read.values()) else None,
            ),
            Report(
                stage=1,
                derived={event: table.height for event, table in done_round.derived.items()},
                late=late,
                dead=refused,
                counts=done_round.counts,
                rows=engine.state_rows,
                bytes=engine.state_bytes,
                watermark=done_round.watermark if -FARTHEST < done_round.watermark < FARTHEST else None,
            ),
        ],
        stats.busy - meter.seconds,
    )


def _service(options: ServeOptions, program: ServedProgram, stats: RunStats) -> Service:
    engine, alert_engine = program.engine, program.alert_engine
    if alert_engine is None:
        return Service(engine, program.text, options.name, stats, program.version.cuts)
    for name in sorted({alert.name for alert in engine.alerts if alert.event not in engine.outputs}):
        text = f"alert {name}: its event is read, not derived, so the folder does not have it"
        options.log("alert", text, "warning")
    return Relay(engine, program.text, options.name, stats, alert_engine)


def _questions(
    options: ServeOptions, program: ServedProgram, ended: why.Ended, vocabulary: EventVocabulary, service: Service
) -> why.Questions:
    """Return the object that answers requests for explanations. It answers them between two batches of the program."""
    known, revisions = program.known, None
    if program.engine.withdraws:
        revisions = LiveRevisions(program.engine)
        service.listen(revisions.take)
    used = None if known is None else Provenance(known, prefixes(options.knowledge.files))
    lock = program.batches.lock
    seconds = options.queries.query_seconds
    unit = number_size(program.inputs, program.engine.inputs)
    return why.Questions(
        program.engine, lock, ended, used, program.origins, seconds, vocabulary, revisions, unit,
        program.since, program.version.cuts,
    )  # fmt: skip


def _lost(sources: Sources, outbox: Outbox, scene: Scene) -> None:
    outbox.lost = tuple(sources.lost)
    scene.without(outbox.lost)


def _not_rebuilt(options: ServeOptions, reason: str) -> None:
    text = f"the store of events could not be rebuilt without the removed events, and keeps its size: {reason}"
    options.log("store", text, "warning")


def _damaged(options: ServeOptions, error: CepError) -> None:
    options.log("damaged", str(error), "error", code=error.code)


def _untold(options: ServeOptions, reason: str) -> None:
    if reason:
        options.log("silence", f"silences are not up to date: {reason}", "error")
    else:
        options.log("silence", "silences are up to date again")


def _verified(run: ProgramThread, program: ServedProgram, verified: Future[None]) -> None:
    error = verified.exception()
    if error is not None and is_damage(str(error)):  # otherwise, the server was closed during the check
        run.fail(_unstored(program, str(error)))


def _unstored(program: ServedProgram, text: str) -> CepError:
    where = f"{program.folder}/events: {text}"
    if is_damage(text):
        return damaged(where)
    hint = "make room there" if NO_ROOM in text else "check the disk and the memory of the store's process"
    return CepError(where, hint=f"{hint}, and start again", code="failed")


def _trouble(run: ProgramThread, history: StoreListener, store: StoreProcess, sources: Sources) -> str | None:
    """Return the reason why the server is not ready, or None if it is ready.

    The server is not ready until each source has connected once, because messages sent before that may be lost. While
    kernels are compiled, it is not ready either.
    """
    awaited = f"waiting for {', '.join(sorted(sources.awaited))}" if sources.awaited else None
    waits = compilation.state or awaited if store.alive else "the store is being opened again"
    return run.failed or history.trouble or waits
