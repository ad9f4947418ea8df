"""JSON Lines to batches: plain lines column by column, odd ones one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.schema import ARRIVAL, Schema
from connectors.batch import Block, DeadLetter, dead_record, too_long
from connectors.columns import Cells, Refusal, table
from connectors.jsonscan import BLANK, ODD, UNKNOWN, UNTYPED, enter, gather, scan
from connectors.records import Real, Record, Unreadable, parse, read_line, time_keys
from connectors.streams import ByteStream, not_utf8, whole_lines


def read_jsonl(
    file: str, stream: ByteStream, lines: LineReader, chunk: int, first: int
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None]]:
    """Tables by type, block by block; no block: the stream is silent."""
    line = 1
    for data, position, length in whole_lines(stream, chunk):
        if length:
            yield {}, *too_long(file, line, first, position, data, length)
            line += 1
            first += 1
        elif not data:
            yield {}, [], None
        else:
            tables, dead, block = lines.read(file, data, position, line, first)
            yield tables, dead, block
            line += data.count(b"\n")
            first = block.beyond


class KeyNames:
    """The keys and types a program knows, as the scanner wants them: 0 is `type`, 1 is `args`."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas = list(schemas.values())
        known = dict.fromkeys(("type", "args"))
        for schema in self.schemas:
            known.update(dict.fromkeys((schema.name, *time_keys(schema))))
            known.update(dict.fromkeys(attribute.source or attribute.name for attribute in schema.attributes))
        self.index = {name: i for i, name in enumerate(known)}
        raw = [name.encode("utf-8") for name in known]
        self.letters = np.frombuffer(b"".join(raw), np.uint8)
        self.ends = np.cumsum([0] + [len(name) for name in raw])
        self.slots = np.full(1 << (4 * len(raw)).bit_length(), -1, np.int64)
        enter(self.letters, self.ends, self.slots)
        self.types = np.full(len(raw), UNKNOWN, np.int64)
        for i, schema in enumerate(self.schemas):
            self.types[self.index[schema.name]] = i
        self.cells = [self._cells(schema) for schema in self.schemas]

    def _cells(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each name its first cell, for each cell the next of the same name; -1: none."""
        keys = list(time_keys(schema)) + [attribute.source or attribute.name for attribute in schema.attributes]
        first = np.full(len(self.index), -1, np.int64)
        following = np.full(len(keys), -1, np.int64)
        for cell, key in enumerate(keys):
            following[cell] = first[self.index[key]]
            first[self.index[key]] = cell
        return first, following


class LineReader:
    """Reads blocks of lines of one input. `default` and `bound` as in `records.read_line`."""

    def __init__(self, schemas: Mapping[str, Schema], default: str | None, bound: bool) -> None:
        self._schemas = schemas
        self._default = default
        self._bound = bound
        self._names = KeyNames(schemas)

    def read(
        self, file: str, data: bytes, position: int, line: int, first: int
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]:
        """The tables of a block of whole lines, of which the first is line number `line`, its record number `first`."""
        buffer = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(buffer == 10)
        starts = np.concatenate([[0], breaks + 1])
        stops = np.concatenate([breaks, [len(data)]])
        if starts[-1] == len(data):
            starts, stops = starts[:-1], stops[:-1]
        capacity = len(data) // 2 + 1  # of an entry's shortest form, `0,` in `args`; what is not used costs nothing
        names = self._names
        types, positional, begin, entries = scan(
            buffer, starts, stops, names.letters, names.ends, names.slots, names.types, capacity
        )
        types[not_utf8(data, starts)] = ODD
        filled = np.flatnonzero(types != BLANK)
        order = np.full(len(types), -1, np.int64)
        order[filled] = np.arange(first, first + len(filled))
        block = self._block(file, starts, filled, len(data), position, line, first, data)
        self._settle(types)

        def read(row: int) -> Record:
            return read_line(data[starts[row] : stops[row]], self._schemas, self._default, self._bound)

        records: dict[int, Record] = {}
        refused: list[Refusal] = []
        odd: dict[str, list[int]] = {}
        for row in np.flatnonzero(types == ODD).tolist():
            try:
                records[row] = read(row)
                odd.setdefault(records[row].type, []).append(row)
            except Unreadable as reason:
                refused.append((row, reason.code, reason.reason))
        tables = {}
        for i, schema in enumerate(names.schemas):
            rows = np.flatnonzero(types == i)
            if slow := odd.get(schema.name):
                rows = np.sort(np.concatenate([rows, np.array(slow, np.int64)]))
            if not len(rows):
                continue
            times, width = len(time_keys(schema)), len(time_keys(schema)) + len(schema.attributes)
            offset, length, kind, good = gather(
                rows, positional, begin, entries, *names.cells[i], times, width, len(names.index), not schema.declared
            )
            good &= types[rows] == i
            dead: list[Refusal] = []
            tables[schema.name] = table(
                schema,
                Cells(buffer, offset, length, kind, False),
                good,
                order[rows],
                lambda k, rows=rows: records.get(int(rows[k])) or read(int(rows[k])),  # type: ignore[misc]
                dead,
            )
            refused.extend((int(rows[k]), code, reason) for k, code, reason in dead)
        refused.sort(key=lambda refusal: refusal[0])
        if firsts := {int(found[ARRIVAL][0]): type for type, found in tables.items() if found.height}:
            row = int(filled[min(firsts) - first])
            block = replace(block, times=_form(data[starts[row] : stops[row]], self._schemas[firsts[min(firsts)]]))
        return tables, [dead_record(block, int(order[row]), code, reason) for row, code, reason in refused], block

    def _settle(self, types: NDArray[np.int32]) -> None:
        """Give lines their type by default; what then is without one of the program's types is odd."""
        if self._default is not None:
            default = next(i for i, schema in enumerate(self._names.schemas) if schema.name == self._default)
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
        size: int,
        position: int,
        line: int,
        first: int,
        data: bytes,
    ) -> Block:
        dense = len(filled) == len(starts)
        places = np.concatenate([starts if dense else starts[filled], [size]])
        return Block(file, first, len(filled), line, None if dense else filled + line, places, position, data)


def _form(line: bytes, schema: Schema) -> str:
    """How a record that can be read writes its times."""
    found = parse(line)
    first = next(found[key] for key in time_keys(schema) if found.get(key) is not None)
    return "iso" if isinstance(first, str) and not isinstance(first, Real) else "seconds"
