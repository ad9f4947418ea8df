"""A compiled scanner of JSON documents that contain many records. It finds the records, and writes a line of JSON for
each record. Documents in unusual forms are called not plain. They must be read by another reader."""

from __future__ import annotations

import numpy as np

from cep.connectors.formats.json_scan import blank, skip, string
from cep.connectors.records.keynames import is_name
from cep.connectors.records.numbers import is_digit
from cep.core.kernels import njit

PLACES = 6
"""The maximum number of digits after the decimal point of a time."""
LONGEST = 12
"""The maximum number of digits before the decimal point of a time."""


@njit()
def flat(buffer):  # type: ignore[no-untyped-def]
    """Return a copy of the bytes in which line ends are replaced by blanks.

    Also return True if all strings are closed and contain no line end or other control character.
    """
    out = np.empty(len(buffer), np.uint8)
    inside = False
    i = 0
    while i < len(buffer):
        c = buffer[i]
        out[i] = 32 if c == 10 or c == 13 else c
        if c == 34:
            inside = not inside
        elif inside and c < 32:
            return out, False
        elif inside and c == 92 and i + 1 < len(buffer):
            i += 1
            out[i] = buffer[i]
            if buffer[i] < 32:
                return out, False
        i += 1
    return out, not inside


@njit(_nrt=False)
def _past(buffer, i, stop):  # type: ignore[no-untyped-def]
    while i < stop and blank(buffer[i]):
        i += 1
    return i


@njit(_nrt=False)
def _list(buffer, i, stop, first, beyond, e):  # type: ignore[no-untyped-def]
    """Find the objects in the list at position i, and store their positions in `first` and `beyond`.

    Return the position after the list, and the new number of stored objects. The position is -1 if an element is not an
    object. `e`: the number of stored objects so far.
    """
    i = _past(buffer, i + 1, stop)
    if i < stop and buffer[i] == 93:
        return i + 1, e
    while i < stop and buffer[i] == 123:
        end = skip(buffer, i, stop)
        if end < 0:
            return -1, e
        first[e], beyond[e] = i, end
        e += 1
        i = _past(buffer, end, stop)
        if i < stop and buffer[i] == 93:
            return i + 1, e
        if i >= stop or buffer[i] != 44:
            return -1, e
        i = _past(buffer, i + 1, stop)
    return -1, e


@njit(_nrt=False)
def _document(buffer, i, stop, pages, first, beyond, e):  # type: ignore[no-untyped-def]
    """Find the records of the document at position i, and store their positions in `first` and `beyond`.

    Return the position after the document, and the new number of stored records. The position is -1 if this scanner
    does not support the document. `e`: the number of stored records so far.

    If the document is a list, its elements are the records. If it is an object that has a list at the key `pages`, the
    elements of this list are the records. Any other object is itself a record.
    """
    if buffer[i] == 91:
        return _list(buffer, i, stop, first, beyond, e)
    if buffer[i] != 123:
        return -1, e
    begin, before, lists = i, e, 0
    end = skip(buffer, i, stop)
    i = _past(buffer, i + 1, stop)
    while end >= 0 and len(pages) and buffer[i] == 34:
        key = i + 1
        i, escaped = string(buffer, key, stop)
        if escaped:
            return -1, e
        named = is_name(buffer, key, i - 1, pages, 0, len(pages))
        i = _past(buffer, _past(buffer, i, stop) + 1, stop)  # after the colon: `skip` has checked the JSON
        if named and buffer[i] == 91:
            lists += 1
            i, e = _list(buffer, i, stop, first, beyond, e)
        elif buffer[i] == 123 or buffer[i] == 91:
            i = skip(buffer, i, stop)
        elif buffer[i] == 34:
            i, _ = string(buffer, i + 1, stop)
        else:
            while buffer[i] != 44 and buffer[i] != 125:
                i += 1
        if i < 0 or lists > 1:
            return -1, e
        i = _past(buffer, i, stop)
        if buffer[i] == 125:
            break
        i = _past(buffer, i + 1, stop)
    if end >= 0 and lists == 0:
        first[before], beyond[before] = begin, end
        e = before + 1
    return end, e


@njit()
def records(buffer, starts, stops, pages, alone, capacity):  # type: ignore[no-untyped-def]
    """Find the records of all documents in several spans of the buffer.

    Return a mask of the spans in which this scanner supports all documents. Records are only returned for these spans.
    For each record, return the position of its beginning, the position of its end, the index of its span, and the
    number of its document's first record.

    `alone`: True if each span must be a single document. `capacity`: the maximum number of records, which must exceed
    half the number of bytes, because a record takes at least two bytes.
    """
    n = len(starts)
    plain = np.ones(n, np.bool_)
    first = np.empty(capacity, np.int64)
    beyond = np.empty(capacity, np.int64)
    of = np.empty(capacity, np.int64)
    head = np.empty(capacity, np.int64)
    e = 0
    for k in range(n):
        begin = e
        i = _past(buffer, starts[k], stops[k])
        while i < stops[k]:
            before = e
            i, e = _document(buffer, i, stops[k], pages, first, beyond, e)
            for j in range(before, e):
                of[j], head[j] = k, before
            if i >= 0:
                i = _past(buffer, i, stops[k])
            if i < 0 or (alone and i < stops[k]):
                plain[k] = False
                e = begin
                break
    return plain, first[:e], beyond[:e], of[:e], head[:e]


@njit()
def members(buffer, first, beyond):  # type: ignore[no-untyped-def]
    """Count the colons in each object, except those inside strings. `first`, `beyond`: the positions where each object
    begins and ends."""
    counts = np.zeros(len(first), np.int64)
    for k in range(len(first)):
        i = first[k]
        while i < beyond[k]:
            if buffer[i] == 34:
                i, _ = string(buffer, i + 1, beyond[k])
                continue
            counts[k] += buffer[i] == 58
            i += 1
    return counts


@njit(_nrt=False)
def _decimal(buffer, i, length):  # type: ignore[no-untyped-def]
    """Parse a number of seconds. Return the microseconds, and the number of digits after the decimal point.

    The number of digits is -1 if the text is not a number, or has an exponent or too many digits. If `length` is 0, the
    number is absent, and the result is (0, 0).
    """
    if length == 0:
        return 0, 0
    stop = i + length
    negative = buffer[i] == 45
    i += negative
    first = i
    value = np.int64(0)
    while i < stop and is_digit(buffer[i]):
        value = value * 10 + (np.int64(buffer[i]) - 48)
        i += 1
        if i - first > LONGEST:
            return 0, -1
    places = 0
    if i < stop and buffer[i] == 46:
        places = stop - i - 1
        i += 1
    if places > PLACES:
        return 0, -1
    for place in range(PLACES):
        value *= 10
        if place < places:
            if not is_digit(buffer[i]):
                return 0, -1
            value += np.int64(buffer[i]) - 48
            i += 1
    return (-value if negative else value), (places if i == stop else -1)


@njit(_nrt=False)
def _named(c, begins):  # type: ignore[no-untyped-def]
    """Return True if the name of a SenML record may contain this character. `begins`: True if it is the first character
    of the name."""
    if 48 <= c <= 57 or 97 <= (c | 32) <= 122:
        return True
    return not begins and (c == 45 or c == 46 or c == 47 or c == 58 or c == 95)


@njit()
def resolve(buffer, first, length, least):  # type: ignore[no-untyped-def]
    """Resolve the names and times of SenML records: prepend the base name to the name, and add the base time to the
    time.

    Return a buffer that contains the resolved names and times, the end of each of these texts, and a mask of the
    records whose name and time are valid.

    `first`, `length`: matrices of positions and lengths, with one column per record. Their rows are the base name, the
    name, the base time and the time. The length is 0 if a record lacks the value. `least`: the limit in microseconds. A
    smaller time is relative, so it is not valid here.

    In the buffer, a name takes the bytes of its parts and two quotes. A time takes at most twenty bytes.
    """
    n = first.shape[1]
    size = 0
    for k in range(n):
        size += length[0, k] + length[1, k] + 22
    out = np.empty(size, np.uint8)
    ends = np.zeros(2 * n + 1, np.int64)
    good = np.ones(n, np.bool_)
    o = 0
    for k in range(n):
        out[o] = 34
        o += 1
        begin = o
        for part in range(2):
            for i in range(first[part, k], first[part, k] + length[part, k]):
                good[k] &= _named(buffer[i], o == begin)
                out[o] = buffer[i]
                o += 1
        good[k] &= o > begin
        out[o] = 34
        o += 1
        ends[2 * k + 1] = o
        base, places = _decimal(buffer, first[2, k], length[2, k])
        own, more = _decimal(buffer, first[3, k], length[3, k])
        time = base + own
        good[k] &= places >= 0 and more >= 0 and time >= least
        if good[k]:
            places = max(places, more)
            for _ in range(places, PLACES):
                time //= 10
            width = places + (places > 0)
            rest = time
            for _ in range(places):
                rest //= 10
            while rest > 0:
                width += 1
                rest //= 10
            for place in range(width):
                if places > 0 and place == places:
                    out[o + width - 1 - place] = 46
                else:
                    out[o + width - 1 - place] = 48 + time % 10
                    time //= 10
            o += width
        ends[2 * k + 2] = o
    return out[:o], ends, good


@njit()
def identify(buffer, first, length, collection, text):  # type: ignore[no-untyped-def]
    """Find the ids in links to entities of a collection.

    Return the position and the length of each id, a mask of the ids that are texts, and a mask of the links that could
    be read. The length is 0 if the link is absent. `text`: True if all ids count as texts.
    """
    n = len(first)
    starts = np.zeros(n, np.int64)
    size = np.zeros(n, np.int64)
    quoted = np.zeros(n, np.bool_)
    good = np.ones(n, np.bool_)
    for k in range(n):
        i, stop = np.int64(first[k]), np.int64(first[k]) + length[k]
        j = stop - 1
        if j < i or buffer[j] != 41:
            good[k] = length[k] == 0
            continue
        j -= 1
        whole = True
        while j >= i and buffer[j] != 40 and buffer[j] != 41 and buffer[j] != 47 and buffer[j] != 39:
            whole &= is_digit(buffer[j])
            j -= 1
        begin = j + 1
        after = j - len(collection) - 1
        good[k] = (
            j >= i
            and buffer[j] == 40
            and begin < stop - 1
            and after >= i
            and buffer[after] == 47
            and is_name(buffer, after + 1, j, collection, 0, len(collection))
        )
        while whole and begin < stop - 2 and buffer[begin] == 48:
            begin += 1
        starts[k], size[k], quoted[k] = begin, stop - 1 - begin, text or not whole
    return starts, size, quoted, good


@njit()
def write(buffer, names, ends, first, length, quoted):  # type: ignore[no-untyped-def]
    """Write a line of JSON for each record. The line is an object that contains the record's values.

    `names`, `ends`: the texts to write before the values, and the end of each text. `first`, `length`: the position and
    the length of each value. The length is -1 if the record lacks the value. `quoted`: True for each value to write in
    quotes.

    For each value, room is allocated for its name, its bytes, two quotes and a separator. For each line, room is
    allocated for two brackets and a line end.
    """
    columns, n = first.shape
    size = 3 * n
    for c in range(columns):
        for k in range(n):
            size += ends[c + 1] - ends[c] + max(0, length[c, k]) + 4
    out = np.empty(size, np.uint8)
    o = 0
    for k in range(n):
        out[o] = 123
        o += 1
        begin = o
        for c in range(columns):
            if length[c, k] < 0:
                continue
            if o > begin:
                out[o], out[o + 1] = 44, 32
                o += 2
            for i in range(ends[c], ends[c + 1]):
                out[o] = names[i]
                o += 1
            if quoted[c, k]:
                out[o] = 34
                o += 1
            for i in range(first[c, k], first[c, k] + length[c, k]):
                out[o] = buffer[i]
                o += 1
            if quoted[c, k]:
                out[o] = 34
                o += 1
        out[o], out[o + 1] = 125, 10
        o += 2
    return out[:o]
