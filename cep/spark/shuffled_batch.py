"""A micro-batch of workers that share no folder: one job whose tasks pass rows on through Spark's shuffle, as bytes.

Each stage of the program is behind a shuffle. Buckets are dealt to as many tasks as there are cores, and each task
comes to the same worker again (`cep.spark.task_affinity`). The tasks put states, files of the output and dead letters
into the object store and tell the driver where they are. The driver puts the manifest by which they count. A task may
run twice; only what it reports to the driver counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from cep.spark.handed_blocks import HandedBlock
from cep.spark.packs import Packs
from cep.spark.shuffle_blocks import DEAD, REPORT, WORLD
from cep.spark.sink.commit_log import OutputFile
from cep.spark.state.batch_notes import BatchNote
from cep.spark.state.bucket_states import state_name
from cep.spark.tasks import BucketInput, PackedWork, QueryWork, TaskInput
from cep.spark.worker_dir import Files, TaskFound, home_of

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.core.rdd import RDD
    from pyspark.sql import DataFrame

    from cep.spark.task_affinity import Slots

Sent: TypeAlias = "tuple[int, bytes | TaskFound]"
"""Rows for the task of a number: blocks, pickled, or what goes on to the driver."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place for what tasks make: `packs`, under names of the `number` of the next manifest and of the `run`.
    `mark`: the name of the checkpoint. `files`: of states, by bucket, as `1-0003`."""

    packs: Packs
    number: int
    run: str
    mark: str
    files: Mapping[str, Files]


@dataclass(frozen=True, slots=True)
class StageJob:
    """The work of `width` tasks: step the buckets of the stage of a `number` (0: none; one more than
    the last: they count ways), up to the `watermark` (milliseconds), in a micro-batch (`batch`). `buckets`: their
    versions; `due`: those to be stepped though nothing comes; `writes`: what there is for the sink is written, by the
    first task if it is `first` in any case. `versions`: of all buckets, by names as `1-0003`."""

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
        """It with the files of some tasks alone."""
        some = frozenset(slots)
        mine = {
            name: files for name, files in self.place.files.items() if int(name.partition("-")[2]) % self.width in some
        }
        return replace(self, place=replace(self.place, files=mine))

    def step(self, sent: Broadcast[PackedWork], slot: int, came: Iterable[Sent]) -> Iterator[Sent]:
        """A task, in a worker. CepError: see `Home.run`."""
        steps, world, later = dict[int, list[HandedBlock]](), list[HandedBlock](), list[HandedBlock]()
        letters, reports = list[HandedBlock](), list[HandedBlock]()
        for _, value in came:
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
            steps = {one.bucket: [] for one in world if one.event in self.counted}
        if steps or world or letters or reports or (self.first and not slot):
            buckets = {bucket: BucketInput(self.buckets.get(bucket, 0), steps[bucket]) for bucket in sorted(steps)}
            asked = TaskInput(slot, self.batch, self.number, self.watermark, buckets, world, self.writes)
            home = home_of(sent.value, self.place.packs, self.place.mark)
            names = [state_name(each, one) for each in sent.value.work().states_of(self.number) for one in buckets]
            entries = {file: one for name in names for file, one in self.place.files.get(name, {}).items()}
            found, handed = home.run(asked, entries, self.versions, letters, self.place.number, self.place.run)
            reports += [block for block in handed if block.stage == REPORT]
            later += [block for block in handed if block.stage != REPORT]
            yield slot, found.telling(reports)
        yield from dealt(later, self.width)


def dealt(blocks: Iterable[HandedBlock], width: int) -> Iterator[Sent]:
    """Blocks for the tasks to which they go."""
    found: dict[int, list[HandedBlock]] = {}
    for one in blocks:
        slot = crc32(one.event.encode()) if one.stage == DEAD else one.bucket
        found.setdefault(slot % width, []).append(one)
    for slot, some in found.items():
        yield slot, pickle.dumps(some)


def from_source(width: int, rows: Iterable[Sequence[bytes]]) -> Iterator[Sent]:
    """The blocks of a source's tasks, for the tasks to which they go."""
    for row in rows:
        yield from dealt(pickle.loads(row[0]), width)


def _tasks(
    job: StageJob, sent: Broadcast[PackedWork], slots: Sequence[int]
) -> Callable[[int, Iterable[Sent]], Iterator[Sent]]:
    return partial(job.of(slots).step, sent)


class ShuffledBatch:
    """One micro-batch: what its job has made. `before`: the note of the one before it."""

    def __init__(self, work: QueryWork, batch: int, watermark: int, before: BatchNote, place: Place) -> None:
        self._work, self._batch, self._watermark, self._before, self._place = work, batch, watermark, before, place
        self.versions: dict[str, int] = {}
        self.calls: dict[str, int | None] = {}
        self.reports: list[str] = []
        self.files: list[OutputFile] = []
        self.states: dict[str, Files] = {}
        self.written: dict[str, Files] = {"output": {}, "dead": {}}

    def run(self, slots: Slots, sent: Broadcast[PackedWork], stream: DataFrame) -> None:
        """Its job. CepError: see `Home.run`; Spark's errors: the job has failed."""
        width = min(slots.count, self._work.stages[0].program.buckets)
        rows: RDD[Sent] = stream.select("blocks").rdd.mapPartitions(partial(from_source, width))
        try:
            for job in self.jobs(width):
                rows = slots.run(rows.partitionBy(width, int), partial(_tasks, job, sent))
            found = [each for _, each in rows.collect() if isinstance(each, TaskFound)]
        finally:
            slots.clear()
        for each in sorted(found, key=lambda each: (each.stage, each.output.number)):
            self.took(each)

    def jobs(self, width: int) -> Iterator[StageJob]:
        """The work of so many tasks, stage by stage."""
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
            frozenset(one for one, name in names.items() if calls.get(name, self._watermark + 1) <= self._watermark),
            writes,
            writes and self._work.sink.first + self._batch == 0,
            versions,
            self._place,
            counted,
        )

    def took(self, found: TaskFound) -> None:
        """Note that the output of a task counts."""
        made, stage = found.output, found.stage
        self.versions |= {state_name(stage, bucket): version for bucket, version in made.versions.items()}
        self.calls |= {state_name(stage, bucket): call for bucket, call in made.calls.items()}
        self.reports += [one.source or "" for one in made.handed]
        self.files += made.files
        self.states |= found.states
        self.written = {
            "output": {**self.written["output"], **found.written},
            "dead": {**self.written["dead"], **found.letters},
        }
