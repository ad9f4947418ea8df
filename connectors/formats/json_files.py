"""JSON files that contain a list of records, or records that span several lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.chunks import ChunkReaders
from cep.connectors.formats.jsonl import ReadsLines, read_jsonl
from cep.connectors.formats.record_scan import BETWEEN, LIST, a_line_each
from cep.connectors.formats.streams import BOM, LONGEST, ByteStream, more_bytes
from cep.connectors.records.batch import Block, DeadLetter, too_long

LOOKED_AT = 1 << 20
"""The number of bytes that are examined to find the end of the first record. If the record is longer, the file is read
as one whose records span several lines."""
_BLANK = b" \t\r\n"

_Parts = Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None]]


def in_lines(head: bytes, whole: bool) -> bool | None:
    """Return True if a file that begins with `head` has one record per line.

    Return False if the file begins with a list of objects, or with an object that spans several lines. Return None if
    more bytes are needed to decide. `whole`: True if `head` is the whole file.
    """
    text = head.removeprefix(BOM).lstrip(_BLANK)
    if text.startswith(b"["):
        rest = text[1:].lstrip(_BLANK)
        return None if not rest and not whole else rest[:1] not in (b"{", b"]")
    if not text.startswith(b"{"):
        return None if not text and not whole else True
    line, end, _ = text.partition(b"\n")
    if not end and not whole:
        return None
    if _ending(line) is not None:
        return True
    ending = _ending(text if whole else text[: text.rfind(b"\n") + 1])
    if ending == -1:
        return True
    if ending is None and not whole:
        return None if len(text) < LOOKED_AT else False
    return ending is None


def _ending(text: bytes) -> int | None:
    """Return the position after the object at the beginning of a text.

    Return -1 if the text is not valid JSON. Return None if the text ends inside the object.
    """
    plain = text.decode("utf-8", "replace")
    try:
        return json.JSONDecoder().raw_decode(plain)[1]
    except json.JSONDecodeError as error:
        return None if error.pos >= len(plain.rstrip()) else -1
    except (ValueError, RecursionError):
        return -1


def read_json(
    file: str,
    stream: ByteStream,
    reader: ReadsLines,
    chunk: int,
    first: int,
    readers: ChunkReaders | None = None,
) -> _Parts:
    """Yield, for each block, the table of each event type, the dead letters, and the positions of the records.

    While the stream is silent, yield `({}, [], None)`.
    """
    head = b""
    while True:
        while stream.silent():
            yield {}, [], None
        data = stream.read(chunk)
        head += data
        plain = in_lines(head, not data)
        if plain is not None:
            break
    stream.unread(head)
    if plain:
        yield from read_jsonl(file, stream, reader, chunk, first, readers)
        return
    line = 1
    for part in split(stream, chunk):
        if part is None:
            yield {}, [], None
        elif part.length:
            dead, block = too_long(file, line, first, part.position, part.data, part.length)
            yield {}, dead, block
            return
        else:
            if len(part.first):
                tables, dead, block = reader.read(file, part.data, part.position, 0, first)
                dead, block = part.placed(dead, block, line)
                yield tables, dead, block
                first = block.beyond
            line += part.breaks
            if part.open:
                reason = "the file begins with a list that is not closed: a `]` is missing at the end"
                block = Block(file, first, 1, line, None, np.array([0, 0]), part.position, b"")
                yield {}, [DeadLetter(file, line, reason, "json", of_file=True)], block


@dataclass(frozen=True, slots=True)
class Part:
    """Several whole records of a file.

    - `data`: the bytes of these records, rewritten so that each record is on a line of its own.
    - `position`: the position of the first of these bytes in the file.
    - `first`, `beyond`: for each record, the positions of its beginning and its end.
    - `ends`: the positions of the line ends in this part of the file.
    - `open`: True if the file ends inside a list.
    - `length`: 0, or the length of a record that is too long. Then `data` contains only the beginning of this
      record.
    """

    data: bytes
    position: int
    first: NDArray[np.int64]
    beyond: NDArray[np.int64]
    ends: NDArray[np.int64]
    open: bool = False
    length: int = 0

    @property
    def breaks(self) -> int:
        """The number of line ends in this part of the file."""
        return len(self.ends)

    def placed(self, dead: list[DeadLetter], block: Block, line: int) -> tuple[list[DeadLetter], Block]:
        """Return copies of dead letters and of a block that refer to the lines and positions of the file.

        In the arguments, each line number is the index of a record in this part. `line`: the line number in the file at
        which this part begins.
        """
        line_numbers = line + np.searchsorted(self.ends, self.first)
        index = np.arange(block.count) if block.lines is None else block.lines
        spans = np.stack([self.first, self.beyond], axis=1).reshape(-1)
        new_block = replace(block, line=line, lines=line_numbers[index], starts=spans, rows=2 * index)
        return [replace(record, line=int(line_numbers[record.line])) for record in dead], new_block


def split(stream: ByteStream, chunk: int) -> Iterator[Part | None]:
    """Split a file into parts of whole records, which follow one another or are the elements of a list.

    While the stream is silent, yield None.
    """
    rest, position, place = b"", 0, BETWEEN
    begun = False
    while True:
        while stream.silent():
            yield None
        data = stream.read(more_bytes(chunk, len(rest)))
        final = not data
        block = rest + data
        if not begun and block.startswith(BOM):
            block, position = block[len(BOM) :], len(BOM)
        begun = True
        line_bytes, first, beyond, used, place = a_line_each(
            np.frombuffer(block, np.uint8), place, final, len(block) // 2 + 2
        )
        if final and stream.damage is not None and len(beyond) and beyond[-1] == len(block):
            first, beyond = first[:-1], beyond[:-1]  # it may be incomplete
        ends = np.flatnonzero(np.frombuffer(block[:used], np.uint8) == 10)
        cut = final and place == LIST and stream.damage is None
        records = line_bytes[: beyond[-1] + 1].tobytes() if len(beyond) else b""
        yield Part(records, position, first, beyond, ends, cut)
        rest, position = block[used:], position + used
        if final:
            return
        if len(rest) > LONGEST:
            length = len(rest)
            while more := stream.read(chunk):
                length += len(more)
            none = np.zeros(0, np.int64)
            yield Part(rest[:1000], position, none, none, none, False, length)
            return
