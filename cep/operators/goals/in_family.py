"""The protocol of goals that may run in a family: goals of one shape, over different events, that run as one goal.

The tables of a family have one more argument, which comes last: the number of the goal that a row belongs to, its
member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Self

import numpy as np

from cep.rules.conditions.column_tests import MASK, NEGATED, ROW, Tests


class InFamily(ABC):
    """A goal that may run in a family."""

    @abstractmethod
    def shape(self) -> Hashable:
        """Return what the goals of a family have in common, besides the types of their columns.

        They may differ in the constants of column tests. None: the goal runs alone.
        """

    @abstractmethod
    def united(self, members: Sequence[Self]) -> Self:
        """Return one goal, without a state, for the goals of a family. The first of them is this one."""

    @abstractmethod
    def gather(self, members: Sequence[Self]) -> None:
        """Replace the state of the family's goal by the states of its members."""

    @abstractmethod
    def divide(self, members: Sequence[Self]) -> None:
        """Replace the states of the members by their parts of the state of the family's goal."""


def compared(tests: Tests) -> Hashable:
    """Return the columns of tests and how they are compared, without the constants."""
    return tuple(map(tuple, tests[:, [ROW, MASK, NEGATED]].tolist()))


def by_member(tests: Sequence[Tests]) -> Tests:
    """Return the tests of all members as an array of three dimensions."""
    return np.ascontiguousarray(np.stack(tests))
