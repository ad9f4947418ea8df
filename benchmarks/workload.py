"""What a workload is: a program, its stream, the Python loop beside it, and what is to be reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.baselines import Baseline
from benchmarks.streams import Stream

K, M = 1_000, 1_000_000

Size = tuple[int, int]
"""How many events and how many keys."""

usual: tuple[Size, ...] = ((20 * K, 100), (2 * M, 100), (2 * M, 100 * K))


@dataclass(frozen=True, slots=True)
class Workload:
    """One job for the engine and for a Python loop. Program, stream and loop are made for a number of keys.

    To be reached: `rate`, in events a CPU second; `times` as much as the loop does; the program planned in `plan`
    seconds; the cost an event `flat` over the sizes; half the rate of the workload `half_of`; at most one and a half
    times the cost of the workload `beside`. A push brings `push` events (all at once without). Before the clock starts,
    `fill` events a key have gone in. `options` of the engine, for a number of keys, are made beforehand: its knowledge.
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
