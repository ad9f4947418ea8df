"""Compiled scanner of JSON without a record per line: put each record of a list, or of objects over several lines, on a
line."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit

BETWEEN, LIST = 0, 1
"""The position at which a text continues: between records, or between records of a list."""
_BROKEN = 1  # in place of a line end in a string, which JSON does not allow


@njit(_nrt=False)
def _apart(c):  # type: ignore[no-untyped-def]
    """Return True if a character separates records."""
    return c == 32 or c == 9 or c == 10 or c == 13 or c == 44


@njit()
def a_line_each(buffer, place, final, capacity):  # type: ignore[no-untyped-def]
    """Return the same bytes with a record per line, where each begins and ends, how many bytes are used, and where the
    text goes on.

    A record without an end is left, unless `final`. A line end follows each record, except at the end of the bytes.
    `capacity` is more than half the bytes: a record takes at least one, and its separator another.
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
        if i >= n and not final:  # more of it may follow
            return out[:begin], first[:e], beyond[:e], begin, place
        first[e], beyond[e] = begin, i
        e += 1
        if i < n:
            if buffer[i] == 93:
                place = BETWEEN
            out[i] = 10
            i += 1
    return out, first[:e], beyond[:e], n, place
