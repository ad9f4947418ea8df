"""Assignment of the tasks of successive jobs to the same workers, which keep the engines that the tasks need.

Spark runs a task after a shuffle in any executor and any Python process. So each of these tasks prefers the executor
that holds its partition of a cached RDD. There it runs in a lane, a Python process of its own, because Spark separates
processes by their environment.

If that executor has no free core for a while (`spark.locality.wait`), the task goes to another executor and may share a
lane. When executors are added or lost, all lanes are new, and Spark ends the processes of the old lanes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD

if TYPE_CHECKING:
    from pyspark import SparkContext

LANE = "SEMCEP_LANE"
"""The environment variable of a worker with the numbers of its anchor and of its lane."""

Step = Callable[[int, Iterable[Any]], Iterator[Any]]
"""A function that computes the output of a task, given its number and the rows of its partition."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A cached RDD, whose partitions stay in these executors. `lanes`: the numbers of its partitions by lane.

    `number`: the number of earlier anchors.
    """

    number: int
    executors: frozenset[str]
    rows: RDD[Any]
    lanes: list[list[int]]


class Slots:
    """The tasks of a query's jobs, each in a fixed worker."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchored: _Anchor | None = None
        self._shuffles: list[int] = []

    @property
    def count(self) -> int:
        """The number of tasks, which equals the number of cores."""
        return max(1, self._context.defaultParallelism)

    def run(self, rows: RDD[Any], step: Callable[[Sequence[int]], Step]) -> RDD[Any]:
        """Run a step over the rows of each partition, after a shuffle. `step`: a function that returns the step for the
        tasks with these numbers."""
        shuffled = rows._jrdd.rdd().dependencies().head().rdd()
        self._shuffles.append(shuffled.dependencies().head().shuffleId())
        anchor = self._anchor(rows.getNumPartitions())

        def part(mine: Sequence[int]) -> RDD[Any]:
            both = self._parts(anchor.rows, mine).cartesian(self._parts(rows, mine))
            diagonal = self._parts(both, range(0, len(mine) ** 2, len(mine) + 1))
            return diagonal.mapPartitionsWithIndex(partial(_stepped, step(mine), mine))

        return self._by_lane(anchor, part)

    def nothing(self) -> RDD[Any]:
        """Return an empty RDD that runs an empty task in each process that has had a task."""
        anchor = self._anchored
        if anchor is None or anchor.executors != self._executors():
            return self._context.parallelize([], 1)
        return self._by_lane(anchor, lambda mine: self._parts(anchor.rows, mine).mapPartitions(drained))

    def _by_lane(self, anchor: _Anchor, part: Callable[[Sequence[int]], RDD[Any]]) -> RDD[Any]:
        """Run `part` for the tasks of each lane, in processes of that lane."""
        parts, env = list[RDD[Any]](), self._context.environment
        try:
            for lane, mine in enumerate(anchor.lanes):
                env[LANE] = f"{anchor.number}.{lane}"
                lane_rdd = part(mine)
                assert lane_rdd._jrdd is not None, "it has this environment"
                parts.append(lane_rdd)
        finally:
            env.pop(LANE, None)
        return self._context.union(parts)

    def clear(self) -> None:
        """Remove the data of the shuffles now, and not only when Java collects its garbage."""
        java: Any = self._context._jsc
        with suppress(Py4JError):  # Java has ended; others report this
            cleaner = java.sc().cleaner()
            for shuffle in self._shuffles if cleaner.isDefined() else ():
                cleaner.get().doCleanupShuffle(shuffle, False)
        self._shuffles = []

    def _anchor(self, width: int) -> _Anchor:
        """Return the anchor with this number of partitions. It is kept until an executor is added or lost."""
        before, executors = self._anchored, self._executors()
        if before is not None and before.executors == executors and before.rows.getNumPartitions() == width:
            return before
        if before is not None:
            before.rows.unpersist()
        anchor = self._context.parallelize(range(width), width).mapPartitions(_executor).persist()
        number = 0 if before is None else before.number + 1
        self._anchored = _Anchor(number, executors, anchor, lanes(anchor.collect()))
        return self._anchored

    def _executors(self) -> frozenset[str]:
        """Return the current executors."""
        java: Any = self._context._jsc
        return frozenset(java.sc().getExecutorMemoryStatus().keySet().mkString(",").split(","))

    def _parts(self, rows: RDD[Any], numbers: Sequence[int]) -> RDD[Any]:
        """Return some partitions of an RDD, in this order."""
        java: Any = self._context._jvm
        some = java.org.apache.spark.api.python.PythonUtils.toSeq(list(numbers)).toSet()
        pruned = java.org.apache.spark.rdd.PartitionPruningRDD.create(rows._jrdd.rdd(), some)
        return RDD(pruned.toJavaRDD(), self._context, rows._jrdd_deserializer)


def lanes(executors: Sequence[str]) -> list[list[int]]:
    """Divide tasks into as few lanes as possible. The tasks of one executor are in different lanes."""
    lanes_: list[list[int]] = []
    taken: dict[str, int] = {}
    for task, executor in enumerate(executors):
        lane = taken.get(executor, 0)
        taken[executor] = lane + 1
        if lane == len(lanes_):
            lanes_.append([])
        lanes_[lane].append(task)
    return lanes_


def _executor(_: Iterable[int]) -> list[str]:
    return [os.environ.get("SPARK_LOCAL_DIRS", "")]


def drained(rows: Iterable[Any]) -> list[Any]:
    """Read all rows and return none. A worker that has not read all rows would end."""
    for _ in rows:
        pass
    return []


def _stepped(step: Step, tasks: Sequence[int], index: int, pairs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    return step(tasks[index], (row for _, row in pairs))
