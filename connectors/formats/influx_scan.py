"""A compiled scanner of InfluxDB's line protocol. It finds the cells of each line in one pass over the bytes.

A line that it does not support is marked as ODD. A slower reader then reads this line.
"""

from __future__ import annotations

import numpy as np

from cep.connectors.formats.json_scan import BLANK, ODD, UNKNOWN, room_for
from cep.connectors.records.keynames import find
from cep.connectors.records.numbers import FALSE, NUMBER, STRING, TRUE
from cep.core.kernels import njit


@njit(_nrt=False)
def _key(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Return the position of the `=` after the key at position i. Return -1 if the key is empty or has escapes."""
    first = i
    while i < stop and buffer[i] != 61:
        c = buffer[i]
        if c == 92 or c == 44 or c == 32:
            return -1
        i += 1
    return i if first < i < stop else -1


@njit(_nrt=False)
def _digits(buffer, i, stop):  # type: ignore[no-untyped-def]
    while i < stop and 48 <= buffer[i] <= 57:
        i += 1
    return i


@njit(_nrt=False)
def _is(buffer, i, stop, true):  # type: ignore[no-untyped-def]
    """Return True if buffer[i:stop] is `true`, `True` or `TRUE`.

    If the argument `true` is False, return True if it is `false`, `False` or `FALSE`.
    """
    size = stop - i
    if size != (4 if true else 5):
        return False
    upper = buffer[i + 1] < 97
    word = (116, 114, 117, 101, 0) if true else (102, 97, 108, 115, 101)
    for j in range(size):
        c = buffer[i + j]
        if (c | 32) != word[j]:
            return False
        if j and (c < 97) != upper:
            return False
    return buffer[i] < 97 or not upper


@njit(_nrt=False)
def _value(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Return the kind and the length of the number or boolean in buffer[i:stop]. The length does not include the suffix
    `i` or `u` of an integer.

    The kind is -1 if the text is neither a number nor a boolean.
    """
    c = buffer[i]
    if c == 116 or c == 84:
        return (TRUE, stop - i) if stop - i == 1 or _is(buffer, i, stop, True) else (-1, 0)
    if c == 102 or c == 70:
        return (FALSE, stop - i) if stop - i == 1 or _is(buffer, i, stop, False) else (-1, 0)
    j = i
    if buffer[j] == 45 or buffer[j] == 43:
        j += 1
    whole = _digits(buffer, j, stop)
    digits = whole - j
    if digits and whole == stop - 1 and (buffer[whole] == 105 or (buffer[whole] == 117 and c != 45)):
        return NUMBER, whole - i
    j = whole
    if j < stop and buffer[j] == 46:
        whole = _digits(buffer, j + 1, stop)
        digits += whole - j - 1
        j = whole
    if digits == 0:
        return -1, 0
    if j < stop and (buffer[j] | 32) == 101:
        j += 1
        if j < stop and (buffer[j] == 45 or buffer[j] == 43):
            j += 1
        whole = _digits(buffer, j, stop)
        if whole == j:
            return -1, 0
        j = whole
    return (NUMBER, stop - i) if j == stop else (-1, 0)


@njit(_nrt=False)
def _text(buffer, i, stop, out, o, quoted):  # type: ignore[no-untyped-def]
    """Copy a text to `out`, without its escapes, from position `o` on. Return the end of the copy.

    `quoted`: True for a string, in which quotes and backslashes are escaped. In keys and tags, commas, equals signs and
    blanks are escaped.
    """
    while i < stop:
        c = buffer[i]
        if c == 92 and i + 1 < stop:
            d = buffer[i + 1]
            if (d == 34 or d == 92) if quoted else (d == 44 or d == 61 or d == 32):
                c = d
                i += 1
        out[o] = c
        o += 1
        i += 1
    return o


@njit(_nrt=False, forceinline=True)
def _enter(entries, e, place, first, length, kind):  # type: ignore[no-untyped-def]
    if place < 0:
        return e
    name_of, first_of, length_of, kind_of = entries
    name_of[e], first_of[e], length_of[e], kind_of[e] = place, first, length, kind
    return e + 1


@njit(_nrt=False)
def _copied(buffer, first, length, escaped, out, o, base, quoted):  # type: ignore[no-untyped-def]
    """Return the position and the length of a text without escapes, and the new end of `out`.

    If the text has escapes, it is first copied to `out` without them. Positions in `out` are counted from `base`. `o`:
    the end of `out` so far.
    """
    if not escaped:
        return first, length, o
    end = _text(buffer, first, first + length, out, o, quoted)
    return base + o, end - o, end


@njit(_nrt=False)
def _line(buffer, i, stop, measurements, keys, places, beside, entries, e, out, o):  # type: ignore[no-untyped-def]
    """Scan a line, and add an entry for each value that is needed.

    Return the number of the measurement, the new number of entries, and the new end of `out`. The first of these is
    BLANK for an empty line and ODD for a line that is not supported. `e`: the number of entries so far. `out`: the
    buffer of texts without escapes. `o`: the end of `out` so far.
    """
    names, ends, slots = keys
    any_place, tag_place, field_place = places
    measurement_place, time_place, base = beside
    while i < stop and (buffer[i] == 32 or buffer[i] == 9):
        i += 1
    while stop > i and (buffer[stop - 1] == 32 or buffer[stop - 1] == 9 or buffer[stop - 1] == 13):
        stop -= 1
    if i == stop or buffer[i] == 35:
        return BLANK, e, o
    first = i
    while i < stop and buffer[i] != 44 and buffer[i] != 32:
        if buffer[i] == 92:
            return ODD, e, o
        i += 1
    if i == first or i >= stop:
        return ODD, e, o
    measurement = find(buffer, first, i, *measurements)
    e = _enter(entries, e, measurement_place, first, i - first, STRING)
    while buffer[i] == 44:  # tags
        key = i + 1
        i = _key(buffer, key, stop)
        if i < 0:
            return ODD, e, o
        name = find(buffer, key, i, names, ends, slots)
        i += 1
        first = i
        escaped = False
        while i < stop and buffer[i] != 44 and buffer[i] != 32:
            if buffer[i] == 61:
                return ODD, e, o
            if buffer[i] == 92 and i + 1 < stop and (buffer[i + 1] == 44 or buffer[i + 1] == 61 or buffer[i + 1] == 32):
                escaped = True
                i += 1
            i += 1
        if i == first or i >= stop:
            return ODD, e, o
        if name >= 0:
            first, length, o = _copied(buffer, first, i - first, escaped, out, o, base, False)
            e = _enter(entries, e, any_place[name], first, length, STRING)
            e = _enter(entries, e, tag_place[name], first, length, STRING)
    while i < stop and buffer[i] == 32:
        i += 1
    while True:  # fields
        key = i
        i = _key(buffer, key, stop)
        if i < 0:
            return ODD, e, o
        name = find(buffer, key, i, names, ends, slots)
        i += 1
        if i >= stop:
            return ODD, e, o
        if buffer[i] == 34:
            i += 1
            first = i
            escaped = False
            while i < stop and buffer[i] != 34:
                if buffer[i] == 92 and i + 1 < stop and (buffer[i + 1] == 34 or buffer[i + 1] == 92):
                    escaped = True
                    i += 1
                i += 1
            if i >= stop:
                return ODD, e, o
            kind, length = STRING, i - first
            if name >= 0:
                first, length, o = _copied(buffer, first, length, escaped, out, o, base, True)
            i += 1
        else:
            first = i
            while i < stop and buffer[i] != 44 and buffer[i] != 32:
                i += 1
            if i == first:
                return ODD, e, o
            kind, length = _value(buffer, first, i)
            if kind < 0:
                return ODD, e, o
        if name >= 0:
            e = _enter(entries, e, any_place[name], first, length, kind)
            e = _enter(entries, e, field_place[name], first, length, kind)
        if i < stop and buffer[i] == 44:
            i += 1
            continue
        break
    if i < stop:  # the timestamp, after a blank
        if buffer[i] != 32:
            return ODD, e, o
        while i < stop and buffer[i] == 32:
            i += 1
        first = i
        if buffer[i] == 45:
            i += 1
        digits = i
        i = _digits(buffer, i, stop)
        if i == digits or i < stop:
            return ODD, e, o
        e = _enter(entries, e, time_place, first, i - first, NUMBER)
    return measurement, e, o


@njit()
def scan(buffer, starts, stops, measurements, types, keys, places, beside, capacity):  # type: ignore[no-untyped-def]
    """Scan all lines.

    Return the event type of each line, the index of each line's first entry, the entries, and the texts without
    escapes. In entries, the positions of these texts are counted from the end of the buffer.

    - `measurements`, `keys`: the names, the end of each name, and a hash table of the names.
    - `types`: the event type of each measurement.
    - `places`: three arrays. For each key, they contain the name under which tags and fields are entered, the name
      for tags only, and the name for fields only. Names are numbers. -1 means that there is no such name.
    - `beside`: the name for the measurement, the name for the timestamp, and the length of the buffer.
    - `capacity`: the maximum number of entries, which must be at least twice the number of equals signs plus twice
      the number of lines. Each value has an equals sign, and adds at most two entries.

    The texts without escapes fit in a copy of the buffer, because each byte is copied at most once.
    """
    n = len(starts)
    type_of, begin, entries = room_for(n, capacity)
    out = np.empty(len(buffer), np.uint8)
    o = 0
    for row in range(n):
        measurement, e, o = _line(
            buffer, starts[row], stops[row], measurements, keys, places, beside, entries, begin[row], out, o
        )
        type_of[row] = measurement if measurement <= ODD else (types[measurement] if measurement >= 0 else UNKNOWN)
        begin[row + 1] = e if type_of[row] > ODD else begin[row]
    return type_of, begin, entries, out[:o]
