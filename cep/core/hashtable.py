"""The hash table for rows of 64-bit words. Each new distinct row gets the next id.

The table stores every row, so it never confuses two rows. `insert` and `find` process many keys at once, one per row.
`cep.operators.goals.keys` reads the keys of joins and groups from columns of a table of occurrences. Kernels that
process keys one by one call `id_of`, or `id_of_two`, which also inserts. The only other hash table of the project
contains byte strings: the names of JSON members in `cep.connectors.formats.json_scan`.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import roomy
from cep.core.kernels import njit
from cep.core.prefetch import prefetch

Ints = NDArray[np.int64]

MISSING = -(2**63)
NAN = 0x7FF8000000000000  # the bits of a missing float; as an int, they equal no key either
AHEAD = 24
"""The number of rows by which prefetching of index slots is ahead of processing. For keys, it is half as many."""
CACHED = 1 << 14
"""The maximum number of slots of an index that fits in the processor's cache, so that nothing is prefetched."""
FEW = 1 << 10
"""The maximum number of rows for which room is reserved before it is known how many rows are new.

Repetitive input contains few new rows. Room for all of its rows would make the table much larger than necessary.
"""
NO_ROOM: Ints = np.empty(0, dtype=np.int64)


class KeySet:
    """A set of rows of `width` int64 words, numbered from 0 in insertion order.

    - `table`: the rows, of which the first `count` are in use. A row is never removed, and its id never changes.
    - `index`: row ids by hash, -1 in free slots. Its size is a power of two, and at most half of its slots are used.

    A key of one word is stored in the slot that its lowest bits select or, if that slot is used, by its hash. Most such
    keys are consecutive numbers or codes, which do not collide.
    """

    __slots__ = ("_places", "count", "index", "table")

    def __init__(self, width: int, capacity: int = 16) -> None:
        self.count = 0
        self.table: Ints = np.empty((roomy(0, capacity), width), dtype=np.int64)
        self.index: Ints = np.full(32, -1, dtype=np.int64)
        self._places: Ints = np.arange(width)

    @classmethod
    def of(cls, table: Ints, count: int) -> Self:
        """Create a set of the first `count` rows of `table`. Their ids are their row numbers."""
        keys = cls(table.shape[1])
        keys.become(table, count)
        return keys

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    @property
    def rows(self) -> Ints:
        """The rows by id, shape (count, width). This view is valid until the next insert."""
        return self.table[: self.count]

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes + self.index.nbytes)

    def copy(self) -> KeySet:
        copied = KeySet(self.width)
        copied.count, copied.table, copied.index = self.count, self.table.copy(), self.index.copy()
        return copied

    def become(self, table: Ints, count: int) -> None:
        """Replace the contents by the first `count` rows of `table`. Their ids are their row numbers."""
        self.table, self.count = table, count
        self.index = reindex(table, count if table.shape[1] else 0, capacity_for(count))

    def insert(self, keys: Ints) -> tuple[Ints, Ints]:
        """Insert each row of `keys` (shape (n, width)). Return the ids of all rows, and the positions of new rows."""
        assert keys.ndim == 2 and keys.shape[1] == self.width, "a key has the width of its set"
        ids: Ints = np.empty(len(keys), dtype=np.int64)
        fresh: Ints = np.empty(len(keys), dtype=np.int64)
        before = self.count
        self._enter(_columns(keys), self._places, False, ids, fresh)
        return ids, fresh[: self.count - before].copy()

    def find(self, keys: Ints) -> Ints:
        """Return the id of each row of `keys`, or -1 if the set does not contain it."""
        assert keys.ndim == 2 and keys.shape[1] == self.width, "a key has the width of its set"
        ids: Ints = np.empty(len(keys), dtype=np.int64)
        self._ids(_columns(keys), self._places, 0, False, False, ids, NO_ROOM)
        return ids

    def _enter(self, columns: Ints, places: Ints, joins: bool, ids: Ints, fresh: Ints) -> None:
        """Insert keys. Write the id of each key to `ids`. If `fresh` is not an empty array, also write the positions of
        new keys to it.

        The other arguments are those of `ids_of`.
        """
        before, done = self.count, 0
        self.reserve(roomy(min(1, len(ids)), min(FEW, len(ids))))
        while done < len(ids):
            self.count, done = self._ids(columns, places, done, True, joins, ids, fresh[self.count - before :])
            if done < len(ids):
                self.reserve(roomy(self.count + 1, 2 * self.count) - self.count)

    def _ids(
        self, columns: Ints, places: Ints, done: int, insert: bool, joins: bool, ids: Ints, fresh: Ints
    ) -> tuple[int, int]:
        index, table, count = self.index, self.table, self.count
        if len(places) == 1:
            counts = ids_of_one(columns[places[0]], index, table, count, done, insert, joins, ids, fresh)
        else:
            counts = ids_of(columns, places, index, table, count, done, insert, joins, ids, fresh)
        return int(counts[0]), int(counts[1])

    def reserve(self, more: int) -> None:
        """Enlarge the arrays so that `more` new rows have room."""
        need = self.count + more
        if need > len(self.table):
            table: Ints = np.empty((roomy(need, 2 * len(self.table)), self.width), dtype=np.int64)
            table[: self.count] = self.rows
            self.table = table
        if 2 * need > len(self.index):
            self.index = reindex(self.table, self.count, capacity_for(need))


def _columns(keys: Ints) -> Ints:
    return np.ascontiguousarray(keys.T)


def capacity_for(count: int) -> int:
    """Return the size of an index for `count` keys: a power of two that is at most half used."""
    capacity = 32
    while capacity < 2 * count:
        capacity *= 2
    return capacity


def reindex(keys: Ints, count: int, capacity: int) -> Ints:
    """Build a hash index of the first `count` keys. `capacity`: the number of slots, a power of two."""
    index = np.full(capacity, -1, np.int64)  # numpy allocates it, because numpy requests huge pages
    _reindex(keys, count, index)
    return index


@njit(inline="always")
def mix(hashed, value):  # type: ignore[no-untyped-def]
    """Mix `value` into a hash by one round of a 64-bit mixer (murmur3's finaliser)."""
    h = np.uint64(hashed) ^ np.uint64(value)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@njit(_nrt=False)
def _reindex(keys, count, index):  # type: ignore[no-untyped-def]
    """Insert the first `count` keys into an empty index. The size of the index is a power of two above `count`."""
    mask = np.uint64(index.shape[0] - 1)
    single = keys.shape[1] == 1
    for slot in range(count):
        if single:
            place = np.uint64(keys[slot, 0]) & mask
            if index[place] < 0:
                index[place] = slot
                continue
        hashed = np.uint64(0)
        for k in range(keys.shape[1]):
            hashed = mix(hashed, keys[slot, k])
        place = hashed & mask
        while index[place] >= 0:
            place = (place + np.uint64(1)) & mask
        index[place] = slot


@njit(_nrt=False)
def ids_of_one(words, index, table, count, done, insert, joins, ids, fresh):  # type: ignore[no-untyped-def]
    """Do the same as `ids_of` for keys of one word, but faster."""
    n = ids.shape[0]
    known = count
    listed = fresh.shape[0] > 0
    far = index.shape[0] > CACHED
    hashed = 0
    limit = min(table.shape[0], index.shape[0] // 2)
    mask = np.uint64(index.shape[0] - 1)
    cells = index.reshape((index.shape[0], 1))
    for i in range(done, n):
        if far and i + AHEAD < n:
            prefetch(cells, np.int64(np.uint64(words[i + AHEAD]) & mask))
            prefetch(table, index[np.uint64(words[i + AHEAD // 2]) & mask])
            if 8 * hashed > i - done:
                prefetch(cells, np.int64(mix(np.uint64(0), words[i + AHEAD]) & mask))
                prefetch(table, index[mix(np.uint64(0), words[i + AHEAD // 2]) & mask])
        value = words[i]
        if joins and (value == MISSING or value == NAN):
            ids[i] = -1
            continue
        place = np.uint64(value) & mask
        slot = index[place]
        if slot >= 0 and table[np.uint64(slot), 0] != value:
            hashed += 1
            place = mix(np.uint64(0), value) & mask
            slot = index[place]
            while slot >= 0 and table[np.uint64(slot), 0] != value:
                place = (place + np.uint64(1)) & mask
                slot = index[place]
        if slot < 0 and insert:
            if count >= limit:
                return count, i
            slot = count
            table[slot, 0] = value
            index[place] = slot
            if listed:
                fresh[count - known] = i
            count += 1
        ids[i] = slot
    return count, n


@njit()
def ids_of(columns, places, index, table, count, done, insert, joins, ids, fresh):  # type: ignore[no-untyped-def]
    """Write the id of each key, from position `done` on, to `ids`. An unknown key gets -1, or is inserted if `insert`
    is True.

    - `columns`, `places`: the words of the keys are in the rows `places` of `columns`.
    - `index`, `table`: the set, which has `count` rows.
    - `joins`: True if a key that has a missing word gets no id.
    - `fresh`: receives the positions of new keys. It has size 0, or room for all of them.

    Return the new number of rows in the set, and the number of processed keys. Processing stops early if a new key has
    no room in `table` or in `index`, which may be at most half used.
    """
    n = ids.shape[0]
    width = places.shape[0]
    known = count
    listed = fresh.shape[0] > 0
    if width == 0:
        if insert and count == 0 and n > 0:
            count = 1
        ids[:] = 0 if count > 0 else -1
        return count, n
    limit = min(table.shape[0], index.shape[0] // 2)
    mask = np.uint64(index.shape[0] - 1)
    hashes = np.zeros(n, np.uint64)
    for k in range(width):
        for i in range(done, n):
            value = columns[places[k], i]
            hashes[i] = mix(hashes[i], value)
            if joins and (value == MISSING or value == NAN):
                ids[i] = -1
            elif k == 0:
                ids[i] = 0
    cells = index.reshape((index.shape[0], 1))
    for i in range(done, n):
        if i + AHEAD < n:
            prefetch(cells, np.int64(hashes[i + AHEAD] & mask))
            prefetch(table, index[np.int64(hashes[i + AHEAD // 2] & mask)])
        if ids[i] < 0:
            continue
        place = np.int64(hashes[i] & mask)
        slot = index[place]
        while slot >= 0:
            same = True
            for k in range(width):
                if table[slot, k] != columns[places[k], i]:
                    same = False
                    break
            if same:
                break
            place = np.int64(np.uint64(place + 1) & mask)
            slot = index[place]
        if slot < 0 and insert:
            if count >= limit:
                return count, i
            slot = count
            for k in range(width):
                table[slot, k] = columns[places[k], i]
            index[place] = slot
            if listed:
                fresh[count - known] = i
            count += 1
        ids[i] = slot
    return count, n


@njit(_nrt=False)
def id_of(key, index, table):  # type: ignore[no-untyped-def]
    """Return the id of one join key (an int64 vector), or -1 if the set does not contain it."""
    hashed = np.uint64(0)
    for k in range(key.shape[0]):
        if key[k] == MISSING or key[k] == NAN:
            return -1
        hashed = mix(hashed, key[k])
    mask = index.shape[0] - 1
    if key.shape[0] == 1:
        slot = index[np.uint64(key[0]) & np.uint64(mask)]
        if slot < 0 or table[slot, 0] == key[0]:
            return slot
    place = np.int64(hashed & np.uint64(mask))
    slot = index[place]
    while slot >= 0:
        same = True
        for k in range(key.shape[0]):
            if table[slot, k] != key[k]:
                same = False
                break
        if same:
            return slot
        place = (place + 1) & mask
        slot = index[place]
    return -1


@njit(_nrt=False)
def id_of_two(first, second, index, table, count):  # type: ignore[no-untyped-def]
    """Return the id of the key that consists of the words `first` and `second`: the row of `table` whose first two
    columns contain these words. A missing word counts like any other word.

    A new key becomes row `count`. `table` and `index` must have room for it, and the caller must increment the count.
    """
    mask = np.uint64(index.shape[0] - 1)
    place = np.int64(mix(mix(np.uint64(0), first), second) & mask)
    slot = index[place]
    while slot >= 0:
        if table[slot, 0] == first and table[slot, 1] == second:
            return slot
        place = np.int64(np.uint64(place + 1) & mask)
        slot = index[place]
    table[count, 0] = first
    table[count, 1] = second
    index[place] = count
    return count
