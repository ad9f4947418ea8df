"""Files that other processes read in chunks of whole lines; results arrive in the order of the file.

A chunk ends where a block would end if one process read the file, so blocks, numbers and dead letters are the same. If
a chunk cannot be read separately (a quote is open at its end, or a line is longer than a chunk), one process reads the
rest.
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
"""The bytes in which the end of the last line is searched at a time."""


@dataclass(frozen=True, slots=True)
class FoundInChunk:
    """The contents of a chunk, with records and lines numbered from 0. `lines`: how many lines end in it."""

    tables: dict[str, pl.DataFrame]
    dead: list[DeadLetter]
    block: Block
    lines: int

    def placed(self, line: int, first: int) -> FoundInChunk:
        """Shift the numbers of rows and lines, which begin at 0 in the chunk, to those of the file."""
        tables = {
            name: table.with_columns(pl.col(ARRIVAL) + first) if first and table.height else table
            for name, table in self.tables.items()
        }
        lines = None if self.block.lines is None else self.block.lines + line
        block = replace(self.block, first=self.block.first + first, line=self.block.line + line, lines=lines)
        return FoundInChunk(tables, [replace(one, line=one.line + line) for one in self.dead], block, self.lines)


class ReadsChunks(Protocol):
    """Reads chunks of one file, in any process."""

    def chunk(self, file: str, data: bytes, position: int, final: bool) -> FoundInChunk | None:
        """Read the bytes from `position` on; `final`: the file ends there. None: they cannot be read separately."""


class ChunkReaders(Protocol):
    """Processes that read chunks. `ahead`: how many chunks may be requested before the first is taken; `least`: the
    bytes from which on a chunk pays; `cheap`: whether fields of CSV pay, which are fast to read, and whose rows must be
    carried over."""

    ahead: int
    least: int
    cheap: bool

    def begin(self, file: str, reader: ReadsChunks) -> int:
        """Return a number for a file."""

    def ask(self, source: int, position: int, size: int, final: bool) -> int:
        """Start to read a chunk of the file with this number, and return a number for the chunk."""

    def take(self, number: int) -> FoundInChunk | None:
        """Return the contents, or None if the chunk cannot be read separately."""

    def drop(self, number: int) -> None:
        """Give up a chunk that was requested."""

    def end(self, source: int) -> None:
        """Close a file: no more of its chunks are requested."""


@dataclass(slots=True)
class Place:
    """A position in a file: the next byte, line and record."""

    position: int
    line: int
    first: int


def readable_apart(readers: ChunkReaders | None, stream: ByteStream, chunk: int) -> bool:
    """Return True if it pays to let other processes read a file."""
    return readers is not None and chunk >= readers.least and stream.on_disk and (stream.size or 0) > chunk


def read_apart(
    readers: ChunkReaders, reader: ReadsChunks, file: str, stream: ByteStream, chunk: int, place: Place
) -> Generator[FoundInChunk]:
    """Yield the contents of a file's chunks from a place on, and move `place` and `stream` on.

    If it ends before the file does, one process has to read the rest.
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
            found = readers.take(number)
            if found is None:
                break
            found = found.placed(place.line, place.first)
            place.position += size
            place.line += found.lines
            place.first = found.block.beyond
            stream.go_to(place.position)
            yield found
    finally:
        for _, number in waiting:
            readers.drop(number)
        readers.end(source)
    stream.go_to(place.position)


def chunks(file: str, begin: int, chunk: int, size: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (position, length, rest) for each chunk of a file of a known size, from a position in its first chunk.

    `rest`: True for a last chunk whose last line has no end. Stop early at a line that is longer than a chunk.
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
    """Return the byte after the last line end between two bytes; 0 if there is none."""
    while begin < end:
        at = max(begin, end - _PIECE)
        found = os.pread(descriptor, end - at, at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
        end = at
    return 0
