"""The command `cep`: check, plan and run programs of event rules, and the demos; where everything is put together."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cep.errors import CepError, CepErrors, Source

# Commands import what they need when they run: `cep --help` is to answer at once.

CLEAN, DEAD_LETTERS, REFUSED, STOPPED = 0, 1, 2, 130

app = typer.Typer(
    name="cep",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
demos = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(demos, name="demo", help="Programs on real data.", short_help="Programs on real data.")

Rules = Annotated[Path, typer.Argument(metavar="RULES", help="A file of event rules.", show_default=False)]
Policy = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="The program's default policy: unrestricted, recent, chronological."),
]


def main() -> NoReturn:
    """The entry point of the command."""
    try:
        app(prog_name="cep")
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    sys.exit(CLEAN)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cep {version('semcep')}")
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
    rules: Annotated[list[Path], typer.Argument(metavar="RULES...", help="Files of event rules.", show_default=False)],
) -> None:
    """Read programs and say all that is wrong with them.

    \b
      cep check rules.cep

    Warnings name what is no mistake but grows without end. The exit status is 2 if there is an error.
    """
    from cep.engine import Engine
    from cep.progress import count
    from cep.syntax.ast import EventRule, StaticRule
    from cep.syntax.parser import parse

    refused = False
    for path in rules:
        try:
            source = _source(path)
            engine = Engine.from_source(source)
        except CepError as error:
            refused = True
            errors = error.errors if isinstance(error, CepErrors) else (error,)
            _complain(error)
            typer.echo(f"{path}: {count(len(errors), 'error')}")
            continue
        for warning in engine.warnings:
            _complain(warning)
        statements = parse(source).statements
        parts = (
            count(sum(isinstance(statement, EventRule | StaticRule) for statement in statements), "rule"),
            count(len(engine.inputs | engine.outputs), "event type"),
            count(0, "error"),
            count(len(engine.warnings), "warning"),
        )
        typer.echo(f"{path}: {', '.join(parts)}")
    raise typer.Exit(REFUSED if refused else CLEAN)


@app.command()
def plan(rules: Rules, policy: Policy = None) -> None:
    """Show how a program is run: binary goals, what they share, join keys, horizons.

    \b
      cep plan rules.cep
    """
    with _refusing():
        from cep.engine import Engine
        from cep.plan.explain import explain

        typer.echo(explain(Engine.from_source(_source(rules), policy=policy).plan))


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
            help="A file, a directory, a pattern, `-` for standard input; `name=file` says which event the file "
            "holds. Repeatable; the inputs are read one after the other.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Of the input: jsonl, csv, parquet. By default the suffix tells."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where derived events go.")] = "-",
    output_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Of the output: jsonl, csv, parquet. By default the suffix tells."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Write derived events of this type only. Repeatable.", show_default=False),
    ] = None,
    policy: Policy = None,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="How much later than others an event may come: `10min`, `PT10M`.")
    ] = "0",
    dead_letter: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where records go that cannot be read, each with its reason.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there were dead letters.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Add to each derived event what it was made of.")] = False,
    facts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            show_default=False,
            help="A table (csv, parquet, jsonl) that defines a static predicate. Repeatable.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="How many records to take at a time.")] = 65_536,
    max_derivations: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many events may be derived at one instant.")
    ] = 1_000_000,
) -> None:
    """Run a program over records and write the events it derives.

    \b
      cep run rules.cep --input reading=weather.csv --dead-letter dead.jsonl
      cep run rules.cep --input 'days/*.parquet' --output storms.csv --only storm
      tail -f events.jsonl | cep run rules.cep --input -
      cep run rules.cep --input events.jsonl --facts linked=links.csv --explain

    Ctrl-C finishes what has been read and ends. The exit status is 0; 1 if there were dead letters and
    --strict is given; 2 if the program or an option is wrong; 130 after Ctrl-C.
    """
    with _refusing():
        from cep.pipeline import Job, perform

        job = Job(
            source=_source(rules),
            inputs=tuple(inputs or ()),
            format=format,
            output=output,
            output_format=output_format,
            only=tuple(only or ()),
            policy=policy,
            lateness=lateness,
            dead_letter=dead_letter,
            explain=explain,
            facts=tuple(facts or ()),
            batch=batch,
            max_derivations=max_derivations,
        )
        for warning in perform:  # placeholder
            pass
