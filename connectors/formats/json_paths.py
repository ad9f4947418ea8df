"""A compiled search along paths in JSON. It finds values in nested objects, and creates a row for each element of a
list.

Another scanner has already checked that the text is JSON, and has found the top-level values of each record. Objects
and lists along a path are called containers. They have cells of their own, which follow the cells of the event type's
values. Containers are searched one after the other, and outer containers before the inner ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.connectors.records.keynames import is_name
from cep.connectors.records.numbers import ABSENT, ESCAPED, FALSE, NESTED, NULL, NUMBER, STRING, TRUE
from cep.connectors.records.paths import EACH, Path, path, place
from cep.core.kernels import njit

Matrix = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]
"""The offsets, lengths and kinds of cells, as matrices. A matrix has one row per column of the event type, and one
column per record."""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Containers:
    """The objects and lists in which values are searched, and the keys of these values.

    - `cell`: for each container, the number of its cell.
    - `keys`: for each container, the number of its first key.
    - `letters`, `ends`: the bytes of all keys, and the positions where each key begins and ends in them.
    - `places`: for each key, the index of a list element, or -1 if the key is a name.
    - `targets`: for each key, the number of the cell that stores its value.
    """

    cell: Ints
    keys: Ints
    letters: NDArray[np.uint8]
    ends: Ints
    places: Ints
    targets: Ints

    @classmethod
    def of(cls, containers: Sequence[Path], cells: dict[Path, list[int]]) -> Containers:
        members = [[steps for steps in cells if steps[:-1] == container] for container in containers]
        inside = [[(steps[-1], cell) for steps in paths for cell in cells[steps]] for paths in members]
        names = [name for fields in inside for name, _ in fields]
        raw = [name.encode() for name in names]
        places = [-1 if (index := place(name)) is None else index for name in names]
        return cls(
            np.array([cells[container][-1] for container in containers], np.int64),
            np.cumsum([0] + [len(fields) for fields in inside]),
            np.frombuffer(b"".join(raw), np.uint8),
            np.cumsum([0] + [len(name) for name in raw]),
            np.array(places, np.int64),
            np.array([cell for fields in inside for _, cell in fields], np.int64),
        )


@dataclass(frozen=True, slots=True)
class EventPaths:
    """The paths to the values of one event type. There is one cell per source. The cells of containers follow.

    - `keys`: the top-level keys, each with the number of its cell.
    - `before`: the containers to search in each record, outer containers before inner ones.
    - `list`: the number of the cell for the list whose elements are events, or None.
    - `elements`: the numbers of the cells that store an element of this list.
    - `after`: the containers to search in each element of this list.
    - `width`: the number of cells.
    """

    keys: tuple[tuple[str, int], ...]
    before: Containers
    list: int | None
    elements: tuple[int, ...]
    after: Containers
    width: int

    @classmethod
    def of(cls, sources: Sequence[str]) -> EventPaths | None:
        """Return the paths to the values of `sources`. Return None if all values are at the top level of a record."""
        paths = [path(source) for source in sources]
        if all(len(steps) == 1 for steps in paths):
            return None
        cells: dict[Path, list[int]] = {}
        keys = []
        for cell, (source, steps) in enumerate(zip(sources, paths)):
            keys.append((source, cell))
            if len(steps) > 1:
                cells.setdefault(steps, []).append(cell)
        width = len(sources)
        containers = sorted(
            {steps[:n] for steps in cells for n in range(1, len(steps))}, key=lambda prefix: (len(prefix), prefix)
        )
        for steps in containers:
            cells.setdefault(steps, []).append(width)
            width += 1
        keys += [(steps[0], cell) for steps in containers if len(steps) == 1 for cell in cells[steps][-1:]]
        lists = next((steps for steps in containers if (*steps, EACH) in cells), None)
        objects = [steps for steps in containers if steps != lists]
        return cls(
            tuple(keys),
            Containers.of([steps for steps in objects if EACH not in steps], cells),
            None if lists is None else cells[lists][-1],
            () if lists is None else tuple(cells[*lists, EACH]),
            Containers.of([steps for steps in objects if EACH in steps], cells),
            width,
        )


def descend(buffer: NDArray[np.uint8], matrix: Matrix, good: Bools, inside: Containers) -> None:
    """Find the values inside JSON objects and lists, and store their positions in the matrix. Set `good` to
    False for rows that another reader must read."""
    if len(inside.cell):
        names = inside.letters, inside.ends, inside.places
        _descend(buffer, *matrix, good, inside.cell, inside.keys, *names, inside.targets)


def expand(
    buffer: NDArray[np.uint8], matrix: Matrix, good: Bools, list: int, elements: Sequence[int]
) -> tuple[Matrix, Ints, Ints]:
    """Create a row for each element of a list.

    Return the new matrix, and for each new row the number of its original row and the index of its element. `list`: the
    number of the list's cell. `elements`: the numbers of the cells that store the element. A row that has no list gets
    no new row, and `good` becomes False for it.
    """
    offset, length, kind = matrix
    counts, first, size, what = _elements(buffer, offset[list], length[list], kind[list], good)
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset, length, kind = offset[:, rows], length[:, rows], kind[:, rows]
    for cell in elements:
        offset[cell], length[cell], kind[cell] = first[: len(rows)], size[: len(rows)], what[: len(rows)]
    return (offset, length, kind), rows, place


@njit(_nrt=False, forceinline=True)
def _closed(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Scan a string whose first character is at position i. Return the position after the closing quote, and True if
    the string has escapes."""
    escaped = False
    while i < stop and buffer[i] != 34:
        if buffer[i] == 92:
            escaped = True
            i += 1
        i += 1
    return i + 1, escaped


@njit(_nrt=False, forceinline=True)
def _value(buffer, i, stop):  # type: ignore[no-untyped-def]
    """Scan the value at position i, which must be valid JSON. Return the position after it, its kind, and the position
    and the length of its text."""
    c = buffer[i]
    if c == 34:
        end, escaped = _closed(buffer, i + 1, stop)
        return end, (ESCAPED if escaped else STRING), i + 1, end - i - 2
    if c == 123 or c == 91:
        first = i
        depth = 0
        while i < stop:
            c = buffer[i]
            i += 1
            if c == 34:
                i, _ = _closed(buffer, i, stop)
            elif c == 123 or c == 91:
                depth += 1
            elif c == 125 or c == 93:
                depth -= 1
                if depth == 0:
                    break
        return i, NESTED, first, i - first
    if c == 116 or c == 110:
        return i + 4, (TRUE if c == 116 else NULL), i, 4
    if c == 102:
        return i + 5, FALSE, i, 5
    first = i
    what = NULL if c == 78 or c == 73 or (c == 45 and buffer[i + 1] == 73) else NUMBER
    while i < stop and buffer[i] > 32 and buffer[i] != 44 and buffer[i] != 125 and buffer[i] != 93:
        i += 1
    return i, what, first, i - first


@njit(_nrt=False, forceinline=True)
def _inside(buffer, i, stop, row, offset, length, kind, first_key, last_key, letters, ends, targets):  # type: ignore[no-untyped-def]
    """Find the values of the wanted keys in an object, and store their cells. The object ends with the bracket at
    `stop`.

    Return False if a key of the object has escapes, or if a wanted key appears twice.
    """
    while True:
        while i < stop and buffer[i] != 34:
            i += 1
        if i >= stop:
            return True
        first = i + 1
        i, escaped = _closed(buffer, first, stop)
        if escaped:
            return False
        last = i - 1
        while i < stop and (buffer[i] <= 32 or buffer[i] == 58):
            i += 1
        i, what, begin, size = _value(buffer, i, stop)
        for key in range(first_key, last_key):
            if is_name(buffer, first, last, letters, ends[key], ends[key + 1]):
                cell = targets[key]
                if kind[cell, row] != ABSENT:
                    return False
                offset[cell, row], length[cell, row], kind[cell, row] = begin, size, what


@njit(_nrt=False, forceinline=True)
def _within(buffer, i, stop, row, offset, length, kind, first_key, last_key, places, targets):  # type: ignore[no-untyped-def]
    """Find the wanted elements in a list by their index, and store their cells. The list ends with the bracket at
    `stop`.

    Return False if a wanted key is a name instead of an index.
    """
    position = 0
    while True:
        while i < stop and (buffer[i] <= 32 or buffer[i] == 44):
            i += 1
        if i >= stop:
            return True
        i, what, begin, size = _value(buffer, i, stop)
        for key in range(first_key, last_key):
            if places[key] < 0:
                return False
            if places[key] == position:
                cell = targets[key]
                offset[cell, row], length[cell, row], kind[cell, row] = begin, size, what
        position += 1


@njit(_nrt=False)
def _descend(buffer, offset, length, kind, good, cells, keys, letters, ends, places, targets):  # type: ignore[no-untyped-def]
    """Find the values inside several containers, for all rows. Outer containers are searched before inner ones."""
    for row in range(kind.shape[1]):
        for number in range(len(cells)):
            cell = cells[number]
            if not good[row]:
                break
            if kind[cell, row] <= NULL:
                continue
            i = np.int64(offset[cell, row])
            stop = i + length[cell, row] - 1
            first, last = keys[number], keys[number + 1]
            if kind[cell, row] != NESTED:
                good[row] = False
            elif buffer[i] == 91:
                good[row] = places[first] >= 0 and _within(
                    buffer, i + 1, stop, row, offset, length, kind, first, last, places, targets
                )
            else:
                good[row] = places[first] < 0 and _inside(
                    buffer, i + 1, stop, row, offset, length, kind, first, last, letters, ends, targets
                )


@njit()
def _elements(buffer, offset, length, kind, good):  # type: ignore[no-untyped-def]
    """Return the number of elements in the list of each row. Also return the positions, lengths and kinds of the
    elements of all rows.

    A list of n elements takes at least 2 n + 1 bytes. This limits the number of elements for which room is allocated.
    """
    n = len(kind)
    most = 0
    for row in range(n):
        if kind[row] == NESTED:
            most += length[row] // 2 + 1
    counts = np.zeros(n, np.int64)
    first = np.empty(most, np.int32)
    size = np.empty(most, np.int32)
    what = np.empty(most, np.uint8)
    e = 0
    for row in range(n):
        if not good[row]:
            continue
        i = np.int64(offset[row])
        stop = i + length[row]
        if kind[row] != NESTED or buffer[i] != 91:
            good[row] = False
            continue
        begin = e
        i += 1
        stop -= 1
        while True:
            while i < stop and (buffer[i] <= 32 or buffer[i] == 44):
                i += 1
            if i >= stop:
                break
            i, what[e], first[e], size[e] = _value(buffer, i, stop)
            e += 1
        counts[row] = e - begin
    return counts, first, size, what
