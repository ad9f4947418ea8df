"""The protocol of goals, and the conversion of their state to Arrow.

A goal is a running operator of the plan. `step` takes the rows that have arrived on the goal's inputs since the last
step, and returns the rows that the goal derives from them. One step takes all occurrences of an instant. Only a
recursion takes several steps within an instant. Inputs and output are sorted by arrival. The output depends on the
inputs, but not on how they are divided into steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.relation import Table
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.checkpoint import Checkpoint
from cep.plan.order import PlanUnit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Arrays = dict[str, Ints]
KeyedRows = tuple[Ints, Ints]
"""The rows of a state, by key. The first array contains the number of each row's key, or -1 if the row belongs to every
key. The second array contains the rows themselves."""
Translation = Callable[[Ints], Ints]
"""A function that translates pool codes of one pool to those of another pool. It may instead translate lineage handles
of one lineage to those of another lineage. Missing values stay the same."""


class Goal(Protocol):
    """A running operator."""

    @property
    def in_time(self) -> bool:
        """True if every result of a step ends after the time of the previous step, and not after the time of this step.

        The goal may assume the same of its input rows.
        """
        ...

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """Return the rows that the goal derives from new input, now that time has reached `frontier`."""
        ...

    def due(self) -> int | None:
        """Return the earliest time at which stored rows produce results without further input, in microseconds.

        Returns None if stored rows never do so.
        """
        ...

    def pending(self) -> int:
        """Return an upper bound of the number of results that stored rows produce without further input."""
        ...

    def begin(self, frontier: Frontier) -> None:
        """Start at `frontier` with an empty state. Results that were due before `frontier` are never output."""
        ...

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Drop state that no input later than `frontier` can need. The engine calls this after steps.

        If there is little to drop, the goal may keep it. `wholly`: True to drop all unneeded state, even if that takes
        long.
        """
        ...

    def snapshot(self) -> pa.RecordBatch:
        """Return the state as a record batch with one row; each column is a list of int64."""
        ...

    def restore(self, batch: pa.RecordBatch) -> None:
        """Load a snapshot. Raises CepError if `batch` cannot be a snapshot of the same operator.

        Not all damage is detected. However, undetected damage never makes a kernel read or write outside its arrays.
        """
        ...

    def extract(self, keys: StateKeys) -> pa.RecordBatch:
        """Remove the state of these keys and return it, with a copy of the state that belongs to every key.

        The result looks like a snapshot of a goal that has received only input of these keys. `replace` accepts it.
        """
        ...

    def replace(self, keys: StateKeys, state: pa.RecordBatch) -> None:
        """Replace all state of these keys, and the state that belongs to every key.

        Raises CepError if `state` does not come from the same operator.
        """
        ...

    def as_arrays(self) -> Arrays:
        """Return the state as the arrays of a snapshot. The goal may change these arrays later."""
        ...

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """Return the state as arrays, without the parts that only input up to `frontier` could need.

        Use this method to compare goals that have different histories, because each of them may still store other
        unneeded state.
        """
        ...

    def become_arrays(self, state: Arrays) -> None:
        """Replace the state by the arrays of another goal of the same operator.

        The arrays come from `as_arrays`, `part`, `others` or `together`. They belong to this goal afterwards.
        """
        ...

    def part(self, state: Arrays, keys: StateKeys) -> Arrays:
        """Return the part of `state` that belongs to these keys, as new arrays, in the form that `extract` returns.

        The goal's own state does not change.
        """
        ...

    def others(self, state: Arrays, keys: StateKeys) -> Arrays:
        """Return the part of `state` that does not belong to these keys, without state that belongs to every key."""
        ...

    def together(self, left: Arrays, other: Arrays) -> Arrays:
        """Combine two states that have no key in common.

        Rows that belong to every key must be in exactly one of the two states.
        """
        ...

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """Return the rows of a state, with the number of each row's key.

        The state of a key is the same in two goals if both return the same rows for it, in the same order.
        """
        ...

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        """Translate the pool codes in a result of `extract`."""
        ...

    def renamed(self, state: pa.RecordBatch, names: Translation) -> pa.RecordBatch:
        """Translate the lineage handles in a snapshot of the same operator."""
        ...

    def codes(self) -> list[Ints]:
        """Return arrays that contain all pool codes of the state. They may also contain numbers that are not codes."""
        ...

    def coded(self) -> list[Ints]:
        """Return those arrays of `codes` that contain nothing but pool codes."""
        ...

    def names(self) -> list[Ints]:
        """Return the lineage handles of all occurrences in the state."""
        ...

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        """Copy the state that a step over these inputs may change.

        Revision and recursion call this method before a step that they may undo. After an error in a step for which no
        checkpoint exists, the engine cannot be used any more.
        """
        ...

    def whole_checkpoint(self) -> Checkpoint:
        """Copy the whole state, so that a step over any inputs can be undone."""
        ...

    def take_back(self, to: Checkpoint) -> None:
        """Restore the state of a checkpoint.

        If the checkpoint was made for certain inputs, the goal may have taken at most one step since then, over these
        inputs.
        """
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of stored occurrences, and the size of the state in bytes."""
        ...


class Lasting(ABC):
    """The part of the goal protocol for occurrences that may continue when the input ends.

    `latest`: the latest end of the records that the goal has received.
    """

    latest = BEGINNING

    @abstractmethod
    def open(self, ended: bool = True) -> Table:
        """Return the occurrences that have not ended yet. In the result, their END is END_OF_TIME.

        `ended`: True if the input has ended. Then each occurrence gets a new handle, if there is lineage.
        """

    def known_open(self) -> tuple[Ints, Ints] | None:
        """Return the records that have no end yet, as their arguments (one row per record) and their starts.

        A later record may end them. The result is None if the goal does not read records.
        """
        return None


class KnowledgeOverTime(Protocol):
    """The times at which the knowledge changes. A query for an occurrence reads the knowledge of the time when the
    occurrence ends."""

    def follow(self, late: int) -> None:
        """Keep the knowledge of earlier times, because goals will query it.

        `late`: how far before the watermark these times may be, in microseconds.
        """
        ...

    def changed(self, after: int, until: int) -> list[int]:
        """Return the times at which the knowledge changes, in ascending order: those after `after` and not after
        `until`. Times before those that `follow` keeps may be left out."""
        ...


@runtime_checkable
class EventGoal(Protocol):
    """The protocol of the goal of an event.

    - `merged`: the number of records that were dropped because they equal an earlier record.
    - `latest_equal`: the end of the latest record that equals an earlier one. It is updated if equal records are
      numbered, or if `looks` is True.
    - `looks`: True if a caller needs `latest_equal`, even if equal records are not numbered.
    """

    merged: int
    latest_equal: int
    looks: bool

    def taken(self, table: Table) -> Table:
        """Return the event's own input rows, in which equal records are merged or numbered as the event requires."""
        ...

    def numbered(self, table: Table) -> Table:
        """Return the rows of `table` with their numbers in the column IDENTITY. A row's number is how many equal rows
        come before it.

        The number is always 0 if the event keeps only one of several equal occurrences.
        """
        ...


class Untimed:
    """The part of the goal protocol for operators that produce results only when input arrives."""

    def due(self) -> int | None:
        """Return None, because time alone produces no results."""
        return None

    def pending(self) -> int:
        """Return 0, because time alone produces no results."""
        return 0

    def begin(self, frontier: Frontier) -> None:
        """Do nothing: the operator waits for its inputs."""


@dataclass(frozen=True, slots=True)
class Takes:
    """The inputs of a machine part (see `cep.runtime.machine_part`).

    - `units`: the units whose output the part reads.
    - `events`: the input events that the part reads.
    - `timed`: True if the part also runs when one of its goals is due (see `Goal.due`).
    - `always`: True if the part runs at every step.
    """

    units: tuple[PlanUnit, ...]
    events: tuple[str, ...]
    timed: bool
    always: bool = False


@dataclass(frozen=True, slots=True)
class StateKeys:
    """A set of keys whose state is requested from a goal, the running form of one operator of a plan.

    - `columns`: for each input, the argument columns that form the key, or None if each row of the input belongs to
      every key. For the negated input of a join, they are columns of that input.
    - `tests`: for each input, a function that returns a mask of the occurrences that have one of these keys. It takes
      the key columns, one row per occurrence.
    - `numbers`: for each input, a function that takes the same columns and returns the number of each occurrence's key.
      Empty if the numbers are not needed.
    """

    columns: tuple[tuple[int, ...] | None, ...]
    tests: tuple[Callable[[Ints], Bools], ...]
    numbers: tuple[Callable[[Ints], Ints], ...] = ()


def to_arrow(arrays: Mapping[str, Ints]) -> pa.RecordBatch:
    """Return arrays of one or two dimensions as a record batch with one row of lists.

    The metadata of each field contains the shape of its array.
    """
    fields, columns = [], []
    for name, array in arrays.items():
        shape = ",".join(str(n) for n in array.shape)
        flat = pa.array(np.ascontiguousarray(array).reshape(-1))
        offsets = pa.array([0, len(flat)], pa.int64())
        columns.append(pa.LargeListArray.from_arrays(offsets, flat))
        fields.append(pa.field(name, pa.large_list(pa.int64()), metadata={"shape": shape}))
    if not fields:
        return pa.RecordBatch.from_arrays([pa.nulls(1)], ["nothing"])
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def from_arrow(batch: pa.RecordBatch) -> Arrays:
    """Return the arrays in a result of `to_arrow`, as writable arrays. Raises CepError if `batch` does not have the
    form that `to_arrow` writes."""
    arrays: Arrays = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.metadata is None:
            continue
        demand(pa.types.is_large_list(field.type) and field.type.value_type == pa.int64() and batch.num_rows == 1)
        flat = np.array(column.flatten()).astype(np.int64)
        try:
            shape = tuple(int(n) for n in field.metadata[b"shape"].decode().split(","))
        except (KeyError, ValueError):
            raise damaged() from None
        demand(len(shape) in (1, 2) and min(shape) >= 0 and int(np.prod(shape, dtype=object)) == len(flat))
        arrays[field.name] = flat.reshape(shape)
    return arrays


def restored(batch: pa.RecordBatch, **columns: int) -> Arrays:
    """Return the arrays in a result of `to_arrow`.

    `columns`: the expected names of the arrays, each with the number of columns of its array. Raises CepError if the
    names or the numbers of columns are not as expected.
    """
    arrays = from_arrow(batch)
    demand(arrays.keys() == columns.keys())
    demand(all(array.ndim == 2 and array.shape[1] == columns[name] for name, array in arrays.items()))
    return arrays


def between(values: Ints, low: int, beyond: int) -> None:
    """Raise CepError if a restored array contains a value less than `low`, or not less than `beyond`."""
    demand(not values.size or (int(values.min()) >= low and int(values.max()) < beyond))


def demand(holds: bool) -> None:
    """Raise CepError unless `holds`, a condition on a restored state."""
    if not holds:
        raise damaged()


DAMAGED = "damaged"
"""The error code for a damaged snapshot. A valid snapshot of another program has the code `snapshot`."""


def damaged() -> CepError:
    """Return the error for bytes that are not a snapshot, or that were changed after they were written."""
    return CepError(
        "this is not a snapshot, or it is damaged", hint="restore it from a copy, or start without it", code=DAMAGED
    )


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Copies of rows that wait for a partner or a deadline.

    - `arguments[column]`: the arguments of the rows.
    - `arrival`: the position of each row in the order of arrival, or 0 if the goal does not need this order.
    - `until`: the last time at which each row may find a partner or be output without one; END_OF_TIME if there is no
      limit.
    """

    start: Ints
    end: Ints
    arguments: Ints
    until: Ints
    arrival: Ints

    def taken(self, index: Ints) -> WaitingRows:
        """Return the rows at these indices."""
        columns = self.arguments[:, index]
        return WaitingRows(self.start[index], self.end[index], columns, self.until[index], self.arrival[index])


@runtime_checkable
class KeepsWaiting(Protocol):
    """A goal that stores occurrences until a partner arrives or a deadline passes."""

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """Return copies of the rows of input `side` that still wait after `watermark`.

        `width`: the number of arguments to copy.
        """
