"""`python -m benchmarks.peers`: the engine compared with DuckDB, polars and plain numba loops for the same job.

Results are CPU seconds, the least of several turns. Comparisons of processes include start-up. All sides have one
thread, and derive the same number of rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

from benchmarks import streams
from benchmarks.measure import ONE_CORE
from benchmarks.processes import ROOT, write
from benchmarks.report import parser, publish

RULES = """\
event a(id: int, x: int) TIME time.
rise(I, X, Y) <- (a(I, X) SEQ a(I, Y) WHERE Y > X + 500) WITHIN 1 s POLICY recent.
mean(I, M) <- a(I, X) AGGREGATE M = avg(X) OVER LAST 10 s BY I.
"""

DUCKDB = """\
import duckdb
db = duckdb.connect()
db.execute("SET threads = 1")
db.execute("CREATE TABLE a AS SELECT id, x, time FROM read_csv('{source}', types = {{'time': 'TIMESTAMPTZ'}})")
db.execute(\"\"\"COPY (SELECT l.time AS start, r.time AS "end", r.id, l.x, r.x AS y FROM a r ASOF JOIN a l
    ON l.id = r.id AND l.time < r.time WHERE l.time >= r.time - INTERVAL 1 SECOND AND r.x > l.x + 500)
    TO '{rise}' (FORMAT parquet)\"\"\")
db.execute(\"\"\"COPY (SELECT time, id, avg(x) OVER (PARTITION BY id ORDER BY time
    RANGE BETWEEN INTERVAL 9999999 MICROSECOND PRECEDING AND CURRENT ROW) AS m FROM a)
    TO '{mean}' (FORMAT parquet)\"\"\")
"""

POLARS = """\
import polars as pl
a = pl.read_csv("{source}", try_parse_dates=True)
right = a.rename({{"x": "y"}}).with_columns(end=pl.col("time"))
pairs = right.join_asof(
    a.with_columns(start=pl.col("time")), on="time", by="id", strategy="backward", tolerance="1s",
    allow_exact_matches=False, check_sortedness=False,
)
pairs.filter(pl.col("y") > pl.col("x") + 500).write_parquet("{rise}")
means = pl.col("x").rolling_mean_by("time", "10s").over("id")
a.select("time", "id", means.alias("m")).write_parquet("{mean}")
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One side of a comparison. `run` returns CPU seconds and the number of derived rows."""

    name: str
    run: Callable[[], tuple[float, int]]


def stream(events: int, keys: int) -> pl.DataFrame:
    """Return readings of one type, at most one per key and time, because the engine returns a single result for
    readings of the same key and time."""
    table = streams.mixed({"a": "x"}, events, keys, seed=1).tables["a"]
    return table.unique(["id", "start"], keep="first", maintain_order=True)


def command(arguments: list[str], outputs: list[Path]) -> tuple[float, int]:
    """Return the CPU seconds of a process, and the rows of the files that it writes."""
    import pyarrow.parquet as pq

    for path in outputs:
        path.unlink(missing_ok=True)
    child = subprocess.Popen(
        [sys.executable, *arguments], env={**os.environ, **ONE_CORE}, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{arguments[:2]} ended with {child.returncode}"
    return usage.ru_utime + usage.ru_stime, sum(pq.read_metadata(path).num_rows for path in outputs)


def csv_to_parquet(folder: Path, events: int) -> list[Peer]:
    """Compare processes that read a CSV file, evaluate a SEQ and a sliding average, and write Parquet."""
    source, rules = folder / "a.csv", folder / "rules.cep"
    write(stream(events, 1_000), source)
    rules.write_text(RULES)
    target, rise, mean = (folder / f"out.{name}parquet" for name in ("", "rise.", "mean."))
    ours = ["-m", "cep", "run", str(rules), "--input", f"a={source}", "--output", str(target)]
    theirs = {
        name: ["-c", script.format(source=source, rise=rise, mean=mean)]
        for name, script in (("DuckDB", DUCKDB), ("polars", POLARS))
    }
    return [
        Peer("semcep", partial(command, ours, [rise, mean])),
        *(Peer(name, partial(command, script, [rise, mean])) for name, script in theirs.items()),
    ]


def joined(events: int, keys: int, within: int, sides: dict[str, str], condition: str) -> list[Peer]:
    """Compare a join in DuckDB with unrestricted SEQs that compute the same join. `sides`: the bodies of the SEQs, by
    name."""
    whole = stream(events, keys).with_row_index("row")
    kinds = whole["row"].hash(1) % 2
    tables = {name: whole.filter(kinds == number).drop("row") for number, name in enumerate("ab")}
    declared = "event a(id: int, x: int) TIME t.\nevent b(id: int, x: int) TIME t.\n"

    def ours(body: str) -> tuple[float, int]:
        from cep.engine import Engine

        engine = Engine.from_text(f"{declared}ab(I, X, Y) <- ({body}) WITHIN {within} ms.\n")
        began = process_time()
        made = [*engine.push(tables).values(), *engine.close().values()]
        return process_time() - began, sum(table.height for table in made)

    def theirs() -> tuple[float, int]:
        import duckdb

        database = duckdb.connect(config={"threads": 1})
        database.execute("SET enable_progress_bar = false")
        for name, table in tables.items():
            database.register(name, table.to_arrow())
        began = process_time()
        query = f"""SELECT a.id, a.start, b.start AS "end", a.x, b.x AS y FROM a JOIN b ON a.id = b.id
            AND a.start < b.start AND a.start >= b.start - {1000 * within}{condition}"""
        found = database.sql(query).to_arrow_table()
        return process_time() - began, found.num_rows

    return [*(Peer(name, partial(ours, body)) for name, body in sides.items()), Peer("DuckDB", theirs)]


def inequality(events: int, waiting: int) -> list[Peer]:
    """Compare a SEQ with an inequality. `waiting`: the number of waiting rows per key, about one of which matches."""
    bound = int(1000 * (1 - (2 / waiting) ** 0.5)) if waiting > 2 else 0
    body = f"a(I, X) SEQ b(I, Y) WHERE Y > X + {bound}"
    return joined(events, 100, 200 * waiting, {"semcep": body}, f" AND b.x > a.x + {bound}")


def equation(events: int) -> list[Peer]:
    """Compare two forms of a SEQ: an equation of two variables, and a shared variable."""
    shared = "a(I, X) SEQ b(I, Y)"
    return joined(events, 1_000, 2_000, {"semcep": "a(I, X) SEQ b(J, Y) WHERE J = I", "shared variable": shared}, "")


def sliding(kind: str, window: str, events: int, keys: int) -> list[Peer]:
    """Compare a sliding sum, average or count per key with a plain numba loop over columns."""
    import numba

    table = stream(events, keys)
    by_rows = window.endswith("EVENTS")
    length = int(window.split()[1]) * (1 if by_rows else 1_000_000)
    text = "count()" if kind == "count" else f"{kind}(X)"
    program = f"event a(id: int, x: int) TIME t.\nm(I, S) <- a(I, X) AGGREGATE S = {text} OVER {window} BY I.\n"

    @numba.njit
    def loop(times: Any, ids: Any, values: Any, mean: bool, rows: bool) -> Any:
        """Return for each row the count, and the sum or mean, over the window of its key. The rows of a key are
        linked."""
        n = len(times)
        first, last = np.full(keys, -1), np.full(keys, -1)
        counts, sums, following = np.zeros(keys, np.int64), np.zeros(keys), np.full(n, -1)
        found = np.empty((2, n))
        for i in range(n):
            key = ids[i]
            if last[key] >= 0:
                following[last[key]] = i
            else:
                first[key] = i
            last[key] = i
            counts[key] += 1
            sums[key] += values[i]
            while (counts[key] > length) if rows else (times[first[key]] <= times[i] - length):
                counts[key] -= 1
                sums[key] -= values[first[key]]
                first[key] = following[first[key]]
            found[0, i] = sums[key] / counts[key] if mean else sums[key]
            found[1, i] = counts[key]
        return found

    columns = [table[name].to_numpy() for name in ("start", "id", "x")]
    loop(*(column[:10].copy() for column in columns), kind == "avg", by_rows)

    def ours() -> tuple[float, int]:
        from cep.engine import Engine

        engine = Engine.from_text(program)
        began = process_time()
        made = [*engine.push({"a": table}).values(), *engine.close().values()]
        return process_time() - began, round(sum(float(one[one.columns[-1]].sum()) for one in made))

    def theirs() -> tuple[float, int]:
        began = process_time()
        found = loop(*columns, kind == "avg", by_rows)
        return process_time() - began, round(float(found[int(kind == "count")].sum()))

    return [Peer("semcep", ours), Peer("numba loop", theirs)]


AIMS = {
    "DuckDB": ("to Parquet", 1.0),
    "polars": ("to Parquet", 1.0),
    "shared variable": ("", 1.0),
    "numba loop": ("", 2.5),
}
"""The target ratio for each peer. It applies to the comparisons whose name contains the text."""


def comparisons(folder: Path, events: int) -> dict[str, Callable[[], list[Peer]]]:
    """Return the comparisons by name."""
    made: dict[str, Callable[[], list[Peer]]] = {
        f"{events:,} CSV rows, SEQ and average, to Parquet": partial(csv_to_parquet, folder, events)
    }
    for waiting in (1, 1_000):
        made[f"SEQ with an inequality, {waiting:,} waiting row{'s' * (waiting > 1)} per key"] = partial(
            inequality, events // 5, waiting
        )
    made["SEQ, WHERE B = A"] = partial(equation, events)
    for keys in (100, 1_000):
        count = max(events // 10, 250 * keys)
        many = partial(joined, count, keys, 150 * keys, {"semcep": "a(I, X) SEQ b(I, Y)"}, "")
        made[f"SEQ, 50 to 75 matches per event, {keys:,} keys"] = many
    for window in ("LAST 10 EVENTS", "LAST 10 s"):
        for kind in ("sum", "avg", "count"):
            made[f"{kind} over {window}"] = partial(sliding, kind, window, events, 1_000)
    return made


def measure(name: str, events: int, turns: int) -> None:
    """Print a line for each peer. This runs in the child process."""
    with tempfile.TemporaryDirectory() as folder:
        peers = comparisons(Path(folder), events)[name]()
        taken: dict[str, list[tuple[float, int]]] = {peer.name: [] for peer in peers}
        for turn in range(turns + 1):  # the first turn loads kernels
            for peer in peers:
                found = peer.run()
                taken[peer.name] += [found] if turn else []
    mine, rows = min(taken["semcep"])
    for peer, found in taken.items():
        seconds, same = min(found)
        assert same == rows, f"{name}: semcep derives {rows:,}, {peer} {same:,}"
        if peer != "semcep":
            part, ratio = AIMS[peer]
            aim = ratio if part in name else ""
            print(f"| {name} | {mine:.3f} | {peer} | {seconds:.3f} | {mine / seconds:.2f} | {aim} |", flush=True)


def lines(events: int, turns: int, only: str) -> Iterator[str]:
    """Yield the table. Each comparison runs in its own process, with one thread per library."""
    yield "| | semcep | beside | takes | ratio | aim |"
    yield "| --- | --: | --- | --: | --: | --: |"
    for name in comparisons(Path(), events):
        if only in name:
            code = f"from benchmarks.peers import measure; measure(*{json.dumps([name, events, turns])})"
            command = [sys.executable, "-c", code]
            ran = subprocess.run(
                command, env={**os.environ, **ONE_CORE}, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
            )
            yield from ran.stdout.splitlines()


def main() -> None:
    options = parser("benchmarks.peers", __doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--only", default="", help="comparisons whose name holds this")
    asked = options.parse_args()
    publish("peers", "python -m benchmarks.peers", lines(asked.events, asked.turns, asked.only), asked.write)


if __name__ == "__main__":
    main()
