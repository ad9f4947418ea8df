"""A goal as it was before a step, so that the step can be taken back.

Every goal can be taken back: its whole state is copied. An operator that says which rows of its arrays a step may
change (`touched`) pays for these alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Table
from cep.core.time import Frontier

Ints = NDArray[np.int64]
T = TypeVar("T")
ALL = slice(None)
PICKED = 8
"""Picking a row out of an array costs as much as copying so many that follow each other."""
Touched = Mapping[str, Ints | slice]
"""Rows of the arrays of a goal, by attribute. Of an attribute that is a number all of it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A goal before a step. `state`: all of it; or `rows`: attributes with the rows that the step may change."""

    state: dict[str, Ints] | None = None
    rows: tuple[tuple[str, Ints | slice, Any], ...] = ()


class TakenBack(ABC):
    """The part of the contract that is about steps that are taken back."""

    @abstractmethod
    def as_arrays(self) -> dict[str, Ints]:
        """See `cep.operators.goals.contract`."""

    @abstractmethod
    def become_arrays(self, state: dict[str, Ints]) -> None:
        """See `cep.operators.goals.contract`."""

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched | None:
        """The rows that a step over these inputs may change, besides those that it adds behind them; None: any.

        A step moves no row of these arrays.
        """
        return None

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        """See `cep.operators.goals.contract`."""
        touched = self.touched(inputs, frontier)
        if touched is None:
            return self.whole_checkpoint()
        return Checkpoint(rows=tuple(_kept(name, getattr(self, name), rows) for name, rows in touched.items()))

    def whole_checkpoint(self) -> Checkpoint:
        """See `cep.operators.goals.contract`."""
        return Checkpoint({name: array.copy() for name, array in self.as_arrays().items()})

    def take_back(self, to: Checkpoint) -> None:
        """See `cep.operators.goals.contract`. Keys that nothing holds of may stay."""
        if to.state is not None:
            self.become_arrays(to.state)
        for name, rows, value in to.rows:
            if isinstance(value, np.ndarray):
                getattr(self, name)[rows] = value
            else:
                setattr(self, name, value)


class Ahead(Generic[T]):
    """Values computed from a table for a checkpoint, which the step itself uses again."""

    def __init__(self, work: Callable[[Table], T]) -> None:
        self.work = work
        self.known: tuple[Table, T] | None = None

    def look(self, table: Table) -> T:
        """Work it out, and keep it for the step."""
        self.known = table, self.work(table)
        return self.known[1]

    def take(self, table: Table) -> T:
        """Return it, worked out now if need be."""
        known, self.known = self.known, None
        return known[1] if known is not None and known[0] is table else self.work(table)


def _kept(name: str, value: Ints | int, rows: Ints | slice) -> tuple[str, Ints | slice, Ints | int]:
    """Rows of an array, apart from it, all of it where that is less; a number is what it is."""
    if not isinstance(value, np.ndarray):
        return name, rows, value
    if isinstance(rows, slice) or PICKED * len(rows) >= len(value):
        rows = rows if isinstance(rows, slice) and rows.stop is not None else slice(len(value))
        return name, rows, value[rows].copy()
    return name, rows, value[rows]
