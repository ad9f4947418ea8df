"""Prometheus Alertmanager, API v2: every change in order, and what is open told again while it is.

It goes by the clock, alerts by the time of events, which is behind it, or long ago: so what is open ends later than
now, whatever its time says, and what is resolved ends now.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

from cep.rules.alert import CERTAINTY, URGENCY
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
    """Every change is told as it was, in order, one of each key in a POST: what is short fires too before it is
    resolved. An Alertmanager forgets what it is not told for a while, and everything when it starts anew: so what is
    open is sent again every `target.every` seconds."""

    most = 64

    def __init__(self, target: Target, origin: Origin, outbox: Outbox) -> None:
        self.target = target
        self.origin = origin
        self.outbox = outbox
        self._told = time.monotonic()

    def give(self, entries: Sequence[Entry]) -> None:
        told: dict[str, Change] = {}
        for entry in entries:
            if entry.change.slot in told:
                self._send(list(told.values()))
                told = {}
            told[entry.change.slot] = entry.change
        self._send(list(told.values()))

    def again(self, entry: Entry, now: Change) -> None:
        """How it is now: what was refused would open what is over."""
        self._send([now])

    def _send(self, changes: Sequence[Change]) -> None:
        now = time.time_ns() // 1000
        for start in range(0, len(changes), self.most):
            few, lost = changes[start : start + self.most], self.outbox.lost
            told = [alert(one, self.origin, now, self.target.every, lost) for one in few]
            body = json.dumps(told).encode()
            post(self.target, self.target.path.rstrip("/") + PATH, body, {"Content-Type": "application/json"})

    def rest(self, outbox: Outbox) -> None:
        if time.monotonic() - self._told >= self.target.every:
            now = time.time_ns() // 1000
            self._send([entry.change for entry in outbox.live() if not outbox.ended or lasts(entry) > now])
            self._told = time.monotonic()

    def close(self) -> None:
        """Each POST is a connection of its own."""


def lasts(entry: Entry) -> int:
    """When an alert is over by the clock, unless there is more of it: as long after it was told of as it lasts."""
    change = entry.change
    return change.until if entry.came is None else entry.came + change.until - change.end


def alert(change: Change, origin: Origin, now: int, every: float, lost: Sequence[str] = ()) -> dict[str, object]:
    """What Alertmanager knows it by are its labels: program, name, severity, key, the urgency and the certainty where
    they are none of the usual, and the status where it is not meant. `now`: microseconds of Unix time; `every`: seconds
    until it is told again; `lost`: the sources of which nothing is known."""
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
    if lost and change.state != "resolved":
        annotations["source_lost"] = ", ".join(lost)
    return {
        "labels": labels,
        "annotations": annotations,
        "startsAt": moment(min(change.start, now)),
        "endsAt": moment(now if change.state == "resolved" else open_until),
    }
