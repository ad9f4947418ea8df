"""A reader of InfluxDB's line protocol. The measurement of a line selects the event type. The tags and fields of the
line are the values of the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.influx_points import (
    FIELDS,
    MEASUREMENT,
    TAGS,
    TIME,
    LinePoint,
    measurement,
    read_point,
    record,
    timed,
)
from cep.connectors.formats.influx_scan import scan
from cep.connectors.formats.json_scan import BLANK, ODD, UNKNOWN, gather
from cep.connectors.formats.jsonl import with_envelope
from cep.connectors.formats.streams import line_ends, not_utf8
from cep.connectors.records.batch import Block, DeadLetter, dead_record
from cep.connectors.records.columns import Cells, UnreadableRow, table
from cep.connectors.records.keynames import name_table
from cep.connectors.records.paths import from_message, sources
from cep.connectors.records.records import Record, closest, time_keys
from cep.connectors.records.times import form, shown
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import Schema

_EXAMPLE = "`event cpu(host: string, usage_idle: float) FORMAT influx.`"


class PointReader:
    """A reader of the lines of one input, block by block.

    - `default`: the event type to which the input is bound, or None. It is only used if `bound` is True.
    - `bound`: True if the user bound the input to an event type. Then lines of other event types are unreadable. If
      the declaration of `default` names no measurement, `default` accepts every measurement that belongs to no
      other event type.
    """

    def __init__(self, schemas: Mapping[str, Schema], default: str | None, bound: bool) -> None:
        """Raise CepError if `bound` is True but the event type `default` is not declared or has a WHEN condition. Also
        raise CepError if two event types have the same measurement."""
        self._bound = schemas[default] if bound and default is not None else None
        if self._bound is not None and not self._bound.declared:
            message = f"{self._bound.name} is not declared, so it is not known which tags and fields are its values"
            raise CepError(message, hint=f"e.g. {_EXAMPLE}", code="input")
        if self._bound is not None and self._bound.when is not None:
            hint = f'leave out WHEN, and name it with `FORMAT influx(measurement: "...")` after {self._bound.name}'
            raise CepError(
                "WHEN is not used with InfluxDB lines: the measurement of a line decides which event it is",
                hint=hint,
                code="input",
            )
        schemas = {name: schema for name, schema in schemas.items() if schema.when is None}
        self._undeclared = [schema.name for schema in schemas.values() if not schema.declared]
        self._schemas = [timed(schema) for schema in schemas.values() if schema.declared]
        self._of: dict[str, int] = {}
        for number, schema in enumerate(self._schemas):
            name = measurement(schema) or schema.name
            if name in self._of:
                both = f"`{self._schemas[self._of[name]].name}` and `{schema.name}`"
                hint = "each line is one event: declare only one event, and distinguish its kinds in rules"
                raise CepError(f"{both} both have the measurement `{name}`", hint=hint, code="input")
            self._of[name] = number
        self._own = None
        if self._bound is not None:
            self._own = next(number for number, own in enumerate(self._schemas) if own.name == self._bound.name)
        self._any = self._bound is not None and measurement(self._bound) is None  # the measurement may have any name
        self._measurements = name_table(list(self._of))
        self._types = np.array(list(self._of.values()), np.int64)
        self._entries: dict[str, int] = {}
        for schema in self._schemas:
            for source in sources(schema, time_keys(schema)):
                self._entries.setdefault(source, len(self._entries))
        keys = dict.fromkeys(source.removeprefix(TAGS).removeprefix(FIELDS) for source in self._entries)
        keys.update(dict.fromkeys(self._entries))
        self._keys = name_table(list(keys))
        self._places = tuple(
            np.array([self._entries.get(prefix + key, -1) for key in keys], np.int64) for prefix in ("", TAGS, FIELDS)
        )

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
        named = self._entries.get(MEASUREMENT, -1), self._entries.get(TIME, -1), len(data)
        capacity = 2 * data.count(b"=") + 2 * len(starts)
        types, begin, entries, texts = scan(
            buffer, starts, stops, self._measurements, self._types, self._keys, self._places, named, capacity
        )
        if len(texts):
            buffer = np.concatenate([buffer, texts])
        wrong = not_utf8(data, starts)
        types[wrong[types[wrong] != BLANK]] = ODD
        filled = np.flatnonzero(types != BLANK)
        if self._own is not None:
            if self._any:
                types[types == UNKNOWN] = self._own
            types[(types >= 0) & (types != self._own)] = ODD
        types[types == UNKNOWN] = ODD
        order = np.full(len(types), -1, np.int64)
        order[filled] = first + np.arange(len(filled))
        dense = len(filled) == len(starts)
        if dense:
            block = Block(file, first, len(filled), line, None, np.append(starts, len(data)), position, data)
        else:  # comments between lines are not records
            places, texts_of = np.stack([starts, stops], axis=1)[filled].reshape(-1), 2 * np.arange(len(filled))
            block = Block(file, first, len(filled), line, filled + line, places, position, data, rows=texts_of)

        points: dict[int, Record] = {}
        refused: list[UnreadableRow] = []
        odd: dict[str, list[int]] = {}

        def read(row: int) -> Record:
            if row not in points:
                envelope = None if beside is None else {source: values[row] for source, values in beside.items()}
                point = read_point(data[starts[row] : stops[row]])
                points[row] = record(point, self._schema(point), envelope)
            return points[row]

        for row in np.flatnonzero(types == ODD).tolist():
            try:
                odd.setdefault(read(row).type, []).append(row)
            except Unreadable as reason:
                refused.append((row, reason.code, reason.reason))
        tables = {}
        for number, schema in enumerate(self._schemas):
            plain = np.flatnonzero(types == number)
            slow = np.array(odd.get(schema.name, []), np.int64)
            if not len(plain) and not len(slow):
                continue
            rows = np.union1d(plain, slow) if len(slow) else plain
            cells, good = self._cells(schema, buffer, rows, begin, entries, beside)
            good &= types[rows] == number
            dead: list[UnreadableRow] = []
            tables[schema.name] = table(
                schema,
                cells,
                good,
                order[rows],
                lambda k, rows=rows: read(int(rows[k])),  # type: ignore[misc]
                dead,
            )
            refused += [(int(rows[k]), code, reason) for k, code, reason in dead]
        refused.sort(key=lambda refusal: refusal[0])
        seen = next((name for name, frame in tables.items() if frame.height), None)
        if seen is not None:
            schema = next(schema for schema in self._schemas if schema.name == seen)
            block = replace(block, times=form(schema.format, False))
        return tables, [dead_record(block, int(order[r]), code, reason) for r, code, reason in refused], block

    def _cells(
        self,
        schema: Schema,
        buffer: NDArray[np.uint8],
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        entries: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]],
        beside: Mapping[str, Sequence[str | None]] | None,
    ) -> tuple[Cells, NDArray[np.bool_]]:
        """Return the cells of one event type's lines, and a mask of the lines from which all values were read."""
        wanted = sources(schema, time_keys(schema))
        first = np.full(len(self._entries), -1, np.int64)
        following = np.full(len(wanted), -1, np.int64)
        for cell, source in enumerate(wanted):
            following[cell] = first[self._entries[source]]
            first[self._entries[source]] = cell
        named = np.zeros(len(begin) - 1, np.bool_)
        times, width = len(time_keys(schema)), len(wanted)
        offset, length, kind, good = gather(
            rows, named, begin, entries, first, following, times, width, width, len(self._entries), False
        )
        cells = Cells(buffer, offset, length, kind, True)
        if any(map(from_message, sources(schema, ()))):
            cells = with_envelope(schema, times, cells, good, rows, beside or {})
        return cells, good

    def _schema(self, point: LinePoint) -> Schema:
        """Return the schema of the event type that a point belongs to.

        Raise Unreadable if the program has no event type for the point's measurement, or if the user bound the input to
        another event type.
        """
        name = point.measurement
        place = self._of.get(name)
        if self._bound is not None and self._own is not None:
            if place == self._own or (place is None and self._any):
                return self._schemas[self._own]
            reason = f"the measurement is `{shown(name)}`, but the input is bound to {self._bound.name}"
            if (said := measurement(self._bound)) is not None:
                reason += f", of the measurement `{said}`"
            raise Unreadable("type", reason)
        if place is not None:
            return self._schemas[place]
        if name in self._undeclared:
            raise Unreadable("type", f"{name} is not declared, so it is not known which tags and fields are its values")
        near = closest(name, list(self._of))
        hint = f'add `FORMAT influx(measurement: "{shown(name)}")` to the declaration of the event that it belongs to'
        raise Unreadable("type", f"no event of the program is called `{shown(name)}`{near}; {hint}")
