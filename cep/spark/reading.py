"""The records of one file as parcels, read where a worker runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from cep.report import Report
from cep.schema import ARRIVAL
from cep.spark.garbage import spare
from cep.spark.keys import keys
from cep.spark.letters import LINE_BITS, Letter, write
from cep.spark.parcels import END, Parcel, batch, from_outside, told
from cep.spark.parcels import calls as calls_of
from cep.spark.program import Program
from connectors.batch import Batch, Block
from connectors.files import read
from connectors.inputs import Input
from connectors.messages import Inbox, Messages

ROWS = 1 << 19
"""Rows of Parquet that are taken at a time."""


def parcels(program: Program, number: int, input: Input, letters: str | None) -> Iterator[pa.RecordBatch]:
    """The records of a file for the stages; what is no event is written to the dead letters."""
    schemas = {name: program.schemas[name] for name in program.inputs}
    spec = f"{input.type}={input.path}" if input.bound else input.path
    pieces = read([spec], schemas, format=input.format, rows=ROWS)
    yield from _packed(program, number, input.path, pieces, letters, f"read-{number:08}")


def received(
    program: Program, number: int, input: Input, parts: Iterable[Messages], letters: str | None, name: str
) -> Iterator[pa.RecordBatch]:
    """Messages likewise; `name`: of the file of their dead letters."""
    inbox = Inbox(input, {name: program.schemas[name] for name in program.inputs})
    yield from _packed(program, number, input.path, (inbox.batch(part, 0) for part in parts), letters, name)


def _packed(
    program: Program, number: int, source: str, pieces: Iterable[Batch], letters: str | None, name: str
) -> Iterator[pa.RecordBatch]:
    spare()
    dead: list[Letter] = []
    taken: Counter[str] = Counter()
    latest: int | None = None
    for piece in pieces:
        dead += [Letter(one.reason, one.code, one.file, one.line, one.text) for one in piece.dead]
        for event, table in piece.tables.items():
            last = table["end"].max()
            if isinstance(last, int):
                taken[event] += table.height
                latest = last if latest is None else max(last, latest)
        yield batch(from_outside(program, numbered(piece, number), number, source))
    write(letters, name, dead)
    report = Report(read=taken, dead=Counter(one.code for one in dead), latest=latest)
    yield batch([told(report, keys(1)[0])])


def calls(program: Program) -> pa.RecordBatch:
    """To the buckets that have something to do when no row has come yet."""
    return batch(calls_of(program))


def end() -> pa.RecordBatch:
    """The end of the input."""
    return batch([Parcel(-1, keys(1)[0], "", 0, None, b"", END)])


def numbered(piece: Batch, number: int) -> dict[str, pl.DataFrame]:
    """The tables of a batch, `@order` by the number of the file and the line."""
    tables = {}
    for event, table in piece.tables.items():
        assert len(piece.blocks) == 1, "what is read as it comes is a block at a time"
        block: Block = piece.blocks[0]
        place = table[ARRIVAL].to_numpy() - block.first
        lines = place + block.line if block.lines is None else block.lines[place]
        order = np.asarray(lines, np.int64) + (number << LINE_BITS)
        tables[event] = table.with_columns(pl.Series(ARRIVAL, order))
    return tables
