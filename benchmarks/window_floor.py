"""`python -m benchmarks.window_floor`: the memory cost of windows alone, as a lower bound for `window_table`.

A compiled loop over the same groups touches the memory that a window touches for each event, but computes nothing.
These are the group's state, the new row, the row before it, and the row that leaves. The table has millions of events
per second of CPU time, the best of several runs. No layout of the same size can be faster.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numba
import numpy as np

from benchmarks import streams
from benchmarks.window_table import seconds

WORDS = 16
"""The numbers in a row and in a group: 128 bytes, two cache lines."""


@numba.njit
def groups_only(slots: Any, groups: Any) -> int:
    """Add one to a number in each row's group."""
    for i in range(len(slots)):
        groups[slots[i], 0] += 1
    return int(groups[0, 0])


@numba.njit
def with_rows(slots: Any, groups: Any, store: Any, length: int) -> int:
    """Touch both cache lines of the group, a new row, the link from the row before it, and the row that is too old."""
    seen = 0
    for i in range(len(slots)):
        slot = slots[i]
        for word in range(WORDS):
            store[i, word] = i
        tail = groups[slot, 1]
        if groups[slot, 3] == 0:
            groups[slot, 2] = i
        else:
            store[tail, 2] = i
        groups[slot, 1] = i
        groups[slot, 3] += 1
        groups[slot, WORDS - 1] += i
        if groups[slot, 3] > length:
            head = groups[slot, 2]
            seen += store[head, WORDS - 1]
            groups[slot, 2] = store[head, 2]
            groups[slot, 3] -= 1
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.window_floor", description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--keys", default="1,1000,10000,100000")
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    print("| keys | group alone | with 10 rows a group |")
    print("| --: | --: | --: |")
    for keys in map(int, asked.keys.split(",")):
        stream = streams.mixed({"a": "x"}, asked.events, keys, seed=1)
        names = np.array([key for _, _, key, _ in stream.rows()["a"]])
        slots = np.unique(names, return_inverse=True)[1].astype(np.int64)
        groups, store = np.zeros((keys, WORDS), np.int64), np.zeros((asked.events, WORDS), np.int64)
        alone = partial(groups_only, slots, groups)
        rows = partial(with_rows, slots, groups, store, 10)
        cells = [f"{asked.events / seconds(asked.runs, work) / 1e6:.1f}" for work in (alone, rows)]
        print(f"| {keys:,} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
