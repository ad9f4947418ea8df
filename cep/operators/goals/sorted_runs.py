"""Sorted runs: a growing table that is divided into a few sorted parts. Each part is at least twice as long as the
next.

So a row is copied only a logarithmic number of times while the table grows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import Table
from cep.operators.goals.contract import Ints


def put(runs: list[Table], table: Table, key: int) -> None:
    """Add a table to `runs`, in place. Each run is sorted by its row `key`."""
    if not table.shape[1]:
        return
    runs.append(_sorted(table, key))
    while len(runs) > 1 and runs[-2].shape[1] < 2 * runs[-1].shape[1]:
        last, before = runs.pop(), runs.pop()
        runs.append(_sorted(np.concatenate([before, last], axis=1), key))


def found(run: Table, values: Ints, key: int) -> tuple[Ints, Ints]:
    """Find `values` in the sorted row `key` of a run.

    Return the pairs (index into `values`, position in the run) of equal values.
    """
    first = np.searchsorted(run[key], values, "left")
    counts = np.searchsorted(run[key], values, "right") - first
    index = np.repeat(np.arange(len(values)), counts)
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return index, places


def holds(sorted: Ints, values: Ints) -> NDArray[np.bool_]:
    """Return a mask of the elements of `values` that a sorted array contains."""
    if not len(sorted):
        return np.zeros(len(values), np.bool_)
    places = np.searchsorted(sorted, values)
    present: NDArray[np.bool_] = sorted[np.minimum(places, len(sorted) - 1)] == values
    return present


def _sorted(table: Table, key: int) -> Table:
    column = table[key]
    if bool((column[1:] >= column[:-1]).all()):
        return table
    return np.ascontiguousarray(table[:, np.argsort(column, kind="stable")])
