"""A program as one plan of Spark over static DataFrames: rows are dealt to blocks, and each stage steps the groups of
its buckets. Nothing runs before a result is used, and nothing is needed that Spark Connect lacks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cep.core import checksum
from cep.spark.dead_letters import letter_line
from cep.spark.frame_events import LETTERS
from cep.spark.handover import with_dead_letters
from cep.spark.shuffle_blocks import DEAD, END, REPORT, WORLD, ShuffleBlock, WorldRows, for_world, from_stage, wake_ups
from cep.spark.stage_task import StageWork
from cep.spark.state.bucket_states import BucketStates
from cep.spark.worker import freeze_garbage
from connectors.layout import ParquetLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cep.core.schema import Schema
    from cep.spark.program import ShippedProgram
    from cep.spark.source.data_frames import FrameInput, RecordBatches

BLOCKS = "stage int, bucket int, event string, place bigint, source string, rows binary"
"""The columns of blocks on their way through a plan."""

_ROW = 1 << 23
"""Bytes of blocks that are given to Spark at once, about."""

_END = END // 1000  # milliseconds

_known: dict[bytes, ShippedProgram] = {}
"""The last program of this worker, by its hash."""


@dataclass(frozen=True, slots=True)
class PackedProgram:
    """A program as it is sent, unpickled once in a worker."""

    name: bytes
    data: bytes

    @classmethod
    def of(cls, program: ShippedProgram) -> PackedProgram:
        data = pickle.dumps(program)
        return cls(checksum.digest(data), data)

    @property
    def program(self) -> ShippedProgram:
        """It in a worker."""
        if self.name not in _known:
            _known.clear()
            _known[self.name] = pickle.loads(self.data)
        return _known[self.name]

    def stage(self, number: int) -> StageWork:
        """The work of a stage, whose states nobody keeps."""
        program = self.program
        wanted = tuple(program.outputs)
        return StageWork(program, number, self.name.hex(), wanted, "", BucketStates("", number), None)


def derived(
    spark: SparkSession, program: ShippedProgram, frames: Sequence[tuple[DataFrame, FrameInput]]
) -> tuple[dict[str, DataFrame], DataFrame, DataFrame]:
    """What a program derives of static DataFrames: by event, the dead letters, and the blocks of all, from which each
    of these is computed."""
    packed = PackedProgram.of(program)
    blocks = dealt(spark, program, frames)
    for stage in program.stages:
        blocks = by_bucket(blocks, program.count(stage), partial(_stepped, packed, stage.number), BLOCKS)
    return *parted(program, blocks), blocks


def dealt(spark: SparkSession, program: ShippedProgram, frames: Sequence[tuple[DataFrame, FrameInput]]) -> DataFrame:
    """The rows of DataFrames as blocks, and what wakes up the buckets in which something happens without rows."""
    made = [(one.stage, one.bucket, one.event, one.place, one.source, one.rows) for one in wake_ups(program)]
    blocks = spark.createDataFrame(made, BLOCKS)
    bare = pickle.dumps(program.bare())
    for frame, one in frames:
        blocks = blocks.unionAll(frame.mapInArrow(partial(_dealt, bare, one), BLOCKS))
    return blocks


def parted(program: ShippedProgram, blocks: DataFrame) -> tuple[dict[str, DataFrame], DataFrame]:
    """The derived events among blocks, by name, and the dead letters."""
    found = {}
    for event, schema in program.outputs.items():
        mine = blocks.where((blocks.stage == WORLD) & (blocks.event == event))
        columns, merged = columns_of(schema), event in program.merged
        decode = partial(_table, event, schema, merged)
        if merged:
            found[event] = by_bucket(mine, program.buckets, decode, columns)
        else:
            found[event] = mine.mapInArrow(partial(_tables, decode), columns)
    return found, blocks.where(blocks.stage == DEAD).mapInArrow(letters, LETTERS)


def by_bucket(
    blocks: DataFrame, tasks: int, run: Callable[[pa.Table], pa.Table], columns: StructType | str
) -> DataFrame:
    """Blocks, run bucket by bucket in so many tasks, of which each has its price. (Spark asks a function for its
    annotations, and a partial one has none to give.)"""
    return blocks.repartition(tasks, "bucket").groupBy("bucket").applyInArrow(lambda rows: run(rows), columns)


def columns_of(schema: Schema) -> StructType:
    """The columns of a derived event: those of the Parquet files that a run writes."""
    return from_arrow_schema(ParquetLayout({schema.name: schema}).schema, prefer_timestamp_ntz=True)


def _dealt(bare: bytes, one: FrameInput, batches: RecordBatches) -> RecordBatches:
    program: ShippedProgram = pickle.loads(bare)
    read = partial(one.blocks, program, batches)
    yield from as_batches(with_dead_letters(lambda begin: read(begin, "rows"), "rows-"))


def _stepped(packed: PackedProgram, number: int, table: pa.Table) -> pa.Table:
    """A bucket of a stage: what it derives of all that comes for it, and what goes on to others."""
    import pyarrow as pa

    freeze_garbage()
    blocks = blocks_of(table)
    mine = [one for one in blocks if one.stage == number]
    made = [one for one in blocks if one.stage != number]
    if mine:
        work = packed.stage(number)
        program, stage, task, bucket = work.program, work.program.stages[number - 1], work.task(), mine[0].bucket
        engine = program.engine(number)
        for version, (rows, watermark) in enumerate(((mine, 0), ((), _END))):
            tables, dead = task.taken(engine, bucket, version, rows, watermark)
            made += from_stage(program, stage, bucket, tables)
            made += (one.block() for one in for_world(program, stage, bucket, tables, work.wanted))
            made += letter_blocks(bucket, map(letter_line, dead))
    return pa.Table.from_batches(list(as_batches(made)))


def letter_blocks(bucket: int, lines: Iterable[bytes]) -> Iterator[ShuffleBlock]:
    """Dead letters as a block."""
    if text := b"".join(lines):
        yield ShuffleBlock(DEAD, bucket, "", 0, None, text, 0)


def as_batches(blocks: Iterable[ShuffleBlock]) -> RecordBatches:
    """Blocks as rows of a plan, without reports; one batch at least."""
    held: list[ShuffleBlock] = []
    size = 0
    for one in blocks:
        if one.stage == REPORT:
            continue
        held.append(one)
        size += len(one.rows)
        if size > _ROW:
            yield _batch(held)
            held, size = [], 0
    yield _batch(held)


def _batch(blocks: Sequence[ShuffleBlock]) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = {
        "stage": pa.int32(),
        "bucket": pa.int32(),
        "event": pa.string(),
        "place": pa.int64(),
        "source": pa.string(),
        "rows": pa.binary(),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array([getattr(one, name) for one in blocks], kind) for name, kind in kinds.items()], list(kinds)
    )


def blocks_of(rows: pa.Table | pa.RecordBatch) -> list[ShuffleBlock]:
    """Rows of a plan as blocks."""
    columns = (rows[name].to_pylist() for name in ("stage", "bucket", "event", "place", "source", "rows"))
    rest = zip(*columns, strict=True)
    return [
        ShuffleBlock(stage, bucket, event, place, source, data, 0) for stage, bucket, event, place, source, data in rest
    ]


def _table(event: str, schema: Schema, merged: bool, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """The derived events of blocks; where several buckets may derive identical ones, each once."""
    import pyarrow as pa

    from cep.spark.sink.event_files import merged_tables

    parts = [(event, WorldRows.of(one).table) for one in blocks_of(rows)]
    layout = ParquetLayout({event: schema})
    tables = merged_tables(parts, frozenset({event} if merged else ())).get(event, ())
    return pa.concat_tables([layout.schema.empty_table(), *(layout.table(event, each) for each in tables)])


def _tables(decode: partial[pa.Table], batches: RecordBatches) -> RecordBatches:
    for batch in batches:
        yield from decode(batch).to_batches()


def letters(batches: RecordBatches) -> RecordBatches:
    """The dead letters of blocks as rows."""
    import json

    import pyarrow as pa

    for batch in batches:
        found = [json.loads(line) for text in batch["rows"].to_pylist() for line in text.splitlines()]
        records = [each["record"] for each in found]
        texts = [one if one is None or isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in records]
        names = {"event": "file", "code": "code", "reason": "reason"}
        columns = [pa.array([each[key] for each in found], pa.string()) for key in names.values()]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(texts, pa.string())], [*names, "record"])
