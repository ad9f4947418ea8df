"""A micro-batch as plain Spark jobs. The first job reads the stream and distributes its rows. Then one job per stage
runs its buckets.

The last job also writes the output, unless rows of several buckets must be merged first. A micro-batch starts from the
states that the note of the previous micro-batch names. A micro-batch that the sink has committed is not run again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from cep.core.errors import CepError
from cep.core.time import BEGINNING
from cep.runtime.report import Report
from cep.spark import handover
from cep.spark.claims import Claims
from cep.spark.driver.reports import tell
from cep.spark.handed_blocks import HandedBlocks, of_rows
from cep.spark.key_lateness import KeyRule, KeyVerdict
from cep.spark.shuffle_blocks import REPORT, TIMES, WORLD, ShuffleBlock
from cep.spark.shuffled_batch import Place, ShuffledBatch
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileWriter
from cep.spark.spark_files import planned_at
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.bucket_states import RUN, state_name
from cep.spark.task_affinity import Slots, drained
from cep.spark.tasks import BucketInput, QueryWork, TaskInput, TaskOutput, run_task
from cep.spark.worker import Packed

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from cep.spark.foreach_batch import Receiver
    from cep.spark.former_fluents import FormerFluents
    from cep.spark.mirror import Mirror

TRIES = 3
"""The maximum number of times that a job runs until all its tasks have returned their results."""

IDLE = 15.0
"""The number of seconds after a micro-batch before empty tasks are needed to keep workers alive. It applies if each
task has its own worker."""

QUERY = "sql.streaming.queryId"
"""The name of a thread's local property in Spark. Its value is Spark's id of the query."""


class MicroBatches:
    """A function that runs each micro-batch of a query, in the query's thread.

    - `spark`: the folder of Spark's own files, which contain the watermark of each micro-batch.
    - `mirror`: the object that uploads the changes of each micro-batch, or None if nothing is uploaded.
    - `receiver`: an object that receives each committed micro-batch, with its Spark session. It may receive a
      micro-batch twice.
    - `ending`: the fluents of a former program that end with the first micro-batch.
    """

    def __init__(
        self,
        session: SparkSession,
        work: QueryWork,
        spark: Path,
        notes: BatchNotes,
        mirror: Mirror | None = None,
        receiver: Receiver | None = None,
        ending: FormerFluents | None = None,
    ) -> None:
        self.ending = ending
        self.context, self.work, self.spark, self.notes = session.sparkContext, work, spark, notes
        self.mirror, self.given = mirror, receiver
        self.slots = Slots(self.context)
        self.sent: Broadcast[Packed[QueryWork]] = self.context.broadcast(Packed.of(work))
        self.writer = FileWriter(work.sink)
        self._loads = work.handed is not None  # otherwise, each task has its own worker (`cep.spark.task_affinity`)
        self._running, self._ended = Lock(), monotonic()

    def load(self) -> None:
        """Compile the program in all workers, in a separate thread while Spark plans. Later calls do nothing.

        Without this call, if the input is one file, most workers would only compile the program in the second job.
        """
        if self._loads:
            Thread(target=self._loaded, daemon=True).start()
        self._loads = False

    def _loaded(self) -> None:
        with suppress(Exception):  # the first task reports the error; PySpark raises any error if Java has ended
            self.load_now()

    def load_now(self) -> None:
        """Compile the program now, in as many workers as a stage has tasks. Spark's errors are raised."""
        program, sent = self.work.stages[0].program, self.sent
        count = max(1, min(self.context.defaultParallelism, *map(program.count, program.stages)))
        self.context.parallelize(range(count), count).foreachPartition(lambda _: sent.value.open().load())

    def touch(self) -> None:
        """Run an empty task on each core, to keep workers alive. Spark's errors are raised.

        If each task has its own worker, do this only after a while without micro-batches, which also use all workers.
        """
        if self.work.handed is not None:
            count = self.context.defaultParallelism
            self.context.parallelize(range(count), count).mapPartitions(drained).collect()
        elif monotonic() - self._ended > IDLE and self._running.acquire(blocking=False):
            try:
                tasks = self.slots.nothing().mapPartitions(drained)  # in processes that read, after those that step
                assert tasks._jrdd is not None, "it is made while no micro-batch sets what lane processes are of"
            finally:
                self._running.release()
            tasks.collect()

    def __call__(self, stream: DataFrame, batch: int) -> None:
        with self._running:
            self._run(stream, batch)
        self._ended = monotonic()

    def _run(self, stream: DataFrame, batch: int) -> None:
        if self.writer.counts(batch):
            # The watermark follows the column. It is cast, because Python's dates end earlier.
            stream.selectExpr("CAST(time AS LONG)").collect()
            self.writer.commit([], batch)
            self._tell(batch, self.notes.after(batch).reports)
            self._ship()
            self._give(stream, batch)
            return
        self.load()
        if self.given is not None:
            self.given.begins(batch)
        ending = self.ending if batch == self.notes.first else None
        ended = () if ending is None else ending.write(self.context, self.work.sink)
        done = self._shuffled(stream, batch) if self.work.handed is None else self._handed(stream, batch)
        note = self.notes.after(batch - 1).after(done.versions, done.calls, done.reports)
        clocks = None
        if isinstance(done, MicroBatch) and done.judged is not None:
            note = replace(note, watermark=done.watermark, reached=max(done.watermark, done.judged.reached))
            clocks = done.judged.clocks
        self.notes.write(batch, note, clocks)
        self.writer.commit([*done.files, *ended], batch)
        self._tell(batch, done.reports)
        if self.work.handed is not None:
            handover.clear(Path(self.work.handed))
        self._ship()
        self._give(stream, batch)

    def _handed(self, stream: DataFrame, batch: int) -> MicroBatch:
        rows = of_rows(row[0] for row in stream.select("blocks").collect())
        planned = max(planned_at(self.spark, batch), self.notes.after(batch - 1).reached)
        done = MicroBatch(self, batch, planned, rows)
        done.run()
        return done

    def _shuffled(self, stream: DataFrame, batch: int) -> ShuffledBatch:
        """Run a micro-batch whose tasks share no folder."""
        mirror, folder = self.mirror, Path(self.work.stages[0].states.folder)
        assert mirror is not None, "what they make is to be found somewhere"
        place = Place(mirror.packs, mirror.number + 1, mirror.run, (folder / RUN).read_text(), mirror.states(folder))
        done = ShuffledBatch(self.work, batch, planned_at(self.spark, batch), self.notes.after(batch - 1), place)
        try:
            done.run(self.slots, self.sent, stream)
        except Exception:
            mirror.refuse_overtaken()  # if another run has taken over, files that tasks need are gone
            raise
        self.writer.stand_in(done.files)
        mirror.coming(folder, done.states, done.written)
        return done

    def _give(self, stream: DataFrame, batch: int) -> None:
        if self.given is not None:
            self.given.give(stream.sparkSession, batch)

    def _ship(self) -> None:
        if self.mirror is not None:
            self.mirror.ship()

    def _tell(self, batch: int, lines: Iterable[str]) -> None:
        query = self.context.getLocalProperty(QUERY) or ""
        tell(query, batch, [Report.of_line(line) for line in lines])


class MicroBatch:
    """One micro-batch: the blocks that wait for each stage, and the results of its jobs so far.

    `judged`: the keys that have late records, or None if all records share one clock.
    """

    def __init__(self, query: MicroBatches, batch: int, watermark: int, rows: HandedBlocks) -> None:
        self._query, self._batch, self.watermark = query, batch, watermark
        self._before = query.notes.after(batch - 1)
        self._waiting: dict[int, list[HandedBlocks]] = {}
        self.versions: dict[str, int] = {}
        self.calls: dict[str, int | None] = {}
        self.reports: list[str] = []
        self.files: list[OutputFile] = []
        self.judged: KeyVerdict | None = None
        self._take(rows)
        if query.work.rule is not None:
            self._judge(query.work.rule)

    def _judge(self, rule: KeyRule) -> None:
        """Find the keys that have late records. Send them to the buckets that have blocks."""
        passed = self.watermark * 1000 - 1 if self.watermark > 0 else BEGINNING
        clocks = self._query.notes.clocks(self._batch - 1)
        self.judged = rule.judge(self._came(TIMES), clocks, passed)
        for stage, blocks in self._waiting.items() if self.judged.until else ():
            buckets = distinct(HandedBlocks.joined(blocks)) if stage > WORLD else ()
            blocks.append(HandedBlocks.of(self.judged.block(stage, bucket) for bucket in buckets))

    def run(self) -> None:
        """Run the jobs of the micro-batch. Raises the CepErrors of `run_task`, and Spark's errors if a job fails."""
        work = self._query.work
        program = work.stages[0].program
        meets = bool(program.merged)
        for stage_work in work.stages:
            last = stage_work.number == len(work.stages) and not meets
            stage = program.stages[stage_work.number - 1]
            steps = self._steps(stage_work.number, program.count(stage))
            self._job(stage_work.number, steps, writes=last)
        if meets:
            number, world = len(work.stages) + 1, self._came(WORLD)
            self._waiting[WORLD] = [world]
            mine = world.of_events(program.merged if work.ways is not None else ())
            versions = {bucket: self._before.versions.get(state_name(number, bucket), 0) for bucket in distinct(mine)}
            counted = {bucket: BucketInput(version, ()) for bucket, version in versions.items()}
            self._job(number if counted else 0, counted, writes=True)

    def _came(self, stage: int) -> HandedBlocks:
        """Remove and return the blocks that wait for a stage or for the sink."""
        return HandedBlocks.joined(self._waiting.pop(stage, ()))

    def _steps(self, stage: int, count: int) -> dict[int, BucketInput]:
        """Return the input of the buckets of a stage, by number. Only buckets that have input, or that must run at the
        current watermark, are included."""
        arrived = self._came(stage)
        blocks: dict[int, Iterable[ShuffleBlock]] = {**arrived.by(arrived.buckets)}
        for bucket in range(count):
            if self._before.calls.get(state_name(stage, bucket), self.watermark + 1) <= self.watermark:
                blocks.setdefault(bucket, ())
        versions = self._before.versions
        return {
            bucket: BucketInput(versions.get(state_name(stage, bucket), 0), blocks[bucket]) for bucket in sorted(blocks)
        }

    def _job(self, stage: int, buckets: Mapping[int, BucketInput], writes: bool) -> None:
        """Run buckets of a stage in one Spark job. `writes`: True if the job also writes the output.

        In the first micro-batch of a query, the job writes a file even if there is no output.
        """
        world = self._came(WORLD) if writes else HandedBlocks()
        first = writes and self._query.work.sink.first + self._batch == 0
        wanted = sorted({*buckets, *distinct(world)}) or ([0] if first else [])
        if not wanted:
            return
        context = self._query.context
        count = min(len(wanted), max(1, context.defaultParallelism))
        place = {bucket: number % count for number, bucket in enumerate(wanted)}
        steps: list[dict[int, BucketInput]] = [{} for _ in range(count)]
        for bucket, bucket_input in buckets.items():
            steps[place[bucket]][bucket] = bucket_input
        sent = world.by(np.searchsorted(wanted, world.buckets) % count)
        tasks = [
            TaskInput(number, self._batch, stage, self.watermark, steps[number], sent.get(number, ()), writes)
            for number in range(count)
        ]
        for done in every(tasks, self._tasks):
            self._took(stage, done)

    def _tasks(self, tasks: Sequence[TaskInput]) -> Sequence[TaskOutput]:
        """Run tasks and return their outputs, of which some may be missing.

        Spark may run two copies of a task at once, for example after it has lost the connection to a machine. If the
        copies claim different task inputs, the output of one copy may be lost, or a task input may remain unclaimed.
        """
        handed, sent, count = self._query.work.handed, self._query.sent, len(tasks)
        assert handed is not None, "tasks share a folder"
        context, claims = self._query.context, Claims.put(handed, tasks)
        # Each input is pickled by itself, because a worker receives all of them but needs only its own.
        inputs = context.broadcast([pickle.dumps(task) for task in tasks])
        jobs = context.parallelize(range(count), count)
        claimed: list[TaskOutput] = jobs.mapPartitions(lambda some: _done(sent, inputs, claims, some)).collect()
        inputs.destroy()
        return claimed

    def _took(self, stage: int, done: TaskOutput) -> None:
        self.versions |= {state_name(stage, bucket): version for bucket, version in done.versions.items()}
        self.calls |= {state_name(stage, bucket): call for bucket, call in done.calls.items()}
        self.files += done.files
        assert isinstance(done.handed, HandedBlocks), "tasks share a folder"
        self._take(done.handed)

    def _take(self, blocks: HandedBlocks) -> None:
        for stage, some in blocks.by(blocks.stages).items():
            if stage == REPORT:
                self.reports += some.sources
            else:
                self._waiting.setdefault(stage, []).append(some)


def distinct(blocks: HandedBlocks) -> list[int]:
    """Return the distinct bucket numbers of blocks, sorted."""
    buckets: list[int] = np.unique(blocks.buckets).tolist()
    return buckets


def every(
    tasks: Sequence[TaskInput], run: Callable[[Sequence[TaskInput]], Iterable[TaskOutput]]
) -> Iterator[TaskOutput]:
    """Return the output of each task, in the order of the tasks. Tasks whose output is missing are run again.

    Raises CepError if an output is still missing after `TRIES` runs.
    """
    outputs: dict[int, TaskOutput] = {}
    for _ in range(TRIES):
        outputs = {done.number: done for done in run([task for task in tasks if task.number not in outputs])} | outputs
        if len(outputs) == len(tasks):
            return (outputs[task.number] for task in tasks)
    raise CepError(
        "Spark has lost the result of a task", hint="the same command continues from the checkpoint", code="failed"
    )


def _done(
    sent: Broadcast[Packed[QueryWork]], inputs: Broadcast[list[bytes]], claims: Claims, some: Iterable[int]
) -> list[TaskOutput]:
    work = sent.value.open()
    places = (claims.claim(task, work.keeps) for task in some)
    return [run_task(work, pickle.loads(inputs.value[place])) for place in places if place is not None]
