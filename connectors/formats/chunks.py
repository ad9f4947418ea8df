"""Parallel reading of large files in chunks of whole lines. The records arrive in file order.

Each chunk ends where a block would end if a single process read the file. So the blocks, the record numbers and the
dead letters do not depend on the number of processes.

A chunk cannot be read on its own if a quote is open at its end, or if a line is longer than the chunk. One process then
reads this chunk and the rest of the file.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from cep.connectors.formats.streams import ByteStream
from cep.connectors.records.batch import Block, DeadLetter
from cep.core.schema import ARRIVAL

_PIECE = 1 << 16
"""The number of bytes per step of the backward search for the last line end."""


@dataclass(frozen=True, slots=True)
class FoundInChunk:
    """The records of one chunk. Record and line numbers start at 0 in each chunk. `lines`: the number of line ends."""

    tables: dict[str, pl.DataFrame]
    dead: list[DeadLetter]
    block: Block
    lines: int

    def placed(self, line: int, first: int) -> FoundInChunk:
        """Return a copy in which record numbers and line numbers count from the start of the file.

        `line`: the line number of the chunk's first line. `first`: the record number of the chunk's first record.
        """
        tables = {
            name: table.with_columns(pl.col(ARRIVAL) + first) if first and table.height else table
            for name, table in self.tables.items()
        }
        lines = None if self.block.lines is None else self.block.lines + line
        block = replace(self.block, first=self.block.first + first, line=self.block.line + line, lines=lines)
        return FoundInChunk(tables, [replace(row, line=row.line + line) for row in self.dead], block, self.lines)


class ReadsChunks(Protocol):
    """A reader of the chunks of one file. It can be sent to another process."""

    def chunk(self, file: str, data: bytes, position: int, final: bool) -> FoundInChunk | None:
        """Read the chunk `data` at byte `position` of the file. Return None if it cannot be read on its own.

        `final`: True if the file ends with this chunk.
        """


class ChunkReaders(Protocol):
    """A pool of processes that read chunks.

    - `ahead`: the number of chunks to request before the caller waits for the first one.
    - `least`: the minimum size of a chunk in bytes. For smaller chunks, reading in the same process is faster.
    - `cheap`: True if the pool also reads CSV files. Parallel reading of CSV is rarely faster, because the rows
      have to be copied between processes.
    """

    ahead: int
    least: int
    cheap: bool

    def begin(self, file: str, reader: ReadsChunks) -> int:
        """Register a file with its reader. Return a number that identifies the file."""

    def ask(self, source: int, position: int, size: int, final: bool) -> int:
        """Request a chunk of a registered file, and return the number of the request."""

    def take(self, number: int) -> FoundInChunk | None:
        """Wait for a requested chunk. Return its contents, or None if it cannot be read on its own."""

    def drop(self, number: int) -> None:
        """Cancel a requested chunk."""

    def end(self, source: int) -> None:
        """Unregister a file. No more of its chunks may be requested."""


@dataclass(slots=True)
class Place:
    """A position in a file: the number of the next byte, of the next line, and of the next record."""

    position: int
    line: int
    first: int


def readable_apart(readers: ChunkReaders | None, stream: ByteStream, chunk: int) -> bool:
    """Return True if other processes can read the file, and the file is large enough to make this faster."""
    return readers is not None and chunk >= readers.least and stream.on_disk and (stream.size or 0) > chunk


def read_apart(
    readers: ChunkReaders, reader: ReadsChunks, file: str, stream: ByteStream, chunk: int, place: Place
) -> Generator[FoundInChunk]:
    """Yield the records of each chunk of the file, starting at `place`.

    `place` and `stream` are moved to the end of each chunk that was read. The generator stops before a chunk that
    cannot be read on its own. The caller then has to read the rest of the file.
    """
    source = readers.begin(file, reader)
    pieces = chunks(file, place.position, chunk, stream.size or 0)
    waiting: deque[tuple[int, int]] = deque()
    try:
        while True:
            while len(waiting) < readers.ahead and (piece := next(pieces, None)) is not None:
                waiting.append((piece[1], readers.ask(source, *piece)))
            if not waiting:
                break
            size, number = waiting.popleft()
            chunk_rows = readers.take(number)
            if chunk_rows is None:
                break
            chunk_rows = chunk_rows.placed(place.line, place.first)
            place.position += size
            place.line += chunk_rows.lines
            place.first = chunk_rows.block.beyond
            stream.go_to(place.position)
            yield chunk_rows
    finally:
        for _, number in waiting:
            readers.drop(number)
        readers.end(source)
    stream.go_to(place.position)


def chunks(file: str, begin: int, chunk: int, size: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (position, length, rest) for each chunk of the file, whose size is `size` bytes.

    The first chunk starts at byte `begin`, which is less than `chunk`. `rest` is True for a last chunk whose last line
    has no line end. The generator stops early before a line that is longer than `chunk` bytes.
    """
    with open(file, "rb", buffering=0) as opened:
        descriptor = opened.fileno()
        position, limit = begin, chunk
        while position < size:
            end = min(limit, size)
            cut = _beyond_last_line(descriptor, position, end)
            if cut:
                yield position, cut - position, False
                position, limit = cut, cut + chunk
            elif end < size:
                return
            if end == size:
                if position < size:
                    yield position, size - position, True
                return


def _beyond_last_line(descriptor: int, begin: int, end: int) -> int:
    """Return the position after the last line end between the bytes `begin` and `end`, or 0 if there is none."""
    while begin < end:
        begin_of_piece = max(begin, end - _PIECE)
        newline = os.pread(descriptor, end - begin_of_piece, begin_of_piece).rfind(b"\n")
        if newline >= 0:
            return begin_of_piece + newline + 1
        end = begin_of_piece
    return 0
