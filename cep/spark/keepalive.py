"""Workers that stay while nothing comes: Spark ends the Python processes of an executor where none of them had a task
for a minute, and with them go the engines, which the next micro-batch would have to load anew.

So a query gives each core a task that does nothing, several times a minute. Where executors come and go
with the work (`spark.dynamicAllocation.enabled`), that would keep all of them, and is left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

EVERY = 20
"""Seconds between two such tasks."""

ALLOCATION = "spark.dynamicAllocation.enabled"


def keep_awake(context: SparkContext, query: StreamingQuery, touch: Callable[[], None]) -> None:
    """Have `touch` called while a query runs, in a thread of its own."""
    if context.getConf().get(ALLOCATION, "false") != "true":
        Thread(target=_while_it_runs, args=(context, query, touch), name="awake", daemon=True).start()


def _while_it_runs(context: SparkContext, query: StreamingQuery, touch: Callable[[], None]) -> None:
    with suppress(Exception):  # who runs the query says what has failed; PySpark raises anything where Java has ended
        context.setJobDescription("workers are kept while nothing comes")
        while not query.awaitTermination(EVERY):
            with suppress(Exception):  # a worker that is lost is not missed here
                touch()
