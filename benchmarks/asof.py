"""`python -m benchmarks.asof`: `a SEQ b WITHIN 10 s` with policy `recent`, compared with polars' `join_asof`.

Both read the same tables, sorted by time. For each `b`, they return the last earlier `a` that has the same id, if it is
at most 10 s older. They run in turn in one process, and the best CPU time on one core counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import process_time
from warnings import catch_warnings, simplefilter

from benchmarks.measure import ONE_CORE
from benchmarks.streams import Batch, mixed

WITHIN = 10_000_000
PROGRAM = """\
event a(id: int, x: int) TIME t.
event b(id: int, y: int) TIME t.
policy recent.
ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 10 s.
"""
TO_REACH = 0.8
SIZES = (1_000, 100_000)


def engine_seconds(tables: Batch) -> tuple[float, int]:
    """Return the CPU seconds of the engine, and the number of pairs that it derives."""
    from cep.engine import Engine

    engine = Engine.from_text(PROGRAM)
    began = process_time()
    made = [*engine.push(tables).values(), *engine.close().values()]
    return process_time() - began, sum(table.height for table in made)


def asof_seconds(tables: Batch) -> tuple[float, int]:
    """Return the CPU seconds of polars, and the number of rows for which it has found an `a`."""
    import polars as pl

    began = process_time()
    with catch_warnings():
        simplefilter("ignore")  # polars cannot verify that the times of each id are sorted
        joined = tables["b"].join_asof(
            tables["a"], on="start", by="id", strategy="backward", tolerance=WITHIN, allow_exact_matches=False
        )
    made = joined.filter(pl.col("x").is_not_null())
    return process_time() - began, made.height


def measure(events: int, runs: int) -> None:
    """Print a line for each number of keys. This runs in the child process."""
    print(f"{'keys':>8} {'semcep':>8} {'join_asof':>10} {'ratio':>6}   million events a CPU second")
    for keys in SIZES:
        tables = mixed({"a": "x", "b": "y"}, events, keys, seed=1).tables
        engine_seconds(tables)
        ours, theirs = [], []
        for _ in range(runs):
            ours.append(engine_seconds(tables))
            theirs.append(asof_seconds(tables))
        assert ours[0][1] == theirs[0][1], "both find the same pairs"
        (mine, _), (other, _) = min(ours), min(theirs)
        ratio = other / mine
        reached = "" if ratio >= TO_REACH else f"   below {TO_REACH}"
        print(f"{keys:>8,} {events / mine / 1e6:>8.1f} {events / other / 1e6:>10.1f} {ratio:>6.2f}{reached}")


def main() -> None:
    """Measure in a child process with one thread per library."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.asof", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    spec = json.dumps([options.events, options.runs])
    done = subprocess.run(
        [sys.executable, "-c", f"from benchmarks.asof import measure; measure(*{spec})"],
        env={**os.environ, **ONE_CORE},
        cwd=Path(__file__).parent.parent,
    )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
