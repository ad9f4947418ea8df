"""The cost model of runs on Spark: seconds of a core that a micro-batch takes, by coefficients that were measured."""

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
"""Events of a micro-batch of next to nothing, and of one of many."""
TASKS = {
    "few": Shape(FEW),
    "many": Shape(MANY),
    "wide": Shape(MANY, keys=100_000),
    "ruled": Shape(MANY, rules=20),
}
PROBES = (Shape(FEW), Shape(FEW, files=16), Shape(FEW, buckets=64), Shape(FEW, files=16, buckets=64))
"""Micro-batches of next to nothing, of which the fixed costs are found."""
GRID = tuple(Shape(160_000, files=files, buckets=buckets) for files in (2, 128) for buckets in (1, 128))
"""Micro-batches of so many files for so many buckets that the blocks that both make can be seen: the last but what the
others take."""
WARMING, EACH, PASSES = 100, 10, 5
"""How many micro-batches there are before the first load, in which Java compiles and workers start (after 30 the driver
still takes half as much again as after 100), and of each load in each pass. What others do on the machine only adds,
for minutes: loads take turns, and what is least of all passes counts."""
LOGGED = 100
"""Versions of a state after which it is written whole in any case."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Seconds of a core for a micro-batch, a file that is read (a task), a bucket that is stepped and writes (a task),
    and a block."""

    batch: float
    task: float
    bucket: float
    block: float

    def of(self, shape: Shape) -> float:
        """What a micro-batch of this shape takes."""
        return self.batch + self.task * shape.files + self.bucket * shape.buckets + self.block * shape.blocks


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a core. `driver` and `workers`: as above; `read`, `deal`, `write`: for a row; `step`: for a row of up
    to a thousand keys, `spread` more for each power of ten beyond; `rule`: for a row and a rule more; `hand`, `log`,
    `whole`: for a byte that is handed on, written to the log of a state, and of a state that is written whole.
    `row_bytes`: of a row that is handed on; `waits` and `held`: of a row that waits for the watermark, and of one that
    waits in a goal, in the state."""

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
        """Seconds of a core that each row takes."""
        step = self.step + self.spread * log10(max(1.0, shape.keys / 1_000)) + self.rule * (shape.rules - 1)
        return self.read + self.deal + self.hand * self.row_bytes + step + self.write

    def kept(self, shape: Shape) -> float:
        """Bytes of the state after a micro-batch."""
        return self.waits * shape.events + self.held * shape.waiting

    def came(self, shape: Shape) -> float:
        """Bytes of what comes in a micro-batch."""
        return self.row_bytes * shape.events

    def every(self, shape: Shape) -> int:
        """In one of so many micro-batches the state is written whole: when more has come since than it has bytes."""
        return min(LOGGED, int(self.kept(shape) / max(1.0, self.came(shape))) + 1)

    def keeping(self, shape: Shape) -> float:
        """Seconds of a core that keeping the state takes, on average."""
        every = self.every(shape)
        return (self.log * self.came(shape) * (every - 1) + self.whole * self.kept(shape)) / every

    def kept_bytes(self, shape: Shape) -> float:
        """Bytes that it writes, on average."""
        every = self.every(shape)
        return (self.came(shape) * (every - 1) + self.kept(shape)) / every

    def of_driver(self, shape: Shape) -> float:
        return self.driver.of(shape)

    def of_workers(self, shape: Shape) -> float:
        return self.workers.of(shape) + self.row(shape) * shape.events + self.keeping(shape)


@dataclass(frozen=True, slots=True)
class Tried:
    """A load in a cluster of so many workers, and what a micro-batch of it takes."""

    workers: int
    shape: Shape
    costs: BatchCosts

    @classmethod
    def read_from(cls, figures: Mapping[str, Any]) -> Tried:
        """As a file has it."""
        return cls(figures["workers"], Shape(**figures["shape"]), BatchCosts(**figures["costs"]))


def tried(workers: int, shapes: Sequence[Shape]) -> list[Tried]:
    """What micro-batches of these shapes take in a cluster of so many workers that has warmed up."""
    first = Shape(FEW, 900, 2 * workers, workers)  # each worker has something to do
    _, *made = cluster_costs(workers, [(first, WARMING), *((shape, EACH) for shape in [*shapes] * PASSES)])
    turns = [made[start :: len(shapes)] for start in range(len(shapes))]
    return [Tried(workers, *each) for each in zip(shapes, (min(turn, key=total) for turn in turns), strict=True)]


def total(costs: BatchCosts) -> float:
    """Seconds of a core of all processes."""
    return costs.driver + costs.workers


def blocks_in_cluster(found: Sequence[Tried]) -> BlockCosts:
    """What a block takes, of what micro-batches of `GRID` take."""
    few, bucketed, filed, both = found
    count = both.shape.blocks - filed.shape.blocks - bucketed.shape.blocks + few.shape.blocks

    def each(side: str) -> float:
        took = [float(getattr(one.costs, side)) for one in (few, bucketed, filed, both)]
        return (took[3] - took[2] - took[1] + took[0]) / count

    return BlockCosts(each("driver"), each("workers"))


@dataclass(frozen=True, slots=True)
class Measured:
    """What costs are made of: tasks of a few events, of many, of many of many keys, and by many rules, in one process;
    and in a cluster of one worker a block, and micro-batches of next to nothing."""

    tasks: Mapping[str, TaskCosts]
    block: BlockCosts
    probes: Sequence[Tried]

    @classmethod
    def now(cls) -> Measured:
        """Those of this machine."""

        def once() -> dict[str, TaskCosts]:
            return {name: task_costs(shape, EACH) for name, shape in TASKS.items()}

        passes, probes, block = [once()], tried(1, PROBES), blocks_in_cluster(tried(1, GRID))
        passes += [once() for _ in range(PASSES - 1)]
        return cls({name: least([one[name] for one in passes]) for name in TASKS}, block, probes)

    @classmethod
    def read_from(cls, figures: Mapping[str, Any]) -> Measured:
        """As a file has them."""
        tasks = {name: TaskCosts(**one) for name, one in figures["tasks"].items()}
        return cls(tasks, BlockCosts(**figures["block"]), [Tried.read_from(one) for one in figures["probes"]])

    def costs(self) -> Costs:
        """The coefficients."""
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
    """The fixed costs of which micro-batches of these shapes take these times, where a block takes so much."""
    rows = np.array([[1, shape.files, shape.buckets] for shape in found], float)
    times = np.array([time - block * shape.blocks for shape, time in found.items()])
    made = np.linalg.lstsq(rows / times[:, None], np.ones(len(found)), rcond=None)[0]
    return Fixed(*np.maximum(made, 0.0).tolist(), block)
