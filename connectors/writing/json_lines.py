"""A compiled writer of tables as lines of JSON. It converts each column to texts, and joins the texts of each row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.records.times import DECIMALS, FIRST, LAST, SECOND, SECONDS, unit_of
from cep.core.kernels import njit

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_NULL = np.frombuffer(b"null", np.uint8)


class TextPieces:
    """Consecutive texts in one buffer, `data`. The text with the number i is data[ends[i]:ends[i + 1]]."""

    __slots__ = ("data", "ends")

    def __init__(self, data: Bytes, ends: Ints) -> None:
        self.data = data
        self.ends = ends


def as_json(column: pl.Series, type: str, times: str) -> TextPieces:
    """Convert the values of a column to JSON. A missing value becomes null. Durations are written in seconds.

    `times`: the format of times (see `cep.connectors.records.times`).
    """
    if type in ("time", "duration"):
        return as_ticks(column, times if type == "time" else SECONDS)
    if column.dtype == pl.Object or isinstance(column.dtype, (pl.List, pl.Struct)):
        texts = [json.dumps(value, ensure_ascii=False, allow_nan=False) for value in column.to_list()]
        return as_is(pl.Series(texts, dtype=pl.String))
    if column.dtype == pl.String or isinstance(column.dtype, (pl.Categorical, pl.Enum)):
        data, ends, present = _buffers(column.cast(pl.String))
        return TextPieces(*_escape(data, ends, present))
    if column.dtype.is_float():
        column = column.cast(pl.Float64)
        column = column.set(~column.is_finite().fill_null(False), None) + 0.0
    return as_is(column.cast(pl.String))


def as_is(column: pl.Series) -> TextPieces:
    """Convert a column of texts that are already JSON to pieces. A missing value becomes null."""
    data, ends, present = _buffers(column)
    return TextPieces(data, ends) if present.all() else TextPieces(*_nulls(data, ends, present))


def as_ticks(column: pl.Series, times: str) -> TextPieces:
    """Convert a column of microseconds to JSON, as times in the format `times`. Times in ISO 8601 are quoted. A missing
    value becomes null."""
    present = column.is_not_null().to_numpy()
    return TextPieces(*_ticks(column.fill_null(0).cast(pl.Int64).to_numpy(), present, *unit_of(times), True))


def ticks_text(column: pl.Series, times: str) -> pl.Series:
    """Convert a column of microseconds to a column of texts, in the format `times`. Times in ISO 8601 are not quoted.
    Missing values stay missing."""
    present = column.is_not_null().to_numpy()
    data, ends = _ticks(column.fill_null(0).cast(pl.Int64).to_numpy(), present, *unit_of(times), False)
    texts = as_texts(TextPieces(data, ends))
    return texts.set(~column.is_not_null(), None) if not present.all() else texts


def lines(keys: Sequence[str], type: str, columns: Sequence[TextPieces]) -> TextPieces:
    """Write each row as a JSON object and a line end. The object has the key `type`, followed by the keys `keys`.

    `type`: the value of the key `type`. `columns`: for each of the other keys, its values as JSON.
    """
    heads = [f", {json.dumps(key, ensure_ascii=False)}: ".encode() for key in keys]
    heads[0] = f'{{"type": {json.dumps(type, ensure_ascii=False)}'.encode() + heads[0]
    bases = np.cumsum([0] + [len(pieces.data) for pieces in columns])
    data = np.concatenate([pieces.data for pieces in columns])
    assert all(pieces.ends[-1] == len(pieces.data) for pieces in columns), "pieces are all of their letters"
    ends = np.stack([pieces.ends for pieces in columns])
    letters = np.frombuffer(b"".join(heads), np.uint8)
    return TextPieces(*_join(data, bases, ends, letters, np.cumsum([0] + [len(head) for head in heads])))


def merged(parts: Sequence[TextPieces], order: Ints) -> bytes:
    """Join the texts that have the numbers `order`, in this order. The texts of all parts are numbered together.

    `order` may leave out texts, and may contain a text several times.
    """
    if len(parts) == 1 and len(order) == len(parts[0].ends) - 1 and (np.diff(order) > 0).all():
        return parts[0].data.tobytes()
    if not len(order):
        return b""
    _, stops, taken = one_array(parts).take(pa.array(order)).buffers()  # copies all bytes of each text at once
    size = int(np.frombuffer(stops, np.int64)[len(order)])
    return b"" if taken is None else taken[:size].to_pybytes()


def one_array(parts: Sequence[TextPieces]) -> pa.LargeBinaryArray:
    """Concatenate all parts to one Arrow array of texts."""
    if len(parts) == 1:
        data, ends = parts[0].data, parts[0].ends
    else:
        data = np.concatenate([part.data for part in parts])
        bases = np.cumsum([0] + [len(part.data) for part in parts[:-1]])
        ends = np.concatenate([np.zeros(1, np.int64)] + [part.ends[1:] + base for part, base in zip(parts, bases)])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def _buffers(column: pl.Series) -> tuple[Bytes, Ints, NDArray[np.bool_]]:
    array: Any = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    n = len(array)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + n + 1]
    letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return letters[ends[0] : ends[-1]], ends - ends[0], column.is_not_null().to_numpy()


def as_texts(pieces: TextPieces) -> pl.Series:
    """Convert pieces to a column of texts."""
    buffers = [None, pa.py_buffer(pieces.ends), pa.py_buffer(pieces.data)]
    return pl.Series(pl.from_arrow(pa.LargeStringArray.from_buffers(len(pieces.ends) - 1, buffers[1], buffers[2])))


@njit()
def _nulls(data, ends, present):  # type: ignore[no-untyped-def]
    """Copy the texts, and write `null` for each text that is not `present`. Return the new buffer, and the ends of the
    texts in it."""
    n = len(present)
    out = np.empty(len(data) + 4 * n, np.uint8)
    marks = np.zeros(n + 1, np.int64)
    o = 0
    for row in range(n):
        if present[row]:
            for i in range(ends[row], ends[row + 1]):
                out[o] = data[i]
                o += 1
        else:
            for k in range(4):
                out[o + k] = _NULL[k]
            o += 4
        marks[row + 1] = o
    return out[:o], marks


@njit()
def _escape(data, ends, present):  # type: ignore[no-untyped-def]
    """Convert the texts to JSON strings, quoted and escaped. Write `null` for each text that is not `present`. Return
    the new buffer, and the ends of the strings in it."""
    n = len(present)
    size = 0
    for c in data:
        if c < 32:
            size += 6
        elif c == 34 or c == 92:
            size += 2
        else:
            size += 1
    out = np.empty(size + 4 * n, np.uint8)
    marks = np.zeros(n + 1, np.int64)
    o = 0
    for row in range(n):
        if not present[row]:
            for k in range(4):
                out[o + k] = _NULL[k]
            o += 4
            marks[row + 1] = o
            continue
        out[o] = 34
        o += 1
        for i in range(ends[row], ends[row + 1]):
            c = data[i]
            if c == 34 or c == 92 or c == 10 or c == 13 or c == 9:
                out[o] = 92
                out[o + 1] = 110 if c == 10 else (114 if c == 13 else (116 if c == 9 else c))
                o += 2
            elif c < 32:
                out[o] = 92
                out[o + 1] = 117
                out[o + 2] = 48
                out[o + 3] = 48
                out[o + 4] = 48 + (c >> 4)
                out[o + 5] = (c & 15) + (48 if (c & 15) < 10 else 87)
                o += 6
            else:
                out[o] = c
                o += 1
        out[o] = 34
        o += 1
        marks[row + 1] = o
    return out[:o], marks


@njit()
def _digits(out, o, value, width):  # type: ignore[no-untyped-def]
    """Write `value` at position `o` with exactly `width` digits, including leading zeros. Return the position after
    it."""
    for j in range(o + width - 1, o - 1, -1):
        out[j] = 48 + value % 10
        value //= 10
    return o + width


@njit()
def _decimals(out, o, micros):  # type: ignore[no-untyped-def]
    """Write a point and the decimals of a second, without trailing zeros. Write nothing if `micros` is 0. Return the
    position after them."""
    if micros == 0:
        return o
    out[o] = 46
    o = _digits(out, o + 1, micros, 6)
    while out[o - 1] == 48:
        o -= 1
    return o


@njit()
def _fraction(out, o, rest, size):  # type: ignore[no-untyped-def]
    """Write a point and up to twelve decimals of rest/size, without trailing zeros. Return the position after them.

    `size` must be less than 2**59.
    """
    point = o
    out[o] = 46
    o += 1
    end = point
    for _ in range(DECIMALS):
        if rest == 0:
            break
        rest *= 10
        out[o] = 48 + rest // size
        rest %= size
        o += 1
        if out[o - 1] != 48:
            end = o
    return end


@njit()
def _ticks(values, present, unit, zeros, json):  # type: ignore[no-untyped-def]
    """Convert times to texts. Return the buffer of texts, and the end of each text. `unit`, `zeros`: the results of
    `unit_of`.

    `json`: True to quote times in ISO 8601, and to write `null` for times that are not `present`.

    Room for 40 bytes per time is enough. The longest number has 36 bytes: a sign, 19 digits, three zeros, a point and
    twelve decimals. The longest time in ISO 8601, `"9999-12-31T23:59:59.999999Z"`, has 29 bytes.
    """
    n = len(values)
    out = np.empty(40 * n, np.uint8)
    marks = np.zeros(n + 1, np.int64)
    for row in range(n):
        o = marks[row]
        if not present[row]:
            if json:
                for k in range(4):
                    out[o + k] = _NULL[k]
                o += 4
        elif unit == 0 and FIRST <= values[row] <= LAST:
            second, micros = values[row] // SECOND, values[row] % SECOND
            days, second = second // 86_400, second % 86_400
            days += 719_468  # the calendar of years from March, in eras of 400 years
            era, day = days // 146_097, days % 146_097
            year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
            day -= 365 * year + year // 4 - year // 100
            month = (5 * day + 2) // 153
            day -= (153 * month + 2) // 5 - 1
            month += 3 if month < 10 else -9
            year += 400 * era + (1 if month <= 2 else 0)
            if json:
                out[o] = 34
                o += 1
            o = _digits(out, o, year, 4)
            out[o] = 45
            o = _digits(out, o + 1, month, 2)
            out[o] = 45
            o = _digits(out, o + 1, day, 2)
            out[o] = 84
            o = _digits(out, o + 1, second // 3_600, 2)
            out[o] = 58
            o = _digits(out, o + 1, second // 60 % 60, 2)
            out[o] = 58
            o = _digits(out, o + 1, second % 60, 2)
            o = _decimals(out, o, micros)
            out[o] = 90
            o += 1
            if json:
                out[o] = 34
                o += 1
        else:
            value = values[row]
            if value < 0:
                out[o] = 45
                o += 1
                value = -value
            size = unit if unit > 0 else SECOND
            whole, rest = value // size, value % size
            width = 1
            while width < 19 and whole >= 10**width:
                width += 1
            o = _digits(out, o, whole, width)
            if whole > 0:
                for _ in range(zeros):
                    out[o] = 48
                    o += 1
            o = _fraction(out, o, rest, size)
        marks[row + 1] = o
    return out[: marks[n]], marks


@njit()
def _join(data, bases, ends, letters, heads):  # type: ignore[no-untyped-def]
    """Join the texts of each row to a JSON object on a line of its own. Return the buffer of lines, and the end of each
    line.

    `letters`, `heads`: the texts to write before the value of each column, and the end of each text. The result
    contains `data` once. For each row, it also contains all texts of `letters`, a bracket and a line end.
    """
    columns, n = ends.shape[0], ends.shape[1] - 1
    out = np.empty(len(data) + n * (len(letters) + 2), np.uint8)
    marks = np.zeros(n + 1, np.int64)
    o = 0
    for row in range(n):
        for column in range(columns):
            for i in range(heads[column], heads[column + 1]):
                out[o] = letters[i]
                o += 1
            for i in range(bases[column] + ends[column, row], bases[column] + ends[column, row + 1]):
                out[o] = data[i]
                o += 1
        out[o] = 125
        out[o + 1] = 10
        o += 2
        marks[row + 1] = o
    return out, marks
