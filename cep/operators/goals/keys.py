"""Join keys to slots: a hash index of int64 rows that keeps every key itself, so no two are ever confused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.relation import FIRST, Table
from cep.core.room import SPARE, roomy
from cep.operators.goals.intrinsics import bare, bare_linear, prefetch

Ints = NDArray[np.int64]

MISSING = -(2**63)
AHEAD = 24  # rows: the index is asked for, half as many ahead the key
NAN = 0x7FF8000000000000  # a missing float's bits; the integer of these bits joins nothing either


@njit(cache=True, inline="always")
def mix(hashed, value):  # type: ignore[no-untyped-def]
    """One round of a 64-bit mixer (murmur3's finaliser)."""
    h = np.uint64(hashed) ^ np.uint64(value)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@njit(cache=True)
def grow(array, needed):  # type: ignore[no-untyped-def]
    """`array` with room for at least `needed` rows, its rows kept."""
    larger = np.empty((max(needed, SPARE * array.shape[0]), array.shape[1]), np.int64)
    larger[: array.shape[0]] = array
    return larger


@bare_linear
def _reindex(keys, count, index):  # type: ignore[no-untyped-def]
    """Enter the first `count` keys into an empty index of a power of two, which is larger."""
    mask = index.shape[0] - 1
    for slot in range(count):
        hashed = np.uint64(0)
        for k in range(keys.shape[1]):
            hashed = mix(hashed, keys[slot, k])
        place = np.int64(hashed & np.uint64(mask))
        while index[place] >= 0:
            place = (place + 1) & mask
        index[place] = slot


def reindex(keys: Ints, count: int, capacity: int) -> Ints:
    """A hash index of the first `count` keys; capacity a power of two."""
    index = np.full(capacity, -1, np.int64)  # made by numpy, which asks for huge pages
    _reindex(keys, count, index)
    return index


@njit(linear=True, cache=True)
def _slots_of(table, columns, index, keys, count, insert, groups):  # type: ignore[no-untyped-def]
    """The slot of each row's key, and the number of keys then; `index` and `keys` have room for a new key a row."""
    n = table.shape[1]
    width = columns.shape[0]
    slots = np.empty(n, np.int64)
    if width == 0:
        if insert and count == 0 and n > 0:
            count = 1
        slots[:] = 0 if count > 0 else -1
        return slots, count
    mask = np.uint64(index.shape[0] - 1)
    hashes = np.zeros(n, np.uint64)
    for k in range(width):
        for i in range(n):
            value = table[FIRST + columns[k], i]
            hashes[i] = mix(hashes[i], value)
            if not groups and (value == MISSING or value == NAN):
                slots[i] = -1
            elif k == 0:
                slots[i] = 0
    cells = index.reshape((index.shape[0], 1))
    for i in range(n):
        if i + AHEAD < n:
            prefetch(cells, np.int64(hashes[i + AHEAD] & mask))
            prefetch(keys, index[np.int64(hashes[i + AHEAD // 2] & mask)])
        if slots[i] < 0:
            continue
        place = np.int64(hashes[i] & mask)
        slot = index[place]
        while slot >= 0:
            same = True
            for k in range(width):
                if keys[slot, k] != table[FIRST + columns[k], i]:
                    same = False
                    break
            if same:
                break
            place = np.int64(np.uint64(place + 1) & mask)
            slot = index[place]
        if slot < 0 and insert:
            slot = count
            for k in range(width):
                keys[slot, k] = table[FIRST + columns[k], i]
            index[place] = slot
            count += 1
        slots[i] = slot
    return slots, count


@bare
def slot_of_key(key, index, keys):  # type: ignore[no-untyped-def]
    """The slot of one key (an int64 vector), or -1."""
    hashed = np.uint64(0)
    for k in range(key.shape[0]):
        if key[k] == MISSING or key[k] == NAN:
            return -1
        hashed = mix(hashed, key[k])
    mask = index.shape[0] - 1
    place = np.int64(hashed & np.uint64(mask))
    slot = index[place]
    while slot >= 0:
        same = True
        for k in range(key.shape[0]):
            if keys[slot, k] != key[k]:
                same = False
                break
        if same:
            return slot
        place = (place + 1) & mask
        slot = index[place]
    return -1


class Keys:
    """The keys that a goal knows, numbered from 0: `table[slot]` is a key, `count` how many there are."""

    def __init__(self, width: int) -> None:
        self.index = np.full(32, -1, np.int64)
        self.table = np.empty((roomy(0, 16), width), np.int64)
        self.count = 0

    @classmethod
    def of(cls, keys: Ints, count: int) -> Keys:
        """Just the first `count` of `keys`, by these numbers."""
        made = cls(keys.shape[1])
        made.become(keys, count)
        return made

    def slots(self, table: Table, columns: Ints, insert: bool = True, groups: bool = False) -> Ints:
        """The slot of each row's key, of these argument columns: -1 for a missing value in it, or for an unknown key
        unless `insert`. To `groups` a missing value is a value like others."""
        if insert:
            needed = self.count + (table.shape[1] if columns.shape[0] else 1)
            if needed > self.table.shape[0]:
                larger = np.empty((roomy(needed, 2 * self.table.shape[0]), self.table.shape[1]), np.int64)
                larger[: self.count] = self.table[: self.count]
                self.table = larger
            if 2 * needed > self.index.shape[0]:
                self.index = reindex(self.table, self.count, capacity_for(needed))
        slots: Ints
        slots, self.count = _slots_of(table, columns, self.index, self.table, self.count, insert, groups)
        return slots

    def become(self, keys: Ints, count: int) -> None:
        """From now on know just the first `count` of `keys`, by these numbers."""
        self.table, self.count = keys, count
        self.index = reindex(keys, count if keys.shape[1] else 0, capacity_for(count))

    @property
    def known(self) -> Ints:
        """The keys, by slot."""
        return self.table[: self.count]


def capacity_for(count: int) -> int:
    """The size of an index of so many keys: a power of two, at most half full."""
    capacity = 32
    while capacity < 2 * count:
        capacity *= 2
    return capacity
