"""What every goal promises, and how its state becomes Arrow.

A goal is one node with memory. `step` takes what its inputs gave since the last step and gives what follows; every
occurrence of an instant comes in one step (the rounds of a recursion inside one instant excepted). Inputs and
output are sorted by arrival. The output depends on the inputs alone, not on how they were cut into steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cep.table import Table

Ints = NDArray[np.int64]
Arrays = dict[str, Ints]


class Goal(Protocol):
    """One binary (or windowing) node, running."""

    def step(self, inputs: Sequence[Table], watermark: int) -> Table:
        """What the inputs complete; everything that ends at or before `watermark` has come."""
        ...

    def forget(self, watermark: int, wholly: bool = False) -> None:
        """Drop what nothing later than `watermark` can need. Called after steps; cheap when there is little to drop.
        `wholly`: all of it, whatever that costs."""
        ...

    def snapshot(self) -> pa.RecordBatch:
        """The state: one row of int64 lists."""
        ...

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the state of a snapshot of the same node."""
        ...

    def codes(self) -> list[Ints]:
        """The pool codes that the state holds."""
        ...

    def names(self) -> list[Ints]:
        """The identities of the occurrences that wait, for lineage."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Occurrences waiting, and the bytes they take."""
        ...


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


def from_arrow(batch: pa.RecordBatch) -> Arrays:
    """The arrays of `to_arrow`, writable."""
    arrays: Arrays = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.metadata is None:
            continue
        shape = tuple(int(n) for n in field.metadata[b"shape"].decode().split(","))
        arrays[field.name] = np.array(column.flatten()).astype(np.int64).reshape(shape)
    return arrays
