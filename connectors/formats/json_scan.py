"""A compiled scanner of JSON Lines. It finds the cells of each line in one pass over the bytes.

A line that it does not support is marked as ODD. A slower reader then reads this line. Pyarrow's reader is as fast as
this scanner. But it accepts two records on a line, uses one schema for all records, and loses digits of times
(docs/decisions/2026-11-22-records.md).
"""

from __future__ import annotations

import numpy as np

from cep.connectors.records.keynames import find
from cep.connectors.records.numbers import ABSENT, ESCAPED, FALSE, NESTED, NULL, NUMBER, STRING, TRUE
from cep.core.kernels import njit

# Kinds of lines, in place of the index of a type: without a type, with an unknown type, for the slower reader, and
# blank.
UNTYPED, UNKNOWN, ODD, BLANK = -1, -2, -3, -4

_DEEPEST = 60
_GUESSES = 64
_NAN, _INFINITY = np.frombuffer(b"NaN", np.uint8), np.frombuffer(b"Infinity", np.uint8)
"""The texts that Python writes for numbers that are not finite. They count as missing values."""


@njit(_nrt=False)
def blank(c):  # type: ignore[no-untyped-def]
    return c == 32 or c == 9 or c == 13


@njit(_nrt=False)
def string(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Scan a string whose first character is at position i. Return the position after its closing quote, and True if it
    has escapes.

    The position is -1 if the string is not valid.
    """
    escaped = False
    while i < stop:
        c = buffer[i]
        if c == 34:
            return i + 1, escaped
        if c < 32:
            return -1, escaped
        if c == 92:
            escaped = True
            if i + 1 >= stop:
                return -1, escaped
            c = buffer[i + 1]
            i += 2
            if c == 117:
                if i + 4 > stop:
                    return -1, escaped
                for j in range(i, i + 4):
                    d = buffer[j]
                    if not (48 <= d <= 57 or 97 <= (d | 32) <= 102):
                        return -1, escaped
                i += 4
            elif not (c == 34 or c == 92 or c == 47 or c == 110 or c == 116 or c == 114 or c == 98 or c == 102):
                return -1, escaped
        else:
            i += 1
    return -1, escaped


@njit(_nrt=False)
def _number(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Return the position after the JSON number at position i. Return -1 if there is no valid number."""
    if buffer[i] == 45:
        i += 1
    if i >= stop or not 48 <= buffer[i] <= 57:
        return -1
    if buffer[i] == 48:
        i += 1
    else:
        while i < stop and 48 <= buffer[i] <= 57:
            i += 1
    if i < stop and buffer[i] == 46:
        i += 1
        if i >= stop or not 48 <= buffer[i] <= 57:
            return -1
        while i < stop and 48 <= buffer[i] <= 57:
            i += 1
    if i < stop and (buffer[i] | 32) == 101:
        i += 1
        if i < stop and (buffer[i] == 43 or buffer[i] == 45):
            i += 1
        if i >= stop or not 48 <= buffer[i] <= 57:
            return -1
        while i < stop and 48 <= buffer[i] <= 57:
            i += 1
    return i


@njit(_nrt=False)
def _word(buffer, i, stop, letters):  # type: ignore[no-untyped-def]
    for j in range(len(letters)):
        if i + j >= stop or buffer[i + j] != letters[j]:
            return -1
    return i + len(letters)


@njit(_nrt=False)
def _scalar(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Scan the value at position i, which must not be a list or object.

    Return the position after it, its kind, and the position and the length of its text. The position after it is -1 if
    the value is not valid.
    """
    c = buffer[i]
    if c == 34:
        j, escaped = string(buffer, i + 1, stop)
        return j, (ESCAPED if escaped else STRING), i + 1, j - i - 2
    if c == 45 or 48 <= c <= 57:
        j = _number(buffer, i, stop)
        if j < 0 and c == 45:
            j = _word(buffer, i + 1, stop, _INFINITY)
            return j, NULL, i, j - i
        return j, NUMBER, i, j - i
    if i + 4 <= stop and c == 116 and buffer[i + 1] == 114 and buffer[i + 2] == 117 and buffer[i + 3] == 101:
        return i + 4, TRUE, i, 4
    if i + 4 <= stop and c == 110 and buffer[i + 1] == 117 and buffer[i + 2] == 108 and buffer[i + 3] == 108:
        return i + 4, NULL, i, 4
    if (
        i + 5 <= stop
        and c == 102
        and buffer[i + 1] == 97
        and buffer[i + 2] == 108
        and buffer[i + 3] == 115
        and buffer[i + 4] == 101
    ):
        return i + 5, FALSE, i, 5
    if c == 78 or c == 73:
        j = _word(buffer, i, stop, _NAN if c == 78 else _INFINITY)
        return j, NULL, i, j - i
    return -1, ABSENT, i, 0


@njit(_nrt=False)
def skip(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Return the position after the list or object at position i. Return -1 if it is not valid JSON or is nested too
    deeply."""
    objects = np.int64(0)  # the open brackets, innermost in the lowest bit: 1 for an object, 0 for a list
    depth = 0
    due = True  # a value is expected here; else a comma or the end of the innermost
    while True:
        while i < stop and blank(buffer[i]):
            i += 1
        if i >= stop:
            return -1
        c = buffer[i]
        if due and (c == 123 or c == 91):
            if depth == _DEEPEST:
                return -1
            depth += 1
            objects = (objects << 1) | (1 if c == 123 else 0)
            i += 1
            while i < stop and blank(buffer[i]):
                i += 1
            if i < stop and buffer[i] == (125 if c == 123 else 93):
                due = False
                continue
            if c == 91:
                continue
        elif due:
            i, _, _, _ = _scalar(buffer, i, stop)
            if i < 0:
                return -1
            due = False
            continue
        elif c == (125 if objects & 1 else 93):
            objects >>= 1
            depth -= 1
            i += 1
            if depth == 0:
                return i
            continue
        elif c == 44:
            i += 1
            due = True
            if not objects & 1:
                continue
            while i < stop and blank(buffer[i]):
                i += 1
        else:
            return -1
        if i >= stop or buffer[i] != 34:  # a key of an object is expected
            return -1
        i, _ = string(buffer, i + 1, stop)
        if i < 0:
            return -1
        while i < stop and blank(buffer[i]):
            i += 1
        if i >= stop or buffer[i] != 58:
            return -1
        i += 1


@njit(_nrt=False)
def _line(buffer, i, stop, names, ends, slots, types, guesses, entries, e):  # type: ignore[no-untyped-def]
    """Scan a line, and add an entry for the value of each known key.

    Return the event type of the line, the new number of entries, and True if the values are in `args`. `e`: the number
    of entries so far.
    """
    guess_first, guess_length, guess_name = guesses
    name_of, first_of, length_of, kind_of = entries
    type = UNTYPED
    typed = False
    positional = False
    while i < stop and blank(buffer[i]):
        i += 1
    while stop > i and blank(buffer[stop - 1]):
        stop -= 1
    if i == stop:
        return BLANK, e, False
    if buffer[i] != 123 or buffer[stop - 1] != 125:
        return ODD, e, False
    i += 1
    stop -= 1
    k = 0
    while i < stop and blank(buffer[i]):
        i += 1
    if i == stop:
        return UNTYPED, e, False
    while True:
        while i < stop and blank(buffer[i]):
            i += 1
        if i >= stop or buffer[i] != 34:
            return ODD, e, False
        i += 1
        key = i
        name = -1
        matched = False
        if k < _GUESSES and guess_length[k] >= 0 and i + guess_length[k] < stop:
            length = guess_length[k]
            if buffer[i + length] == 34:
                j = 0
                first = guess_first[k]
                while j < length and buffer[i + j] == buffer[first + j]:
                    j += 1
                matched = j == length
        if matched:
            name = guess_name[k]
            i += guess_length[k] + 1
        else:
            i, escaped = string(buffer, i, stop)
            if i < 0 or escaped:
                return ODD, e, False
            name = find(buffer, key, i - 1, names, ends, slots)
            if k < _GUESSES:
                guess_first[k] = key
                guess_length[k] = i - 1 - key
                guess_name[k] = name
        k += 1
        while i < stop and blank(buffer[i]):
            i += 1
        if i >= stop or buffer[i] != 58:
            return ODD, e, False
        i += 1
        while i < stop and blank(buffer[i]):
            i += 1
        if i >= stop:
            return ODD, e, False
        value = i
        if buffer[i] == 91 and name == 1:
            if positional:
                return ODD, e, False
            positional = True
            i += 1
            argument = len(ends) - 1
            while i < stop and blank(buffer[i]):
                i += 1
            if i < stop and buffer[i] == 93:
                i += 1
            else:
                while True:
                    while i < stop and blank(buffer[i]):
                        i += 1
                    if i >= stop:
                        return ODD, e, False
                    i, kind_of[e], first_of[e], length_of[e] = _scalar(buffer, i, stop)
                    if i < 0:
                        return ODD, e, False
                    name_of[e] = argument
                    argument += 1
                    e += 1
                    while i < stop and blank(buffer[i]):
                        i += 1
                    if i >= stop or not (buffer[i] == 44 or buffer[i] == 93):
                        return ODD, e, False
                    i += 1
                    if buffer[i - 1] == 93:
                        break
        else:
            if buffer[i] == 123 or buffer[i] == 91:
                i = skip(buffer, i, stop)
                kind, first, length = NESTED, value, i - value
            else:
                i, kind, first, length = _scalar(buffer, i, stop)
            if i < 0 or name == 1:
                return ODD, e, False
            if name >= 0:
                name_of[e] = name
                first_of[e] = first
                length_of[e] = length
                kind_of[e] = kind
                e += 1
            if name == 0:
                if typed:
                    return ODD, e, False
                typed = True
                if kind == STRING:
                    attribute = find(buffer, first, first + length, names, ends, slots)
                    type = types[attribute] if attribute >= 0 else UNKNOWN
                else:
                    type = ODD if kind == ESCAPED else UNKNOWN
                    if kind == NULL:
                        type = UNTYPED
        while i < stop and blank(buffer[i]):
            i += 1
        if i == stop:
            return type, e, positional
        if buffer[i] != 44:
            return ODD, e, False
        i += 1


@njit()
def room_for(n, capacity):  # type: ignore[no-untyped-def]
    """Allocate the result of a scan: the event types of n lines, the index of each line's first entry, and room for
    `capacity` entries.

    An entry consists of the number of a name, and the position, the length and the kind of a value.
    """
    entries = (
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.uint8),
    )
    return np.empty(n, np.int32), np.zeros(n + 1, np.int64), entries


@njit()
def scan(buffer, starts, stops, names, ends, slots, types, capacity):  # type: ignore[no-untyped-def]
    """Scan all lines.

    Return the event type of each line, and a mask of the lines whose values are in `args`. Also return the index of
    each line's first entry, and the entries.

    `capacity`: the maximum number of entries, which must exceed half the number of bytes. An entry takes at least two
    bytes (`0,`), and one more entry may be begun at the end.
    """
    n = len(starts)
    type_of, begin, entries = room_for(n, capacity)
    positional = np.zeros(n, np.bool_)
    guesses = (np.zeros(_GUESSES, np.int64), np.full(_GUESSES, -1, np.int64), np.zeros(_GUESSES, np.int64))
    for row in range(n):
        type_of[row], e, positional[row] = _line(
            buffer, starts[row], stops[row], names, ends, slots, types, guesses, entries, begin[row]
        )
        begin[row + 1] = e if type_of[row] != ODD else begin[row]
    return type_of, positional, begin, entries


@njit()
def gather(rows, positional, begin, entries, first_cell, next_cell, times, wanted, width, names, whole):  # type: ignore[no-untyped-def]
    """Return the cells of the lines `rows`, which must have the same event type. Also return a mask of the good lines.

    A line is good if no key appears twice and `args` has the right length. If `whole` is True, it must also have a
    value for each attribute. The first `wanted` of the `width` cells contain the times and the attributes.
    """
    name_of, first_of, length_of, kind_of = entries
    n = len(rows)
    offset = np.zeros((width, n), np.int32)
    length = np.zeros((width, n), np.int32)
    kind = np.zeros((width, n), np.uint8)
    good = np.ones(n, np.bool_)
    for k in range(n):
        row = rows[k]
        count = 0
        for e in range(begin[row], begin[row + 1]):
            name = name_of[e]
            if name >= names:
                count += 1
                cell = times + name - names
                if cell >= wanted:
                    good[k] = False
                    break
                if kind[cell, k] != ABSENT:
                    good[k] = False
                offset[cell, k], length[cell, k], kind[cell, k] = first_of[e], length_of[e], kind_of[e]
                continue
            cell = first_cell[name]
            while cell >= 0:
                if kind[cell, k] != ABSENT or (positional[row] and cell >= times):
                    good[k] = False
                offset[cell, k], length[cell, k], kind[cell, k] = first_of[e], length_of[e], kind_of[e]
                cell = next_cell[cell]
        if positional[row] and count != wanted - times:
            good[k] = False
        if whole and not positional[row]:
            for cell in range(times, wanted):
                if kind[cell, k] == ABSENT:
                    good[k] = False
    return offset, length, kind, good
