"""`python -m benchmarks.spark`: a SEQ by key on Spark, compared with a scan, with Spark's own join, and with Flink.

Further lines show the cost of many rules, of an empty micro-batch, and the size of the state on disk. If the machine
has other work, use the column `cpu`: seconds of a core, of Java and Python together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from cep.engine import Engine
from cep.spark.disk import BUCKETS
from cep.spark.driver.session import session
from cep.spark.job import Job, start
from cep.spark.program import ProgramOptions, ShippedProgram

WARM = 6
"""The number of micro-batches that are ignored, while workers start and kernels load."""
TURNS = 3
"""The number of times that each query runs, in turn. The last run counts.

Java keeps compiling while it runs, so the first query would be measured with less compiled code.
"""

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # with it, Spark writes a third faster
}
BUCKETS_OF_KEYS = 2
"""The number of buckets, one for each core."""
MANY = 100
"""The number of rules in the case of many rules."""
COLUMNS = "id long, x long, time timestamp"
GET_FLINK = "python -m venv flink; flink/bin/pip install apache-flink==2.3.0; ... --flink flink/bin/python"


@dataclass(frozen=True, slots=True)
class Load:
    """`batches` micro-batches of `events` events, half `a`, half `b`, a millisecond apart, over `keys` keys.

    `rules`: a single rule for all events, or several rules, each for some values of `a`.
    """

    events: int
    batches: int
    keys: int
    rules: int = 1

    @property
    def within(self) -> int:
        """The milliseconds in which a key has about four events."""
        return 4 * self.keys

    @property
    def few(self) -> Load:
        """A smaller load, with which Spark's join, which compares all pairs of a key, ends in reasonable time."""
        return replace(self, events=min(self.events, 50 * self.keys), batches=min(self.batches, WARM + 4))

    @property
    def text(self) -> str:
        """The text of the program."""
        pattern = f"(a(I, X) SEQ b(I, Y)) WITHIN {self.within} ms"
        step = 100 / self.rules
        parts = [f" WHERE X >= {n * step:g}, X < {(n + 1) * step:g}" for n in range(self.rules)]
        rules = [f"ab(I, X, Y) <- {pattern}{part if self.rules > 1 else ''}." for part in parts]
        return "event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.\n" + "\n".join(rules)

    def tables(self) -> Iterator[dict[str, pl.DataFrame]]:
        """Yield the events of each micro-batch."""
        random = np.random.default_rng(1)
        half = self.events // 2
        for number in range(self.batches):
            found = {}
            for event, odd in (("a", 0), ("b", 1)):
                ticks = (np.arange(half) * 2 + odd + number * self.events) * 1000
                found[event] = pl.DataFrame(
                    {
                        "id": random.integers(0, self.keys, half),
                        "x": random.integers(0, 100, half),
                        "time": pl.Series(ticks).cast(pl.Datetime("us", "UTC")),
                    }
                )
            yield found

    def write(self, folder: Path) -> None:
        """Write a Parquet file for each event and micro-batch."""
        for number, found in enumerate(self.tables()):
            for event, table in found.items():
                (folder / event).mkdir(exist_ok=True)
                table.write_parquet(folder / event / f"{number:04}.parquet")


def scan(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Start a query that only reads and writes."""
    return _written(_read(spark, folder / "*", 2), out)


def join(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Start the SEQ as a join of two streams."""
    left, right = (
        _read(spark, folder / event, 1).withWatermark("time", "0 seconds").alias(event) for event in ("a", "b")
    )
    condition = sql.expr(f"a.id = b.id AND b.time > a.time AND b.time <= a.time + INTERVAL {load.within} MILLISECONDS")
    found = left.join(right, condition)
    columns = ["a.time AS start", "b.time AS end", "a.id AS i", "a.x AS x", "b.x AS y"]
    return _written(found.selectExpr(*columns), out)


def seq(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Start the SEQ as a rule. Its input stays open."""
    program = ShippedProgram.of(
        Engine.from_text(load.text), load.text, "<benchmark>", ProgramOptions(), BUCKETS_OF_KEYS
    )
    inputs = tuple(f"{event}={folder / event}" for event in ("a", "b"))
    (out / "state").mkdir(parents=True)
    places = str(out / "derived"), str(out / "state")
    return start(spark, Job(program, inputs, *places, tuple(program.outputs), lateness=0, limit=2, closing=False))


def _read(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files).parquet(str(folder))


def _written(found: DataFrame, out: Path) -> Any:
    writer = found.writeStream.option("checkpointLocation", str(out / "state")).option("path", str(out / "derived"))
    return writer.format("parquet").trigger(availableNow=True).start()


Run = Callable[[SparkSession, Load, Path, Path], Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """Events per second, the median milliseconds and mean CPU seconds of a micro-batch, and the rows written."""

    rate: float
    median: float
    rows: int
    cpu: float


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `name`: also the name of its output folder, beside the input."""

    name: str
    run: Run
    load: Load

    def measured(self, spark: SparkSession, folder: Path) -> Measured:
        """Run the query and measure it. Remove its earlier output first."""
        out = folder.parent / self.name
        shutil.rmtree(out, ignore_errors=True)
        before = busy()
        query = self.run(spark, self.load, folder, out)
        query.awaitTermination()
        spent = busy() - before
        done = [one["durationMs"] for one in query.recentProgress if "addBatch" in one["durationMs"]]
        batches = self.load.batches
        steady = [one["triggerExecution"] for one in done[:batches]][min(WARM, batches // 2) :]
        there = any((out / "derived").glob("part-*"))
        rows = spark.read.parquet(str(out / "derived")).count() if there else 0
        rate = self.load.events * len(steady) / sum(steady) * 1000
        return Measured(rate, statistics.median(steady), rows, spent / max(1, len(done)))


def by_turns(queries: Sequence[Query], spark: SparkSession, folder: Path) -> dict[str, Measured]:
    """Run the queries in turn, and return their last results by name."""
    for _ in range(TURNS):
        found = {query.name: query.measured(spark, folder) for query in queries}
    return found


def busy() -> float:
    """Return the seconds of a core that this process and all below it have used."""
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            stats[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine, grown = {os.getpid()}, True
    while grown:
        below = {pid for pid, (parent, _) in stats.items() if parent in mine} - mine
        grown = bool(below)
        mine |= below
    return sum(stats[pid][1] for pid in mine if pid in stats) / os.sysconf("SC_CLK_TCK")


def flink(python: str, load: Load, folder: Path) -> dict[str, float]:
    """Return the events per second of Flink for the match and for a scan. The first run of a Java process does not
    count."""
    milliseconds = pl.col("time").dt.epoch("ms")
    for event in ("a", "b"):
        with (folder / f"{event}.csv").open("wb") as file:
            for found in load.tables():
                found[event].with_columns(milliseconds).write_csv(file, include_header=False)
    script = str(Path(__file__).with_name("flink.py"))
    command = [python, script, str(folder), "--within", str(load.within)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    times = json.loads(output.splitlines()[-1])
    return {name: load.events * load.batches / times[name] for name in ("match", "scan")}


def stored(load: Load, out: Path) -> tuple[int, int, int]:
    """Return three sizes in bytes: an engine's snapshot, the states of all buckets, and the whole checkpoint.

    They are measured after the last micro-batch. The checkpoint includes earlier states and logs.
    """
    engine = Engine.from_text(load.text, lateness=None)
    for number, found in enumerate(load.tables()):
        engine.push(found)
        engine.advance(((number + 1) * load.events - 1) * 1000 - 1)
    states = sum(file.stat().st_size for file in (out / "state" / BUCKETS).glob("[0-9]*-*-*"))
    every = sum(file.stat().st_size for file in (out / "state").rglob("*") if file.is_file())
    return len(engine.snapshot()), states, every


def lines(load: Load, spark: SparkSession, python: str | None) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp())
    size = f"{load.events:,} | {load.keys:,}"
    try:
        (folder / "in").mkdir()
        load.write(folder / "in")
        many = replace(load, rules=MANY)
        queries = Query("scan", scan, load), Query("seq", seq, load), Query("many", seq, many)
        found = by_turns(queries, spark, folder / "in")
        for name in ("scan", "seq"):
            one = found[name]
            share = f"{one.rate / found['scan'].rate:.0%} of scan, {found['scan'].cpu / one.cpu:.0%} by CPU"
            yield row(name, size, one, "" if name == "scan" else share)
        one = found["many"]
        times = f"{one.median / found['seq'].median:.2f} times one rule, {one.cpu / found['seq'].cpu:.2f} by CPU"
        yield row(f"seq, {MANY} rules", size, one, times)
        few = load.few
        (folder / "few").mkdir()
        few.write(folder / "few")
        joined = Query("join", join, few).measured(spark, folder / "few")  # it runs long enough to be compiled
        yield row(
            "join", f"{few.events:,} | {load.keys:,}", joined, f"seq: {found['seq'].rate / joined.rate:.1f} of join"
        )
        if python is not None:
            other = flink(python, load, folder)
            share = f"seq: {found['seq'].rate / other['match']:.1f} of Flink"
            yield f"| Flink, match | all | {load.keys:,} | {other['match']:,.0f} | | | | {share} |"
            yield f"| Flink, scan | all | {load.keys:,} | {other['scan']:,.0f} | | | | |"
        engine, buckets, every = stored(load, folder / "seq")
        share = f"{buckets / engine:.2f} of the engine's snapshot, {engine / 1e6:.1f} MB"
        yield f"| state, MB | {size} | | | {buckets / 1e6:.1f} | | {share}; the whole checkpoint {every / 1e6:.1f} MB |"
    finally:
        shutil.rmtree(folder)


def row(name: str, size: str, one: Measured, share: str) -> str:
    """Return a line of the table."""
    return f"| {name} | {size} | {one.rate:,.0f} | {one.median:,.0f} | {one.rows:,} | {one.cpu:.2f} | {share} |"


def empty(spark: SparkSession, batches: int) -> Iterator[str]:
    """Yield a line for micro-batches whose files have no rows."""
    load = Load(0, batches, 1_000)
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "in").mkdir()
        load.write(folder / "in")
        found = by_turns((Query("scan", scan, load), Query("seq", seq, load)), spark, folder / "in")
        own = f"{found['seq'].median - found['scan'].median:,.0f} ms more than scan"
        yield row("seq of nothing", "0 | ", found["seq"], f"{own}, {found['scan'].cpu:.2f} s of a core")
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--flink", metavar="PYTHON", help="a Python that has apache-flink")
    asked = parser.parse_args()
    spark = session("local[2]", SETTINGS)
    print("| query | events a micro-batch | keys | events/s | median ms | rows | cpu | |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for keys in asked.keys:
        for line in lines(Load(asked.events, asked.batches, keys), spark, asked.flink):
            print(line, flush=True)
    for line in empty(spark, 3 * asked.batches):
        print(line, flush=True)
    if asked.flink is None:
        print(f"\nFlink: {GET_FLINK}")


if __name__ == "__main__":
    main()
