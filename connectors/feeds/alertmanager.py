"""Prometheus Alertmanager, API v2: open alerts with when they end, told again while they are open."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

from connectors.alerts.life import Change
from connectors.alerts.outbox import Entry, Outbox
from connectors.alerts.plain import moment, spoken
from connectors.feeds.document import Origin
from connectors.feeds.posting import post
from connectors.feeds.targets import Target

PATH = "/api/v2/alerts"
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class Alertmanager:
    """An Alertmanager forgets what it is not told for a while, and everything when it starts anew: so what is open is
    sent again every `target.every` seconds."""

    most = 64

    def __init__(self, target: Target, origin: Origin) -> None:
        self.target = target
        self.origin = origin
        self._told = time.monotonic()

    def give(self, entries: Sequence[Entry]) -> None:
        latest = {entry.change.slot: entry.change for entry in entries}
        for start in range(0, len(latest), self.most):
            chosen = list(latest.values())[start : start + self.most]
            body = json.dumps([alert(change, self.origin) for change in chosen]).encode()
            post(self.target, self.target.path.rstrip("/") + PATH, body, {"Content-Type": "application/json"})

    def rest(self, outbox: Outbox) -> None:
        if time.monotonic() - self._told >= self.target.every:
            self.give(outbox.live())
            self._told = time.monotonic()

    def close(self) -> None:
        """Each POST is a connection of its own."""


def alert(change: Change, origin: Origin) -> dict[str, object]:
    """What Alertmanager knows it by are its labels: program, name, severity and key."""
    labels = {"alertname": change.name, "severity": change.severity.lower(), "program": origin.title}
    for name, value in change.key.items():
        label = _NO_LABEL.sub("_", name)
        labels[f"key_{label}" if label in labels or not label[0].isalpha() else label] = spoken(value)
    return {
        "labels": labels,
        "annotations": {"summary": change.title, "description": change.text or change.title, "alert": change.alert},
        "startsAt": moment(change.start),
        "endsAt": moment(change.time if change.state == "resolved" else change.until),
    }
