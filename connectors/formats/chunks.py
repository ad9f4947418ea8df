"""Parallel reading of large files in chunks of whole lines; results arrive in the order of the file.

A chunk ends where a block would end if one process read the file. So blocks, record numbers and dead letters do not
depend on which process reads. If a chunk cannot be read on its own (a quote is open at its end, or a line is longer
than a chunk), one process reads the rest of the file.
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
"""Bytes per step of the backward search for the last line end."""


@dataclass(frozen=True, slots=True)
class FoundInChunk:
    """The contents of a chunk. Its records and lines are numbered from 0. `lines`: the number of its line ends."""

    tables: dict[str, pl.DataFrame]
    dead: list[DeadLetter]
    block: Block
    lines: int

    def placed(self, line: int, first: int) -> FoundInChunk:
        """Return the contents renumbered for the file: lines start at `line`, and records at `first`."""
        tables = {
            name: table.with_columns(pl.col(ARRIVAL) + first) if first and table.height else table
            for name, table in self.tables.items()
        }
        lines = None if self.block.lines is None else self.block.lines + line
        block = replace(self.block, first=self.block.first + first, line=self.block.line + line, lines=lines)
        return FoundInChunk(tables, [replace(row, line=row.line + line) for row in self.dead], block, self.lines)


class ReadsChunks(Protocol):
    """A reader of chunks of one file; it works in any process."""

    def chunk(self, file: str, data: bytes, position: int, final: bool) -> FoundInChunk | None:
        """Read the chunk `data`, which starts at byte `position`. `final`: the file ends with it. Return None if the
        chunk cannot be read on its own."""


class ChunkReaders(Protocol):
    """A pool of processes that read chunks.

    `ahead`: the number of chunks to request before the first result is taken. `least`: the smallest chunk, in bytes,
    that is worth sending to another process. `cheap`: True if CSV is worth sending too. CSV is fast to read, and its
    rows have to be copied back.
    """

    ahead: int
    least: int
    cheap: bool

    def begin(self, file: str, reader: ReadsChunks) -> int:
        """Register a file, and return its number."""

    def ask(self, source: int, position: int, size: int, final: bool) -> int:
        """Request a chunk of a registered file, and return the number of the request."""

    def take(self, number: int) -> FoundInChunk | None:
        """Wait for a requested chunk. Return its contents, or None if it cannot be read on its own."""

    def drop(self, number: int) -> None:
        """Cancel a requested chunk."""

    def end(self, source: int) -> None:
        """Unregister a file, after the last request for its chunks."""


@dataclass(slots=True)
class Place:
    """A position in a file: the next byte, line and record."""

    position: int
    line: int
    first: int


def readable_apart(readers: ChunkReaders | None, stream: ByteStream, chunk: int) -> bool:
    """Return True if it pays to let other processes read the file."""
    return readers is not None and chunk >= readers.least and stream.on_disk and (stream.size or 0) > chunk


def read_apart(
    readers: ChunkReaders, reader: ReadsChunks, file: str, stream: ByteStream, chunk: int, place: Place
) -> Generator[FoundInChunk]:
    """Yield the contents of the file's chunks from `place` on, and advance `place` and `stream`.

    If the generator ends before the file does, the caller has to read the rest itself.
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
    """Yield (position, length, rest) for each chunk of a file of `size` bytes. Reading starts at byte `begin`, which
    lies within the first `chunk` bytes.

    `rest` is True for a last chunk whose last line has no line end. The generator stops early before a line that is
    longer than a chunk.
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
    """Return the position after the last line end in bytes `begin` to `end`; 0 if there is none."""
    while begin < end:
        begin_of_piece = max(begin, end - _PIECE)
        newline = os.pread(descriptor, end - begin_of_piece, begin_of_piece).rfind(b"\n")
        if newline >= 0:
            return begin_of_piece + newline + 1
        end = begin_of_piece
    return 0
