"""Exit statuses, messages and readers of option values, for all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cep.core.errors import CepError, Warning, reason_of
from cep.core.logs import Log, plain
from cep.core.signals import stops
from cep.core.storage.local_copies import fetched
from cep.core.storage.urls import is_url, local_path
from cep.core.suggest import astray, missing

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.compile import CompiledProgram, CompileOptions
    from cep.connectors.brokers.sources import SourceListener
    from cep.core.schema import Schema
    from cep.engine import Engine
    from cep.knowledge.graph import Knowledge
    from cep.rules.static.typed_facts import FactDeclaration

OFTEN = 5.0
"""The number of seconds between two lines about the compilation of kernels."""

CLEAN, DEAD_LETTERS, REFUSED, FAILED = 0, 1, 2, 3

DATA = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".gz", ".zst"), "--input "),
    **dict.fromkeys((".ttl", ".owl", ".rdf", ".nt", ".nq", ".trig"), "--knowledge "),
}
"""The suffixes of data files. Each suffix is mapped to the option that names files of this kind."""


@contextmanager
def reporting_errors(log: Log = plain) -> Iterator[None]:
    """Convert errors inside a `with` block to messages and exit statuses.

    A CepError is reported, and the command exits with 2, or with 3 if a query failed. After Ctrl-C it exits with 130.
    If the process that reads the command's output has ended, as `head` does, the command exits without a message.
    """
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
        hint = "name a folder that only you can write to: NUMBA_CACHE_DIR=/var/cache/semcep"
        _, _, why = str(error).rpartition("no locator available: ")
        why = f": {why}" if why.startswith("others") else ""
        complain(CepError(f"there is no folder for the compiled kernels{why}", hint=hint))
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(stops.code) from None


def say(text: str) -> None:
    """Write a text to standard output. Raises CepError if the text cannot be written."""
    from cep.connectors.writing.sinks import Sink

    Sink("-").write(text.encode("utf-8", "replace") + b"\n")


def drain() -> None:
    """Drop buffered output that cannot be written. Otherwise, Python would try to write it again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def text_of(path: Path, wanted: str | None = None) -> str:
    """Read the text of a program. Raises CepError if the file cannot be read.

    `wanted`: the hint of the error if the file has the suffix of a data file.
    """
    from cep.language.reading import LONGEST, too_long

    if (option := DATA.get(path.suffix)) is not None:
        rules = wanted or f"the program comes first: `cep run rules.cep {option}{path}`"
        raise CepError(f"{path}: by its name this is data, not a program", hint=rules, code="option")
    try:
        with path.open("rb") as file:
            text = file.read(4 * LONGEST + 1)  # bytes
        if len(text) > 4 * LONGEST:
            raise too_long(str(path))
        return text.decode("utf-8-sig")
    except OSError as error:
        hint = _programs_in(path) if path.is_dir() else None if path.exists() else missing(path)
        lost = "no such file" if isinstance(error, FileNotFoundError) else reason_of(error)
        reason = astray(path) or lost
        raise CepError(f"{path}: {reason}", hint=hint, code="option") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise CepError(
            f"{path}:{line}: this is not UTF-8 text", hint="save the rules as UTF-8", code="option"
        ) from None


def _programs_in(folder: Path) -> str:
    from cep.language.reading import OWN, SUFFIXES

    near = next((file for file in sorted(folder.iterdir()) if file.suffix in (OWN, *SUFFIXES) and file.is_file()), None)
    return "name the files of it that hold rules" + ("" if near is None else f": `{near}`")


def facts_of(options: Sequence[str], program: str, name: str, compiling: CompileOptions) -> dict[str, DataFrame]:
    """Read the tables of facts in the form that the program declares. Return them by predicate.

    Raises CepError if a table cannot be read, or if the text is not a program.
    """
    if not options:
        return {}
    from cep.app.durations import name_and_file
    from cep.compile import declared_facts

    declared, unread = declared_facts(program, name, compiling)
    named = [name_and_file(option, "--facts") for option in options]
    return {name: _facts(name, local_path(file), declared.get(name)) for name, file in named if name not in unread}


def _facts(name: str, file: str, declared: FactDeclaration | None) -> DataFrame:
    from cep.app.facts import read_facts

    if not is_url(file):
        return read_facts(name, Path(file), declared)
    with fetched(file, f"--facts {name}") as path:
        return read_facts(name, path, declared)


def knowledge_of(
    files: Sequence[str] | None, reasoning: str | None, fetching: bool = False, folder: Path | None = None
) -> Knowledge | None:
    """Load the knowledge files and apply the reasoning. Returns None if there are no files.

    Also warn of imports that were not loaded.

    - `fetching`: True to fetch knowledge from the addresses of services. Otherwise such addresses are refused.
    - `folder`: the folder in which fetched files are stored. Files of an earlier run are used again.
    """
    if not files:
        if reasoning is not None:
            raise CepError("--reasoning: there is no --knowledge", hint="add `--knowledge stations.ttl`", code="option")
        return None
    from cep.app.things import as_files
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.imports import import_warnings
    from cep.knowledge.literal_places import with_place

    with as_files(files, folder) if fetching else nullcontext(list(files)) as names:
        try:
            known = Knowledge.load(names, "owlrl" if reasoning is None else reasoning)
        except CepError as error:
            raise with_place(error, names) from None
    for warning in import_warnings(known):
        complain(warning)
    return known


def warnings_of(program: Engine | CompiledProgram, rules: str, facts: Collection[str] = ()) -> tuple[Warning, ...]:
    """Return the program's warnings, and a warning for each table in `facts` that no rule reads.

    A program that derives nothing also gets a warning. Alerts count as results if the program was compiled with them.
    """
    from cep.app.facts import unused

    empty = (
        ()
        if program.outputs or program.alerts
        else (Warning(f"{rules} has no rules, so it derives nothing", code="empty"),)
    )
    return (*empty, *unused(facts, program.written.predicates, rules), *program.warnings)


def undeclared(inputs: Mapping[str, Schema]) -> list[str]:
    """Return a note for each undeclared input event, with the attributes that the event's records must have."""
    notes = []
    for name, schema in inputs.items():
        if schema.attributes and not schema.declared:
            names = [f"`{attribute.name}`" for attribute in schema.attributes]
            arguments = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            means = f"its records hold {arguments}, of any type; declare `event {name}(...).` to name and type them"
            notes.append(f"`{name}` is not declared: {means}")
    return notes


def warn(warnings: Sequence[Warning], rules: Sequence[Path], log: Log = plain) -> None:
    """Log the first line of up to three warnings before a run. Warnings about unbounded state are omitted."""
    from cep.runtime.run_stats import count

    likely = [warning for warning in warnings if warning.code != "unbounded"]
    for warning in likely[:3]:
        log("warning", str(warning).splitlines()[0], "warning", code=warning.code)
    if likely:
        log("warnings", f"{count(len(warnings), 'warning')} in all, `cep check {' '.join(map(str, rules))}` explains")


def announce_compiling(log: Log = plain) -> None:
    """Log that kernels are being compiled: once before the first kernel, and then every few seconds."""
    from cep.core.compilation import LIKELY, compilation

    said, begun = 0.0, False

    def listen() -> None:
        nonlocal said, begun
        if not compilation.kernels:
            if begun:  # the first kernel calls it
                return
            begun = True
            log("compiling", f"compiling kernels, once: about {LIKELY} s", seconds=LIKELY)
        elif (state := compilation.state) is not None and compilation.seconds >= said + OFTEN:
            said = compilation.seconds
            log("compiling", state, kernels=compilation.kernels)

    compilation.listener = listen


def announce_spark() -> None:
    """Print on a terminal that Spark is starting, because this takes a while without any output."""
    if sys.stderr is not None and sys.stderr.isatty():
        typer.echo("starting Spark: some seconds", err=True)


def complain(message: CepError | Warning | str) -> None:
    """Write a message to standard error, in colours on a terminal."""
    for line in str(message).splitlines():
        if line.startswith("hint: "):
            typer.secho(line, err=True, fg="cyan")
        elif line.startswith("    "):
            typer.secho(line, err=True, fg="red" if not line.strip(" ^") else None)
        else:
            typer.secho(line, err=True, bold=bool(line))


def source_log(log: Log) -> SourceListener:
    """Return a listener that logs each source that is lost or has recovered."""

    def write(source: str, text: str, /, *, lost: bool) -> None:
        log("source", f"{source}: {text}", "warning" if lost else "info", source=source, lost=lost)

    return write
