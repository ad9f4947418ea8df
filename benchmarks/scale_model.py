"""The cost model of runs on Spark: the seconds of a core per micro-batch, from measured coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np

from benchmarks.scale_measure import (
    BatchCosts,
    BlockCosts,
    Shape,
    TaskCosts,
    cluster_costs,
    least,
    task_costs,
)

FEW, MANY = 4_000, 400_000
"""The events of a nearly empty micro-batch, and of a large one."""
TASKS = {
    "few": Shape(FEW),
    "many": Shape(MANY),
    "wide": Shape(MANY, keys=100_000),
    "ruled": Shape(MANY, rules=20),
}
PROBES = (Shape(FEW), Shape(FEW, files=16), Shape(FEW, buckets=64), Shape(FEW, files=16, buckets=64))
"""Nearly empty micro-batches, from which the fixed costs are computed."""
GRID = tuple(Shape(160_000, files=files, buckets=buckets) for files in (2, 128) for buckets in (1, 128))
"""Micro-batches with so many files and buckets that the cost of blocks becomes visible.

This cost is what many files and many buckets cost together beyond what each of them costs alone.
"""
WARMING, EACH, PASSES = 100, 10, 5
"""The number of micro-batches before the first load, of each load per pass, and the number of passes.

Before the first load, Java compiles and workers start. After 30 micro-batches, the driver still takes half as long
again as after 100. Other work on the machine may disturb a measurement for minutes. So loads take turns, and the least
time of all passes counts.
"""
LOGGED = 100
"""The number of versions of a state after which it is always written whole."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Fixed costs in seconds of a core: per micro-batch, per file (a task that reads it), per bucket (a task that steps
    it and writes), and per block."""

    batch: float
    task: float
    bucket: float
    block: float

    def of(self, shape: Shape) -> float:
        """Return the fixed cost of a micro-batch of this shape."""
        return self.batch + self.task * shape.files + self.bucket * shape.buckets + self.block * shape.blocks


@dataclass(frozen=True, slots=True)
class Costs:
    """The coefficients of the model, in seconds of a core.

    - `driver`, `workers`: fixed costs.
    - `read`, `deal`, `write`: per row.
    - `step`: per row with up to a thousand keys.
    - `spread`: additional cost per row for each power of ten above a thousand keys.
    - `rule`: additional cost per row for each further rule.
    - `hand`: per byte passed on.
    - `log`: per byte written to the log of a state.
    - `whole`: per byte of a state that is written whole.
    - `row_bytes`: the bytes of a row that is passed on.
    - `waits`: the bytes of state for an event that waits for the watermark.
    - `held`: the bytes of state for an event that waits in a goal.
    """

    driver: Fixed
    workers: Fixed
    read: float
    deal: float
    step: float
    spread: float
    rule: float
    write: float
    hand: float
    log: float
    whole: float
    row_bytes: float
    waits: float
    held: float

    def row(self, shape: Shape) -> float:
        """Return the seconds of a core per row of a micro-batch."""
        step = self.step + self.spread * log10(max(1.0, shape.keys / 1_000)) + self.rule * (shape.rules - 1)
        return self.read + self.deal + self.hand * self.row_bytes + step + self.write

    def kept(self, shape: Shape) -> float:
        """Return the bytes of the state after a micro-batch."""
        return self.waits * shape.events + self.held * shape.waiting

    def came(self, shape: Shape) -> float:
        """Return the bytes of the input of a micro-batch."""
        return self.row_bytes * shape.events

    def every(self, shape: Shape) -> int:
        """Return the number of micro-batches after which the state is written whole.

        It is written when the input since the last time is as large as the state, at the latest after LOGGED
        micro-batches.
        """
        return min(LOGGED, int(self.kept(shape) / max(1.0, self.came(shape))) + 1)

    def keeping(self, shape: Shape) -> float:
        """Return the mean seconds of a core for keeping the state."""
        every = self.every(shape)
        return (self.log * self.came(shape) * (every - 1) + self.whole * self.kept(shape)) / every

    def kept_bytes(self, shape: Shape) -> float:
        """Return the mean bytes that keeping the state writes."""
        every = self.every(shape)
        return (self.came(shape) * (every - 1) + self.kept(shape)) / every

    def of_driver(self, shape: Shape) -> float:
        return self.driver.of(shape)

    def of_workers(self, shape: Shape) -> float:
        return self.workers.of(shape) + self.row(shape) * shape.events + self.keeping(shape)


@dataclass(frozen=True, slots=True)
class Tried:
    """A load in a cluster of `workers` workers, and the measured cost of a micro-batch."""

    workers: int
    shape: Shape
    costs: BatchCosts

    @classmethod
    def read_from(cls, figures: Mapping[str, Any]) -> Tried:
        """Build the object from the figures in a file."""
        return cls(figures["workers"], Shape(**figures["shape"]), BatchCosts(**figures["costs"]))


def tried(workers: int, shapes: Sequence[Shape]) -> list[Tried]:
    """Measure micro-batches of these shapes in a warm cluster with this many workers."""
    first = Shape(FEW, 900, 2 * workers, workers)  # so that each worker has something to do
    _, *made = cluster_costs(workers, [(first, WARMING), *((shape, EACH) for shape in [*shapes] * PASSES)])
    turns = [made[start :: len(shapes)] for start in range(len(shapes))]
    return [Tried(workers, *each) for each in zip(shapes, (min(turn, key=total) for turn in turns), strict=True)]


def total(costs: BatchCosts) -> float:
    """Return the seconds of a core of all processes."""
    return costs.driver + costs.workers


def blocks_in_cluster(found: Sequence[Tried]) -> BlockCosts:
    """Return the cost of a block, from the costs of the micro-batches of `GRID`."""
    few, bucketed, filed, both = found
    count = both.shape.blocks - filed.shape.blocks - bucketed.shape.blocks + few.shape.blocks

    def each(side: str) -> float:
        took = [float(getattr(one.costs, side)) for one in (few, bucketed, filed, both)]
        return (took[3] - took[2] - took[1] + took[0]) / count

    return BlockCosts(each("driver"), each("workers"))


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements from which the coefficients are computed.

    `tasks`: tasks in one process, with few events, many events, many keys, and many rules. `block`: the cost of a block
    in a cluster with one worker. `probes`: nearly empty micro-batches in this cluster.
    """

    tasks: Mapping[str, TaskCosts]
    block: BlockCosts
    probes: Sequence[Tried]

    @classmethod
    def now(cls) -> Measured:
        """Measure this machine."""

        def once() -> dict[str, TaskCosts]:
            return {name: task_costs(shape, EACH) for name, shape in TASKS.items()}

        passes, probes, block = [once()], tried(1, PROBES), blocks_in_cluster(tried(1, GRID))
        passes += [once() for _ in range(PASSES - 1)]
        return cls({name: least([one[name] for one in passes]) for name in TASKS}, block, probes)

    @classmethod
    def read_from(cls, figures: Mapping[str, Any]) -> Measured:
        """Build the object from the figures in a file."""
        tasks = {name: TaskCosts(**one) for name, one in figures["tasks"].items()}
        return cls(tasks, BlockCosts(**figures["block"]), [Tried.read_from(one) for one in figures["probes"]])

    def costs(self) -> Costs:
        """Compute the coefficients."""
        few, many, wide, ruled = (self.tasks[name] for name in TASKS)
        rows = MANY - FEW

        def each(name: str, one: TaskCosts = many) -> float:
            return float(max(0.0, getattr(one, name) - getattr(few, name)) / rows)

        spread = max(0.0, each("step", wide) - each("step")) / 2  # from a thousand to 100 thousand keys
        row_bytes = (many.handed - few.handed) / rows
        waiting = TASKS["wide"].waiting - TASKS["many"].waiting
        parts = {
            "read": each("read"),
            "deal": each("deal"),
            "step": each("step"),
            "spread": spread,
            "rule": (ruled.step - many.step) / MANY / (TASKS["ruled"].rules - 1),
            "write": each("write"),
            "hand": each("hand") / row_bytes,
            "log": wide.log / wide.handed,
            "whole": (many.whole + wide.whole) / (many.kept + wide.kept),
            "row_bytes": row_bytes,
            "waits": (many.kept - few.kept) / rows,
            "held": (wide.kept - many.kept) / waiting,
        }
        nothing = Fixed(0, 0, 0, 0)
        bare = Costs(nothing, nothing, **parts)
        driver = {one.shape: one.costs.driver for one in self.probes}
        workers = {one.shape: one.costs.workers - bare.of_workers(one.shape) for one in self.probes}
        return Costs(_solved(driver, self.block.driver), _solved(workers, self.block.workers), **parts)


def _solved(found: Mapping[Shape, float], block: float) -> Fixed:
    """Return the fixed costs that best explain the measured times of some shapes. `block`: the cost of a block."""
    rows = np.array([[1, shape.files, shape.buckets] for shape in found], float)
    times = np.array([time - block * shape.blocks for shape, time in found.items()])
    made = np.linalg.lstsq(rows / times[:, None], np.ones(len(found)), rcond=None)[0]
    return Fixed(*np.maximum(made, 0.0).tolist(), block)
