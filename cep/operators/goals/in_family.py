"""The protocol of goals that can run in a family. A family runs goals of one shape, over different events, as one goal.

The tables of a family have an additional last argument, the member. A row's member is the number of the goal that the
row belongs to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Self

import numpy as np

from cep.rules.conditions.column_tests import MASK, NEGATED, ROW, Tests


class InFamily(ABC):
    """A goal that can run in a family."""

    @abstractmethod
    def shape(self) -> Hashable:
        """Return a value that decides which goals can form a family. Goals can form one if their shapes are equal and
        their columns have equal types.

        The shape does not include the constants of column tests. Returns None if the goal must run alone.
        """

    @abstractmethod
    def united(self, members: Sequence[Self]) -> Self:
        """Return a goal with an empty state that runs all `members` of a family. This goal is the first member."""

    @abstractmethod
    def gather(self, members: Sequence[Self]) -> None:
        """Fill the state of the family's goal with the states of its members."""

    @abstractmethod
    def divide(self, members: Sequence[Self]) -> None:
        """Divide the state of the family's goal among its members."""

    @abstractmethod
    def sizes(self, members: Sequence[Self]) -> Sequence[tuple[int, int]]:
        """Return, for each member, the number of its waiting rows and their size in bytes. The state is not divided."""

    def skip_tests(self) -> None:  # noqa: B027
        """Stop comparing rows with constants, because the caller only passes rows that satisfy these tests."""


def compared(tests: Tests) -> Hashable:
    """Return the columns and comparisons of tests, without the constants."""
    return tuple(map(tuple, tests[:, [ROW, MASK, NEGATED]].tolist()))


def by_member(tests: Sequence[Tests]) -> Tests:
    return np.ascontiguousarray(np.stack(tests))
