"""One measurement in its own process: CPU time on one core, peak memory, state."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks.watch import Watch, peak_memory

if TYPE_CHECKING:
    from benchmarks.streams import Batch, Row
    from benchmarks.workload import Workload

THREADS = (
    "POLARS_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
ONE_CORE = dict.fromkeys(THREADS, "1")

WRAP = 2**64
"""The modulus for comparing sums of times. polars adds times in 64 bits, and Python without a limit."""

WARM_UP = 2000
"""The number of events in a first run, which loads the kernels and is not measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result for one side of a workload: the engine or the Python loop. Seconds are CPU time, user and system, the
    median of `runs` runs.

    - `derived`, `sum`: the number of derived rows, and the sum of their starts and ends. Both sides must agree.
    - `peak`: the process's peak memory in MB during the measurement, including its input.
    - `plan`: the seconds to plan the program.
    """

    seconds: float
    runs: int
    derived: int
    sum: int
    peak: int
    plan: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0


def measure(workload: str, events: int, keys: int, side: str, profile: bool = False) -> Measured:
    """Measure `engine` or `loop` in its own process."""
    spec = json.dumps([workload, events, keys, side, profile])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", spec],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *shown, last = done.stdout.splitlines()
    if profile:
        print("\n".join(shown))
    return Measured(**json.loads(last))


def measure_loop(workload: Workload, events: int, keys: int, profile: bool) -> Measured:
    """Measure the Python loop, from tuples to tuples."""
    assert workload.loop, "a workload without a loop has nothing to measure"
    loop = workload.loop(keys)
    rows = workload.stream(events, keys).rows()
    watch = Watch(profile)
    out: list[Row] = []
    while watch.wants_more():
        out.clear()
        with watch:
            out = loop(rows)
    peak = peak_memory()
    watch.report()
    return Measured(watch.median, len(watch.seconds), len(out), sum(row[1] + row[2] for row in out) % WRAP, peak)


def measure_engine(workload: Workload, events: int, keys: int, profile: bool) -> Measured:
    """Measure the engine, from polars tables to polars tables. Planning is timed separately."""
    from cep.engine import Engine

    program = workload.program(keys)
    options = {} if workload.options is None else workload.options(keys)
    run_once(Engine.from_text(program, **options), list(workload.stream(WARM_UP, keys).batches(WARM_UP)))
    fill, measured = workload.stream(events + workload.fill * keys, keys).split(workload.fill * keys)
    batches = list(measured.batches(workload.push)) if workload.push else [measured.tables]
    watch, plans = Watch(profile), []
    out: list[Batch] = []
    while watch.wants_more():
        out.clear()
        started = process_time()
        engine = Engine.from_text(program, **options)
        plans.append(process_time() - started)
        if workload.fill:
            engine.push(fill.tables)
        with watch:
            out = [engine.push(batch) for batch in batches]
        rows, size = engine.state_rows, engine.state_bytes
        with watch.more():
            out.append(engine.close())
    peak = peak_memory()
    watch.report()
    tables = [table for batch in out for table in batch.values()]
    return Measured(
        watch.median,
        len(watch.seconds),
        sum(table.height for table in tables),
        sum(int(table[name].sum()) for table in tables for name in ("start", "end")) % WRAP,
        peak,
        statistics.median(plans),
        rows,
        size,
    )


def run_once(engine: Any, batches: list[Batch]) -> None:
    """Push a whole stream, and discard the results."""
    for batch in batches:
        engine.push(batch)
    engine.close()


def main(spec: str) -> None:
    """Measure, and print the result as JSON. This runs in the child process."""
    from benchmarks.workloads import workloads

    name, events, keys, side, profile = json.loads(spec)
    sides: dict[str, Callable[[Workload, int, int, bool], Measured]] = {"engine": measure_engine, "loop": measure_loop}
    print(json.dumps(asdict(sides[side](workloads[name], events, keys, profile))))


if __name__ == "__main__":
    main(sys.argv[1])
