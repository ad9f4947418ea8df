"""Compiled kernels for cells. They mark missing cells, and convert the other cells to columns of numbers, times and
texts."""

from __future__ import annotations

import numpy as np

from cep.connectors.records.keynames import is_name
from cep.connectors.records.numbers import (
    BAD,
    ESCAPED,
    GOOD,
    HARD,
    NULL,
    NUMBER,
    STRING,
    is_digit,
    read_count,
    read_float,
    read_int,
    read_iso,
    read_seconds,
    trim,
    unescape,
)
from cep.connectors.records.times import FAR, FIRST, LAST, SECOND
from cep.core.kernels import njit

_FAR = FAR * SECOND


@njit()
def numbers(values, buffer, offset, length, kind, textual, point, whole):  # type: ignore[no-untyped-def]
    """Read cells as numbers, and store the numbers in `values`. Return the state of each cell.

    `whole`: True if `values` has the type int64, False if it has the type float64.
    """
    n = len(kind)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        states[row] = BAD
        if kind[row] == NUMBER or (textual and kind[row] == STRING):
            i, stop = trim(buffer, offset[row], offset[row] + length[row])
            if whole:
                values[row], states[row] = read_int(buffer, i, stop, point)
            else:
                values[row], states[row] = read_float(buffer, i, stop, point)
    return states


@njit()
def read_ticks(buffer, offset, length, kind, textual, calendar, point):  # type: ignore[no-untyped-def]
    """Read cells that contain seconds. Return the microseconds, a mask of the cells that contain a time with an offset,
    and the states. For a number, the mask is also True.

    `calendar`: True if the cells contain times, which may also be in ISO 8601.
    """
    n = len(kind)
    values = np.zeros(n, np.int64)
    absolute = np.ones(n, np.bool_)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        i, stop = offset[row], offset[row] + length[row]
        states[row] = BAD
        if textual:
            i, stop = trim(buffer, i, stop)
        if kind[row] == NUMBER or (textual and kind[row] == STRING):
            values[row], states[row] = read_seconds(buffer, i, stop, point)
            if calendar and values[row] > _FAR:
                states[row] = BAD
        if kind[row] == STRING and states[row] == BAD and calendar:
            values[row], states[row], absolute[row] = read_iso(buffer, i, stop)
        if calendar and not FIRST <= values[row] <= LAST:
            states[row] = BAD
    return values, absolute, states


@njit()
def counts(buffer, offset, length, kind, shift, calendar, textual, point):  # type: ignore[no-untyped-def]
    """Read cells that contain numbers in a unit. Return the microseconds and the states. One unit is ten to the power
    of `shift` microseconds.

    `calendar`: True if the numbers count from 1970. Then the state is BAD for times outside of the years 1 to 9999.
    """
    n = len(kind)
    values = np.zeros(n, np.int64)
    states = np.zeros(n, np.uint8)
    for row in range(n):
        if kind[row] <= NULL:
            continue
        states[row] = BAD
        if kind[row] == NUMBER or kind[row] == STRING:
            i, stop = trim(buffer, offset[row], offset[row] + length[row])
            values[row], states[row] = read_count(buffer, i, stop, shift, point if textual else 46)
        if calendar and not FIRST <= values[row] <= LAST:
            states[row] = BAD
    return values, states


@njit()
def mark_absent(buffer, offset, length, kind, letters, ends, numbers, numeric, point):  # type: ignore[no-untyped-def]
    """Mark missing cells as NULL. A cell is missing if it equals one of the texts in `letters`, which end at `ends`.

    If `numeric` is True, a cell is also missing if it equals one of `numbers`. Return a mask of the cells that this
    kernel cannot compare.
    """
    n = len(kind)
    doubtful = np.zeros(n, np.bool_)
    for row in range(n):
        if kind[row] < NUMBER or kind[row] > ESCAPED:
            continue
        if kind[row] == ESCAPED:
            doubtful[row] = True
            continue
        i, stop = offset[row], offset[row] + length[row]
        if numeric:
            i, stop = trim(buffer, i, stop)
        for text in range(len(ends) - 1):
            if is_name(buffer, i, stop, letters, ends[text], ends[text + 1]):
                kind[row] = NULL
                break
        if numeric and kind[row] != NULL and len(numbers):
            value, state = read_float(buffer, i, stop, point)
            if state == HARD:
                doubtful[row] = True
            elif state == GOOD:
                for number in numbers:
                    if value == number:
                        kind[row] = NULL
    return doubtful


@njit()
def copy(buffer, offset, length, kind, textual, rows, quote):  # type: ignore[no-untyped-def]
    """Copy the texts of the cells `rows` into one buffer.

    Return the buffer, the end of each text, a bitmap of the cells that have a text, and the states of the cells. A text
    is never longer than its cell.
    """
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
                    i += 2 if buffer[i] == quote else 1
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


@njit()
def without_marks(buffer, offset, length, kind, mark, point):  # type: ignore[no-untyped-def]
    """Remove the marks between groups of three digits (see `cep.connectors.records.thousands`).

    Return a buffer with the new texts, and the offset and the length of each text. `mark`: the bytes of the mark. No
    text is longer than its cell.
    """
    n = len(kind)
    size = 0
    for row in range(n):
        if kind[row] == STRING:
            size += length[row]
    out = np.empty(size, np.uint8)
    first = np.zeros(n, np.int32)
    count = np.zeros(n, np.int32)
    width = len(mark)
    o = 0
    for row in range(n):
        first[row] = o
        if kind[row] != STRING:
            continue
        i, stop = trim(buffer, offset[row], offset[row] + length[row])
        begin, end = i, stop
        whole = True
        if i < stop and (buffer[i] == 43 or buffer[i] == 45):
            out[o] = buffer[i]
            o += 1
            i += 1
        digits = 0
        groups = 0
        while i < stop and buffer[i] != point:
            if is_digit(buffer[i]):
                digits += 1
                out[o] = buffer[i]
                o += 1
                i += 1
                continue
            same = i + width <= stop
            if same:
                for j in range(width):
                    same &= buffer[i + j] == mark[j]
            if not same or digits == 0 or digits > 3 or (groups > 0 and digits != 3):
                whole = False
                break
            groups += 1
            digits = 0
            i += width
        whole &= groups > 0 and digits == 3
        while whole and i < stop:
            whole &= is_digit(buffer[i]) or (buffer[i] == point)
            out[o] = buffer[i]
            o += 1
            i += 1
        if not whole:  # unchanged, so that the reader of numbers reports the mistake
            o = first[row]
            for i in range(begin, end):
                out[o] = buffer[i]
                o += 1
        count[row] = o - first[row]
    return out, first, count


@njit()
def halves(buffer, first, length):  # type: ignore[no-untyped-def]
    """Return the position after the slash in each interval `start/end`. The position is -1 if there is no slash."""
    ends = np.full(len(first), -1, np.int64)
    for k in range(len(first)):
        for i in range(first[k], first[k] + length[k]):
            if buffer[i] == 47:
                ends[k] = i + 1
                break
    return ends
