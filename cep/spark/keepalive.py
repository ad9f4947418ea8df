"""Empty tasks that keep Spark's Python workers alive while there is no input.

Spark ends the Python processes of an executor if none of them has had a task for a minute. Their engines are then lost,
and the next micro-batch must load them again. So a query runs an empty task on each core several times a minute. With
dynamic allocation (`spark.dynamicAllocation.enabled`), none run, because Spark would then never release an executor.
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
"""The number of seconds between two rounds of empty tasks."""

ALLOCATION = "spark.dynamicAllocation.enabled"


def keep_awake(context: SparkContext, query: StreamingQuery, touch: Callable[[], None]) -> None:
    """Call `touch` regularly in a new thread while a query runs."""
    if context.getConf().get(ALLOCATION, "false") != "true":
        Thread(target=_while_it_runs, args=(context, query, touch), name="awake", daemon=True).start()


def _while_it_runs(context: SparkContext, query: StreamingQuery, touch: Callable[[], None]) -> None:
    with suppress(Exception):  # others report failures of the query; PySpark raises any error if Java has ended
        context.setJobDescription("workers are kept while nothing comes")
        while not query.awaitTermination(EVERY):
            with suppress(Exception):  # a lost worker does not matter here
                touch()
