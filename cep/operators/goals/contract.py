"""The protocol of operators, and the conversion of their state to Arrow.

A goal is one operator of the plan, running. `step` takes what its inputs gave since the last step and gives what
follows; every occurrence of an instant comes in one step (the rounds of a recursion inside one instant excepted).
Inputs and output are sorted by arrival. The output depends on the inputs alone, not on how they were cut into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""The number of each row's key, -1 where the row belongs to every key; and the rows."""
Translation = Callable[[Ints], Ints]
"""From codes of one pool to those of another, where the missing value stays what it is; or from handles to handles."""


class Goal(Protocol):
    """One operator, running."""

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """Return the rows that the inputs complete, now that time has reached `frontier`."""
        ...

    def due(self) -> int | None:
        """The earliest time at which time alone will make something of what waits (microseconds); None: it makes
        nothing of it."""
        ...

    def pending(self) -> int:
        """At most how many occurrences time alone will make of what waits."""
        ...

    def begin(self, frontier: Frontier) -> None:
        """Begin without a state when time has come to `frontier`: what time alone made until then is not made again."""
        ...

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Drop what nothing later than `frontier` can need. Called after steps; cheap when there is little to drop.
        `wholly`: all of it, whatever that costs."""
        ...

    def snapshot(self) -> pa.RecordBatch:
        """The state: one row of int64 lists."""
        ...

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the state of a snapshot of the same operator. CepError: it cannot be one; whatever is taken on, no
        kernel reads or writes beside it."""
        ...

    def extract(self, keys: StateKeys) -> pa.RecordBatch:
        """Take the state of these keys out, and with it a copy of what belongs to every key; gives it in the form that
        `replace` takes. That form is a snapshot's: of an operator that has met nothing else."""
        ...

    def replace(self, keys: StateKeys, state: pa.RecordBatch) -> None:
        """Put this in the place of all that is held of these keys, and of what belongs to every key. CepError: it is
        no state of the same operator."""
        ...

    def as_arrays(self) -> Arrays:
        """The arrays of the snapshot, which the goal may change later."""
        ...

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """The same without what nothing later than `frontier` can need: where states that came about in other ways are
        compared, what one of them has dropped already is no difference."""
        ...

    def become_arrays(self, state: Arrays) -> None:
        """Take on the state of a goal of the same operator, as `as_arrays`, `part`, `others` and `together` give it:
        it is the goal's from then on."""
        ...

    def part(self, state: Arrays, keys: StateKeys) -> Arrays:
        """Return the part of a state that belongs to these keys, as new arrays, as `extract` would.

        The goal's own state does not change.
        """
        ...

    def others(self, state: Arrays, keys: StateKeys) -> Arrays:
        """The same of all that is of other keys alone: what belongs to every key is left out."""
        ...

    def together(self, one: Arrays, other: Arrays) -> Arrays:
        """Two states that have no key in common, one of which has what belongs to every key, as one."""
        ...

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """A state as rows with the numbers of their keys: two states are the same for a key that has the same rows in
        both, in the same order."""
        ...

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        """Return a result of `extract` with its pool codes translated."""
        ...

    def renamed(self, state: pa.RecordBatch, names: Translation) -> pa.RecordBatch:
        """A snapshot of the same operator with other handles of lineage."""
        ...

    def codes(self) -> list[Ints]:
        """The pool codes that the state holds, and perhaps numbers that are none."""
        ...

    def coded(self) -> list[Ints]:
        """The arrays of `codes` that hold pool codes only."""
        ...

    def names(self) -> list[Ints]:
        """The identities of the occurrences that wait, for lineage."""
        ...

    def checkpoint(self, inputs: Sequence[Table], frontier: Frontier) -> Checkpoint:
        """Copy the state that a step over these inputs may change. Called before a step that may be taken back, in
        revision and recursion; any other step that fails leaves the engine unusable."""
        ...

    def whole_checkpoint(self) -> Checkpoint:
        """The whole state as it is now, whatever comes."""
        ...

    def take_back(self, to: Checkpoint) -> None:
        """Be what the goal was at a checkpoint. Since one of some inputs it has taken one step, over these, and nothing
        else."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Occurrences waiting, and the bytes they take."""
        ...


class Lasting:
    """The part of the contract of goals whose occurrences may last beyond the end of the input.

    `latest`: the last end of the records that have come to it.
    """

    latest = BEGINNING

    def open(self, ended: bool = True) -> Table:
        """Return those that still last, with an end after every time; `ended`: with lineage each under a new name."""
        raise NotImplementedError("a goal that only keeps records is not asked what lasts")

    def known_open(self) -> tuple[Ints, Ints] | None:
        """Return the records without an end, which a later one may bring: their arguments, a row each, and starts.

        None: no records come to it.
        """
        return None


class KnowledgeOverTime(Protocol):
    """Knowledge as it is now and as it was at earlier times."""

    def follow(self, late: int) -> None:
        """Somebody asks what was known so many microseconds before the watermark."""
        ...

    def changed(self, after: int, until: int) -> list[int]:
        """The times after one and up to another at which something changed, ascending, of those that are followed."""
        ...

    def known_at(self, time: int) -> AbstractContextManager[None]:
        """In the block that is known which was known at a time."""
        ...


@runtime_checkable
class EventGoal(Protocol):
    """The goal of an event. `merged`: how many of its records were one with an equal one; `latest_equal`: when the
    latest record ended that was equal to one before it, where numbers are asked for or it `looks` for such records."""

    merged: int
    latest_equal: int
    looks: bool

    def taken(self, table: Table) -> Table:
        """The event's own input, which is sorted, each record once or with its number."""
        ...

    def numbered(self, table: Table) -> Table:
        """The same rows, with their numbers among equal ones in IDENTITY; of a set all have the same one."""
        ...


class Untimed:
    """The part of the contract of operators for which time alone makes nothing."""

    def due(self) -> int | None:
        """Never."""
        return None

    def pending(self) -> int:
        """Return 0."""
        return 0

    def begin(self, frontier: Frontier) -> None:
        """Do nothing: the operator waits for its inputs."""


@dataclass(frozen=True, slots=True)
class Takes:
    """The inputs of goals: rows that other `units` output, and incoming `events`.

    `timed`: they also run when their time has come (`Goal.due`). `always`: they run at every step.
    """

    units: tuple[PlanUnit, ...]
    events: tuple[str, ...]
    timed: bool
    always: bool = False


@dataclass(frozen=True, slots=True)
class StateKeys:
    """Keys whose state is asked for, as an operator sees them.

    `columns`: for each input the argument columns that together hold the key (of what is absent between a pair: the
    columns of its own key); None where a row of the input belongs to every key. `tests`: for each input, which rows of
    these columns, a row an occurrence, are of these keys. `numbers`, where they are asked for: the number of each such
    row's key.
    """

    columns: tuple[tuple[int, ...] | None, ...]
    tests: tuple[Callable[[Ints], Bools], ...]
    numbers: tuple[Callable[[Ints], Ints], ...] = ()

    def among(self, side: int, table: Ints) -> Bools:
        """Return a mask of the occurrences, given by the rows of their arguments, that belong to these keys."""
        columns = self.columns[side]
        assert columns is not None, "asked of rows that have a key"
        return self.tests[side](table[:, list(columns)]) if len(table) else np.zeros(0, np.bool_)

    def numbered(self, side: int, table: Ints) -> Ints:
        """The number of the key of each row of arguments of an input; -1 where rows belong to every key."""
        columns = self.columns[side]
        if columns is None or not len(table):
            return np.full(len(table), -1)
        return self.numbers[side](table[:, list(columns)])

    def going(self, side: int, table: Ints) -> Bools:
        """Return a mask of the rows of an input that `extract` returns: those of these keys, or all if rows belong to
        every key."""
        return np.ones(len(table), np.bool_) if self.shared(side) else self.among(side, table)

    def staying(self, side: int, going: Bools) -> Bools:
        """Return a mask of the rows that stay when those are extracted."""
        return going if self.shared(side) else ~going

    def shared(self, side: int) -> bool:
        """Return True if every row of an input belongs to every key."""
        return self.columns[side] is None


def to_arrow(arrays: Mapping[str, Ints]) -> pa.RecordBatch:
    """Arrays of one or two dimensions as one row of lists; shapes go into the fields' metadata."""
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


def kept(states: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """States of goals that go on, as copies: a snapshot shares the arrays, which goals change in place."""
    return [pa.ipc.read_record_batch(batch.serialize(), batch.schema) for batch in states]


def from_arrow(batch: pa.RecordBatch) -> Arrays:
    """The arrays of `to_arrow`, writable. CepError: it has not made them."""
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
    """The arrays of a state: these, each of so many columns. CepError: it has others."""
    arrays = from_arrow(batch)
    demand(arrays.keys() == columns.keys())
    demand(all(array.ndim == 2 and array.shape[1] == columns[name] for name, array in arrays.items()))
    return arrays


def between(values: Ints, low: int, beyond: int) -> None:
    """CepError: what was restored has others than those from `low` to before `beyond`."""
    demand(not values.size or (int(values.min()) >= low and int(values.max()) < beyond))


def demand(holds: bool) -> None:
    """CepError: what must hold of a state that is restored does not."""
    if not holds:
        raise damaged()


DAMAGED = "damaged"
"""The code of the error that a snapshot is damaged; where it does not fit, the code is `snapshot`."""


def damaged() -> CepError:
    """Return the error for bytes that are not a snapshot, or not as they were written."""
    return CepError(
        "this is not a snapshot, or a damaged one", hint="bring it back from a copy, or begin anew", code=DAMAGED
    )


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Copies of rows that wait: the arguments are `arguments[column]`, `arrival` is their order where they have one.
    `until`: the last time at which each may find what it waits for, or at which it comes by time alone; END_OF_TIME
    where there is none."""

    start: Ints
    end: Ints
    arguments: Ints
    until: Ints
    arrival: Ints

    def taken(self, index: Ints) -> WaitingRows:
        """These rows."""
        columns = self.arguments[:, index]
        return WaitingRows(self.start[index], self.end[index], columns, self.until[index], self.arrival[index])


@runtime_checkable
class KeepsWaiting(Protocol):
    """A goal in which occurrences wait for others, or for a deadline."""

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """The rows of an input that still wait after `watermark`, with their first `width` arguments. Changes
        nothing."""
