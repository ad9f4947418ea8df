"""Sets of triples as three columns of term ids. The triples are distinct and sorted, and can be searched by any
position."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.values import Ints

TripleColumns = tuple[Ints, Ints, Ints]
"""The ids of the subjects, predicates and objects of triples."""

_ORDERS = ((0, 1, 2), (1, 2, 0), (2, 0, 1))  # any set of fixed positions is the beginning of one of these
_FEW = 16  # a change up to this fraction (one in 16) is inserted, a larger one sorts everything anew
_MANY = 64  # more changes than this fraction (one in 64) are merged into the columns
_SMALL = 4096  # the maximum number of rows that numpy sorts, instead of polars


class TripleSet:
    """A set of triples of ids, sorted by subject, predicate, object. It is immutable: `plus` and `minus` return other
    sets.

    After a small change, the result only refers to the set before the change, the few removed triples and the few added
    ones. Its columns are built when they are needed, or when the changes become many.
    """

    __slots__ = ("_beside", "_orders")

    def __init__(self, columns: TripleColumns) -> None:
        """Build a set from columns of triples that are sorted and distinct. For other triples, use `TripleSet.of`."""
        self._orders: dict[int, TripleColumns] = {0: columns}
        self._beside: tuple[TripleSet, TripleSet, TripleSet] | None = (
            None  # a base set, the triples removed from it, and the triples added to it
        )

    @classmethod
    def of(cls, s: Ints, p: Ints, o: Ints) -> TripleSet:
        """Build a set from columns of subjects, predicates and objects. The triples may be in any order and may occur
        several times."""
        return cls(_sorted((s, p, o), 0))

    @classmethod
    def empty(cls) -> TripleSet:
        return cls(_room(0))

    @classmethod
    def _of_few(cls, base: TripleSet, less: TripleSet, more: TripleSet) -> TripleSet:
        # `base` contains all triples of `less`, and none of `more`.
        if (len(less) + len(more)) * _MANY > len(base):
            orders = {order: _replaced(base, less, more, order) for order in base._orders}
            triple_set = cls(orders[0])
            triple_set._orders = orders
            return triple_set
        triple_set = object.__new__(cls)
        triple_set._orders, triple_set._beside = {}, (base, less, more)
        return triple_set

    def __len__(self) -> int:
        if self._beside is not None:
            base, less, more = self._beside
            return len(base) - len(less) + len(more)
        return len(self._orders[0][0])

    @property
    def columns(self) -> TripleColumns:
        return self.ordered(0)

    @property
    def s(self) -> Ints:
        return self.columns[0]

    @property
    def p(self) -> Ints:
        return self.columns[1]

    @property
    def o(self) -> Ints:
        return self.columns[2]

    @property
    def nbytes(self) -> int:
        """The memory of all columns in bytes. Columns that were also built in another order count."""
        return sum(column.nbytes for columns in self._orders.values() for column in columns)

    def renamed(self, ids: Ints) -> TripleSet:
        """Return a copy in which each id i is replaced by `ids[i]`. The new ids must have the same order as the old
        ids."""
        triple_set = object.__new__(TripleSet)
        triple_set._orders = {order: (ids[s], ids[p], ids[o]) for order, (s, p, o) in self._orders.items()}
        triple_set._beside = None
        if self._beside is not None:
            base, less, more = self._beside
            triple_set._beside = base.renamed(ids), less.renamed(ids), more.renamed(ids)
        return triple_set

    # --- search by terms ---

    def match(self, s: int | None = None, p: int | None = None, o: int | None = None) -> TripleColumns:
        """Return the triples that have these ids, as three columns. An id that is None accepts any id.

        The triples are sorted in the order s p o, p o s or o s p. It is the order that begins with the positions of the
        ids that are not None.
        """
        order, start, stop = self._one(s, p, o)
        columns = self.ordered(order)
        return columns[0][start:stop], columns[1][start:stop], columns[2][start:stop]

    def count(self, s: int | None = None, p: int | None = None, o: int | None = None) -> int:
        """Count the triples that have these ids, without building columns. An id that is None accepts any id."""
        if self._beside is not None:
            base, less, more = self._beside
            return base.count(s, p, o) - less.count(s, p, o) + more.count(s, p, o)
        _, start, stop = self._one(s, p, o)
        return stop - start

    def _one(self, s: int | None, p: int | None, o: int | None) -> tuple[int, int, int]:
        columns = tuple(None if id is None else np.array([id], dtype=np.int64) for id in (s, p, o))
        order, start, stop = self.ranges(*columns)
        return (order, int(start[0]), int(stop[0])) if len(start) else (order, 0, len(self))

    def ranges(self, s: Ints | None, p: Ints | None, o: Ints | None) -> tuple[int, Ints, Ints]:
        """Find the triples that match each row of the columns `s`, `p` and `o`. A column that is None accepts any id.

        Return the number of an order (see `ordered`), and two columns `start` and `stop`. In this order, the triples
        for row i are those from `start[i]` up to, but not including, `stop[i]`. If all columns are None, there are no
        rows.
        """
        columns = (s, p, o)
        fixed = {i for i in range(3) if columns[i] is not None}
        order = next(i for i, places in enumerate(_ORDERS) if set(places[: len(fixed)]) == fixed)
        keys = [column for place in _ORDERS[order] if (column := columns[place]) is not None]
        rows = len(keys[0]) if keys else 0
        start: Ints = np.empty(rows, dtype=np.int64)
        stop: Ints = np.empty(rows, dtype=np.int64)
        if rows:
            a, b, c = (self.ordered(order)[place] for place in _ORDERS[order])
            x, y, z = (keys + keys[:1] * 2)[:3]
            _located((a, b, c), (x, y, z), len(keys), start, stop)
        return order, start, stop

    def counts(self, s: Ints | None, p: Ints | None, o: Ints | None) -> Ints:
        """Count the triples that match each row of the columns `s`, `p` and `o`. A column that is None accepts any id.
        At least one column must not be None."""
        if self._beside is None:
            _, start, stop = self.ranges(s, p, o)
            return stop - start
        base, less, more = self._beside
        count = base.counts(s, p, o)
        if len(less):
            count = count - less.counts(s, p, o)
        return count + more.counts(s, p, o) if len(more) else count

    def found(self, s: Ints | None, p: Ints | None, o: Ints | None) -> tuple[Ints, TripleColumns]:
        """Return the triples that match a row of the columns `s`, `p` and `o`. A column that is None accepts any id. At
        least one column must not be None.

        The first result is, for each triple, the index of the row that it matches.
        """
        if self._beside is None:
            order, start, stop = self.ranges(s, p, o)
            index, rows = expand(start, stop)
            columns = self.ordered(order)
            return index, (columns[0][rows], columns[1][rows], columns[2][rows])
        base, less, new = self._beside
        index, columns = base.found(s, p, o)
        if len(less):
            kept = ~less.has(*columns)
            if not kept.all():
                index, columns = index[kept], (columns[0][kept], columns[1][kept], columns[2][kept])
        others, more = new.found(s, p, o)
        if not len(others):
            return index, columns
        every = tuple(np.concatenate(pair) for pair in zip(columns, more))
        return np.concatenate([index, others]), (every[0], every[1], every[2])

    def ordered(self, order: int) -> TripleColumns:
        """Return the columns s, p and o, sorted in one of three orders. The sorted columns are computed at first use.

        `order`: 0 for s p o, 1 for p o s, 2 for o s p.
        """
        if order not in self._orders:
            if self._beside is not None:
                self._orders[order] = _replaced(*self._beside, order)
            else:
                self._orders[order] = _sorted(self.columns, order, distinct=True)
        return self._orders[order]

    def has(self, s: Ints, p: Ints, o: Ints) -> NDArray[np.bool_]:
        """Return a mask that is True for those of the triples (s, p, o) that are in the set."""
        return self.counts(s, p, o) > 0

    # --- additions and removals ---

    def plus(self, more: TripleSet) -> TripleSet:
        if not len(self):
            return more
        more = more._without(self)
        if not len(more):
            return self
        if len(more) * _FEW > len(self):
            s, p, o = (np.concatenate(pair) for pair in zip(self.columns, more.columns))
            return TripleSet.of(s, p, o)
        if self._beside is None:
            return TripleSet._of_few(self, TripleSet.empty(), more)
        base, gone, new = self._beside
        back = gone.common(more)
        return TripleSet._of_few(base, gone._without(back), new._with(more._without(back)))

    def minus(self, less: TripleSet) -> TripleSet:
        if not len(less) or not len(self):
            return self
        if len(less) * _FEW > len(self):
            keep = ~less.has(*self.columns)
            return TripleSet((self.s[keep], self.p[keep], self.o[keep]))
        less = less.common(self)
        if not len(less):
            return self
        if self._beside is None:
            return TripleSet._of_few(self, less, TripleSet.empty())
        base, gone, new = self._beside
        back = less.common(new)
        return TripleSet._of_few(base, gone._with(less._without(back)), new._without(back))

    def common(self, other: TripleSet) -> TripleSet:
        return self._chosen(other.has(*self.columns))

    # Operations on small sets, whose triples are all in columns.

    def _without(self, other: TripleSet) -> TripleSet:
        return self._chosen(~other.has(*self.columns)) if len(other) else self._chosen(None)

    def _with(self, more: TripleSet) -> TripleSet:
        s, p, o = (np.concatenate(pair) for pair in zip(self.columns, more.columns))
        return TripleSet.of(s, p, o)

    def _chosen(self, keep: NDArray[np.bool_] | None) -> TripleSet:
        if keep is None or keep.all():
            return self if self._beside is None else TripleSet(self.columns)
        return TripleSet((self.s[keep], self.p[keep], self.o[keep]))


def _replaced(base: TripleSet, less: TripleSet, more: TripleSet, order: int) -> TripleColumns:
    """Return the columns of `base` in a sorted order, without the triples `less` and with the triples `more`. `order`:
    see `TripleSet.ordered`."""
    columns = base.ordered(order)
    if len(less):
        gone = _places(columns, order, less)
        kept = _room(len(columns[0]) - len(less))
        for old, out in zip(columns, kept):
            _take(old, gone, out)
        columns = kept
    if len(more):
        places, new_columns = _places(columns, order, more), _room(len(columns[0]) + len(more))
        for old, ids, out in zip(columns, more.ordered(order), new_columns):
            _put(old, places, ids, out)
        columns = new_columns
    return columns


def _places(columns: TripleColumns, order: int, triples: TripleSet) -> Ints:
    """Return the position of each triple in sorted columns. For a triple that they do not contain, return the position
    at which it would be inserted."""
    start: Ints = np.empty(len(triples), dtype=np.int64)
    stop: Ints = np.empty(len(triples), dtype=np.int64)
    a, b, c = (columns[place] for place in _ORDERS[order])
    x, y, z = (triples.ordered(order)[place] for place in _ORDERS[order])
    _located((a, b, c), (x, y, z), 3, start, stop)
    return start


def _located(columns: TripleColumns, keys: TripleColumns, width: int, start: Ints, stop: Ints) -> None:
    """For each key, find the rows whose first `width` ids equal those of the key. Write the bounds of these rows into
    `start` and `stop`."""
    a, b, c = map(_fixed, columns)
    x, y, z = map(_fixed, keys)
    _locate(a, b, c, x, y, z, width, start, stop)


def _fixed(column: Ints) -> Ints:
    """Return a read-only view of a column.

    Some columns from polars are read-only. If kernels only receive read-only columns, they are compiled once, and not
    for each mixture of read-only and writable columns.
    """
    view = column.view()
    view.flags.writeable = False
    return view


def _room(rows: int) -> TripleColumns:
    return np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)


def expand(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """List the rows in some ranges. Return two columns with one entry per row: the index of the range that contains the
    row, and the number of the row."""
    counts = stop - start
    index = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return index, np.arange(len(index), dtype=np.int64) + np.repeat(start - before, counts)


def _sorted(columns: TripleColumns, order: int, distinct: bool = False) -> TripleColumns:
    if len(columns[0]) <= _SMALL:
        by = np.lexsort([columns[place] for place in reversed(_ORDERS[order])])
        s, p, o = columns[0][by], columns[1][by], columns[2][by]
    else:
        frame = pl.DataFrame(dict(zip("spo", columns))).sort(["spo"[place] for place in _ORDERS[order]])
        s, p, o = (series.to_numpy() for series in frame)
    if distinct or not len(s):
        return s, p, o
    first = np.ones(len(s), dtype=np.bool_)
    first[1:] = (s[1:] != s[:-1]) | (p[1:] != p[:-1]) | (o[1:] != o[:-1])
    return (s, p, o) if first.all() else (s[first], p[first], o[first])


def _put(column: Any, places: Any, more: Any, out: Any) -> None:
    # Insert `more[i]` before `column[places[i]]`; places ascend. `out` has room for all values.
    done = 0
    for i in range(places.shape[0] + 1):
        stop = places[i] if i < places.shape[0] else column.shape[0]
        for row in range(done, stop):
            out[row + i] = column[row]
        done = stop
        if i < places.shape[0]:
            out[done + i] = more[i]


def _take(column: Any, places: Any, out: Any) -> None:
    # Copy the column without `column[places[i]]`; places are distinct and ascend. `out` has room for the rest.
    done = 0
    for i in range(places.shape[0] + 1):
        stop = places[i] if i < places.shape[0] else column.shape[0]
        for row in range(done, stop):
            out[row - i] = column[row]
        done = stop + 1


def _locate(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any, width: Any, start: Any, stop: Any) -> None:
    # Search rows of x, y, z, by their first `width` columns, in the sorted rows of a, b, c. Usually, the keys ascend.
    # Then a search begins at the result of the last one and doubles its steps.
    size = a.shape[0]
    low = np.int64(0)
    for row in range(x.shape[0]):
        if row and _before(x, y, z, row, x, y, z, row - 1, width, 0):
            low = np.int64(0)
        for upper in range(2):
            step = np.int64(1)
            high = low
            while high < size and _before(a, b, c, high, x, y, z, row, width, upper):
                low = high + 1
                high = min(size, high + step)
                step *= 2
            while low < high:
                middle = (low + high) // 2
                if _before(a, b, c, middle, x, y, z, row, width, upper):
                    low = middle + 1
                else:
                    high = middle
            if upper:
                stop[row] = low
            else:
                start[row] = low
        low = start[row]


def _before(a: Any, b: Any, c: Any, i: Any, x: Any, y: Any, z: Any, j: Any, width: Any, equal: Any) -> Any:
    # Return True if row i of a, b, c precedes row j of x, y, z, or equals it and `equal` is set.
    if a[i] != x[j]:
        return a[i] < x[j]
    if width > 1:
        if b[i] != y[j]:
            return b[i] < y[j]
        if width > 2 and c[i] != z[j]:
            return c[i] < z[j]
    return equal != 0


_before = njit(boundscheck=False)(_before)
_locate = njit(boundscheck=False)(_locate)
_put = njit(boundscheck=False)(_put)
_take = njit(boundscheck=False)(_take)
