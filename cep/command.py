"""The command `cep`: check, plan and run programs of event rules, and the demos; where everything is put together."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cep.app.cli_explain import explain
from cep.app.cli_help import KNOWLEDGE, Sectioned
from cep.app.cli_knowledge import fits, knowing
from cep.app.cli_options import Facts, KnowledgeFiles, Policy, Reasoning, Rules
from cep.app.cli_run import run
from cep.app.terminal import (
    CLEAN,
    REFUSED,
    complain,
    drain,
    facts_of,
    knowledge_of,
    say,
    settled,
    text_of,
    undeclared,
    warnings_of,
)
from cep.core.errors import CepError, CepErrors
from cep.server.command import serve
from demos.command import demos

# Commands import what they need when they run: `cep --help` is to answer at once.

app = typer.Typer(
    name="cep",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """The entry point of the command."""
    try:
        app(prog_name="cep")
    except OSError as error:  # of `--help`, which typer writes, too
        if error.errno != errno.ENOSPC:
            raise
        where = "" if error.filename is None else f" {error.filename}"
        complain(CepError(f"cannot write{where}: {error.strerror}", hint="make room there"))
        drain()
        sys.exit(REFUSED)
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


def check(
    rules: Annotated[
        list[Path] | None, typer.Argument(metavar="RULES", help="Files of event rules.", show_default=False)
    ] = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    shapes: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            rich_help_panel=KNOWLEDGE,
            help="SHACL shapes that the knowledge has to fit. Repeatable.",
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
        from cep.app.durations import refuse
        from cep.engine import Engine
        from cep.language.syntax.ast import EventRule
        from cep.language.syntax.parser import parse
        from cep.rules.terms import StaticRule
        from cep.runtime.run_stats import count

        refused = False
        tables = facts_of(facts)
        known = knowledge_of(knowledge, reasoning)
        if known is None and not rules and not shapes:
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
            for note in undeclared(engine):
                typer.echo(f"{path}: {note}", err=True)
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
        from cep.plan.explain import explain as explained

        engine = Engine.from_text(
            text_of(rules),
            name=str(rules),
            facts=facts_of(facts),
            knowledge=knowledge_of(knowledge, reasoning),
            policy=policy,
            alerts=True,
        )
        say(explained(engine.plan, engine.chained, answers=engine.answers))


for command in (check, plan, run, explain, serve):
    app.command(cls=Sectioned)(command)
app.add_typer(knowing, name="knowledge", help="What knowledge holds.", short_help="What knowledge holds.")
app.add_typer(demos, name="demo", help="Programs on real data.", short_help="Programs on real data.")
