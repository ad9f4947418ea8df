"""The command `cep`: check, plan and run programs of event rules, and the demos; where everything is put together."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cep import cli_spark
from cep.cli_demo import demos
from cep.cli_explain import explain as explained
from cep.cli_knowledge import fits, knowing
from cep.cli_serve import serve
from cep.errors import CepError, CepErrors
from cep.logs import LOGS
from cep.terminal import (
    CLEAN,
    DEAD_LETTERS,
    REFUSED,
    Facts,
    KnowledgeFiles,
    Logging,
    Metrics,
    Policy,
    Reasoning,
    Rules,
    compiles,
    complain,
    facts_of,
    knowledge_of,
    say,
    settled,
    text_of,
    warn,
    warnings_of,
)

# Commands import what they need when they run: `cep --help` is to answer at once.

if TYPE_CHECKING:
    from polars import DataFrame

    from connectors.batch import Batch

app = typer.Typer(
    name="cep",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(demos, name="demo", help="Programs on real data.", short_help="Programs on real data.")
app.add_typer(knowing, name="knowledge", help="What knowledge holds.", short_help="What knowledge holds.")
app.command()(serve)
app.command("explain")(explained)


def main() -> NoReturn:
    """The entry point of the command."""
    app(prog_name="cep")
    raise AssertionError("typer exits")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            text = f"cep {version('semcep')}"
        except PackageNotFoundError:
            text = "cep (run from its source, not installed)"
        with settled():
            say(text)
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Event rules in, derived events out.

    \b
      cep demo blizzard
      cep check rules.cep
      cep run rules.cep --input reading=weather.csv
      cep run rules.cep --input events.jsonl --output derived.parquet
      tail -f events.jsonl | cep run rules.cep --input - --lateness 10min
    """


@app.command()
def check(
    rules: Annotated[
        list[Path] | None, typer.Argument(metavar="RULES...", help="Files of event rules.", show_default=False)
    ] = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    shapes: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", show_default=False, help="SHACL shapes that the knowledge has to fit. Repeatable."
        ),
    ] = None,
) -> None:
    """Read programs and say all that is wrong with them.

    \b
      cep check rules.cep
      cep check rules.cep --knowledge stations.ttl
      cep check --knowledge stations.ttl --shapes shapes.ttl

    Of knowledge, whether its stations have all that a station needs. A warning is no mistake, but worth knowing:
    what never forgets, for instance. The exit status is 2 if there is an error.
    """
    with settled():
        from cep.engine import Engine
        from cep.options import refuse
        from cep.progress import count
        from cep.syntax.ast import EventRule, StaticRule
        from cep.syntax.parser import parse

        refused = False
        tables = facts_of(facts)
        known = knowledge_of(knowledge, reasoning)
        if known is None and not rules:
            raise refuse("there is nothing to check", "name a file of rules, or `--knowledge stations.ttl`")
        if known is not None or shapes:
            refused = not fits(known, shapes, knowledge or ())
        for path in rules or ():
            try:
                text = text_of(path)
                engine = Engine.from_text(text, name=str(path), facts=tables, knowledge=known, alerts=True)
            except CepError as error:
                refused = True
                complain(error)
                say(f"{path}: {count(len(error.errors) if isinstance(error, CepErrors) else 1, 'error')}")
                continue
            warnings = warnings_of(engine, path)
            for number, warning in enumerate(warnings):
                if number:
                    typer.echo(err=True)
                complain(warning)
            written = parse(text, str(path)).statements
            counts = (
                count(sum(isinstance(statement, EventRule | StaticRule) for statement in written), "rule"),
                *([count(len(engine.alerts), "alert")] if engine.alerts else []),
                count(len(engine.inputs | engine.outputs), "event type"),
                count(0, "error"),
                count(len(warnings), "warning"),
            )
            say(f"{path}: {', '.join(counts)}")
    raise typer.Exit(REFUSED if refused else CLEAN)


@app.command()
def plan(
    rules: Rules,
    policy: Policy = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
) -> None:
    """Show how a program is run.

    \b
      cep plan rules.cep

    Its binary goals in rule text, what they share, the keys they join on, what they remember and until when.
    """
    with settled():
        from cep.engine import Engine
        from cep.plan.explain import explain

        engine = Engine.from_text(
            text_of(rules),
            name=str(rules),
            facts=facts_of(facts),
            knowledge=knowledge_of(knowledge, reasoning),
            policy=policy,
            alerts=True,
        )
        say(explain(engine.plan, engine.machine.compiled, answers=engine.answers))


@app.command()
def run(
    rules: Rules,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="SOURCE",
            show_default=False,
            help="A file, a directory, a pattern, `-` for standard input, `mqtt://host/topic`, `kafka://host/topic`; "
            "`name=file` says which event a file holds. Repeatable. Files are taken together, sorted by time.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Of the input: jsonl, csv, tsv, parquet, nquads, jsonld; else the suffix tells."
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where derived events go: a file, a directory, or a topic, `mqtt://host/topic`, "
            "`kafka://host/topic`; on Spark a directory or a topic.",
        ),
    ] = "-",
    output_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Of the output: also ntriples, turtle, trig; else the suffix tells; jsonl on standard output.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Write derived events of this type only. Repeatable.", show_default=False),
    ] = None,
    policy: Policy = None,
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="How much later than others an event may come: 10min, PT10M. Files are then not sorted, but taken as "
            "they stand. By default 0 for standard input.",
        ),
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="When nothing has come live for so long, the time of the events goes on as the clock does, until "
            "something comes: deadlines pass, windows end. On Spark with --follow.",
        ),
    ] = None,
    dead_letter: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where records go that cannot be read, each with its reason.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there were dead letters.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add to each derived event the input it comes from.")
    ] = False,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    updates: Annotated[
        list[str] | None,
        typer.Option(
            "--knowledge-updates",
            metavar="FILE",
            show_default=False,
            help="Changes of the knowledge with their times (.nq, .trig, .jsonld; `-` is N-Quads on standard input): "
            "events from then on are judged by the new state. Repeatable. On Spark also folders: more may come.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="About how many records to take at a time.")] = 131_072,
    max_derivations: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many events may be derived at one instant.")
    ] = 1_000_000,
    metrics: Metrics = None,
    log: Logging = "text",
    on: cli_spark.On = None,
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
    is given; 2 if the program or an option is wrong; 130 after Ctrl-C.
    """
    told = LOGS[log]
    with settled(told):
        wish = cli_spark.Wish(
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
            metrics=metrics,
            log=told,
        )
        if wish.spark:
            raise typer.Exit(cli_spark.run(wish))
        from cep.engine import Engine
        from cep.feed import arrives, changing
        from cep.meter import charts
        from cep.options import distinct, duration, refuse, selected, waiting
        from cep.pipeline import Interrupt, flow
        from cep.progress import Tally
        from cep.watch import Watch
        from connectors.addresses import bare
        from connectors.addresses import live as is_address
        from connectors.deadletters import DeadLetters
        from connectors.files import read, replay
        from connectors.inputs import inputs as find
        from connectors.rdf.writer import RdfWriter, rdf_format
        from connectors.writers import Writer

        engine = Engine.from_text(
            text_of(rules),
            name=str(rules),
            facts=facts_of(facts),
            knowledge=knowledge_of(knowledge, reasoning),
            policy=policy,
            lateness=duration(lateness or "0", "--lateness"),
            explain=explain,
            max_derivations=max_derivations,
        )
        if not inputs:
            raise refuse("there is no --input", "name a file, or `--input -` for standard input")
        derived = selected(engine.outputs, only or ())
        found = find(inputs, engine.inputs, format)
        distinct([one.path for one in found], {"--output": output, "--dead-letter": dead_letter})
        live = [name for name in updates or () if arrives(name)]
        if [*live, *(one.path for one in found)].count("-") > 1:
            raise refuse("standard input is named twice", "it holds either events or changes of the knowledge")
        stored = all(one.size is not None for one in found) and not live
        silence = None if idle is None else waiting(idle, stored)
        feed = changing(engine, updates, silence)
        tally, interrupt = Tally(), Interrupt()
        batches = (read if lateness else replay)(
            inputs, engine.inputs, format=format, rows=batch, chunk=batch * 128, idle=silence
        )
        warn(warnings_of(engine, rules), rules, told)
        compiles(told)
        letters = DeadLetters(dead_letter)
        watch = Watch(charts(engine.plan), tally, told)
        rdf = None if is_address(output) else rdf_format(output, output_format)
        with (
            closing(letters),
            Writer(output, derived, format=output_format, inputs=engine.inputs if explain else None)
            if rdf is None
            else RdfWriter(output, derived, engine, rdf) as writer,
            watch.looking(
                metrics, output == "-" and sys.stdout.isatty(), program=str(rules), inputs=[bare(one) for one in inputs]
            ),
            interrupt.listening(),
        ):

            def take(batch: Batch | None, tables: dict[str, DataFrame]) -> None:
                if batch is not None and batch.times and not any(writer.counts.values()):
                    writer.times = batch.times  # as the input writes them
                writer.write(tables)

            looked_at = metrics is not None or log == "json"
            flow(engine, batches, tally, take, letters, interrupt, watch if looked_at else None, feed)
            tally.written = Counter({type: number for type, number in writer.counts.items() if number})
        closing_line = ("stopped: " if interrupt.wished else "") + tally.closing()
        told("stop", closing_line, signal=interrupt.wished or None, **tally.numbers())
        if dead_letter is None and (first := letters.first) is not None:
            file = "standard input" if first.file == "-" else first.file
            text = f"the first dead letter is {file}:{first.line}: {first.reason}; `--dead-letter FILE` keeps them"
            told("first_dead_letter", text)
    if interrupt.wished:
        raise typer.Exit(128 + interrupt.wished)
    raise typer.Exit(DEAD_LETTERS if strict and tally.dead else CLEAN)
