"""The tasks of a micro-batch: each steps some buckets of a stage, and hands on or writes what they make.

The work of a query is sent once, and unpickled once in each worker: it is known by its content.
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
    """All that the tasks of a query need: its `stages`; the `ways` that are counted behind them, None: they are not;
    where its `sink` is; the folder of what tasks hand on (`handed`), None: they share none; and the `rule` by which
    lateness is judged by keys, None: it is not."""

    stages: Sequence[StageWork]
    ways: WaysWork | None
    sink: FileSinkOptions
    handed: str | None
    rule: KeyRule | None = None

    def load(self) -> None:
        """Have this worker ready for the first task."""
        freeze_garbage()
        self.stages[0].program.load()

    def keeps(self, stage: int, bucket: int) -> int | None:
        """The version of the engine that this worker has kept of a bucket of a stage; None: it has none."""
        return kept_version(self.stages[0].run, stage, bucket)

    def states_of(self, stage: int) -> list[int]:
        """The numbers under which the states are that a step of a bucket of a stage makes: its own, and that of the
        ways that it counts."""
        count = len(self.stages)
        return [stage, count + stage] if 1 < stage <= count else [stage]

    def packed(self) -> PackedWork:
        """It as it is sent."""
        data = pickle.dumps(self)
        return PackedWork(checksum.digest(data), data)


@dataclass(frozen=True, slots=True)
class PackedWork:
    """A query's work, by a `name` that its content has."""

    name: bytes
    data: bytes

    def work(self) -> QueryWork:
        """It in a worker."""
        if self.name not in _known:
            _known.clear()
            _known[self.name] = pickle.loads(self.data)
        return _known[self.name]


@dataclass(frozen=True, slots=True)
class BucketInput:
    """The input of a bucket's step: the version of its state (0: none), and the blocks that came for it."""

    version: int
    blocks: Sequence[HandedBlock]


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A task of a micro-batch (`batch`), of the `number` among others: the `buckets` of the stage it steps, up to the
    `watermark` (milliseconds); where it `writes`, also what buckets before have made for the sink (`world`). `stage` 0:
    it only writes; one more than the last: it counts ways."""

    number: int
    batch: int
    stage: int
    watermark: int
    buckets: Mapping[int, BucketInput]
    world: Sequence[HandedBlock] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of the task of a `number`: the `versions` of states, when buckets are to be stepped again (`calls`),
    what is handed on, and the `files` that were written."""

    number: int
    versions: Mapping[int, int] = field(default_factory=dict)
    calls: Mapping[int, int | None] = field(default_factory=dict)
    handed: Sequence[HandedBlock] = ()
    files: Sequence[OutputFile] = ()


def run_task(work: QueryWork, asked: TaskInput) -> TaskOutput:
    """Do a task. CepError: a state is missing or damaged, or something cannot be written."""
    freeze_garbage()
    outbox, versions, calls = Outbox(work.handed, FEW), dict[int, int](), dict[int, int | None]()
    world = [WorldRows.of(block) for block in rows_of(asked.world)]
    if asked.stage > len(work.stages):
        found = list(_counted(work, asked, versions, outbox, world))
    else:
        found = [*world, *_stepped(work, asked, versions, calls, outbox)]
    files: Sequence[OutputFile] = ()
    if asked.writes:
        files = FileWriter(work.sink).write(((one.event, one.table) for one in found), asked.number, asked.batch)
    else:
        _put(outbox, (one.block() for one in found))
    return TaskOutput(asked.number, versions, calls, outbox.close(), files)


def _stepped(
    work: QueryWork, asked: TaskInput, versions: dict[int, int], calls: dict[int, int | None], outbox: Outbox
) -> Iterator[WorldRows]:
    """Step the buckets of a stage, and return their rows for the sink."""
    if not asked.buckets:
        return
    task = work.stages[asked.stage - 1].task()
    for bucket, one in asked.buckets.items():
        made = task.step(bucket, one.version, rows_of(one.blocks), asked.watermark, asked.batch)
        versions[bucket], calls[bucket] = made.version, made.call
        _put(outbox, made.blocks)
        yield from made.world


def _counted(
    work: QueryWork, asked: TaskInput, versions: dict[int, int], outbox: Outbox, world: Iterable[WorldRows]
) -> Iterator[WorldRows]:
    """Turn rows that may be derived in several ways into rows that appear or disappear."""
    assert work.ways is not None, "ways are counted where there are some"
    task, every = work.ways.task(), list(world)
    yield from (one for one in every if one.bucket not in asked.buckets)
    mine: dict[int, list[WorldRows]] = {}
    for each in every:
        mine.setdefault(each.bucket, []).append(each)
    for bucket, one in asked.buckets.items():
        made = task.step(bucket, one.version, mine.get(bucket, []), asked.watermark, asked.batch)
        if made.version != one.version:
            versions[bucket] = made.version
        _put(outbox, made.blocks)
        yield from made.world


def _put(outbox: Outbox, blocks: Iterable[ShuffleBlock]) -> None:
    for block in blocks:
        outbox.add(block)
