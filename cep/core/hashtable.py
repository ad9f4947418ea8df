"""Sets of keys: rows of 64-bit words get dense ids, found again by hash; the one hash table of the engine's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.room import roomy

Ints = NDArray[np.int64]


class KeySet:
    """Distinct rows of `width` int64 words, numbered from 0 in the order in which they came.

    `rows` holds them; a row never goes and its id never changes.
    """

    __slots__ = ("_slots", "_store", "count", "width")

    def __init__(self, width: int, capacity: int = 16) -> None:
        self.width = width
        self.count = 0
        self._store: Ints = np.empty((roomy(0, capacity), width), dtype=np.int64)
        self._slots: Ints = np.full(32, -1, dtype=np.int64)

    @property
    def rows(self) -> Ints:
        """The keys by id: shape (count, width). A view: valid until the next insert."""
        return self._store[: self.count]

    @property
    def nbytes(self) -> int:
        return int(self._store.nbytes + self._slots.nbytes)

    def copy(self) -> KeySet:
        """The same rows, to which others are added than here."""
        made = KeySet(self.width)
        made.count, made._store, made._slots = self.count, self._store.copy(), self._slots.copy()
        return made

    def insert(self, keys: Ints) -> tuple[Ints, Ints]:
        """The id of each row of `keys` (shape (n, width), C order), and the positions of the rows that are new."""
        assert keys.ndim == 2 and keys.shape[1] == self.width, "a key has the width of its set"
        keys = np.ascontiguousarray(keys)
        ids: Ints = np.empty(len(keys), dtype=np.int64)
        fresh: Ints = np.empty(len(keys), dtype=np.int64)
        news: list[Ints] = []
        start = 0
        while start < len(keys):
            # Blocks, so that input full of repetitions does not make a table as large as itself.
            stop = min(len(keys), start + max(1 << 14, self.count))
            self._reserve(stop - start)
            before = self.count
            self.count = int(_insert(self._slots, self._store, before, keys[start:stop], ids[start:stop], fresh))
            news.append(fresh[: self.count - before] + start)
            start = stop
        return ids, news[0] if len(news) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *news])

    def find(self, keys: Ints) -> Ints:
        """The id of each row of `keys`, -1 where the set does not have it."""
        assert keys.ndim == 2 and keys.shape[1] == self.width, "a key has the width of its set"
        ids: Ints = np.empty(len(keys), dtype=np.int64)
        _find(self._slots, self._store, np.ascontiguousarray(keys), ids)
        return ids

    def _reserve(self, more: int) -> None:
        # Room for `more` new rows at no more than half load.
        need = self.count + more
        if need > len(self._store):
            store: Ints = np.empty((roomy(need, 2 * len(self._store)), self.width), dtype=np.int64)
            store[: self.count] = self._store[: self.count]
            self._store = store
        size = len(self._slots)
        if 2 * need > size:
            while 2 * need > size:
                size *= 2
            self._slots = np.full(size, -1, dtype=np.int64)
            ids: Ints = np.empty(self.count, dtype=np.int64)
            _insert(self._slots, self._store, 0, self._store[: self.count], ids, np.empty(self.count, dtype=np.int64))


class Chains:
    """For each group of rows the rows in the order they came: `next` links, so that rows may be added at any time."""

    __slots__ = ("_first", "_last", "_next", "_size", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self._first: Ints = np.empty(0, dtype=np.int64)
        self._last: Ints = np.empty(0, dtype=np.int64)
        self._size: Ints = np.empty(0, dtype=np.int64)
        self._next: Ints = np.empty(0, dtype=np.int64)

    def append(self, groups: Ints, count: int) -> None:
        """Add rows `self.rows ...` with these groups, each below `count`."""
        assert not len(groups) or (groups.min() >= 0 and groups.max() < count), "a row is of one of the groups"
        self._first = _grown(self._first, count, -1)
        self._last = _grown(self._last, count, -1)
        self._size = _grown(self._size, count, 0)
        self._next = _grown(self._next, self.rows + len(groups), -1)
        _append(groups, self.rows, self._first, self._last, self._size, self._next)
        self.rows += len(groups)

    def expand(self, groups: Ints) -> tuple[Ints, Ints]:
        """For each of `groups` (-1: none) its rows: positions in `groups` (ascending) and rows, side by side."""
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
    return njit(linear=True, cache=True, boundscheck=False)(function)


def _slot_of(slots: Any, store: Any, keys: Any, row: Any) -> Any:
    # The slot that holds the key, or the empty one where it would go.
    h = np.uint64(0x9E3779B97F4A7C15)
    for j in range(keys.shape[1]):
        h = (h ^ np.uint64(keys[row, j])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(29)
    mask = slots.shape[0] - 1
    slot = np.int64(h & np.uint64(mask))
    while True:
        found = slots[slot]
        if found < 0:
            return slot
        same = True
        for j in range(keys.shape[1]):
            if store[found, j] != keys[row, j]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask


_slot_of = _compiled(_slot_of)


def _insert(slots: Any, store: Any, count: Any, keys: Any, ids: Any, fresh: Any) -> Any:
    new = 0
    for row in range(keys.shape[0]):
        slot = _slot_of(slots, store, keys, row)
        found = slots[slot]
        if found < 0:
            found = count + new
            slots[slot] = found
            for j in range(keys.shape[1]):
                store[found, j] = keys[row, j]
            fresh[new] = row
            new += 1
        ids[row] = found
    return count + new


_insert = _compiled(_insert)


def _find(slots: Any, store: Any, keys: Any, ids: Any) -> None:
    for row in range(keys.shape[0]):
        ids[row] = slots[_slot_of(slots, store, keys, row)]


_find = _compiled(_find)


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
