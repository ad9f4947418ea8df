"""Reading of files and messages in a worker. Valid records become shuffle blocks, and all others dead letters."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cep.connectors.clock_skew import place_of, without_ahead
from cep.connectors.files import ABSENT, DEVICE, read_one
from cep.connectors.inputs import Input
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.connectors.records.revised import changes_of
from cep.connectors.records.unused_attributes import NeverThere
from cep.core.errors import CepError
from cep.core.fluents import OWN_END, RECORDS
from cep.core.relation import END as END_ROW
from cep.core.relation import ORDER
from cep.core.schema import ARRIVAL, CHANGE
from cep.core.values import Ints, Pool
from cep.runtime.buckets import KeyCounter
from cep.runtime.decode import table_frame
from cep.runtime.encode import PushedColumns, admit
from cep.runtime.fluent_records import as_records
from cep.runtime.prior_state import PriorState, SnapshotParts
from cep.runtime.report import Report
from cep.spark.dead_letters import LINE_BITS, dead_letter_file, write_dead_letters
from cep.spark.key_lateness import key_times
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import (
    FIRSTS,
    ShuffleBlock,
    change_blocks,
    first_blocks,
    from_outside,
    latest_blocks,
    report_block,
)
from cep.spark.state import bucket_states
from cep.spark.worker import freeze_garbage

FILE = "file"
"""The code of a dead letter that concerns a whole file."""

_BEFORE = -1  # the place of rows from before a migration

ANY_TIME = None, None
"""A value of the parameter `ahead`. With this value, records may have any time."""

ROWS = 1 << 19
"""The number of Parquet rows per batch."""


def file_blocks(
    program: ShippedProgram,
    number: int,
    input: Input,
    dead_letters: str | None,
    must_exist: bool = False,
    ahead: tuple[int | None, int | None] = ANY_TIME,
    kept: Callable[[Iterator[Batch]], Iterator[Batch]] = lambda pieces: pieces,
) -> Iterator[ShuffleBlock]:
    """Yield the records of a file as blocks for the stages. Text that is not a valid event becomes a dead letter.

    - `number`: the number of the file.
    - `dead_letters`: the path prefix of dead-letter files. If it is None, dead letters are dropped.
    - `must_exist`: True if the planning process could read the file.
    - `ahead`: as for `in_time`.
    - `kept`: a function that selects records from the file's batches. By default, all records are kept.

    If a file cannot be read to the end, a dead letter says so. Raises CepError if the file may be readable later or on
    another machine.
    """
    pieces = readable_batches(read_one(input, program.read, rows=ROWS), input.path, must_exist)
    pieces = kept(in_time(pieces, ahead))
    yield from record_blocks(program, number, input.path, pieces, dead_letters, f"read-{number:08}")


def in_time(pieces: Iterable[Batch], ahead: tuple[int | None, int | None]) -> Iterator[Batch]:
    """Remove records whose time is too far ahead of the clock.

    `ahead`: the limit in microseconds, and the time at which the micro-batch was planned. A repeated micro-batch uses
    the same time. If the time is None, no record is removed.
    """
    limit, clock = ahead
    for piece in pieces:
        yield piece if clock is None else without_ahead(piece, limit, clock)


def readable_batches(pieces: Iterable[Batch], file: str, must_exist: bool = False) -> Iterator[Batch]:
    """Yield the batches of a file. If the rest of the file cannot be read, yield a dead letter with the reason.

    `must_exist`: True if the process that planned the micro-batch could read the file. Raises CepError if the file may
    be readable later, or if it must exist but does not exist on this machine.
    """
    line = 0
    try:
        for piece in pieces:
            line = max([line, *(block.line_beyond for block in piece.blocks if block.count)])
            yield piece
    except CepError as error:
        if error.code == DEVICE:
            raise
        reason = error.message.removeprefix(f"{file}: ")
        if must_exist and error.code == ABSENT:
            raise CepError(
                f"{file} cannot be read by a worker on {socket.gethostname()}: {reason}; it exists on the "
                "machine that plans the query",
                hint="all machines need the inputs under the same path, readable by the user of the workers",
                code=DEVICE,
            ) from None
        why = f"the rest of the file cannot be read: {reason}" if line else reason
        yield Batch({}, [DeadLetter(file, line, why, FILE, of_file=True)], [])


def record_blocks(
    program: ShippedProgram,
    number: int,
    source: str,
    pieces: Iterable[Batch],
    dead_letters: str | None,
    name: str,
    bits: int = LINE_BITS,
) -> Iterator[ShuffleBlock]:
    """Yield records as blocks for the stages, followed by a report.

    - `number`: the number of the file, partition or DataFrame. `source`: its name.
    - `name`: the name of the dead-letter file.
    - `bits`: the number of bits that the line number of a record may use.
    """
    freeze_garbage()
    dead: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    unread: list[str] = []
    no_records = unmatched = 0
    latest: int | None = None
    place: str | None = None
    reached: int | None = None
    begins = np.empty(0, np.int64)
    keys = KeyCounter()
    never, remarks = NeverThere.of(program.inputs), dict[str, None]()
    with dead_letter_file(dead_letters, name) as write_dead:
        for piece in changes_of(pieces) if program.revises else pieces:
            dead.update(letter.code for letter in piece.dead)
            no_records += sum(letter.of_file for letter in piece.dead)
            unmatched += piece.unmatched
            unread += [f"{letter.file}: {letter.reason}" for letter in piece.dead if letter.code == FILE]
            write_dead(piece.dead)
            never.take(piece)
            remarks |= dict.fromkeys(piece.remarks)
            for event, table in piece.tables.items():
                last = table["end"].max()
                if isinstance(last, int):
                    taken[event] += table.height
                    if latest is None or last > latest:
                        latest, place = last, place_of(piece, last)
            tables = as_records(numbered(piece, number, bits), program.records)
            assert isinstance(tables, dict), "of tables it makes tables"
            if program.revises:
                tables = {event: with_change(table) for event, table in tables.items()}
            yield from from_outside(program, tables, number, source, keys)
            if program.lateness_by is not None:
                yield from key_times(program, tables, number)
            if program.unending and (far := furthest(program, tables)) is not None:
                reached = far if reached is None else max(far, reached)
            if program.beginning:
                begins = np.union1d(begins, first_ends(program, tables))[: FIRSTS + 1]
    told = [*remarks], never.lacking()
    report = Report(
        read=taken,
        dead=dead,
        latest=latest,
        place=place,
        unread=unread,
        no_records=no_records,
        unmatched=unmatched,
        remarks=told[0],
        lacking=told[1],
        keys=keys.counts(),
    )
    if reached is not None:
        yield from latest_blocks(program, reached)
    if len(begins):
        yield from first_blocks(program, begins.tolist())
    yield report_block(report)


def with_change(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table that has a column `@change`. If `table` has none, all its rows are additions."""
    return table if CHANGE in table.columns else table.with_columns(pl.lit(1, pl.Int8).alias(CHANGE))


def furthest(program: ShippedProgram, tables: Mapping[str, pl.DataFrame]) -> int | None:
    """Return the latest end of the valid rows in microseconds, or None if no row is valid.

    For records of fluents, the ends of the records themselves count as well.
    """
    pool, ends = Pool(), []
    for name, table in tables.items():
        taken = admit(PushedColumns.of(table), program.schemas[name], pool, 0).table
        fluent = program.schemas[name].fluent
        times = [END_ROW] if fluent is None or fluent.part != RECORDS else [END_ROW, OWN_END]
        ends += [int(taken[time].max()) for time in times if taken.size]
    return max(ends, default=None)


def first_ends(program: ShippedProgram, tables: Mapping[str, pl.DataFrame]) -> Ints:
    """Return the earliest distinct ends of the valid rows (microseconds), sorted: at most `FIRSTS` + 1 ends."""
    pool = Pool()
    ends = [
        admit(PushedColumns.of(table), program.schemas[name], pool, 0).table[END_ROW] for name, table in tables.items()
    ]
    return np.unique(np.concatenate([np.empty(0, np.int64), *ends]))[: FIRSTS + 1]


def waiting(program: ShippedProgram, path: str, events: Sequence[str]) -> Iterator[ShuffleBlock]:
    """Yield the rows that wait for the watermark in the state of a former program, as input of `program`.

    `path`: the file of the state. `events`: the events whose rows are read. Raises CepError if the state is missing.
    """
    blob, segments = bucket_states.parted_state(Path(path))
    state, pool = SnapshotParts.of(PriorState(blob, segments=(segments.names, segments.fetch))), Pool()
    if state.values is not None:
        pool.load(state.values)
    read = {program.records.get(name, name) for name in program.inputs}
    schemas = {name: program.schemas[name] for name in sorted(read.intersection(events))}
    tables = {
        name: table_frame(table, schemas[name], pool).with_columns(pl.Series(ARRIVAL, table[ORDER]))
        for name, table in state.waits(schemas).items()
    }
    return from_outside(program, tables, _BEFORE, None)


def changes(
    program: ShippedProgram, name: str, lines: Sequence[Mapping[str, Any]], dead_letters: str | None
) -> Iterator[ShuffleBlock]:
    """Yield the valid changes of the knowledge as blocks for all buckets. `lines`: lines of the log of changes.

    Refused changes become dead letters in the file `name`.
    """
    refused = [refusal for line in lines for refusal in line["refused"]]
    dead = [DeadLetter(file, line, reason, code, text) for reason, code, file, line, text in refused]
    write_dead_letters(dead_letters, name, dead)
    report = Report(dead=Counter(letter.code for letter in dead), no_records=len(dead))
    taken = [change for line in lines for change in line["changes"]]
    if taken:
        yield from change_blocks(program, taken)
    yield report_block(report)


def numbered(piece: Batch, number: int, bits: int = LINE_BITS) -> dict[str, pl.DataFrame]:
    """Return the tables of a batch, each with a column `@order`. A value of this column contains the number of the file
    in its high bits, and the number of the line in its low `bits` bits.

    Raises CepError if the batch has too many lines.
    """
    tables = {}
    for event, table in piece.tables.items():
        assert len(piece.blocks) == 1, "what is read as it comes is a block at a time"
        block: Block = piece.blocks[0]
        place = table[ARRIVAL].to_numpy() - block.first
        lines = place + block.line if block.lines is None else block.lines[place]
        if len(lines) and int(np.max(lines)) >> bits:
            raise CepError(
                f"{block.file}: record {int(np.max(lines)):,} is beyond {(1 << bits) - 1:,}, the last "
                "number that a record can have",
                hint="split the file, or use a new topic, whose offsets start at 0",
                code="input",
            )
        order = np.asarray(lines, np.int64) + (number << LINE_BITS)
        tables[event] = table.with_columns(pl.Series(ARRIVAL, order))
    return tables
