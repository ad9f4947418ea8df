"""Shuffle blocks: rows of one event for one bucket, which a task passes to another task as one value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.fluents import EDGE
from cep.core.schema import ARRIVAL, NUMBER, TIE
from cep.plan.partition import Stage
from cep.runtime.buckets import KeyCounter, buckets
from cep.runtime.maximal_intervals import clipped
from cep.runtime.output import as_changes
from cep.runtime.report import Report
from cep.spark.program import ShippedProgram
from cep.workers.multiplicities import net

WORLD = 0
"""The `stage` of a block that contains derived rows for the sink."""

REPORT = -2
"""The `stage` of a block that contains a report for the driver. The report is in the block's `source`."""

DEAD = -3
"""The `stage` of a block that contains a part of a dead-letter file. Such blocks are used if workers share no folder.

The block's `event` is the name of the file, and its `place` is the offset in the file.
"""

TIMES = -4
"""The `stage` of a block that contains keys and ends of records, for the driver. It is used for lateness by key."""

TIME = -1
"""The `stage` of a block that only moves the watermark."""

END = 1 << 61
"""The time (microseconds) at which the input ends. It is later than any event's time plus any lateness."""

CHANGE = "#change"
"""The `event` of a block that contains changes of the knowledge. No event can have this name."""

LATEST = "#latest"
"""The `event` of a block that contains the latest time in the input."""

FIRST = "#first"
"""The `event` of a block that contains the earliest times in the input."""

LATE = "#late"
"""The `event` of a block that lists the keys that have late records."""

FIRSTS = 1024
"""The number of earliest times that the reader of a file reports. A single time is not enough, because it may be the
time of a late record, and times of late records do not count."""

Stretch = tuple[int | None, int | None]
"""The first and the last time (microseconds) for which output is written. None means no bound on that side."""

ChangeLine = tuple[int, str, str, int]
"""A change of the knowledge: its time (microseconds), its triples as text, its file, and its line in this file."""


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """Rows of one event for one bucket.

    - `stage`: the number of the stage that reads the block, or a constant such as `WORLD`.
    - `place`: a number by which the blocks of a bucket are sorted. It is the number of the input file, or it consists
      of the stage and bucket that derived the rows.
    - `source`: the name of the input file, or None if a stage derived the rows.
    - `rows`: an Arrow stream.
    - `latest`: the latest end of the rows. It is not used if a stage derived the rows.
    """

    stage: int
    bucket: int
    event: str = ""
    place: int = 0
    source: str | None = None
    rows: bytes = b""
    latest: int = 0


@dataclass(frozen=True, slots=True)
class WorldRows:
    """Derived rows of one event for the sink. `bucket`: the bucket that passes them on. `place`: see `ShuffleBlock`."""

    bucket: int
    event: str
    place: int
    table: pl.DataFrame

    def block(self) -> ShuffleBlock:
        return _block(WORLD, self.bucket, self.event, self.place, None, self.table)

    @classmethod
    def of(cls, block: ShuffleBlock) -> WorldRows:
        return cls(block.bucket, block.event, block.place, unpack(block.rows))


@dataclass(frozen=True, slots=True)
class Stepped:
    """The result of one step of a bucket.

    - `version`: the version of the new state.
    - `call`: the watermark (milliseconds) at which the bucket must run again even without input, or None if it need
      not.
    - `blocks`: blocks for later stages and for the driver.
    - `world`: rows for the sink.
    """

    version: int
    call: int | None
    blocks: Sequence[ShuffleBlock]
    world: Sequence[WorldRows]


def from_outside(
    program: ShippedProgram,
    tables: Mapping[str, pl.DataFrame],
    place: int,
    source: str | None,
    keys: KeyCounter | None = None,
) -> Iterator[ShuffleBlock]:
    """Yield the records of an input file as blocks for all stages that read the file.

    `place`: the number of the file. `source`: the name of the file. `keys`: counts the keys in the records.
    """
    for stage in program.stages:
        mine = {event: table for event, table in tables.items() if event in stage.outside}
        yield from _dealt(program, stage, mine, place, source, keys)


def from_stage(
    program: ShippedProgram, stage: Stage, bucket: int, derived: Mapping[str, pl.DataFrame]
) -> Iterator[ShuffleBlock]:
    """Convert the rows that a bucket derives to blocks for later stages."""
    place = (stage.number << 32) + bucket
    for later in program.stages[stage.number :]:
        mine = {event: table for event, table in derived.items() if event in later.inputs.keys() - later.outside}
        yield from _dealt(program, later, mine, place, None)


def for_world(
    program: ShippedProgram,
    stage: Stage,
    bucket: int,
    derived: Mapping[str, pl.DataFrame],
    wanted: Sequence[str],
    stretch: Stretch = (None, None),
    cuts: Mapping[str, int] | None = None,
) -> Iterator[WorldRows]:
    """Yield the rows of a bucket that go to the sink. If several buckets may derive the same row, the row goes to the
    bucket that merges its copies.

    - `derived`: the tables that the bucket derives.
    - `wanted`: the names of the events to output.
    - `stretch`: the first and the last time of the output.
    - `cuts`: for each fluent, the time before which nothing is written. Intervals that begin before this time are cut.
    """
    place = (stage.number << 32) + bucket
    rows = clipped(_as_written(program, derived), program.outputs, *stretch)
    for event, time in (cuts or {}).items():
        if event in rows:
            some = {event: rows[event]}
            rows |= {event: _from(rows[event], time)} if program.changes else clipped(some, program.outputs, time, None)
    for event, table in rows.items():
        if event not in wanted or not table.height:
            continue
        if program.window is not None:
            table = net(table)
        if event not in program.merged:
            number = [] if program.window is not None else [NUMBER]
            yield WorldRows(bucket, event, place, table.drop(ARRIVAL, TIE, *number, strict=False))
            continue
        numbers = pl.Series("bucket", buckets(table, program.outputs[event], "whole", program.buckets))
        for number in numbers.unique().sort().to_list():
            yield WorldRows(number, event, place, table.filter(numbers == number))


def _from(changes: pl.DataFrame, time: int) -> pl.DataFrame:
    """Return the changes of a fluent from `time` on (microseconds). Earlier beginnings get the time `time`."""
    early = (pl.col("time") < time).fill_null(value=True)
    begins = changes.filter(~early | (pl.col(EDGE) == "begins"))
    return begins.with_columns(
        pl.when(early).then(time).otherwise(pl.col("time")).alias("time"),
        pl.when(early).then(pl.lit("[")).otherwise(pl.col("bounds")).alias("bounds"),
    )


def _as_written(program: ShippedProgram, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the tables that are written. If the program writes changes, they contain the beginnings and ends of
    fluents instead of intervals."""
    tables = {table: derived[table] for table in program.written if table in derived}
    return as_changes(tables, program.schemas, program.outputs) if program.changes else tables


def wake_ups(program: ShippedProgram, every: bool = False) -> Iterator[ShuffleBlock]:
    """Yield a block without rows for each bucket that must run before the first row arrives.

    `every`: True to yield a block for each bucket of the program.
    """
    return _to_buckets(program, None if every else program.ticking)


def change_blocks(program: ShippedProgram, lines: Sequence[ChangeLine]) -> Iterator[ShuffleBlock]:
    """Yield one block for each bucket. The block contains the changes of the knowledge."""
    return _to_buckets(program, None, CHANGE, json.dumps(lines))


def latest_blocks(program: ShippedProgram, latest: int) -> Iterator[ShuffleBlock]:
    """Yield blocks that contain the latest time in the input (microseconds), for the stages in `program.unending`."""
    return _to_buckets(program, program.unending, LATEST, str(latest))


def first_blocks(program: ShippedProgram, ends: Sequence[int]) -> Iterator[ShuffleBlock]:
    """Yield blocks that contain the earliest ends of records, for the stages in `program.beginning`.

    `ends`: ends of records in microseconds, sorted. Only the first `FIRSTS` + 1 are sent.
    """
    return _to_buckets(program, program.beginning, FIRST, json.dumps(list(ends[: FIRSTS + 1])))


def _to_buckets(
    program: ShippedProgram, stages: frozenset[int] | None, event: str = "", text: str = ""
) -> Iterator[ShuffleBlock]:
    rows = text.encode()
    for stage in program.stages:
        if stages is None or stage.number in stages:
            for bucket in range(program.count(stage)):
                yield ShuffleBlock(stage.number, bucket, event, rows=rows)


def report_block(report: Report) -> ShuffleBlock:
    """Convert a report to a block for the driver."""
    return ShuffleBlock(REPORT, 0, source=report.line())


def _dealt(
    program: ShippedProgram,
    stage: Stage,
    tables: Mapping[str, pl.DataFrame],
    place: int,
    source: str | None,
    keys: KeyCounter | None = None,
) -> Iterator[ShuffleBlock]:
    for bucket, dealt in enumerate(program.dealt(stage, tables, keys)):
        for event, table in dealt.items():
            if table.height:
                yield _block(stage.number, bucket, event, place, source, table, program.lateness_by is None)


def _block(
    stage: int, bucket: int, event: str, place: int, source: str | None, table: pl.DataFrame, timed: bool = True
) -> ShuffleBlock:
    latest = table["end"].max() if timed and "end" in table.columns else None
    return ShuffleBlock(
        stage, bucket, event, place, source, pack(table, narrow=True), latest if isinstance(latest, int) else 0
    )
