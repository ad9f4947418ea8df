"""A compiled scanner of text tables. It finds the cells of the wanted columns in one pass over the bytes. Quotes follow
RFC 4180.

Polars reads tables faster, but adds missing fields to short lines and does not report line numbers. With an additional
pass that finds short lines and line numbers, polars would be slower (docs/decisions/2026-11-22-records.md).
"""

from __future__ import annotations

import numpy as np

from cep.connectors.records.numbers import ESCAPED, NULL, STRING
from cep.core.kernels import njit

FINE, FIELDS, QUOTES, OPEN = 0, 1, 2, 3
"""The states of a line.

- FINE: the line is valid.
- FIELDS: the line has too few or too many fields.
- QUOTES: text follows a closing quote in its field.
- OPEN: a quote is not closed.
"""


@njit(_nrt=False)
def _ends(buffer, i, stop, separator):  # type: ignore[no-untyped-def]
    """Return True if a field ends at position i. A field ends at a separator, at a line end, or at `stop`."""
    return (
        i >= stop
        or buffer[i] == separator
        or buffer[i] == 10
        or (buffer[i] == 13 and (i + 1 >= stop or buffer[i + 1] == 10))
    )


@njit(_nrt=False)
def _field(buffer, i, stop, separator, quote, longest):  # type: ignore[no-untyped-def]
    """Scan the field that begins at position i.

    Return the position after the field, the position and the length of its text, the kind of its cell, and the state.
    The state is FINE, QUOTES or OPEN.
    """
    escaped = False
    if i < stop and buffer[i] == quote:
        i += 1
        first = i
        while True:
            while i < stop and i - first <= longest and buffer[i] != quote:
                i += 1
            if i >= stop or i - first > longest:
                return i, first, 0, NULL, OPEN
            if i + 1 < stop and buffer[i + 1] == quote:
                escaped = True
                i += 2
                continue
            break
        length = i - first
        i += 1
        if not _ends(buffer, i, stop, separator):
            return i, first, length, NULL, QUOTES
    else:
        first = i
        while i < stop and buffer[i] != separator and buffer[i] != 10:
            i += 1
        length = i - first
        if length > 0 and buffer[i - 1] == 13 and (i >= stop or buffer[i] == 10):
            length -= 1
            i -= 1
    if length == 0 or (length == 2 and buffer[first] == 78 and buffer[first + 1] == 65):
        return i, first, length, NULL, FINE
    return i, first, length, (ESCAPED if escaped else STRING), FINE


@njit()
def scan(  # type: ignore[no-untyped-def]
    buffer, i, final, longest, separator, quote, comment, columns, first_cell, next_cell, width, capacity
):
    """Scan the lines of a table, starting at position `i`.

    Return the number of scanned lines, the position where the scan ended, and the number of line breaks before it. Also
    return the offset, length and kind of each cell, and the state, start and number of each line.

    The scan ends before an incomplete last line, unless `final` is True. If a quote is not closed within `longest`
    bytes, the state of its line is OPEN. A line with invalid quotes ends at its first line break, and the scan
    continues there. Lines that begin with the bytes `comment` are skipped. `capacity` must exceed the number of line
    breaks in the buffer.
    """
    stop = len(buffer)
    offset = np.zeros((width, capacity), np.int32)
    length = np.zeros((width, capacity), np.int32)
    kind = np.zeros((width, capacity), np.uint8)
    state = np.zeros(capacity, np.uint8)
    starts = np.zeros(capacity + 1, np.int64)
    lines = np.zeros(capacity, np.int64)
    row = 0
    line = 0
    while i < stop:
        start = i
        if buffer[i] == 10 or (buffer[i] == 13 and (buffer[i + 1] == 10 if i + 1 < stop else final)):
            i = min(i + (1 if buffer[i] == 10 else 2), stop)
            line += 1
            continue
        remark = len(comment) > 0 and i + len(comment) <= stop
        for j in range(len(comment)):
            remark = remark and buffer[i + j] == comment[j]
        if remark:
            while i < stop and buffer[i] != 10:
                i += 1
            if i >= stop and not final:
                return row, start, line, offset, length, kind, state, starts, lines
            i = min(i + 1, stop)
            line += 1
            continue
        starts[row] = start
        lines[row] = line
        state[row] = FINE
        column = 0
        while True:
            i, first, size, what, fine = _field(buffer, i, stop, separator, quote, longest)
            if fine != FINE:
                state[row] = fine
                break
            if column < columns:
                cell = first_cell[column]
                while cell >= 0:
                    offset[cell, row], length[cell, row], kind[cell, row] = first, size, what
                    cell = next_cell[cell]
            column += 1
            if i < stop and buffer[i] == separator:
                i += 1
                continue
            break
        complete = i < stop and not (buffer[i] == 13 and i + 1 == stop)
        if state[row] == FINE and column != columns:
            state[row] = FIELDS
        if state[row] >= QUOTES:
            if state[row] == OPEN and not final and i >= stop:
                return row, start, line, offset, length, kind, state, starts, lines
            i = start
            while i < stop and buffer[i] != 10:
                i += 1
            complete = i < stop
        if not complete and not final:
            return row, start, line, offset, length, kind, state, starts, lines
        if complete and buffer[i] == 13:
            i += 1
        i = min(i + 1, stop)
        for j in range(start, i):
            if buffer[j] == 10:
                line += 1
        row += 1
        starts[row] = i
    return row, i, line, offset, length, kind, state, starts, lines
