"""Key numbers. Each key that has late changes gets a number, by which rows and states are assigned to the key.

A key consists of the values of the arguments by which rows are distributed. Its columns may have different types in
different tables, e.g. int and float. So each tuple of types has its own index, which maps encoded values to key
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import FIRST
from cep.core.values import Ints, Pool
from cep.operators.goals.contract import Bools
from cep.runtime.decode import values
from cep.runtime.keyed_stage import Key, encoded_key

FEW = 4
"""The maximum number of keys that are compared one by one."""
KEPT = 1024
"""A limit for the number of known keys: the number of rows in the window plus KEPT. Above this limit, all keys are
forgotten, because most of them no longer have rows in the window."""
NEAR = 1 << 20
"""A limit for keys of a single column. If their greatest value exceeds their least value by less than this, they are
looked up in an array."""

Types = tuple[str, ...]


class _Words:
    """Known keys, encoded for columns of certain types. `rows`: the encoded keys. `of`: the key number of each entry in
    `rows`."""

    def __init__(self, width: int) -> None:
        self.rows = KeySet(width)
        self.of: Ints = np.empty(0, np.int64)
        self.known = 0

    def add(self, words: Ints, numbers: Sequence[int]) -> None:
        before = self.rows.count
        ids, _ = self.rows.insert(words)
        self.of = np.concatenate([self.of, np.zeros(self.rows.count - before, np.int64)])
        new = ids >= before
        self.of[ids[new]] = np.array(numbers, np.int64)[new]


class KeyNumbers:
    """Keys and their numbers, which count from 0."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.clear()

    def clear(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._words: dict[Types, _Words] = {}

    @property
    def count(self) -> int:
        return len(self._keys)

    def entered(self, types: Types, table: Ints) -> Ints:
        """Return the key number of each row of `table`. New keys get new numbers. `types`: the types of the columns."""
        words = self._of(types)
        ids, new = words.rows.insert(table)
        if len(new):
            as_arguments = np.concatenate([np.zeros((FIRST, len(new)), np.int64), table[new].T])
            columns = [values(as_arguments, i, type, self.pool) for i, type in enumerate(types)]
            words.of = np.append(words.of, [self._number(key) for key in zip(*columns, strict=True)])
            words.known = len(self._keys)
        return words.of[ids]

    def found(self, types: Types, table: Ints) -> Ints:
        """Return the key number of each row of `table`, or -1 if the row's key is unknown. `types`: the types of the
        columns."""
        words = self._of(types)
        ids = words.rows.find(table)
        if not len(words.of):
            return ids
        return np.where(ids < 0, -1, words.of[ids])

    def test(self, types: Types, active: Bools) -> Callable[[Ints], Bools]:
        """Return a function that takes key columns and returns a mask of the rows whose key is active.

        `types`: the types of the key columns. `active`: a mask over the key numbers, True for each active key.
        """
        words = self._of(types)
        wanted = words.rows.rows[_at(active, words.of)]
        if len(types) == 1 and len(wanted) <= FEW:
            wanted_keys = wanted[:, 0].tolist()
            return lambda table: _one_of(table[:, 0], wanted_keys)

        if len(types) == 1 and len(wanted):
            low, high = int(wanted.min()), int(wanted.max())
            if high - low < NEAR:
                return partial(_near, low, _set_of(wanted[:, 0] - low, high - low))

        def holds(table: Ints) -> Bools:
            numbers = self.found(types, table)
            return (numbers >= 0) & _at(active, numbers)

        return holds

    def _number(self, key: Key) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def _of(self, types: Types) -> _Words:
        """Return all known keys that have columns of these types, encoded for these types."""
        if types not in self._words:
            self._words[types] = _Words(len(types))
        words = self._words[types]
        if words.known < len(self._keys):
            more = range(words.known, len(self._keys))
            encoded = [
                (row, number)
                for number in more
                if len(self._keys[number]) == len(types)
                and (row := encoded_key(self._keys[number], types, self.pool)) is not None
            ]
            if encoded:
                words.add(np.array([row for row, _ in encoded], np.int64), [number for _, number in encoded])
            words.known = len(self._keys)
        return words


def _set_of(values: Ints, highest: int) -> Bools:
    members = np.zeros(highest + 2, np.bool_)
    members[values] = True
    return members


def _near(low: int, wanted: Bools, table: Ints) -> Bools:
    """Return a mask of the rows of a one-column table whose value is wanted.

    `wanted`: a mask over the values from `low` on. Its last entry is False, and applies to all values outside the
    range.
    """
    places = table[:, 0].astype(np.uint64) - np.uint64(low % 2**64)
    is_wanted: Bools = wanted[np.minimum(places, np.uint64(len(wanted) - 1)).astype(np.int64)]
    return is_wanted


def _at(active: Bools, numbers: Ints) -> Bools:
    if not len(active):
        return np.zeros(len(numbers), np.bool_)
    is_active: Bools = active[np.minimum(numbers, len(active) - 1)] & (numbers < len(active))
    return is_active


def _one_of(column: Ints, values: Sequence[int]) -> Bools:
    return reduce(np.logical_or, [column == value for value in values]) if values else np.zeros(len(column), np.bool_)
