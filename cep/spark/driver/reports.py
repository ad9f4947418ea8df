"""Exchange of task reports between two threads: one runs micro-batches, and one is notified when they end."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from cep.runtime.report import Report

_LEFT = 64
"""The maximum number of micro-batches whose reports are stored."""

_lock = Lock()
_told: dict[tuple[str, int], Sequence[Report]] = {}
"""The reports of micro-batches, by the id of the query and the number of the micro-batch."""


def tell(query: str, batch: int, reports: Sequence[Report]) -> None:
    """Store the reports of a micro-batch. `query`: Spark's id of the query."""
    with _lock:
        _told.pop((query, batch), None)
        _told[query, batch] = reports
        while len(_told) > _LEFT:
            _told.pop(next(iter(_told)))


def told(query: str, batch: int) -> Sequence[Report]:
    """Remove and return the reports of a finished micro-batch. `query`: Spark's id of the query."""
    with _lock:
        return _told.pop((query, batch), ())
