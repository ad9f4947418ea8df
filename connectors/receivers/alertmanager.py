"""Send alerts to Prometheus Alertmanager, API v2. Changes are sent in order, and open alerts again at intervals.

Alertmanager uses the wall clock. Alerts use the time of events, which may be long ago. So an open alert is sent with an
end in the future, and a resolved alert is sent with the current time as its end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cep.connectors.alerts.labels import alert_labels
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.http_post import HttpConnections
from cep.connectors.receivers.targets import Target

LASTS = 10
"""The number of sending periods (see `Target.every`) after which Alertmanager ends an alert that is not sent again.
These periods must be longer than a restart of the server."""

PATH = "/api/v2/alerts"


class Alertmanager:
    """A delivery that sends alerts to an Alertmanager.

    Every change is sent in order. A POST contains at most one change of each key, so that short alerts fire before they
    are resolved. After a failure or a restart, some changes may have arrived already. Then only the current state of
    each alert is sent.

    An Alertmanager forgets all alerts when it restarts. It also forgets an alert that is not sent again for a while. So
    open alerts are sent again every `target.every` seconds, the first time at the start. If an alert was silenced or
    inhibited after it was sent, it is sent again in the state that was sent last. Otherwise Alertmanager would end it.
    """

    most, lanes, states = 64, 1, True

    def __init__(self, target: Target, origin: Publisher, outbox: Outbox) -> None:
        self.target, self.origin, self.outbox = target, origin, outbox
        self.http = HttpConnections(target)
        self._last_sent: float | None = None

    def key(self, entry: OutboxEntry) -> str:
        """Return "" for every entry. All entries then have the same key, so they are sent in order."""
        return ""

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        pending: dict[str, AlertChange] = {}
        for entry in entries:
            if entry.change.slot in pending:
                self._send(list(pending.values()))
                pending = {}
            pending[entry.change.slot] = entry.change
        self._send(list(pending.values()))

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        """Send the alert's current state instead of the change that was refused. The refused change could reopen an
        alert that has ended."""
        self._send([now])

    def _send(self, changes: Sequence[AlertChange]) -> None:
        now = time.time_ns() // 1000
        for start in range(0, len(changes), self.most):
            few, lost = changes[start : start + self.most], self.outbox.lost
            few = [sent_entry for entry in few for sent_entry in (*former(entry), entry)]
            pending = [alertmanager_alert(entry, self.origin, now, self.target.every, lost) for entry in few]
            body = json.dumps(pending).encode()
            path = self.target.path.rstrip("/") + PATH
            self.http.post(path, body, {"Content-Type": "application/json"})

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        if self._last_sent is None or time.monotonic() - self._last_sent >= self.target.every:
            now = time.time_ns() // 1000
            self._send([entry.change for entry in told() if not outbox.ended or lasts(entry) > now])
            self._last_sent = time.monotonic()

    def close(self) -> None:
        self.http.close()


def former(change: AlertChange) -> list[AlertChange]:
    """Return one change for each other severity that the alert can have. It resolves the alert under this severity.

    Alertmanager identifies an alert by its labels, so it treats the alert under another severity as a separate alert.
    """
    others = sorted({*change.severities} - {change.severity})
    return [replace(change, severity=severity, state="resolved") for severity in others]


def lasts(entry: OutboxEntry) -> int:
    """Return the wall-clock time at which an alert ends unless a further occurrence follows."""
    change = entry.change
    return change.until if entry.recorded is None else entry.recorded + change.until - change.end


def starts_at(change: AlertChange, now: int) -> str:
    """Return the time when the alert fired, which Prometheus calls its start. A time after `now` becomes `now`."""
    return rfc3339(min(change.start if change.fired is None else change.fired, now))


def alertmanager_alert(
    change: AlertChange, origin: Publisher, now: int, every: float, lost: Sequence[str] = ()
) -> dict[str, object]:
    """Return an alert as the JSON object that Alertmanager expects. The object contains the labels (`alert_labels`),
    which identify the alert.

    `now`: the current time in microseconds of Unix time. `every`: the seconds until the alert is sent again. `lost`:
    the names of lost sources.
    """
    labels = alert_labels(change, origin.title, origin.status)
    open_until = max(change.until, now + int(LASTS * every * 1_000_000))
    annotations = {"summary": change.title, "description": change.text or change.title, "alert": change.alert}
    if change.instruction:
        annotations["instruction"] = change.instruction
    if change.runbook:
        annotations["runbook_url"] = change.runbook
    if change.note:
        annotations["note"] = change.note
    if lost and not change.over:
        annotations["source_lost"] = ", ".join(lost)
    document: dict[str, object] = {
        "labels": labels,
        "annotations": annotations,
        "startsAt": starts_at(change, now),
        "endsAt": rfc3339(now if change.over else open_until),
    }
    return document | ({"generatorURL": page} if (page := origin.page(change)) else {})
