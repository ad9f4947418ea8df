"""Garbage in workers: Spark's daemon collects it after every task, looking at all objects of libraries and kernels.

That takes 0.1 s and more a task, which is most of the time of a small micro-batch.
"""

from __future__ import annotations

import gc
from itertools import count

_EACH = 200
"""Tasks after which the collector sees everything once."""

_tasks = count()


def freeze_garbage() -> None:
    """At the start of a task: what is there now has survived a collection, and the next ones pass it over."""
    if next(_tasks) % _EACH:
        gc.freeze()
    else:
        gc.unfreeze()
