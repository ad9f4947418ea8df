"""A hash table that numbers the keys of a goal (see `cep.core.hashtable`). The number of a key is called its slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import SPARE
from cep.core.hashtable import MISSING as MISSING
from cep.core.hashtable import NAN as NAN
from cep.core.hashtable import NO_ROOM, KeySet
from cep.core.hashtable import capacity_for as capacity_for
from cep.core.hashtable import id_of as id_of
from cep.core.hashtable import id_of_two as id_of_two
from cep.core.hashtable import mix as mix
from cep.core.hashtable import reindex as reindex
from cep.core.kernels import njit
from cep.core.relation import FIRST, Table

Ints = NDArray[np.int64]


@njit()
def grow(array, needed):  # type: ignore[no-untyped-def]
    """Return a copy of `array` with room for at least `needed` rows."""
    larger = np.empty((max(needed, SPARE * array.shape[0]), array.shape[1]), np.int64)
    larger[: array.shape[0]] = array
    return larger


class Keys(KeySet):
    """The keys that a goal knows. `columns` of a table form a key, and each key has a slot."""

    __slots__ = ()

    def slots(self, table: Table, columns: Ints, *, insert: bool = True, groups: bool = False) -> Ints:
        """Return the slot of the key of each row in a table; -1 if the key has a missing value.

        - `columns`: the argument columns that form the key.
        - `insert`: True to give slots to new keys. If False, their slot is -1.
        - `groups`: True to treat a missing value like any other value, as in GROUP BY.
        """
        slots: Ints = np.empty(table.shape[1], np.int64)
        if not len(slots):
            return slots
        if insert:
            self._enter(table[FIRST:], columns, not groups, slots, NO_ROOM)
        else:
            self._ids(table[FIRST:], columns, 0, False, not groups, slots, NO_ROOM)
        return slots

    @property
    def known(self) -> Ints:
        """Return the values of all keys, one row per slot."""
        return self.rows
