"""Shuffle blocks: the rows of one event for one bucket, which one task passes to another as one value."""

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
"""The `stage` of derived rows for the sink."""

REPORT = -2
"""The `stage` of a report for the driver. The report is in `source`."""

DEAD = -3
"""The `stage` of a piece of a file of dead letters, if workers share no folder.

`event` is the name of the file, and `place` the offset.
"""

TIMES = -4
"""The `stage` of keys and ends of records for the driver, if lateness is judged by key."""

TIME = -1
"""The `stage` of blocks that only move the watermark."""

END = 1 << 61
"""The time (microseconds) of the end of the input. It is later than the time of any event, by more than any
lateness."""

CHANGE = "#change"
"""The `event` of blocks with changes of the knowledge; no event has such a name."""

LATEST = "#latest"
"""The `event` of blocks with the latest time in the input."""

FIRST = "#first"
"""The `event` of blocks with the first times in the input."""

LATE = "#late"
"""The `event` of blocks with the keys that have late records."""

FIRSTS = 1024
"""The number of earliest times that a file reports. Several are needed, because the times of late records do not
count."""

Stretch = tuple[int | None, int | None]
"""The bounds of the time that is written, in microseconds, both included. None: no bound."""

ChangeLine = tuple[int, str, str, int]
"""A change of the knowledge: its time (microseconds), the triples, and the file and line where it was read."""


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """A block of rows.

    `place` sorts the blocks of a bucket: by the number of their file, or by the stage and bucket that made them.
    `source`: the name of the file; None: a stage made the block. `rows`: an Arrow stream. `latest`: the last end of the
    rows; unused if a stage made them.
    """

    stage: int
    bucket: int
    event: str
    place: int
    source: str | None
    rows: bytes
    latest: int


@dataclass(frozen=True, slots=True)
class WorldRows:
    """Rows of an event from a bucket, for the sink."""

    bucket: int
    event: str
    place: int
    table: pl.DataFrame

    def block(self) -> ShuffleBlock:
        """Return the rows as a block."""
        return _block(WORLD, self.bucket, self.event, self.place, None, self.table)

    @classmethod
    def of(cls, block: ShuffleBlock) -> WorldRows:
        """Return the rows in a block."""
        return cls(block.bucket, block.event, block.place, unpack(block.rows))


@dataclass(frozen=True, slots=True)
class Stepped:
    """The result of stepping a bucket.

    `version`: the version of the new state. `call`: the watermark (milliseconds) at which to step again even without
    input; None: not needed. `blocks`: for later stages and the driver. `world`: rows for the sink.
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
    """Yield the records of a file as blocks for all stages that read them.

    `place`: the number of the file. `source`: its name. `keys`: a counter of their keys.
    """
    for stage in program.stages:
        mine = {event: table for event, table in tables.items() if event in stage.outside}
        yield from _dealt(program, stage, mine, place, source, keys)


def from_stage(
    program: ShippedProgram, stage: Stage, bucket: int, derived: Mapping[str, pl.DataFrame]
) -> Iterator[ShuffleBlock]:
    """Yield the results of a bucket as blocks for later stages."""
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
    """Yield the results of a bucket that are `wanted` in the sink and lie within `stretch`.

    Rows that other buckets may also derive are sent to the bucket in which they are merged. `cuts`: the earliest start
    of intervals, by fluent.
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
    """Return the changes of a fluent from a time on (microseconds). Earlier beginnings are moved to that time."""
    early = (pl.col("time") < time).fill_null(value=True)
    begins = changes.filter(~early | (pl.col(EDGE) == "begins"))
    return begins.with_columns(
        pl.when(early).then(time).otherwise(pl.col("time")).alias("time"),
        pl.when(early).then(pl.lit("[")).otherwise(pl.col("bounds")).alias("bounds"),
    )


def _as_written(program: ShippedProgram, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the tables that are written, in their written form."""
    tables = {table: derived[table] for table in program.written if table in derived}
    return as_changes(tables, program.schemas, program.outputs) if program.changes else tables


def wake_ups(program: ShippedProgram, every: bool = False) -> Iterator[ShuffleBlock]:
    """Yield blocks without rows, for the buckets that must run before the first row, or for `every` bucket."""
    for stage in program.stages:
        if every or stage.number in program.ticking:
            for bucket in range(program.count(stage)):
                yield ShuffleBlock(stage.number, bucket, "", 0, None, b"", 0)


def change_blocks(program: ShippedProgram, lines: Sequence[ChangeLine]) -> Iterator[ShuffleBlock]:
    """Return changes of the knowledge as blocks for all buckets."""
    rows = json.dumps(lines).encode()
    for stage in program.stages:
        for bucket in range(program.count(stage)):
            yield ShuffleBlock(stage.number, bucket, CHANGE, 0, None, rows, 0)


def latest_blocks(program: ShippedProgram, latest: int) -> Iterator[ShuffleBlock]:
    """Yield the latest time in the input (microseconds) as blocks, for all buckets with endless recursion."""
    for stage in program.stages:
        for bucket in range(program.count(stage)) if stage.number in program.unending else ():
            yield ShuffleBlock(stage.number, bucket, LATEST, 0, None, str(latest).encode(), 0)


def first_blocks(program: ShippedProgram, ends: Sequence[int]) -> Iterator[ShuffleBlock]:
    """Yield the first ends of records (microseconds, sorted) as blocks, for all buckets in which something begins with
    the first event.

    At most `FIRSTS` + 1 ends are included.
    """
    rows = json.dumps(list(ends[: FIRSTS + 1])).encode()
    for stage in program.stages:
        for bucket in range(program.count(stage)) if stage.number in program.beginning else ():
            yield ShuffleBlock(stage.number, bucket, FIRST, 0, None, rows, 0)


def report_block(report: Report) -> ShuffleBlock:
    """Return a report as a block for the driver."""
    return ShuffleBlock(REPORT, 0, "", 0, report.line(), b"", 0)


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
