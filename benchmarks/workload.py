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

    Targets:

    - `rate`: events per CPU second.
    - `times`: the engine's rate as a multiple of the loop's rate.
    - `plan`: the maximum seconds for planning.
    - `flat`: True if an event must cost about the same at all sizes.
    - `half_of`: a workload whose rate must not be more than twice as high.
    - `beside`: a workload whose cost per event may be exceeded by half at most.

    Measurement:

    - `push`: the number of events per push, or None to push all at once.
    - `fill`: the number of events per key that are pushed before the measurement.
    - `options`: a function that returns the engine's options for a number of keys, such as the knowledge.
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
