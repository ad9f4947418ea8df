"""The tasks of a micro-batch. Each task runs some buckets of a stage, and writes their output or passes it on.

The description of a query's work is sent once, and unpickled once per worker. A hash of its content identifies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cep.spark.handover import FEW
from cep.spark.key_lateness import KeyRule
from cep.spark.multiplicity_task import WaysWork
from cep.spark.outbox import Outbox
from cep.spark.shuffle_blocks import ShuffleBlock, WorldRows
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.stage_task import StageWork, kept_version
from cep.spark.worker import freeze_garbage


@dataclass(frozen=True, slots=True)
class QueryWork:
    """A description of the work of a query's tasks. The driver sends it to workers.

    - `stages`: the work of each stage.
    - `ways`: the job that adds up multiplicities after the stages, or None if no such job is needed.
    - `sink`: the options of the sink.
    - `handed`: the folder for blocks that tasks send to each other, or None if workers share no folder.
    - `rule`: the rule by which each key has its own lateness, or None if all records share one clock.
    """

    stages: Sequence[StageWork]
    ways: WaysWork | None
    sink: FileSinkOptions
    handed: str | None
    rule: KeyRule | None = None

    def load(self) -> None:
        """Prepare this worker for its first task. The program is compiled."""
        freeze_garbage()
        self.stages[0].program.load()

    def keeps(self, stage: int, bucket: int) -> int | None:
        """Return the version of the engine that this worker keeps for a bucket, or None if it keeps no engine."""
        return kept_version(self.stages[0].run, stage, bucket)

    def states_of(self, stage: int) -> list[int]:
        """Return the numbers under which the tasks of a stage store states: the number of the stage and, if the stage
        may count multiplicities, a number for their state."""
        count = len(self.stages)
        return [stage, count + stage] if 1 < stage <= count else [stage]


@dataclass(frozen=True, slots=True)
class BucketInput:
    """The input of one step of a bucket: the blocks, and the version of the bucket's state (0 before the first
    step)."""

    version: int
    blocks: Iterable[ShuffleBlock]


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The input of a task of a micro-batch.

    - `stage`: the number of the stage to run. 0 means that the task only writes. The number after the last stage means
      that the task adds up multiplicities.
    - `watermark`: the new watermark of the buckets, in milliseconds.
    - `buckets`: the input of each bucket.
    - `world`: rows for the sink from earlier stages.
    - `writes`: True if the task writes the output.
    """

    number: int
    batch: int
    stage: int
    watermark: int
    buckets: Mapping[int, BucketInput]
    world: Iterable[ShuffleBlock] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of a task.

    - `number`: the number of the task.
    - `versions`: for each bucket, the version of the new state.
    - `calls`: for each bucket, the watermark (milliseconds) at which the bucket must run again even without input, or
      None if it need not.
    - `handed`: the blocks for other tasks and for the driver.
    - `files`: the output files that the task has written.
    """

    number: int
    versions: Mapping[int, int] = field(default_factory=dict)
    calls: Mapping[int, int | None] = field(default_factory=dict)
    handed: Iterable[ShuffleBlock] = ()
    files: Sequence[OutputFile] = ()


def run_task(work: QueryWork, asked: TaskInput) -> TaskOutput:
    """Run a task. Raises CepError if a state is missing or damaged, or if a file cannot be written."""
    freeze_garbage()
    outbox, versions, calls = Outbox(work.handed, FEW), dict[int, int](), dict[int, int | None]()
    world = [WorldRows.of(block) for block in asked.world]
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
    """Run the buckets of a stage, and yield their rows for the sink.

    The function adds the versions of new states to `versions`, and the watermarks at which buckets must run again to
    `calls`. It adds blocks for other tasks to `outbox`.
    """
    if not asked.buckets:
        return
    task = work.stages[asked.stage - 1].task()
    for bucket, bucket_input in asked.buckets.items():
        stepped = task.step(bucket, bucket_input.version, list(bucket_input.blocks), asked.watermark, asked.batch)
        versions[bucket], calls[bucket] = stepped.version, stepped.call
        _put(outbox, stepped.blocks)
        yield from stepped.world


def _counted(
    work: QueryWork, asked: TaskInput, versions: dict[int, int], outbox: Outbox, world: Iterable[WorldRows]
) -> Iterator[WorldRows]:
    """Add up the multiplicities of rows in `world`. Yield the rows that appear or disappear, and, unchanged, the rows
    of buckets that this task does not process.

    The function adds the versions of new states to `versions`, and blocks for other tasks to `outbox`.
    """
    assert work.ways is not None, "ways are counted where there are some"
    every = list(world)
    yield from (row for row in every if row.bucket not in asked.buckets)
    mine: dict[int, list[WorldRows]] = {}
    for world_rows in every:
        mine.setdefault(world_rows.bucket, []).append(world_rows)
    for bucket, bucket_input in asked.buckets.items():
        stepped = work.ways.step(bucket, bucket_input.version, mine.get(bucket, []), asked.watermark, asked.batch)
        if stepped.version != bucket_input.version:
            versions[bucket] = stepped.version
        _put(outbox, stepped.blocks)
        yield from stepped.world


def _put(outbox: Outbox, blocks: Iterable[ShuffleBlock]) -> None:
    for block in blocks:
        outbox.add(block)
