"""Revision in order: the cost of `revise` if no event is late, and the size of its state.

The state is measured for a stream, and for a stream that is ten times as long.

    python -m benchmarks.revision_in_order [--keys 1000 100000] [--events 1000000]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np

from benchmarks.revision import PUSH, SECOND, engine_of, run
from benchmarks.streams import point_table

RUNS = 5


def pushes_of(events: int, keys: int, kind: str) -> list[Any]:
    """Return pushes of readings, a thousand per second.

    The `kind` of the times:

    - `apart`: all times differ.
    - `cut`: times are whole seconds, and a push may begin in the middle of the rows of a second.
    - `mixed`: one row in a hundred of a push swaps places with another row.
    """
    random = np.random.default_rng(7)
    times = np.arange(events, dtype=np.int64) * (SECOND // 1000)
    k, v = random.integers(0, keys, events), random.random(events)
    cuts = list(range(0, events, PUSH))
    if kind == "cut":
        times = times // SECOND * SECOND
        cuts = [0, *range(PUSH // 20, events, PUSH)]
    made = []
    for first, last in zip(cuts, [*cuts[1:], events]):
        order = np.arange(first, last)
        if kind == "mixed":
            some = random.choice(last - first, (last - first) // 100, replace=False)
            order[some] = order[random.permutation(some)]
        made.append(point_table(times[order], {"k": k[order], "v": v[order]}))
    return made


def most_held(pushes: list[Any], window: int) -> tuple[int, int]:
    """Return the maximum number of rows and bytes that an engine holds."""
    engine, sizes = engine_of(window), []
    for table in pushes:
        engine.push({"reading": table})
        sizes.append((engine.state_rows, engine.state_bytes))
    return max(rows for rows, _ in sizes), max(size for _, size in sizes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.revision_in_order", description=__doc__)
    parser.add_argument("--keys", nargs="*", type=int, default=[1000, 100_000])
    parser.add_argument("--events", type=int, default=1_000_000)
    given = parser.parse_args()
    window = given.events * (SECOND // 1000) // 4
    for keys in given.keys:
        for kind in ("apart", "mixed", "cut"):
            pushes = pushes_of(given.events, keys, kind)
            run(engine_of(None), pushes), run(engine_of(window), pushes)  # compile, and reserve memory
            pairs = [(run(engine_of(None), pushes), run(engine_of(window), pushes)) for _ in range(RUNS)]
            plain, revised = (statistics.median(times) for times in zip(*pairs))
            ratio = statistics.median(b / a for a, b in pairs)
            print(
                f"{keys:>7,} keys, {kind}: {plain:.2f} s, with revision {revised:.2f} s, {ratio:.2f} times", flush=True
            )
        if 100 * keys > given.events:  # then a tenth of the stream does not contain all keys
            continue
        pushes = pushes_of(given.events, keys, "apart")
        for some in (pushes[: len(pushes) // 10], pushes):
            held, size = most_held(some, window // 10)
            print(f"{keys:>7,} keys, {len(some) * PUSH:,} events: {held:,} rows held, {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
