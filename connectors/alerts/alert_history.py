"""Search for the state of all alerts at an earlier event time."""

from __future__ import annotations

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry

LOOKED_AT = 10_000
"""The number of changes that `alerts_at` searches, backwards from the requested time. An alert is missing from the
result if none of these changes belongs to it."""


def alerts_at(outbox: Outbox, time: int) -> tuple[list[OutboxEntry], bool]:
    """Return the state of all alerts at an event time (microseconds).

    The first result has the last change of each alert up to this time, in the order of the outbox. The second result is
    True if the outbox contains older changes, which were not searched.
    """
    low, high = outbox.first, outbox.last + 1
    while low < high:  # changes are added in the order of their times, or nearly so
        middle = (low + high) // 2
        entry = next(iter(outbox.after(middle - 1, 1)), None)
        if entry is not None and entry.change.time <= time:
            low = entry.number + 1
        else:
            high = middle
    last: dict[str, OutboxEntry] = {}
    for entry in outbox.between(low - LOOKED_AT, low + LOOKED_AT // 10):
        if entry.change.time <= time:
            last[entry.change.alert] = entry
    return sorted(last.values(), key=lambda entry: entry.number), outbox.first < low - LOOKED_AT
