"""The command `cep`: check, plan and run programs of event rules, and the demos; where everything is put together."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cep.errors import CepError, CepErrors, Warning

# Commands import what they need when they run: `cep --help` is to answer at once.

CLEAN, DEAD_LETTERS, REFUSED, STOPPED = 0, 1, 2, 130

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.engine import Engine
    from connectors.batch import Batch

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
Facts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE",
        show_default=False,
        help="A table (csv, parquet, jsonl) whose rows are facts of a static predicate. Repeatable.",
    ),
]


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
        with _settled():
            _say(text)
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
    facts: Facts = None,
) -> None:
    """Read programs and say all that is wrong with them.

    \b
      cep check rules.cep

    A warning is no mistake, but worth knowing: what never forgets, for instance. The exit status is 2 if there
    is an error.
    """
    with _settled():
        from cep.engine import Engine
        from cep.progress import count
        from cep.syntax.ast import EventRule, StaticRule
        from cep.syntax.parser import parse

        refused = False
        tables = _facts(facts)
        for path in rules:
            try:
                text = _text(path)
                engine = Engine.from_text(text, name=str(path), facts=tables)
            except CepError as error:
                refused = True
                _complain(error)
                _say(f"{path}: {count(len(error.errors) if isinstance(error, CepErrors) else 1, 'error')}")
                continue
            warnings = _warnings(engine, path)
            for number, warning in enumerate(warnings):
                if number:
                    typer.echo(err=True)
                _complain(warning)
            written = parse(text, str(path)).statements
            counts = (
                count(sum(isinstance(statement, EventRule | StaticRule) for statement in written), "rule"),
                count(len(engine.inputs | engine.outputs), "event type"),
                count(0, "error"),
                count(len(warnings), "warning"),
            )
            _say(f"{path}: {', '.join(counts)}")
    raise typer.Exit(REFUSED if refused else CLEAN)


@app.command()
def plan(rules: Rules, policy: Policy = None, facts: Facts = None) -> None:
    """Show how a program is run.

    \b
      cep plan rules.cep

    Its binary goals in rule text, what they share, the keys they join on, what they remember and until when.
    """
    with _settled():
        from cep.engine import Engine
        from cep.plan.explain import explain

        engine = Engine.from_text(_text(rules), name=str(rules), facts=_facts(facts), policy=policy)
        _say(explain(engine.plan, engine.machine.compiled))


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
            help="A file, a directory, a pattern, `-` for standard input; `name=file` says which event a file holds. "
            "Repeatable. Files are taken together, sorted by time.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Of the input: jsonl, csv, tsv, parquet; else the suffix tells."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where derived events go.")] = "-",
    output_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Of the output, likewise; jsonl on standard output.")
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
            help="When standard input has been silent for so long (and the lateness besides), write what the latest "
            "instant gives; what comes of that instant later is late.",
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
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="About how many records to take at a time.")] = 131_072,
    max_derivations: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many events may be derived at one instant.")
    ] = 1_000_000,
) -> None:
    """Run a program over records and write the events it derives.

    \b
      cep run rules.cep --input reading=weather.csv --dead-letter dead.jsonl
      cep run rules.cep --input 'days/*.parquet' --output storms.csv --only storm
      tail -f events.jsonl | cep run rules.cep --input - --lateness 10min
      cep run rules.cep --input events.jsonl --facts linked=links.csv --explain

    Ctrl-C ends the run after the batch at hand. The exit status is 0; 1 if there were dead letters and --strict
    is given; 2 if the program or an option is wrong; 130 after Ctrl-C.
    """
    with _settled():
        from cep.engine import Engine
        from cep.options import distinct, duration, refuse, selected, waiting
        from cep.pipeline import Interrupt, flow
        from cep.progress import Tally, shown
        from connectors.deadletters import DeadLetters
        from connectors.files import read, replay
        from connectors.inputs import inputs as find
        from connectors.writers import Writer

        engine = Engine.from_text(
            _text(rules),
            name=str(rules),
            facts=_facts(facts),
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
        silence = None if idle is None else waiting(idle, lateness, all(one.size is not None for one in found))
        tally, interrupt = Tally(), Interrupt()
        batches = (read if lateness else replay)(
            inputs, engine.inputs, format=format, rows=batch, chunk=batch * 128, idle=silence
        )
        _warn(_warnings(engine, rules), rules)
        _compiles()
        letters = DeadLetters(dead_letter)
        with (
            closing(letters),
            Writer(output, derived, format=output_format, inputs=engine.inputs if explain else None) as writer,
            shown(tally, quiet=output == "-" and sys.stdout.isatty()),
            interrupt.listening(),
        ):

            def take(batch: Batch | None, tables: dict[str, DataFrame]) -> None:
                if batch is not None and batch.times and not any(writer.counts.values()):
                    writer.times = batch.times  # as the input writes them
                writer.write(tables)

            flow(engine, batches, tally, take, letters, interrupt)
            tally.written = Counter({type: number for type, number in writer.counts.items() if number})
        typer.echo(("stopped: " if interrupt.wished else "") + tally.closing(), err=True)
        if dead_letter is None and (first := letters.first) is not None:
            file = "standard input" if first.file == "-" else first.file
            told = f"the first dead letter is {file}:{first.line}: {first.reason}; `--dead-letter FILE` keeps them"
            typer.echo(told, err=True)
    if interrupt.wished:
        raise typer.Exit(128 + interrupt.wished)
    raise typer.Exit(DEAD_LETTERS if strict and tally.dead else CLEAN)


@demos.command()
def blizzard(
    noaa: Annotated[bool, typer.Option("--noaa", help="The official blizzard: 35 mph and a quarter mile.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the storms into this PNG file.", show_default=False)
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the derived events to this file.", show_default=False)
    ] = None,
) -> None:
    """Find the storms of 2013 at the airports of New York.

    \b
      cep demo blizzard --picture storms.png
    """
    with _settled():
        from demos.blizzard.demo import show

        _compiles()
        _say(show(noaa, picture, output))


@contextmanager
def _settled() -> Iterator[None]:
    """An author's mistake is told and ends with status 2; a reader that has gone, as `head` does, ends in silence."""
    try:
        yield
    except CepError as error:
        _complain(error)
        _drain()
        raise typer.Exit(REFUSED) from None
    except BrokenPipeError:
        _drain()
        raise typer.Exit(CLEAN) from None
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        hint = "name one that may be written to: NUMBA_CACHE_DIR=/var/cache/semcep"
        _complain(CepError("there is no folder to keep the compiled kernels in", hint=hint))
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None


def _say(text: str) -> None:
    """A text on standard output. CepError: it cannot be written."""
    from connectors.sinks import Sink

    Sink("-").write(text.encode("utf-8", "replace") + b"\n")


def _drain() -> None:
    """What standard output still holds and cannot take is dropped: Python would write it again when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(path: Path) -> str:
    from cep.syntax.parser import LONGEST, too_long

    try:
        with path.open("rb") as file:
            text = file.read(4 * LONGEST + 1)  # bytes
        if len(text) > 4 * LONGEST:
            raise too_long(str(path))
        return text.decode("utf-8-sig")
    except OSError as error:
        raise CepError(f"{path}: {(error.strerror or str(error)).lower()}", code="option") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise CepError(
            f"{path}:{line}: this is not UTF-8 text", hint="save the rules as UTF-8", code="option"
        ) from None


def _facts(given: list[str] | None) -> dict[str, DataFrame]:
    """The tables by predicate."""
    from cep.facts import read_facts
    from cep.options import named

    return {name: read_facts(name, Path(file)) for name, file in (named(one, "--facts") for one in given or ())}


def _warnings(engine: Engine, rules: Path) -> tuple[Warning, ...]:
    """Those of the program, and that it does nothing if so."""
    nothing = () if engine.outputs else (Warning(f"{rules} has no rules, so it derives nothing", code="empty"),)
    return (*nothing, *engine.warnings)


def _warn(warnings: Sequence[Warning], rules: Path) -> None:
    """Before a run, a line for each of the first warnings that tell of a likely mistake; not of what never forgets."""
    from cep.progress import count

    likely = [warning for warning in warnings if warning.code != "unbounded"]
    for warning in likely[:3]:
        typer.secho(str(warning).splitlines()[0], err=True, bold=True)
    if likely:
        typer.echo(f"{count(len(warnings), 'warning')} in all, `cep check {rules}` explains", err=True)


def _compiles() -> None:
    """What takes so long, where it does."""
    from cep.progress import compiled

    if not compiled():
        typer.echo("compiling the kernels, once: about half a minute", err=True)


def _complain(told: CepError | Warning) -> None:
    """A message on standard error, whole; in colours on a terminal."""
    for line in str(told).splitlines():
        if line.startswith("hint: "):
            typer.secho(line, err=True, fg="cyan")
        elif line.startswith("    "):
            typer.secho(line, err=True, fg="red" if not line.strip(" ^") else None)
        else:
            typer.secho(line, err=True, bold=bool(line))
