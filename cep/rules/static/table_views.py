"""Views of tables: a table as it was before the last edits, and a table that has additional constant columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Column
from cep.core.values import Ints
from cep.rules.static.materialized import MaterializedRelation, TableProbe


class PreviousTable:
    """A view of a table as it was when `MaterializedRelation.settle` was last called."""

    def __init__(self, table: MaterializedRelation) -> None:
        self.table = table
        self.name, self.arity, self.types = table.name, table.arity, table.types

    def ready(self, bound: frozenset[int]) -> bool:
        return True

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> TableProbe:
        return self.table.probe(bound, wanted, former=True)


class TableWithConstants:
    """A view of a table with additional columns, each of which contains the same value in all rows. These columns are
    not stored.

    A query can bind such a column only to this value.
    """

    def __init__(self, table: MaterializedRelation | PreviousTable, fixed: Sequence[str | None]) -> None:
        """Create a view. `fixed`: for each column of the view, the type of its constant, or None if the column is
        stored in the table."""
        self.table = table
        self.fixed = fixed
        self.name = table.name
        self.arity = len(fixed)
        self._inner = {place: i for i, place in enumerate(p for p, type in enumerate(fixed) if type is None)}
        self.types = tuple(table.types[self._inner[p]] if type is None else type for p, type in enumerate(fixed))

    @property
    def held(self) -> list[int]:
        return list(self._inner)

    def ready(self, bound: frozenset[int]) -> bool:
        return True

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> _ProbeWithConstants:
        inner = {self._inner[place]: type for place, type in bound.items() if place in self._inner}
        asked = self.table.probe(inner, tuple(self._inner[place] for place in wanted))
        return _ProbeWithConstants(asked, [i for i, place in enumerate(bound) if place in self._inner])


class _ProbeWithConstants:
    __slots__ = ("_asked", "_kept", "single", "types")

    def __init__(self, asked: TableProbe, kept: list[int]) -> None:
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
