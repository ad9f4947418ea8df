"""Tasks that come to the same worker again, in each job that is made of them: it has kept what they need.

Spark gives a task behind a shuffle to any executor, and there to any Python process. So each of these tasks has a
process of its own in an executor (Spark keeps them apart by their environment), and goes to the executor that holds its
part of an RDD that is cached. Where that executor is lost, or has no core free for a while (`spark.locality.wait`), it
goes to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD

if TYPE_CHECKING:
    from pyspark import SparkContext

SLOT = "SEMCEP_SLOT"
"""In the environment of a worker: the number of its task."""


class Slots:
    """The tasks of jobs of a query."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchors: dict[tuple[int, frozenset[str]], RDD[Any]] = {}
        self._shuffles: list[int] = []

    @property
    def count(self) -> int:
        """As many as there are cores."""
        return max(1, self._context.defaultParallelism)

    def run(self, rows: RDD[Any], step: Callable[[int], Callable[[int, Iterable[Any]], Iterator[Any]]]) -> RDD[Any]:
        """What steps make of the rows of each partition, which a shuffle has made; `step` gives that of a partition."""
        width = rows.getNumPartitions()
        shuffled = rows._jrdd.rdd().dependencies().head().rdd()
        self._shuffles.append(shuffled.dependencies().head().shuffleId())
        both, parts, env = self._anchor(width).cartesian(rows), list[RDD[Any]](), self._context.environment
        try:
            for slot in range(width):
                env[SLOT] = str(slot)
                part = self._part(both, slot * width + slot).mapPartitions(partial(_stepped, step(slot), slot))
                assert part._jrdd is not None, "it has this environment"
                parts.append(part)
        finally:
            env.pop(SLOT, None)
        return self._context.union(parts)

    def clear(self) -> None:
        """Nobody asks any more for what came through the shuffles: executors remove it, and not only when Java collects
        its garbage."""
        java: Any = self._context._jsc
        with suppress(Py4JError):  # Java has ended, which is told where it matters
            cleaner = java.sc().cleaner()
            for shuffle in self._shuffles if cleaner.isDefined() else ():
                cleaner.get().doCleanupShuffle(shuffle, False)
        self._shuffles = []

    def _anchor(self, width: int) -> RDD[Any]:
        """An element in each of so many partitions, which stay where they are first asked for, until an executor comes
        or goes."""
        java: Any = self._context._jsc
        key = width, frozenset(java.sc().getExecutorMemoryStatus().keySet().mkString(",").split(","))
        if key not in self._anchors:
            for other in self._anchors.values():
                other.unpersist()
            made = self._context.parallelize(range(width), width).persist()
            made.count()
            self._anchors = {key: made}
        return self._anchors[key]

    def _part(self, rows: RDD[Any], number: int) -> RDD[Any]:
        """One of their partitions."""
        java: Any = self._context._jvm
        some = java.org.apache.spark.api.python.PythonUtils.toSeq([number]).toSet()
        pruned = java.org.apache.spark.rdd.PartitionPruningRDD.create(rows._jrdd.rdd(), some)
        return RDD(pruned.toJavaRDD(), self._context, rows._jrdd_deserializer)


def _stepped(
    step: Callable[[int, Iterable[Any]], Iterator[Any]], slot: int, pairs: Iterable[tuple[int, Any]]
) -> Iterator[Any]:
    return step(slot, (row for _, row in pairs))
