"""Shuffle blocks: the rows of one event for one bucket, which one task hands to another as one value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.schema import ARRIVAL, NUMBER, TIE
from cep.plan.partition import Stage
from cep.runtime.buckets import KeyCounter, buckets
from cep.runtime.maximal_intervals import clipped
from cep.runtime.output import as_changes
from cep.runtime.report import Report
from cep.spark.program import ShippedProgram
from cep.workers.multiplicities import net

WORLD = 0
"""The `stage` of derived rows that go to the sink."""

REPORT = -2
"""The `stage` of a report on its way to the driver, which is its `source`."""

DEAD = -3
"""The `stage` of a piece of a file of dead letters, of which `event` is the name and `place` the offset, where workers
share no folder."""

TIMES = -4
"""The `stage` of the keys and ends of records on their way to the driver, where lateness is judged by keys."""

TIME = -1
"""The `stage` of what only moves the watermark."""

END = 1 << 61
"""The time (microseconds) of the end of the input, beyond that of any event by more than any lateness."""

CHANGE = "#change"
"""The `event` of blocks with changes of the knowledge; no event has such a name."""

LATEST = "#latest"
"""The `event` of blocks that say how far the input has come."""

FIRST = "#first"
"""The `event` of blocks that say when input begins."""

LATE = "#late"
"""The `event` of blocks that say which keys have late records."""

FIRSTS = 1024
"""The number of times that a file reports at which the input may begin: those of late records do not count."""

Stretch = tuple[int | None, int | None]
"""The bounds of what is written, in microseconds, both included; None: there is no bound."""

ChangeLine = tuple[int, str, str, int]
"""A change of the knowledge: from when (microseconds), the triples, and the file and line that say it."""


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """`place` sorts the blocks of a bucket: by the number of their file, or by the stage and bucket that made them.
    `source`: the name of the file, None where a stage made them. `rows`: an Arrow stream. `latest`: the last end among
    its rows; of what a stage made it is not asked for."""

    stage: int
    bucket: int
    event: str
    place: int
    source: str | None
    rows: bytes
    latest: int


@dataclass(frozen=True, slots=True)
class WorldRows:
    """Rows of an event for the sink, from a bucket."""

    bucket: int
    event: str
    place: int
    table: pl.DataFrame

    def block(self) -> ShuffleBlock:
        """They on their way to another task."""
        return _block(WORLD, self.bucket, self.event, self.place, None, self.table)

    @classmethod
    def of(cls, block: ShuffleBlock) -> WorldRows:
        """Those that a block brings."""
        return cls(block.bucket, block.event, block.place, unpack(block.rows))


@dataclass(frozen=True, slots=True)
class Stepped:
    """The `version` of its state; when it is to be stepped again though nothing comes (`call`, milliseconds of the
    watermark; None: it sleeps); the `blocks` for later stages and the driver; and what goes to the sink (`world`)."""

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
    """Records of the file `source`, of number `place`, for all stages that take them; `keys` counts them."""
    for stage in program.stages:
        mine = {event: table for event, table in tables.items() if event in stage.outside}
        yield from _dealt(program, stage, mine, place, source, keys)


def from_stage(
    program: ShippedProgram, stage: Stage, bucket: int, derived: Mapping[str, pl.DataFrame]
) -> Iterator[ShuffleBlock]:
    """Deal the results of a bucket to later stages."""
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
    """The results of a bucket that are `wanted` in the sink, as far as they lie in the `stretch`; those that others may
    have made as well, by the bucket in which they meet. `cuts`: the times at which intervals of fluents begin at the
    earliest."""
    place = (stage.number << 32) + bucket
    rows = clipped(_as_written(program, derived), program.outputs, *stretch)
    for event, time in (cuts or {}).items():
        if event in rows:
            rows |= clipped({event: rows[event]}, program.outputs, time, None)
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


def _as_written(program: ShippedProgram, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables that are written, as they are written."""
    found = {table: derived[table] for table in program.written if table in derived}
    return as_changes(found, program.schemas, program.outputs) if program.changes else found


def wake_ups(program: ShippedProgram, every: bool = False) -> Iterator[ShuffleBlock]:
    """Blocks without rows, for the buckets that have something to do before the first row, or for `every` one."""
    for stage in program.stages:
        if every or stage.number in program.ticking:
            for bucket in range(program.count(stage)):
                yield ShuffleBlock(stage.number, bucket, "", 0, None, b"", 0)


def change_blocks(program: ShippedProgram, found: Sequence[ChangeLine]) -> Iterator[ShuffleBlock]:
    """Return changes of the knowledge as blocks for all buckets."""
    rows = json.dumps(found).encode()
    for stage in program.stages:
        for bucket in range(program.count(stage)):
            yield ShuffleBlock(stage.number, bucket, CHANGE, 0, None, rows, 0)


def latest_blocks(program: ShippedProgram, latest: int) -> Iterator[ShuffleBlock]:
    """How far the input has come (microseconds), to all buckets in which something may go on to there by itself."""
    for stage in program.stages:
        for bucket in range(program.count(stage)) if stage.number in program.unending else ():
            yield ShuffleBlock(stage.number, bucket, LATEST, 0, None, str(latest).encode(), 0)


def first_blocks(program: ShippedProgram, ends: Sequence[int]) -> Iterator[ShuffleBlock]:
    """The first times at which records end (microseconds), sorted, to all buckets in which something begins with the
    input; of more than `FIRSTS`, so many and one more."""
    rows = json.dumps(list(ends[: FIRSTS + 1])).encode()
    for stage in program.stages:
        for bucket in range(program.count(stage)) if stage.number in program.beginning else ():
            yield ShuffleBlock(stage.number, bucket, FIRST, 0, None, rows, 0)


def report_block(report: Report) -> ShuffleBlock:
    """A report on its way to the driver."""
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
