"""Compiled readers of numbers, times and escaped characters. They read the most common forms. All other forms are read
by `cep.connectors.records.records`.

Polars is not used, because its casts accept forms that are not valid in a record, and lose digits of times
(docs/decisions/2026-11-22-records.md).
"""

from __future__ import annotations

import numpy as np

from cep.connectors.records.times import FIRST, LAST, SECOND
from cep.core.kernels import njit

MISSING, GOOD, BAD, HARD = 0, 1, 2, 3
"""The states of a cell that has been read. HARD means that the cell is a float with many digits, which a slower reader
must round correctly."""

# The kinds of cells that scanners find. STRING has no escapes. ESCAPED is a string with escapes (JSON) or doubled
# quotes (CSV). NESTED is a list or an object.
ABSENT, NULL, NUMBER, STRING, ESCAPED, TRUE, FALSE, NESTED = range(8)

_POWERS = 10.0 ** np.arange(23)  # exact in float64
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_PLAIN = 1 << 53
_LIMIT = 9 * 10**17
_NEXT = 922_337_203_685_477_580  # one more digit fits into 64 bits below this


@njit(_nrt=False)
def is_digit(c):  # type: ignore[no-untyped-def]
    return 48 <= c <= 57


@njit(_nrt=False)
def trim(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Shorten the range from i to `stop` so that it neither begins nor ends with blanks. Return the new range."""
    while i < stop and (buffer[i] == 32 or buffer[i] == 9):
        i += 1
    while i < stop and (buffer[stop - 1] == 32 or buffer[stop - 1] == 9):
        stop -= 1
    return i, stop


@njit(_nrt=False)
def read_int(buffer, i, stop, point):  # type: ignore[no-untyped-def]
    """Read an integer of up to 18 digits. A point and zeros may follow. Return the value, and the state GOOD or BAD."""
    negative = False
    if i < stop and (buffer[i] == 45 or buffer[i] == 43):
        negative = buffer[i] == 45
        i += 1
    if i >= stop or stop - i > 40:
        return 0, BAD
    first = i
    value = np.int64(0)
    while i < stop and is_digit(buffer[i]):
        if i - first == 18:
            return 0, BAD
        value = value * 10 + (np.int64(buffer[i]) - 48)
        i += 1
    if i == first:
        return 0, BAD
    if i < stop:
        if buffer[i] != point:
            return 0, BAD
        i += 1
        while i < stop:
            if buffer[i] != 48:
                return 0, BAD
            i += 1
    return (-value if negative else value), GOOD


@njit(_nrt=False)
def read_float(buffer, i, stop, point):  # type: ignore[no-untyped-def]
    """Read a float. Return the value and the state.

    The state is GOOD if a float can represent the digits and the power of ten exactly. The value is then exact, too
    (Clinger's fast path). Otherwise, the state is HARD or BAD.
    """
    negative = False
    if i < stop and (buffer[i] == 45 or buffer[i] == 43):
        negative = buffer[i] == 45
        i += 1
    mantissa = np.int64(0)
    power = np.int64(0)
    digits = 0
    hard = False
    while i < stop and is_digit(buffer[i]):
        digits += 1
        if mantissa < _PLAIN:
            mantissa = mantissa * 10 + (np.int64(buffer[i]) - 48)
        else:
            hard = True
        i += 1
    if i < stop and buffer[i] == point:
        i += 1
        while i < stop and is_digit(buffer[i]):
            digits += 1
            if mantissa < _PLAIN:
                mantissa = mantissa * 10 + (np.int64(buffer[i]) - 48)
                power -= 1
            else:
                hard = True
            i += 1
    if digits == 0:
        return 0.0, BAD
    if i < stop and (buffer[i] == 101 or buffer[i] == 69):
        i += 1
        down = False
        if i < stop and (buffer[i] == 45 or buffer[i] == 43):
            down = buffer[i] == 45
            i += 1
        if i >= stop:
            return 0.0, BAD
        exponent = np.int64(0)
        while i < stop and is_digit(buffer[i]):
            if exponent < 100_000:
                exponent = exponent * 10 + (np.int64(buffer[i]) - 48)
            i += 1
        power += -exponent if down else exponent
        if not is_digit(buffer[i - 1]):
            return 0.0, BAD
    if i < stop:
        return 0.0, BAD
    if hard or mantissa > _PLAIN or power > 22 or power < -22:
        return 0.0, HARD
    value = np.float64(mantissa)
    value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
    return (-value if negative else value) + 0.0, GOOD


@njit(_nrt=False)
def fraction_of_second(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Read the digits after a decimal point as a fraction of a second. Return (microseconds, rest, end).

    `rest` says how to round. It compares the digits after the sixth with half a microsecond: -1 if they are less, 0 if
    they are equal, 1 if they are greater.
    """
    micros = np.int64(0)
    unit = SECOND
    while i < stop and unit > 1 and is_digit(buffer[i]):
        unit //= 10
        micros += (np.int64(buffer[i]) - 48) * unit
        i += 1
    rest = -1
    if i < stop and is_digit(buffer[i]):
        rest = 1 if buffer[i] > 53 else (0 if buffer[i] == 53 else -1)
        i += 1
        while i < stop and is_digit(buffer[i]):
            if rest == 0 and buffer[i] != 48:
                rest = 1
            i += 1
    return micros, rest, i


@njit(_nrt=False)
def read_seconds(buffer, i, stop, point):  # type: ignore[no-untyped-def]
    """Read a decimal number of seconds without an exponent. Return the microseconds and the state. The microseconds are
    rounded half to even."""
    negative = False
    if i < stop and (buffer[i] == 45 or buffer[i] == 43):
        negative = buffer[i] == 45
        i += 1
    first = i
    value = np.int64(0)
    while i < stop and is_digit(buffer[i]):
        if i - first == 12:
            return 0, BAD
        value = value * 10 + (np.int64(buffer[i]) - 48)
        i += 1
    if i == first:
        return 0, BAD
    value *= SECOND
    if i < stop and buffer[i] == point:
        micros, rest, i = fraction_of_second(buffer, i + 1, stop)
        value += micros
        if rest == 1 or (rest == 0 and value & 1):
            value += 1
    if i < stop:
        return 0, BAD
    return (-value if negative else value), GOOD


@njit(_nrt=False)
def read_count(buffer, i, stop, shift, point):  # type: ignore[no-untyped-def]
    """Read a decimal number of units. One unit is ten to the power of `shift` microseconds.

    Return the microseconds and the state. The microseconds are rounded half to even.
    """
    negative = False
    if i < stop and (buffer[i] == 45 or buffer[i] == 43):
        negative = buffer[i] == 45
        i += 1
    digits = 0
    value = np.int64(0)
    fraction = False
    while i < stop and (is_digit(buffer[i]) or (buffer[i] == point and not fraction and digits > 0)):
        if buffer[i] == point:
            fraction = True
        else:
            if digits == 19 or value >= _NEXT:
                return 0, BAD
            digits += 1
            value = value * 10 + (np.int64(buffer[i]) - 48)
            if fraction:
                shift -= 1
        i += 1
    if i < stop or digits == 0:
        return 0, BAD
    while shift > 0:
        if value > _LIMIT:
            return 0, BAD
        value *= 10
        shift -= 1
    if shift < 0:
        unit = np.int64(1)
        while shift < 0 and unit < _LIMIT:
            unit *= 10
            shift += 1
        if shift < 0:
            return 0, BAD
        rest = value % unit
        value //= unit
        if rest > unit // 2 or (rest == unit // 2 and value & 1):
            value += 1
    return (-value if negative else value), GOOD


@njit(_nrt=False)
def two_digits(buffer, i):  # type: ignore[no-untyped-def]
    """Return the value of the two digits at position i. Return -1 if one of the characters is not a digit."""
    if is_digit(buffer[i]) and is_digit(buffer[i + 1]):
        return (np.int64(buffer[i]) - 48) * 10 + (np.int64(buffer[i + 1]) - 48)
    return np.int64(-1)


@njit(_nrt=False)
def days_before(year, month, day):  # type: ignore[no-untyped-def]
    """Return the number of days from 1970-01-01 to a date, and the state. The state is BAD if the date does not
    exist."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return np.int64(0), BAD
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS[month] + (1 if leap and month == 2 else 0):
        return np.int64(0), BAD
    y = year - 1 if month <= 2 else year  # years are counted from March
    days = 365 * y + y // 4 - y // 100 + y // 400 + (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 719_469
    return days, GOOD


@njit(_nrt=False)
def read_iso(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Read an ISO 8601 time, as `times.of_iso` does. Week dates are not supported.

    Return the microseconds, the state, and True if the text contains an offset.
    """
    absolute = False
    if stop - i < 10 or buffer[i + 4] != 45 or buffer[i + 7] != 45:
        return 0, BAD, absolute
    century, years = two_digits(buffer, i), two_digits(buffer, i + 2)
    if century < 0 or years < 0:
        return 0, BAD, absolute
    days, state = days_before(century * 100 + years, two_digits(buffer, i + 5), two_digits(buffer, i + 8))
    if state != GOOD:
        return 0, BAD, absolute
    value = days * 86_400
    i += 10
    rest = -1
    micros = np.int64(0)
    if i < stop:
        if stop - i < 6 or not (buffer[i] == 84 or buffer[i] == 116 or buffer[i] == 32) or buffer[i + 3] != 58:
            return 0, BAD, absolute
        hour, minute = two_digits(buffer, i + 1), two_digits(buffer, i + 4)
        if hour < 0 or hour > 24 or minute < 0 or minute > 59:
            return 0, BAD, absolute
        value += hour * 3_600 + minute * 60
        second = np.int64(0)
        i += 6
        if i < stop and buffer[i] == 58:
            if stop - i < 3:
                return 0, BAD, absolute
            second = two_digits(buffer, i + 1)
            if second < 0 or second > 59:
                return 0, BAD, absolute
            value += second
            i += 3
            if i < stop and (buffer[i] == 46 or buffer[i] == 44):
                if i + 1 >= stop or not is_digit(buffer[i + 1]):
                    return 0, BAD, absolute
                micros, rest, i = fraction_of_second(buffer, i + 1, stop)
        if hour == 24 and (minute > 0 or second > 0 or micros > 0 or rest == 1):
            return 0, BAD, absolute
        if i < stop and (buffer[i] == 90 or buffer[i] == 122):
            i += 1
            absolute = True
        elif i < stop:
            absolute = True
            if stop - i < 3 or not (buffer[i] == 43 or buffer[i] == 45):
                return 0, BAD, absolute
            sign = 1 if buffer[i] == 45 else -1
            hour = two_digits(buffer, i + 1)
            minute = np.int64(0)
            i += 3
            if i < stop:
                if buffer[i] == 58:
                    i += 1
                if stop - i != 2:
                    return 0, BAD, absolute
                minute = two_digits(buffer, i)
                i += 2
            if hour < 0 or hour > 23 or minute < 0 or minute > 59:
                return 0, BAD, absolute
            value += sign * (hour * 3_600 + minute * 60)
    value = value * SECOND + micros
    if rest == 1 or (rest == 0 and value & 1):
        value += 1
    if i < stop or value < FIRST or value > LAST:
        return 0, BAD, absolute
    return value, GOOD, absolute


@njit(_nrt=False)
def _hex(buffer, i):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for j in range(i, i + 4):
        c = np.int64(buffer[j])
        value = value * 16 + (c - 48 if c <= 57 else (c | 32) - 87)
    return value


@njit(_nrt=False)
def unescape(buffer, i, stop, out, o):  # type: ignore[no-untyped-def]
    """Copy the characters of a JSON string to `out` without escapes, from position `o` on. Return the end of the copy.

    Return -1 if the string contains half a surrogate pair. All escapes must be complete. A character never takes more
    bytes than its escape.
    """
    while i < stop:
        c = buffer[i]
        if c != 92:
            out[o] = c
            o += 1
            i += 1
            continue
        c = buffer[i + 1]
        i += 2
        if c == 117:
            point = _hex(buffer, i)
            i += 4
            if 0xD800 <= point < 0xE000:
                if point >= 0xDC00 or stop - i < 6 or buffer[i] != 92 or buffer[i + 1] != 117:
                    return -1
                low = _hex(buffer, i + 2)
                if not 0xDC00 <= low < 0xE000:
                    return -1
                point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
                i += 6
            if point < 0x80:
                out[o] = point
                o += 1
            else:
                if point < 0x800:
                    out[o] = 0xC0 | (point >> 6)
                    o += 1
                else:
                    if point < 0x10000:
                        out[o] = 0xE0 | (point >> 12)
                        o += 1
                    else:
                        out[o] = 0xF0 | (point >> 18)
                        out[o + 1] = 0x80 | ((point >> 12) & 63)
                        o += 2
                    out[o] = 0x80 | ((point >> 6) & 63)
                    o += 1
                out[o] = 0x80 | (point & 63)
                o += 1
        else:
            if c == 110:
                c = 10
            elif c == 116:
                c = 9
            elif c == 114:
                c = 13
            elif c == 98:
                c = 8
            elif c == 102:
                c = 12
            out[o] = c  # `"`, `\` and `/` stand for themselves
            o += 1
    return o
