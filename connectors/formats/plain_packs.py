"""A fast converter of documents that contain many records. It rewrites all records as lines of JSON at once.

It supports only documents in usual forms, which are called plain. All other documents must be converted by
`cep.connectors.formats.packs`, which produces the same lines from a plain document, but more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cep.connectors.formats.json_scan import UNTYPED, gather, scan
from cep.connectors.formats.pack_scan import flat, members, records, write
from cep.connectors.formats.streams import MOST
from cep.connectors.records.keynames import Names, name_table
from cep.connectors.records.numbers import ABSENT, ESCAPED, STRING

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Spans = tuple[Ints, Ints, Bools]
"""One value of each record: its position in the buffer, its length, and True if it is a quoted text. The length is -1
if the record lacks the value."""

LARGE = 1 << 16
"""The minimum size in bytes of a text to convert here. `cep.connectors.formats.packs` is faster for smaller texts."""

_NO_KEYS = ["\0", "\1"]  # in place of the keys `type` and `args`


@dataclass(frozen=True, slots=True)
class PlainRecords:
    """Records in a buffer. A span is a part of the text that contains one or more documents.

    - `first`, `beyond`: for each record, the positions of its beginning and its end.
    - `of`: for each record, the number of its span.
    - `head`: for each record, the number of the first record in the same document.
    - `offset`, `length`, `kind`: the cells, as matrices with one row per label and one column per record.
    - `good`: for each record, True if no member appears twice.
    - `known`: for each record, True if `labels` contains all its members.
    - `empty`: for each record, True if it has no members.
    - `spans`: the number of spans.
    """

    buffer: NDArray[np.uint8]
    first: Ints
    beyond: Ints
    of: Ints
    head: Ints
    spans: int
    labels: tuple[str, ...]
    offset: Ints
    length: Ints
    kind: NDArray[np.uint8]
    good: Bools
    known: Bools
    empty: Bools

    def there(self, label: str, *kinds: int) -> Bools:
        """Return a mask of the records that have the member `label`. If `kinds` are passed, the member's value must
        have one of these kinds."""
        kinds_by_row = self.kind[self.labels.index(label)]
        return np.isin(kinds_by_row, kinds) if kinds else kinds_by_row != ABSENT

    def cell(self, label: str) -> tuple[Ints, Ints]:
        """Return the position and the length of the member `label` in each record. The length is 0 if it is missing."""
        place = self.labels.index(label)
        return self.offset[place], np.where(self.kind[place] != ABSENT, self.length[place], 0)

    def span(self, label: str) -> Spans:
        """Return the spans of the value of the member `label` in each record, as it is written in the text."""
        first, length = self.cell(label)
        return first, np.where(self.there(label), length, -1), self.there(label, STRING, ESCAPED)


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines that a format generates from records.

    - `buffer`: the bytes from which all values are copied.
    - `columns`: for each value of a line, the constant text before the value, and the spans of the value in
      `buffer`.
    - `written`: a mask of the records that have a line.
    - `odd`: a mask of the records that must be converted one by one.
    - `refused`: a mask of the spans of text that `cep.connectors.formats.packs` must convert.
    """

    buffer: NDArray[np.uint8]
    columns: Sequence[tuple[str, Spans]]
    written: Bools
    odd: Bools
    refused: Bools


class MakesLines(Protocol):
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def pages(self) -> str | None: ...
    def made(self, records: PlainRecords) -> Lines: ...


@dataclass(frozen=True, slots=True)
class PlainDocuments:
    """The documents of a text, and the lines that the fast converter has generated from them.

    - `plain`: for each document, True if the fast converter supports it.
    - `bounds`: document `i` has the lines from `bounds[i]` up to, but not including, `bounds[i + 1]`.
    - `lines`: the generated lines. If a line is None, the caller must generate it from the text of its record.
    - `first`, `beyond`: for each line, the positions of its record's beginning and end, in characters.
    """

    plain: list[bool]
    bounds: list[int]
    lines: list[str | None]
    first: list[int]
    beyond: list[int]


def plain_documents(
    format: MakesLines, data: bytes, characters: int, starts: Ints, stops: Ints, alone: bool
) -> PlainDocuments | None:
    """Convert those documents in a UTF-8 text that the fast converter supports.

    Return None if the text is too short or too long, or if a line ends inside a string.

    `characters`: the length of the text in characters. `starts`, `stops`: the positions where each span of the text
    begins and ends. `alone`: True if each span contains a single document, False if it may contain several documents.
    """
    if not LARGE <= len(data) <= MOST:
        return None
    buffer = np.frombuffer(data, np.uint8)
    if not alone:
        buffer, closed = flat(buffer)
        if not closed:
            return None
    pages = np.frombuffer((format.pages or "").encode(), np.uint8)
    plain, first, beyond, of, head = records(buffer, starts, stops, pages, alone, len(data) // 2 + 2)
    cells = _cells(buffer, first, beyond, of, head, len(starts), format.labels)
    lines = format.made(cells)
    plain &= ~lines.refused
    line_rows = np.flatnonzero((lines.written | lines.odd) & plain[of])
    names, ends, _ = name_table([name for name, _ in lines.columns])
    begins, length, quoted = (np.array([spans[part][line_rows] for _, spans in lines.columns]) for part in range(3))
    texts: list[str | None] = [*write(lines.buffer, names, ends, begins, length, quoted).tobytes().decode().split("\n")]
    texts.pop()
    for row in np.flatnonzero(lines.odd[line_rows]).tolist():
        texts[row] = None
    spans = first[line_rows], beyond[line_rows]
    if characters != len(data):  # positions in the text
        before = np.concatenate([[0], np.cumsum((buffer & 0xC0) != 0x80)])
        spans = before[spans[0]], before[spans[1]]
    bounds = np.searchsorted(of[line_rows], np.arange(len(starts) + 1))
    return PlainDocuments(plain.tolist(), bounds.tolist(), texts, spans[0].tolist(), spans[1].tolist())


def _cells(
    buffer: NDArray[np.uint8], first: Ints, beyond: Ints, of: Ints, head: Ints, spans: int, labels: tuple[str, ...]
) -> PlainRecords:
    keys = [*_NO_KEYS, *labels]
    names: Names = name_table(keys)
    rows, none = np.arange(len(first)), np.full(len(keys), -1, np.int64)
    room = int((beyond - first).sum()) // 2 + len(first) + 1
    types, positional, begin, entries = scan(buffer, first, beyond, *names, none, room)
    cells = np.array([-1, -1, *range(len(labels))])
    sizes = 0, len(labels), len(labels), len(keys)
    offset, length, kind, good = gather(rows, positional, begin, entries, cells, none[2:], *sizes, False)
    good &= (types == UNTYPED) & ~positional
    counts = members(buffer, first, beyond)
    wide = offset.astype(np.int64), length.astype(np.int64)
    return PlainRecords(
        buffer, first, beyond, of, head, spans, labels, *wide, kind, good, np.diff(begin) == counts, counts == 0
    )
