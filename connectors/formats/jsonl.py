"""A reader of JSON Lines: column by column if the compiled scanner supports a line, otherwise one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.chunks import ChunkReaders, FoundInChunk, Place, read_apart, readable_apart
from cep.connectors.formats.json_paths import EventPaths, descend, expand
from cep.connectors.formats.json_scan import BLANK, ODD, UNKNOWN, UNTYPED, gather, scan
from cep.connectors.formats.streams import ByteStream, line_breaks, line_ends, not_utf8, whole_lines
from cep.connectors.records.batch import Block, DeadLetter, dead_record, too_long
from cep.connectors.records.columns import Cells, CellValues, UnreadableRow, of_cells, table
from cep.connectors.records.keynames import name_table
from cep.connectors.records.numbers import NULL, STRING
from cep.connectors.records.paths import EACH, first_at, from_message, level, path, sources
from cep.connectors.records.record_tests import passed, passed_before
from cep.connectors.records.records import NO_EVENT, Record, parse, read_events, time_keys
from cep.connectors.records.times import form
from cep.connectors.records.values import Real, Unreadable
from cep.core.schema import ARRIVAL, CHANGE, Schema


class ReadsLines(Protocol):
    """A reader of blocks of lines that contain one record each."""

    def read(
        self, file: str, data: bytes, position: int, line: int, first: int
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]: ...


def read_jsonl(
    file: str,
    stream: ByteStream,
    lines: ReadsLines,
    chunk: int,
    first: int,
    readers: ChunkReaders | None = None,
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None]]:
    """Yield, for each block, the table of each event type, the dead letters, and the positions of the records.

    While the stream is silent, yield `({}, [], None)`. `readers`: processes that read chunks of the file.
    """
    line, begun = 1, 0
    if readers is not None and isinstance(lines, LineReader) and readable_apart(readers, stream, chunk):
        place = Place(stream.behind_mark(), line, first)
        for part in read_apart(readers, lines, file, stream, chunk, place):
            yield part.tables, part.dead, part.block
        line, first, begun = place.line, place.first, place.position
    for data, position, length in whole_lines(stream, chunk, begun=begun):
        if length:
            yield {}, *too_long(file, line, first, position, data, length)
            line += 1
            first += 1
        elif not data:
            yield {}, [], None
        else:
            tables, dead, block = lines.read(file, data, position, line, first)
            yield tables, dead, block
            line += line_breaks(data)
            first = block.beyond


class KeyNames:
    """The keys of records and the names of event types that a program reads, as arrays for the compiled scanner. Name 0
    is `type`, name 1 is `args`."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas = list(schemas.values())
        self.paths = {schema.name: EventPaths.of(sources(schema, time_keys(schema))) for schema in self.schemas}
        known = dict.fromkeys(("type", "args"))
        for schema in self.schemas:
            known.update(dict.fromkeys((schema.name, *time_keys(schema))))
            known.update(dict.fromkeys(key for key, _ in self._keys(schema)))
        self.index = {name: i for i, name in enumerate(known)}
        self.letters, self.ends, self.slots = name_table(list(known))
        self.types = np.full(len(known), UNKNOWN, np.int64)
        for i, schema in enumerate(self.schemas):
            self.types[self.index[schema.name]] = i
        self.cells = [self._cells(schema) for schema in self.schemas]

    def width(self, schema: Schema) -> int:
        """Return the number of cells that a record of an event type needs."""
        return len(sources(schema, time_keys(schema)))

    def _keys(self, schema: Schema) -> Sequence[tuple[str, int]]:
        paths = self.paths[schema.name]
        if paths is not None:
            return paths.keys
        return [(key, cell) for cell, key in enumerate(sources(schema, time_keys(schema)))]

    def _cells(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the cells of each key as linked lists. A list contains the cells that store the value of the same key.

        The result has three parts: the first cell of each key, the next cell after each cell in its list (-1: none),
        and the number of cells.
        """
        keys = self._keys(schema)
        paths = self.paths[schema.name]
        width = len(keys) if paths is None else paths.width
        first = np.full(len(self.index), -1, np.int64)
        following = np.full(width, -1, np.int64)
        for key, cell in keys:
            following[cell] = first[self.index[key]]
            first[self.index[key]] = cell
        return first, following, width


class LineReader:
    """A reader of the lines of one input, block by block. `default`, `bound`: as in `records.read_events`."""

    def __init__(self, schemas: Mapping[str, Schema], default: str | None, bound: bool) -> None:
        self._schemas = schemas
        self._default = default
        self._bound = bound
        self._names = KeyNames(schemas)
        self._tested = [
            number
            for number, schema in enumerate(self._names.schemas)
            if schema.when is not None and (not bound or schema.name == default)
        ]
        self._strict = any(self._names.schemas[number].strict for number in self._tested)

    def read(
        self,
        file: str,
        data: bytes,
        position: int,
        line: int,
        first: int,
        beside: Mapping[str, Sequence[str | None]] | None = None,
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]:
        """Read a block of whole lines. Return the tables by event type, the dead letters, and the records' positions.

        - `line`: the line number of the block's first line.
        - `first`: the record number of the block's first record.
        - `beside`: values from the messages that contain the lines. Each source, such as `key`, is mapped to one value
          per line.
        """
        buffer = np.frombuffer(data, np.uint8)
        starts, stops = line_ends(data)
        capacity = len(data) // 2 + 1  # an entry takes at least `0,` in `args`; unused room costs nothing
        names = self._names
        scanned = scan(buffer, starts, stops, names.letters, names.ends, names.slots, names.types, capacity)
        types = scanned[0]
        types[not_utf8(data, starts)] = ODD
        filled = np.flatnonzero(types != BLANK)
        self._settle(types)
        events: dict[int, list[Record | Unreadable]] = {}

        def read(row: int, place: int = 0) -> Record:
            if row not in events:
                events[row] = self._events(data[starts[row] : stops[row]], row, beside)
            event = events[row][place]
            if isinstance(event, Unreadable):
                raise event.kept()
            return event

        line_rows: list[_LineRows] = []
        for i, schema in enumerate(names.schemas):
            lines = np.flatnonzero(types == i)
            if len(lines):
                line_rows.append(self._rows(schema, i, buffer, lines, scanned, beside))
                types[line_rows[-1].odd] = ODD
        if self._tested:
            line_rows = self._with_tested(line_rows, types, buffer, scanned, beside)
        # A line that is read on its own may contain several events; any other line has one per row.
        counts = np.zeros(len(types), np.int64)
        odd: dict[str, list[tuple[int, int]]] = {}
        refused: list[tuple[int, int, str, str]] = []
        for row in np.flatnonzero(types == ODD).tolist():
            events[row] = self._events(data[starts[row] : stops[row]], row, beside)
            counts[row] = len(events[row])
            for place, event in enumerate(events[row]):
                if isinstance(event, Unreadable):
                    refused.append((row, place, event.code, event.reason))
                else:
                    odd.setdefault(event.type, []).append((row, place))
        for rows in line_rows:
            counts[rows.lines] += rows.counts
        unmatched = filled[counts[filled] == 0] if self._tested else filled[:0]
        if len(unmatched) and self._strict:
            counts[unmatched] = 1
            refused += [(row, 0, "type", NO_EVENT) for row in unmatched.tolist()]
            unmatched = unmatched[:0]
        order = first + np.cumsum(counts) - counts
        block = self._block(file, starts, filled, counts, len(data), position, line, first, data)
        if len(unmatched):
            text = data[starts[unmatched[0]] : stops[unmatched[0]]].decode("utf-8", "replace")
            block = replace(block, unmatched=len(unmatched), first_unmatched=text)
        tables = {}
        by_type = {rows.schema.name: rows for rows in line_rows}
        for schema in names.schemas:
            slow = odd.get(schema.name, [])
            if schema.name not in by_type and not slow:
                continue
            rows = by_type.get(schema.name) or _no_rows(schema, names.width(schema), buffer)
            if slow:
                rows = rows.with_odd(slow)
            dead: list[UnreadableRow] = []
            origin, places = rows.row, rows.place
            tables[schema.name] = table(
                schema,
                rows.cells,
                rows.good,
                order[origin] + places,
                lambda k, own=origin, places=places: read(int(own[k]), int(places[k])),  # type: ignore[misc]
                dead,
            )
            refused.extend((int(origin[k]), int(places[k]), code, reason) for k, code, reason in dead)
        refused.sort(key=lambda refusal: refusal[:2])
        if firsts := {int(frame[ARRIVAL][0]): type for type, frame in tables.items() if frame.height}:
            row = int(np.searchsorted(order, min(firsts), "right")) - 1
            form = _form(data[starts[row] : stops[row]], self._schemas[firsts[min(firsts)]])
            block = replace(block, times=form)
        return tables, [dead_record(block, int(order[r]) + p, code, reason) for r, p, code, reason in refused], block

    def chunk(self, file: str, data: bytes, position: int, final: bool) -> FoundInChunk:
        return FoundInChunk(*self.read(file, data, position, 0, 0), line_breaks(data))

    def _events(
        self, line: bytes, row: int, beside: Mapping[str, Sequence[str | None]] | None
    ) -> list[Record | Unreadable]:
        envelope = None if beside is None else {source: texts[row] for source, texts in beside.items()}
        try:
            return read_events(line, self._schemas, self._default, self._bound, envelope)
        except Unreadable as reason:
            return [reason.kept()]

    def _with_tested(
        self,
        line_rows: Sequence[_LineRows],
        types: NDArray[np.int32],
        buffer: NDArray[np.uint8],
        scanned: Any,
        beside: Mapping[str, Sequence[str | None]] | None,
    ) -> list[_LineRows]:
        """Add the rows of the event types that have a WHEN condition. Each condition is tested on every line.

        `line_rows`: the rows of lines that name their event type. If a line cannot be read column by column for one of
        the event types, it is marked as ODD in `types`, and its rows are removed.
        """
        every = list(line_rows)
        lines = np.flatnonzero(types > ODD)
        for number in self._tested:
            every.append(self._rows(self._names.schemas[number], number, buffer, lines, scanned, beside))
            types[every[-1].odd] = ODD
        before = np.zeros(len(types), np.int64)
        placed = []
        for rows in every:
            rows = rows.without(types == ODD)
            placed.append(replace(rows, place=rows.place + before[rows.row]))
            before[rows.lines] += rows.counts
        return placed

    def _rows(
        self,
        schema: Schema,
        number: int,
        buffer: NDArray[np.uint8],
        lines: NDArray[np.int64],
        scanned: Any,
        beside: Mapping[str, Sequence[str | None]] | None,
    ) -> _LineRows:
        """Return the rows of one event type with their cells. If it has a WHEN condition, only rows that satisfy it."""
        names = self._names
        _, positional, begin, entries = scanned
        times, wanted = len(time_keys(schema)), self._names.width(schema)
        plain_count = wanted - len(schema.tested)
        plain_count -= any(attribute.name == CHANGE for attribute in schema.attributes)  # it is the last attribute
        first, following, width = names.cells[number]
        *matrix, good = gather(
            lines,
            positional,
            begin,
            entries,
            first,
            following,
            times,
            plain_count,
            width,
            len(names.index),
            not schema.declared,
        )
        paths = names.paths[schema.name]
        if schema.when is not None:
            good &= ~positional[lines]
            lines, matrix, good = self._passed(schema, buffer, lines, matrix, good, None)
        row, place = lines, np.zeros(len(lines), np.int64)
        odd = np.zeros(len(lines), np.bool_)
        if paths is not None:
            good &= ~positional[lines]
            descend(buffer, matrix, good, paths.before)
            if paths.list is not None:
                if schema.when is not None:
                    lines, matrix, good = self._passed(schema, buffer, lines, matrix, good, paths)
                matrix, line_index, place = expand(buffer, matrix, good, paths.list, paths.elements)
                odd, row = ~good, lines[line_index]
                good = np.ones(len(line_index), np.bool_)
            descend(buffer, matrix, good, paths.after)
        if paths is None or paths.list is None:
            counts = np.ones(len(lines), np.int64)
        else:
            counts = np.bincount(line_index, minlength=len(lines))
        offset, length, kind = (cells[:wanted] for cells in matrix)
        cells = Cells(buffer, offset, length, kind, False)
        if any(map(from_message, sources(schema, ()))):
            cells = with_envelope(schema, times, cells, good, row, beside or {})
        if schema.when is None:
            return _LineRows(schema, lines[~odd], counts[~odd], lines[odd], row, place, good, cells)
        tested = good & passed(schema, of_cells(cells, sources(schema, time_keys(schema))))
        own, counts = np.unique(row[tested], return_counts=True)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        alone = np.concatenate([lines[odd], row[~good]])
        return _LineRows(schema, own, counts, alone, row[tested], place, good[tested], cells.some(tested))

    def _passed(
        self,
        schema: Schema,
        buffer: NDArray[np.uint8],
        lines: NDArray[np.int64],
        matrix: Any,
        good: NDArray[np.bool_],
        paths: EventPaths | None,
    ) -> tuple[NDArray[np.int64], Any, NDArray[np.bool_]]:
        """Drop the lines that certainly fail the WHEN condition. For the remaining lines, return the line numbers, the
        cells and the mask `good`.

        If `paths` leads into a list, the test uses all values outside of the list's elements. Otherwise, the test uses
        only the values at the top level of a record.
        """
        offset, length, kind = matrix
        cells = Cells(buffer, offset, length, kind, False)
        values = of_cells(cells, sources(schema, time_keys(schema)))
        if paths is None or paths.list is None:
            may = passed_before(schema, values, lambda steps: len(steps) == 1)
        else:
            may = passed_before(schema, values, lambda steps: EACH not in steps, CellValues(cells, paths.list))
        if may is None or may.all():
            return lines, matrix, good
        kept = may | ~good
        return lines[kept], [cells[:, kept] for cells in matrix], good[kept]

    def _settle(self, types: NDArray[np.int32]) -> None:
        """Set the default event type for lines that name none. Mark lines whose event type cannot be read as ODD.

        If the user bound the input to an event type, lines of unknown types belong to this event type. Lines of other
        event types are then ODD.

        If the program has WHEN conditions, the event types of lines are decided later. This method then only marks
        lines as UNTYPED: those that name an event type that has a condition or, if the input is bound, any event type
        of the program.
        """
        names = [schema.name for schema in self._names.schemas]
        if self._tested:  # a line may be an event with WHEN
            for number, schema in enumerate(self._names.schemas):
                if schema.when is not None or self._bound:
                    types[types == number] = UNTYPED
            return
        if self._default is not None:
            default = names.index(self._default)
            types[types == UNTYPED] = default
            if self._bound:
                types[types == UNKNOWN] = default
                types[(types >= 0) & (types != default)] = ODD
        types[(types == UNTYPED) | (types == UNKNOWN)] = ODD

    def _block(
        self,
        file: str,
        starts: NDArray[np.int64],
        filled: NDArray[np.int64],
        counts: NDArray[np.int64],
        size: int,
        position: int,
        line: int,
        first: int,
        data: bytes,
    ) -> Block:
        if (counts[filled] == 1).all():
            dense = len(filled) == len(starts)
            places = np.concatenate([starts if dense else starts[filled], [size]])
            return Block(file, first, len(filled), line, None if dense else filled + line, places, position, data)
        rows = np.repeat(np.arange(len(counts)), counts)
        places = np.concatenate([starts, [size]])
        return Block(file, first, len(rows), line, rows + line, places, position, data, rows=rows)


@dataclass(frozen=True, slots=True)
class _LineRows:
    """The events of one type in a block of lines.

    - `lines`: the numbers of the lines that contain events of this type.
    - `counts`: for each of these lines, the number of events that it contains.
    - `odd`: the numbers of the lines that must be read one by one.
    - `row`: for each event, the number of its line.
    - `place`: for each event, its index among the events of its line.
    - `good`: for each event, True if its cells can be converted column by column.
    """

    schema: Schema
    lines: NDArray[np.int64]
    counts: NDArray[np.int64]
    odd: NDArray[np.int64]
    row: NDArray[np.int64]
    place: NDArray[np.int64]
    good: NDArray[np.bool_]
    cells: Cells

    def with_odd(self, slow: Sequence[tuple[int, int]]) -> _LineRows:
        """Return a copy that also contains events which must be read one by one.

        `slow`: for each such event, the number of its line and its index among the events of this line.
        """
        row, place = np.concatenate([np.stack([self.row, self.place]), np.array(slow, np.int64).T], axis=1)
        index = np.lexsort((place, row))
        good = np.concatenate([self.good, np.zeros(len(slow), np.bool_)])[index]
        more = ((0, 0), (0, len(slow)))
        cells = replace(
            self.cells,
            offset=np.pad(self.cells.offset, more)[:, index],
            length=np.pad(self.cells.length, more)[:, index],
            kind=np.pad(self.cells.kind, more)[:, index],
        )
        return replace(self, row=row[index], place=place[index], good=good, cells=cells)

    def without(self, gone: NDArray[np.bool_]) -> _LineRows:
        """Return a copy without the lines that are True in the mask `gone`."""
        if not gone[self.lines].any():
            return self
        lines, rows = ~gone[self.lines], ~gone[self.row]
        own = self.row[rows], self.place[rows], self.good[rows], self.cells.some(rows)
        return _LineRows(self.schema, self.lines[lines], self.counts[lines], self.odd, *own)


def _no_rows(schema: Schema, width: int, buffer: NDArray[np.uint8]) -> _LineRows:
    none = np.zeros(0, np.int64)
    cells = np.zeros((width, 0), np.int32)
    empty = Cells(buffer, cells, cells, cells.astype(np.uint8), False)
    return _LineRows(schema, none, none, none, none, none, none.astype(np.bool_), empty)


def with_envelope(
    schema: Schema,
    times: int,
    cells: Cells,
    good: NDArray[np.bool_],
    row: NDArray[np.int64],
    beside: Mapping[str, Sequence[str | None]],
) -> Cells:
    """Return the cells with missing values filled in from the envelope of each record's message.

    Set `good` to False for each record that must be read on its own. This is the case if the envelope lacks a topic
    level that the record needs. It is also the case if the record lacks a value that other records have.
    """
    data = [cells.buffer.tobytes()]
    size = len(data[0])
    texts = set()
    for cell, source in enumerate(sources(schema, ()), times):
        values = beside.get(source)
        present = cells.kind[cell] > NULL
        if values is None or present.any():
            if values is not None or level(source) is not None:
                good &= present
            continue
        raw = [(values[i] or "").encode("utf-8", "replace") for i in row.tolist()]
        length = np.array([len(text) for text in raw], np.int32)
        cells.length[cell] = length
        cells.offset[cell] = size + np.cumsum(length) - length
        cells.kind[cell] = np.where(length > 0, STRING, NULL)
        data.append(b"".join(raw))
        size += len(data[-1])
        texts.add(cell)
    return replace(cells, buffer=np.frombuffer(b"".join(data), np.uint8), texts=frozenset(texts))


def _form(line: bytes, schema: Schema) -> str:
    record = parse(line)
    for key in time_keys(schema):
        value = first_at(record, path(key)) if key not in record else record[key]
        if value is not None:
            return form(schema.format, not isinstance(value, str) or isinstance(value, Real))
    return "iso"
