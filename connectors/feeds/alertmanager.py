"""Prometheus Alertmanager, API v2: what is open, told again while it is, and what is resolved.

It goes by the clock, alerts by the time of events, which is behind it, or long ago: so what is open ends later than
now, whatever its time says, and what is resolved ends now.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

from cep.alert import CERTAINTY, URGENCY
from connectors.alerts.life import Change
from connectors.alerts.outbox import Entry, Outbox
from connectors.alerts.plain import moment, spoken
from connectors.feeds.document import Origin
from connectors.feeds.posting import post
from connectors.feeds.targets import Target

LASTS = 4
"""Periods of telling for which an alert stays open there that is not told again."""

PATH = "/api/v2/alerts"
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class Alertmanager:
    """An Alertmanager forgets what it is not told for a while, and everything when it starts anew: so what is open is
    sent again every `target.every` seconds. It is told how alerts are now, not how they were in between."""

    most = 64

    def __init__(self, target: Target, origin: Origin, outbox: Outbox) -> None:
        self.target = target
        self.origin = origin
        self.outbox = outbox
        self._told = time.monotonic()

    def give(self, entries: Sequence[Entry]) -> None:
        live = {entry.change.slot: entry.change for entry in self.outbox.live()}
        latest = {}
        for entry in entries:
            change = entry.change
            last = self.outbox.revision(change.alert)
            latest[change.slot] = live.get(change.slot) or (change if last is None else last.change)
        self._send(list(latest.values()))

    def _send(self, changes: Sequence[Change]) -> None:
        now = time.time_ns() // 1000
        for start in range(0, len(changes), self.most):
            told = [alert(one, self.origin, now, self.target.every) for one in changes[start : start + self.most]]
            body = json.dumps(told).encode()
            post(self.target, self.target.path.rstrip("/") + PATH, body, {"Content-Type": "application/json"})

    def rest(self, outbox: Outbox) -> None:
        if time.monotonic() - self._told >= self.target.every:
            self._send([entry.change for entry in outbox.live()])
            self._told = time.monotonic()

    def close(self) -> None:
        """Each POST is a connection of its own."""


def alert(change: Change, origin: Origin, now: int, every: float) -> dict[str, object]:
    """What Alertmanager knows it by are its labels: program, name, severity, key, the urgency and the certainty where
    they are none of the usual, and the status where it is not meant. `now`: microseconds of Unix time; `every`: seconds
    until it is told again."""
    labels = {"alertname": change.name, "severity": change.severity.lower(), "program": origin.title}
    if change.urgency != URGENCY:
        labels["urgency"] = change.urgency.lower()
    if change.certainty != CERTAINTY:
        labels["certainty"] = change.certainty.lower()
    if origin.status != "Actual":
        labels["status"] = origin.status.lower()
    open_until = max(change.until, now + int(LASTS * every * 1_000_000))
    for name, value in change.key.items():
        label = _NO_LABEL.sub("_", name)
        labels[f"key_{label}" if label in labels or not label[0].isalpha() else label] = spoken(value)
    annotations = {"summary": change.title, "description": change.text or change.title, "alert": change.alert}
    if change.instruction:
        annotations["instruction"] = change.instruction
    return {
        "labels": labels,
        "annotations": annotations,
        "startsAt": moment(min(change.start, now)),
        "endsAt": moment(now if change.state == "resolved" else open_until),
    }
