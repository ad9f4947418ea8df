"""Measurements of whole processes: `cep run` over files, a tiny program from start to exit, many calls of `detect`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import polars as pl

from benchmarks import streams
from benchmarks.measure import ONE_CORE
from benchmarks.table import Line, Target
from benchmarks.watch import Watch

ROOT = Path(__file__).parent.parent
RUNS = 3

RISE = """\
event a(id: int, x: int) TIME time.
rise(I, X, Y) <- (a(I, X) SEQ a(I, Y) WHERE Y > X + 500) WITHIN 1 s POLICY recent.
"""

FILES = {"parquet": 1_500_000, "csv": None, "jsonl": 400_000}
"""The target by format: events per CPU second that are read, processed and written."""


def lines(events: int, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`. Each is measured when it is yielded."""
    with tempfile.TemporaryDirectory() as folder:
        for format, rate in FILES.items():
            if only in f"cep run {format}":
                yield run_file(Path(folder), format, events, rate)
        if only in "tiny program":
            yield tiny(Path(folder))
    if only in "detect":
        yield detect()


def run_file(folder: Path, format: str, events: int, rate: int | None) -> Line:
    """Measure `cep run` from a file of events to a file of the same format, from start to exit."""
    rules, source, target = folder / "rise.cep", folder / f"a.{format}", folder / f"out.{format}"
    rules.write_text(RISE)
    write(streams.mixed({"a": "x"}, events, 100, seed=1).tables["a"], source)
    inputs = str(source) if format == "jsonl" else f"a={source}"
    command = ["run", str(rules), "--input", inputs, "--output", str(target)]
    runs = [cep(command) for _ in range(RUNS + 1)][1:]  # the first fills the kernels' cache
    value = events / statistics.median(cpu for cpu, _, _ in runs)
    peak = max(peak for _, _, peak in runs)
    targets = () if rate is None else (Target(f"{rate / 1e6:g}M", value >= rate),)
    return Line(f"cep run {format}", value, events=events, keys=100, peak=peak, targets=targets)


def tiny(folder: Path) -> Line:
    """Measure one rule and two events, from the command to its exit, in wall time."""
    rules, source = folder / "tiny.cep", folder / "tiny.jsonl"
    rules.write_text("fire(R) <- (smoke(R) SEQ heat(R)) WITHIN 30 s.\n")
    records: list[dict[str, Any]] = [
        {"type": "smoke", "time": 1, "args": ["kitchen"]},
        {"type": "heat", "time": 4, "args": ["kitchen"]},
    ]
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    runs = [cep(["run", str(rules), "--input", str(source)]) for _ in range(RUNS + 3)][1:]
    value = statistics.median(wall for _, wall, _ in runs)
    return Line("tiny program", value, "s", events=2, targets=(Target("1.5 s", value <= 1.5),))


def detect() -> Line:
    """Measure calls of `detect` per second, each with a new program."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.processes"],
        env={**os.environ, **ONE_CORE},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    value = float(done.stdout)
    return Line("detect", value, "calls/s", events=20, targets=(Target("200 calls", value >= 200),))


def cep(arguments: list[str]) -> tuple[float, float, int]:
    """Run the command. Return its CPU seconds, its wall seconds and its peak memory in MB."""
    started = perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "cep", *arguments], env={**os.environ, **ONE_CORE}, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"cep {' '.join(arguments)} ended with {child.returncode}"
    unit = 1_000_000 if sys.platform == "darwin" else 1000
    return usage.ru_utime + usage.ru_stime, perf_counter() - started, round(usage.ru_maxrss / unit)


def write(table: pl.DataFrame, path: Path) -> None:
    """Write events of type `a` to a file. In text formats, times are ISO 8601."""
    moment = pl.col("start").cast(pl.Datetime("us", "UTC")).alias("time")
    columns = table.select(moment, pl.exclude("start", "end"))
    if path.suffix == ".parquet":
        columns.write_parquet(path)
        return
    text = columns.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    if path.suffix == ".csv":
        text.write_csv(path)
    else:
        text.select(pl.lit("a").alias("type"), pl.all()).write_ndjson(path)


PATTERNS = (
    "(a(I, X) SEQ b(I, Y))",
    "(a(I, X) AND b(I, Y))",
    "(a(I, X) SEQ b(I, Y) SEQ a(I, Z))",
    "(a(I, X) SEQ b(I, Y) WHERE X < Y + {n})",
    "NOT(b(I, 7)).[a(I, X), a(I, Y)]",
    "a(I, X) UNLESS b(I, {n})",
)


def programs() -> list[str]:
    """Return small programs, all different."""
    return [
        f"policy {policy}. e{n}(I, X) <- {pattern.format(n=n)} WITHIN {n + 1} s. f(I) <- e{n}(I, X) SEQ b(I, X)."
        for n in range(20)
        for policy in ("unrestricted", "recent", "chronological")
        for pattern in PATTERNS
    ]


def main() -> None:
    """Print the number of calls per CPU second. This runs in the child process."""
    from cep.engine import detect
    from cep.events import Event

    times = range(0, 20_000_000, 1_000_000)
    events = [Event("ab"[n % 2], (n // 2 % 3, n % 5), time, time) for n, time in enumerate(times)]
    first, *rest = programs()
    detect(first, events)
    watch = Watch()
    with watch:
        for program in rest:
            detect(program, events)
    print(len(rest) / watch.median)


if __name__ == "__main__":
    main()
