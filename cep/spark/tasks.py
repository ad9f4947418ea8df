"""The tasks of a micro-batch. Each steps some buckets of a stage, and passes on or writes their output.

The work of a query is sent once, and unpickled once per worker. It is identified by its content.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cep.core import checksum
from cep.spark.handed_blocks import HandedBlock, rows_of
from cep.spark.handover import FEW
from cep.spark.key_lateness import KeyRule
from cep.spark.multiplicity_task import WaysWork
from cep.spark.outbox import Outbox
from cep.spark.shuffle_blocks import ShuffleBlock, WorldRows
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.stage_task import StageWork, kept_version
from cep.spark.worker import freeze_garbage

_known: dict[bytes, QueryWork] = {}
"""The last work of this worker, by its name."""


@dataclass(frozen=True, slots=True)
class QueryWork:
    """All that the tasks of a query need.

    - `stages`: the work of the stages.
    - `ways`: the work of adding up multiplicities after the stages; None: not needed.
    - `sink`: the options of the sink.
    - `handed`: the folder for blocks in transit; None: workers share none.
    - `rule`: the rule of lateness by key; None: lateness is not judged by key.
    """

    stages: Sequence[StageWork]
    ways: WaysWork | None
    sink: FileSinkOptions
    handed: str | None
    rule: KeyRule | None = None

    def load(self) -> None:
        """Load what the first task of this worker needs."""
        freeze_garbage()
        self.stages[0].program.load()

    def keeps(self, stage: int, bucket: int) -> int | None:
        """Return the version of the engine that this worker keeps for a bucket of a stage; None if it keeps none."""
        return kept_version(self.stages[0].run, stage, bucket)

    def states_of(self, stage: int) -> list[int]:
        """Return the numbers under which a step of a stage stores states: the stage's own, and another one for
        multiplicities if it counts them."""
        count = len(self.stages)
        return [stage, count + stage] if 1 < stage <= count else [stage]

    def packed(self) -> PackedWork:
        """Return the work in the form in which it is sent."""
        data = pickle.dumps(self)
        return PackedWork(checksum.digest(data), data)


@dataclass(frozen=True, slots=True)
class PackedWork:
    """The pickled work of a query. `name`: a hash of its content."""

    name: bytes
    data: bytes

    def work(self) -> QueryWork:
        """Return the work, unpickled once per worker."""
        if self.name not in _known:
            _known.clear()
            _known[self.name] = pickle.loads(self.data)
        return _known[self.name]


@dataclass(frozen=True, slots=True)
class BucketInput:
    """The input of a bucket's step: the version of its state (0: none), and its blocks."""

    version: int
    blocks: Sequence[HandedBlock]


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A task of a micro-batch.

    - `number`: the number of the task. `batch`: the number of the micro-batch.
    - `stage`: the stage to step. 0: only write. One more than the last stage: add up multiplicities.
    - `buckets`: the buckets to step. `watermark`: where they step to, in milliseconds.
    - `writes`: the task writes the output. `world`: rows for the sink from earlier stages.
    """

    number: int
    batch: int
    stage: int
    watermark: int
    buckets: Mapping[int, BucketInput]
    world: Sequence[HandedBlock] = ()
    writes: bool = False

    def packed(self) -> bytes:
        """Pickle the input by itself: a worker receives the inputs of all tasks, and unpickles only its own."""
        return pickle.dumps(self)

    @staticmethod
    def unpacked(data: bytes) -> TaskInput:
        """Return the input of a task from a broadcast of Spark."""
        asked: TaskInput = pickle.loads(data)
        return asked


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of the task of a `number`.

    `versions`: the versions of the new states. `calls`: when buckets must step again. `handed`: the blocks to pass on.
    `files`: the files written.
    """

    number: int
    versions: Mapping[int, int] = field(default_factory=dict)
    calls: Mapping[int, int | None] = field(default_factory=dict)
    handed: Sequence[HandedBlock] = ()
    files: Sequence[OutputFile] = ()


def run_task(work: QueryWork, asked: TaskInput) -> TaskOutput:
    """Run a task. CepError: a state is missing or damaged, or something cannot be written."""
    freeze_garbage()
    outbox, versions, calls = Outbox(work.handed, FEW), dict[int, int](), dict[int, int | None]()
    world = [WorldRows.of(block) for block in rows_of(asked.world)]
    if asked.stage > len(work.stages):
        outputs = list(_counted(work, asked, versions, outbox, world))
    else:
        outputs = [*world, *_stepped(work, asked, versions, calls, outbox)]
    files: Sequence[OutputFile] = ()
    if asked.writes:
        files = FileWriter(work.sink).write(((rows.event, rows.table) for rows in outputs), asked.number, asked.batch)
    else:
        _put(outbox, (rows.block() for rows in outputs))
    return TaskOutput(asked.number, versions, calls, outbox.close(), files)


def _stepped(
    work: QueryWork, asked: TaskInput, versions: dict[int, int], calls: dict[int, int | None], outbox: Outbox
) -> Iterator[WorldRows]:
    """Step the buckets of a stage, and yield their rows for the sink."""
    if not asked.buckets:
        return
    task = work.stages[asked.stage - 1].task()
    for bucket, bucket_input in asked.buckets.items():
        stepped = task.step(bucket, bucket_input.version, rows_of(bucket_input.blocks), asked.watermark, asked.batch)
        versions[bucket], calls[bucket] = stepped.version, stepped.call
        _put(outbox, stepped.blocks)
        yield from stepped.world


def _counted(
    work: QueryWork, asked: TaskInput, versions: dict[int, int], outbox: Outbox, world: Iterable[WorldRows]
) -> Iterator[WorldRows]:
    """Yield the rows that appear or disappear, after counting all derivations of each row."""
    assert work.ways is not None, "ways are counted where there are some"
    task, every = work.ways.task(), list(world)
    yield from (row for row in every if row.bucket not in asked.buckets)
    mine: dict[int, list[WorldRows]] = {}
    for world_rows in every:
        mine.setdefault(world_rows.bucket, []).append(world_rows)
    for bucket, bucket_input in asked.buckets.items():
        stepped = task.step(bucket, bucket_input.version, mine.get(bucket, []), asked.watermark, asked.batch)
        if stepped.version != bucket_input.version:
            versions[bucket] = stepped.version
        _put(outbox, stepped.blocks)
        yield from stepped.world


def _put(outbox: Outbox, blocks: Iterable[ShuffleBlock]) -> None:
    for block in blocks:
        outbox.add(block)
