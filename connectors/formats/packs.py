"""Readers of JSON documents that contain many records: packs of SenML, and pages of SensorThings.

Each record is first rewritten as a line of JSON. This line includes the values that the document defines for all its
records. The reader of JSON Lines then reads the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats import senml, sensorthings
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.formats.plain_packs import Ints, MakesLines, PlainDocuments, plain_documents
from cep.connectors.formats.streams import ByteStream, line_ends, whole_lines
from cep.connectors.records.batch import Block, DeadLetter
from cep.connectors.records.records import decode, decoder
from cep.connectors.records.values import Real, Unreadable, kind
from cep.core.errors import CepError
from cep.core.schema import Schema

FORMATS = ("senml", "sensorthings")
ROWS = 1 << 17
"""The maximum number of rows that are converted at once."""
LONGEST = 1 << 31
"""The maximum size of a document in bytes."""

_QUOTED = 1000  # characters of a document to quote in a dead letter
_LOOKED_AT = 20  # lines
_NO_LINE = "!"  # in place of a refused record
_Scan = Callable[[str, int], tuple[Any, int]]
_scan: _Scan = decoder.scan_once  # type: ignore[attr-defined]
"""A function that parses the JSON value at a position, and returns the value and its end."""
_plain: _Scan = json.JSONDecoder(parse_float=Real).scan_once  # type: ignore[attr-defined]
"""A variant of `_scan` that accepts duplicate keys (the last value is kept) and non-finite numbers.

The reader of JSON Lines reports duplicate keys and non-finite numbers later.
"""
_space = re.compile(r"[ \t\n\r]*").match
_Parts: TypeAlias = "Iterator[tuple[pl.DataFrame | None, list[DeadLetter], Block | None]]"


class Resolver(MakesLines, Protocol):
    """The part of a `PackReader` that depends on the format.

    `schema`: the schema of the generated lines. `pages`: the key of a document whose value is its list of records, or
    None if the document itself is a list.
    """

    @property
    def schema(self) -> Schema: ...

    def lines(self, elements: Sequence[Any], text: Callable[[int], str]) -> list[str | Unreadable | None]:
        """Convert elements of a document to lines of JSON.

        If an element cannot be converted, the result contains the reason instead of a line. If an element is not a
        record, the result contains None. `text`: a function that maps the index of an element to its source text. Raise
        Unreadable if one element makes the whole document invalid.
        """


@dataclass(slots=True)
class DocumentLines:
    """JSON lines that were generated from documents.

    - `lines`: the generated lines.
    - `document`: for each line, the number of its document.
    - `first`, `beyond`: for each line, the positions of its record's beginning and end in the text, in characters.
    - `refused`: the reason for each record that could not be converted, by its index in `lines`. The line with this
      index is only a placeholder.
    """

    lines: list[str] = field(default_factory=list)
    document: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)
    refused: dict[int, Unreadable] = field(default_factory=dict)

    def add(self, line: str | Unreadable, document: int, first: int, beyond: int) -> None:
        if isinstance(line, Unreadable):
            self.refused[len(self.lines)] = line.kept()
            line = _NO_LINE
        self.lines.append(line)
        self.document.append(document)
        self.first.append(first)
        self.beyond.append(beyond)

    def text(self, row: int, document: str) -> str:
        """Return the source text of the record behind a line. `document`: the text that contains the record."""
        record = document[self.first[row] : self.beyond[row]]
        return record.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class PackReader:
    """A reader of documents that contain records of one event type."""

    def __init__(self, schema: Schema, format: str) -> None:
        """Raise CepError if the event type is not declared, or reads a field that the format does not define."""
        if not schema.declared:
            message = f"{schema.name} is not declared, so it is not known which fields of {format} are its values"
            example = "sensor: string FROM n, value: float FROM v"
            if format == "sensorthings":
                example = "result: float, sensor: string? FROM Datastream.name"
            hint = f"e.g. `event {schema.name}({example}) FORMAT {format}.`"
            raise CepError(message, hint=hint, code="input")
        self.schema = schema
        self._resolver: Resolver = senml.Packs(schema) if format == "senml" else sensorthings.Pages(schema)
        self._lines = LineReader({schema.name: self._resolver.schema}, schema.name, True)

    def document(self, text: str, offset: int, number: int, rows: DocumentLines, last: bool = True) -> int:
        """Add the records of the document at position `offset` of a text to `rows`. Return the document's end.

        `number`: the number of the document. `last`: True if it is an error when text follows the document.
        """
        try:
            values, spans, end = elements(text, offset, self._resolver.pages)
            if last and (rest := _past_blanks(text, end)) < len(text):
                raise Unreadable("json", f"bad JSON at character {rest - offset + 1}: extra data")
            texts: dict[int, str] = {}
            if self._resolver.pages is not None:
                values, spans, texts = _unpacked(values, spans)
            lines = self._resolver.lines(values, lambda place: texts.get(place) or text[slice(*spans[place])])
        except Unreadable as reason:
            rows.add(reason, number, offset, min(len(text), offset + _QUOTED))
            return len(text)
        for line, span in zip(lines, spans):
            if line is not None:
                rows.add(line, number, *span)
        return end

    def plain(self, data: bytes, text: str, starts: Ints, stops: Ints, alone: bool) -> PlainDocuments | None:
        """Convert those documents in a text that the fast converter supports. Return None if the text is not valid
        UTF-8, or if `plain_documents` returns None."""
        try:
            decode(data)
        except Unreadable:
            return None
        return plain_documents(self._resolver, data, len(text), starts, stops, alone)

    def add_plain(self, documents: PlainDocuments, text: str, number: int, rows: DocumentLines) -> None:
        """Add to `rows` the records of one document that the fast converter has converted. `number`: the index of the
        document in `documents`."""
        some = slice(documents.bounds[number], documents.bounds[number + 1])
        lines = documents.lines[some]
        for place, (line, first, beyond) in enumerate(zip(lines, documents.first[some], documents.beyond[some])):
            if line is None:
                own = text[first:beyond]
                (written,) = self._resolver.lines([_plain(own, 0)[0]], [own].__getitem__)
                if isinstance(written, Unreadable):
                    rows.refused[len(rows.lines) + place] = written
                lines[place] = written if isinstance(written, str) else _NO_LINE
        rows.lines += cast(list[str], lines)
        rows.document += [number] * len(lines)
        rows.first += documents.first[some]
        rows.beyond += documents.beyond[some]

    def message(self, payload: bytes, number: int, rows: DocumentLines) -> None:
        """Add the records of a message to `rows`. The message is a single document."""
        try:
            text = decode(payload)
        except Unreadable as reason:
            rows.add(reason, number, 0, len(payload))
        else:
            self.document(text, _past_blanks(text, 0), number, rows)

    def tables(
        self, rows: DocumentLines, first: int, beside: Mapping[str, Sequence[str | None]] | None = None
    ) -> tuple[pl.DataFrame | None, list[DeadLetter], NDArray[np.int64], str | None, int]:
        """Convert the generated lines to occurrences. Their record numbers start at `first`.

        Return:

        - the table of occurrences, or None if there are none;
        - the dead letters, whose line number is an index in `rows.lines`;
        - for each record, the index of its line in `rows.lines`;
        - the time format (see `Block.times`);
        - the number of lines that match no event type.

        `beside`: values from the messages that contain the records. Each source, such as `key`, is mapped to one
        value per line.
        """
        data = "\n".join([*rows.lines, ""]).encode("ascii" if all(map(str.isascii, rows.lines)) else "utf-8")
        tables, dead, block = self._lines.read("", data, 0, 0, first, beside)
        index = np.arange(block.count) if block.lines is None else block.lines
        for place, letter in enumerate(dead):
            if (reason := rows.refused.get(letter.line)) is not None:
                dead[place] = replace(letter, code=reason.code, reason=reason.reason)
        return tables.get(self.schema.name), dead, index, block.times, block.unmatched

    def batch(
        self, file: str, text: str, data: bytes, position: int, line: int, rows: DocumentLines, first: int
    ) -> tuple[pl.DataFrame | None, list[DeadLetter], Block]:
        """Convert the lines that were generated from `text` to occurrences. Return the table of occurrences, the dead
        letters, and the positions of the records.

        `data`: the bytes of `text`. They begin at byte `position` of the file, in line number `line`.
        """
        table, dead, index, times, unmatched = self.tables(rows, first)
        spans = np.stack([_bytes(text, data, rows.first), _bytes(text, data, rows.beyond)], axis=1)
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        lines = line + np.searchsorted(breaks, spans[:, 0])
        block = Block(file, first, len(index), line, lines[index], spans.reshape(-1), position, data, times, 2 * index)
        block = replace(block, unmatched=unmatched)
        letters = []
        for letter in dead:
            record = data[slice(*spans[letter.line].tolist())].decode("utf-8", "replace")
            letters.append(replace(letter, file=file, line=int(lines[letter.line]), text=record))
        return table, letters, block


def read_packs(file: str, stream: ByteStream, packs: PackReader, chunk: int, first: int) -> _Parts:
    """Yield, for each block, the table of occurrences, the dead letters, and the positions of the records.

    While the stream is silent, yield `(None, [], None)`. If the first block does not have one document per line, a
    document may span any number of lines. In this case, the whole stream is read before the first table is yielded.
    """
    line = 1
    blocks = whole_lines(stream, chunk, LONGEST)
    for data, position, _ in blocks:
        if not data:
            yield None, [], None
            continue
        if line == 1 and not _a_line_each(data):
            data = b"".join([data, *(more for more, _, _ in blocks)])
            yield from _whole(file, data, position, packs, first)
            return
        text, rows = _decoded(data), DocumentLines()
        plain = packs.plain(data, text, *line_ends(data), True)
        offset = 0
        for number, document in enumerate(text.split("\n")):
            if plain is not None and number < len(plain.plain) and plain.plain[number]:
                packs.add_plain(plain, text, number, rows)
            elif document.strip(" \t\r"):
                _line(packs, document, offset, number, rows)
            offset += len(document) + 1
        if rows.lines:
            yield (read := packs.batch(file, text, data, position, line, rows, first))
            first = read[2].beyond
        line += data.count(b"\n")


def documents(text: str, pages: str | None) -> Iterator[list[Any] | None]:
    """Yield the elements of each document in a text, as a list.

    Yield None for a document that is not valid JSON, and continue on the next line.
    """
    place = _past_blanks(text, 0)
    while place < len(text):
        try:
            values, spans, end = elements(text, place, pages)
            yield values if pages is None else _unpacked(values, spans)[0]
        except Unreadable:
            yield None
            end = text.find("\n", place) % (len(text) + 1)
        place = _past_blanks(text, end)


def _line(packs: PackReader, text: str, offset: int, number: int, rows: DocumentLines) -> None:
    before = len(rows.lines)
    try:
        decode(text.encode("utf-8", "surrogateescape"))
    except Unreadable as reason:
        rows.add(reason, number, 0, len(text))
    else:
        packs.document(text, _past_blanks(text, 0), number, rows)
    if offset:
        rows.first[before:] = [place + offset for place in rows.first[before:]]
        rows.beyond[before:] = [place + offset for place in rows.beyond[before:]]


def _whole(file: str, data: bytes, position: int, packs: PackReader, first: int) -> _Parts:
    """Read a whole file. It contains one document after another, and a document may span several lines."""
    text, rows = _decoded(data), DocumentLines()
    place, number = _past_blanks(text, 0), 0
    try:
        decode(data)
    except Unreadable as reason:
        rows.add(reason, 0, place, min(len(text), place + _QUOTED))
        place = len(text)
    plain = packs.plain(data, text, np.array([0]), np.array([len(data)]), False)
    if plain is not None and plain.plain[0]:
        packs.add_plain(plain, text, 0, rows)
        place = len(text)
    while place < len(text):
        place = _past_blanks(text, packs.document(text, place, number, rows, last=False))
        number += 1
    for begin in range(0, len(rows.lines), ROWS):
        some = slice(begin, begin + ROWS)
        refused = {row - begin: why for row, why in rows.refused.items() if begin <= row < begin + ROWS}
        part = DocumentLines(rows.lines[some], rows.document[some], rows.first[some], rows.beyond[some], refused)
        yield (read := packs.batch(file, text, data, position, 1, part, first))
        first = read[2].beyond


def _a_line_each(data: bytes) -> bool:
    """Return True if the data probably has one document per line. The result is True if the first line is a document,
    or if more than half of the first lines are documents."""
    lines = [line for line in data.split(b"\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    alone = [_is_document(line) for line in lines]
    return alone[:1] == [True] or 2 * sum(alone) > len(alone)


def _is_document(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), list | dict)
    except (ValueError, RecursionError):
        return False


def elements(text: str, offset: int, pages: str | None) -> tuple[list[Any], list[tuple[int, int]], int]:
    """Parse the document at position `offset`. Return its elements, the span of each element, and the document's end.

    If the document is a list, its elements are returned. If it is an object that has a list at the key `pages`, the
    elements of this list are returned. Any other document is returned as a single element. Raise Unreadable if the
    document is not valid JSON.
    """
    scan = _scan if pages is None else _plain
    try:
        if text[offset : offset + 1] == "[":
            return _list(text, offset, scan)
        if text[offset : offset + 1] != "{":
            value, _ = scan(text, offset)
            raise Unreadable("object", f"a document is a list of records or an object, but this is {kind(value)}")
        if pages is not None and f'"{pages}"' in text and (page := _page(text, offset, pages)) is not None:
            return page
        value, end = scan(text, offset)
        return [value], [(offset, end)], end
    except StopIteration as error:
        raise _bad(text, offset, error.value, "expecting value") from None
    except json.JSONDecodeError as error:
        raise _bad(text, offset, error.pos, error.msg.lower()) from None
    except RecursionError:
        raise Unreadable("json", "bad JSON: nested too deeply") from None
    except ValueError:
        raise Unreadable("json", "bad JSON: a number has more than 4300 digits") from None


def _list(text: str, place: int, scan: _Scan) -> tuple[list[Any], list[tuple[int, int]], int]:
    values, spans = [], []
    space = _space
    place = _past_blanks(text, place + 1)
    if text[place : place + 1] == "]":
        return [], [], place + 1
    while True:
        value, end = scan(text, place)
        values.append(value)
        spans.append((place, end))
        match = space(text, end)
        assert match is not None, "blanks may be none"
        place = match.end()
        mark = text[place : place + 1]
        if mark == "]":
            return values, spans, place + 1
        if mark != ",":
            raise json.JSONDecodeError("expecting ',' or ']'", text, place)
        match = space(text, place + 1)
        assert match is not None, "blanks may be none"
        place = match.end()


def _page(text: str, place: int, wanted: str) -> tuple[list[Any], list[tuple[int, int]], int] | None:
    """Parse the list that is the value of the key `wanted` in the object at position `place`.

    Return the same three values as `elements`. Return None if the object has no list at this key.
    """
    page: tuple[list[Any], list[tuple[int, int]]] | None = None
    place = _past_blanks(text, place + 1)
    while text[place : place + 1] == '"':
        key, place = scanstring(text, place + 1, True)
        place = _past_blanks(text, place)
        if text[place : place + 1] != ":":
            return None
        place = _past_blanks(text, place + 1)
        if key == wanted and text[place : place + 1] == "[":
            values, spans, place = _list(text, place, _plain)
            page = values, spans
        else:
            _, place = _plain(text, place)
        place = _past_blanks(text, place)
        if text[place : place + 1] == "}":
            return None if page is None else (*page, place + 1)
        if text[place : place + 1] != ",":
            return None
        place = _past_blanks(text, place + 1)
    return None


def _unpacked(
    values: list[Any], spans: list[tuple[int, int]]
) -> tuple[list[Any], list[tuple[int, int]], dict[int, str]]:
    """Replace each data array of SensorThings by its observations.

    Return the new elements and their spans. Also return a dictionary that maps the index of each observation from a
    data array to its JSON text.
    """
    if not any(isinstance(value, dict) and "dataArray" in value for value in values):
        return values, spans, {}
    elements: list[Any] = []
    where: list[tuple[int, int]] = []
    texts: dict[int, str] = {}
    for value, span in zip(values, spans):
        inner = sensorthings.rows(value) if isinstance(value, dict) else None
        for element in [value] if inner is None else inner:
            if inner is not None:
                texts[len(elements)] = sensorthings.written(element)
            elements.append(element)
            where.append(span)
    return elements, where, texts


def _bad(text: str, offset: int, place: int, why: str) -> Unreadable:
    line = text.count("\n", offset, place)
    column = place - max(text.rfind("\n", offset, place) + 1, offset) + 1
    where = f"character {column}" if not line else f"line {line + 1} of the document, character {column}"
    return Unreadable("json", f"bad JSON at {where}: {why}")


def _past_blanks(text: str, offset: int) -> int:
    match = _space(text, offset)
    assert match is not None, "blanks may be none"
    return match.end()


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str, data: bytes, places: Sequence[int]) -> NDArray[np.int64]:
    """Convert positions in `text`, counted in characters, to positions in `data`, counted in bytes."""
    if len(text) == len(data):
        return np.array(places, np.int64)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    escaped = (points >= 0xDC80) & (points < 0xDD00)  # bytes that are not UTF-8
    sizes = np.select([points < 0x80, points < 0x800, escaped, points < 0x10000], [1, 2, 1, 3], 4)
    positions: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)])[np.array(places, np.int64)]
    return positions
