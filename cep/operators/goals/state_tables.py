"""Declared state: a goal declares its state as tables, and inherits all operations on its state.

A state maps each table's name to an int64 array with one row per entry. The operations are: saving and validating
snapshots, extracting and combining keys, translating pool codes, and listing codes and handles. A goal only converts
its state to these arrays (`_state`) and back (`_become`). Hash tables, chains, heaps and other derived structures are
never saved; `_become` rebuilds them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from cep.core.hashtable import KeySet
from cep.core.stable_order import stable_order_of
from cep.core.time import Frontier
from cep.operators.goals.checkpoint import TakenBack
from cep.operators.goals.contract import (
    Arrays,
    Bools,
    Ints,
    KeyedRows,
    StateKeys,
    Translation,
    between,
    demand,
    from_arrow,
    restored,
    to_arrow,
)
from cep.operators.goals.lineage import Lineage

Column = tuple[str, int]
"""A column of a state table: the table's name and the number of the column."""


@dataclass(frozen=True, slots=True)
class KeyedBy:
    """The columns that tell which key of an input a row belongs to.

    `input`: the number of the input. `columns`: for each key column of the input, the state column that contains the
    same value. This state column is in the row's own table, or in a table whose row i belongs to row i of that table.
    """

    input: int
    columns: Mapping[int, Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """One table of a goal's state. Without `keyed`, `beside`, `owner` or `counted`, its rows belong to every key.

    - `width`: the number of columns.
    - `keyed`: for each input, the columns of its key. `tag`: the column with the number of the input that a row is
      from.
    - `beside`: the name of a parallel table: row i belongs to row i of that table.
    - `owner`: a column of row numbers. Each number identifies the row that owns this row. `refers` says which table
      this owner is in.
    - `counted`: another table and one of its columns. The column contains the number of consecutive rows of this table
      that each row of that table owns.
    - `refers`: columns that contain row numbers of another table: its name and the least valid number. Negative numbers
      mean no row.
    - `distinct`: True if no two rows are equal.
    - `dictionary`: True if rows are unique, and exist only because other tables refer to them.
    - `codes`: columns of pool codes. `codes_by_tag`: the same for the rows of each tag.
    - `handles`: columns of lineage handles.
    - `ranges`: for some columns, the least valid value and the first value beyond the greatest.
    - `clock`: True if the table has one row, which contains a time. When states are combined, the row with the later
      time is kept.
    - `order`: the columns by which rows are sorted when states are combined. Default: rows are appended.
    """

    width: int
    keyed: tuple[KeyedBy, ...] = ()
    tag: int | None = None
    beside: str | None = None
    owner: int | None = None
    counted: Column | None = None
    refers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    distinct: bool = False
    dictionary: bool = False
    codes: tuple[int, ...] = ()
    codes_by_tag: tuple[tuple[int, ...], ...] = ()
    handles: tuple[int, ...] = ()
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    clock: bool = False
    order: tuple[Column, ...] = ()


def tuples_of(name: str, columns: Sequence[int], input: int = 0, first: int = 0) -> tuple[KeyedBy, ...]:
    """Declare that a state table contains the values of an input's key columns.

    `name`: the name of the state table. `columns`: the key columns of the input. `first`: the state column that
    contains the first of them; the others follow it.
    """
    return (KeyedBy(input, {column: (name, first + place) for place, column in enumerate(columns)}),)


class DeclaredState(TakenBack):
    """The part of the goal protocol about state, for goals that declare their tables.

    `lineage`: the lineage in which the goal records derivations, or None.
    """

    lineage: Lineage | None = None
    in_time = False
    """See `cep.operators.goals.contract`."""

    @abstractmethod
    def _tables(self) -> dict[str, StateTable]:
        """Declare the tables of the state, in the order in which they are saved."""

    @abstractmethod
    def _state(self) -> Arrays:
        """Return the state as the arrays of its tables."""

    def _needed(self) -> Arrays:
        """Return the needed part of the state, as the arrays of its tables. The caller has called `evict` before."""
        return self._state()

    @abstractmethod
    def _become(self, state: Arrays) -> None:
        """Replace the state by these arrays."""

    @abstractmethod
    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """See `cep.operators.goals.contract`."""

    def _fits(self, state: Arrays) -> None:
        """Raise CepError if the state is not valid, although its arrays fit the declared tables."""

    @cached_property
    def tables(self) -> dict[str, StateTable]:
        return self._tables()

    @cached_property
    def _targets(self) -> frozenset[str]:
        return frozenset(target for table in self.tables.values() for target, _ in table.refers.values())

    def begin(self, frontier: Frontier) -> None:
        """See `cep.operators.goals.contract`. Do nothing: time alone produces nothing from an empty state."""

    # --- saving ---

    def snapshot(self) -> pa.RecordBatch:
        return to_arrow(self._state())

    def restore(self, batch: pa.RecordBatch) -> None:
        self._become(self._read(batch))

    def as_arrays(self) -> Arrays:
        return self._state()

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """See `cep.operators.goals.contract`. Without lineage, handles of occurrences are set to 0."""
        self.evict(frontier, wholly=True)
        state = self._needed()
        for name, table in self.tables.items() if self.lineage is None else ():
            if table.handles:
                state[name][:, list(table.handles)] = 0
        return state

    def become_arrays(self, state: Arrays) -> None:
        self._become(state)

    def _read(self, batch: pa.RecordBatch) -> Arrays:
        """Return the arrays of a snapshot. Raises CepError if they are not a valid state."""
        state = restored(batch, **{name: table.width for name, table in self.tables.items()})
        for name, table in self.tables.items():
            array = state[name]
            demand(not table.clock or len(array) == 1)
            demand(table.beside is None or len(array) == len(state[table.beside]))
            if table.distinct and not table.width:
                demand(len(array) <= 1)
            for column, (least, beyond) in table.ranges.items():
                between(array[:, column], least, beyond)
            for column, (other, least) in table.refers.items():
                between(array[:, column], least, len(state[other]))
            if table.counted is not None:
                other, column = table.counted
                between(state[other][:, column], 0, len(array) + 1)
                demand(int(state[other][:, column].sum()) == len(array))
        self._fits(state)
        return state

    # --- by key ---

    def extract(self, keys: StateKeys) -> pa.RecordBatch:
        state = self._state()
        going, staying = self.part(state, keys), self._chosen(state, self._masks(state, keys, staying=True))
        self._become(staying)
        return to_arrow(going)

    def replace(self, keys: StateKeys, state: pa.RecordBatch) -> None:
        replacement = self._read(state)
        self._become(self.together(self.others(self._state(), keys), replacement))

    def part(self, state: Arrays, keys: StateKeys) -> Arrays:
        return self._chosen(state, self._masks(state, keys))

    def others(self, state: Arrays, keys: StateKeys) -> Arrays:
        return self._chosen(state, {name: ~mask for name, mask in self._masks(state, keys).items()})

    def together(self, left: Arrays, other: Arrays) -> Arrays:
        """See `cep.operators.goals.contract`. Rows that are equal in the `order` columns keep their order, `left`
        first."""
        joined: Arrays = {}
        places = {name: len(left[name]) + np.arange(len(other[name])) for name in self._targets}
        for name, table in self.tables.items():
            if table.clock:
                joined[name] = np.maximum(left[name], other[name])
            elif table.dictionary:
                joined[name], places[name] = merged(left[name], other[name])
            else:
                joined[name] = np.concatenate([left[name], other[name]])
        for name, table in self.tables.items():
            split = len(left[name])
            for column, (target, _) in table.refers.items():
                joined[name][split:, column] = referred(joined[name][split:, column], places[target])
        for name, table in self.tables.items():
            if table.order and len(joined[name]) > 1:
                self._sort(joined, name, stable_order_of(*(joined[other][:, column] for other, column in table.order)))
        return joined

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """See `cep.operators.goals.contract`.

        A reference to a row is replaced by the row's rank within its key. A reference to a dictionary is replaced by
        the row's contents. Without lineage, handles are ignored.
        """
        numbers: dict[str, Ints] = {}
        for name in self.tables:
            self._key_numbers(name, state, keys, numbers)
        ranks = {name: _ranks(numbers[name]) for name in self._targets if not self.tables[name].dictionary}
        keyed_rows = []
        for name, table in self.tables.items():
            if table.dictionary:
                continue
            rows = state[name].copy()
            if self.lineage is None and table.handles:
                rows[:, list(table.handles)] = 0
            for column, (target, _) in table.refers.items():
                references = rows[:, column]
                if self.tables[target].dictionary:
                    known = np.zeros((len(references), self.tables[target].width), np.int64)
                    known[references >= 0] = state[target][references[references >= 0]]
                    rows = np.concatenate([rows, known], axis=1)
                    rows[:, column] = np.minimum(references, 0)
                else:
                    rows[:, column] = referred(references, ranks[target])
            keyed_rows.append((numbers[name], rows))
        return keyed_rows

    def _key_numbers(self, name: str, state: Arrays, keys: StateKeys, known: dict[str, Ints]) -> Ints:
        """Return the number of the key of each row in table `name`; -1 if the row belongs to every key."""
        if name in known:
            return known[name]
        table = self.tables[name]
        if table.beside is not None:
            numbers = self._key_numbers(table.beside, state, keys, known)
        elif table.counted is not None:
            other, column = table.counted
            numbers = np.repeat(self._key_numbers(other, state, keys, known), state[other][:, column])
        elif table.owner is not None:
            owners = self._key_numbers(table.refers[table.owner][0], state, keys, known)
            numbers = owners[state[name][:, table.owner]]
        else:
            numbers = self.keys_by_row(name, state, keys)
        known[name] = numbers
        return numbers

    def keys_by_row(self, name: str, state: Arrays, keys: StateKeys) -> Ints:
        """Return the key number of each row, for a table that declares `keyed`; -1 if the row belongs to every key."""
        numbers = np.full(len(state[name]), -1, np.int64)
        for mine, keyed, columns in self._key_columns(name, state, keys):
            if columns is not None:
                numbers[mine] = keys.numbers[keyed.input](columns)
        return numbers

    def _key_columns(
        self, name: str, state: Arrays, keys: StateKeys
    ) -> Iterator[tuple[slice | Ints, KeyedBy, Ints | None]]:
        """Yield groups of rows of a table that declares `keyed`, one group per input.

        Each item is a selection of rows, the input's KeyedBy, and the values of the key columns (None: the rows belong
        to every key).
        """
        table = self.tables[name]
        tags = None if table.tag is None else state[name][:, table.tag]
        for number, keyed in enumerate(table.keyed):
            mine: slice | Ints = slice(None)
            count = len(state[name])
            if tags is not None:
                mine = np.flatnonzero(tags == number)
                count = len(mine)
            if not count or keyed.input >= len(keys.columns):  # the stage may not keep this input
                continue
            places = keys.columns[keyed.input]
            if places is None:
                yield mine, keyed, None
                continue
            columns = [state[other][:, column][mine] for other, column in (keyed.columns[place] for place in places)]
            if len(columns) == 1:
                yield mine, keyed, columns[0][:, None]
            else:
                yield mine, keyed, np.stack(columns, axis=1) if columns else np.empty((count, 0), np.int64)

    def _sort(self, state: Arrays, name: str, order: Ints) -> None:
        """Sort the rows of a table, and of the tables parallel to it, and update references to them.

        `order`: the old number of each row.
        """
        state[name] = state[name].take(order, axis=0)
        for other, table in self.tables.items():
            if table.beside == name:
                state[other] = state[other].take(order, axis=0)
        if name in self._targets:
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            for array, column in self._references(name, state):
                array[:, column] = referred(array[:, column], place)

    def _masks(self, state: Arrays, keys: StateKeys, staying: bool = False) -> dict[str, Bools]:
        """Return, for each table, a mask of the rows that belong to these keys.

        `staying`: True to return the opposite, masks of the rows that remain after these keys have been removed. A
        dictionary needs no mask, because `_chosen` keeps the rows to which other chosen rows refer.
        """
        masks: dict[str, Bools] = {}
        for name, table in self.tables.items():
            if not table.dictionary:
                self._mask(name, state, keys, staying, masks)
        return masks

    def _mask(self, name: str, state: Arrays, keys: StateKeys, staying: bool, masks: dict[str, Bools]) -> Bools:
        if name in masks:
            return masks[name]
        table, count = self.tables[name], len(state[name])
        mask: Bools
        if not count:
            mask = np.empty(0, np.bool_)
        elif table.beside is not None:
            mask = self._mask(table.beside, state, keys, staying, masks)
        elif table.counted is not None:
            other, column = table.counted
            mask = np.repeat(self._mask(other, state, keys, staying, masks), state[other][:, column])
        elif table.owner is not None:
            of = self._mask(table.refers[table.owner][0], state, keys, staying, masks)
            mask = of[state[name][:, table.owner]]
        else:
            mask = np.full(count, staying or not table.keyed)  # inputs that the stage does not keep stay
            for mine, keyed, columns in self._key_columns(name, state, keys):
                mask[mine] = True if columns is None else keys.tests[keyed.input](columns) ^ staying
        masks[name] = mask
        return mask

    def _chosen(self, state: Arrays, masks: Mapping[str, Bools]) -> Arrays:
        """Return the rows where the masks are True, and all clocks. A row of a dictionary is returned if a returned row
        refers to it."""
        chosen: Arrays = {}
        places: dict[str, Ints] = {}
        for name, table in self.tables.items():
            if table.clock:
                chosen[name] = state[name]
            elif not table.dictionary:
                chosen[name] = state[name].compress(masks[name], axis=0)
                if name in self._targets:
                    places[name] = np.cumsum(masks[name]) - 1
        for name, table in self.tables.items():
            if table.dictionary:
                used = np.zeros(len(state[name]), np.bool_)
                references = [array[:, column] for array, column in self._references(name, chosen) if len(array)]
                if not references:
                    chosen[name] = state[name][:0].copy()
                    continue
                for numbers in references:
                    used[numbers[numbers >= 0]] = True
                chosen[name], places[name] = state[name].compress(used, axis=0), np.cumsum(used) - 1
        for name, table in self.tables.items():
            for column, (target, _) in table.refers.items() if len(chosen[name]) else ():
                chosen[name][:, column] = referred(chosen[name][:, column], places[target])
        return chosen

    def _references(self, target: str, state: Arrays) -> Iterator[tuple[Ints, int]]:
        for name, table in self.tables.items():
            for column, (other, _) in table.refers.items():
                if other == target:
                    yield state[name], column

    # --- codes and handles ---

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        arrays = from_arrow(state)
        for array, rows, column in self._coded_places(arrays):
            array[rows, column] = codes(array[rows, column])
        return to_arrow(arrays)

    def renamed(self, state: pa.RecordBatch, names: Translation) -> pa.RecordBatch:
        arrays = from_arrow(state)
        for name, table in self.tables.items():
            for column in table.handles if name in arrays else ():
                arrays[name][:, column] = names(arrays[name][:, column])
        return to_arrow(arrays)

    def coded(self) -> list[Ints]:
        return [array[rows, column] for array, rows, column in self._coded_places(self._state())]

    def codes(self) -> list[Ints]:
        return self.coded()

    def names(self) -> list[Ints]:
        if not any(table.handles for table in self.tables.values()):
            return []
        state = self._state()
        return [state[name][:, column] for name, table in self.tables.items() for column in table.handles]

    def _coded_places(self, state: Arrays) -> Iterator[tuple[Ints, slice | Bools, int]]:
        for name, table in self.tables.items():
            array = state.get(name)
            if array is None or not len(array):
                continue
            for column in table.codes:
                yield array, slice(None), column
            for tag, columns in enumerate(table.codes_by_tag):
                for column in columns:
                    yield array, array[:, table.tag] == tag, column


class NumberedState(DeclaredState):
    """A state in which keys or tuples have numbers, many of which may become unused.

    When there are more than eight numbers per stored row, stored keys get new numbers.
    """

    watched = 1024
    """The minimum count of assigned numbers for which renumbering is considered."""

    @abstractmethod
    def _numbers(self) -> int:
        """Return how many numbers are assigned. If there are several numberings, return the largest count."""

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """See `cep.operators.goals.contract`."""

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """See `cep.operators.goals.contract`. The arrays never contain unused numbers."""
        return self._state()

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        count = self._numbers()
        if not wholly:
            if count <= self.watched:
                return
            self.watched = max(8 * self.size[0], count + (count >> 2))  # the cost of a check is paid by the new numbers
            if count <= 8 * self.size[0]:
                return
        self._become(self._state())
        self.watched = max(1024, 8 * self._numbers())


def _ranks(numbers: Ints) -> Ints:
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - np.repeat(first, np.diff(first, append=len(numbers)))
    return ranks


def referred(numbers: Ints, places: Ints) -> Ints:
    """Return row numbers after rows have moved. Negative numbers, which mean no row, stay the same.

    `places`: the new number of each row.
    """
    if not len(places):
        return numbers.copy()
    moved: Ints = np.where(numbers < 0, numbers, places.take(numbers, mode="clip"))
    return moved


def merged(left: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Append those rows of `other` that `left` does not contain. All rows of `left` are distinct.

    Return the result, and the position of each row of `other` in it.
    """
    if not len(other):
        return left.copy(), np.arange(0)
    kinds = KeySet.of(left, len(left))
    numbers, _ = kinds.insert(other)
    return kinds.rows, numbers
