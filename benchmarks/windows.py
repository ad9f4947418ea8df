"""`python -m benchmarks.windows`: windows of every form, aggregates by order or time, percentiles over growing windows.

They are also lines of `python -m benchmarks`: millions of events per second of CPU time, each in its own process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import streams
from benchmarks.measure import measure
from benchmarks.workload import K, M, Size, Workload

DECLARED = "event a(id: int, x: int) TIME t.\n"

ONE: tuple[Size, ...] = ((M, 1),)
HUNDRED: tuple[Size, ...] = ((20 * K, 100), (2 * M, 100))
MANY: tuple[Size, ...] = ((2 * M, 10 * K),)

FORMS = ("EACH 10 s", "SESSION 100 ms", "LAST 10 s EVERY 5 s")
BY_TIME = ("slope(X)", "rate(X)", "ewma(X, 5 s)")
LENGTHS = (10, 100, K, 10 * K, 100 * K)


def rule(function: str, window: str) -> Callable[[int], str]:
    """Return a function from the number of keys to a program, which computes one aggregate per id."""
    return lambda keys: f"{DECLARED}e(I, V) <- a(I, X) AGGREGATE V = {function} OVER {window} BY I.\n"


def readings(events: int, keys: int) -> streams.Stream:
    """Return a stream of values, each with a random id, a thousand per second."""
    return streams.mixed({"a": "x"}, events, keys, seed=1)


def workload(name: str, function: str, window: str, rate: float, sizes: tuple[Size, ...]) -> Workload:
    return Workload(
        name, rule(function, window), readings, rate=rate, times=None, flat=False, sizes=sizes, push=100 * K
    )


listed: tuple[Workload, ...] = (
    *(workload(f"avg, {form.lower()}", "avg(X)", form, 2 * M, HUNDRED) for form in FORMS),
    *(workload(f"{each}, last 10 s", each, "LAST 10 s", 2 * M, HUNDRED) for each in BY_TIME),
    *(workload(f"percentile, {form.lower()}", "percentile(X, 95)", form, M, HUNDRED) for form in (*FORMS, "LAST 10 s")),
    workload("mode, last 10 s", "mode(X)", "LAST 10 s", M, HUNDRED),
    *(workload(f"{each}, last 10 s, 10,000 keys", each, "LAST 10 s", 2 * M, MANY) for each in BY_TIME[1:]),
    workload("percentile of 10, 10,000 keys", "percentile(X, 95)", "LAST 10 EVENTS", M, MANY),
    *(workload(f"percentile of {n:,}", "percentile(X, 95)", f"LAST {n} EVENTS", M, ONE) for n in LENGTHS),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__)
    parser.add_argument("--events", type=int, default=M, help="how many at most")
    parser.add_argument("--only", metavar="WORD", default="", help="workloads whose name holds this")
    asked = parser.parse_args()
    print("| window | keys | million events a CPU second | to reach |\n|---|--:|--:|--:|")
    for one in listed:
        events, keys = one.sizes[-1]
        if asked.only in one.name:
            events = min(events, asked.events)
            rate = events / measure(one.name, events, keys, "engine").seconds
            print(f"| {one.name} | {keys:,} | {rate / M:.1f} | {(one.rate or 0) / M:g} |", flush=True)


if __name__ == "__main__":
    main()
