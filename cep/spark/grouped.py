"""A program as one Spark plan over static DataFrames.

Rows are packed into blocks, which Spark groups by bucket. Each stage of the program then runs once for each bucket.
Spark runs the plan only when a result is used. All operations of the plan exist in Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cep.connectors.dead_letters import letter_line
from cep.connectors.writing.layout import ParquetLayout
from cep.spark.frame_events import LETTERS
from cep.spark.handover import with_dead_letters
from cep.spark.shuffle_blocks import DEAD, END, REPORT, WORLD, ShuffleBlock, WorldRows, for_world, from_stage, wake_ups
from cep.spark.stage_task import StageTask, StageWork
from cep.spark.state.bucket_states import BucketStates
from cep.spark.worker import Packed, freeze_garbage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cep.core.schema import Schema
    from cep.engine import Engine
    from cep.spark.program import ShippedProgram
    from cep.spark.source.data_frames import Provided, RecordBatches, RowReader

BLOCKS = "stage int, bucket int, event string, place bigint, source string, rows binary"
"""The columns of a DataFrame of blocks."""

TIMED = "time"
"""The name of the column that contains the latest time in a block. Spark computes its watermark from this column."""

_ROW = 1 << 23
"""The minimum size in bytes of a complete record batch of blocks."""

_END = END // 1000  # milliseconds


def stage_work(packed: Packed[ShippedProgram], number: int) -> StageWork:
    """Return the work of a stage whose states are not stored. This function runs in a worker."""
    program = packed.open()
    return StageWork(program, number, packed.name.hex(), tuple(program.outputs), "", BucketStates("", number), None)


def derived(
    spark: SparkSession, program: ShippedProgram, frames: Sequence[Provided]
) -> tuple[dict[str, DataFrame], DataFrame, DataFrame]:
    """Return the results of a program over static DataFrames: a DataFrame for each derived event, a DataFrame of dead
    letters, and the DataFrame of blocks from which the others are computed."""
    packed = Packed.of(program)
    blocks = dealt(spark, program, frames)
    for stage in program.stages:
        blocks = blocks.repartition(program.count(stage), "bucket")  # each task has a cost, even without rows
        blocks = blocks.groupBy("bucket").applyInArrow(_stepping(packed, stage.number), BLOCKS)
    return *parted(program, blocks), blocks


def dealt(spark: SparkSession, program: ShippedProgram, frames: Sequence[Provided]) -> DataFrame:
    """Convert the rows of DataFrames to blocks. Add wake-up blocks for buckets that must run without input."""
    wake_rows = [
        (wake_up.stage, wake_up.bucket, wake_up.event, wake_up.place, wake_up.source, wake_up.rows)
        for wake_up in wake_ups(program)
    ]
    blocks = spark.createDataFrame(wake_rows, BLOCKS)
    for frame, reader in frames:
        blocks = blocks.unionAll(frame.mapInArrow(dealing(program, reader), BLOCKS))
    return blocks


def dealing(program: ShippedProgram, feed: RowReader, timed: bool = False) -> Callable[[RecordBatches], RecordBatches]:
    """Return a function for workers that converts rows to blocks. `timed`: True to add the column `TIMED` to blocks."""
    bare = Packed.of(program.bare())

    def dealt(batches: RecordBatches) -> RecordBatches:
        read = partial(feed.blocks, bare.open(), batches)
        yield from as_batches(with_dead_letters(lambda begin: read(begin, "rows"), "rows-"), timed)

    return dealt


def parted(program: ShippedProgram, blocks: DataFrame) -> tuple[dict[str, DataFrame], DataFrame]:
    """Split a DataFrame of blocks into a DataFrame for each derived event, and a DataFrame of dead letters."""
    frames = {}
    for event, schema in program.outputs.items():
        mine = blocks.where((blocks.stage == WORLD) & (blocks.event == event))
        merged = event in program.merged
        if merged:
            mine = mine.repartition(program.buckets, "bucket")
        frames[event] = mine.mapInArrow(partial(_tables, event, schema, merged), columns_of(schema))
    return frames, blocks.where(blocks.stage == DEAD).mapInArrow(letters, LETTERS)


def columns_of(schema: Schema) -> StructType:
    """Return the columns of a derived event's DataFrame. They are the same as in the Parquet output of a run."""
    return from_arrow_schema(ParquetLayout({schema.name: schema}).schema, prefer_timestamp_ntz=True)


def _stepping(packed: Packed[ShippedProgram], number: int) -> Callable[[pa.Table], pa.Table]:
    """Return the function that Spark calls for each bucket of a stage.

    It is a lambda and not a `partial`, because Spark inspects the function's arguments and annotations.
    """
    return lambda table: _stepped(packed, number, table)


def _stepped(packed: Packed[ShippedProgram], number: int, table: pa.Table) -> pa.Table:
    """Run one bucket of a stage over all its input. Return its results, and the blocks of other stages unchanged."""
    import pyarrow as pa

    freeze_garbage()
    blocks = blocks_of(table)
    mine = [block for block in blocks if block.stage == number]
    out_blocks = [block for block in blocks if block.stage != number]
    if mine:
        task = stage_work(packed, number).task()
        engine = task.program.engine(number)
        for version, (rows, watermark) in enumerate(((mine, 0), ((), _END))):
            out_blocks += step(task, engine, mine[0].bucket, version, rows, watermark)
    return pa.Table.from_batches(list(as_batches(out_blocks)))


def step(
    task: StageTask, engine: Engine, bucket: int, version: int, rows: Sequence[ShuffleBlock], watermark: int
) -> Iterator[ShuffleBlock]:
    """Advance the engine of a bucket to a watermark (milliseconds), with `rows` as its input.

    Yield blocks that contain the results for later stages and for output, and the dead letters.
    """
    tables, dead = task.taken(engine, bucket, version, rows, watermark)
    yield from from_stage(task.program, task.stage, bucket, tables)
    for world_rows in for_world(task.program, task.stage, bucket, tables, task.wanted):
        yield world_rows.block()
    yield from letter_blocks(bucket, map(letter_line, dead))


def letter_blocks(bucket: int, lines: Iterable[bytes]) -> Iterator[ShuffleBlock]:
    """Yield one block that contains all dead letters, or nothing if there are none."""
    if text := b"".join(lines):
        yield ShuffleBlock(DEAD, bucket, rows=text)


def as_batches(blocks: Iterable[ShuffleBlock], timed: bool = False) -> RecordBatches:
    """Convert blocks to record batches for Spark. There is at least one record batch. Blocks of reports are omitted.

    `timed`: True if the batches have the column `TIMED`.
    """
    held: list[ShuffleBlock] = []
    size = 0
    for block in blocks:
        if block.stage == REPORT:
            continue
        held.append(block)
        size += len(block.rows)
        if size > _ROW:
            yield _batch(held, timed)
            held, size = [], 0
    yield _batch(held, timed)


def _batch(blocks: Sequence[ShuffleBlock], timed: bool) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = {
        "stage": pa.int32(),
        "bucket": pa.int32(),
        "event": pa.string(),
        "place": pa.int64(),
        "source": pa.string(),
        "rows": pa.binary(),
    }
    columns = [pa.array([getattr(block, name) for block in blocks], kind) for name, kind in kinds.items()]
    if timed:
        columns.append(pa.array([block.latest for block in blocks], pa.timestamp("us", "UTC")))
    return pa.RecordBatch.from_arrays(columns, [*kinds, TIMED] if timed else [*kinds])


def blocks_of(rows: pa.Table | pa.RecordBatch) -> list[ShuffleBlock]:
    """Convert rows of a plan back to blocks."""
    return [ShuffleBlock(**row) for row in rows.to_pylist()]


def _tables(event: str, schema: Schema, merged: bool, batches: RecordBatches) -> RecordBatches:
    """Yield the rows of a derived event from its blocks.

    `merged`: True if several buckets may derive the same occurrence. In this case, equal rows of a task become one row.
    """
    from cep.spark.sink.event_files import merged_tables

    layout = ParquetLayout({event: schema})
    parts = ([(event, WorldRows.of(block).table) for block in blocks_of(batch)] for batch in batches)
    for some in [[event_table for part in parts for event_table in part]] if merged else parts:
        for table in merged_tables(some, frozenset({event} if merged else ())).get(event, ()):
            yield from layout.table(event, table).to_batches()


def letters(batches: RecordBatches) -> RecordBatches:
    """Convert blocks of dead letters to rows."""
    import json

    import pyarrow as pa

    for batch in batches:
        entries = [json.loads(line) for text in batch["rows"].to_pylist() for line in text.splitlines()]
        records = [entry["record"] for entry in entries]
        texts = [
            record if record is None or isinstance(record, str) else json.dumps(record, ensure_ascii=False)
            for record in records
        ]
        names = {"event": "file", "code": "code", "reason": "reason"}
        columns = [pa.array([entry[key] for entry in entries], pa.string()) for key in names.values()]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(texts, pa.string())], [*names, "record"])
