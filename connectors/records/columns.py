"""Fast conversion of cells to columns, for many rows of one event type. `cep.connectors.records.records` reads the rows
that this module cannot convert, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.records.cells import copy, counts, halves, mark_absent, numbers, read_ticks, without_marks
from cep.connectors.records.numbers import (
    BAD,
    ESCAPED,
    FALSE,
    GOOD,
    HARD,
    MISSING,
    NULL,
    NUMBER,
    STRING,
    TRUE,
)
from cep.connectors.records.patterns import compiled, join, read_patterns
from cep.connectors.records.record_tests import Tested
from cep.connectors.records.records import Record, parse, part_patterns, series, time_keys
from cep.connectors.records.times import FIRST, FIXED, LAST, SHIFTS, of_duration
from cep.connectors.records.values import COUNTED, FALSE_WORDS, NUMERIC, TRUE_WORDS, Unreadable, json_value, text_value
from cep.core.schema import ARRIVAL, Attribute, Schema, TimeFormat
from cep.core.time_pattern import whole_digits
from cep.core.zones import zone
from cep.events import Value

UnreadableRow = tuple[int, str, str]
"""A row that cannot be read: the index of the row, the code and the reason.

It is stored instead of an exception, because an exception would keep its stack frames in memory.
"""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
States = NDArray[np.uint8]
Buffer = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of n rows, as positions in a buffer. The matrices have one row per column of the event type: first the
    `time_keys`, then the attributes.

    - `textual`: True if the cells are text fields (CSV), False if they are JSON. In text fields, a STRING may be a
      number, and ESCAPED cells have doubled quotes.
    - `texts`: the indices of columns that are text fields although the other columns are JSON. Their values come
      from the message's envelope.
    - `point`: the decimal mark.
    - `quote`: the quotation mark, which text fields contain twice if it is part of the text.
    - `thousands`: the mark between groups of digits.
    """

    buffer: Buffer
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    kind: NDArray[np.uint8]
    textual: bool
    texts: frozenset[int] = frozenset()
    point: int = ord(".")
    quote: int = ord('"')
    thousands: str | None = None

    def plain(self, c: int) -> Cells:
        """Return the cells of one column of numbers, without the marks between groups of digits."""
        assert self.thousands is not None, "there are such"
        mark = np.frombuffer(self.thousands.encode(), np.uint8)
        data, offset, length = without_marks(
            self.buffer, self.offset[c], self.length[c], self.kind[c], mark, self.point
        )
        return Cells(data, offset[None], length[None], self.kind[c][None], True, frozenset(), self.point, self.quote)

    def as_text(self) -> Cells:
        """Return a copy whose cells are text fields."""
        return replace(self, textual=True, point=ord("."), thousands=None)

    def some(self, rows: Bools | Ints) -> Cells:
        return replace(self, offset=self.offset[:, rows], length=self.length[:, rows], kind=self.kind[:, rows])

    def between(self, first: int, beyond: int) -> Cells:
        """Return the cells of the columns from `first` to `beyond` (exclusive), which must be text fields."""
        here = slice(first, beyond)
        return replace(self, offset=self.offset[here], length=self.length[here], kind=self.kind[here])

    def column(self, c: int) -> Cells:
        """Return the cells of one column. They are `textual` if the column is one of `texts`."""
        here = slice(c, c + 1)
        own = self.offset[here], self.length[here], self.kind[here], self.textual or c in self.texts
        return Cells(self.buffer, *own, frozenset(), self.point, self.quote, self.thousands)


def table(
    schema: Schema,
    cells: Cells,
    good: Bools,
    order: Ints,
    read: Callable[[int], Record],
    dead: list[UnreadableRow],
) -> pl.DataFrame:
    """Convert the cells to a table with the columns `start`, `end` and `@order`, and one column per attribute.

    `good`: a mask of the rows that may be converted column by column. `read`: a function that reads a single row, by
    its index. It is called for all other rows, and for rows that have a cell in an unusual form. Rows that it cannot
    read are added to `dead`.
    """
    start, end, states = _times(schema, cells)
    good = good & (states == GOOD)
    decoded = []
    for attribute, c in zip(schema.attributes, range(len(time_keys(schema)), len(cells.kind))):
        own, index_of_column = (cells.column(c), 0) if c in cells.texts else (cells, c)
        if cells.thousands is not None and attribute.type in COUNTED:
            own, index_of_column = cells.plain(c), 0
        doubtful = absent(attribute, own, index_of_column) if attribute.missing else None
        values, states = _decode(attribute, own, index_of_column)
        if doubtful is not None:
            good &= ~doubtful
        good &= states != BAD
        decoded.append((attribute, values, states == MISSING))
    if good.all():
        fast = {"start": pl.Series(start), "end": pl.Series(end), ARRIVAL: pl.Series(order)}
        fast.update((attribute.name, _series(values, missing)) for attribute, values, missing in decoded)
        return pl.DataFrame(fast)
    kept = pl.Series(good)
    records: list[tuple[int, Record]] = []
    for row in np.flatnonzero(~good).tolist():
        try:
            records.append((row, read(row)))
        except Unreadable as reason:
            dead.append((row, reason.code, reason.reason))
    slow = [row for row, _ in records]
    index = np.argsort(np.concatenate([np.flatnonzero(good), np.array(slow, np.int64)]), kind="stable")

    def together(name: str, column: NDArray[np.int64], further: Sequence[int]) -> pl.Series:
        return pl.Series(name, np.concatenate([column[good], np.array(further, np.int64)])[index])

    columns = [
        together("start", start, [record.start for _, record in records]),
        together("end", end, [record.end for _, record in records]),
        together(ARRIVAL, order, order[slow].tolist()),
    ]
    for place, (attribute, values, missing) in enumerate(decoded):
        plain = _series(values, missing).filter(kept).alias(attribute.name)
        odd = [record.values[place] for _, record in records]
        columns.append(_joined(attribute, plain, odd).gather(index) if odd else plain)
    return pl.DataFrame(columns)


def _joined(attribute: Attribute, plain: pl.Series, odd: list[Value]) -> pl.Series:
    if attribute.type == "any":
        return series(attribute, plain.to_list() + odd)
    return pl.concat([plain, series(attribute, odd)])


def _series(values: NDArray[Any] | pl.Series, missing: Bools) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    if not missing.any():
        return pl.Series(values)
    both = pl.DataFrame({"value": values, "there": ~missing})  # pyarrow's cast would load pandas, which takes a second
    return both.select(pl.when("there").then("value")).to_series()


def _times(schema: Schema, cells: Cells) -> tuple[Ints, Ints, States]:
    """Return each row's start, end and state. The state is GOOD if the row has exactly the required times."""
    keys = time_keys(schema)
    if schema.further:
        time, state = ticks(joined(cells, schema.format, len(keys)), 0, True, schema.format)
        return time, time, state
    if len(keys) == 2 and keys[0] == keys[1]:
        return intervals(schema, cells)
    columns = [ticks(cells, c, True, schema.format) for c in range(len(keys))]
    if len(keys) == 1:
        return columns[0][0], columns[0][0], columns[0][1]
    (start, first), (end, last) = columns[-2:]
    both = np.where((first == GOOD) & (last == GOOD), GOOD, BAD).astype(np.uint8)
    if len(keys) == 2:
        return start, end, both
    time, state = columns[0]
    point = state == GOOD
    alone = (first == MISSING) & (last == MISSING)
    good = np.where(point, alone, (state == MISSING) & (both == GOOD))
    return np.where(point, time, start), np.where(point, time, end), np.where(good, GOOD, BAD).astype(np.uint8)


def intervals(schema: Schema, cells: Cells) -> tuple[Ints, Ints, States]:
    """Read intervals from one column. Return the start, the end and the state of each row.

    The forms `start/end` and `start/PT1H` are supported. Rows in other forms are BAD, and `records` reads them.
    """
    first, length = cells.offset[0].astype(np.int64), np.where(cells.kind[0] == STRING, cells.length[0], 0)
    slash = halves(cells.buffer, first, length)
    kind = np.where(slash > first, STRING, NULL).astype(np.uint8)
    sizes = np.maximum(slash - 1 - first, 0), np.where(slash > first, first + length - slash, 0)
    start, end = (
        replace(cells, offset=begin.astype(np.int32)[None], length=size.astype(np.int32)[None], kind=kind[None])
        for begin, size in zip((first, np.maximum(slash, 0)), sizes)
    )
    begins, good = ticks(start, 0, True, schema.format)
    ends, states = ticks(end, 0, True, schema.format)
    rows = np.flatnonzero(states == BAD)
    lengths = pl.DataFrame({"text": strings(end, 0, rows)[0]})
    known = lengths.unique().with_columns(pl.col("text").map_elements(_length, pl.Int64).alias("length"))
    lengths_of_rows = lengths.join(known, "text", "left", maintain_order="left")["length"]
    is_known = lengths_of_rows.is_not_null().to_numpy()
    later = FIXED if schema.format is not None and schema.format.fold == "order" else 0
    ends[rows[is_known]] = begins[rows[is_known]] + lengths_of_rows.drop_nulls().to_numpy() + later
    states[rows[is_known]] = GOOD
    return begins, ends, np.where((good == GOOD) & (states == GOOD), GOOD, BAD).astype(np.uint8)


def _length(text: str) -> int | None:
    try:
        return of_duration(text) if text.startswith("P") else None
    except ValueError:
        return None


def _decode(attribute: Attribute, cells: Cells, c: int) -> tuple[NDArray[Any] | pl.Series, States]:
    if attribute.quoted and not cells.textual:
        cells, c = cells.column(c).as_text(), 0
    match attribute.type:
        case "int":
            return _whole(cells, c)
        case "float":
            return floats(cells, c)
        case "bool":
            return bools(cells, c)
        case "string" | "iri":
            return _texts(cells, c, attribute.type == "iri")
        case "any":
            return _anything(attribute, cells, c)
    return ticks(cells, c, attribute.type == "time", attribute.format)


def ticks(cells: Cells, c: int, calendar: bool, format: TimeFormat | None = None) -> tuple[Ints, States]:
    """Convert the times or durations in column `c` to microseconds. Return the microseconds and the state of each cell.

    `format`: the declared format. If it is None, the column contains seconds. `calendar`: True if the column contains
    times, which may also be in ISO 8601.
    """
    where = cells.buffer, cells.offset[c], cells.length[c], cells.kind[c]
    if format is not None and format.unit is not None:
        since: tuple[Ints, States] = counts(*where, SHIFTS[format.unit], calendar, cells.textual, cells.point)
        return since
    if format is not None and format.pattern is not None:
        digits = whole_digits(format.pattern) or (0, 0)
        times, absolute, states = read_patterns(*where, compiled(format.pattern), *digits, cells.textual)
    else:
        times, absolute, states = read_ticks(*where, cells.textual, calendar, cells.point)
    if format is not None and format.zone is not None:
        local = (states == GOOD) & ~absolute
        if format.fold == "order":
            states[(states == GOOD) & absolute] = BAD
        if local.all():
            times, exists = zone(format.zone).utc(times, format.later)
            states[~exists] = BAD
        elif local.any():
            times[local], exists = zone(format.zone).utc(times[local], format.later)
            states[np.flatnonzero(local)[~exists]] = BAD
        states[(times < FIRST) | (times > LAST)] = BAD
    return times, states


def text_cells(texts: pl.Series) -> Cells:
    array: Any = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    buffer = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    kind = np.where(texts.is_not_null().to_numpy(), STRING, NULL).astype(np.uint8)
    offset, length = ends[:-1].astype(np.int32), np.diff(ends).astype(np.int32)
    return Cells(buffer, offset[None], length[None], kind[None], False)


def quoted_numbers(attribute: Attribute, texts: pl.Series) -> tuple[pl.Series, Ints]:
    """Convert texts to numbers of the attribute's type. A number is null if its text is missing or has an unusual form.

    Return the numbers, and the indices of the rows whose text has an unusual form. These rows must be read one by one.
    """
    cells = text_cells(texts).as_text()
    values, states = _whole(cells, 0) if attribute.type == "int" else floats(cells, 0)
    return _series(values, states != GOOD), np.flatnonzero(states == BAD)


def joined(cells: Cells, format: TimeFormat | None, columns: int) -> Cells:
    """Join the first `columns` cells of each row with blanks: the parts of a time, such as a date and a clock time."""
    parts = slice(0, columns)
    digits = [(part and whole_digits(part)) or (0, 0) for part in part_patterns(format, columns)]
    where = cells.buffer, cells.offset[parts], cells.length[parts], cells.kind[parts]
    data, offset, length, kind = join(*where, np.array(digits, np.int64), cells.textual)
    return Cells(data, offset[None], length[None], kind[None], True, frozenset(), cells.point)


def absent(attribute: Attribute, cells: Cells, c: int) -> Bools:
    """Mark the cells of column `c` whose value the declaration defines as missing.

    Return a mask of the rows for which this function cannot decide. They must be read one by one.
    """
    assert attribute.missing is not None, "there is something"
    numeric = attribute.type in NUMERIC
    texts = [
        str(absent_value).encode() for absent_value in attribute.missing if isinstance(absent_value, str) or not numeric
    ]
    numbers = (
        [float(absent_value) for absent_value in attribute.missing if not isinstance(absent_value, str)]
        if numeric
        else []
    )
    doubtful: Bools = mark_absent(
        cells.buffer,
        cells.offset[c],
        cells.length[c],
        cells.kind[c],
        np.frombuffer(b"".join(texts), np.uint8),
        np.cumsum([0] + [len(text) for text in texts]),
        np.array(numbers, np.float64),
        numeric,
        cells.point if cells.textual else ord("."),
    )
    return doubtful


def _whole(cells: Cells, c: int) -> tuple[Ints, States]:
    where = cells.buffer, cells.offset[c], cells.length[c], cells.kind[c]
    values = np.zeros(cells.kind.shape[1], np.int64)
    return values, numbers(values, *where, cells.textual, cells.point, True)


def floats(cells: Cells, c: int) -> tuple[NDArray[np.float64], States]:
    where = cells.buffer, cells.offset[c], cells.length[c], cells.kind[c]
    values = np.zeros(cells.kind.shape[1], np.float64)
    states = numbers(values, *where, cells.textual, cells.point, False)
    hard = np.flatnonzero(states == HARD)
    if len(hard):
        texts, _ = strings(cells, c, hard)
        if cells.point != ord("."):
            texts = texts.str.replace(chr(cells.point), ".", literal=True)
        read = texts.str.strip_chars(" \t").cast(pl.Float64).to_numpy() + 0.0
        values[hard] = read
        states[hard] = np.where(np.isfinite(read), GOOD, BAD)
    return values, states


def bools(cells: Cells, c: int) -> tuple[Bools, States]:
    """Read a column of booleans. In JSON, they are `true` and `false`. In text fields and in JSON strings and numbers,
    they may also be `yes`, `no`, `1` and `0`."""
    kind = cells.kind[c].copy()
    texts = np.flatnonzero((kind >= NUMBER) & (kind <= ESCAPED))
    if len(texts):
        words = strings(cells, c, texts)[0].str.strip_chars(" \t").str.to_lowercase()
        yes, no = words.is_in(TRUE_WORDS).fill_null(False), words.is_in(FALSE_WORDS).fill_null(False)
        kind[texts] = np.select([yes.to_numpy(), no.to_numpy()], [TRUE, FALSE], NUMBER)
    states = np.where(kind <= NULL, MISSING, np.where((kind == TRUE) | (kind == FALSE), GOOD, BAD))
    return kind == TRUE, states.astype(np.uint8)


def _texts(cells: Cells, c: int, iri: bool) -> tuple[pl.Series, States]:
    texts, states = strings(cells, c, np.arange(cells.kind.shape[1]))
    if iri:
        wrong = (texts.str.contains(r'[\x00-\x20<>"{}|^`\\]') | (texts == "")).fill_null(False).to_numpy()
        states[wrong] = BAD
    return texts, states


def _anything(attribute: Attribute, cells: Cells, c: int) -> tuple[NDArray[Any] | pl.Series, States]:
    """Read a column of type `any`.

    If all values are of one kind, the column gets the type of this kind. If they are numbers, the type is integer if
    all numbers are whole, and float otherwise. Other rows are left to the slower reader: text fields, values of several
    kinds, and numbers of 2**53 or more.
    """
    kinds = set(np.unique(cells.kind[c]).tolist()) - {0, NULL}
    if not cells.textual:
        if kinds <= {STRING, ESCAPED}:
            return _texts(cells, c, False)
        if kinds <= {TRUE, FALSE}:
            return bools(cells, c)
        if kinds == {NUMBER}:
            ints, states = _whole(cells, c)
            exact = not (np.abs(ints) >= 2**53).any()  # above, a number with a point may differ
            if exact and not (states == BAD).any():
                return ints, states
            sizes, states = floats(cells, c)
            if not (np.abs(sizes[states == GOOD]) >= 2**53).any():
                return sizes, states
    values: list[Value] = []
    states = np.full(cells.kind.shape[1], GOOD, np.uint8)
    for row, kind in enumerate(cells.kind[c].tolist()):
        value: Value = None
        try:
            if kind > NULL:
                value = _value(attribute, cells, c, row)
        except Unreadable:
            states[row] = BAD
        values.append(value)
    return series(attribute, values), states


def field(cells: Cells, c: int, row: int) -> str | None:
    """Return the text of a text field, or None if the field is missing. Raise Unreadable if the text is not UTF-8."""
    if cells.kind[c, row] <= NULL:
        return None
    raw = _raw(cells, c, row)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("utf-8", "a field is not UTF-8") from None
    mark = chr(cells.quote)
    return text.replace(2 * mark, mark) if cells.kind[c, row] == ESCAPED else text


def _value(attribute: Attribute, cells: Cells, c: int, row: int) -> Value:
    if cells.textual:
        return text_value(attribute, field(cells, c, row), chr(cells.point), cells.thousands)
    quoted = cells.kind[c, row] in (STRING, ESCAPED)
    return json_value(attribute, parse(b'"' + _raw(cells, c, row) + b'"' if quoted else _raw(cells, c, row)))


def _raw(cells: Cells, c: int, row: int) -> bytes:
    first = int(cells.offset[c, row])
    return cells.buffer[first : first + int(cells.length[c, row])].tobytes()


def strings(cells: Cells, c: int, rows: Ints) -> tuple[pl.Series, States]:
    """Return the texts of column `c` in the rows `rows`, or null if missing or BAD, and the state of each text."""
    data, ends, bits, states = copy(
        cells.buffer, cells.offset[c], cells.length[c], cells.kind[c], cells.textual, rows, cells.quote
    )
    buffers = [pa.py_buffer(bits), pa.py_buffer(ends), pa.py_buffer(data)]
    return pl.Series(
        pl.from_arrow(pa.LargeStringArray.from_buffers(len(rows), buffers[1], buffers[2], buffers[0]))
    ), states


class CellValues:
    """The values of column `c` of cells, as WHEN conditions test them. Text fields may be numbers or booleans, too."""

    def __init__(self, cells: Cells, c: int) -> None:
        if c in cells.texts:
            cells, c = cells.column(c), 0
        self._cells, self._c = cells, c

    def there(self) -> Bools:
        present: Bools = self._cells.kind[self._c] > NULL
        return present

    def texts(self) -> pl.Series:
        return strings(self._cells, self._c, np.arange(self._cells.kind.shape[1]))[0]

    def numbers(self) -> NDArray[np.float64]:
        values, states = floats(self._cells, self._c)
        return np.where((states == GOOD) & self.there(), values, np.nan)

    def flags(self) -> tuple[Bools, Bools]:
        if not self._cells.textual:
            kind = self._cells.kind[self._c]
            return kind == TRUE, kind == FALSE
        yes, states = bools(self._cells, self._c)
        present = (states == GOOD) & self.there()
        return yes & present, ~yes & present


def of_cells(cells: Cells, sources: Sequence[str]) -> Callable[[str], Tested]:
    """Return a function that returns the values of a source. `sources`: the source of each column of the cells."""
    return lambda source: CellValues(cells, sources.index(source))
