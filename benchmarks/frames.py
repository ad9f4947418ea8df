"""`python -m benchmarks.frames`: `detect` over tables in memory, compared with `cep run` over the same rows in Parquet.

Each run is a separate process. It reports the CPU seconds and the growth of memory after the data was loaded.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

PROGRAM = """
event reading(station: string, wind: float, number: int) TIME time.
strong(S, A, B) <- reading(S, A, _) SEQ reading(S, B, _) WHERE A > 30, B > A + 5 WITHIN 10 s POLICY recent.
"""
STATIONS, SPACING = 500, 50_000  # microseconds between rows
KINDS = ("polars", "pandas", "pyarrow", "polars, as it stands", "cep run")


def table(rows: int) -> pl.DataFrame:
    """Return readings of random stations, in order of time."""
    random = np.random.default_rng(1)
    times = (np.arange(rows) * SPACING + 1_700_000_000_000_000).astype("datetime64[us]")
    stations = pl.Series(random.integers(0, STATIONS, rows)).cast(pl.String).str.pad_start(4, "0")
    return pl.DataFrame({"time": times, "station": stations, "wind": random.gamma(2, 6, rows), "number": range(rows)})


def _used() -> tuple[float, float]:
    """Return the CPU seconds and the peak memory in MB so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def one(kind: str, folder: Path) -> None:
    """Run one kind of run on the files in the folder, and print its CPU seconds and memory."""
    source = folder / "rows.parquet"
    if kind == "cep run":
        from cep.command import app

        rules = folder / "rules.cep"
        rules.write_text(PROGRAM)
        import cep.app.cli_run
        import cep.engine  # noqa: F401 - loaded before the clock starts

        before = _used()
        output = str(folder / "derived.parquet")
        app(["run", str(rules), "--input", str(source), "--output", output], standalone_mode=False)
    else:
        from cep.api import detect

        data: Any = pl.read_parquet(source)
        data = data.to_pandas() if kind == "pandas" else data.to_arrow() if kind == "pyarrow" else data
        before = _used()
        detect(PROGRAM, data, lateness="0 s" if kind.endswith("stands") else None)
    after = _used()
    print("used", after[0] - before[0], after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one[0], Path(given.one[1]))
        return
    with TemporaryDirectory() as folder:
        table(given.rows).write_parquet(Path(folder) / "rows.parquet")
        print(f"{given.rows:,} rows, {given.runs} runs in turn, the median\n")
        print(f"{'':22} CPU seconds   MB beyond the data")
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for _ in range(given.runs + 1):  # the first may compile
            for kind in KINDS:
                command = [sys.executable, "-m", "benchmarks.frames", "--one", kind, folder]
                made = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds, more = made.stdout.split("used")[-1].split()
                found[kind].append((float(seconds), float(more)))
        for kind, runs in found.items():
            seconds, more = (median(each) for each in zip(*runs[1:], strict=True))
            print(f"{kind:22} {seconds:11.2f}   {more:18,.0f}")


if __name__ == "__main__":
    main()
