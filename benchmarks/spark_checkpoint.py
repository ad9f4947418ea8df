"""What a bucket on Spark that revises writes for each micro-batch, where little comes and the window is long.

`python -m benchmarks.spark_checkpoint`: bytes for each micro-batch, beside those of the whole state, and how long
writing it took (CPU), once an hour of events is in the window.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from statistics import mean
from time import process_time

import polars as pl

from cep.core.schema import CHANGE
from cep.engine import Engine
from cep.spark.state.bucket_states import BucketStates
from cep.spark.ways import Ways, net

PROGRAM = """
event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
rising(S) <- (reading(S, _, T) SEQ reading(S, _, U)) WITHIN 60 s WHERE U > T + 15.
many(S, N) <- hot(S, _) AGGREGATE N = count() OVER LAST 10 min BY S.
"""
HOUR, SECOND = 3600 * 1_000_000, 1_000_000


def readings(rng: random.Random, since: int, count: int, sensors: int, late: float) -> pl.DataFrame:
    """Records of five seconds, of which some are up to half an hour late."""
    times = [since + rng.randrange(5 * SECOND) for _ in range(count)]
    times = [time - rng.randrange(HOUR // 2) if rng.random() < late else time for time in times]
    return pl.DataFrame(
        {
            "time": times,
            "sensor": [f"sensor {rng.randrange(sensors)}" for _ in times],
            "seq": [rng.randrange(1 << 40) for _ in times],
            "temp": [rng.uniform(10, 40) for _ in times],
            CHANGE: [1] * len(times),
        },
        schema_overrides={CHANGE: pl.Int8},
    )


def run(count: int, sensors: int, late: float) -> None:
    """Micro-batches of so many records for two hours."""
    rng, latest = random.Random(1), HOUR
    engine = Engine.from_text(PROGRAM, stage=1, lateness=None, revise=HOUR)
    ways, sizes, ways_sizes, spent, whole = Ways(engine.outputs), [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        stage, counted = BucketStates(folder, 1), BucketStates(folder, 2)
        seen: dict[str, int] = {}

        def written() -> int:
            now = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
            new = sum(size for name, size in now.items() if name not in seen)
            seen.clear()
            seen.update(now)
            return new

        for number in range(2 * HOUR // (5 * SECOND)):
            engine.receive({"reading": readings(rng, latest, count, sensors, late)})
            latest += 5 * SECOND
            given = engine.advance(latest - 1)
            began = process_time()
            stage.write(0, number + 1, engine.snapshot_in_segments(), number)
            wrote, took = written(), process_time() - began
            began = process_time()
            for event, table in given.items():
                ways.take(event, net(table))
            ways.forget(engine.stable)
            counted.write(0, number + 1, ways.snapshot("p"), number)
            if number * 5 * SECOND >= HOUR:
                sizes.append(wrote)
                ways_sizes.append(written())
                spent.append((took, process_time() - began))
                if number % 60 == 0:
                    whole.append(
                        (len(engine.snapshot()), sum(t.estimated_size() for r in ways.runs.values() for t in r.tables))
                    )
            else:
                written()
        files = len(list(Path(folder).iterdir()))
    print(
        f"{count:>5} records, {sensors:>6} sensors, {late:>4.0%} late: state {mean(sizes) / 1e3:,.0f} kB written "
        f"(whole {mean(one for one, _ in whole) / 1e3:,.0f} kB) in {1e3 * mean(t for t, _ in spent):.1f} ms; ways "
        f"{mean(ways_sizes) / 1e3:,.0f} kB (whole {mean(one for _, one in whole) / 1e3:,.0f} kB) in "
        f"{1e3 * mean(t for _, t in spent):.1f} ms; {files} files"
    )


if __name__ == "__main__":
    for count, sensors, late in ((10, 20, 0), (10, 20, 0.05), (100, 1000, 0), (100, 1000, 0.05)):
        run(count, sensors, late)
