"""The start of a task in a Python worker: what lives long is kept out of the garbage collector's way.

Spark's daemon collects garbage after every task, and looks at all objects of libraries and kernels. That takes 0.1 s
and more a task, most of the time of a small micro-batch.
"""

from __future__ import annotations

import gc
from itertools import count

_EACH = 200
"""Tasks after which the collector looks at everything once."""

_tasks = count()


def freeze_garbage() -> None:
    """Called at the start of a task: what exists now has survived a collection, and the next ones skip it."""
    if next(_tasks) % _EACH:
        gc.freeze()
    else:
        gc.unfreeze()
