"""CSV and TSV files. A header names the columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from csv import reader
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

import numpy as np
import polars as pl

from cep.connectors.formats.chunks import ChunkReaders, FoundInChunk, Place, read_apart, readable_apart
from cep.connectors.formats.csv_scan import FIELDS, FINE, OPEN, scan
from cep.connectors.formats.streams import BOM, LONGEST, ByteStream, line_breaks, more_bytes, not_utf8, skip_line
from cep.connectors.records.batch import Block, DeadLetter, dead_record, too_long
from cep.connectors.records.columns import Cells, UnreadableRow, field, of_cells, table
from cep.connectors.records.declarations import guessed
from cep.connectors.records.header import bind
from cep.connectors.records.numbers import NULL
from cep.connectors.records.paths import sources
from cep.connectors.records.record_tests import passed
from cep.connectors.records.records import NO_EVENT, Record, decode, other_encoding, read_fields, time_keys
from cep.connectors.records.shared_rows import share_rows
from cep.connectors.records.times import form, is_number
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, Schema

LOOKED_AT = 1 << 14
"""The number of bytes below the header that are examined to guess the column types."""
CLOSED = 1 << 20
"""The maximum distance in bytes between an opening quote and its closing quote."""


def read_csv(
    file: str,
    stream: ByteStream,
    schemas: Sequence[Schema],
    separator: str,
    chunk: int,
    first: int,
    readers: ChunkReaders | None = None,
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None]]:
    """Yield, for each block of rows, the table of each event type, the dead letters, and the positions of the records.

    While the stream is silent, yield `({}, [], None)`. `schemas`: one schema, or several schemas whose WHEN conditions
    select the rows of each event type. `readers`: processes that read chunks of the file. Raise CepError if the header
    is missing or lacks a column.
    """
    dialect = Dialect.of(file, schemas, separator)
    separator = dialect.separator
    start = _Beginning(stream, chunk, dialect.comment.encode())
    start.skip(dialect.skip)
    names, head = list(dialect.columns), b""
    if dialect.zeek and not (names := start.fields(file)):
        return
    if not names:
        head = start.line_of_columns(file)
        if not head and not start.rest.strip():
            return
        names = header(file, head, separator, dialect.quote)
        start.skip(dialect.units)
    try:
        types = {} if schemas[0].declared else _types(names, start.rest, separator)
        rows = Fields(file, schemas, names, dialect, types)
    except CepError as error:
        hint = _separated(head, separator) or error.hint
        raise CepError(error.message, hint=hint, code=error.code) from None
    rest, position, line = start.rest, start.position, start.line
    if readers is not None and readers.cheap and readable_apart(readers, stream, chunk):
        place = Place(position, line, first)
        for chunk_found in read_apart(readers, rows, file, stream, chunk, place):
            if chunk_found.block.holds_records:
                yield chunk_found.tables, chunk_found.dead, chunk_found.block
        position, line, first, rest = place.position, place.line, place.first, b""
    final = False
    while True:
        used, lines, tables, dead, block = rows.read(rest, position, line, first, final)
        if block.holds_records:
            yield tables, dead, block
        first += block.count
        line += lines
        position += used
        rest = rest[used:]
        if final:
            return
        if len(rest) > LONGEST:
            length, head, rest = skip_line(stream, rest, chunk)
            yield {}, *too_long(file, line, first, position, head, length)
            line += 1
            first += 1
            position += length
        while stream.silent():
            yield {}, [], None
        data = stream.read(more_bytes(chunk, len(rest)))
        final = not data
        rest += data
        if stream.damage is not None:  # the last line may be incomplete
            rest = rest[: rest.rfind(b"\n") + 1]


class _Beginning:
    """A reader of the lines at the beginning of a file, up to the header. The caller consumes them one by one.

    `rest`: the bytes that were read but not consumed. They begin at byte `position` of the file, in line number `line`.
    """

    def __init__(self, stream: ByteStream, chunk: int, comment: bytes) -> None:
        self._stream, self._chunk, self._comment = stream, chunk, comment
        self.rest, self.position, self.line = b"", 0, 1
        self._look()
        if self.rest.startswith(BOM):
            self.rest, self.position = self.rest[len(BOM) :], len(BOM)

    def skip(self, count: int) -> None:
        """Skip `count` lines without parsing them."""
        for _ in range(count):
            self._take()

    def line_of_columns(self, file: str) -> bytes:
        """Skip comment lines, and return the header line. Return empty bytes if the file is empty.

        Raise CepError if the line cannot be a header.
        """
        self._look()
        while self._comment and self.rest.startswith(self._comment):
            self._take()
            self._look()
        head = self._take()
        if not head.strip() and self.rest.strip():
            raise CepError(f"{file}: the first line is empty, but it should name the columns", code="input")
        if len(head) > LONGEST:
            message = f"{file}: the first line has more than {LONGEST} bytes, but it should name the columns"
            raise CepError(message, code="input")
        return head if head.strip() else b""

    def fields(self, file: str) -> list[str]:
        """Return the column names from the line `#fields` of a Zeek log. Return an empty list if the file is empty.

        Raise CepError if the file has records but no such line.
        """
        names: list[str] = []
        self._look()
        while self.rest.startswith(self._comment):
            word, *words = self._take().decode("utf-8", "replace").rstrip("\r").split("\t")
            names = words if word == "#fields" else names
            self._look()
        if not names and self.rest.strip():
            hint = "Zeek names the columns in a line `#fields` before the records"
            raise CepError(f"{file}: this is not a Zeek log", hint=hint, code="input")
        return names

    def _take(self) -> bytes:
        self._look()
        line, end, self.rest = self.rest.partition(b"\n")
        self.position += len(line) + len(end)
        self.line += 1
        return line

    def _look(self) -> None:
        """Read until `rest` contains a line end. Do not read further, so that a CSV file is divided into the same
        blocks as a file of another format."""
        while b"\n" not in self.rest and len(self.rest) <= LONGEST and (data := self._stream.read(self._chunk)):
            self.rest += data


def header(file: str, raw: bytes, separator: str, quote: str = '"') -> list[str]:
    """Return the column names in a header line. Blanks and quotes around each name are removed."""
    try:
        text = raw.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise CepError(f"{file}: the header is not UTF-8", hint=other_encoding(raw, True), code="input") from None
    if "\0" in text:
        message = f"{file}: the header has a NUL character, so the file is not text in UTF-8"
        raise CepError(message, hint=other_encoding(raw, True), code="input")
    names = []
    while True:
        text = text.lstrip(" ")
        if text.startswith(quote) and (end := text.find(quote, 1)) > 0:
            while text.startswith(2 * quote, end) and (further := text.find(quote, end + 2)) > 0:
                end = further
            name, text = text[1:end].replace(2 * quote, quote), text[end + 1 :].lstrip(" ")
            _, more, text = text.partition(separator)
        else:
            name, more, text = text.partition(separator)
        names.append(name.strip())
        if not more:
            return names


def _separated(head: bytes, separator: str) -> str | None:
    """Return a hint for an error message if the header seems to have another separator than `separator`, or None."""
    if separator.encode() in head:
        return None
    if separator != "," and b"," in head:
        return "the header has commas, not tabs: name the file .csv, or add `--format csv`"
    if separator != "\t" and b"\t" in head:
        return "the header has tabs, not commas: name the file .tsv, or add `--format tsv`"
    sign = next((mark for mark in ";|," if mark.encode() in head), None)
    if sign is None:
        return None
    decimal = ', decimal: ","' if sign == ";" else ""
    return f'the header is separated by `{sign}`: write `FORMAT csv(separator: "{sign}"{decimal})` behind TIME'


def _types(columns: Sequence[str], body: bytes, separator: str) -> dict[str, str]:
    lines = body[:LOOKED_AT].decode("utf-8", "replace").splitlines()[: -1 if len(body) > LOOKED_AT else None]
    rows = [row for row in reader(lines, delimiter=separator) if len(row) == len(columns)]
    return {name: guessed([row[place] for row in rows]) for place, name in enumerate(columns)} if rows else {}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The syntax of a text table.

    - `point`: the decimal mark.
    - `thousands`: the mark between groups of digits.
    - `comment`: the text that begins a comment line.
    - `columns`: the column names, if the file has no header.
    - `skip`: the number of lines before the header, which are not read.
    - `units`: the number of lines between the header and the first record, which are not read. Such lines often
      contain the units of the columns.
    - `zeek`: True if the column names are in comments, as in the logs of Zeek.
    """

    separator: str
    quote: str = '"'
    point: str = "."
    comment: str = ""
    thousands: str | None = None
    columns: tuple[str, ...] = ()
    skip: int = 0
    units: int = 0
    zeek: bool = False

    @classmethod
    def of(cls, file: str, schemas: Sequence[Schema], separator: str) -> Dialect:
        """Return the dialect that the declarations in `schemas` define.

        Raise CepError if the separator equals the decimal mark, or if two declarations define different dialects.
        """
        schema, records = schemas[0], schemas[0].records
        for other in schemas:
            if other.records != records:
                message = (
                    f"{file}: {schema.name} and {other.name} read the same file, but declare different formats for it"
                )
                raise CepError(message, hint="write the same `FORMAT csv(...)` behind both", code="input")
        if records is not None and records.name == "zeek":
            return cls("\t", "\0", ".", "#", zeek=True)
        if records is None or records.name != "csv":
            return cls(separator)
        dialect = cls(
            records.option("separator") or separator,
            records.option("quote") or '"',
            records.option("decimal") or ".",
            records.option("comment") or "",
            records.option("thousands"),
            tuple(name.strip() for name in (records.option("columns") or "").split(","))
            if records.option("columns")
            else (),
            int(records.option("skip") or 0),
            int(records.option("units") or 0),
        )
        if dialect.separator == dialect.point:
            message = f"{file}: `{dialect.point}` is both the separator of fields and the decimal mark of {schema.name}"
            hint = f'use another separator, such as `FORMAT csv(separator: ";", decimal: "{dialect.point}")`'
            raise CepError(message, hint=hint, code="input")
        return dialect


class Fields:
    """A reader of the lines below a header, block by block. It reads one event type, or several event types whose WHEN
    conditions select the rows."""

    def __init__(
        self,
        file: str,
        schemas: Sequence[Schema],
        columns: Sequence[str],
        dialect: Dialect,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self._file = file
        self._schemas = [bind(file, schema, columns, types) for schema in schemas]
        self._columns = len(columns)
        self._dialect = dialect
        self._keys = [sources(schema, time_keys(schema)) for schema in self._schemas]
        self._bounds = list(accumulate(map(len, self._keys), initial=0))
        self._first = np.full(len(columns), -1, np.int64)
        self._next = np.full(self._bounds[-1], -1, np.int64)
        for cell, key in enumerate(chain(*self._keys)):
            column = columns.index(key)
            self._next[cell] = self._first[column]
            self._first[column] = cell

    def read(
        self, data: bytes, position: int, line: int, first: int, final: bool
    ) -> tuple[int, int, dict[str, pl.DataFrame], list[DeadLetter], Block]:
        """Read the whole lines of a block. An incomplete last line is not read, unless `final` is True.

        Return the number of bytes that were read and the number of line ends in these bytes. Also return the table of
        each event type, the dead letters, and the positions of the records.
        """
        buffer = np.frombuffer(data, np.uint8)
        capacity = line_breaks(data) + 1
        marks = self._dialect
        quote, comment = ord(marks.quote), np.frombuffer(marks.comment.encode(), np.uint8)
        cells_of = self._columns, self._first, self._next, self._bounds[-1]
        n, used, breaks, offset, length, kind, state, starts, lines = scan(
            buffer, 0, final, CLOSED, ord(marks.separator), quote, comment, *cells_of, capacity
        )
        starts, lines = starts[: n + 1], lines[:n]
        consecutive = n == 0 or (lines[0] == 0 and lines[-1] == n - 1)
        block = Block(self._file, first, n, line, None if consecutive else lines + line, starts, position, data)
        if n == 0:
            return used, breaks, {}, [], block
        good = state[:n] == FINE
        wrong = not_utf8(data, starts)
        wrong = wrong[wrong < n]  # the next block contains the others
        good[wrong] = False
        kind[:, wrong] = NULL  # ignore the text of such a line
        matrix = offset[:, :n], length[:, :n], kind[:, :n]
        every = Cells(buffer, *matrix, True, frozenset(), ord(marks.point), quote, marks.thousands)
        cells = [every.between(*bounds) for bounds in pairwise(self._bounds)]

        def read(number: int, row: int) -> Record:
            if state[row] != FINE:
                raise Unreadable("row", self._wrong(int(state[row])))
            decode(data[starts[row] : starts[row + 1]], True)
            if none[row]:
                raise Unreadable("type", NO_EVENT)
            fields = {key: field(cells[number], c, row) or "" for c, key in enumerate(self._keys[number])}
            return read_fields(fields, self._schemas[number], marks.point, marks.thousands)

        rows, numbers, none = [np.ones(n, np.bool_)], [np.arange(first, first + n)], np.zeros(n, np.bool_)
        if self._schemas[0].when is not None:
            rows = [good & passed(*pair) for pair in zip(self._schemas, map(of_cells, cells, self._keys))]
            if self._schemas[0].strict:
                none = good & ~np.logical_or.reduce(rows)
            good &= ~none
            rows[0] |= ~good  # read them one by one, to report what is wrong
            numbers, block = share_rows(block, rows)
        refused: list[tuple[int, str, str]] = []
        tables = {}
        for number, schema in enumerate(self._schemas):
            own = np.flatnonzero(rows[number])
            dead: list[UnreadableRow] = []
            tables[schema.name] = table(
                schema,
                cells[number] if len(own) == n else cells[number].some(own),
                good[own],
                numbers[number],
                lambda k, number=number, own=own: read(number, int(own[k])),  # type: ignore[misc]
                dead,
            )
            refused += [(int(numbers[number][k]), code, reason) for k, code, reason in dead]
        dead_letters = [dead_record(block, *refusal) for refusal in sorted(refused)]
        seen = next((number for number, frame in enumerate(tables.values()) if frame.height), None)
        if seen is not None:
            schema = self._schemas[seen]
            row = np.flatnonzero(rows[seen])[np.searchsorted(numbers[seen], tables[schema.name][ARRIVAL][0])]
            text = field(cells[seen], 0, row) or ""
            block = replace(block, times=form(schema.format, is_number(text.strip(" \t"))))
        return used, breaks, tables, dead_letters, block

    def chunk(self, file: str, data: bytes, position: int, final: bool) -> FoundInChunk | None:
        """Read a chunk of the file. Return None if a quote is open at the end of the chunk."""
        used, lines, tables, dead, block = self.read(data, position, 0, 0, final)
        return None if used < len(data) else FoundInChunk(tables, dead, block, lines)

    def _wrong(self, state: int) -> str:
        if state == FIELDS:
            named = "FORMAT names columns" if self._dialect.columns else "the header"
            return f"the line does not have as many fields as {named} ({self._columns})"
        return "a quote is not closed" if state == OPEN else "something follows a closing quote in its field"
