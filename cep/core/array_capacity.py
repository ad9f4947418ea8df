"""The capacity of growing arrays. They are allocated larger than needed, so they rarely have to grow.

The checked run (`make checked`) compiles kernels with bounds checks and gives small arrays no spare capacity. An access
to a row that was not reserved is then out of bounds. Some kernels stop when an array is full, so that the caller can
enlarge it; in the checked run, they stop as often as possible.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"

# The factor by which kernels allocate more rows than they need. It is a constant in their compiled code.
SPARE = 0 if CHECKED else 2


MANY = 4_000
"""The number of rows from which on arrays get spare capacity (an eighth) even in the checked run."""


def roomy(needed: int, likely: int) -> int:
    """Return the number of rows to allocate for an array. `needed`: the number that it must hold now.

    `likely`: the number of rows that it will probably hold later.
    """
    if CHECKED:
        likely = 0 if needed < MANY else min(likely, needed + needed // 8)
    return max(needed, likely)


def filled_room(array: NDArray[np.int64], needed: int, fill: int) -> NDArray[np.int64]:
    """Return the array if it has room for `needed` rows, otherwise a larger copy, whose new rows contain `fill`."""
    if needed <= len(array):
        return array
    shape = (roomy(needed, 2 * len(array)), array.shape[1])
    larger = np.full(shape, fill, np.int64) if fill else np.zeros(shape, np.int64)  # zeros need no memory yet
    larger[: len(array)] = array
    return larger
