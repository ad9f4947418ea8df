"""Groups of rows as linked lists. The rows of a group keep their insertion order."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.core.array_capacity import roomy
from cep.core.hashtable import Ints
from cep.core.kernels import njit


class Chains:
    """The rows of each group in insertion order. Rows are linked by `next`, so they can be added at any time."""

    __slots__ = ("_first", "_last", "_next", "_size", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self._first: Ints = np.empty(0, dtype=np.int64)
        self._last: Ints = np.empty(0, dtype=np.int64)
        self._size: Ints = np.empty(0, dtype=np.int64)
        self._next: Ints = np.empty(0, dtype=np.int64)

    def append(self, groups: Ints, count: int) -> None:
        """Append rows to groups. `groups`: the group of each new row. `count`: a number above all group numbers.

        The new rows are numbered from `self.rows` on.
        """
        assert not len(groups) or (groups.min() >= 0 and groups.max() < count), "a row is of one of the groups"
        self._first = _grown(self._first, count, -1)
        self._last = _grown(self._last, count, -1)
        self._size = _grown(self._size, count, 0)
        self._next = _grown(self._next, self.rows + len(groups), -1)
        _append(groups, self.rows, self._first, self._last, self._size, self._next)
        self.rows += len(groups)

    def expand(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return all rows of the groups `groups`. An entry of -1 stands for no group.

        The result is two arrays of equal length: the position in `groups` (ascending), and the row.
        """
        total = int(self._size[groups[groups >= 0]].sum())
        index: Ints = np.empty(total, dtype=np.int64)
        rows: Ints = np.empty(total, dtype=np.int64)
        _expand(groups, self._first, self._next, index, rows)
        return index, rows


def _grown(array: Ints, need: int, fill: int) -> Ints:
    if need <= len(array):
        return array
    grown: Ints = np.full(roomy(need, 2 * len(array)), fill, dtype=np.int64)
    grown[: len(array)] = array
    return grown


def _compiled(function: Any) -> Any:
    return njit(boundscheck=False)(function)


def _append(groups: Any, start: Any, first: Any, last: Any, size: Any, following: Any) -> None:
    for i in range(groups.shape[0]):
        group = groups[i]
        row = start + i
        if size[group] == 0:
            first[group] = row
        else:
            following[last[group]] = row
        following[row] = -1
        last[group] = row
        size[group] += 1


_append = _compiled(_append)


def _expand(groups: Any, first: Any, following: Any, index: Any, rows: Any) -> None:
    out = 0
    for i in range(groups.shape[0]):
        if groups[i] >= 0:
            row = first[groups[i]]
            while row >= 0:
                index[out] = i
                rows[out] = row
                out += 1
                row = following[row]


_expand = _compiled(_expand)
