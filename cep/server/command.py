"""The command `cep serve`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cep.app.cli_options import (
    MOST_DERIVED,
    Batch,
    DeadLetter,
    Facts,
    Idle,
    InputFormat,
    Inputs,
    KnowledgeFiles,
    Lateness,
    Logging,
    MaxDerivations,
    On,
    Policy,
    Reasoning,
    Rules,
    Updates,
)
from cep.app.durations import refuse
from cep.app.terminal import CLEAN, REFUSED, settled
from cep.core.logs import LOGS

SERVER, KEPT, ALERTS, QUESTIONS = "The server", "What is kept", "Alerts", "Questions"


def serve(
    rules: Rules,
    inputs: Inputs = None,
    format: InputFormat = None,
    on: On = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", rich_help_panel=SERVER, help="Where it is served; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65_535, rich_help_panel=SERVER, help="Where on the host; 0 takes a free one."
        ),
    ] = 8000,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            rich_help_panel=KEPT,
            help="Where events and alerts are kept, to go on from; else they go when it ends.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            rich_help_panel=KEPT,
            help="How long events are kept after their end: 30d.",
        ),
    ] = None,
    readings: Annotated[
        bool, typer.Option("--readings", rich_help_panel=KEPT, help="Keep input records too, as observations.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            rich_help_panel=KEPT,
            help="Keep which records an event comes from, and answer why it is there.",
        ),
    ] = False,
    remember: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            rich_help_panel=KEPT,
            help="With --explain: for how long after its end an event can be asked why, by the time of events (24h).",
        ),
    ] = None,
    feed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECEIVER",
            show_default=False,
            rich_help_panel=ALERTS,
            help="Where alerts are sent: cloudevents+https://, mqtt://, alertmanager+http://. Repeatable.",
        ),
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            rich_help_panel=ALERTS,
            help="Who sends alerts: alerts@example.org, which nobody else is, or 'Weather Service "
            "<alerts@example.org>'. Else semcep@ and the host, as at the first start.",
        ),
    ] = None,
    status: Annotated[
        str, typer.Option(metavar="STATUS", rich_help_panel=ALERTS, help="Of alerts: Actual, Exercise or Test.")
    ] = "Actual",
    base: Annotated[
        str, typer.Option(metavar="IRI", rich_help_panel=KEPT, help="What IRIs of events begin with.")
    ] = "urn:semcep:",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            rich_help_panel=SERVER,
            help="A file with the token that requests have to bring.",
        ),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open",
            rich_help_panel=SERVER,
            help="Whoever reaches --host may ask, without a token; there is no HTTPS either.",
        ),
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            show_default=False,
            rich_help_panel=SERVER,
            help="Of whose pages browsers may ask (CORS). Repeatable.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            rich_help_panel=SERVER,
            help="A name by which it may be asked. Repeatable.",
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0, rich_help_panel=SERVER, help="Requests a second of one client; 0: any.")
    ] = 100.0,
    streams: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            rich_help_panel=SERVER,
            help="Event streams that one client may have open, 0: any number. Else 200, and any from this machine.",
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            show_default=False,
            rich_help_panel=SERVER,
            help="The path below which a proxy in front shows it: /semcep.",
        ),
    ] = "",
    query_seconds: Annotated[
        float, typer.Option(metavar="N", min=0.1, rich_help_panel=QUESTIONS, help="How long a query may take.")
    ] = 10.0,
    query_bytes: Annotated[
        int, typer.Option(metavar="N", min=1024, rich_help_panel=QUESTIONS, help="How large an answer may be.")
    ] = 1 << 26,
    query_memory: Annotated[
        int,
        typer.Option(
            metavar="BYTES", min=1 << 28, rich_help_panel=QUESTIONS, help="What the store's process may have."
        ),
    ] = 1 << 32,
    log_queries: Annotated[
        bool,
        typer.Option(
            "--log-queries",
            rich_help_panel=QUESTIONS,
            help="With --log json: what was asked too, not only how long it took.",
        ),
    ] = False,
    policy: Policy = None,
    lateness: Lateness = None,
    idle: Idle = None,
    dead_letter: DeadLetter = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    updates: Updates = None,
    batch: Batch = 8192,
    max_derivations: MaxDerivations = MOST_DERIVED,
    log: Logging = "text",
) -> None:
    """Serve what a program derives: a page, SPARQL, alerts.

    \b
      cep serve rules.cep --input events.jsonl --knowledge stations.ttl
      cep serve rules.cep --input mqtt://broker/hall/# --state kept --keep 30d
      cep serve rules.cep --on spark --input derived --knowledge stations.ttl
      curl localhost:8000/feeds/atom

    It goes on serving when the input has ended, until Ctrl-C. With --state a second start over the same files gives
    the same events the same IRIs; live input goes on where it was.
    """
    told = LOGS[log]
    with settled(told):
        try:
            from cep.server.server import served
        except ModuleNotFoundError as error:
            if error.name not in ("fastapi", "starlette", "uvicorn"):
                raise
            raise refuse("`cep serve` needs a web server", "`pip install 'semcep[serve]'`") from None
        from cep.server.options import ServeOptions

        wish = ServeOptions(
            rules=rules,
            inputs=inputs or (),
            format=format,
            on=on,
            host=host,
            port=port,
            state=state,
            keep=keep,
            readings=readings,
            explain=explain,
            remember=remember,
            feed=feed or (),
            sender=sender,
            status=status,
            base=base,
            token_file=token_file,
            open=open_,
            allow_origin=allow_origin or (),
            allow_host=allow_host or (),
            rate=rate,
            streams=streams,
            root_path=root_path,
            query_seconds=query_seconds,
            query_bytes=query_bytes,
            query_memory=query_memory,
            log_queries=log_queries,
            policy=policy,
            lateness=lateness,
            idle=idle,
            dead_letter=dead_letter,
            facts=facts,
            knowledge=knowledge,
            reasoning=reasoning,
            updates=updates or (),
            batch=batch,
            max_derivations=max_derivations,
            log=told,
        )
        ended_well = served(wish)
    raise typer.Exit(CLEAN if ended_well else REFUSED)
