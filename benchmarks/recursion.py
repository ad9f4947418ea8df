"""Recursion of formulas: the cost of a push as more tuples hold.

The roads form chains of five. A push adds or removes one road.

    python -m benchmarks.recursion [1000 10000 100000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.streams import point_table
from benchmarks.watch import Watch

PROGRAM = """\
event add(a: int, b: int) TIME t.
event cut(a: int, b: int) TIME t.
fluent road(a: int, b: int).
fluent reach(a: int, b: int).
initiate road(A, B) <- add(A, B).
terminate road(A, B) <- cut(A, B).
reach(A, B) WHILE road(A, B).
reach(A, C) WHILE road(A, B) AND reach(B, C).
"""
CHAIN, PUSHES = 5, 30


def road(time: int, a: int, b: int) -> Any:
    return point_table(np.array([time]), {"a": np.array([a]), "b": np.array([b])})


def engine_with(roads: int) -> Any:
    from cep.engine import Engine

    engine = Engine.from_text(PROGRAM, max_derivations=100 * roads)
    number = np.arange(roads)
    start = number + number // CHAIN  # leave a gap between chains
    engine.push({"add": point_table(np.zeros(roads, np.int64), {"a": start, "b": start + 1})})
    engine.push({"add": road(1, 10 * roads, 10 * roads + 1)})
    return engine


def cost(engine: Any, roads: int, since: int, batch: Callable[[int, int], Any]) -> float:
    """Return the median CPU milliseconds of a push. Each push contains one change, and successive pushes change
    different chains."""
    watch = Watch()
    for number in range(PUSHES):
        first = (number * 7 % (roads // CHAIN)) * (CHAIN + 1)
        with watch:
            engine.push(batch(since + number, first))
    return 1000 * watch.median


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recursion", description=__doc__)
    parser.add_argument("roads", nargs="*", type=int, default=[1000, 10_000, 100_000])
    for roads in parser.parse_args().roads:
        engine = engine_with(roads)
        added = cost(engine, roads, 1000, lambda t, a: {"add": road(t, a + CHAIN, -1 - a)})
        ended = cost(engine, roads, 2000, lambda t, a: {"cut": road(t, a + 2, a + 3)})
        print(f"{3 * roads:>9,} places reached: {added:6.2f} ms a road added, {ended:6.2f} ms a road cut")


if __name__ == "__main__":
    main()
