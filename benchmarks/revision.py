"""Revision: its cost if all events are in order, and the cost of a late event for growing windows.

python -m benchmarks.revision [--keys 1000 100000] [--events 1000000]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.streams import point_table
from benchmarks.watch import Watch

PROGRAM = """\
event reading(k: int, v: float) TIME t.
fluent high(k: int).
initiate high(K) <- reading(K, V) WHERE V > 0.9.
terminate high(K) <- reading(K, V) WHERE V < 0.1.
rise(K, A, B) <- (reading(K, A) SEQ reading(K, B)) WHERE A < 0.05, B > 0.95 WITHIN 10 s.
"""
SECOND, PUSH, LATE = 1_000_000, 10_000, 20


def engine_of(window: int | None) -> Any:
    from cep.engine import Engine

    return Engine.from_text(PROGRAM) if window is None else Engine.from_text(PROGRAM, revise=window)


def readings(events: int, keys: int) -> list[Any]:
    """Return pushes of readings, a thousand per second, all at different times."""
    random = np.random.default_rng(7)
    times = np.arange(events, dtype=np.int64) * (SECOND // 1000)
    k, v = random.integers(0, keys, events), random.random(events)
    return [
        point_table(times[at : at + PUSH], {"k": k[at : at + PUSH], "v": v[at : at + PUSH]})
        for at in range(0, events, PUSH)
    ]


def run(engine: Any, pushes: list[Any]) -> float:
    """Push all rows into an engine, and return the CPU seconds."""
    watch = Watch()
    with watch:
        for table in pushes:
            engine.push({"reading": table})
    return watch.median


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.revision", description=__doc__)
    parser.add_argument("--keys", nargs="*", type=int, default=[1000, 100_000])
    parser.add_argument("--events", type=int, default=1_000_000)
    given = parser.parse_args()
    for keys in given.keys:
        pushes = readings(given.events, keys)
        window = given.events * (SECOND // 1000)  # the window covers the whole stream
        for each in (None, window):
            run(engine_of(each), pushes[:3])  # compiles
        plain, engine = run(engine_of(None), pushes), engine_of(window)
        revised = run(engine, pushes)
        watch = Watch()
        for number in range(LATE):
            time = window - (number + 1) * window // (LATE + 1) + 1
            with watch:
                engine.push(
                    {"reading": point_table(np.array([time]), {"k": np.array([number]), "v": np.array([0.95])})}
                )
        ratio = f"in order {revised / plain:.2f} times the CPU time without revision ({plain:.2f} s)"
        print(f"{keys:>7,} keys, {given.events:,} events: {ratio}, a late event {1000 * watch.median:.1f} ms")


if __name__ == "__main__":
    main()
