"""A micro-batch for workers that share no folder. It is one Spark job, whose tasks pass rows on through Spark's
shuffle.

There is a shuffle before each stage of the program. Buckets are distributed to as many tasks as there are cores. Each
task runs in the same worker every time (see `cep.spark.task_affinity`).

The tasks upload states, output files and dead letters to the object store, and tell the driver where these files are.
The driver writes the manifest that commits the files. A task may run twice. Only results that it reports to the driver
count.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from cep.spark.packs import Packs
from cep.spark.shuffle_blocks import DEAD, REPORT, WORLD, ShuffleBlock
from cep.spark.sink.commit_log import OutputFile
from cep.spark.state.batch_notes import BatchNote
from cep.spark.state.bucket_states import state_name
from cep.spark.tasks import BucketInput, QueryWork, TaskInput
from cep.spark.worker import Packed
from cep.spark.worker_dir import Files, TaskFound, home_of

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.core.rdd import RDD
    from pyspark.sql import DataFrame

    from cep.spark.task_affinity import Slots, Step

Sent: TypeAlias = "tuple[int, bytes | TaskFound]"
"""The number of a task, and a value for that task: pickled blocks, or results on their way to the driver."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the files that tasks upload and read.

    - `packs`: the packs of the checkpoint.
    - `number`: the number of the next manifest.
    - `run`: the name of the run that writes.
    - `mark`: the name of the checkpoint.
    - `files`: the state files of each bucket, by names such as `1-0003`.
    """

    packs: Packs
    number: int
    run: str
    mark: str
    files: Mapping[str, Files]


@dataclass(frozen=True, slots=True)
class StageJob:
    """The work of `width` tasks for one stage in a micro-batch.

    - `number`: the number of the stage. 0 means that no stage runs. The number after the last stage means that
      multiplicities are added up.
    - `watermark`: the new watermark of the buckets, in milliseconds.
    - `buckets`: for each bucket of the stage, the version of the bucket's state.
    - `due`: the buckets that must run even without input.
    - `writes`: True if the tasks write the output.
    - `first`: True if the first task writes a file even if there are no rows.
    - `versions`: the versions of the states of all stages, by names such as `1-0003`.
    - `counted`: the events whose multiplicities are added up.
    """

    width: int
    number: int
    batch: int
    watermark: int
    buckets: Mapping[int, int]
    due: frozenset[int]
    writes: bool
    first: bool
    versions: Mapping[str, int]
    place: Place
    counted: frozenset[str] = field(default=frozenset())

    def of(self, slots: Sequence[int]) -> StageJob:
        """Return a copy that contains only the state files that the tasks `slots` need."""
        some = frozenset(slots)
        mine = {
            name: files for name, files in self.place.files.items() if int(name.partition("-")[2]) % self.width in some
        }
        return replace(self, place=replace(self.place, files=mine))

    def steps(self, sent: Broadcast[Packed[QueryWork]], slots: Sequence[int]) -> Step:
        """Return the function that the tasks `slots` run."""
        return partial(self.of(slots).step, sent)

    def step(self, sent: Broadcast[Packed[QueryWork]], slot: int, arrived: Iterable[Sent]) -> Iterator[Sent]:
        """Run a task in a worker. Raises CepError as `Home.run` does.

        `slot`: the number of the task. `arrived`: the values that other tasks have sent to this task.
        """
        steps, world, later = dict[int, list[ShuffleBlock]](), list[ShuffleBlock](), list[ShuffleBlock]()
        letters, reports = list[ShuffleBlock](), list[ShuffleBlock]()
        for _, value in arrived:
            if isinstance(value, TaskFound):
                yield slot, value
                continue
            for block in pickle.loads(value):
                if block.stage == REPORT:
                    reports.append(block)
                elif block.stage == DEAD:
                    letters.append(block)
                elif block.stage == WORLD:
                    (world if self.writes else later).append(block)
                elif block.stage == self.number:
                    steps.setdefault(block.bucket, []).append(block)
                else:
                    later.append(block)
        for bucket in self.due:
            if bucket % self.width == slot:
                steps.setdefault(bucket, [])
        if self.counted:
            steps = {rows.bucket: [] for rows in world if rows.event in self.counted}
        if steps or world or letters or reports or (self.first and not slot):
            buckets = {bucket: BucketInput(self.buckets.get(bucket, 0), steps[bucket]) for bucket in sorted(steps)}
            asked = TaskInput(slot, self.batch, self.number, self.watermark, buckets, world, self.writes)
            home = home_of(sent.value, self.place.packs, self.place.mark)
            names = [
                state_name(stage, bucket) for stage in sent.value.open().states_of(self.number) for bucket in buckets
            ]
            entries = {file: packed for name in names for file, packed in self.place.files.get(name, {}).items()}
            outcome, handed = home.run(asked, entries, self.versions, letters, self.place.number, self.place.run)
            reports += [block for block in handed if block.stage == REPORT]
            later += [block for block in handed if block.stage != REPORT]
            yield slot, replace(outcome, output=replace(outcome.output, handed=reports))
        yield from dealt(later, self.width)


def dealt(blocks: Iterable[ShuffleBlock], width: int) -> Iterator[Sent]:
    """Pickle blocks for the tasks that must receive them. `width`: the number of tasks."""
    blocks_by_slot: dict[int, list[ShuffleBlock]] = {}
    for block in blocks:
        slot = crc32(block.event.encode()) if block.stage == DEAD else block.bucket
        blocks_by_slot.setdefault(slot % width, []).append(block)
    for slot, some in blocks_by_slot.items():
        yield slot, pickle.dumps(some)


def from_source(width: int, rows: Iterable[Sequence[bytes]]) -> Iterator[Sent]:
    """Distribute the blocks of reading tasks, which are in Spark rows, to the tasks that must receive them."""
    for row in rows:
        yield from dealt(pickle.loads(row[0]), width)


class ShuffledBatch:
    """One micro-batch, and the results of its job so far. `before`: the note of the previous micro-batch."""

    def __init__(self, work: QueryWork, batch: int, watermark: int, before: BatchNote, place: Place) -> None:
        self._work, self._batch, self._watermark, self._before, self._place = work, batch, watermark, before, place
        self.versions: dict[str, int] = {}
        self.calls: dict[str, int | None] = {}
        self.reports: list[str] = []
        self.files: list[OutputFile] = []
        self.states: dict[str, Files] = {}
        self.written: dict[str, Files] = {"output": {}, "dead": {}}

    def run(self, slots: Slots, sent: Broadcast[Packed[QueryWork]], stream: DataFrame) -> None:
        """Run the job of the micro-batch. Raises the CepErrors of `Home.run`, and Spark's errors if the job fails."""
        width = min(slots.count, self._work.stages[0].program.buckets)
        rows: RDD[Sent] = stream.select("blocks").rdd.mapPartitions(partial(from_source, width))
        try:
            for job in self.jobs(width):
                rows = slots.run(rows.partitionBy(width, int), partial(job.steps, sent))
            outcomes = [sent_part for _, sent_part in rows.collect() if isinstance(sent_part, TaskFound)]
        finally:
            slots.clear()
        for outcome in sorted(outcomes, key=lambda task: (task.stage, task.output.number)):
            self.took(outcome)

    def jobs(self, width: int) -> Iterator[StageJob]:
        """Yield the work of each stage, in the order of the stages. `width`: the number of tasks."""
        work, program = self._work, self._work.stages[0].program
        meets = bool(program.merged)
        for stage in program.stages:
            writes = stage.number == len(program.stages) and not meets
            yield self._job(width, stage.number, program.count(stage), writes)
        if meets and work.ways is not None:
            yield self._job(width, len(program.stages) + 1, program.buckets, True, program.merged)
        elif meets:
            yield self._job(width, 0, 0, True)

    def _job(
        self, width: int, number: int, count: int, writes: bool, counted: frozenset[str] = frozenset()
    ) -> StageJob:
        names = {bucket: state_name(number, bucket) for bucket in range(count)}
        versions, calls = self._before.versions, self._before.calls
        return StageJob(
            width,
            number,
            self._batch,
            self._watermark,
            {bucket: versions[name] for bucket, name in names.items() if name in versions},
            frozenset(part for part, name in names.items() if calls.get(name, self._watermark + 1) <= self._watermark),
            writes,
            writes and self._work.sink.first + self._batch == 0,
            versions,
            self._place,
            counted,
        )

    def took(self, task: TaskFound) -> None:
        """Add the results of a task to the results of the micro-batch."""
        output, stage = task.output, task.stage
        self.versions |= {state_name(stage, bucket): version for bucket, version in output.versions.items()}
        self.calls |= {state_name(stage, bucket): call for bucket, call in output.calls.items()}
        self.reports += [block.source or "" for block in output.handed]
        self.files += output.files
        self.states |= task.states
        self.written = {
            "output": {**self.written["output"], **task.written},
            "dead": {**self.written["dead"], **task.letters},
        }
