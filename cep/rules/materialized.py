"""A static predicate as a table of distinct rows, with an index for each way it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.values import MISSING, Ints, Pool

if TYPE_CHECKING:
    from cep.core.hashtable import KeySet

Column = NDArray[Any]
ALWAYS, NEVER = -(2**63), 2**63 - 1
"""Since when holds what has always been; until when what will always be."""
CODED = ("string", "iri", "any")


def words(columns: Sequence[Column], rows: int) -> Ints:
    """Columns side by side as 64-bit words, in which equal values (and all missing ones) are equal."""
    matrix: Ints = np.zeros((rows, max(1, len(columns))), dtype=np.int64)
    for i, column in enumerate(columns):
        if column.dtype == np.float64:
            column = np.where(np.isnan(column), np.nan, column + 0.0).view(np.int64)
        matrix[:, i] = column
    return matrix


def present(columns: Sequence[Column], rows: int) -> tuple[list[Column], int]:
    """The rows in which no value is missing, and how many they are: a predicate of a missing value is false."""
    there = np.ones(rows, dtype=np.bool_)
    for column in columns:
        there &= (column == column) if column.dtype == np.float64 else (column != MISSING)
    if there.all():
        return list(columns), rows
    return [column[there] for column in columns], int(there.sum())


class MaterializedRelation:
    """Rows in the order they came. Rows may be added while it is asked: what was answered stays as it was.

    It may be `timed`: then each row holds for what ends in a time of its own.
    """

    def __init__(self, name: str, types: Sequence[str]) -> None:
        from cep.core.hashtable import KeySet  # kernels: loaded only where there are tables

        self.name = name
        self.types: tuple[str, ...] = tuple(types)
        self._rows = KeySet(max(1, len(types)))
        self._until: Ints | None = None  # of each row; since when it holds is a last word of it
        self._indexes: dict[tuple[tuple[int, ...], tuple[int, ...]], _Index] = {}

    @property
    def arity(self) -> int:
        return len(self.types)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._rows.count

    def ready(self, bound: frozenset[int]) -> bool:
        return True

    def add(self, columns: Sequence[Column], rows: int) -> int:
        """Add rows, each once; gives how many were new."""
        before = self.count
        self._rows.insert(words(columns, rows))
        return self.count - before

    def replace(self, columns: Sequence[Column], rows: int) -> None:
        """Other rows instead of all there are. Whoever asks the table goes on asking it."""
        from cep.core.hashtable import KeySet

        self._rows, self._until = KeySet(max(1, self.arity)), None
        self._rows.insert(words(columns, rows))
        for index in self._indexes.values():
            index.reset(self._rows)

    def replace_timed(self, columns: Sequence[Column], since: Ints, until: Ints) -> None:
        """Other rows, each of which holds for what ends at or after `since` and before `until`. Equal rows hold at
        different times."""
        from cep.core.hashtable import KeySet

        keys = np.column_stack([words(columns, len(since)), since])
        self._rows, self._until = KeySet(keys.shape[1]), until
        self._rows.insert(keys)
        assert self._rows.count == len(until), "equal rows begin at different times"
        for index in self._indexes.values():
            index.reset(self._rows, until)

    @property
    def timed(self) -> bool:
        return self._until is not None

    def column(self, position: int, start: int = 0, stop: int | None = None) -> Column:
        """The values of rows `start` up to `stop` at a position."""
        return self._column(self._rows.rows[start:stop, position], position)

    def _column(self, found: Ints, position: int) -> Column:
        column = np.ascontiguousarray(found)
        return column.view(np.float64) if self.types[position] == "float" else column

    def codes(self) -> list[Ints]:
        """The columns that are codes of the pool."""
        return [self.column(i) for i, type in enumerate(self.types) if type in CODED]

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> _Asked:
        way = (tuple(bound), wanted)
        if way not in self._indexes:
            self._indexes[way] = _Index(self._rows, *way, self.arity, self._until)
        return _Asked(self, self._indexes[way], wanted)

    def frame(self, pool: Pool) -> pl.DataFrame:
        """The rows as values, columns `arg1`, `arg2`, ..."""
        return pl.DataFrame([series_of(self.column(i), t, pool).alias(f"arg{i + 1}") for i, t in enumerate(self.types)])


class _Asked:
    """A table asked in one way."""

    __slots__ = ("_index", "_stored", "_wanted", "single", "types")

    def __init__(self, stored: MaterializedRelation, index: _Index, wanted: tuple[int, ...]) -> None:
        self._stored = stored
        self._index = index
        self._wanted = wanted
        self.types = tuple(stored.types[i] for i in wanted)
        self.single = not wanted

    @property
    def timed(self) -> bool:
        return self._stored.timed

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        index, found = self._index.answers(bound, rows, ends)
        return index, [self._stored._column(found[:, i], position) for i, position in enumerate(self._wanted)]

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> NDArray[np.bool_]:
        return self._index.holds(bound, rows, ends)


class Chosen:
    """A table of rows that all have certain values at some positions, which it does not hold: those of one constant.

    What it is asked with there are those values.
    """

    def __init__(self, table: MaterializedRelation, fixed: Sequence[str | None]) -> None:
        """`fixed`: for each position the type of its one value, None for those that the table holds."""
        self.table = table
        self.name = table.name
        self.arity = len(fixed)
        self._inner = {place: i for i, place in enumerate(p for p, type in enumerate(fixed) if type is None)}
        self.types = tuple(table.types[self._inner[p]] if type is None else type for p, type in enumerate(fixed))

    def ready(self, bound: frozenset[int]) -> bool:
        return True

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> _AskedChosen:
        inner = {self._inner[place]: type for place, type in bound.items() if place in self._inner}
        asked = self.table.probe(inner, tuple(self._inner[place] for place in wanted))
        return _AskedChosen(asked, [i for i, place in enumerate(bound) if place in self._inner])


class _AskedChosen:
    __slots__ = ("_asked", "_kept", "single", "types")

    def __init__(self, asked: _Asked, kept: list[int]) -> None:
        self._asked = asked
        self._kept = kept
        self.types = asked.types
        self.single = asked.single

    @property
    def timed(self) -> bool:
        return self._asked.timed

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        return self._asked.answers([bound[i] for i in self._kept], rows, ends)

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> NDArray[np.bool_]:
        return self._asked.holds([bound[i] for i in self._kept], rows, ends)


class _Index:
    """The distinct (bound, wanted) parts of the rows, found by the bound part. Kept up with the table when asked."""

    def __init__(
        self, table: KeySet, bound: tuple[int, ...], wanted: tuple[int, ...], arity: int, until: Ints | None
    ) -> None:
        self.bound = bound
        self.wanted = wanted
        self.all = len(bound) + len(wanted) == arity
        self.reset(table, until)

    def reset(self, table: KeySet, until: Ints | None = None) -> None:
        """Forget all, and begin with this table."""
        from cep.core.hashtable import Chains, KeySet

        self.table = table
        self.until = until
        self.whole = self.all or until is not None  # then parts are rows
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
            if self.wanted or self.until is not None:
                self.chains.append(ids, self.groups.count)

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, Ints]:
        """For each answer its row, and the words of the wanted positions (a row of a matrix)."""
        self.keep_up()
        if self.until is not None:
            return self._then(bound, rows, ends, self.until)
        source = self.table.rows if self.whole else self.parts.rows
        places = list(self.wanted) if self.whole else list(range(len(self.bound), len(self.bound) + len(self.wanted)))
        if self.bound:
            index, found = self.chains.expand(self.groups.find(words(bound, rows)))
            return index, source[found][:, places]
        index = np.repeat(np.arange(rows, dtype=np.int64), len(source))
        every = source[:, places]
        return index, every if rows == 1 else np.tile(every, (rows, 1))

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> NDArray[np.bool_]:
        self.keep_up()
        if self.until is not None:
            there = np.zeros(rows, dtype=np.bool_)
            there[self._then(bound, rows, ends, self.until)[0]] = True
            return there
        if not self.bound:
            return np.full(rows, self.table.count > 0)
        found: NDArray[np.bool_] = self.groups.find(words(bound, rows)) >= 0
        return found

    def _then(self, bound: Sequence[Column], rows: int, ends: Ints | None, until: Ints) -> tuple[Ints, Ints]:
        """The answers that hold when what is asked for ends."""
        from cep.core.hashtable import KeySet

        assert ends is not None, "a table of answers with times is asked with times"
        every = self.table.rows
        if self.bound:
            index, found = self.chains.expand(self.groups.find(words(bound, rows)))
        else:
            index, found = np.repeat(np.arange(rows), len(every)), np.tile(np.arange(len(every)), rows)
        then = ends[index]
        kept = np.flatnonzero((every[found, -1] <= then) & (then < until[found]))
        index, parts = index[kept], every[found[kept]][:, list(self.wanted)]
        if not self.all:  # rows that differ in what is not wanted are one answer
            first = KeySet(1 + len(self.wanted)).insert(np.column_stack([index, parts]))[1]
            index, parts = index[first], parts[first]
        return index, parts


_TICKS = {"time": pl.Datetime("us", "UTC"), "duration": pl.Duration("us")}


def series_of(column: Column, type: str, pool: Pool) -> pl.Series:
    """A column as a polars series of its values."""
    if type in CODED:
        return pool.decode(column, type)
    if type == "float":
        return pl.Series(column, nan_to_null=True)
    series = pl.Series(column)
    series = pl.select(pl.when(series != MISSING).then(series)).to_series()
    return series.cast(_TICKS.get(type, pl.Boolean() if type == "bool" else pl.Int64()))


def type_of(dtype: pl.DataType) -> str | None:
    """The type of a table's column; None where it holds nothing."""
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
    """A polars series as a column of a type that its own fits: int in float, anything in any."""
    if type in CODED:
        return pool.encode(series, type)
    if type == "float":
        column = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
        return np.where(np.isfinite(column), column, np.nan)
    if type in _TICKS:
        series = series.cast(pl.Duration("us") if type == "duration" else pl.Datetime("us"))
    return series.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy()
