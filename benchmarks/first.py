"""`python -m benchmarks.first`: what the first runs of a job take, when no kernel is compiled yet.

Each job is `cep run` over a CSV file; its kernels are kept in a folder that is empty before the first run. Seconds are
those of a clock and, in brackets, of CPU. `compiled`: every kernel compiled at its first
call, the first time and again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import polars as pl

from benchmarks.workloads import workloads

JOBS = ("seq2 recent", "not", "unless", "blizzard")
SIZES = (1_000, 10_000, 100_000, 300_000, 1_000_000)
RUNS = 3


def run(program: Path, inputs: list[str], kept: Path, mode: str) -> tuple[float, float]:
    """Seconds of clock and of CPU of one run."""
    began = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "cep", "run", str(program), *inputs, "--output", os.devnull, "--output-format", "csv"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(kept), "SEMCEP_KERNELS": mode},
        stderr=subprocess.DEVNULL,
    ) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, "the run failed"
    return perf_counter() - began, used.ru_utime + used.ru_stime


def inputs(name: str, events: int, keys: int, folder: Path) -> list[str]:
    """The options of the job's input, whose files are written to a folder."""
    options = []
    for event, table in workloads[name].stream(events, keys).tables.items():
        path = folder / f"{event}.csv"
        table.select(pl.col("start").cast(pl.Datetime("us")).alias("t"), pl.exclude("start", "end")).write_csv(path)
        options += ["--input", f"{event}={path}"]
    return options


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first", description=__doc__)
    parser.add_argument("--jobs", nargs="*", default=JOBS)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--modes", nargs="*", default=("", "compiled"))
    given = parser.parse_args()
    print(f"{'job':12} {'events':>9}  " + "  ".join(f"{mode or 'tiers':^41}" for mode in given.modes))
    for name in given.jobs:
        for events in given.sizes:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                program = folder / "rules.cep"
                program.write_text(workloads[name].program(given.keys))
                options = inputs(name, events, given.keys, folder)
                cells = []
                for mode in given.modes:
                    took = [run(program, options, folder / f"kernels{mode}", mode) for _ in range(RUNS)]
                    cells.append("  ".join(f"{clock:5.1f} ({cpu:4.1f})" for clock, cpu in took))
            print(f"{name:12} {events:9,}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
