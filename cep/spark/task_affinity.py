"""Assignment of tasks to workers. Tasks of successive jobs run in the workers that keep the engines they need.

After a shuffle, Spark would run a task in any executor and any Python process. To prevent this, each of these tasks
prefers the executor that holds the task's partition of a cached RDD, which is called the anchor. Within this executor,
the task runs in its own Python process, which is called its lane. Spark separates such processes by environment
variables.

If the executor has no free core for a while (`spark.locality.wait`), the task runs in another executor, and may share a
lane with another task. When executors are added or lost, all lanes are created anew, and Spark ends the processes of
the old lanes.
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
"""The environment variable that contains the numbers of a worker's anchor and lane."""

Step = Callable[[int, Iterable[Any]], Iterator[Any]]
"""A function that takes the number of a task and the rows of the task's partition. It yields the task's output."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A cached RDD, whose partitions stay in their executors.

    - `number`: the number of anchors that were created before this one.
    - `executors`: all executors when the anchor was created.
    - `lanes`: for each lane, the numbers of its partitions.
    """

    number: int
    executors: frozenset[str]
    rows: RDD[Any]
    lanes: list[list[int]]


class Slots:
    """The tasks of a query's jobs. In all jobs, tasks with the same number run in the same worker."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchored: _Anchor | None = None
        self._shuffles: list[int] = []

    @property
    def count(self) -> int:
        """The number of tasks, which equals the number of cores."""
        return max(1, self._context.defaultParallelism)

    def run(self, rows: RDD[Any], step: Callable[[Sequence[int]], Step]) -> RDD[Any]:
        """Apply a function to the rows of each partition of a shuffled RDD, one task per partition.

        `step`: a function that takes the partition numbers of one lane, and returns the function for their rows.
        """
        shuffled = rows._jrdd.rdd().dependencies().head().rdd()
        self._shuffles.append(shuffled.dependencies().head().shuffleId())
        anchor = self._anchor(rows.getNumPartitions())

        def part(mine: Sequence[int]) -> RDD[Any]:
            both = self._parts(anchor.rows, mine).cartesian(self._parts(rows, mine))
            diagonal = self._parts(both, range(0, len(mine) ** 2, len(mine) + 1))
            return diagonal.mapPartitionsWithIndex(partial(_stepped, step(mine), mine))

        return self._by_lane(anchor, part)

    def nothing(self) -> RDD[Any]:
        """Return an empty RDD. When it is computed, an empty task runs in each worker that has had a task."""
        anchor = self._anchored
        if anchor is None or anchor.executors != self._executors():
            return self._context.parallelize([], 1)
        return self._by_lane(anchor, lambda mine: self._parts(anchor.rows, mine).mapPartitions(drained))

    def _by_lane(self, anchor: _Anchor, part: Callable[[Sequence[int]], RDD[Any]]) -> RDD[Any]:
        """Call `part` with the partition numbers of each lane, and join the RDDs that it returns. The RDD of a lane is
        computed by the processes of this lane."""
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
        """Remove the data of finished shuffles now. Otherwise, Java removes it only when it collects garbage."""
        java: Any = self._context._jsc
        with suppress(Py4JError):  # Java has ended; others report this
            cleaner = java.sc().cleaner()
            for shuffle in self._shuffles if cleaner.isDefined() else ():
                cleaner.get().doCleanupShuffle(shuffle, False)
        self._shuffles = []

    def _anchor(self, width: int) -> _Anchor:
        """Return a cached RDD with `width` partitions, which keep tasks in the same executors. The first call creates
        it. It is created anew when an executor is added or lost."""
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
        java: Any = self._context._jsc
        return frozenset(java.sc().getExecutorMemoryStatus().keySet().mkString(",").split(","))

    def _parts(self, rows: RDD[Any], numbers: Sequence[int]) -> RDD[Any]:
        java: Any = self._context._jvm
        some = java.org.apache.spark.api.python.PythonUtils.toSeq(list(numbers)).toSet()
        pruned = java.org.apache.spark.rdd.PartitionPruningRDD.create(rows._jrdd.rdd(), some)
        return RDD(pruned.toJavaRDD(), self._context, rows._jrdd_deserializer)


def lanes(executors: Sequence[str]) -> list[list[int]]:
    """Divide tasks into as few lanes as possible. `executors`: the executor of each task.

    Tasks of the same executor are in different lanes.
    """
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
    """Read all rows, and return an empty list. If a task did not read all its rows, Spark would end the worker."""
    for _ in rows:
        pass
    return []


def _stepped(step: Step, tasks: Sequence[int], index: int, pairs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    return step(tasks[index], (row for _, row in pairs))
