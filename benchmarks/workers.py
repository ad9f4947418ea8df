"""`python -m benchmarks.workers`: what `cep run --workers 2` costs beside one process, and how fast that makes it.

Seconds of CPU of a steady run: files in, files out, without its start. Two cores are modelled: no run is faster than
half of all that it computes, nor than its busiest process; that of the run reads, deals and writes, its workers step.
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
from time import perf_counter, process_time

from benchmarks import streams
from benchmarks.measure import ONE_CORE
from benchmarks.processes import ROOT, write
from benchmarks.table import Line, Target

READING = "event a(id: int, x: int) TIME time.\n"
GOAL = 1.8
KEYS = 1000
CORES = 2


def rules(count: int) -> str:
    """So many rules over readings, few of whose results are given."""
    kinds = (
        "rise{n}(I, X, Y) <- (a(I, X) SEQ a(I, Y) WHERE Y > X + {top}) WITHIN 10 s POLICY recent.",
        "peak{n}(I, M) <- (a(I, X) AGGREGATE M = max(X) OVER LAST {many} EVENTS BY I) WHERE M > 998, X = M.",
        "low{n}(I, A) <- (a(I, X) AGGREGATE A = avg(X) OVER LAST {many} s BY I) WHERE A < 30.",
        "fall{n}(I, Z) <- ((a(I, X) SEQ a(I, Y) WHERE Y < X - 450) SEQ a(I, Z) WHERE Z < Y - 450) WITHIN {many} s.",
        "calm{n}(I, X) <- (a(I, X) WHERE X > {top}) UNLESS a(I, _) WITHIN {many} s.",
    )
    made = (kinds[n % len(kinds)].format(n=n, top=900 + n, many=20 + n) for n in range(count))
    return READING + "\n".join(made) + "\n"


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of a run's own process and of each of its workers, seconds by the clock, and events derived."""

    own: float
    workers: tuple[float, ...]
    clock: float
    derived: int

    @property
    def all(self) -> float:
        return self.own + sum(self.workers)

    def least(self, cores: int) -> float:
        """Seconds that it takes on so many free cores, at least."""
        return max(self.all / cores, self.own, *self.workers, 0.0)


def run(program: str, source: Path, target: Path, workers: int) -> Measured:
    """A steady run: two thirds of the input, behind a third that loads kernels and fills windows."""
    from cep.compile import CompileOptions, compiled
    from cep.core.time import END_OF_TIME
    from cep.engine import Engine
    from cep.runtime.options import EngineOptions
    from cep.workers.partitioned_engine import PartitionedEngine
    from connectors.files import read
    from connectors.writers import Writer

    made = compiled(program, "<program>", CompileOptions())
    engine = Engine(made) if workers == 1 else PartitionedEngine(made, EngineOptions(), workers)
    numbers = engine.processes if isinstance(engine, PartitionedEngine) else []
    engine.run_ahead(3)
    batches = read([f"a={source}"], engine.inputs, rows=1 << 17, chunk=1 << 24)
    began, first, clock, done = process_time(), [0.0] * len(numbers), perf_counter(), 0.0
    with Writer(str(target), engine.outputs) as writer:
        for batch in batches:
            engine.receive(batch.tables)
            writer.write(engine.advance(engine.reached))
            before, done = done, batch.bytes_read / batch.total_bytes
            if before < 1 / 3 <= done:
                writer.write(engine.outstanding())
                began, first, clock = process_time(), [spent(each) for each in numbers], perf_counter()
        writer.write(engine.advance(END_OF_TIME))
        own, last = process_time() - began, [spent(each) for each in numbers]
    engine.stop()
    each = tuple(now - then for now, then in zip(last, first, strict=True))
    return Measured(own, each, perf_counter() - clock, sum(writer.counts.values()))


def spent(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(count: int, source: Path, target: Path, workers: int) -> Measured:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.workers", "--here", str(count), str(source), str(target), str(workers)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **ONE_CORE}, stdout=subprocess.PIPE, text=True, check=True
    )
    own, each, clock, derived = json.loads(done.stdout.splitlines()[-1])
    return Measured(own, tuple(each), clock, derived)


CASES: tuple[tuple[int, str], ...] = ((1, "parquet"), (5, "parquet"), (20, "parquet"), (20, "csv"), (50, "parquet"))
"""How many rules, over which files."""


def pairs(events: int, only: str) -> Iterator[tuple[str, Measured, Measured]]:
    """By case: in one process, and in two workers."""
    names = {case: f"workers, {case[0]} rules, {case[1]}" for case in CASES}
    chosen = {case: name for case, name in names.items() if only in name}
    with tempfile.TemporaryDirectory() as folder:
        for format in sorted({format for _, format in chosen}):
            source = Path(folder, f"a.{format}")
            write(streams.mixed({"a": "x"}, events, KEYS, seed=1).tables["a"], source)
            for (count, mine), name in chosen.items():
                if mine == format:
                    one, two = (measured(count, source, Path(folder, f"out{n}"), n) for n in (1, 2))
                    assert one.derived == two.derived, f"{name}: {one.derived:,} and {two.derived:,} are derived"
                    yield name, one, two


def lines(events: int, only: str) -> Iterator[Line]:
    """How many times as fast two workers are on two free cores."""
    for name, one, two in pairs(events, only):
        faster = one.all / two.least(CORES)
        targets = (Target(f"{GOAL:g}x", faster >= GOAL),) if " 50 rules" in name else ()
        yield Line(name, faster, "times one", events=events, keys=KEYS, derived=one.derived, targets=targets)


def table(found: Iterable[tuple[str, Measured, Measured]]) -> Iterator[str]:
    """What there is to see, in Markdown."""
    yield "| run | one process, CPU s | two workers: own | each worker | all | by the clock | on two free cores |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, one, two in found:
        each = ", ".join(f"{seconds:.2f}" for seconds in two.workers)
        faster, seen = one.all / two.least(CORES), one.clock / two.clock
        yield f"| {name} | {one.all:.2f} | {two.own:.2f} | {each} | {two.all:.2f} | {seen:.2f}x | {faster:.2f}x |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--only", metavar="WORD", default="", help="cases whose name holds this")
    parser.add_argument("--here", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        count, source, target, workers = asked.here
        found = run(rules(int(count)), Path(source), Path(target), int(workers))
        print(json.dumps([found.own, found.workers, found.clock, found.derived]))
        return
    for line in table(pairs(asked.events, asked.only)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
