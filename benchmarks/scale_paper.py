"""The cost model on paper: what limits clusters that nobody has here, and what a day of so many events needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from benchmarks.scale_measure import Shape
from benchmarks.scale_model import Costs

CORES = 8
"""Of a machine."""
BUSY = 0.7
"""Part of the time that cores and driver work at most, so that a run can catch up."""
EVERY = (10.0, 60.0)
"""Seconds between micro-batches."""
SHARED, STORE = 1e9, 1e8
"""Bytes a second of a folder that all machines mount, and that each machine reads and writes in an object store."""
MEMORY = 16e9
"""Bytes of a machine for the state, of which Python holds twice what is kept."""
WITHIN = 600.0
"""Seconds that half of the events wait."""
MACHINES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
DAY, PEAK = 86_400, 3
"""Seconds of a day; its busiest time has so many times the events of its average."""
DAILY = (10**7, 10**8, 10**9, 10**10, 10**11, 10**12)
FEWEST = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of cores to choose from: a key group goes to one, so more than 1,024 have nothing to do."""


@dataclass(frozen=True, slots=True)
class Paper:
    """So many cores, each with a bucket and a file in a micro-batch, which come `every` so many seconds; a SEQ by key,
    and keys of which each has four events in `WITHIN`, whatever the rate."""

    costs: Costs
    cores: int
    every: float

    @property
    def used(self) -> int:
        """Cores that have something to do."""
        return min(self.cores, FEWEST[-1])

    def shape(self, rate: float) -> Shape:
        """The micro-batch of so many events a second: `Shape.waiting` events wait, half of those of `WITHIN`."""
        return Shape(int(rate * self.every), max(10, int(rate * WITHIN / 4)), self.used, self.used)

    def state(self, rate: float) -> float:
        """Bytes of the state."""
        return self.costs.kept(self.shape(rate))

    def driver(self) -> float:
        """Seconds of a core that the driver takes for a micro-batch, at any rate; workers wait for it."""
        return self.costs.of_driver(self.shape(1.0))

    def busy(self, rate: float) -> float:
        """Seconds that a micro-batch takes at so many events a second."""
        shape = self.shape(rate)
        rows = self.costs.row(shape) * shape.events + self.costs.keeping(shape)
        return self.driver() + (self.costs.workers.of(shape) + rows) / self.used

    def by_cores(self) -> float:
        """Events a second that the cores take."""
        low, high = 0.0, 1e13
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.busy(middle) <= BUSY * self.every else (low, middle)
        return low

    def by_bytes(self, most: float) -> float:
        """Events a second for which so many bytes a second are enough: rows that are handed on, out and in again, and
        what is kept."""
        return most / (2 * self.costs.row_bytes + self.costs.kept_bytes(self.shape(1e6)) / self.every / 1e6)

    def limits(self) -> dict[str, float]:
        """Events a second, by what sets the limit."""
        machines = self.cores / CORES
        return {
            "cores and driver": self.by_cores(),
            "one shared folder, 1 GB/s": self.by_bytes(SHARED),
            "an object store, 100 MB/s a machine": self.by_bytes(STORE * machines),
            "memory for the state, 16 GB a machine": 1e6 * MEMORY * machines / (2 * self.state(1e6)),
        }


def on_paper(costs: Costs) -> Iterator[str]:
    """A table: what saturates first, by the number of machines and the time between micro-batches."""
    heads = "by cores | by a folder of 1 GB/s | by an object store | by memory"
    yield f"| machines | every | the driver's part | events/s {heads} |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for every in EVERY:
        for machines in (1, 10, 100, 1000):
            one = Paper(costs, machines * CORES, every)
            each = " | ".join(short(rate) for rate in one.limits().values())
            yield f"| {machines:,} | {every:.0f} s | {one.driver() / every:.1%} | {each} |"


def by_the_day(costs: Costs) -> Iterator[str]:
    """A table: what days of so many events need at their peak."""
    heads = "state | every | cores | machines by memory | read and written, MB/s"
    yield f"| events a day | at the peak, a second | keys | {heads} |"
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|"
    for daily in DAILY:
        rate = PEAK * daily / DAY
        for every in EVERY:
            cores = next((cores for cores in FEWEST if Paper(costs, cores, every).by_cores() >= rate), None)
            one = Paper(costs, cores or FEWEST[-1], every)
            volume, state = 1e-6 * SHARED * rate / one.by_bytes(SHARED), one.state(rate)
            need = f"over {FEWEST[-1]:,}" if cores is None else f"{cores:,}"
            row = f"{short(rate)} | {short(rate * WITHIN / 4)} | {short(state)}B | {every:.0f} s | {need}"
            yield f"| {daily:,} | {row} | {ceil(2 * state / MEMORY):,} | {volume:,.0f} |"


def short(value: float) -> str:
    """`950`, `12 k`, `3.4 M`, `1.2 G`, `3 T`."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            found = value / size
            return f"{found:.1f} {name}" if found < 10 else f"{found:,.0f} {name}"
    return f"{value:,.0f}"
