"""The experiment of RTECinc: a fleet with late events, queried every 200 s over a window.

    python -m benchmarks.fleet_revision [--vehicles 60 1000 6000] [--windows 200 3200] [--late 0 5 40] [--json FILE]

Two ways are compared, in rows per second of CPU time: `revise`, which corrects only the results that late events
change, and recomputation of each window from all its rows. The rows are synthetic, fifteen per vehicle and query. A
random share of them is up to 3,000 s late, 1,500 s on average. Both ways ignore rows that are later than the window.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

from benchmarks.applications import SECOND, Application, applications, renamed
from benchmarks.measure import ONE_CORE
from benchmarks.streams import Batch

FLEET: Application = applications["fleet"]
STEP, DELAY, MEASURED = 200, 3_000, 8
"""The seconds between queries, the maximum delay in seconds, and the number of measured queries, once the window is
full."""
EACH = 15
"""The rows per vehicle between queries, as in the article: 1.47 million for 6,000 vehicles in sixteen steps."""
WINDOWS, SHARES, VEHICLES = (200, 400, 800, 1600, 3200), (0, 5, 10, 20, 40, 80), (60, 600, 6000)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result for a number of vehicles, windows of `window` seconds, and `late` percent of late rows.

    - `revised`, `anew`: rows per second with revision, and with recomputation of each window.
    - `withdrawn`, `keys_replayed`: counters of the revision.
    - `same`: True if both ways had the same final result. None if they were not compared, because rows were ignored.
    """

    vehicles: int
    window: int
    late: int
    revised: float
    anew: float
    withdrawn: int
    keys_replayed: int
    same: bool | None


def engine_of(vehicles: int, **options: Any) -> Any:
    from cep.engine import Engine

    path = FLEET.program("own")
    return Engine.from_text(path.read_text(), path.name, facts=FLEET.tables(vehicles), **options)


def queries(vehicles: int, window: int, late: int) -> list[Batch]:
    """Return the rows that arrive between queries. The column `came` is the second of arrival."""
    count = (window // STEP + MEASURED) * vehicles * EACH
    fleet = replace(FLEET, a_second=vehicles * EACH / STEP)
    stream, random = fleet.stream(count, vehicles), np.random.default_rng(3)
    tables: Batch = {}
    for name, table in stream.tables.items():
        delays = np.where(random.random(table.height) < late / 100, random.integers(1, DELAY, table.height), 0)
        came = table["start"].to_numpy() // SECOND + delays
        tables[name] = table.with_columns(came=came, step=came // STEP).sort("came", maintain_order=True)
    last = max(int(table["start"].max()) for table in tables.values()) // SECOND // STEP  # type: ignore[arg-type]
    return [
        {name: table.filter(pl.col("step") == step).drop("step") for name, table in tables.items()}
        for step in range(last + 1)
    ]


def plain(engine: Any, batch: Batch) -> Batch:
    return renamed(engine, {name: table.drop("came") for name, table in batch.items() if table.height})


def measured(vehicles: int, window: int, late: int) -> Measured:
    batches = queries(vehicles, window, late)
    first = max(0, len(batches) - MEASURED)
    rows = sum(table.height for batch in batches[first:] for table in batch.values())
    for warm in (engine_of(vehicles), engine_of(vehicles, revise=window * SECOND)):
        for batch in batches[:3]:
            warm.push(plain(warm, batch))
    revised, engine, net = _revised(vehicles, window, batches, first)
    stats = engine.revision_stats
    spent, whole = _anew(vehicles, window, batches, first)
    same = net == whole if window >= DELAY + STEP else None
    return Measured(
        vehicles, window, late, rows / revised, rows / spent, stats.withdrawn, stats.keys_replayed, same
    )  # fmt: skip


def _revised(vehicles: int, window: int, batches: Sequence[Batch], first: int) -> tuple[float, Any, Counter[Any]]:
    """Return the CPU seconds for the queries from the query `first` on, the engine, and its final result."""
    engine, spent = engine_of(vehicles, revise=window * SECOND), 0.0
    given = [plain(engine, batch) for batch in batches]
    net: Counter[Any] = Counter()
    for number, batch in enumerate(given):
        began = process_time()
        made = engine.push(batch)
        if number >= first:
            spent += process_time() - began
        _count(net, made)
    return spent, engine, +net


def _anew(vehicles: int, window: int, batches: Sequence[Batch], first: int) -> tuple[float, Counter[Any]]:
    """Return the CPU seconds for the queries from the query `first` on if each window is recomputed. Also return the
    result of one run over all rows in order of time."""
    every = {name: pl.concat([batch[name] for batch in batches]).sort("start") for name in batches[0]}
    spent = 0.0
    for number in range(first, len(batches)):
        until = (number + 1) * STEP
        begin = (until - window) * SECOND
        engine = engine_of(vehicles)
        known = {
            name: table.filter((pl.col("start") >= begin) & (pl.col("came") < until)) for name, table in every.items()
        }
        known = plain(engine, known)
        began = process_time()
        engine.push(known)
        spent += process_time() - began
    engine, net = engine_of(vehicles, lateness=None), Counter[Any]()
    engine.receive(plain(engine, every))
    latest = max(int(table["end"].max()) for table in every.values())  # type: ignore[arg-type]
    _count(net, engine.advance(latest))
    return spent, net


def _count(net: Counter[Any], made: Mapping[str, pl.DataFrame]) -> None:
    for name, table in made.items():
        signs = table["@change"].to_list() if "@change" in table.columns else [1] * table.height
        for row, sign in zip(table.drop("@change", "@id", strict=False).iter_rows(), signs):
            net[name, row] += sign


def in_process(vehicles: int, window: int, late: int) -> Measured:
    """Measure in a separate process, on one core."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fleet_revision", "--one", json.dumps([vehicles, window, late])],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Measured(**json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_revision", description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--vehicles", nargs="*", type=int, default=VEHICLES)
    parser.add_argument("--windows", nargs="*", type=int, default=WINDOWS)
    parser.add_argument("--late", nargs="*", type=int, default=SHARES)
    parser.add_argument("--json", metavar="FILE", type=Path, help="the lines, for `benchmarks.charts --fleet FILE`")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asdict(measured(*json.loads(given.one)))))
        return
    lines = []
    for vehicles in given.vehicles:
        for window in given.windows:
            for late in given.late:
                found = in_process(vehicles, window, late)
                lines.append(json.dumps(asdict(found)))
                cost = found.anew / found.revised
                print(
                    f"{vehicles:>6,} vehicles, {window:>5,} s, {late:>2} % late: {found.revised / 1e3:>6,.0f} thousand "
                    f"rows a second, anew {found.anew / 1e3:>6,.0f}: {cost:.2f} of the cost"
                    + ("" if found.same is None else ", the same" if found.same else ", NOT THE SAME")
                )
    if given.json is not None:
        given.json.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
