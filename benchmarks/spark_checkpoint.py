"""The bytes that a bucket on Spark writes per micro-batch, if the input is small and the state is large.

`python -m benchmarks.spark_checkpoint` prints them, the bytes of the whole state, and the CPU time of writing. One case
has a state of 100,000 keys. Another revises its input, with an hour of events in the window.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from statistics import mean
from time import process_time

import numpy as np
import polars as pl

from cep.core.schema import ARRIVAL, CHANGE
from cep.core.values import Ints
from cep.engine import Engine
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import from_outside
from cep.spark.stage_task import StageTask, StageWork
from cep.spark.state.bucket_states import BucketStates
from cep.spark.state.delta_log import Came
from cep.workers.multiplicities import Ways, net

PROGRAM = """
event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
rising(S) <- (reading(S, _, T) SEQ reading(S, _, U)) WITHIN 60 s WHERE U > T + 15.
many(S, N) <- hot(S, _) AGGREGATE N = count() OVER LAST 10 min BY S.
"""
HOUR, SECOND = 3600 * 1_000_000, 1_000_000


def readings(rng: random.Random, since: int, count: int, sensors: int, late: float) -> pl.DataFrame:
    """Return records of five seconds, some of which are up to half an hour late."""
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
    """Run micro-batches of `count` records for two hours of event time."""
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


RULES = {
    "SEQ": "ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 1 h.",
    "UNLESS": "quiet(I, X) <- a(I, X) UNLESS b(I, _) WITHIN 1 h.",
    "sum of the last hour": "s(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 1 h BY I.",
}
KEYS, BATCHES = 100_000, 300


def step_of(task: StageTask, program: ShippedProgram, since: int, ids: Ints, version: int) -> None:
    """Step a micro-batch with one record per key, half of each event, a millisecond apart.

    The watermark advances to the beginning of the micro-batch.
    """
    times = since + 1000 * np.arange(len(ids))
    tables = {
        event: pl.DataFrame({"start": times[n::2], "end": times[n::2], ARRIVAL: times[n::2], "id": ids[n::2], "x": 1})
        for n, event in enumerate("ab")
    }
    blocks = list(from_outside(program, {event: tables[event] for event in program.inputs}, 0, "days/1.jsonl"))
    task.step(0, version, blocks, since // 1000, version)


def run_large(name: str, rule: str, count: int) -> None:
    """Run micro-batches of `count` records, ten seconds apart, after an hour's records of 100,000 keys.

    Compare a state that is written whole each time with one that logs its input.
    """
    text = f"event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.\n{rule}"
    program = ShippedProgram.of(Engine.from_text(text), text, "p.cep", ProgramOptions(), 1)
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as log:
        tasks = [StageWork(program, 1, at, (), None, BucketStates(at, 1), None).task() for at in (whole, log)]
        spent, wrote = {whole: 0.0, log: 0.0}, {whole: 0, log: 0}
        for number in range(BATCHES):
            ids = rng.permutation(KEYS) if not number else rng.integers(0, KEYS, count)
            for task in tasks:
                at = task.states.folder
                if at == whole:
                    task.states = _Whole(at, 1)
                began = process_time()
                step_of(task, program, HOUR + (100 + 10 * number) * SECOND if number else HOUR, ids, number)
                if number:
                    spent[at] += process_time() - began
                    wrote[at] += Path(at, f"1-0000-{number + 1:08}").stat().st_size
    each = BATCHES - 1
    print(
        f"{count:>5} records, {name}: {wrote[log] / each / 1e3:,.1f} kB written (whole {wrote[whole] / each / 1e3:,.0f}"
        f" kB), {1e3 * spent[log] / each:.1f} ms of CPU a step (whole {1e3 * spent[whole] / each:.1f} ms)"
    )


class _Whole(BucketStates):
    """States that are always written whole."""

    def append(self, bucket: int, version: int, came: Came, batch: int) -> bool:
        return False


if __name__ == "__main__":
    for name, rule in RULES.items():
        for count in (10, 1000):
            run_large(name, rule, count)
    for count, sensors, late in ((10, 20, 0), (10, 20, 0.05), (100, 1000, 0), (100, 1000, 0.05)):
        run(count, sensors, late)
