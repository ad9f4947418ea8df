"""`python -m benchmarks.spark`: a SEQ by key on Spark, next to a scan that is written, and to Spark's own join."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from cep.engine import Engine
from cep.spark.job import Job, start
from cep.spark.program import Options, Program
from cep.spark.session import session

WARM = 3
"""Micro-batches that are not counted: workers start, kernels load."""

COLUMNS = "id long, x long, time timestamp"


@dataclass(frozen=True, slots=True)
class Load:
    """`batches` micro-batches of so many events, half of them `a`, half `b`, a millisecond apart, over `keys` keys."""

    events: int
    batches: int
    keys: int

    @property
    def within(self) -> int:
        """Milliseconds in which a key has about four events."""
        return 4 * self.keys

    def write(self, folder: Path) -> None:
        """A Parquet file of each event a micro-batch."""
        random = np.random.default_rng(1)
        half = self.events // 2
        for number in range(self.batches):
            for event, odd in (("a", 0), ("b", 1)):
                (folder / event).mkdir(exist_ok=True)
                ticks = (np.arange(half) * 2 + odd + number * self.events) * 1000
                pl.DataFrame(
                    {
                        "id": random.integers(0, self.keys, half),
                        "x": random.integers(0, 100, half),
                        "time": pl.Series(ticks).cast(pl.Datetime("us", "UTC")),
                    }
                ).write_parquet(folder / event / f"{number:04}.parquet")


def scan(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Reads and writes."""
    return _written(_read(spark, folder / "*", 2), out)


def join(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """The SEQ as a join of two streams."""
    left, right = (
        _read(spark, folder / event, 1).withWatermark("time", "0 seconds").alias(event) for event in ("a", "b")
    )
    condition = sql.expr(f"a.id = b.id AND b.time > a.time AND b.time <= a.time + INTERVAL {load.within} MILLISECONDS")
    found = left.join(right, condition)
    columns = ["a.time AS start", "b.time AS end", "a.id AS i", "a.x AS x", "b.x AS y"]
    return _written(found.selectExpr(*columns), out)


def seq(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """The SEQ as a rule."""
    text = (
        "event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.\n"
        f"ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN {load.within} ms."
    )
    program = Program.of(Engine.from_text(text), text, "<benchmark>", Options(), 16)
    inputs = tuple(f"{event}={folder / event}" for event in ("a", "b"))
    (out / "state").mkdir(parents=True)
    job = Job(program, inputs, str(out / "derived"), str(out / "state"), program.outputs, 0, limit=2)
    return start(spark, job)


def _read(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files).parquet(str(folder))


def _written(found: DataFrame, out: Path) -> Any:
    writer = found.writeStream.option("checkpointLocation", str(out / "state")).option("path", str(out / "derived"))
    return writer.format("parquet").trigger(availableNow=True).start()


Run = Callable[[SparkSession, Load, Path, Path], Any]


def measured(run: Run, spark: SparkSession, load: Load, folder: Path) -> tuple[float, float, int]:
    """Events a second, the median micro-batch in milliseconds, rows written; in micro-batches with input."""
    out = folder.parent / run.__name__
    shutil.rmtree(out, ignore_errors=True)
    query = run(spark, load, folder, out)
    query.awaitTermination()
    times = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"] > 0]
    steady = times[WARM:]
    rows = spark.read.parquet(str(out / "derived")).count()
    return load.events * len(steady) / sum(steady) * 1000, statistics.median(steady), rows


def lines(load: Load, spark: SparkSession) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "in").mkdir()
        load.write(folder / "in")
        rates: dict[str, float] = {}
        for run in (scan, seq, join):
            rate, median, rows = measured(run, spark, load, folder / "in")
            rates[run.__name__] = rate
            share = "" if run is scan else f"{rate / rates['scan']:.0%} of scan"
            size = f"{load.events:,} | {load.keys:,}"
            yield f"| {run.__name__} | {size} | {rate:,.0f} | {median:,.0f} | {rows:,} | {share} |"
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000, 100_000])
    asked = parser.parse_args()
    spark = session("local[2]", {"spark.driver.memory": "4g", "spark.driver.host": "127.0.0.1"})
    print("| query | events a micro-batch | keys | events/s | median ms | rows | |\n|---|---|---|---|---|---|---|")
    for keys in asked.keys:
        for line in lines(Load(asked.events, asked.batches, keys), spark):
            print(line, flush=True)


if __name__ == "__main__":
    main()
