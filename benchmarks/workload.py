"""The definition of a workload: a program, its stream, the Python loop to compare with, and targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.baselines import Baseline
from benchmarks.streams import Stream

K, M = 1_000, 1_000_000

Size = tuple[int, int]
"""The number of events and the number of keys."""

usual: tuple[Size, ...] = ((20 * K, 100), (2 * M, 100), (2 * M, 100 * K))


@dataclass(frozen=True, slots=True)
class Workload:
    """A job for the engine and for a Python loop. Program, stream and loop depend on the number of keys.

    Targets: `rate` events per CPU second; `times` the rate of the loop; planning within `plan` seconds; a `flat` cost
    per event over the sizes; half the rate of the workload `half_of`; at most 1.5 times the cost of the workload
    `beside`.

    `push`: events per push; None: all at once. `fill`: events per key that are pushed before the measurement.
    `options`: the engine's options for a number of keys, such as its knowledge, built before the measurement.
    """

    name: str
    program: Callable[[int], str]
    stream: Callable[[int, int], Stream]
    loop: Callable[[int], Baseline] | None = None
    rate: float | None = None
    times: float | None = 5.0
    plan: float | None = None
    flat: bool = True
    half_of: str | None = None
    beside: str | None = None
    options: Callable[[int], dict[str, Any]] | None = None
    sizes: tuple[Size, ...] = usual
    push: int | None = None
    fill: int = 0
