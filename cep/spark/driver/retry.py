"""A query that is begun again where it failed for want of a Python process alone.

Spark gives one 10 seconds to start and to connect, which no setting changes; on a machine that has much else to do it
takes longer now and then. One that plans or commits may be killed for want of memory, and is not tried again as those
of tasks are. The query fails then, and goes on from its checkpoint as after any failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cep.core.errors import CepError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from cep.core.logs import Log
    from cep.spark.driver.stopping import StopRequest

TRIES = 5
"""So often a query is begun without finishing a micro-batch."""

_PASSING = ("failed to connect back", "worker to connect back", "Python worker exited unexpectedly")


def endured(
    begin: Callable[[], StreamingQuery], stop: StopRequest, endless: bool, finished: Callable[[], int], log: Log
) -> None:
    """Run what `begin` begins until it has ended, of itself or as it is wished. `finished`: how many micro-batches have
    been. CepError: it has failed; says why."""
    tries, done = 0, finished()
    while True:
        try:
            stop.wait(stop.begun(begin), endless)
            return
        except CepError as error:
            tries = tries + 1 if finished() == done else 1
            done = finished()
            if not passing(error) or stop.wished or tries == TRIES:
                raise
            log("again", f"{error.message}: it begins again", "warning")


def passing(error: CepError) -> bool:
    """Whether a query may have failed because the machine was busy, or short of memory."""
    return any(words in error.message for words in _PASSING)
