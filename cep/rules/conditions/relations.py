"""The interface of relations. A query on a relation finds the rows that have certain values in some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Column
from cep.core.values import Ints
from cep.rules.conditions.binding_order import Arrangeable

Mask = NDArray[np.bool_]


class Probe(Protocol):
    """A query on a relation.

    Some columns of the relation are bound: the caller passes values for them. The query returns the values of the
    wanted columns.
    """

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the wanted columns."""

    @property
    def single(self) -> bool:
        """True if there is never more than one answer for a row of values."""

    @property
    def timed(self) -> bool:
        """True if the relation changes with time. For each row, the query then finds the answers that are valid at the
        row's time in `ends`."""

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        """Answer the query for each row of `bound`. Return the row number of each answer in ascending order, and a
        column of answers for each wanted column of the relation.

        `bound`: for each bound column of the relation, in ascending order, the `rows` values to look up. None of them
        is missing. The answers for one row differ from each other. Their order depends only on the relation.
        """

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        """Return a mask of the rows of `bound` for which the query has at least one answer."""


class Relation(Arrangeable, Protocol):
    """A static predicate: a table, or rules that are evaluated at each call."""

    @property
    def types(self) -> tuple[str | None, ...]:
        """The type of each column. None means that the column has the type of the argument in the call."""

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        """Return a query. `bound`: the positions of the bound columns, with the types of their values. `wanted`: the
        positions of the columns to return, in ascending order.

        If `self.types` contains a type for a bound column, the values that the caller passes must have this type.
        Otherwise they may have any type.
        """


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """Statistics about a relation in an engine.

    `by_difference`: True if, after a change of the relation's source, the engine only adds and removes the rows that
    differ. False if it queries the whole source again.
    """

    rows: int
    types: tuple[str, ...]
    by_difference: bool
