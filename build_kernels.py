"""Compile the kernels that the package brings: `python build_kernels.py`, for this processor; `--all`: for all.

Which kernels there are, and for which types, is found by running programs over a few records: those of the benchmarks
and of the cases of the tests, in the ways a program can run and through files, and the commands of the documentation.
The kernels they compile are kept in `cep/compiled` (`cep.core.kernel_cache`). A kernel that is missing there is
compiled when it is first called.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
EVENTS, KEYS = 300, 5
WAYS: tuple[dict[str, Any], ...] = ({}, {"revise": 10**12, "explain": True})
"""The options of engines that run other kernels."""
FORMATS = ("csv", "jsonl", "parquet")
FILED = ("seq2 recent", "text recent", "sum of 10 s", "blizzard", "fluent")
"""Workloads whose events are also read from files, and what they derive is written to some."""
LARGE = ("rules by", "live goals", "closure")
"""How workloads begin that are more of what others are."""

BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A block of a page: its kind, the name of its file, its text."""

Run = Callable[[], object]


def runs(folder: Path) -> Iterator[Run]:
    """Programs to run, each by itself."""
    from benchmarks.workloads import workloads
    from tests.cases_format import FOLDER, read_case

    for workload in workloads.values():
        if workload.name.startswith(LARGE):
            continue
        program, stream = workload.program(KEYS), workload.stream(EVENTS, KEYS)
        options = {} if workload.options is None else workload.options(KEYS)
        for way in WAYS:
            yield partial(push, program, list(stream.batches(EVENTS // 2)), {**options, **way})
        for format in FORMATS if workload.name in FILED else ():
            for words in (), ("--explain",), ("--revise", "1h"):
                yield partial(command, program, stream.tables, format, words, folder)
    for path in sorted(FOLDER.rglob("*.case")):
        case = read_case(path)
        if "error" not in case.sections and case.knowledge is None:
            for way in WAYS:
                yield partial(push, case.program, [case.events], {"policy": case.policy, **way})

    yield partial(pages, folder)
    yield partial(in_workers, folder)


def pages(folder: Path) -> None:
    """The programs of the documentation over their events, and its commands over the files that it shows."""
    from tests.cases_format import read_events

    os.chdir(folder)
    program = ""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for kind, name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            program = text if kind == "cep" else program
            if kind == "console":
                for line in re.findall(r"^\$ cep ((?:run|explain) (?!.*(?:--on|://))[^|&<>\n]+)$", text, re.MULTILINE):
                    invoke(shlex.split(line, comments=True))
            elif kind == "events":
                for way in WAYS:
                    with suppress(Exception):
                        push(program, [read_events(text)], way)
            elif re.fullmatch(r"[\w.-]+", name) and kind in ("cep", "csv", "json", "turtle"):
                (folder / name).write_text(text)


def in_workers(folder: Path) -> None:
    """A file that is read and run in several processes."""
    from benchmarks.workloads import workloads

    workload = workloads["seq2 recent"]
    tables = workload.stream(EVENTS, KEYS).tables
    command(workload.program(KEYS), tables, "csv", ("--workers", "2"), folder)


def invoke(words: list[str]) -> None:
    """A command in this process."""
    from typer.testing import CliRunner

    from cep.command import app

    CliRunner().invoke(app, words)


def push(program: str, batches: list[Any], options: dict[str, Any]) -> None:
    """A stream, stopped and gone on with in its middle."""
    from cep.engine import Engine

    engine = Engine.from_text(program, **options)
    for batch in batches:
        engine.push(batch)
        engine = Engine.from_text(program, **options).restore(engine.snapshot())
    engine.close()


def command(program: str, tables: dict[str, Any], format: str, words: tuple[str, ...], folder: Path) -> None:
    """`cep run` with files."""
    import polars as pl

    rules = folder / "rules.cep"
    rules.write_text(program)
    inputs = []
    for event, table in tables.items():
        path = folder / f"{event}.{format}"
        records = table.select(pl.col("start").cast(pl.Datetime("us")).alias("t"), pl.exclude("start", "end"))
        if format == "csv":
            records.write_csv(path)
        elif format == "jsonl":
            records.with_columns(pl.col("t").dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(path)
        else:
            records.write_parquet(path)
        inputs += ["--input", f"{event}={path}"]
    invoke(["run", str(rules), *inputs, *words, "--output", str(folder / f"out.{format}")])


def run(part: int, parts: int) -> None:
    """Run the programs of one of `parts` processes that share them."""
    with tempfile.TemporaryDirectory() as made, open(os.devnull, "w") as nowhere:
        for number, each in enumerate(runs(Path(made))):
            if number % parts == part:
                with suppress(Exception), redirect_stdout(nowhere), redirect_stderr(nowhere):
                    each()  # a program that cannot run in this way compiles nothing


def compile_like(folder: Path, part: int, parts: int) -> None:
    """Compile the kernels of a folder again, for another target, for the types that they are compiled for there."""
    for number, path in enumerate(sorted(folder.glob("*.nbi"))):
        module, _, name = path.stem.rpartition(".")
        kernel = getattr(import_module(module), name, None)
        if number % parts == part and kernel is not None:
            for signature, *_ in index(folder, path.stem):
                kernel.compile(signature)


def build(name: str, folder: Path, *words: str) -> None:
    """Compile kernels for a target, in as many processes as there are processors. CalledProcessError: one failed."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_old(folder)
    path = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )  # pip puts what it builds with there
    environment = {**os.environ, "PYTHONPATH": path, "SEMCEP_BUILD_KERNELS": name}
    environment |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    parts = os.cpu_count() or 1
    command = [sys.executable, __file__, *words, f"--parts={parts}"]
    working = [subprocess.Popen([*command, f"--part={part}"], cwd=ROOT, env=environment) for part in range(parts)]
    began, live = time.monotonic(), sys.stderr.isatty()
    while any(each.poll() is None for each in working):
        time.sleep(0.5)
        if live:
            print(told(name, folder, began), end="\r", file=sys.stderr, flush=True)
    print(told(name, folder, began), file=sys.stderr)
    for each in working:
        if each.returncode:
            raise subprocess.CalledProcessError(each.returncode, each.args)
    for path in (*folder.glob("*.lock"), *folder.glob("*.tmp.*")):
        path.unlink()


def remove_old(folder: Path) -> None:
    """Remove the kernels of a folder that are of other sources, or of another numba."""
    for path in folder.glob("*.nbi"):
        if not index(folder, path.stem):
            for each in (*folder.glob(f"{path.stem}.*.nbc"), path):
                each.unlink()


def index(folder: Path, name: str) -> dict[Any, str]:
    """The compiled code of a kernel by key; empty where it is not as its sources are."""
    from cep.core.kernel_cache import stamp
    from cep.core.kernel_files import KernelFile

    with suppress(OSError):  # its module is gone
        return KernelFile(str(folder), name, stamp(name.rpartition(".")[0])).index()  # type: ignore[no-untyped-call]
    return {}


def told(name: str, folder: Path, began: float) -> str:
    """How far the kernels of a target are."""
    return f"compiling kernels for {name}: {len(list(folder.glob('*.nbi')))}, {time.monotonic() - began:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python build_kernels.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--all", action="store_true", help="for all targets of machines like this one")
    parser.add_argument("--like", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parts", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.part is not None:
        if given.like is None:
            run(given.part, given.parts)
        else:
            compile_like(given.like, given.part, given.parts)
        return
    from cep.core.kernel_cache import target, targets

    here = target()
    if here is None:
        print("kernels are compiled when they are first needed: there are none for this processor", file=sys.stderr)
        return
    build(here.name, here.folder)
    for other in targets() if given.all else ():
        if other != here:
            build(other.name, other.folder, "--like", str(here.folder))


if __name__ == "__main__":
    main()
