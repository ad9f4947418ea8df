"""Batches of events. For each event, a batch can return the file and the line from which the event was read."""

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
    """A record from which no event could be read.

    - `file`, `line`: the position of the record. In Parquet, `line` is the row number.
    - `reason`, `code`: the reason, as a sentence and as a code.
    - `text`: the text of the record, or None if unknown.
    - `event`: the event type, or None if unknown.
    - `of_file`: True if a whole file is unreadable, or everything after a position in it.
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
    """The positions of `count` consecutive records in a file. The record numbers start at `first`.

    - `lines`: the line number of each record. It is None if the records are on consecutive lines from `line` on.
    - `starts`: the position where the text of each record starts, and the position where the last text ends, relative
      to `position`. It is None if the records have no text.
    - `data`: the bytes of the file from `position` on. It is None if the bytes can be read from the file again.
    - `times`: the form in which the first record writes its times (see `cep.connectors.records.times`). It is None if
      there are no records.
    - `rows`: the index in `starts` of each record's text. It is None if the texts are in the order of the records.
    - `plain`: True if the file stores these bytes unchanged, neither compressed nor in another encoding than UTF-8.
    - `said`: True if the bytes contained `@change` and are no longer stored in `data`.
    - `unmatched`: the number of additional records that match no event type of the program.
    - `first_unmatched`: the first of these additional records, if it is JSON.
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
        """True if the text of a record may contain `@change`."""
        return self.said or (self.data is not None and says_change(self.data))

    @property
    def holds_records(self) -> bool:
        return self.count > 0 or self.unmatched > 0

    def at(self, order: int) -> tuple[str, int, str | None]:
        """Return the file, the line and the text of the record with the number `order`."""
        return *self.place(order), self._text(order - self.first)

    def place(self, order: int) -> tuple[str, int]:
        """Return the file and the line of the record with the number `order`."""
        assert 0 <= order - self.first < self.count, "a record is looked for in its own block"
        return self.file, self._line(order - self.first)

    @property
    def beyond(self) -> int:
        """The number that follows the number of this block's last record."""
        return self.first + self.count

    @property
    def line_beyond(self) -> int:
        """The number of the line after the line of the last record."""
        return self._line(self.count - 1) + 1

    def without_data(self) -> Block:
        """Return a copy without `data`. The texts of records remain available only if the file is `plain`, because its
        bytes can then be read again."""
        starts = self.starts if self.plain else None
        return replace(self, data=None, starts=starts, said=self.says_changes)

    def without_text(self) -> Block:
        """Return a copy from which the texts of records are not available."""
        return replace(self, data=None, starts=None).in_rows()

    def in_rows(self) -> Block:
        """Return a copy without `lines` if the line numbers are consecutive. Otherwise, return the block unchanged."""
        lines = self.lines
        if lines is None or not len(lines) or (np.diff(lines) != 1).any():
            return self
        return replace(self, line=int(lines[0]), lines=None)

    def joined(self, following: Block) -> Block | None:
        """Return one block for the records of this block and the records of the block `following`.

        Return None if one of the blocks stores texts, or if the records are not on consecutive lines.
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
    """Events that are processed together, as one table per event type.

    A table has the Int64 columns `start` and `end` (microseconds), `@order` (the record number), and the attributes.

    - `watermark`: a time in microseconds. In later batches of the input, all events end after this time. It is None if
      it is unknown.
    - `silence`: how long no input has arrived, in microseconds. 0 if the batch has content.
    - `bytes_read`: how many of the input's `total_bytes` have been read. 0 if unknown.
    - `place`: the position in the input `source` after this batch, if the input has positions (see
      `cep.connectors.brokers.messages`).
    - `remarks`: descriptions of suspicious properties of the input, reported at its end.
    - `held`: fluent intervals that another program derived. Engines ignore them.
    - `together`: True if the rows have no order. Then no row can be late.
    - `handover`: the text of a program's last triples, if the program ends with this batch; otherwise None. Another
      program then continues its work, and `held` contains the intervals that begin now.
    - `beside`: tables of events that only a second program reads, such as a shadow.
    - `knowledge`: a change of the knowledge (see `KnowledgeSource.change`) that takes effect before the batch's
      records.
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
        """Return the file, the line and the text of the record from which a table row was read. `row`: the row's index.

        For Parquet, the line is the row number in the file, and the text is None.
        """
        block, order = self._block_of(type, row)
        return block.at(order)

    def place_of(self, type: str, row: int) -> tuple[str, int]:
        """Return the file and the line of the record from which a table row was read. `row`: the row's index.

        In contrast to `origin`, the text of the record is not read.
        """
        block, order = self._block_of(type, row)
        return block.place(order)

    def _block_of(self, type: str, row: int) -> tuple[Block, int]:
        order = int(self.tables[type][ARRIVAL][row])
        if not self._firsts:
            self._firsts.extend(block.first for block in self.blocks)
        return self.blocks[bisect_right(self._firsts, order) - 1], order

    @property
    def times(self) -> str | None:
        """The form in which the input writes times (see `cep.connectors.records.times`), or None without a time."""
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
        """Return a copy for a program that reads only `events`. The tables of other events are moved to `beside`."""
        if all(name in events for name in self.tables):
            return self
        tables = {name: table for name, table in self.tables.items() if name in events}
        beside = {name: table for name, table in self.tables.items() if name not in events}
        return replace(self, tables=tables, beside={**self.beside, **beside})


def dead_record(block: Block, order: int, code: str, reason: str) -> DeadLetter:
    """Return a dead letter for the record with the number `order` in a block."""
    file, line, text = block.at(order)
    return DeadLetter(file, line, reason, code, text)


def too_long(
    file: str, line: int, first: int, position: int, head: bytes, length: int
) -> tuple[list[DeadLetter], Block]:
    """Return a dead letter for a line that is too long, and a block whose only record is this line.

    `head`: the first bytes of the line. `length`: the length of the whole line in bytes.
    """
    block = Block(file, first, 1, line, None, np.array([0, len(head)]), position, head)
    return [dead_record(block, first, "long", f"the line has {length} bytes, which is too long for a record")], block
