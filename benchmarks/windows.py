"""Windows of every form, values in their order and by their times; a percentile against the length of its window."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import streams
from benchmarks.workload import K, M, Size, Workload

DECLARED = "event a(id: int, x: int) TIME t.\n"

ONE: tuple[Size, ...] = ((M, 1),)
HUNDRED: tuple[Size, ...] = ((20 * K, 100), (2 * M, 100))

FORMS = ("EACH 10 s", "SESSION 100 ms", "LAST 10 s EVERY 5 s")
BY_TIME = ("slope(X)", "rate(X)", "ewma(X, 5 s)")
LENGTHS = (10, 100, K, 10 * K, 100 * K)


def rule(function: str, window: str) -> Callable[[int], str]:
    """An aggregate for each id."""
    return lambda keys: f"{DECLARED}e(I, V) <- a(I, X) AGGREGATE V = {function} OVER {window} BY I.\n"


def readings(events: int, keys: int) -> streams.Stream:
    """Values of ids, a thousand a second."""
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
    *(workload(f"percentile of {n:,}", "percentile(X, 95)", f"LAST {n} EVENTS", M, ONE) for n in LENGTHS),
)
