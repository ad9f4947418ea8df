"""A micro-batch as plain jobs: one reads the stream and deals its rows to buckets, then one for each stage steps these.

The last one writes as well, unless rows of several buckets have to meet first. The state that a micro-batch begins with
is that in the note of the one before it. One that counts in the sink already is not done again.
"""

from __future__ import annotations

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
from cep.spark.handed_blocks import HandedBlock, HandedBlocks, of_rows
from cep.spark.key_lateness import KeyRule, KeyVerdict
from cep.spark.shuffle_blocks import REPORT, TIMES, WORLD
from cep.spark.shuffled_batch import Place, ShuffledBatch
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileWriter
from cep.spark.spark_files import planned_at
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.bucket_states import RUN, state_name
from cep.spark.task_affinity import Slots, drained
from cep.spark.tasks import BucketInput, PackedWork, QueryWork, TaskInput, TaskOutput, run_task

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from cep.spark.foreach_batch import Receiver
    from cep.spark.mirror import Mirror

TRIES = 3
"""Jobs in which tasks that were lost are done again."""

IDLE = 15.0
"""Seconds after a micro-batch in which workers of single tasks are not touched."""

QUERY = "sql.streaming.queryId"
"""The local property in which Spark has the name of the query that a thread works for."""


class MicroBatches:
    """Called with each micro-batch of a query, in its thread. `spark`: the folder of Spark's own files, which has the
    watermark of each; `mirror`: by which one counts elsewhere, None: it does not have to; `given`: to whom it is given
    once it counts, with the session of the micro-batch, again where that is not known to have been done."""

    def __init__(
        self,
        session: SparkSession,
        work: QueryWork,
        spark: Path,
        notes: BatchNotes,
        mirror: Mirror | None = None,
        given: Receiver | None = None,
    ) -> None:
        self.context, self.work, self.spark, self.notes = session.sparkContext, work, spark, notes
        self.mirror, self.given = mirror, given
        self.slots = Slots(self.context)
        self.sent: Broadcast[PackedWork] = self.context.broadcast(work.packed())
        self.writer = FileWriter(work.sink)
        self._loads = work.handed is not None  # else each task has a worker of its own (`cep.spark.task_affinity`)
        self._running, self._ended = Lock(), monotonic()

    def load(self) -> None:
        """Have workers load what tasks need, once, while Spark plans: where there is one file, the first job needs one
        worker, and the others would begin to load with the second."""
        if self._loads:
            Thread(target=self._loaded, daemon=True).start()
        self._loads = False

    def _loaded(self) -> None:
        with suppress(Exception):  # the first task says what is wrong; or all is over, and PySpark raises anything
            self.load_now()

    def load_now(self) -> None:
        """The same, at once: as many workers as a stage has tasks. Spark's errors."""
        program, sent = self.work.stages[0].program, self.sent
        count = max(1, min(self.context.defaultParallelism, *map(program.count, program.stages)))
        self.context.parallelize(range(count), count).foreachPartition(lambda _: sent.value.work().load())

    def touch(self) -> None:
        """Give each core a task that does nothing; where tasks have workers of their own, only if there was no
        micro-batch for a while, of which each has a task. Spark's errors."""
        if self.work.handed is not None:
            count = self.context.defaultParallelism
            self.context.parallelize(range(count), count).mapPartitions(drained).collect()
        elif monotonic() - self._ended > IDLE and self._running.acquire(blocking=False):
            try:
                tasks = self.slots.nothing().mapPartitions(drained)  # of those who read, behind those who step
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
            stream.selectExpr("CAST(time AS LONG)").collect()  # what the watermark follows; dates end earlier
            self.writer.commit([], batch)
            self._tell(batch, self.notes.after(batch).reports)
            self._ship()
            self._give(stream, batch)
            return
        self.load()
        if self.given is not None:
            self.given.begins(batch)
        done = self._shuffled(stream, batch) if self.work.handed is None else self._handed(stream, batch)
        note = self.notes.after(batch - 1).after(done.versions, done.calls, done.reports)
        clocks = None
        if isinstance(done, MicroBatch) and done.judged is not None:
            note = replace(note, watermark=done.watermark, reached=max(done.watermark, done.judged.reached))
            clocks = done.judged.clocks
        self.notes.write(batch, note, clocks)
        self.writer.commit(done.files, batch)
        self._tell(batch, done.reports)
        if self.work.handed is not None:
            handover.clear(Path(self.work.handed))
        self._ship()
        self._give(stream, batch)

    def _handed(self, stream: DataFrame, batch: int) -> MicroBatch:
        """One whose tasks hand on files."""
        rows = of_rows(row[0] for row in stream.select("blocks").collect())
        planned = max(planned_at(self.spark, batch), self.notes.after(batch - 1).reached)
        done = MicroBatch(self, batch, planned, rows)
        done.run()
        return done

    def _shuffled(self, stream: DataFrame, batch: int) -> ShuffledBatch:
        """One whose tasks share no folder."""
        mirror, folder = self.mirror, Path(self.work.stages[0].states.folder)
        assert mirror is not None, "what they make is to be found somewhere"
        place = Place(mirror.packs, mirror.number + 1, mirror.run, (folder / RUN).read_text(), mirror.states(folder))
        done = ShuffledBatch(self.work, batch, planned_at(self.spark, batch), self.notes.after(batch - 1), place)
        try:
            done.run(self.slots, self.sent, stream)
        except Exception:
            mirror.refuse_overtaken()  # then what tasks have not found is no longer there
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
    """One micro-batch: what came for each stage, and what its jobs have made so far. `judged`: what of it is late by
    its keys; None: lateness is not judged by them."""

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
        """Judge by their keys what is late, and tell the buckets to which something came."""
        passed = self.watermark * 1000 - 1 if self.watermark > 0 else BEGINNING
        clocks = self._query.notes.clocks(self._batch - 1)
        self.judged = rule.judge(self._came(TIMES), clocks, passed)
        for stage, blocks in self._waiting.items() if self.judged.until else ():
            buckets = distinct(HandedBlocks.joined(blocks)) if stage > WORLD else ()
            blocks.append(HandedBlocks.of(self.judged.block(stage, bucket) for bucket in buckets))

    def run(self) -> None:
        """Its jobs. CepError: see `run_task`; Spark's errors: a job has failed."""
        work = self._query.work
        program = work.stages[0].program
        meets = bool(program.merged)
        for each in work.stages:
            last = each.number == len(work.stages) and not meets
            stage = program.stages[each.number - 1]
            steps = self._steps(each.number, program.count(stage))
            self._job(each.number, steps, writes=last)
        if meets:
            number, world = len(work.stages) + 1, self._came(WORLD)
            self._waiting[WORLD] = [world]
            mine = world.of_events(program.merged if work.ways is not None else ())
            versions = {bucket: self._before.versions.get(state_name(number, bucket), 0) for bucket in distinct(mine)}
            counted = {bucket: BucketInput(version, ()) for bucket, version in versions.items()}
            self._job(number if counted else 0, counted, writes=True)

    def _came(self, stage: int) -> HandedBlocks:
        """Take out what has come for a stage, or for the sink."""
        return HandedBlocks.joined(self._waiting.pop(stage, ()))

    def _steps(self, stage: int, count: int) -> dict[int, BucketInput]:
        """The buckets of a stage that have something to do."""
        came = self._came(stage)
        found: dict[int, Sequence[HandedBlock]] = {**came.by(came.buckets)}
        for bucket in range(count):
            if self._before.calls.get(state_name(stage, bucket), self.watermark + 1) <= self.watermark:
                found.setdefault(bucket, ())
        versions = self._before.versions
        return {
            bucket: BucketInput(versions.get(state_name(stage, bucket), 0), found[bucket]) for bucket in sorted(found)
        }

    def _job(self, stage: int, buckets: Mapping[int, BucketInput], writes: bool) -> None:
        """Step buckets of a stage, and write what there is for the sink; the first micro-batch of all writes a file
        though there is nothing."""
        world = self._came(WORLD) if writes else HandedBlocks()
        first = writes and self._query.work.sink.first + self._batch == 0
        wanted = sorted({*buckets, *distinct(world)}) or ([0] if first else [])
        if not wanted:
            return
        context = self._query.context
        count = min(len(wanted), max(1, context.defaultParallelism))
        place = {bucket: number % count for number, bucket in enumerate(wanted)}
        steps: list[dict[int, BucketInput]] = [{} for _ in range(count)]
        for bucket, one in buckets.items():
            steps[place[bucket]][bucket] = one
        sent = world.by(np.searchsorted(wanted, world.buckets) % count)
        tasks = [
            TaskInput(number, self._batch, stage, self.watermark, steps[number], sent.get(number, ()), writes)
            for number in range(count)
        ]
        for done in every(tasks, self._tasks):
            self._took(stage, done)

    def _tasks(self, tasks: Sequence[TaskInput]) -> Sequence[TaskOutput]:
        """Run tasks, and return their outputs. Where Spark runs one twice at once, as when it has lost sight of a
        machine, each of the two may have claimed another task input, and what one of them makes is lost, or one of the
        two is not done."""
        handed, sent, count = self._query.work.handed, self._query.sent, len(tasks)
        assert handed is not None, "tasks share a folder"
        claims = Claims.put(handed, tasks)
        jobs = self._query.context.parallelize(range(count), count)
        found: list[TaskOutput] = jobs.mapPartitions(lambda some: _done(sent, claims, some)).collect()
        return found

    def _took(self, stage: int, done: TaskOutput) -> None:
        self.versions |= {state_name(stage, bucket): version for bucket, version in done.versions.items()}
        self.calls |= {state_name(stage, bucket): call for bucket, call in done.calls.items()}
        self.files += done.files
        assert isinstance(done.handed, HandedBlocks), "tasks share a folder"
        self._take(done.handed)

    def _take(self, blocks: HandedBlocks) -> None:
        for stage, some in blocks.by(blocks.stages).items():
            if stage == REPORT:
                self.reports += [one.source or "" for one in some]
            else:
                self._waiting.setdefault(stage, []).append(some)


def distinct(blocks: HandedBlocks) -> list[int]:
    """The buckets of blocks, in order."""
    found: list[int] = np.unique(blocks.buckets).tolist()
    return found


def every(
    tasks: Sequence[TaskInput], run: Callable[[Sequence[TaskInput]], Iterable[TaskOutput]]
) -> Iterator[TaskOutput]:
    """Return the output of each task, once and in their order; those that `run` gives nothing of are run again.
    CepError: they give nothing again and again."""
    made: dict[int, TaskOutput] = {}
    for _ in range(TRIES):
        made = {done.number: done for done in run([task for task in tasks if task.number not in made])} | made
        if len(made) == len(tasks):
            return (made[task.number] for task in tasks)
    raise CepError("a task was lost", hint="the same command goes on from the checkpoint", code="failed")


def _done(sent: Broadcast[PackedWork], claims: Claims, some: Iterable[int]) -> list[TaskOutput]:
    work, found = sent.value.work(), list[TaskOutput]()
    for task in some:
        asked = claims.claim(task, work.keeps)
        if asked is not None:
            found.append(run_task(work, asked))
    return found
