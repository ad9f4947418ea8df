"""`python -m benchmarks.window_table`: every aggregate over every form of window, for several numbers of keys.

A cell has millions of events per second of CPU time, the best of several runs. The number in brackets is the ratio of
its time to that of a Python loop that adds up the same events by key. The loop runs before each cell, so that other
work on the machine affects both.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from time import process_time
from typing import Any

from benchmarks import streams
from benchmarks.windows import rule

FUNCTIONS = (
    "count()", "count(distinct X)", "sum(X)", "avg(X)", "min(X)", "max(X)", "stddev(X)", "first(X)", "last(X)",
    "median(X)", "percentile(X, 95)", "mode(X)", "slope(X)", "rate(X)", "ewma(X, 5 s)",
)  # fmt: skip
FORMS = ("EACH 10 s", "SESSION 100 ms", "LAST 10 s EVERY 5 s", "LAST 10 s", "LAST 10 EVENTS", "LAST 1000 EVENTS")
PUSH = 100_000


def run(program: str, batches: list[streams.Batch]) -> None:
    from cep.engine import Engine

    engine = Engine.from_text(program)
    for batch in batches:
        engine.push(batch)
    engine.close()


def add_up(rows: list[streams.Row]) -> None:
    sums: dict[Any, int] = {}
    for _, _, key, value in rows:
        sums[key] = sums.get(key, 0) + value


def seconds(runs: int, work: Callable[[], None]) -> float:
    """Return the CPU seconds of the fastest run."""
    taken = []
    for _ in range(runs):
        gc.collect()
        began = process_time()
        work()
        taken.append(process_time() - began)
    return min(taken)


def cell(program: str, batches: list[streams.Batch], rows: list[streams.Row], runs: int) -> str:
    """Return millions of events per second, and the ratio to the loop's time."""
    loop = seconds(runs, lambda: add_up(rows))
    taken = seconds(runs, lambda: run(program, batches))
    return f"{len(rows) / taken / 1e6:.1f} ({taken / loop:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.window_table", description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--keys", default="1,1000,10000")
    parser.add_argument("--only", default="", help="functions that hold one of these words, by comma")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print("| function | keys |", " | ".join(f"`{form}`" for form in FORMS), "|")
    print("| --- | --:", *("| --:" for _ in FORMS), "|")
    for keys in map(int, asked.keys.split(",")):
        stream = streams.mixed({"a": "x"}, asked.events, keys, seed=1)
        batches, rows = list(stream.batches(PUSH)), stream.rows()["a"]
        gc.collect()
        gc.freeze()
        for function in FUNCTIONS:
            if not any(word in function for word in asked.only.split(",")):
                continue
            cells = [cell(rule(function, form)(keys), batches, rows, asked.runs) for form in FORMS]
            print(f"| {function} | {keys:,} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
