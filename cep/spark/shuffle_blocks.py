"""Shuffle blocks: the rows of one event for one bucket as one row of Spark's, which crosses a shuffle as one value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import polars as pl
import pyarrow as pa

from cep.core.schema import ARRIVAL, TIE
from cep.plan.partition import Stage
from cep.runtime.buckets import buckets, deal
from cep.runtime.fluent_changes import as_changes
from cep.runtime.held import clipped
from cep.runtime.report import Report
from cep.spark.program import ShippedProgram
from cep.spark.ways import net
from connectors.arrow_bytes import pack

WORLD = 0
"""The `stage` of derived rows that go to the sink."""

REPORT = -2
"""The `stage` of a report on its way to the driver, which is its `source`."""

BLOCK_COLUMNS = "stage int, key int, event string, place long, source string, rows binary"
"""`key` stands for the bucket (`bucket_keys`). `place` sorts the blocks of a bucket: by the number of their file, or by
the stage and bucket that made them. `source`: the name of the file, None where a stage made them. `rows`: an Arrow
stream."""

END = 1 << 61
"""The time (microseconds) of the end of the input, beyond that of any event by more than any lateness."""

EVEN = 48
"""Buckets are spread evenly over so many partitions, and over any number of them that divides it."""

CHANGE = "#change"
"""The `event` of blocks with changes of the knowledge; no event has such a name."""

LATEST = "#latest"
"""The `event` of blocks that say how far the input has come."""

FIRST = "#first"
"""The `event` of blocks that say when input begins."""

FIRSTS = 1024
"""Of the input of a file so many times are told in which it may begin: those of late records are none."""

_ALL = 0xFFFFFFFF

Stretch = tuple[int | None, int | None]
"""What is written lies between these, in microseconds, both included; None: there is no bound."""

ChangeLine = tuple[int, str, str, int]
"""Of the knowledge: from when (microseconds), what, and the file and line that say it."""


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """`latest`: the last end among its rows; of what a stage made it is not asked for."""

    stage: int
    key: int
    event: str
    place: int
    source: str | None
    rows: bytes
    latest: int


def from_outside(
    program: ShippedProgram, tables: Mapping[str, pl.DataFrame], place: int, source: str | None
) -> Iterator[ShuffleBlock]:
    """Records of the file `source`, of number `place`, for all stages that take them."""
    for stage in program.stages:
        mine = {event: table for event, table in tables.items() if event in stage.outside}
        yield from _dealt(program, stage, mine, place, source)


def from_stage(
    program: ShippedProgram,
    stage: Stage,
    bucket: int,
    derived: Mapping[str, pl.DataFrame],
    wanted: Sequence[str],
    stretch: Stretch = (None, None),
) -> Iterator[ShuffleBlock]:
    """What a bucket made, for later stages, and where it is `wanted` for the sink, as far as it lies in the
    `stretch`."""
    place = (stage.number << 32) + bucket
    for later in program.stages[stage.number :]:
        mine = {event: table for event, table in derived.items() if event in later.inputs.keys() - later.outside}
        yield from _dealt(program, later, mine, place, None)
    keys = bucket_keys(program.buckets)
    for event, table in clipped(_as_written(program, derived), program.outputs, *stretch).items():
        if event not in wanted or not table.height:
            continue
        if program.window is not None:
            table = net(table)
        if event not in program.merged:
            yield _block(WORLD, keys[bucket], event, place, None, table.drop(ARRIVAL, TIE, strict=False))
            continue
        numbers = pl.Series("bucket", buckets(table, program.outputs[event], "whole", program.buckets))
        for number in numbers.unique().sort().to_list():
            yield _block(WORLD, keys[number], event, place, None, table.filter(numbers == number))


def _as_written(program: ShippedProgram, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Of tables those that are written, as they are."""
    found = {table: derived[table] for table in program.written if table in derived}
    return as_changes(found, program.schemas, program.outputs) if program.changes else found


def wake_ups(program: ShippedProgram, every: bool = False) -> Iterator[ShuffleBlock]:
    """Blocks without rows, for the buckets that have something to do before the first row, or for `every` one."""
    for stage in program.stages:
        if every or stage.number in program.ticking:
            for key in bucket_keys(program.buckets)[: program.count(stage)]:
                yield ShuffleBlock(stage.number, key, "", 0, None, b"", 0)


def change_blocks(program: ShippedProgram, found: Sequence[ChangeLine]) -> Iterator[ShuffleBlock]:
    """Changes of the knowledge to all buckets."""
    rows = json.dumps(found).encode()
    for stage in program.stages:
        for key in bucket_keys(program.buckets)[: program.count(stage)]:
            yield ShuffleBlock(stage.number, key, CHANGE, 0, None, rows, 0)


def latest_blocks(program: ShippedProgram, latest: int) -> Iterator[ShuffleBlock]:
    """How far the input has come (microseconds), to all buckets in which something may go on to there by itself."""
    for stage in program.stages:
        for key in bucket_keys(program.buckets)[: program.count(stage)] if stage.number in program.unending else ():
            yield ShuffleBlock(stage.number, key, LATEST, 0, None, str(latest).encode(), 0)


def world_block(program: ShippedProgram, key: int, event: str, table: pl.DataFrame) -> ShuffleBlock:
    """Rows of an event for the sink, from the bucket of a key."""
    return _block(WORLD, key, event, len(program.stages) + 1 << 32, None, table)


def first_blocks(program: ShippedProgram, ends: Sequence[int]) -> Iterator[ShuffleBlock]:
    """The first times at which records end (microseconds), sorted, to all buckets in which something begins with the
    input; of more than `FIRSTS`, so many and one more."""
    rows = json.dumps(list(ends[: FIRSTS + 1])).encode()
    for stage in program.stages:
        for key in bucket_keys(program.buckets)[: program.count(stage)] if stage.number in program.beginning else ():
            yield ShuffleBlock(stage.number, key, FIRST, 0, None, rows, 0)


def report_block(report: Report, key: int) -> ShuffleBlock:
    """A report as a block that passes through all stages."""
    return ShuffleBlock(REPORT, key, "", 0, report.line(), b"", 0)


def _dealt(
    program: ShippedProgram, stage: Stage, tables: Mapping[str, pl.DataFrame], place: int, source: str | None
) -> Iterator[ShuffleBlock]:
    keys = bucket_keys(program.buckets)
    for bucket, dealt in enumerate(deal(stage, tables, program.schemas, program.count(stage))):
        for event, table in dealt.items():
            if table.height:
                yield _block(stage.number, keys[bucket], event, place, source, table)


def _block(stage: int, key: int, event: str, place: int, source: str | None, table: pl.DataFrame) -> ShuffleBlock:
    latest = table["end"].max() if "end" in table.columns else None
    return ShuffleBlock(stage, key, event, place, source, pack(table), latest if isinstance(latest, int) else 0)


def batch(blocks: Iterable[ShuffleBlock]) -> pa.RecordBatch:
    """Blocks as Spark takes them from a source: with `time`, the latest end in each."""
    found = list(blocks)
    columns = [
        pa.array([one.stage for one in found], pa.int32()),
        pa.array([one.key for one in found], pa.int32()),
        pa.array([one.event for one in found], pa.string()),
        pa.array([one.place for one in found], pa.int64()),
        pa.array([one.source for one in found], pa.string()),
        pa.array([one.rows for one in found], pa.binary()),
        pa.array([one.latest for one in found], pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, ["stage", "key", "event", "place", "source", "rows", "time"])


@lru_cache
def bucket_keys(buckets: int) -> tuple[int, ...]:
    """A key for each bucket: Spark puts bucket b into partition b modulo their number, where that divides `EVEN`."""
    waiting: dict[int, list[int]] = {}
    for bucket in range(buckets):
        waiting.setdefault(bucket % EVEN, []).append(bucket)
    found = dict.fromkeys(range(buckets), 0)
    for number in count():
        if not waiting:
            return tuple(found.values())
        place = spark_hash(number) % EVEN
        if place in waiting:
            found[waiting[place].pop(0)] = number
            if not waiting[place]:
                del waiting[place]
    raise AssertionError("numbers have no end")


@lru_cache
def buckets_by_key(buckets: int) -> dict[int, int]:
    """The bucket of each key."""
    return {key: bucket for bucket, key in enumerate(bucket_keys(buckets))}


def spark_hash(number: int) -> int:
    """The hash of an integer that Spark partitions by: Murmur3 of 32 bits, its seed 42, signed."""
    key = (number * 0xCC9E2D51) & _ALL
    key = ((key << 15) | (key >> 17)) & _ALL
    mixed = 42 ^ ((key * 0x1B873593) & _ALL)
    mixed = ((mixed << 13) | (mixed >> 19)) & _ALL
    mixed = ((mixed * 5 + 0xE6546B64) & _ALL) ^ 4
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _ALL
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & _ALL
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed
