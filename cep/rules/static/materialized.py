"""Static predicates as tables of distinct rows, with an index for each combination of bound columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.relation import Column as Column
from cep.core.schema import CODED
from cep.core.values import MISSING, Ints, Pool

if TYPE_CHECKING:
    from cep.core.hashtable import KeySet
    from cep.rules.static.row_edits import Edits

ALWAYS, NEVER = -(2**63), 2**63 - 1
"""Bounds of a row's validity. ALWAYS: the beginning for a row that has always been valid. NEVER: the end for a row that
stays valid for ever."""
CountedColumns = tuple[Sequence[Column], int]
"""Columns, and the number of their rows."""


def words(columns: Sequence[Column], rows: int) -> Ints:
    """Return a matrix of 64-bit words that contains the values of columns. `rows`: the number of rows.

    Equal values have equal words. All missing values have the same word.
    """
    matrix: Ints = np.zeros((rows, max(1, len(columns))), dtype=np.int64)
    for i, column in enumerate(columns):
        if column.dtype == np.float64:
            column = np.where(np.isnan(column), np.nan, column + 0.0).view(np.int64)
        matrix[:, i] = column
    return matrix


def present(columns: Sequence[Column], rows: int) -> tuple[list[Column], int]:
    """Return the rows that have no missing value, and the number of these rows. A predicate is not true of a missing
    value."""
    is_present = np.ones(rows, dtype=np.bool_)
    for column in columns:
        is_present &= (column == column) if column.dtype == np.float64 else (column != MISSING)
    if is_present.all():
        return list(columns), rows
    return [column[is_present] for column in columns], int(is_present.sum())


class MaterializedRelation:
    """A table of distinct rows in insertion order. Rows that are added while a query is evaluated do not change the
    query's answers.

    A table that has been edited can also lose rows. A query on it returns answers in the order of values (see
    `cep.rules.static.row_edits`).

    Each edit takes effect at a certain time. As long as the table is `timed`, a query for an occurrence finds the rows
    that are present at the end of this occurrence. A query without times finds the rows that are present after all
    edits.
    """

    def __init__(self, name: str, types: Sequence[str]) -> None:
        from cep.core.hashtable import KeySet  # has kernels: imported only if there are tables

        self.name = name
        self.types: tuple[str, ...] = tuple(types)
        self._rows = KeySet(max(1, len(types)))
        self._edits: Edits | None = None
        self._indexes: dict[tuple[tuple[int, ...], tuple[int, ...]], _Index] = {}

    @property
    def arity(self) -> int:
        return len(self.types)

    @property
    def count(self) -> int:
        return self._rows.count if self._edits is None else self._edits.count

    def ready(self, bound: frozenset[int]) -> bool:
        return True

    def add(self, columns: Sequence[Column], rows: int) -> int:
        """Add rows. Return how many of them the table did not contain before."""
        assert self._edits is None, "rows come to a table that is edited by `edit`"
        before = self.count
        self._rows.insert(words(columns, rows))
        return self.count - before

    def all(self) -> CountedColumns:
        return tuple(self.column(i) for i in range(self.arity)), self.count

    def edit(self, gone: CountedColumns, new: CountedColumns, pool: Pool, time: int) -> None:
        """Remove the rows `gone` and add the rows `new`, both at the time `time`. The cost depends on the number of
        these rows.

        `time` must not be before that of an earlier edit. The removed rows must be present. A row that was added
        several times is only removed when it has been removed as often.
        """
        rows = gone[1] + new[1]
        if rows:
            copies = np.repeat([-1, 1], [gone[1], new[1]])
            self._edited(pool).change(np.concatenate([words(*gone), words(*new)]), copies, np.full(rows, time))

    def edit_periods(self, columns: Sequence[Column], since: Ints, until: Ints, pool: Pool, first: int) -> None:
        """Replace the table's rows by rows that have periods of validity. A row is valid from `since` on and before
        `until`. The periods of equal rows do not overlap.

        The rows that are valid from `ALWAYS` on must be those that the table contains now. `first`: a time that is not
        later than any time in `since` and `until` except `ALWAYS`.
        """
        begins, ends = np.flatnonzero(since != ALWAYS), np.flatnonzero(until != NEVER)
        if not len(begins) and not len(ends):
            return
        rows, edits = words(columns, len(since)), self._edited(pool)
        again = edits.repeated()
        times = np.concatenate([np.full(len(again), first), until[ends], since[begins]])
        copies = np.repeat([-1, 1], [len(again) + len(ends), len(begins)])
        order = np.argsort(times, kind="stable")
        edits.change(np.concatenate([again, rows[ends], rows[begins]])[order], copies[order], times[order])

    def undo(self, after: int) -> None:
        """Undo the edits that take effect after a time."""
        if self.timed and self._edits is not None:
            self._edits.undo(after)

    def forget(self, until: int) -> None:
        """Forget which rows were present before `until`: no later query asks about those times. If many rows have been
        removed, reclaim their space."""
        if self._edits is not None:
            self._edits.log.forget(until)
            if self._edits.wasteful:
                self._reclaim(self._edits)

    def _reclaim(self, edits: Edits) -> None:
        from cep.core.hashtable import KeySet

        self._rows = KeySet(max(1, self.arity))
        self._edits = edits.without_removed(self._rows)
        for index in self._indexes.values():
            index.reset(self._rows, self._edits)

    def count_at(self, time: int) -> int:
        """Return the number of rows that are present at a time."""
        if self._edits is None or not self.timed:
            return self.count
        return int(self._edits.there(self._edits.order, np.full(len(self._edits.order), time)).sum())

    def _edited(self, pool: Pool) -> Edits:
        from cep.rules.static.row_edits import Edits

        if self._edits is None:
            self._edits = Edits(self._rows, self.types, pool)
            for index in self._indexes.values():
                index.reset(self._rows, self._edits)
        return self._edits

    def settle(self) -> None:
        """Forget the rows as they were before the last edits. Until then, a `PreviousTable` shows these earlier
        rows."""
        if self._edits is not None:
            self._edits.flipped = set()

    @property
    def changed(self) -> bool:
        """True if rows were added or removed since the last `settle`."""
        return self._edits is not None and bool(self._edits.flipped)

    def difference(self) -> tuple[CountedColumns, CountedColumns]:
        """Return the rows that were removed since the last `settle`, and the rows that were added since then."""
        assert self._edits is not None, "it was edited"
        gone, new = self._edits.difference()
        return self._taken(gone), self._taken(new)

    def repeated(self) -> CountedColumns:
        """Return the additional copies of rows that were added several times. A row that was added three times is in
        the result twice."""
        return self._taken(self._rows.rows[:0] if self._edits is None else self._edits.repeated())

    def has(self, columns: Sequence[Column], rows: int) -> NDArray[np.bool_]:
        """Return a mask of the rows in `columns` that the table contains."""
        ids = self._rows.find(words(columns, rows))
        is_held: NDArray[np.bool_] = ids >= 0
        if self._edits is not None:
            is_held[is_held] = self._edits.there(ids[is_held])
        return is_held

    def _taken(self, rows: Ints) -> CountedColumns:
        return tuple(self._column(rows[:, i], i) for i in range(self.arity)), len(rows)

    @property
    def timed(self) -> bool:
        """True if a query for an earlier time may find other rows than a query for the current time."""
        return self._edits is not None and len(self._edits.log) > 0

    def column(self, position: int, start: int = 0, stop: int | None = None) -> Column:
        """Return the values of the column `position` in the rows from `start` up to, but not including, `stop`."""
        rows: Ints = self._rows.rows if self._edits is None else self._edits.present()
        return self._column(rows[start:stop, position], position)

    def _column(self, numbers: Ints, position: int) -> Column:
        column = np.ascontiguousarray(numbers)
        return column.view(np.float64) if self.types[position] == "float" else column

    def codes(self) -> list[Ints]:
        """Return the columns that contain codes of the pool. They include removed rows that queries for earlier times
        may find."""
        if self._edits is not None and self._rows.count > self._edits.count:
            self._reclaim(self._edits)
        return [np.ascontiguousarray(self._rows.rows[:, i]) for i, type in enumerate(self.types) if type in CODED]

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...], former: bool = False) -> TableProbe:
        way = (tuple(bound), wanted)
        if way not in self._indexes:
            self._indexes[way] = _Index(self._rows, *way, self.arity, self._edits)
        return TableProbe(self, self._indexes[way], wanted, former)

    def frame(self, pool: Pool) -> pl.DataFrame:
        """Return the rows as a data frame that has the columns `arg1`, `arg2`, and so on."""
        return pl.DataFrame([series_of(self.column(i), t, pool).alias(f"arg{i + 1}") for i, t in enumerate(self.types)])


class TableProbe:
    """A query on a table. Its bound columns are fixed."""

    __slots__ = ("_former", "_index", "_stored", "_wanted", "single", "types")

    def __init__(
        self, stored: MaterializedRelation, index: _Index, wanted: tuple[int, ...], former: bool = False
    ) -> None:
        self._former = former
        self._stored = stored
        self._index = index
        self._wanted = wanted
        self.types = tuple(stored.types[i] for i in wanted)
        self.single = not wanted

    @property
    def timed(self) -> bool:
        return self._stored.timed

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        index, parts = self._index.answers(bound, rows, ends, self._former)
        return index, [self._stored._column(parts[:, i], position) for i, position in enumerate(self._wanted)]

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> NDArray[np.bool_]:
        return self._index.holds(bound, rows, ends, self._former)


class _Index:
    """An index over distinct rows. A query finds the rows that have certain values in the bound columns, and returns
    the values of their wanted columns.

    Each query first adds the rows that are new in the table to the index.
    """

    def __init__(
        self,
        table: KeySet,
        bound: tuple[int, ...],
        wanted: tuple[int, ...],
        arity: int,
        edits: Edits | None,
    ) -> None:
        self.bound = bound
        self.wanted = wanted
        self.all = len(bound) + len(wanted) == arity
        self.reset(table, edits)

    def reset(self, table: KeySet, edits: Edits | None) -> None:
        """Clear the index, and use it for another table."""
        from cep.core.chains import Chains
        from cep.core.hashtable import KeySet

        self.table = table
        self.edits = edits
        self.whole = self.all or edits is not None  # indexes rows, not parts of rows
        self.done = 0
        self.parts = KeySet(max(1, len(self.bound) + len(self.wanted)))
        self.groups = KeySet(max(1, len(self.bound)))
        self.chains = Chains()

    def keep_up(self) -> None:
        if self.done == self.table.count:
            return
        new = self.table.rows[self.done :]
        self.done = self.table.count
        if not self.whole:
            places = [*self.bound, *self.wanted]
            part = np.ascontiguousarray(new[:, places]) if places else np.zeros((len(new), 1), dtype=np.int64)
            new = part[self.parts.insert(part)[1]]
            bound = new[:, : len(self.bound)]
        else:
            bound = new[:, list(self.bound)]
        if self.bound:
            ids, _ = self.groups.insert(np.ascontiguousarray(bound))
            if self.wanted or self.edits is not None:
                self.chains.append(ids, self.groups.count)

    def answers(
        self, bound: Sequence[Column], rows: int, ends: Ints | None = None, former: bool = False
    ) -> tuple[Ints, Ints]:
        """Answer a query for each row of the bound columns. Return the row number of each answer, and a matrix of
        64-bit words with one row per answer. It contains the values of the wanted columns.

        `former`: True to answer from the rows before the last edits.
        """
        self.keep_up()
        if self.edits is not None:
            return self._edited(bound, rows, ends, self.edits, former)
        source = self.table.rows if self.whole else self.parts.rows
        places = list(self.wanted) if self.whole else list(range(len(self.bound), len(self.bound) + len(self.wanted)))
        if self.bound:
            index, matches = self.chains.expand(self.groups.find(words(bound, rows)))
            return index, source[matches][:, places]
        index = np.repeat(np.arange(rows, dtype=np.int64), len(source))
        every = source[:, places]
        return index, every if rows == 1 else np.tile(every, (rows, 1))

    def holds(
        self, bound: Sequence[Column], rows: int, ends: Ints | None = None, former: bool = False
    ) -> NDArray[np.bool_]:
        self.keep_up()
        if self.edits is not None:
            is_held = np.zeros(rows, dtype=np.bool_)
            is_held[self.answers(bound, rows, ends, former)[0]] = True
            return is_held
        if not self.bound:
            return np.full(rows, self.table.count > 0)
        matched: NDArray[np.bool_] = self.groups.find(words(bound, rows)) >= 0
        return matched

    def _edited(
        self, bound: Sequence[Column], rows: int, ends: Ints | None, edits: Edits, former: bool
    ) -> tuple[Ints, Ints]:
        """Answer a query on an edited table, with the answers for each row in the order of values. `ends`: the times at
        which they must be valid. `former`: True to answer from the rows before the last edits."""
        from cep.core.hashtable import KeySet

        if self.bound:
            index, matches = self.chains.expand(self.groups.find(words(bound, rows)))
        else:
            every = edits.order if ends is not None else edits.order[edits.there(edits.order, None, former)]
            index, matches = np.repeat(np.arange(rows), len(every)), np.tile(every, rows)
        if self.bound or ends is not None:
            valid = np.flatnonzero(edits.there(matches, None if ends is None else ends[index], former))
            index, matches = index[valid], matches[valid]
        if self.bound:
            order = np.lexsort([edits.labels[matches], index])
            index, matches = index[order], matches[order]
        parts = self.table.rows[matches][:, list(self.wanted)]
        if not self.all:
            first = KeySet(1 + len(self.wanted)).insert(np.column_stack([index, parts]))[1]
            index, parts = index[first], parts[first]
        return index, parts


@cache
def _ticks() -> dict[str, pl.DataType]:
    return {"time": pl.Datetime("us", "UTC"), "duration": pl.Duration("us")}


def series_of(column: Column, type: str, pool: Pool) -> pl.Series:
    if type in CODED:
        return pool.decode(column, type)
    if type == "float":
        return pl.Series(column, nan_to_null=True)
    series = pl.Series(column)
    series = pl.select(pl.when(series != MISSING).then(series)).to_series()
    return series.cast(_ticks().get(type, pl.Boolean() if type == "bool" else pl.Int64()))


def type_of(dtype: pl.DataType) -> str | None:
    """Return our type for a polars type, or None if a column of this type contains only nulls."""
    if dtype == pl.Null:
        return None
    if dtype == pl.Boolean:
        return "bool"
    if dtype.is_integer():
        return "int"
    if dtype.is_float() or dtype.is_decimal():
        return "float"
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
        return "string"
    if dtype == pl.Duration:
        return "duration"
    return "time" if dtype == pl.Date or dtype == pl.Datetime else "any"


def column_of(series: pl.Series, type: str, pool: Pool) -> Column:
    """Convert a polars series to a column. `type`: the type of the column, which must include the values of the series.

    Ints fit into float, and all values fit into any.
    """
    if type in CODED:
        return pool.encode(series, type)
    if type == "float":
        column = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
        return np.where(np.isfinite(column), column, np.nan)
    if type in _ticks():
        series = series.cast(pl.Duration("us") if type == "duration" else pl.Datetime("us"))
    return series.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy()
