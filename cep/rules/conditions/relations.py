"""Relations as conditions query them: the rows for given values of some columns."""

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
    """A relation asked with certain positions bound, for certain others."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the wanted positions."""

    @property
    def single(self) -> bool:
        """Never more than one answer a row."""

    @property
    def timed(self) -> bool:
        """Return True if each row is evaluated at a time of its own, `ends`."""

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        """For each answer the row it belongs to (ascending), and a column for each wanted position.

        `bound`: a column of `rows` values, none missing, for each bound position in ascending order. The answers of a
        row are distinct and come in an order that the relation alone decides.
        """

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        """Which rows have an answer."""


class Relation(Arrangeable, Protocol):
    """A static predicate, a table or rules that are called."""

    @property
    def types(self) -> tuple[str | None, ...]:
        """The type of each position; None: what it is asked with."""

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        """Ready to be asked with values of these types for these positions (ascending), for the wanted ones.

        Where `types` gives a type, the values have it. What is neither bound nor wanted may be anything.
        """


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A relation that an engine holds: its number of rows, the type of each column, and whether it follows a change
    `by_difference`; else it is queried anew."""

    rows: int
    types: tuple[str, ...]
    by_difference: bool
