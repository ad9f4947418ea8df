"""The interface of relations. A query finds the rows that have certain values in some columns."""

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
    """A query on a relation. It receives values for the bound positions, and returns values of the wanted positions."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the wanted positions."""

    @property
    def single(self) -> bool:
        """True if a row never has more than one answer."""

    @property
    def timed(self) -> bool:
        """True if the query finds for each row the answers that are valid at the row's own time, `ends`."""

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        """Return the row number of each answer in ascending order, and a column for each wanted position.

        `bound`: for each bound position in ascending order, a column of `rows` values, none of which is missing. The
        answers for one row differ from each other. Their order depends only on the relation.
        """

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        """Return a mask of the rows that have an answer."""


class Relation(Arrangeable, Protocol):
    """A static predicate: a table, or rules that are evaluated at each call."""

    @property
    def types(self) -> tuple[str | None, ...]:
        """The type of each position. None means that the position has the type of the argument in the call."""

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        """Return a query. `bound`: the types of the bound positions. `wanted`: the positions to return, in ascending
        order.

        If `types` has a type for a bound position, the values at that position must have this type. Otherwise they may
        have any type.
        """


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """Statistics about a relation in an engine.

    `by_difference`: True if the engine applies a change of the relation's source as a difference. Otherwise it queries
    the source again.
    """

    rows: int
    types: tuple[str, ...]
    by_difference: bool
