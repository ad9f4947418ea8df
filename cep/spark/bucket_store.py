"""Spark's state store as a task sees it, and the micro-batch that the task belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark import TaskContext


@dataclass(frozen=True, slots=True)
class BucketStore:
    """Spark's state store for the current bucket: the `version` it has, 0: none; to `keep` another; and to `call` the
    bucket again when the watermark has come to a time (milliseconds)."""

    version: Callable[[], int]
    keep: Callable[[int], None]
    call: Callable[[int], None]


def micro_batch() -> int:
    """The number of the micro-batch of the task that runs here."""
    context = TaskContext.get()
    assert context is not None, "a task runs it"
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)
