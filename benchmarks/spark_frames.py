"""`python -m benchmarks.spark_frames`: one rule on Spark through each API, compared with a scan.

The rule is a SEQ by key, from Parquet to Parquet. It runs as `cep run --on spark` does, over its own list of files, and
over streaming DataFrames with `start()` and with `frame()`. All run in one session, in turn, and the last run counts.
`cpu` is seconds of a core, of Java and Python together. It is the best figure if the machine has other work. The
session has as many shuffle partitions as cores. Each partition is a store and a Python process of `transformWithState`
in every micro-batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.spark import BUCKETS_OF_KEYS, SETTINGS, WARM, Load, Measured, Query, scan, seq
from cep.spark import Rules
from cep.spark.driver.session import session
from cep.spark.streams import Stream

CORES = 2
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COLUMNS = "id long, x long, time timestamp"
MOST = 3.0
"""The maximum time of `frame()`, relative to `start()`."""


def stream(spark: SparkSession, load: Load, folder: Path) -> Stream:
    """Return the rule over streaming DataFrames, with one file of each event per micro-batch."""
    frames = {
        event: spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / event))
        for event in ("a", "b")
    }
    order = dict.fromkeys(frames, "time")
    return Rules.from_text(load.text).over(frames, order=order, ahead=None, buckets=BUCKETS_OF_KEYS)


def by_start(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Start the rule with `Stream.start`."""
    return stream(spark, load, folder).start(output=out / "derived", checkpoint=out / "state", available_now=True)


def by_frame(spark: SparkSession, load: Load, folder: Path, out: Path) -> Any:
    """Start the rule with `Stream.frame`. Spark writes the result."""
    writer = stream(spark, load, folder).frame("ab").writeStream.option("checkpointLocation", str(out / "state"))
    return writer.format("parquet").trigger(availableNow=True).start(str(out / "derived"))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_frames", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=WARM + 4)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    load = Load(options.events, options.batches, options.keys)
    stores = {"spark.sql.streaming.stateStore.providerClass": STORE, "spark.sql.shuffle.partitions": str(CORES)}
    spark = session(f"local[{CORES}]", SETTINGS | stores)
    ways = {"scan and write": scan, "cep run": seq, "start()": by_start, "frame()": by_frame}
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "in")
        folder.mkdir()
        load.write(folder)
        for _ in range(options.turns):
            for number, (name, run) in enumerate(ways.items()):
                found[name] = Query(f"query-{number}", run, load).measured(spark, folder)
                print(f"{name}: {found[name].cpu:.2f} s of a core a micro-batch", file=sys.stderr, flush=True)
    floor = found["scan and write"]
    busy = f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores"
    print(f"{load.events:,} events a micro-batch, {load.keys:,} keys, {busy}")
    print("| way | ms a micro-batch | cpu, s | of scan and write, by cpu | rows |\n|---|--:|--:|--:|--:|")
    for name, one in found.items():
        print(f"| {name} | {one.median:.0f} | {one.cpu:.2f} | {one.cpu / floor.cpu:.2f} | {one.rows:,} |")
    ratio = found["frame()"].cpu / found["start()"].cpu
    print(f"frame() takes {ratio:.2f} times the cpu of start(), {'within' if ratio <= MOST else 'above'} {MOST:g}")


if __name__ == "__main__":
    main()
