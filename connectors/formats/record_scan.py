"""A compiled scanner of JSON whose records are in a list or span several lines. It copies the records so that each
record is on a line of its own."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit

BETWEEN, LIST = 0, 1
"""The states that the scanner may have at the end of a text. BETWEEN: outside of a list, between two records. LIST:
inside a list, between two records."""
_BROKEN = 1  # replaces a line end in a string, which JSON does not allow


@njit(_nrt=False)
def _apart(c):  # type: ignore[no-untyped-def]
    return c == 32 or c == 9 or c == 10 or c == 13 or c == 44


@njit()
def a_line_each(buffer, place, final, capacity):  # type: ignore[no-untyped-def]
    """Copy records so that each record is on a line of its own. The number of bytes stays the same.

    Return the copy, and the positions of each record's beginning and end. Also return the number of bytes that were
    read, and the state at the end.

    `place`: the state at the beginning. If the last record is incomplete, it is not read, unless `final` is True. A
    line end follows each record, except a record at the end of the bytes. `capacity`: the maximum number of records,
    which must exceed half the number of bytes. A record takes at least one byte, and its separator takes another byte.
    """
    n = len(buffer)
    out = np.full(n, 32, np.uint8)
    first = np.empty(capacity, np.int64)
    beyond = np.empty(capacity, np.int64)
    e = 0
    i = 0
    while i < n:
        c = buffer[i]
        if _apart(c):
            i += 1
            continue
        if c == 91 and place == BETWEEN:
            place = LIST
            i += 1
            continue
        if c == 93 and place == LIST:
            place = BETWEEN
            i += 1
            continue
        begin = i
        depth = 0
        inside = False
        while i < n:
            c = buffer[i]
            out[i] = c
            if inside:
                if c == 92 and i + 1 < n:
                    i += 1
                    out[i] = buffer[i]
                elif c == 34:
                    inside = False
                if out[i] == 10:
                    out[i] = _BROKEN
            elif c == 34:
                inside = True
            elif c == 123 or c == 91:
                depth += 1
            elif (c == 125 or c == 93) and depth > 0:
                depth -= 1
            elif depth == 0 and (_apart(c) or c == 93):
                break
            elif c == 10 or c == 13:
                out[i] = 32
            i += 1
        if i >= n and not final:  # the record may continue
            return out[:begin], first[:e], beyond[:e], begin, place
        first[e], beyond[e] = begin, i
        e += 1
        if i < n:
            if buffer[i] == 93:
                place = BETWEEN
            out[i] = 10
            i += 1
    return out, first[:e], beyond[:e], n, place
