"""`cep backtest` on a grid of 500 points over a year of ten-minute readings with 100 keys, with a SEQ and an UNLESS.

python -m benchmarks.backtest
python -m benchmarks.backtest --days 30 --workers 2
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

PROGRAM = """\
event reading(box: string, temp: float) TIME time.
event warming(box: string).
PARAM Hot = 12.0 IN 11..13.4 STEP 0.1.
PARAM Patience = 60 min IN 20 min..210 min STEP 10 min.
rising(B, X) <- reading(B, X) SEQ reading(B, Y) WHERE X > Hot, Y > X WITHIN 20 min.
warming(B) <- rising(B, _) UNLESS (reading(B, Z) WHERE Z < Hot) WITHIN Patience.
"""
KEYS, INCIDENTS = 100, 600
STEP = 600_000_000
"""Microseconds between two readings."""
BEGIN = 1_672_531_200_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        _write(Path(folder), asked.days * 144)
        print("| processes | records | points | CPU | by the clock |\n|---|---|---|---|---|")
        for workers in asked.workers:
            print(_row(Path(folder), workers), flush=True)


def _write(folder: Path, count: int) -> None:
    """Write a program, readings that drift and return to the mean, and random incidents."""
    random = np.random.default_rng(1)
    times = BEGIN + STEP * np.arange(count)
    noise = random.normal(0, 1.2, (count, KEYS))
    drift = np.zeros((count, KEYS))
    for place in range(1, count):
        drift[place] = 0.9 * drift[place - 1] + noise[place]
    names = [f"box {number:03}" for number in range(KEYS)]
    columns = {"time": np.repeat(times, KEYS), "box": names * count, "temp": np.round(6 + drift, 1).ravel()}
    table = pl.DataFrame(columns).with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
    table.write_parquet(folder / "history.parquet")
    starts = np.sort(BEGIN + STEP * random.choice(count, INCIDENTS, replace=False)).tolist()
    ends: dict[str, int] = {}
    kept: list[dict[str, object]] = []
    for place, start in enumerate(starts):
        name = names[place % KEYS]
        if start > ends.get(name, 0):
            ends[name] = start + 18 * STEP
            kept.append({"start": start, "end": ends[name], "box": name})
    moments = pl.DataFrame(kept).with_columns(pl.col("start", "end").cast(pl.Datetime("us", "UTC")))
    moments.write_parquet(folder / "labels.parquet")
    (folder / "rules.cep").write_text(PROGRAM)


def _row(folder: Path, workers: int) -> str:
    command = [sys.executable, "-m", "cep", "backtest", "rules.cep", "--input", "reading=history.parquet"]
    command += ["--labels", "labels.parquet", "--detect", "warming", "--key", "box", "--grid", "Hot"]
    command += ["--grid", "Patience", "--json", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
    spent, after = time.perf_counter() - began, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    found = json.loads(done.stdout)
    points = len(found["points"])
    return f"| {workers} | {found['records']:,} | {points} | {processor:.0f} s | {spent:.0f} s |"


if __name__ == "__main__":
    main()
