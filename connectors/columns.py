"""Cells of text to columns: the fast reading of many rows of one event, leaving odd rows to `records`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.schema import ARRIVAL, Attribute, Schema
from cep.events import Value
from connectors.numbers import (
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
    read_float,
    read_int,
    read_iso,
    read_seconds,
    unescape,
)
from connectors.records import Record, Unreadable, json_value, parse, series, text_value, time_keys
from connectors.times import FIRST, LAST

Refusal = tuple[int, str, str]
"""A row, the code and the reason why it cannot be read. (An exception kept would keep all it has seen.)"""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
States = NDArray[np.uint8]
Buffer = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the cells of n rows lie: matrices of a row a column, first the `time_keys`, then the attributes.

    `textual`: text fields (CSV), so a STRING may be a number and ESCAPED has doubled quotes; else JSON.
    """

    buffer: Buffer
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    kind: NDArray[np.uint8]
    textual: bool


def table(
    schema: Schema,
    cells: Cells,
    good: Bools,
    order: Ints,
    read: Callable[[int], Record],
    dead: list[Refusal],
) -> pl.DataFrame:
    """The rows as a table, start, end, order, then the attributes.

    A row that is not `good`, or has a cell that is not plain, is read by `read`, by its index; what that refuses goes
    to `dead`.
    """
    start, end, states = _times(schema, cells)
    good = good & (states == GOOD)
    decoded = []
    for attribute, c in zip(schema.attributes, range(len(time_keys(schema)), len(cells.kind))):
        values, states = _decode(attribute, cells, c)
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

    def together(name: str, column: NDArray[np.int64], given: Sequence[int]) -> pl.Series:
        return pl.Series(name, np.concatenate([column[good], np.array(given, np.int64)])[index])

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
    both = pl.DataFrame({"value": values, "there": ~missing})  # by pyarrow it would load pandas, for a second
    return both.select(pl.when("there").then("value")).to_series()


def _times(schema: Schema, cells: Cells) -> tuple[Ints, Ints, States]:
    """Start and end, and which rows are GOOD: those that give exactly what the schema asks for."""
    keys = time_keys(schema)
    given = [ticks(cells, c, True) for c in range(len(keys))]
    if len(keys) == 1:
        return given[0][0], given[0][0], given[0][1]
    (start, first), (end, last) = given[-2:]
    both = np.where((first == GOOD) & (last == GOOD), GOOD, BAD).astype(np.uint8)
    if len(keys) == 2:
        return start, end, both
    time, state = given[0]
    point = state == GOOD
    alone = (first == MISSING) & (last == MISSING)
    good = np.where(point, alone, (state == MISSING) & (both == GOOD))
    return np.where(point, time, start), np.where(point, time, end), np.where(good, GOOD, BAD).astype(np.uint8)


def _decode(attribute: Attribute, cells: Cells, c: int) -> tuple[NDArray[Any] | pl.Series, States]:
    match attribute.type:
        case "int":
            return _whole(cells, c)
        case "float":
            return _floats(cells, c)
        case "bool":
            return _bools(cells, c)
        case "string" | "iri":
            return _texts(cells, c, attribute.type == "iri")
        case "any":
            return _anything(attribute, cells, c)
    return ticks(cells, c, attribute.type == "time")


def ticks(cells: Cells, c: int, calendar: bool) -> tuple[Ints, States]:
    """A column of seconds, or where `calendar` ISO 8601 as well, as microseconds."""
    found: tuple[Ints, States] = _read_ticks(
        cells.buffer, cells.offset[c], cells.length[c], cells.kind[c], cells.textual, calendar
    )
    return found


def _whole(cells: Cells, c: int) -> tuple[Ints, States]:
    found: tuple[Ints, States] = _ints(cells.buffer, cells.offset[c], cells.length[c], cells.kind[c], cells.textual)
    return found


def _floats(cells: Cells, c: int) -> tuple[NDArray[np.float64], States]:
    values, states = _read_floats(cells.buffer, cells.offset[c], cells.length[c], cells.kind[c], cells.textual)
    hard = np.flatnonzero(states == HARD)
    if len(hard):
        texts, _ = _strings(cells, c, hard)
        read = texts.str.strip_chars(" \t").cast(pl.Float64).to_numpy() + 0.0
        values[hard] = read
        states[hard] = np.where(np.isfinite(read), GOOD, BAD)
    return values, states


def _bools(cells: Cells, c: int) -> tuple[Bools, States]:
    kind = cells.kind[c]
    if cells.textual:
        kind = kind.copy()
        texts = np.flatnonzero(kind >= NUMBER)
        words = _strings(cells, c, texts)[0].str.strip_chars(" \t").str.to_lowercase()
        kind[texts] = np.select([(words == "true").to_numpy(), (words == "false").to_numpy()], [TRUE, FALSE], NUMBER)
    states = np.where(kind <= NULL, MISSING, np.where((kind == TRUE) | (kind == FALSE), GOOD, BAD))
    return kind == TRUE, states.astype(np.uint8)


def _texts(cells: Cells, c: int, iri: bool) -> tuple[pl.Series, States]:
    texts, states = _strings(cells, c, np.arange(cells.kind.shape[1]))
    if iri:
        wrong = (texts.str.contains(r'[\x00-\x20<>"{}|^`\\]') | (texts == "")).fill_null(False).to_numpy()
        states[wrong] = BAD
    return texts, states


def _anything(attribute: Attribute, cells: Cells, c: int) -> tuple[NDArray[Any] | pl.Series, States]:
    """Columns of one kind as that kind, numbers as ints where all are whole; mixtures value by value."""
    kinds = set(np.unique(cells.kind[c]).tolist()) - {0, NULL}
    if not cells.textual:
        if kinds <= {STRING, ESCAPED}:
            return _texts(cells, c, False)
        if kinds <= {TRUE, FALSE}:
            return _bools(cells, c)
        if kinds == {NUMBER}:
            ints, states = _whole(cells, c)
            exact = not (np.abs(ints) >= 2**53).any()  # beyond, what is written with a point is not the integer
            if exact and not (states == BAD).any():
                return ints, states
            floats, states = _floats(cells, c)
            if not (np.abs(floats[states == GOOD]) >= 2**53).any():
                return floats, states
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
    """The text of a text cell, None where missing. Unreadable: not UTF-8."""
    if cells.kind[c, row] <= NULL:
        return None
    raw = _raw(cells, c, row)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("utf-8", "a field is not UTF-8") from None
    return text.replace('""', '"') if cells.kind[c, row] == ESCAPED else text


def _value(attribute: Attribute, cells: Cells, c: int, row: int) -> Value:
    if cells.textual:
        return text_value(attribute, field(cells, c, row))
    quoted = cells.kind[c, row] in (STRING, ESCAPED)
    return json_value(attribute, parse(b'"' + _raw(cells, c, row) + b'"' if quoted else _raw(cells, c, row)))


def _raw(cells: Cells, c: int, row: int) -> bytes:
    first = int(cells.offset[c, row])
    return cells.buffer[first : first + int(cells.length[c, row])].tobytes()


def _strings(cells: Cells, c: int, rows: Ints) -> tuple[pl.Series, States]:
    """The texts of some rows; null where missing or BAD."""
    data, ends, bits, states = _copy(cells.buffer, cells.offset[c], cells.length[c], cells.kind[c], cells.textual, rows)
    buffers = [pa.py_buffer(bits), pa.py_buffer(ends), pa.py_buffer(data)]
    return pl.Series(
        pl.from_arrow(pa.LargeStringArray.from_buffers(len(rows), buffers[1], buffers[2], buffers[0]))
    ), states


@njit(cache=True)
def _trim(buffer, i, stop):  # type: ignore[no-untyped-def]
    while i < stop and (buffer[i] == 32 or buffer[i] == 9):
        i += 1
    while i < stop and (buffer[stop - 1] == 32 or buffer[stop - 1] == 9):
        stop -= 1
    return i, stop


@njit(linear=True, cache=True)
def _ints(buffer, offset, length, kind, textual):  # type: ignore[no-untyped-def]
    n = len(kind)
    values = np.zeros(n, np.int64)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        states[row] = BAD
        if kind[row] == NUMBER or (textual and kind[row] == STRING):
            i, stop = _trim(buffer, offset[row], offset[row] + length[row])
            values[row], states[row] = read_int(buffer, i, stop)
    return values, states


@njit(linear=True, cache=True)
def _read_floats(buffer, offset, length, kind, textual):  # type: ignore[no-untyped-def]
    n = len(kind)
    values = np.zeros(n, np.float64)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        states[row] = BAD
        if kind[row] == NUMBER or (textual and kind[row] == STRING):
            i, stop = _trim(buffer, offset[row], offset[row] + length[row])
            values[row], states[row] = read_float(buffer, i, stop)
    return values, states


@njit(linear=True, cache=True)
def _read_ticks(buffer, offset, length, kind, textual, calendar):  # type: ignore[no-untyped-def]
    """Seconds, and where `calendar` ISO 8601, as microseconds."""
    n = len(kind)
    values = np.zeros(n, np.int64)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        i, stop = offset[row], offset[row] + length[row]
        states[row] = BAD
        if textual:
            i, stop = _trim(buffer, i, stop)
        if kind[row] == NUMBER or (textual and kind[row] == STRING):
            values[row], states[row] = read_seconds(buffer, i, stop)
        if kind[row] == STRING and states[row] == BAD and calendar:
            values[row], states[row] = read_iso(buffer, i, stop)
        if calendar and not FIRST <= values[row] <= LAST:
            states[row] = BAD
    return values, states


@njit(linear=True, cache=True)
def _copy(buffer, offset, length, kind, textual, rows):  # type: ignore[no-untyped-def]
    """Texts one after the other, their ends, the bits of those that are there, states. A text is as long as its cell at
    most."""
    n = len(rows)
    size = 0
    for row in rows:
        if kind[row] > NULL:
            size += length[row]
    data = np.empty(size, np.uint8)
    ends = np.zeros(n + 1, np.int64)
    bits = np.zeros((n + 7) // 8, np.uint8)
    states = np.zeros(n, np.uint8)
    for k in range(n):
        row = rows[k]
        o = ends[k]
        first, stop = offset[row], offset[row] + length[row]
        if kind[row] == STRING or kind[row] == NUMBER:
            for i in range(first, stop):
                data[o] = buffer[i]
                o += 1
            states[k] = GOOD if kind[row] == STRING else BAD
        elif kind[row] == ESCAPED:
            states[k] = GOOD
            if textual:
                i = first
                while i < stop:
                    data[o] = buffer[i]
                    o += 1
                    i += 2 if buffer[i] == 34 else 1
            else:
                end = unescape(buffer, first, stop, data, o)
                if end < 0:
                    states[k] = BAD
                else:
                    o = end
        elif kind[row] > NULL:
            states[k] = BAD
        ends[k + 1] = o
        if kind[row] == NUMBER or states[k] == GOOD:
            bits[k >> 3] |= np.uint8(1 << (k & 7))
    return data, ends, bits, states
