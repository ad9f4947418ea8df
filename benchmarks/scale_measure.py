"""The cost of the parts of a micro-batch, in seconds of a core: tasks in one process, and micro-batches of a cluster.

The cluster is Spark's `local-cluster` on this machine: a driver, and executors of one core each. Every executor is a
Java process with Python processes below it. Their CPU time is read from `/proc`. Java's compiler is excluded, because
it keeps compiling for hundreds of micro-batches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import polars as pl

from benchmarks.spark import Load

WARM = 0.5
"""The share of a query's micro-batches that is ignored, while Java compiles, workers start, and kernels load."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A micro-batch of `events` events, half `a` and half `b`, with `keys` keys, in `files` files. The program has
    `rules` rules and runs in `buckets` buckets.

    A WITHIN contains about four events per key, so that about one partner waits for each event.
    """

    events: int
    keys: int = 1_000
    files: int = 2
    buckets: int = 1
    rules: int = 1

    @property
    def load(self) -> Load:
        return Load(self.events, 1, self.keys, self.rules)

    @property
    def blocks(self) -> int:
        """The number of shuffle blocks of its rows."""
        return self.files * self.buckets

    @property
    def waiting(self) -> int:
        """The number of events `a` that wait in the state: half of a WITHIN, which has one event per millisecond."""
        return self.load.within // 2


def write_files(folder: Path, shape: Shape, batches: int) -> None:
    """Write the files of micro-batches, sorted by name. Each contains a share of one event's rows."""
    load, parts = Load(shape.events, batches, shape.keys), shape.files // 2
    for event in ("a", "b"):
        (folder / event).mkdir(parents=True)
    for number, found in enumerate(load.tables()):
        for event, table in found.items():
            for part in range(parts):
                mine = table[part * table.height // parts : (part + 1) * table.height // parts]
                mine.write_parquet(folder / event / f"{number:04}-{part:04}.parquet")


# --- tasks, in one process ---


@dataclass(slots=True)
class TaskCosts:
    """Costs of one micro-batch, in seconds of a core.

    `read`: reading files into tables. `deal`: distributing rows to buckets and packing them. `hand`: passing the bytes
    on and receiving them. `step`: the step, including unpacking. `log`: writing the input to the log of the states.
    `whole`: writing whole states, at the end. `write`: writing derived rows. Also: `handed`, the bytes passed on;
    `kept`, the bytes of the whole states; `derived`, the number of derived rows.
    """

    read: float = 0.0
    deal: float = 0.0
    hand: float = 0.0
    step: float = 0.0
    log: float = 0.0
    whole: float = 0.0
    write: float = 0.0
    handed: float = 0.0
    kept: float = 0.0
    derived: float = 0.0


def task_costs(shape: Shape, batches: int) -> TaskCosts:
    """Return the mean costs of a micro-batch, over the second half of the micro-batches.

    `log` is the least cost instead, because versions that are written whole take longer.
    """
    from cep.connectors.files import read_one
    from cep.connectors.inputs import Input
    from cep.engine import Engine
    from cep.spark.handover import FEW
    from cep.spark.outbox import Outbox
    from cep.spark.program import ProgramOptions, ShippedProgram
    from cep.spark.shuffle_blocks import REPORT, TIME, WorldRows
    from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
    from cep.spark.source.reading import file_blocks, numbered
    from cep.spark.stage_task import StageTask, StageWork
    from cep.spark.state.bucket_states import BucketStates, state_name
    from cep.spark.state.delta_log import Came

    class Timed(StageTask):
        """A task that measures the time to keep the state. It also writes the whole state each time, to measure this,
        too."""

        kept = whole = 0.0
        size = 0

        def keep(self, bucket: int, version: int, engine: Engine, batch: int, came: Came) -> None:
            began = process_time()
            super().keep(bucket, version, engine, batch, came)
            self.kept += process_time() - began
            began = process_time()
            apart.write(bucket, version, engine.snapshot_in_segments(), batch)
            self.whole += process_time() - began
            self.size += (Path(apart.folder) / f"{state_name(1, bucket)}-{version:08}").stat().st_size

    text = shape.load.text
    program = ShippedProgram.of(Engine.from_text(text), text, "<benchmark>", ProgramOptions(), shape.buckets)
    found: list[TaskCosts] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder / "in", shape, batches)
        for each in ("handed", "state", "apart", "out"):
            (folder / each).mkdir()
        states, apart = BucketStates(f"{folder}/state", 1), BucketStates(f"{folder}/apart", 1)
        work = StageWork(program, 1, "benchmark", tuple(program.outputs), None, states, None)
        schemas = {event: program.outputs[event] for event in program.outputs}
        writer = FileWriter(FileSinkOptions(str(folder / "out"), "parquet", schemas, program.merged))
        versions = dict.fromkeys(range(shape.buckets), 0)
        for batch in range(batches):
            costs, outbox = TaskCosts(), Outbox(f"{folder}/handed", FEW)
            inputs = [
                Input(str(path), "parquet", event, True)
                for event in ("a", "b")
                for path in sorted((folder / "in" / event).glob(f"{batch:04}-*"))
            ]
            for number, one in enumerate(inputs):
                began = process_time()
                for piece in read_one(one, program.read, rows=1 << 19):
                    numbered(piece, number)
                costs.read += process_time() - began
                began = process_time()
                blocks = [
                    block for block in file_blocks(program, batch * 64 + number, one, None) if block.stage != TIME
                ]
                costs.deal += process_time() - began
                costs.handed += sum(len(block.rows) for block in blocks)
                began = process_time()
                for block in blocks:
                    outbox.add(block)
                costs.hand += process_time() - began
            costs.deal -= costs.read
            began = process_time()
            taken = [block for block in outbox.close() if block.stage != REPORT]
            costs.hand += process_time() - began
            task, rows = Timed(work), list[WorldRows]()
            began = process_time()
            watermark = max(0, (batch * shape.events) - 1)
            for bucket, version in versions.items():
                mine = [block for block in taken if block.bucket == bucket]
                stepped = task.step(bucket, version, mine, watermark, batch)
                versions[bucket] = stepped.version
                rows += stepped.world
            costs.step = process_time() - began - task.kept - task.whole
            costs.log, costs.whole, costs.kept = task.kept, task.whole, task.size
            began = process_time()
            writer.write(((one.event, one.table) for one in rows), 0, batch)
            costs.write = process_time() - began
            costs.derived = sum(one.table.height for one in rows)
            found.append(costs)
    steady = [asdict(one) for one in found[int(WARM * batches) :]]
    mean = {name: sum(one[name] for one in steady) / len(steady) for name in steady[0]}
    return TaskCosts(**mean | {"log": min(one["log"] for one in steady)})


def least(found: Sequence[TaskCosts]) -> TaskCosts:
    """Return the least seconds of each part, because other work on the machine only adds time.

    All measurements must be of the same events, so that their bytes and rows are equal.
    """
    return TaskCosts(**{name: min(getattr(one, name) for one in found) for name in asdict(found[0])})


@dataclass(slots=True)
class BlockCosts:
    """Seconds of a core per block.

    `driver`: it receives the block's metadata, assigns it, and announces it to a task. `workers`: one packs, sends and
    announces the block, and another one receives, unpacks and steps it.
    """

    driver: float
    workers: float


# --- micro-batches, of a cluster ---


THREADS = "-XX:-UseDynamicNumberOfCompilerThreads"
"""A Java option: threads of the compiler live as long as Java does, so all their CPU time can be read at the end."""


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """Seconds of a core per micro-batch, averaged over the second half of a query, and the rows that it derives.

    `driver`: this process, its Java, and the Python process for planning. `workers`: all executors.
    """

    driver: float
    workers: float
    derived: int


def cluster_costs(workers: int, asked: Sequence[tuple[Shape, int]]) -> list[BatchCosts]:
    """Measure micro-batches of several shapes in a cluster of one-core workers.

    A separate process starts the cluster. The cluster ends with this process.
    """
    text = json.dumps([workers, [[asdict(shape), batches] for shape, batches in asked]])
    command = [sys.executable, "-m", "benchmarks.scale_measure", text]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [BatchCosts(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def _in_cluster(workers: int, asked: list[tuple[Shape, int]]) -> list[BatchCosts]:
    from cep.engine import Engine
    from cep.spark.driver import query as queries
    from cep.spark.driver.session import session
    from cep.spark.job import Job, start
    from cep.spark.program import ProgramOptions, ShippedProgram

    settings = {"spark.driver.host": "127.0.0.1", "spark.default.parallelism": "64", "spark.driver.memory": "2g"}
    settings |= {f"spark.{side}.extraJavaOptions": THREADS for side in ("driver", "executor")}
    spark, found = session(f"local-cluster[{workers},1,1024]", settings), []
    for shape, batches in asked:
        looks = int(WARM * batches) - 1, batches - 1  # micro-batches
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder / "in", shape, batches)
            (folder / "state").mkdir()
            text = shape.load.text
            program = ShippedProgram.of(Engine.from_text(text), text, "<benchmark>", ProgramOptions(), shape.buckets)
            inputs = tuple(f"{event}={folder}/in/{event}" for event in ("a", "b"))
            wanted = Job(
                program,
                inputs,
                f"{folder}/derived",
                f"{folder}/state",
                tuple(program.outputs),
                lateness=0,
                limit=shape.files,
                closing=False,
            )
            noted: dict[int, Taken] = {}

            def take(done: queries.MicroBatch, at: Any = looks, noted: dict[int, Any] = noted) -> None:
                if done.number in at:
                    noted[done.number] = cpu()  # this takes some hundredths of a second

            with queries.listening(spark, take):
                start(spark, wanted).awaitTermination()
            first, last = looks
            driver, below = (seconds / (last - first) for seconds in between(noted[first], noted[last]))
            rows = sum(pl.scan_parquet(file).select(pl.len()).collect().item() for file in _parts(folder / "derived"))
            found.append(BatchCosts(driver, below, rows // batches))
    spark.stop()
    return found


def _parts(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("part-*.parquet") if "_spark_metadata" not in file.parts]


@dataclass(frozen=True, slots=True)
class Taken:
    """CPU ticks by process id, without Java's compiler.

    `driver`: this process, its Java, and the Python processes of both. `workers`: all executors and their processes.
    """

    driver: Mapping[int, int]
    workers: Mapping[int, int]


def cpu() -> Taken:
    """Return the CPU ticks used so far."""
    parents, ticks, executors = dict[int, int](), dict[int, int](), set[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
            compiling = sum(map(_compiling, folder.glob("task/*/stat"))) if THREADS.encode() in command else 0
            pid = int(folder.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:13])) - compiling
            if b"CoarseGrainedExecutorBackend" in command:
                executors.add(pid)
    every = _below(parents, {os.getpid()})
    apart = _below(parents, executors & every)
    return Taken({pid: ticks[pid] for pid in every - apart}, {pid: ticks[pid] for pid in apart})


def between(then: Taken, now: Taken) -> tuple[float, float]:
    """Return the seconds of a core that the driver and the workers have used between two calls of `cpu`.

    The last ticks of processes that have ended are missing. In a warm cluster, only idle processes end.
    """
    sides = (then.driver, now.driver), (then.workers, now.workers)
    driver, workers = (sum(more - before.get(pid, 0) for pid, more in after.items()) for before, after in sides)
    tick = os.sysconf("SC_CLK_TCK")
    return driver / tick, workers / tick


def _compiling(stat: Path) -> int:
    """Return the CPU ticks of a thread of Java if the thread belongs to the compiler. Otherwise return 0."""
    with suppress(OSError):  # it has ended, so it was no compiler thread
        name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        return sum(map(int, fields.split()[11:13])) if name[:2] in ("C1", "C2") else 0
    return 0


def _below(parents: Mapping[int, int], roots: set[int]) -> set[int]:
    """Return the processes `roots` and all their descendants."""
    mine, grown = set(roots), True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    return mine & parents.keys()


if __name__ == "__main__":
    count, shapes = json.loads(sys.argv[1])
    made = _in_cluster(count, [(Shape(**shape), batches) for shape, batches in shapes])
    print(json.dumps([asdict(one) for one in made]))
