"""The protocol of goals, and the conversion of their state to Arrow.

A goal is a running operator of the plan. `step` takes the rows that its inputs have output since the last step, and
returns the rows that it derives from them. One step takes all occurrences of an instant; only a recursion takes several
steps within an instant. Inputs and output are sorted by arrival. The output depends on the inputs alone, not on how
they are divided into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
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
"""The number of each row's key (-1 if the row belongs to every key), and the rows."""
Translation = Callable[[Ints], Ints]
"""A function that translates the codes of one pool to those of another, or handles of lineage. It maps a missing value
to itself."""


class Goal(Protocol):
    """A running operator."""

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """Return the rows that the inputs complete, now that time has reached `frontier`."""
        ...

    def due(self) -> int | None:
        """Return the earliest time at which waiting rows produce results without further input, in microseconds.

        None: they never do.
        """
        ...

    def pending(self) -> int:
        """Return an upper bound of the number of results that waiting rows produce without further input."""
        ...

    def begin(self, frontier: Frontier) -> None:
        """Begin without a state at `frontier`. Results that time alone has produced by then are not output again."""
        ...

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Drop state that nothing later than `frontier` can need. Called after steps.

        It returns quickly if there is little to drop. `wholly`: drop all of it, whatever that costs.
        """
        ...

    def snapshot(self) -> pa.RecordBatch:
        """Return the state: one row of int64 lists."""
        ...

    def restore(self, batch: pa.RecordBatch) -> None:
        """Load a snapshot. Raises CepError if it cannot be a snapshot of the same operator.

        A state that was loaded never makes a kernel read or write outside its arrays.
        """
        ...

    def extract(self, keys: StateKeys) -> pa.RecordBatch:
        """Remove the state of these keys and return it, with a copy of the state that belongs to every key.

        The result has the form of a snapshot, as if the operator had received only input of these keys. Pass it to
        `replace`.
        """
        ...

    def replace(self, keys: StateKeys, state: pa.RecordBatch) -> None:
        """Replace all state of these keys, and the state that belongs to every key.

        Raises CepError if the new state is not one of the same operator.
        """
        ...

    def as_arrays(self) -> Arrays:
        """Return the arrays of the snapshot. The goal may change them later."""
        ...

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """Return the arrays of the snapshot without state that nothing later than `frontier` can need.

        Use it to compare states with different histories, which may still contain different unneeded state.
        """
        ...

    def become_arrays(self, state: Arrays) -> None:
        """Take over a state of the same operator, from `as_arrays`, `part`, `others` or `together`.

        The arrays belong to the goal from then on.
        """
        ...

    def part(self, state: Arrays, keys: StateKeys) -> Arrays:
        """Return the part of a state that belongs to these keys, as new arrays, as `extract` would.

        The goal's own state does not change.
        """
        ...

    def others(self, state: Arrays, keys: StateKeys) -> Arrays:
        """Return the part of a state that belongs to other keys only, without the state that belongs to every key."""
        ...

    def together(self, left: Arrays, other: Arrays) -> Arrays:
        """Join two states that have no key in common. One of them has the state that belongs to every key."""
        ...

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """Return a state as rows with the numbers of their keys.

        Two states are equal for a key if both have the same rows for it, in the same order.
        """
        ...

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        """Return a result of `extract` with its pool codes translated."""
        ...

    def renamed(self, state: pa.RecordBatch, names: Translation) -> pa.RecordBatch:
        """Return a snapshot of the same operator with its lineage handles translated."""
        ...

    def codes(self) -> list[Ints]:
        """Return arrays with all pool codes of the state. They may contain numbers that are not codes."""
        ...

    def coded(self) -> list[Ints]:
        """Return the arrays of `codes` that contain pool codes only."""
        ...

    def names(self) -> list[Ints]:
        """Return the handles of the waiting occurrences, for lineage."""
        ...

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        """Copy the state that a step over these inputs may change.

        Called in revision and recursion, before a step that may be undone. If any other step fails, the engine is
        unusable.
        """
        ...

    def whole_checkpoint(self) -> Checkpoint:
        """Copy the whole current state. It serves for any inputs."""
        ...

    def take_back(self, to: Checkpoint) -> None:
        """Return to the state of a checkpoint.

        If the checkpoint was made for certain inputs, the goal may only have taken one step since, over these inputs.
        """
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of waiting occurrences, and their size in bytes."""
        ...


class Lasting:
    """The part of the goal protocol for occurrences that may last beyond the end of the input.

    `latest`: the latest end of the records that the goal has received.
    """

    latest = BEGINNING

    def open(self, ended: bool = True) -> Table:
        """Return the occurrences that still last, with an end later than every time.

        `ended`: the input has ended; with lineage, each occurrence gets a new handle.
        """
        raise NotImplementedError("a goal that only keeps records is not asked what lasts")

    def known_open(self) -> tuple[Ints, Ints] | None:
        """Return the records without an end, which a later record may end: a row of arguments for each, and their
        starts.

        None: the goal receives no records.
        """
        return None


class KnowledgeOverTime(Protocol):
    """The knowledge as it is now, and as it was at earlier times."""

    def follow(self, late: int) -> None:
        """Keep the versions of the knowledge from `late` microseconds before the watermark on, because goals will use
        them."""
        ...

    def changed(self, after: int, until: int) -> list[int]:
        """Return the times after `after`, up to `until`, at which followed knowledge changed, in ascending order."""
        ...

    def known_at(self, time: int) -> AbstractContextManager[None]:
        """Use the knowledge of this time within the block."""
        ...


@runtime_checkable
class EventGoal(Protocol):
    """The protocol of the goal of an event.

    `merged`: the number of records that were merged with an equal one. `latest_equal`: the end of the latest record
    that was equal to an earlier one. It is kept only if numbers are used, or if the goal `looks` for such records.
    """

    merged: int
    latest_equal: int
    looks: bool

    def taken(self, table: Table) -> Table:
        """Return the event's own input, sorted. Equal records are merged or numbered."""
        ...

    def numbered(self, table: Table) -> Table:
        """Return the same rows, with their numbers among equal rows in IDENTITY. In a set, all have the same number."""
        ...


class Untimed:
    """The part of the goal protocol for operators that produce results only from input."""

    def due(self) -> int | None:
        """Return None: never."""
        return None

    def pending(self) -> int:
        """Return 0."""
        return 0

    def begin(self, frontier: Frontier) -> None:
        """Do nothing: the operator waits for its inputs."""


@dataclass(frozen=True, slots=True)
class Takes:
    """The inputs of goals: rows that other `units` output, and incoming `events`.

    `timed`: the goals also run when they are due (`Goal.due`). `always`: they run at every step.
    """

    units: tuple[PlanUnit, ...]
    events: tuple[str, ...]
    timed: bool
    always: bool = False


@dataclass(frozen=True, slots=True)
class StateKeys:
    """Keys whose state is requested from an operator.

    `columns`: for each input, the argument columns that form the key. For the event whose absence between a pair is
    tested, these are the columns of its own key. None: each row of the input belongs to every key.

    `tests`: for each input, a function that takes key columns, one row per occurrence, and returns a mask of the
    occurrences that belong to the keys. `numbers`: for each input, a function that takes the same columns and returns
    the numbers of their keys; empty if these are not needed.
    """

    columns: tuple[tuple[int, ...] | None, ...]
    tests: tuple[Callable[[Ints], Bools], ...]
    numbers: tuple[Callable[[Ints], Ints], ...] = ()


def to_arrow(arrays: Mapping[str, Ints]) -> pa.RecordBatch:
    """Return arrays of one or two dimensions as one row of lists. Their shapes are in the fields' metadata."""
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
    """Return the arrays that `to_arrow` was called with, as writable arrays. Raises CepError if the batch is not from
    `to_arrow`."""
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
    """Return the arrays of a state: exactly these names, with these numbers of columns. Raises CepError otherwise."""
    arrays = from_arrow(batch)
    demand(arrays.keys() == columns.keys())
    demand(all(array.ndim == 2 and array.shape[1] == columns[name] for name, array in arrays.items()))
    return arrays


def between(values: Ints, low: int, beyond: int) -> None:
    """Raise CepError if a restored array has values outside `low` to `beyond`, `beyond` excluded."""
    demand(not values.size or (int(values.min()) >= low and int(values.max()) < beyond))


def demand(holds: bool) -> None:
    """Raise CepError if a condition on a restored state does not hold."""
    if not holds:
        raise damaged()


DAMAGED = "damaged"
"""The code of the error for a damaged snapshot. For one that does not fit, the code is `snapshot`."""


def damaged() -> CepError:
    """Return the error for bytes that are not a snapshot, or that have changed since they were written."""
    return CepError(
        "this is not a snapshot, or it is damaged", hint="restore it from a copy, or start without it", code=DAMAGED
    )


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Copies of waiting rows.

    `arguments[column]` are the arguments. `arrival` is their order, where they have one. `until` is the last time at
    which a row may find a partner or be output without one; END_OF_TIME if there is none.
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
    """A goal whose occurrences wait for others, or for a deadline."""

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """Return the rows of an input that still wait after `watermark`, with their first `width` arguments.

        The goal does not change.
        """
