"""`python -m benchmarks.workers`: the cost of `cep run --workers 2` compared with one process, and its speed-up.

It measures CPU seconds of a steady run from files to files. The start is excluded: the measurement begins when all
output of a first file is written. In each of several turns, one process runs first and then two workers. The turn with
the least time counts. The column of wall time has the least and the greatest speed-up.

The result is a model of a run on two free cores: the run takes at least half of its total CPU time, and at least the
time of its busiest process. In the run's own process, the first thread and the other threads, which write Parquet,
count separately. The first turn, which compiles kernels, counts like the others. A million events are too few for two
workers: use `--events 12000000`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import clock_gettime, perf_counter, process_time, thread_time

from benchmarks import streams
from benchmarks.measure import ONE_CORE
from benchmarks.processes import ROOT, write

READING = "event a(id: int, x: int) TIME time.\n"
CORES = 2
ROWS, CHUNK = 1 << 17, 1 << 22
"""The rows and bytes that are read at a time. They contain about equally many events of Parquet and of text."""


def rules(count: int) -> str:
    """Return a program of `count` rules over readings, which has few results."""
    kinds = (
        "rise{n}(I, X, Y) <- (a(I, X) SEQ a(I, Y) WHERE Y > X + {top}) WITHIN 10 s POLICY recent.",
        "peak{n}(I, M) <- (a(I, X) AGGREGATE M = max(X) OVER LAST {many} EVENTS BY I) WHERE M > 998, X = M.",
        "low{n}(I, A) <- (a(I, X) AGGREGATE A = avg(X) OVER LAST {many} s BY I) WHERE A < 30.",
        "fall{n}(I, Z) <- ((a(I, X) SEQ a(I, Y) WHERE Y < X - 450) SEQ a(I, Z) WHERE Z < Y - 450) WITHIN {many} s.",
        "calm{n}(I, X) <- (a(I, X) WHERE X > {top}) UNLESS a(I, _) WITHIN {many} s.",
    )
    made = (kinds[n % len(kinds)].format(n=n, top=900 + n, many=20 + n) for n in range(count))
    return READING + "\n".join(made) + "\n"


README = """\
warming(I, X, Y) <- (a(I, X) SEQ a(I, Y) WHERE X > 900, Y > X) WITHIN 10 s.
silent(I, X) <- a(I, X) UNLESS a(I, _) WITHIN 10 s.
"""
EACH = "mean(I, M) <- a(I, X) AGGREGATE M = avg(X) OVER LAST 3 EVENTS BY I.\n"


def program(name: str) -> str:
    """Return the program of a case: the README's first program, a program that derives an event from each reading, or a
    program with many rules."""
    if name == "README":
        return READING + README
    return READING + EACH if name == "mean of each" else rules(int(name.split()[0]))


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of a run's own process, its first thread, and each worker; wall seconds; the derived events."""

    own: float
    first: float
    workers: tuple[float, ...]
    clock: float
    derived: int

    @property
    def all(self) -> float:
        return self.own + sum(self.workers)

    def least(self, cores: int) -> float:
        """Return the minimum seconds that the run takes on this many free cores."""
        return max(self.all / cores, self.first, self.own - self.first, *self.workers)


def run(text: str, first: Path, source: Path, target: Path, workers: int) -> Measured:
    """Measure a steady run over the second file. The first one loads kernels and fills windows."""
    from cep.compile import CompileOptions, compiled
    from cep.connectors.files import read
    from cep.connectors.writing.writers import Writer
    from cep.core.time import END_OF_TIME
    from cep.engine import Engine
    from cep.runtime.options import EngineOptions
    from cep.workers.partitioned_engine import PartitionedEngine

    made = compiled(text, "<program>", CompileOptions())
    engine = Engine(made) if workers == 1 else PartitionedEngine(made, EngineOptions(), workers)
    numbers, readers = (engine.processes, engine.readers) if isinstance(engine, PartitionedEngine) else ([], None)
    engine.run_ahead(3)
    began, first_began, before, clock, records, derived = 0.0, 0.0, [0.0] * len(numbers), 0.0, 0, 0
    for file in (first, source):
        with Writer(str(target), engine.outputs) as writer:
            if isinstance(engine, PartitionedEngine):
                writer.write_beside()
                if writer.of_rows is not None:
                    engine.write_rows(engine.outputs, writer.of_rows, writer.times)
            began, first_began = process_time(), thread_time()
            before, clock = [spent(each) for each in numbers], perf_counter()
            for batch in read([f"a={file}"], engine.inputs, rows=ROWS, chunk=CHUNK, first=records, readers=readers):
                records += batch.rows
                engine.receive(batch.tables)
                writer.write(engine.advance(engine.reached))
            writer.write(engine.outstanding())
            if file == source:
                writer.write(engine.advance(END_OF_TIME))
        derived = sum(writer.counts.values())
    own, first_thread = process_time() - began, thread_time() - first_began
    last, clock = [spent(each) for each in numbers], perf_counter() - clock
    engine.stop()
    each = tuple(now - then for now, then in zip(last, before, strict=True))
    return Measured(own, first_thread, each, clock, derived)


def spent(process: int) -> float:
    """Return the CPU seconds of a process so far."""
    return clock_gettime(~process << 3 | 2)  # the CPU clock of another process, in Linux


def measured(name: str, first: Path, source: Path, target: Path, workers: int) -> Measured:
    """Measure a steady run (see `run`) in its own process."""
    asked = map(str, (name, first, source, target, workers))
    command = [sys.executable, "-m", "benchmarks.workers", "--here", *asked]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **ONE_CORE}, stdout=subprocess.PIPE, text=True, check=True
    )
    own, first_thread, each, clock, derived = json.loads(done.stdout.splitlines()[-1])
    return Measured(own, first_thread, tuple(each), clock, derived)


@dataclass(frozen=True, slots=True)
class Case:
    """A program over files of a format, with this many keys."""

    program: str
    format: str
    keys: int = 1000

    @property
    def name(self) -> str:
        return f"workers, {self.program}, {self.format}, {self.keys:,} keys"


CASES = (
    Case("README", "parquet"),
    Case("README", "csv"),
    Case("README", "jsonl"),
    Case("README", "parquet", 100_000),
    Case("README", "csv", 100_000),
    Case("README", "jsonl", 100_000),
    Case("mean of each", "csv"),
    Case("5 rules", "parquet"),
    Case("20 rules", "csv"),
    Case("50 rules", "parquet"),
)


def pairs(events: int, only: str, turns: int) -> Iterator[tuple[Case, list[tuple[Measured, Measured]]]]:
    """Yield the results of each case: pairs of one process and two workers, one pair per turn."""
    with tempfile.TemporaryDirectory() as folder:
        there: dict[tuple[str, int], tuple[Path, Path]] = {}
        for case in CASES:
            if only not in case.name:
                continue
            kind = case.format, case.keys
            if kind not in there:
                first, rest = (Path(folder, f"{name}{case.keys}.{case.format}") for name in ("first", "rest"))
                table = streams.mixed({"a": "x"}, events, case.keys, seed=1).tables["a"]
                write(table[: events // 3], first)
                write(table[events // 3 :], rest)
                there[kind] = first, rest
            target = Path(folder, f"out.{case.format}")
            found = []
            for _ in range(turns):
                one, two = (measured(case.program, *there[kind], target, n) for n in (1, 2))
                assert one.derived == two.derived, f"{case.name}: {one.derived:,} and {two.derived:,} are derived"
                found.append((one, two))
            yield case, found


def table(cases: Iterable[tuple[Case, list[tuple[Measured, Measured]]]]) -> Iterator[str]:
    """Yield the results as a table in Markdown."""
    yield (
        "| run | CPU s of one process | two workers: main process | its first thread | each worker | all "
        "| speed-up here | speed-up on two free cores |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case, found in cases:
        one, two = (min(each, key=lambda run: run.all) for each in zip(*found))
        workers = ", ".join(f"{seconds:.2f}" for seconds in two.workers)
        seen = sorted(alone.clock / both.clock for alone, both in found)
        took = f"{one.all:.2f} | {two.own:.2f} | {two.first:.2f} | {workers} | {two.all:.2f}"
        yield f"| {case.name} | {took} | {seen[0]:.2f} to {seen[-1]:.2f}x | {one.all / two.least(CORES):.2f}x |"


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--turns", type=int, default=1)
    options.add_argument("--only", metavar="WORD", default="", help="cases whose name holds this")
    options.add_argument("--here", nargs=5, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.here:
        name, first, source, target, workers = asked.here
        found = run(program(name), Path(first), Path(source), Path(target), int(workers))
        print(json.dumps([found.own, found.first, found.workers, found.clock, found.derived]))
        return
    for line in table(pairs(asked.events, asked.only, asked.turns)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
