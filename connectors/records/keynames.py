"""The names that a program reads, such as keys, in a hash table for compiled scanners."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit

Names = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
"""The bytes of all names in one buffer, the end of each name in it, and a hash table that contains the indices of the
names."""


@njit(_nrt=False)
def _hash(data, i, stop):  # type: ignore[no-untyped-def]
    h = np.uint64(14695981039346656037)
    for j in range(i, stop):
        h = (h ^ np.uint64(data[j])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@njit(_nrt=False, forceinline=True)
def is_name(data, i, stop, names, first, beyond):  # type: ignore[no-untyped-def]
    """Return True if data[i:stop] equals names[first:beyond]."""
    if beyond - first != stop - i:
        return False
    while i < stop and data[i] == names[first]:
        i += 1
        first += 1
    return i == stop


@njit(_nrt=False)
def find(data, i, stop, names, ends, slots):  # type: ignore[no-untyped-def]
    """Return the index of the name in data[i:stop]. Return -1 if the hash table does not contain this name."""
    mask = np.uint64(len(slots) - 1)
    place = _hash(data, i, stop) & mask
    while slots[place] >= 0:
        name = slots[place]
        if is_name(data, i, stop, names, ends[name], ends[name + 1]):
            return name
        place = (place + np.uint64(1)) & mask
    return -1


@njit(_nrt=False)
def enter(names, ends, slots):  # type: ignore[no-untyped-def]
    """Insert names into an empty hash table. The size of the table must be a power of two, and must exceed the number
    of names."""
    mask = np.uint64(len(slots) - 1)
    for name in range(len(ends) - 1):
        place = _hash(names, ends[name], ends[name + 1]) & mask
        while slots[place] >= 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = name


def name_table(names: Sequence[str]) -> Names:
    """Build the hash table of names for compiled scanners."""
    raw = [name.encode("utf-8") for name in names]
    letters = np.frombuffer(b"".join(raw) or b"\0", np.uint8)
    ends = np.cumsum([0] + [len(name) for name in raw])
    slots = np.full(1 << (4 * len(raw) + 1).bit_length(), -1, np.int64)
    enter(letters, ends, slots)
    return letters, ends, slots
