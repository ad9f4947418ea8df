"""The command `cep run`: records in, derived events out, in this process or on Spark."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cep.app import cli_spark
from cep.app.cli_help import INPUT, OUTPUT
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
    Metrics,
    On,
    Policy,
    Reasoning,
    Rules,
    Updates,
)
from cep.app.run_options import RunOptions
from cep.app.terminal import (
    CLEAN,
    DEAD_LETTERS,
    compiles,
    facts_of,
    knowledge_of,
    of_sources,
    settled,
    text_of,
    warn,
    warnings_of,
)
from cep.core.logs import LOGS, objects

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.app.conflicts import Apart
    from cep.app.knowledge_feed import KnowledgeFeed
    from cep.core.schema import Schema
    from cep.engine import Engine
    from connectors.batch import Batch as Records
    from connectors.dead_letters import DeadLetters
    from connectors.inputs import Input
    from connectors.rdf.writer import RdfWriter
    from connectors.writers import Writer

RECORDS = 131_072
"""Records that are taken at a time, about, unless `--batch` says so."""


def run(
    context: typer.Context,
    rules: Rules,
    inputs: Inputs = None,
    format: InputFormat = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Where derived events go: a file, a directory, or a topic, `mqtt://host/topic`, "
            "`kafka://host/topic`; on Spark a directory or a topic.",
        ),
    ] = "-",
    output_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            show_default=False,
            rich_help_panel=OUTPUT,
            help="Of the output: also ntriples, turtle, trig; else the suffix tells; jsonl on standard output.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE",
            show_default=False,
            rich_help_panel=OUTPUT,
            help="Write derived events of this type only. Repeatable.",
        ),
    ] = None,
    policy: Policy = None,
    lateness: Lateness = None,
    idle: Idle = None,
    dead_letter: DeadLetter = None,
    strict: Annotated[
        bool, typer.Option("--strict", rich_help_panel=INPUT, help="Exit with 1 if there were dead letters.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", rich_help_panel=OUTPUT, help="Add to each derived event the input it comes from."),
    ] = False,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    updates: Updates = None,
    batch: Batch = RECORDS,
    max_derivations: MaxDerivations = MOST_DERIVED,
    metrics: Metrics = None,
    log: Logging = "text",
    on: On = None,
    master: cli_spark.Master = None,
    checkpoint: cli_spark.Checkpoint = None,
    once: cli_spark.Once = False,
    follow: cli_spark.Follow = False,
    every: cli_spark.Every = None,
    keep: cli_spark.Keep = None,
    migrate: cli_spark.Migrate = False,
    buckets: cli_spark.Buckets = None,
    files: cli_spark.FilesEach = None,
    conf: cli_spark.Conf = None,
    packages: cli_spark.Packages = None,
) -> None:
    """Run a program over records and write the events it derives.

    \b
      cep run rules.cep --input reading=weather.csv --dead-letter dead.jsonl
      cep run rules.cep --input 'days/*.parquet' --output storms.csv --only storm
      tail -f events.jsonl | cep run rules.cep --input - --lateness 10min
      cep run rules.cep --input events.jsonl --facts linked=links.csv --explain
      cep run rules.cep --input events.jsonl --knowledge stations.ttl
      cep run rules.cep --on spark --input days --output out --checkpoint state

    Ctrl-C ends the run after the batch at hand. The exit status is 0; 1 if there were dead letters and --strict
    is given; 2 if the program, an option or an input is wrong; 3 if a query on Spark has failed on its way;
    130 after Ctrl-C, 143 after SIGTERM.
    """
    told = LOGS[log]
    with settled(told):
        wish = RunOptions(
            rules=rules,
            inputs=inputs,
            format=format,
            output=output,
            output_format=output_format,
            only=only,
            policy=policy,
            lateness=lateness,
            dead_letter=dead_letter,
            strict=strict,
            facts=facts,
            knowledge=knowledge,
            reasoning=reasoning,
            updates=updates,
            max_derivations=max_derivations,
            idle=idle,
            explain=explain,
            on=on,
            master=master,
            checkpoint=checkpoint,
            once=once,
            follow=follow,
            every=every,
            keep=keep,
            migrate=migrate,
            buckets=buckets,
            files=files,
            conf=conf,
            packages=packages,
            metrics=metrics,
            log=told,
        )
        status = cli_spark.run(wish) if wish.spark else _here(wish, batch, context.obj)
    raise typer.Exit(status)


def _here(wish: RunOptions, batch: int, apart: Apart) -> int:
    """The run in this process; the exit status."""
    from cep.app.meter import charts
    from cep.app.pipeline import Interrupt, flow
    from cep.app.watch import Watch
    from cep.runtime.run_stats import RunStats
    from connectors.addresses import bare
    from connectors.dead_letters import DeadLetters
    from connectors.time_format import ISO, form

    source = _sourced(wish, batch)
    engine = source.engine
    tally, interrupt = RunStats(), Interrupt()
    warn(warnings_of(engine, wish.rules), wish.rules, wish.log)
    letters = DeadLetters(wish.dead_letter)
    watch = Watch(charts(engine.plan), tally, wish.log)
    begins = {"program": str(wish.rules), "inputs": [bare(one) for one in wish.inputs or ()]}
    with (
        interrupt.listening(),  # also while files are closed
        closing(letters),
        _writer(wish, source, apart) as writer,
        _compiling(wish),  # outputs that cannot be written have been refused
        watch.looking(wish.metrics, wish.output == "-" and sys.stdout.isatty(), **begins),
    ):
        times = form(source.found, engine.inputs)
        writer.times = times or ISO

        def take(batch: Records | None, tables: dict[str, DataFrame]) -> None:
            nonlocal times
            if times is None and batch is not None and not any(writer.counts.values()):  # as what comes live
                times = batch.times
                writer.times = times or ISO
            writer.write(tables)

        files = [one.path for one in source.found if one.address is None]
        looked_at = watch if wish.metrics is not None or wish.log is objects else None
        flow(engine, source.batches, tally, take, letters, interrupt, looked_at, source.changes)
        tally.empty = [] if interrupt.wished else [name for name in files if name not in tally.held]
        tally.written = Counter({type: number for type, number in writer.counts.items() if number})
    closing_line = ("stopped: " if interrupt.wished else "") + tally.closing()
    wish.log("stop", closing_line, signal=interrupt.wished or None, **tally.numbers())
    if wish.dead_letter is None:
        _first_dead(wish, letters)
    if interrupt.wished:
        return 128 + interrupt.wished
    return DEAD_LETTERS if wish.strict and tally.dead else CLEAN


@dataclass(frozen=True, slots=True)
class _Sourced:
    """A program and what it is given. `derived`: the events that are wanted of it; `found`: the inputs."""

    engine: Engine
    derived: Mapping[str, Schema]
    batches: Iterator[Records]
    changes: KnowledgeFeed
    found: Sequence[Input]


@contextmanager
def _compiling(wish: RunOptions) -> Iterator[None]:
    compiles(wish.log)
    yield


def _sourced(wish: RunOptions, batch: int) -> _Sourced:
    """The program over its inputs, of which nothing is read yet. CepError: an option is wrong."""
    from cep.app.durations import duration, refuse, selected, waiting
    from cep.app.knowledge_feed import arrives, changing
    from cep.engine import Engine
    from connectors.files import read, replay, sizes
    from connectors.inputs import inputs as find
    from connectors.sources import Sources

    engine = Engine.from_text(
        text_of(wish.rules),
        name=str(wish.rules),
        facts=facts_of(wish.facts),
        knowledge=knowledge_of(wish.knowledge, wish.reasoning),
        policy=wish.policy,
        lateness=duration(wish.lateness or "0", "--lateness"),
        explain=wish.explain,
        max_derivations=wish.max_derivations,
    )
    if not wish.inputs:
        raise refuse("there is no --input", "name a file, or `--input -` for standard input")
    derived = selected(engine.outputs, wish.only or ())
    found = find(wish.inputs, engine.inputs, wish.format)
    live = [name for name in wish.updates or () if arrives(name)]
    if [*live, *(one.path for one in found)].count("-") > 1:
        raise refuse("standard input is named twice", "it holds either events or changes of the knowledge")
    stored = all(size is not None for size in sizes(found)) and not live
    silence = None if wish.idle is None else waiting(wish.idle, stored)
    changes = changing(engine, wish.updates, silence)
    batches = (read if wish.lateness else replay)(
        wish.inputs,
        engine.inputs,
        format=wish.format,
        rows=batch,
        chunk=batch * 128,
        idle=silence,
        sources=Sources(of_sources(wish.log)),
    )
    return _Sourced(engine, derived, batches, changes, found)


def _writer(wish: RunOptions, source: _Sourced, apart: Apart) -> Writer | RdfWriter:
    from connectors.addresses import live as is_address
    from connectors.rdf.writer import RdfWriter, rdf_format
    from connectors.writers import Writer

    rdf = None if is_address(wish.output) else rdf_format(wish.output, wish.output_format)
    if rdf is not None:
        return RdfWriter(wish.output, source.derived, source.engine, rdf)
    inputs = source.engine.inputs if wish.explain else None

    def opening(path: str) -> None:
        apart.write("--output", path)

    return Writer(wish.output, source.derived, format=wish.output_format, inputs=inputs, opening=opening)


def _first_dead(wish: RunOptions, letters: DeadLetters) -> None:
    """Where they are not kept, the first one is told."""
    if (first := letters.first) is not None:
        file = "standard input" if first.file == "-" else first.file
        text = f"the first dead letter is {file}:{first.line}: {first.reason}; `--dead-letter FILE` keeps them"
        wish.log("first_dead_letter", text)
