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

from cep.core.errors import CepError
from cep.core.relation import Table

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
        """Take on the state of a snapshot of the same node. CepError: it cannot be one; whatever is taken on, no kernel
        reads or writes beside it."""
        ...

    def codes(self) -> list[Ints]:
        """The pool codes that the state holds, and perhaps numbers that are none."""
        ...

    def coded(self) -> list[Ints]:
        """Those of them that are pool codes for certain."""
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
    """That a state is none, or not what was written."""
    return CepError(
        "this is no snapshot, or a damaged one", hint="bring it back from a copy, or begin anew", code=DAMAGED
    )
