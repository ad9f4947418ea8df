"""`python -m benchmarks.curve`: what a stream of so many events a day needs, by the costs of a micro-batch.

A model, no measurement: a micro-batch of n events, by so many cores, takes

    fixed + (event * n + byte * state) / cores

seconds. `fixed` is what Spark does once, `event` and `byte` are core seconds for an event and for a byte of state that
is written anew. `--measure` finds the three by `benchmarks.spark`, on two cores. Each micro-batch writes the whole
state: what that is a second the disk of the checkpoint has to take, and the network to it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

DAY = 86_400
PEAK = 3
"""The busiest time of a day has so many times the events of its average; cores are for that time."""
BUSY = 0.7
"""Micro-batches take at most so much of the time: a run that has fallen behind is to catch up."""
CORES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MINUTE = 60.0
DAILY = (10**6, 10**7, 10**8, 10**9, 10**10)


@dataclass(frozen=True, slots=True)
class Costs:
    """`fixed` in seconds, `event` and `byte` in core seconds."""

    fixed: float
    event: float
    byte: float

    def interval(self, rate: float, cores: int, state: float) -> float:
        """The shortest time between two micro-batches in which `cores` keep up with `rate` events a second."""
        spare = BUSY - self.event * rate / cores
        return (self.fixed + self.byte * state / cores) / spare if spare > 0 else inf

    def written(self, rate: float, cores: int, state: float, every: float = 0.0) -> float:
        """Bytes of state that are written a second, where micro-batches are `every` seconds apart, or as short as they
        can be."""
        return state / max(every, self.interval(rate, cores, state))

    def cores(self, rate: float, state: float, longest: float) -> int | None:
        """The fewest cores whose micro-batches are no longer apart than `longest` seconds."""
        return next((cores for cores in CORES if self.interval(rate, cores, state) <= longest), None)


MEASURED = Costs(fixed=0.57, event=0.82e-6, byte=1.0e-8)
"""Of a SEQ by key on an idle two-core virtual machine: 0.61 s for a micro-batch of 100 thousand events, 0.77 s for one
of 500 thousand. A byte of state costs the engine 3 ns; that Spark needs twice as much again is an assumption."""


def measure() -> Costs:
    """The costs of this machine: micro-batches of 50 and 500 thousand events, of a thousand and 100 thousand keys."""
    from benchmarks.spark import Load, measured, seq
    from cep.spark.driver.session import session

    spark = session("local[2]", {"spark.driver.memory": "4g", "spark.driver.host": "127.0.0.1"})
    times = []
    for events, keys in ((50_000, 1_000), (500_000, 1_000), (500_000, 100_000)):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "in"
            place.mkdir()
            load = Load(events, 8, keys)
            load.write(place)
            times.append(measured(seq, spark, load, place).median / 1000)
    small, large, wide = times
    event = 2 * (large - small) / 450_000
    rows = 2 * (100_000 - 1_000)  # of `a` in a WITHIN of four events a key
    return Costs(max(0.0, small - event * 50_000 / 2), event, max(0.0, 2 * (wide - large) / (rows * STATE)))


STATE = 94
"""Bytes that an event takes that waits (`benchmarks.sizing`)."""


def lines(costs: Costs, within: float, longest: float) -> Iterator[str]:
    """What days of so many events need, when half of them wait for `within` seconds."""
    yield (
        "| events a day | at the peak, a second | state | cores | micro-batch every | written, MB/s "
        "| with `--every 1min` | core hours a day |"
    )
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|"
    for daily in DAILY:
        rate = PEAK * daily / DAY
        state = rate / 2 * within * STATE
        cores = costs.cores(rate, state, longest)
        size = f"{state / 1e6:,.0f} MB" if state < 1e9 else f"{state / 1e9:,.1f} GB"
        if cores is None:
            yield f"| {daily:,} | {rate:,.0f} | {size} | over {CORES[-1]} | | | | |"
        else:
            every = costs.interval(rate, cores, state)
            shortest, longer = (costs.written(rate, cores, state, each) / 1e6 for each in (0.0, MINUTE))
            row = f"{every:.1f} s | {shortest:,.0f} | {longer:,.0f} | {24 * cores:,}"
            yield f"| {daily:,} | {rate:,.0f} | {size} | {cores} | {row} |"


def draw(costs: Costs, within: float, file: Path) -> None:
    """How far micro-batches are apart, by events a day, a line for each number of cores."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for number, cores in enumerate((2, 8, 32, 128)):
        steps = [10 ** (5 + 0.02 * step) for step in range(251)]
        found = []
        for daily in steps:
            rate = PEAK * daily / DAY
            found.append((daily, costs.interval(rate, cores, rate / 2 * within * STATE)))
        there = [(daily, every) for daily, every in found if every < 30]
        colour = f"C{number}"
        axes.plot(*zip(*there), color=colour, linewidth=2)
        axes.annotate(
            f"{cores} cores", there[-1], (5, 0), textcoords="offset points", color=colour, annotation_clip=False
        )
    axes.axvline(1e9, color="grey", linewidth=1, linestyle=":")
    axes.annotate("a billion", (1e9, 0.3), (4, 0), textcoords="offset points", color="grey", rotation=90)
    axes.set(xscale="log", yscale="log", xlim=(1e5, 10**10), ylim=(0.25, 30))
    axes.set_xlabel(f"events a day, {PEAK} times as many a second at the peak")
    axes.set_ylabel("seconds between micro-batches")
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curve", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="the costs of this machine instead of those kept here")
    parser.add_argument("--within", type=float, default=600, help="seconds that half of the events wait")
    parser.add_argument("--longest", type=float, default=10, help="seconds between micro-batches, at most")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    asked = parser.parse_args()
    costs = measure() if asked.measure else MEASURED
    print(f"{costs.fixed:.2f} s a micro-batch, {costs.event * 1e6:.2f} us an event, {costs.byte * 1e9:.1f} ns a byte")
    for line in lines(costs, asked.within, asked.longest):
        print(line)
    if asked.picture:
        draw(costs, asked.within, asked.picture)


if __name__ == "__main__":
    main()
