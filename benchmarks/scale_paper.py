"""The cost model on paper: the limits of large clusters, and the needs of a given number of events per day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from benchmarks.scale_measure import Shape
from benchmarks.scale_model import Costs

CORES = 8
"""The number of cores of a machine."""
BUSY = 0.7
"""The maximum share of time for which cores and driver may work, so that a run can catch up."""
EVERY = (10.0, 60.0)
"""Seconds between micro-batches."""
SHARED, STORE = 1e9, 1e8
"""Bytes per second of a folder that all machines mount, and of each machine with an object store."""
MEMORY = 16e9
"""Bytes of memory per machine for the state. Python needs twice the size of the stored state."""
WITHIN = 600.0
"""The WITHIN of the program in seconds. Half of the events wait in the state for this time."""
MACHINES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
DAY, PEAK = 86_400, 3
"""The seconds of a day, and the ratio of its peak rate to the average."""
DAILY = (10**7, 10**8, 10**9, 10**10, 10**11, 10**12)
FEWEST = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of cores to choose from. A key group runs on one core, so more than 1,024 cores would be idle."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A cluster of `cores` cores, each with one bucket and one file per micro-batch, every `every` seconds.

    The program is a SEQ by key. Each key has four events in `WITHIN`, whatever the rate.
    """

    costs: Costs
    cores: int
    every: float

    @property
    def used(self) -> int:
        """The number of cores that are used."""
        return min(self.cores, FEWEST[-1])

    def shape(self, rate: float) -> Shape:
        """Return the shape of the micro-batches at this rate."""
        return Shape(int(rate * self.every), max(10, int(rate * WITHIN / 4)), self.used, self.used)

    def state(self, rate: float) -> float:
        """Return the bytes of the state."""
        return self.costs.kept(self.shape(rate))

    def driver(self) -> float:
        """Return the driver's seconds of a core per micro-batch. They do not depend on the rate. Workers wait for the
        driver."""
        return self.costs.of_driver(self.shape(1.0))

    def busy(self, rate: float) -> float:
        """Return the seconds of a micro-batch at this rate."""
        shape = self.shape(rate)
        rows = self.costs.row(shape) * shape.events + self.costs.keeping(shape)
        return self.driver() + (self.costs.workers.of(shape) + rows) / self.used

    def by_cores(self) -> float:
        """Return the events per second that the cores can process."""
        low, high = 0.0, 1e13
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.busy(middle) <= BUSY * self.every else (low, middle)
        return low

    def by_bytes(self, most: float) -> float:
        """Return the events per second for which `most` bytes per second suffice.

        The bytes of rows that are passed on count twice, because they are written and read. Writing the state is added.
        """
        return most / (2 * self.costs.row_bytes + self.costs.kept_bytes(self.shape(1e6)) / self.every / 1e6)

    def limits(self) -> dict[str, float]:
        """Return the maximum events per second, by the reason for the limit."""
        machines = self.cores / CORES
        return {
            "cores and driver": self.by_cores(),
            "one shared folder, 1 GB/s": self.by_bytes(SHARED),
            "an object store, 100 MB/s a machine": self.by_bytes(STORE * machines),
            "memory for the state, 16 GB a machine": 1e6 * MEMORY * machines / (2 * self.state(1e6)),
        }


def on_paper(costs: Costs) -> Iterator[str]:
    """Yield a table of the limits, by the number of machines and the time between micro-batches."""
    heads = "by cores | by a folder of 1 GB/s | by an object store | by memory"
    yield f"| machines | every | driver is busy | events/s {heads} |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for every in EVERY:
        for machines in (1, 10, 100, 1000):
            one = Paper(costs, machines * CORES, every)
            each = " | ".join(short(rate) for rate in one.limits().values())
            yield f"| {machines:,} | {every:.0f} s | {one.driver() / every:.1%} | {each} |"


def by_the_day(costs: Costs) -> Iterator[str]:
    """Yield a table of the resources for events per day at their peak, with the shortest time between micro-batches."""
    heads = "state | cores | machines by memory | read and written, MB/s"
    yield f"| events per day | per second at the peak | keys | {heads} |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for daily in DAILY:
        rate = PEAK * daily / DAY
        cores = next((cores for cores in FEWEST if Paper(costs, cores, EVERY[0]).by_cores() >= rate), None)
        one = Paper(costs, cores or FEWEST[-1], EVERY[0])
        volume, state = 1e-6 * SHARED * rate / one.by_bytes(SHARED), one.state(rate)
        need = f"over {FEWEST[-1]:,}" if cores is None else f"{cores:,}"
        row = f"{short(rate)} | {short(rate * WITHIN / 4)} | {short(state)}B | {need}"
        yield f"| {daily:,} | {row} | {ceil(2 * state / MEMORY):,} | {volume:,.0f} |"


def short(value: float) -> str:
    """Write a number briefly: `950`, `12 k`, `3.4 M`, `1.2 G`, `3 T`."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            found = value / size
            return f"{found:.1f} {name}" if found < 10 else f"{found:,.0f} {name}"
    return f"{value:,.0f}"
