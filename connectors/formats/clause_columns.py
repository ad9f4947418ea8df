"""A fast reader of simple lines. It reads DatalogMTL facts, such as `P(a,b)@[0,1.5)`, and lines of RTEC, such as
`go_to|9|9|chris|work`.

A line is simple if it has no quotes and no inner blanks, its arguments are strings or numbers, and its numbers are
finite and have few digits. `cep.connectors.formats.clauses` defines the syntax, and reads all other lines one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.records.records import series
from cep.core.schema import ARRIVAL, Attribute, Schema
from cep.core.time import FARTHEST

BLANKS = " \t\r\x0b\x0c"
"""The characters that are stripped from both ends of a line."""
_BLANK = r"[\s\x1c-\x1f]"
_NAME = "([A-Za-z_][A-Za-z0-9_]*)"
_TERM = r'[^\s\x1c-\x1f"(),]+'
_INT, _FLOAT = r"^-?[0-9]{1,18}$", r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"
_MORE = 2
"""The number of additional attributes in a fluent's record: the end and the bounds of the interval."""


@dataclass(frozen=True, slots=True)
class PlainLines:
    """The lines of a block that the fast reader `ClauseColumns` has read.

    `tables`: the rows of each event type or fluent. The column ARRIVAL contains the line number of each row. `read`: a
    mask that is True for each line of the block that was read.
    """

    tables: dict[str, pl.DataFrame]
    read: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClauseColumns:
    """A fast reader of simple lines. Lines that it does not support must be read by another reader.

    - `schemas`: the event types and fluents that the program reads.
    - `fluents`: the names of the fluents. A line with one of these names is a record of the fluent.
    - `tick`: the length of a tick in microseconds.
    """

    schemas: Mapping[str, Schema]
    fluents: frozenset[str]
    tick: int

    # --- facts ---

    def facts(self, lines: pl.Series) -> PlainLines:
        """Read lines in the syntax of DatalogMTL facts."""
        number = self._number
        pattern = (
            rf"^{_NAME}(?:\(({_TERM}(?:,{_TERM})*)\))?@"
            rf"(?:{number}|([\[(]){number},(?:{number}|(inf))([\])]))$"
        )
        fields = lines.str.extract_groups(pattern).struct.unnest()
        fields.columns = [f"f{i}" for i in range(len(fields.columns))]
        fields = fields.with_row_index("line").filter(pl.col("f0").is_in(sorted(self.fluents)))
        low, high = self._ticks(fields, "f6", "f7", "f8"), self._ticks(fields, "f9", "f10", "f11")
        point = self._ticks(fields, "f2", "f3", "f4")
        instant = fields["f5"].is_null()
        start, end = pl.select(pl.when(instant).then(point).otherwise(low).alias("start"),
                               pl.when(instant).then(point).otherwise(high).alias("end"))  # fmt: skip
        bounds = pl.select(pl.when(instant).then(pl.lit("[]")).otherwise(fields["f5"] + fields["f13"])).to_series()
        nonempty = end.is_null() | (end > start) | ((end == start) & (bounds == "[]"))
        return self._made(
            len(lines),
            {
                str(name): (rows["line"], _split(rows["f1"], ",", len(self.schemas[str(name)].attributes) - _MORE, 0),
                            rows["start"], rows["end"], rows["bounds"])
                for (name,), rows in fields.with_columns(start.alias("start"), end.alias("end"), bounds.alias("bounds"))
                .filter(nonempty)
                .partition_by("f0", maintain_order=True, as_dict=True)
                .items()
            },
        )  # fmt: skip

    # --- RTEC ---

    def rows(self, lines: pl.Series) -> PlainLines:
        """Read lines in the syntax of RTEC's input."""
        fields = pl.DataFrame({"text": lines, "name": lines.str.extract(rf"^{_NAME}\|", 1)}).with_row_index("line")
        fields = fields.filter(pl.col("name").is_in(sorted(self.schemas)))
        untidy = fields["text"].str.contains(rf"{_BLANK}\||\|{_BLANK}|{_BLANK}$|\|$")
        forms: dict[str, list[_Found]] = {}
        for (name,), rows in fields.filter(~untidy).partition_by("name", maintain_order=True, as_dict=True).items():
            forms[str(name)] = self._forms(str(name), rows)
        plain = [self._made(len(lines), {name: form}) for name, name_forms in forms.items() for form in name_forms]
        tables: dict[str, list[pl.DataFrame]] = {}
        for lines_read in plain:
            for name, table in lines_read.tables.items():
                tables.setdefault(name, []).append(table)
        read = np.zeros(len(lines), np.bool_)
        for lines_read in plain:
            read |= lines_read.read
        return PlainLines({name: pl.concat(parts).sort(ARRIVAL) for name, parts in tables.items()}, read)

    def _forms(self, name: str, rows: pl.DataFrame) -> list[_Found]:
        """Parse the lines of one event type or fluent. Return one group of parsed lines for each number of fields.

        An event type has at most one group. A fluent has up to two groups: lines with a single tick, and lines with a
        start and an end.
        """
        wanted = len(self.schemas[name].attributes)
        if name not in self.fluents:
            fields = self._fields(rows, wanted + 2, (2,))
            return [] if fields is None else [(fields[0], fields[2], fields[1][0], None, None)]
        forms: list[_Found] = []
        wanted -= _MORE
        if wanted < 1:
            return forms
        if (fields := self._fields(rows, wanted + 2, (2,))) is not None:
            lines, (time,), texts = fields
            bounds = pl.Series("", ["(]"], dtype=pl.String).new_from_index(0, len(time))
            forms.append((lines, [*texts[1:], texts[0]], time - self.tick, time, bounds))
        if (fields := self._fields(rows, wanted + 3, (2, 3))) is not None:
            lines, (first, last), texts = fields
            bounds = pl.Series("", ["(]"], dtype=pl.String).new_from_index(0, len(first))
            good = (last > first).to_numpy()
            every = (lines, *[*texts[1:], texts[0]], first - self.tick, last - self.tick, bounds)
            chosen = [column.filter(pl.Series(good)) for column in every]
            forms.append((chosen[0], chosen[1:-3], chosen[-3], chosen[-2], chosen[-1]))
        return forms

    def _fields(
        self, rows: pl.DataFrame, bars: int, times: Sequence[int]
    ) -> tuple[pl.Series, list[pl.Series], list[pl.Series]] | None:
        """Split the lines that contain the separator `|` exactly `bars` times. Return None if there is no such line.

        Otherwise, return the line numbers, the times in the fields with the indices `times`, and the fields after the
        last time. Lines with an unreadable time are left out.
        """
        rows = rows.filter(pl.col("text").str.count_matches("|", literal=True) == bars)
        if not rows.height:
            return None
        split = rows["text"].str.split_exact("|", bars).struct.unnest()
        groups = [split.to_series(time).str.extract_groups(f"^{self._number}$").struct.unnest() for time in times]
        for group in groups:
            group.columns = ["sign", "whole", "part"]
        numbers = [self._ticks(group, "sign", "whole", "part") for group in groups]
        good = pl.Series(np.logical_and.reduce([number.is_not_null().to_numpy() for number in numbers]))
        texts = [split.to_series(i).filter(good) for i in range(times[-1] + 1, bars + 1)]
        return rows["line"].filter(good), [number.filter(good) for number in numbers], texts

    # --- both ---

    @property
    def _number(self) -> str:
        """A regular expression for numbers that microseconds represent exactly. Groups: sign, whole part, decimals."""
        whole, part = 1, 0
        while 10 ** (whole + 1) * self.tick <= FARTHEST:
            whole += 1
        while part < 6 and self.tick % 10 ** (part + 1) == 0:
            part += 1
        behind = rf"(?:\.([0-9]{{1,{part}}}))?" if part else "()?"
        return rf"(-?)([0-9]{{1,{whole}}}){behind}"

    def _ticks(self, fields: pl.DataFrame, sign: str, whole: str, part: str) -> pl.Series:
        size = 0
        while size < 6 and self.tick % 10 ** (size + 1) == 0:
            size += 1
        behind = pl.col(part).str.pad_end(size, "0").cast(pl.Int64, strict=False).fill_null(0) * (self.tick // 10**size)
        time = pl.col(whole).cast(pl.Int64) * self.tick + behind
        return fields.select(pl.when(pl.col(sign) == "-").then(-time).otherwise(time).alias("time")).to_series()

    def _made(self, count: int, forms: Mapping[str, _Found]) -> PlainLines:
        """Build a table for each event type and fluent. Drop each line with an argument that `_typed` cannot convert.

        `count`: the number of lines in the block. `forms`: the parsed lines of each event type or fluent.
        """
        read = np.zeros(count, np.bool_)
        tables: dict[str, pl.DataFrame] = {}
        for name, (lines, texts, start, end, bounds) in forms.items():
            attributes = self.schemas[name].attributes
            own = attributes[:-_MORE] if bounds is not None else attributes
            if len(texts) != len(own):
                continue
            columns = [_typed(attribute, text) for attribute, text in zip(own, texts)]
            if any(column is None for column in columns):
                continue
            every = [column for column in columns if column is not None]
            good = np.ones(len(lines), np.bool_)
            for column in every:
                good &= column.is_not_null().to_numpy()
            by_name = {"start": start, "end": start, ARRIVAL: lines.cast(pl.Int64)}
            by_name |= {attribute.name: column for attribute, column in zip(own, every)}
            if bounds is not None and end is not None:
                by_name[attributes[-2].name] = end.cast(series(attributes[-2], []).dtype)
                by_name[attributes[-1].name] = bounds.cast(series(attributes[-1], []).dtype)
            table = pl.DataFrame({key: column.alias(key) for key, column in by_name.items()})
            if not good.all():
                table = table.filter(pl.Series(good))
            read[table[ARRIVAL].to_numpy()] = True
            if table.height:
                tables[name] = table
        return PlainLines(tables, read)


_Found = tuple[pl.Series, Sequence[pl.Series], pl.Series, pl.Series | None, pl.Series | None]
"""Parsed lines of one event type or fluent: line numbers, arguments, starts, ends and bounds. For an event type, the
ends and bounds are None."""


def _split(inside: pl.Series, mark: str, count: int, since: int) -> list[pl.Series]:
    """Split texts at `mark` into `count` parts. Return the parts from index `since` on, one column per part.

    A text that does not have `count` parts becomes null.
    """
    if not count:
        return []
    right = inside.str.count_matches(mark, literal=True) == count - 1
    split = inside.set(~right, None).str.split_exact(mark, count - 1).struct.unnest()
    return [split.to_series(i) for i in range(since, count)]


def _typed(attribute: Attribute, text: pl.Series) -> pl.Series | None:
    """Convert texts to an attribute's type. A text in an unusual form becomes null, for another reader to read.

    Return None if this function does not support the attribute at all.
    """
    if attribute.missing or attribute.format is not None:
        return None
    match attribute.type:
        case "string":
            return text
        case "int":
            return text.set(~text.str.contains(_INT), None).cast(pl.Int64)
        case "float":
            return text.set(~text.str.contains(_FLOAT), None).cast(pl.Float64) + 0.0
        case _:
            return None
