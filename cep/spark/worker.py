"""Preparation of tasks in a Python worker: values are unpickled once, and not examined by the garbage collector.

Spark's daemon collects garbage after every task, and would examine all objects of libraries and kernels. That takes at
least 0.1 s per task, which is most of the time of a small micro-batch.
"""

from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Generic, TypeVar

from cep.core import checksum

T = TypeVar("T")

_EACH = 200
"""The number of tasks after which the garbage collector examines all objects once."""

_tasks = count()


def freeze_garbage() -> None:
    """Exclude all objects that exist now from garbage collection. A worker must call this at the start of each task."""
    if next(_tasks) % _EACH:
        gc.freeze()
    else:
        gc.unfreeze()


@dataclass(frozen=True, slots=True)
class Packed(Generic[T]):
    """A pickled value. `name`: a hash of its content."""

    name: bytes
    data: bytes

    @classmethod
    def of(cls, value: T) -> Packed[T]:
        data = pickle.dumps(value)
        return cls(checksum.digest(data), data)

    def open(self) -> T:
        """Return the value. Each worker unpickles it only once."""
        value: T = _unpickled(self)
        return value


@lru_cache(maxsize=4)
def _unpickled(packed: Packed[Any]) -> Any:
    return pickle.loads(packed.data)
