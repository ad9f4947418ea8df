"""A change of an alert as JSON: one document for event streams, CloudEvents and MQTT."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from connectors.alerts.life import Change
from connectors.alerts.plain import clean, moment


@dataclass(frozen=True, slots=True)
class Origin:
    """Who speaks: the name of the program, what IRIs begin with, and how CAP names the sender (no spaces or commas)."""

    program: str
    base: str = "urn:semcep:"
    sender: str = "semcep"

    @property
    def title(self) -> str:
        return clean(self.program, 200)


def document(change: Change) -> dict[str, Any]:
    """The change as JSON has it; times in RFC 3339."""
    return {
        "id": change.id,
        "alert": change.alert,
        "revision": change.revision,
        "state": change.state,
        "time": moment(change.time),
        "name": change.name,
        "severity": change.severity,
        "category": change.category,
        "title": change.title,
        "text": change.text,
        "start": moment(change.start),
        "end": moment(change.end),
        "until": moment(change.until),
        "occurrences": change.occurrences,
        "event": change.event,
        "first": change.first,
        "last": change.last,
        "key": dict(change.key),
        "values": dict(change.values),
        "place": dict(change.place),
    }


def written(change: Change) -> bytes:
    """On one line, in ASCII."""
    return json.dumps(document(change), separators=(",", ":")).encode()
