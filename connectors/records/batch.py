"""Batches of events. From each event, a batch leads back to the event's file and line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.schema import ARRIVAL, CHANGE
from cep.core.storage.files import StoredFile
from cep.core.storage.urls import is_url


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was not read as an event.

    - `file`, `line`: the position of the record; in Parquet, `line` is the row.
    - `reason`, `code`: the reason, as a sentence and as a code.
    - `text`: the text of the record, if known.
    - `event`: the event type, if known.
    - `of_file`: True if the letter is about a whole unreadable file, or the unreadable rest of one.
    """

    file: str | None
    line: int
    reason: str
    code: str
    text: str | None = None
    event: str | None = None
    of_file: bool = False


_CHANGES = f'"{CHANGE}"'.encode(), f"{CHANGE}=".encode()  # in JSON, and in line protocol
_CHANGE, _AT = CHANGE.encode(), CHANGE[:1].encode()


def says_change(text: bytes) -> bool:
    """Return True if a record in the text may have the field `@change`."""
    if _AT not in text or _CHANGE not in text:  # because searching a single byte is fast
        return False
    return any(word in text for word in _CHANGES)


@dataclass(frozen=True, slots=True)
class Block:
    """The origin of `count` consecutive records of a file, numbered from `first`.

    - `lines`: the line of each record; None if the records are on consecutive lines from `line` on.
    - `starts`: the position where each record starts, and where the last one ends, relative to `position`; None if the
      records have no text.
    - `data`: the bytes of the file from `position` on; None if they can be read again.
    - `times`: the form of the first record's times (`cep.connectors.records.times`); None if there are no records.
    - `rows`: for each record, the index of its text in `starts`; None if each record has its own text.
    - `plain`: True if the file stores these bytes unchanged, neither compressed nor in another encoding.
    - `said`: True if the text contained `@change`, and has been dropped since.
    - `unmatched`: the number of further records that match no event type of the program.
    - `first_unmatched`: the first unmatched record, if it is JSON.
    """

    file: str
    first: int
    count: int
    line: int
    lines: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    position: int = 0
    data: bytes | None = None
    times: str | None = None
    rows: NDArray[np.int64] | None = None
    plain: bool = True
    said: bool = False
    unmatched: int = 0
    first_unmatched: str | None = None

    @property
    def says_changes(self) -> bool:
        """Return True if the text of a record may contain `@change`."""
        return self.said or (self.data is not None and says_change(self.data))

    @property
    def holds_records(self) -> bool:
        return self.count > 0 or self.unmatched > 0

    def at(self, order: int) -> tuple[str, int, str | None]:
        """Return (file, line, text) of the record with this number."""
        return *self.place(order), self._text(order - self.first)

    def place(self, order: int) -> tuple[str, int]:
        """Return (file, line) of the record with this number."""
        assert 0 <= order - self.first < self.count, "a record is looked for in its own block"
        return self.file, self._line(order - self.first)

    @property
    def beyond(self) -> int:
        """The number of the first record of the next block."""
        return self.first + self.count

    @property
    def line_beyond(self) -> int:
        """The line after the last record."""
        return self._line(self.count - 1) + 1

    def without_data(self) -> Block:
        """Return the block without its bytes. Only the bytes of a `plain` file can be read again."""
        starts = self.starts if self.plain else None
        return replace(self, data=None, starts=starts, said=self.says_changes)

    def without_text(self) -> Block:
        """Return the block without its text."""
        return replace(self, data=None, starts=None).in_rows()

    def in_rows(self) -> Block:
        """Return the block without its list of line numbers if the lines are consecutive."""
        lines = self.lines
        if lines is None or not len(lines) or (np.diff(lines) != 1).any():
            return self
        return replace(self, line=int(lines[0]), lines=None)

    def joined(self, following: Block) -> Block | None:
        """Return one block for the records of this block and the next one.

        Return None if a block has text, or the records are not on consecutive lines.
        """
        plain = all(
            type(block) is Block and block.lines is None and block.starts is None for block in (self, following)
        )
        adjacent = (following.file, following.first, following.line) == (self.file, self.beyond, self.line_beyond)
        both = self.count + following.count, self.unmatched + following.unmatched
        return replace(self, count=both[0], unmatched=both[1]) if plain and adjacent else None

    def _line(self, place: int) -> int:
        return self.line + place if self.lines is None else int(self.lines[place])

    def _text(self, place: int) -> str | None:
        if self.starts is None:
            return None
        place = place if self.rows is None else int(self.rows[place])
        start, stop = int(self.starts[place]), int(self.starts[place + 1])
        if self.data is not None:
            raw = self.data[start:stop]
        else:
            with StoredFile(self.file) if is_url(self.file) else open(self.file, "rb") as file:
                file.seek(self.position + start)
                raw = file.read(stop - start)
        text = raw.decode("utf-8", "replace")
        while (last := text.rfind("\n")) >= 0 and not text[last:].strip(" \t\r\n"):  # drop blank lines
            text = text[:last]
        return text.rstrip("\r")


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that are processed together: a table per event type.

    A table has the Int64 columns `start` and `end` (microseconds) and `@order`, then the attributes.

    - `watermark`: a time in microseconds. No later batch of the input has events that end at or before it. None if
      unknown.
    - `silence`: the microseconds without any input; 0 if the batch has content.
    - `bytes_read`: the number of bytes that were read, of `total_bytes`; 0 if unknown.
    - `place`: the position in the input `source` after this batch, if the input has positions
      (`cep.connectors.brokers.messages`).
    - `remarks`: suspicious properties of an input, reported at its end.
    - `held`: fluent intervals that another program derived. Engines ignore them.
    - `together`: True if the rows have no order, so no row is late relative to another.
    - `handover`: the text of the last triples of a program that ends with this batch and passes its work to another
      program; else None. With it, `held` contains the intervals that begin now.
    - `beside`: tables of events that only a second program reads, such as a shadow.
    - `knowledge`: a change of the knowledge (`KnowledgeSource.change`) that takes effect before the batch's records.
    """

    tables: dict[str, pl.DataFrame]
    dead: list[DeadLetter]
    blocks: Sequence[Block]
    bytes_read: int = 0
    total_bytes: int = 0
    watermark: int | None = None
    silence: int = 0
    source: str = ""
    place: Mapping[int, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    held: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    together: bool = False
    handover: str | None = None
    beside: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    knowledge: bytes = b""
    _firsts: list[int] = field(default_factory=list)

    def origin(self, type: str, row: int) -> tuple[str, int, str | None]:
        """Return (file, line, text) of the record behind a table row.

        For Parquet, the line is the row number in the file, and the text is None.
        """
        block, order = self._block_of(type, row)
        return block.at(order)

    def place_of(self, type: str, row: int) -> tuple[str, int]:
        """Return (file, line) of the record behind a table row. Its text is not read."""
        block, order = self._block_of(type, row)
        return block.place(order)

    def _block_of(self, type: str, row: int) -> tuple[Block, int]:
        order = int(self.tables[type][ARRIVAL][row])
        if not self._firsts:
            self._firsts.extend(block.first for block in self.blocks)
        return self.blocks[bisect_right(self._firsts, order) - 1], order

    @property
    def times(self) -> str | None:
        """The form of the input's times (`cep.connectors.records.times`); None if no time was read."""
        return next((block.times for block in self.blocks if block.times), None)

    @property
    def unmatched(self) -> int:
        """The number of records that match no event type of the program."""
        return sum(block.unmatched for block in self.blocks)

    @property
    def whole(self) -> Mapping[str, pl.DataFrame]:
        """All tables, including the tables of `beside`."""
        return {**self.tables, **self.beside} if self.beside else self.tables

    @property
    def rows(self) -> int:
        return sum(table.height for table in self.whole.values())

    def read_by(self, events: Container[str]) -> Batch:
        """Return the batch for a program that reads only `events`. All other tables move to `beside`."""
        if all(name in events for name in self.tables):
            return self
        tables = {name: table for name, table in self.tables.items() if name in events}
        beside = {name: table for name, table in self.tables.items() if name not in events}
        return replace(self, tables=tables, beside={**self.beside, **beside})


def dead_record(block: Block, order: int, code: str, reason: str) -> DeadLetter:
    """Return a dead letter for the record with this number."""
    file, line, text = block.at(order)
    return DeadLetter(file, line, reason, code, text)


def too_long(
    file: str, line: int, first: int, position: int, head: bytes, length: int
) -> tuple[list[DeadLetter], Block]:
    """Return a dead letter for a line that is too long, and the block with this line. `head`: the beginning of the
    line."""
    block = Block(file, first, 1, line, None, np.array([0, len(head)]), position, head)
    return [dead_record(block, first, "long", f"the line has {length} bytes, which is too long for a record")], block
