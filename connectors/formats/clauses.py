"""A reader of lines in the syntax of DatalogMTL, `P(a,b)@[0,1.5)`, or RTEC, `go_to|9|9|chris|work`.

A line that begins with `-` withdraws the record that the rest of the line describes: `-P(a,b)@[0,1.5)`,
`-go_to|9|9|chris|work`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.clause_columns import BLANKS, ClauseColumns, PlainLines
from cep.connectors.records.batch import Block, DeadLetter, dead_record
from cep.connectors.records.records import closest, series
from cep.connectors.records.revised import UNREVISED, without_changes
from cep.connectors.records.times import form_of_ticks
from cep.connectors.records.values import Unreadable, text_value
from cep.core.errors import CepError
from cep.core.fluents import RECORD_COLUMNS
from cep.core.literals import SECOND, read_string
from cep.core.schema import ARRIVAL, CHANGE, Schema
from cep.core.ticks import INFINITE, ticks
from cep.events import Value

WITHDRAWS = "-"
"""The mark at the start of a line that withdraws an earlier record."""
FACT = "a fact is written `P(a,b)@[0,1.5)` or `P(a)@3`"
_FACT = re.compile(r"([^\W\d]\w*)\s*(?:\((.*)\))?\s*@\s*(.+?)\s*\.?")
_TERM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^",()]+?)\s*(?:,|$)')
_INTERVAL = re.compile(r"([\[(])([^,]+),([^,]+)([\])])")

_Row = tuple[str, int, tuple[Value, ...]]
"""An occurrence of an event, or a record of a fluent: name, time and values."""
_MORE = 2
"""The number of additional attributes in a fluent's record: the end and the bounds of the interval."""


class ClauseReader:
    """A reader of the lines of one input, block by block."""

    def __init__(self, schemas: Mapping[str, Schema], format: str) -> None:
        """Raise CepError if no declaration uses the format. The declarations of a program in DatalogMTL use `facts`,
        and those of a program in RTEC use `rtec`."""
        self.schemas = without_changes({name: own for name, own in schemas.items() if own.when is None})
        self._revises = any(
            schema.attributes[-1:] and schema.attributes[-1].name == CHANGE for schema in schemas.values()
        )
        self.facts = format == "facts"
        ticks = {
            schema.records.option("tick")
            for schema in schemas.values()
            if schema.records and schema.records.name == format
        }
        if not ticks:
            dialect = "datalogmtl" if self.facts else "rtec"
            raise CepError(
                f"--format {format}: the program is not {dialect}, so its events have no names in this format",
                hint=f"use `--dialect {dialect}` or another format",
                code="input",
            )
        self.tick = int(next(iter(ticks)) or SECOND)

    def read(
        self,
        file: str,
        data: bytes,
        position: int,
        line: int,
        first: int,
        beside: Mapping[str, Sequence[str | None]] | None = None,
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]:
        """Read a block of whole lines. Return the table of each event type or fluent, the dead letters, and the
        positions of the records.

        `line`: the line number of the block's first line. `first`: the record number of its first record.
        """
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        starts = np.append(0, breaks + 1)
        if data and not data.endswith(b"\n"):
            starts = np.append(starts, len(data) + 1)
        lengths, starts = np.diff(starts) - 1, np.minimum(starts, len(data))
        try:
            every = pl.Series(data.decode("utf-8").split("\n")[: len(lengths)], dtype=pl.String).str.strip_chars(BLANKS)
            filled = ((every != "") & ~every.str.contains("^[#%]")).to_numpy()
            every = every.filter(filled)
            marked = every.str.starts_with(WITHDRAWS)
            if marked.any():
                every = every.zip_with(~marked, every.str.slice(1).str.strip_chars_start(BLANKS))
            plain, gone = self._plain(every), marked.to_numpy()
            filled = np.flatnonzero(filled)
        except UnicodeDecodeError:
            lines = [data[start : start + size].strip() for start, size in zip(starts.tolist(), lengths.tolist())]
            filled = np.flatnonzero([bool(line) and not line.startswith((b"#", b"%")) for line in lines])
            gone = np.array([lines[i].startswith(WITHDRAWS.encode()) for i in filled.tolist()], np.bool_)
            plain = PlainLines({}, np.zeros(len(filled), np.bool_))
        if len(filled) == len(lengths):
            block = Block(file, first, len(filled), line, None, starts, position, data)
        else:
            places = np.stack([starts[filled], starts[filled] + lengths[filled]], axis=1).reshape(-1)
            own = 2 * np.arange(len(filled))
            block = Block(file, first, len(filled), line, filled + line, places, position, data, rows=own)
        rows: dict[str, list[tuple[int, int, tuple[Value, ...]]]] = {}
        dead: list[DeadLetter] = []
        for which in np.flatnonzero(~plain.read).tolist():
            number, row = first + which, int(filled[which])
            try:
                text = data[starts[row] : starts[row] + lengths[row]].decode("utf-8").strip()
                text = text[1:].lstrip() if gone[which] else text
                name, time, values = self._fact(text) if self.facts else self._row(text)
                rows.setdefault(name, []).append((time, number, values))
            except UnicodeDecodeError:
                dead.append(dead_record(block, number, "utf-8", "the line is not UTF-8"))
            except Unreadable as reason:
                dead.append(dead_record(block, number, reason.code, reason.reason))
            except CepError as error:
                hint = f"; {error.hint}" if error.hint else ""
                dead.append(dead_record(block, number, "time", f"{error.message}{hint}"))
        tables = {name: [table.with_columns(pl.col(ARRIVAL) + first)] for name, table in plain.tables.items()}
        for name, event_rows in rows.items():
            tables.setdefault(name, []).append(self._table(name, event_rows))
        frames = {
            name: runs[0] if len(runs) == 1 else pl.concat(runs).sort(ARRIVAL) for name, runs in sorted(tables.items())
        }
        frames = {name: self._signed(table, gone, block, dead) for name, table in frames.items()}
        block = replace(block, times=form_of_ticks(self.tick)) if frames else block
        return dict(sorted(frames.items(), key=lambda entry: entry[1].head(1)[ARRIVAL].to_list())), dead, block

    def _signed(
        self, table: pl.DataFrame, gone: NDArray[np.bool_], block: Block, dead: list[DeadLetter]
    ) -> pl.DataFrame:
        """Add the column `@change` to a table. `gone`: a mask of the records that withdraw an earlier record.

        Only a program that revises its results can process withdrawals. For other programs, add the withdrawals to
        `dead` and drop them from the table.
        """
        withdraws = pl.Series(gone[table[ARRIVAL].to_numpy() - block.first])
        if self._revises:
            return table.with_columns(pl.when(withdraws).then(-1).otherwise(1).cast(pl.Int8).alias(CHANGE))
        numbers = table[ARRIVAL].filter(withdraws).to_list()
        dead += [dead_record(block, number, "change", UNREVISED) for number in numbers]
        return table.filter(~withdraws)

    def _plain(self, lines: pl.Series) -> PlainLines:
        fluents = frozenset(name for name in self.schemas if self._is_fluent(name) and self.schemas[name].attributes)
        events = {name: schema for name, schema in self.schemas.items() if name in fluents or not self._is_fluent(name)}
        columns = ClauseColumns(events, fluents, self.tick)
        return columns.facts(lines) if self.facts else columns.rows(lines)

    def _table(self, name: str, clauses: list[tuple[int, int, tuple[Value, ...]]]) -> pl.DataFrame:
        times = pl.Series([time for time, _, _ in clauses], dtype=pl.Int64)
        order = pl.Series([number for _, number, _ in clauses], dtype=pl.Int64)
        columns = {"start": times, "end": times, ARRIVAL: order}
        for place, attribute in enumerate(self.schemas[name].attributes):
            columns[attribute.name] = series(attribute, [values[place] for _, _, values in clauses])
        return pl.DataFrame(columns)

    def _record(self, name: str, texts: Sequence[str], span: tuple[int, int | None, str]) -> _Row:
        start, *more = span
        return name, start, (*self._values(name, texts), *more)

    def _values(self, name: str, texts: Sequence[str]) -> list[Value]:
        attributes = self.schemas[name].attributes
        wanted = attributes[:-_MORE] if self._is_fluent(name) else attributes
        if wanted and len(texts) != len(wanted):
            raise Unreadable(
                "args", f"`{name}` has {len(wanted)} arguments in the program, but {len(texts)} in this record"
            )
        return [text_value(attribute, text) for attribute, text in zip(wanted, texts)]

    def _is_fluent(self, name: str) -> bool:
        return self.schemas[name].time == RECORD_COLUMNS[0]

    def _known(self, name: str) -> str:
        if name not in self.schemas:
            raise Unreadable("type", f"the program does not read `{name}`{closest(name, list(self.schemas))}")
        return name

    def _fact(self, text: str) -> _Row:
        match = _FACT.fullmatch(text)
        if match is None:
            raise Unreadable("row", f"this is not a fact: {FACT}")
        name, inside, when = self._known(match[1]), match[2], match[3]
        texts: list[str] = []
        place = 0
        while inside is not None and place < len(inside):
            term = _TERM.match(inside, place)
            if term is None:
                raise Unreadable("row", f"`{inside[place:]}` is not a list of arguments: {FACT}")
            texts.append(read_string(term[1]) if term[1][0] == '"' else term[1])
            place = term.end()
        return self._record(name, texts, self._interval(when))

    def _interval(self, text: str) -> tuple[int, int | None, str]:
        match = _INTERVAL.fullmatch(text.replace(" ", ""))
        if match is None:
            time = self._time(text)
            if time is None or not text[-1].isdigit():
                raise Unreadable("time", f"`{text}` is not a time: {FACT}")
            return time, time, "[]"
        opening, low, high, closing = match.groups()
        start, end = self._time(low), self._time(high)
        if start is None:
            raise Unreadable("time", f"`{text}` has no beginning; write the time at which the fact begins")
        if end is None and high.startswith("-"):
            raise Unreadable("time", f"`{text}` ends before it begins")
        if end is not None and (end < start or (end == start and opening + closing != "[]")):
            raise Unreadable(
                "time", f"`{text}` ends before it begins" if end < start else f"the interval `{text}` is empty"
            )
        return start, end, opening + closing

    def _time(self, text: str) -> int | None:
        bare = text.removeprefix("+").removeprefix("-")
        if bare.lower() in INFINITE:
            return None
        return -ticks(bare, self.tick) if text.startswith("-") else ticks(bare, self.tick)

    def _row(self, text: str) -> _Row:
        """Parse a line of RTEC. It contains an event, or a fluent that holds at one tick or between two ticks."""
        name, *fields = (part.strip() for part in text.split("|"))
        if len(fields) < 2:
            raise Unreadable("row", "this line is not `event|arrival|time|arguments..`, such as `go_to|9|9|chris|work`")
        if not self._is_fluent(self._known(name)):
            return name, self._tick(fields[1]), tuple(self._values(name, fields[2:]))
        if not self.schemas[name].attributes:  # read only the times
            return name, self._tick(fields[1]) - self.tick, ()
        wanted = len(self.schemas[name].attributes) - _MORE
        if len(fields) == wanted + 2:
            first, (value, *texts) = self._tick(fields[1]), fields[2:]
            return self._record(name, [*texts, value], (first - self.tick, first, "(]"))
        if len(fields) < 4:
            raise Unreadable(
                "args", f"`{name}` is a fluent, and is written `{name}|arrival|start|end|value|arguments..`"
            )
        first, last = self._tick(fields[1]), None if fields[2].lower() in INFINITE else self._tick(fields[2])
        value, *texts = fields[3:]
        if last is not None and last <= first:
            raise Unreadable("time", f"the interval from {fields[1]} to {fields[2]} is empty")
        until = None if last is None else last - self.tick
        return self._record(name, [*texts, value], (first - self.tick, until, "(]"))

    def _tick(self, text: str) -> int:
        time = self._time(text)
        if time is None:
            raise Unreadable("time", f"`{text}` is not a time")
        return time
