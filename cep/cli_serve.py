"""`cep serve`: a program runs in a thread, and what it derives is served; the place where all of it is put together."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cep.errors import CepError
from cep.logs import LOGS, Log
from cep.options import duration, refuse, waiting
from cep.terminal import (
    CLEAN,
    REFUSED,
    Facts,
    KnowledgeFiles,
    Logging,
    Policy,
    Reasoning,
    Rules,
    compiles,
    facts_of,
    knowledge_of,
    settled,
    text_of,
    warn,
    warnings_of,
)

if TYPE_CHECKING:
    from cep.engine import Engine

LOCAL = ("127.0.0.1", "localhost", "::1")
IDLE = 1.0
"""Seconds of silence after which time goes on by itself where input is live."""


def serve(
    rules: Rules,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="SOURCE",
            show_default=False,
            help="As for `cep run`: a file, a directory, a pattern, `-`, mqtt://, kafka://, tcp://. Repeatable.",
        ),
    ] = None,
    format: Annotated[str | None, typer.Option(metavar="FORMAT", help="Of the input, as for `cep run`.")] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="WHERE",
            show_default=False,
            help="`spark`: the rules run there, and --input is the folder that the job writes.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where it is served; 0.0.0.0 is everywhere.")] = LOCAL[0],
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65_535)] = 8000,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            help="Where events and alerts are kept, to go on from; else they go when it ends.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", show_default=False, help="How long events are kept after their end: 30d."),
    ] = None,
    readings: Annotated[bool, typer.Option("--readings", help="Keep input records too, as observations.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Keep which records an event comes from, and answer why it is there.")
    ] = False,
    remember: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="With --explain: for how long after its end an event can be asked why, by the time of events (24h).",
        ),
    ] = None,
    feed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECEIVER",
            show_default=False,
            help="Where alerts are sent: cloudevents+https://, mqtt://, alertmanager+http://. Repeatable.",
        ),
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Who sends alerts, in CAP: a name nobody else has. Else semcep@ and the host, as at the first start.",
        ),
    ] = None,
    status: Annotated[str, typer.Option(metavar="STATUS", help="Of alerts: Actual, Exercise or Test.")] = "Actual",
    base: Annotated[str, typer.Option(metavar="IRI", help="What IRIs of events begin with.")] = "urn:semcep:",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="A file with the token that requests have to bring."),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Whoever reaches --host may ask, without a token; there is no HTTPS either.")
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", show_default=False, help="Of whose pages browsers may ask (CORS). Repeatable."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="A name by which it may be asked. Repeatable."),
    ] = None,
    rate: Annotated[float, typer.Option(metavar="N", min=0, help="Requests a second of one client; 0: any.")] = 100.0,
    query_seconds: Annotated[float, typer.Option(metavar="N", min=0.1, help="How long a query may take.")] = 10.0,
    query_bytes: Annotated[int, typer.Option(metavar="N", min=1024, help="How large an answer may be.")] = 1 << 26,
    query_memory: Annotated[
        int, typer.Option(metavar="BYTES", min=1 << 28, help="What the store's process may have.")
    ] = 1 << 32,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="With --log json: what was asked too, not only how long it took.")
    ] = False,
    policy: Policy = None,
    lateness: Annotated[
        str | None, typer.Option(metavar="DURATION", show_default=False, help="As for `cep run`: 10min.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="As for `cep run`: 5s; by default 1s where input is live. `never`: time waits for the next record.",
        ),
    ] = None,
    dead_letter: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where records go that cannot be read, each with its reason.")
    ] = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    updates: Annotated[
        list[str] | None,
        typer.Option(
            "--knowledge-updates", metavar="FILE", show_default=False, help="As for `cep run`: rules follow them."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="About how many records to take at a time.")] = 8192,
    max_derivations: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many events may be derived at one instant.")
    ] = 1_000_000,
    log: Logging = "text",
) -> None:
    """Run a program and serve what it derives: SPARQL, event streams, alerts.

    \b
      cep serve rules.cep --input events.jsonl --knowledge stations.ttl
      cep serve rules.cep --input mqtt://broker/readings/# --state /var/lib/semcep --keep 30d
      cep serve rules.cep --on spark --input derived/ --knowledge stations.ttl
      curl localhost:8000/sparql --data-urlencode 'query=SELECT * { ?event a <urn:semcep:type/warning> }'

    It goes on serving when the input has ended, until Ctrl-C. With --state a second start over the same files gives
    the same events the same IRIs; live input goes on where it was.
    """
    told = LOGS[log]
    with settled(told), ExitStack() as stack:
        try:
            import uvicorn
        except ImportError:
            raise refuse("`cep serve` needs a web server", "`pip install 'semcep[serve]'`") from None
        from prometheus_client import CollectorRegistry

        from cep.engine import Engine
        from cep.feed import arrives, changing
        from cep.meter import Meter, charts
        from cep.metrics import Exposition
        from cep.pipeline import Interrupt
        from cep.program import Letters, Rest, Run, Turns, measure
        from cep.progress import Tally
        from cep.spark.sink import Folder
        from connectors.alerts.listener import Alerting
        from connectors.alerts.outbox import Outbox
        from connectors.deadletters import DeadLetters
        from connectors.feeds import document as said
        from connectors.feeds import router as alerts
        from connectors.feeds.document import Origin
        from connectors.feeds.events import Stream
        from connectors.feeds.metrics import Numbers
        from connectors.feeds.senders import sending, targets
        from connectors.files import read, replay
        from connectors.inputs import inputs as find
        from connectors.rdf.history import History
        from connectors.rdf.process import StoreProcess
        from connectors.rdf.words import PREFIXES, Words
        from connectors.serving import ldes, page, sparql, subscribe, why
        from connectors.serving.app import application
        from connectors.serving.guard import Limits
        from connectors.serving.kept import Kept
        from connectors.serving.located import Gazette
        from connectors.serving.scene import Scene
        from connectors.serving.service import Relay, Service
        from connectors.why.origins import MOST, Origins
        from knowledge.rdf.names import KNOWN
        from knowledge.report import prefixes
        from knowledge.used import Used

        token = _token(token_file)
        if token is None and host not in LOCAL:
            if not open_:
                hint = "`--token-file FILE` asks for a token (`openssl rand -hex 32 > FILE`); `--open` does without"
                raise refuse(f"--host {host}: there is no token, so whoever reaches it could ask", hint)
            told("open", f"whoever reaches {host}:{port} may ask", "warning")
        kept = None if keep is None else duration(keep, "--keep")
        if remember is not None and not explain and on is None:
            raise refuse("--remember: there is no --explain", "what led to events is kept with `--explain`")
        if not inputs:
            raise refuse("there is no --input", "name a file, or `--input -` for standard input")
        elsewhere = _elsewhere(
            on,
            {
                "--readings": readings,
                "--explain": explain,
                "--remember": remember,
                "--format": format,
                "--lateness": lateness,
                "--idle": idle,
                "--knowledge-updates": updates,
            },
        )
        if elsewhere and len(inputs) > 1:
            raise refuse("--on spark: there is more than one --input", "the one folder that the job writes")
        text = text_of(rules)
        known = knowledge_of(knowledge, reasoning)
        options: dict[str, Any] = {"name": str(rules), "facts": facts_of(facts), "knowledge": known, "policy": policy}
        made = partial(
            Engine.from_text,
            text,
            lateness=duration(lateness or "0", "--lateness"),
            explain=explain,
            remember=duration(remember or "24h", "--remember") if explain else None,
            max_derivations=max_derivations,
            alerts=True,
            **options,
        )
        engine = made()
        teller = Engine.from_text(text, lateness=None, alerts=True, stage=0, **options) if elsewhere else None
        receivers = targets(feed or ())
        if status not in said.STATUSES:
            raise refuse(f"--status: `{status}` is none", f"it is one of {', '.join(said.STATUSES)}")
        by = None if sender is None else said.sender(sender)
        derived = None if teller is None else Folder(inputs[0], engine.outputs)
        found = find(inputs, engine.inputs, format) if derived is None else []
        live = any(one.size is None for one in found)
        silence = _silence(idle, live, told)
        warn(warnings_of(engine, rules), rules, told)
        compiles(told)
        folder = _folder(state, stack)
        if state is not None:
            changed = stack.enter_context(closing(Kept(folder, engine.meanings()))).changed
            if changed:
                told("changed", f"{', '.join(changed)}: changed since the last start, or gone", events=changed)
        saved = folder / "snapshot" if state is not None and live else None
        for name in updates or ():
            if arrives(name) and not Path(name).is_file():
                raise refuse(f"--knowledge-updates {name}: `cep serve` reads changes from files")
        if saved is not None and updates:
            hint = "without --state, or with input from files"
            raise refuse("--knowledge-updates: live input that goes on from a snapshot cannot have them", hint)
        if saved is not None and saved.is_file():
            engine = _restored(engine, made, saved, told)
        changes = changing(engine, updates, silence)

        tally, interrupt = Tally(), Interrupt()
        if teller is None:
            service = Service(engine, text, str(rules), tally)
        else:
            service = Relay(engine, text, str(rules), tally, teller)
            for name in sorted({alert.name for alert in engine.alerts if alert.event not in engine.outputs}):
                told("alert", f"alert {name}: its event is read, not derived, so it is not in the folder", "warning")
        outbox = stack.enter_context(closing(Outbox(None if state is None else folder / "alerts.db")))
        alerting = Alerting(engine, outbox, lambda text, /, **more: told("alert", text, "warning", **more))
        service.listen(alerting)  # before the store: alerts do not wait for it
        words = Words(base)
        store = stack.enter_context(closing(StoreProcess(folder / "events", words, query_memory)))
        history = History(service, store, words, kept, readings, again=not live)
        history.begin(known)
        origin = Origin(rules.name, base, by or outbox.kept("sender", said.own_name(base)), status)
        stream = Stream(outbox, status)
        scene = Scene(service, Gazette.of(known))
        meter = Meter(charts(engine.plan))
        letters = stack.enter_context(closing(Letters(DeadLetters(dead_letter))))
        service.listen(lambda one: measure(meter, engine, one, letters, tally.dead))
        asking = sparql.Asking(query_seconds, query_bytes, {**KNOWN, **PREFIXES}, log_queries)
        subscriptions = subscribe.Subscriptions(history, engine.outputs, subscribe.Pace())
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Exposition(meter))
        registry.register(Numbers(outbox, stream, alerting.lives.unplaced))
        origins = Origins(MOST, engine.position)
        rest = Rest() if any(one.address is not None and one.address.kind != "tcp" for one in found) else None
        batches = Turns(
            derived.follow()
            if derived is not None
            else origins.noted(
                (read if lateness else replay)(
                    inputs, engine.inputs, format=format, rows=batch, chunk=batch * 128, idle=silence, rest=rest
                )
            )
        )
        used = None if known is None else Used(known, prefixes(knowledge or ()))
        looked_up = why.ended(scene, store, words)
        questions = (
            why.Questions(engine, batches.lock, looked_up, used, origins, query_seconds, words) if explain else None
        )
        run = Run(teller or engine, batches, tally, service, letters, interrupt, saved, told, changes, rest)
        app = application(
            [
                sparql.router(store, asking, told),
                subscribe.router(subscriptions, asking),
                alerts.router(outbox, origin, stream, token is not None or host in LOCAL),
                page.router(scene, outbox, status, words),
                why.router(questions),
                ldes.router(history, lambda: engine.watermark, None if kept is None else f"PT{kept // 1_000_000}S"),
            ],
            Limits(token, rate, hosts=_hosts(host, allow_host)),
            title=f"semcep: {rules.name}",
            trouble=lambda: (
                run.failed or history.trouble or (None if store.alive else "the store is being opened again")
            ),
            registry=registry,
            origins=allow_origin or (),
        )

        class Server(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                if self.started:
                    here = self.servers[0].sockets[0].getsockname()
                    name = f"[{here[0]}]" if ":" in here[0] else here[0]
                    told("serving", f"serving http://{name}:{here[1]}/", url=f"http://{name}:{here[1]}/")
                    run.start()

            async def shutdown(self, sockets: Any = None) -> None:
                stream.close()  # streams have no end of their own
                store.hush()  # nor need a query have one soon
                scene.close()
                await subscriptions.close()
                if questions is not None:
                    questions.close()
                await super().shutdown(sockets)

        _roomy()
        server = Server(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                log_config=None,
                access_log=False,
                server_header=False,
                h11_max_incomplete_event_size=1 << 18,
                timeout_graceful_shutdown=5,
                lifespan="off",
            )
        )
        stack.enter_context(
            sending(outbox, receivers, origin, lambda name, text, /, **more: told("feed", f"{name}: {text}", **more))
        )
        _heard(told, lambda: server.started)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn gives the signal back when it is done
            stack.callback(signal.signal, number, signal.signal(number, lambda number, frame: None))
        try:
            server.run()
        except SystemExit:
            hint = "`--port 0` takes a free one"
            raise refuse(f"--port {port}: the address {host}:{port} cannot be had", hint) from None
        finally:
            run.end()
        told("stop", tally.closing(), **tally.numbers())
        if run.error is not None and not isinstance(run.error, CepError):
            raise run.error
    raise typer.Exit(CLEAN if run.failed is None else REFUSED)


def _elsewhere(on: str | None, given: Mapping[str, object]) -> bool:
    """Whether the rules run on Spark. CepError: they run nowhere, or what is given is for a run in this process."""
    if on is None:
        return False
    if on != "spark":
        raise refuse(f"--on: `{on}` is nothing that programs run on", "`--on spark`, or none for one process")
    for option, value in given.items():
        if value:
            raise refuse(f"{option} is not for `--on spark`", "the folder holds what the job has derived")
    return True


def _silence(idle: str | None, live: bool, told: Log) -> float | None:
    """The seconds of silence after which time goes on by the clock, None: never. Live it does, unless `idle` is
    `never`: an alert is not to wait for a record that may not come."""
    if idle is not None and idle.strip() != "never":
        return waiting(idle, not live)
    if idle is not None or not live:
        return None
    after = f"when nothing has come for {IDLE:g} s, time goes on by the clock (less --lateness)"
    told("idle", f"{after}; `--idle` takes another duration, or `never`", seconds=IDLE)
    return IDLE


def _heard(told: Log, begun: Callable[[], bool]) -> None:
    """What the web server complains of is told like all else, once it has begun; before, it raises."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if begun():
                told("server", self.format(record), "error" if record.levelno >= logging.ERROR else "warning")

    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Handler(logging.WARNING)], False


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise refuse(f"--token-file: {file} is no text") from None
    except OSError as error:
        raise refuse(f"--token-file: {file}: {(error.strerror or str(error)).lower()}") from None
    if len(token) < 16 or not token.isascii() or set(token) & set(' ";,\\\t\r\n'):
        raise refuse(f"--token-file: {file} holds no good token", "16 letters or more: `openssl rand -hex 32 > token`")
    return token


def _hosts(host: str, allowed: list[str] | None) -> frozenset[str]:
    """The names by which a server on this machine is asked: pages of others cannot take one of them. Elsewhere any."""
    if host not in LOCAL and not allowed:
        return frozenset()
    return frozenset((*LOCAL, host, *(name.lower() for name in allowed or ())))


def _roomy() -> None:
    """As many connections as the system allows: by default it lets a process have fewer than many clients need."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _folder(state: Path | None, stack: ExitStack) -> Path:
    if state is None:
        return Path(stack.enter_context(TemporaryDirectory(prefix="semcep-")))
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"--state {state}: {(error.strerror or str(error)).lower()}") from None
    return state


def _restored(engine: Engine, made: Callable[..., Engine], saved: Path, told: Log) -> Engine:
    """The engine with what was saved; of another program with that of the rules that mean the same."""
    from cep.runtime.carried import Before

    blob = saved.read_bytes()
    try:
        if engine.goes_on(blob):
            return engine.restore(blob)
        if engine.explain:
            raise refuse("the program has changed, and with --explain nothing that is begun can go on in another")
        engine = made(before=Before(blob))
    except CepError as error:
        told("begins_anew", f"{saved}: {error}; the program begins anew", "warning", code=error.code)
        return made()
    on, anew = ([rule for rule, goes in engine.carried.items() if goes is way] for way in (True, False))
    what = f"the program has changed; go on: {', '.join(on) or 'none'}; begin empty: {', '.join(anew) or 'none'}"
    told("carried", what, carried=on, empty=anew)
    return engine
