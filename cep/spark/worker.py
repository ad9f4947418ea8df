"""Preparation of tasks in a Python worker: long-lived objects are excluded from garbage collection.

Spark's daemon collects garbage after every task, and would examine all objects of libraries and kernels. That takes at
least 0.1 s per task, which is most of the time of a small micro-batch.
"""

from __future__ import annotations

import gc
from itertools import count

_EACH = 200
"""The number of tasks after which the garbage collector examines all objects once."""

_tasks = count()


def freeze_garbage() -> None:
    """Exclude all objects that exist now from garbage collection. A worker must call this function at the start of each
    task."""
    if next(_tasks) % _EACH:
        gc.freeze()
    else:
        gc.unfreeze()
