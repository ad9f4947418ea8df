"""Checkpoints of goals. A checkpoint copies state before a step, so that the step can be undone.

By default, the whole state is copied. A goal that can predict which rows a step changes (`touched`) copies only these
rows.
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
"""The number of consecutive rows that take as long to copy as one row that is picked by index."""
Touched = Mapping[str, Ints | slice]
"""The state that a step may change, by attribute of the goal. If the attribute is an array, the value selects rows of
the array. If it is a number, the value is ALL."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A copy of a goal's state from before a step.

    - `state`: a copy of the whole state, or None if only some rows were copied.
    - `rows`: for each attribute that the step may change, its name, the selected rows, and a copy of these rows.
    """

    state: dict[str, Ints] | None = None
    rows: tuple[tuple[str, Ints | slice, Any], ...] = ()


class TakenBack(ABC):
    """The part of the goal protocol that undoes steps."""

    @abstractmethod
    def as_arrays(self) -> dict[str, Ints]:
        """Return the state as arrays (see `cep.operators.goals.contract`)."""

    @abstractmethod
    def become_arrays(self, state: dict[str, Ints]) -> None:
        """Replace the state by arrays (see `cep.operators.goals.contract`)."""

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched | None:
        """Return the rows of the state that a step over these inputs may change, or None if it may change any row.

        The result does not include rows that the step appends. The step must not move rows of the arrays.
        """
        return None

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        touched = self.touched(inputs, frontier)
        if touched is None:
            return self.whole_checkpoint()
        return Checkpoint(rows=tuple(_kept(name, getattr(self, name), rows) for name, rows in touched.items()))

    def whole_checkpoint(self) -> Checkpoint:
        return Checkpoint({name: array.copy() for name, array in self.as_arrays().items()})

    def take_back(self, to: Checkpoint) -> None:
        """Restore the state of a checkpoint (see `cep.operators.goals.contract`). Keys that the undone step added may
        remain, without any state."""
        if to.state is not None:
            self.become_arrays(to.state)
        for name, rows, value in to.rows:
            if isinstance(value, np.ndarray):
                getattr(self, name)[rows] = value
            else:
                setattr(self, name, value)


class Ahead(Generic[T]):
    """A cache for one computation on an input table, whose result both a checkpoint and the step after it need."""

    def __init__(self, work: Callable[[Table], T]) -> None:
        self.work = work
        self.known: tuple[Table, T] | None = None

    def look(self, table: Table) -> T:
        """Compute the result for a table, and keep it for `take`."""
        self.known = table, self.work(table)
        return self.known[1]

    def take(self, table: Table) -> T:
        """Return the result that `look` kept for this table. Compute it if there is none."""
        known, self.known = self.known, None
        return known[1] if known is not None and known[0] is table else self.work(table)


def _kept(name: str, value: Ints | int, rows: Ints | slice) -> tuple[str, Ints | slice, Ints | int]:
    """Copy the given rows of an attribute's array, or the whole array if that is cheaper.

    If the attribute is a number, return it unchanged.
    """
    if not isinstance(value, np.ndarray):
        return name, rows, value
    if isinstance(rows, slice) or PICKED * len(rows) >= len(value):
        rows = rows if isinstance(rows, slice) and rows.stop is not None else slice(len(value))
        return name, rows, value[rows].copy()
    return name, rows, value[rows]
