"""The reports of micro-batches, from the thread that runs these to the one that is told when they have ended."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from cep.runtime.report import Report

_LEFT = 64
"""So many micro-batches may wait."""

_lock = Lock()
_told: dict[tuple[str, int], Sequence[Report]] = {}
"""By query and micro-batch."""


def tell(query: str, batch: int, reports: Sequence[Report]) -> None:
    """The reports of a micro-batch of a query, by the name that Spark has for it."""
    with _lock:
        _told.pop((query, batch), None)
        _told[query, batch] = reports
        while len(_told) > _LEFT:
            _told.pop(next(iter(_told)))


def told(query: str, batch: int) -> Sequence[Report]:
    """Those of a micro-batch that has ended; once."""
    with _lock:
        return _told.pop((query, batch), ())
