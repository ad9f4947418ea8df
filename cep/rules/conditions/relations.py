"""The interface of relations: find the rows with given values in some columns."""

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
    """A query on a relation. It takes values for certain positions, and returns the values of other positions."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the wanted positions."""

    @property
    def single(self) -> bool:
        """True if a row never has more than one answer."""

    @property
    def timed(self) -> bool:
        """True if each row is evaluated at its own time, `ends`."""

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        """Return the row of each answer (ascending), and a column for each wanted position.

        `bound`: for each bound position in ascending order, a column of `rows` values, none missing. The answers of one
        row are distinct, in an order that depends only on the relation.
        """

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        """Return a mask of the rows with an answer."""


class Relation(Arrangeable, Protocol):
    """A static predicate: a table, or rules that are evaluated on call."""

    @property
    def types(self) -> tuple[str | None, ...]:
        """The type of each position. None: the type of the value with which it is called."""

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        """Return a query. `bound`: the types of the bound positions; `wanted`: the positions to return (ascending).

        If `types` has a type for a bound position, the values have that type. Other positions may have any value.
        """


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """Statistics of a relation in an engine.

    `by_difference`: a change of its source is applied as a difference; otherwise the relation is queried again.
    """

    rows: int
    types: tuple[str, ...]
    by_difference: bool
