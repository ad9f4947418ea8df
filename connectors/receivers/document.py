"""A change of an alert as a JSON document, for event streams, CloudEvents and MQTT."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlsplit

from cep.connectors.alerts.lifecycle import Action, AlertChange, AlertState, Verdict
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import clean, rfc3339, value_text
from cep.core.errors import CepError

STATUSES = ("Actual", "Exercise", "Test")
"""The statuses of public messages in CAP 1.2."""

_NAMED = re.compile(r"(.*\S)\s*<([^<>]*)>")
_NO_SENDER = re.compile(r"[\s,<&\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Publisher:
    """The publisher of alerts.

    - `program`: the name of the program.
    - `base`: the IRI with which the IRIs of the program and its alerts begin.
    - `sender`: the sender in CAP, without spaces or commas.
    - `status`: one of STATUSES.
    - `name`: the sender for people; if it is empty, the name of the program is used.
    - `address`: the address of the web page; empty if it is unknown.
    """

    program: str
    base: str = "urn:semcep:"
    sender: str = "semcep"
    status: str = "Actual"
    name: str = ""
    address: str = ""

    @property
    def title(self) -> str:
        return clean(self.program, 200)

    def page(self, change: AlertChange) -> str:
        """Return the address of the alert's web page, or "" if it is unknown."""
        return self.address and f"{self.address}#alert={change.alert}"

    @property
    def speaker(self) -> str:
        return clean(self.name, 200) or self.title


def parse_sender(text: str) -> tuple[str, str]:
    """Return the sender for people and the sender for CAP.

    `text`: `Weather Service <alerts@example.org>`, or only the address. Raises CepError if the text contains no sender.
    """
    match = _NAMED.fullmatch(text)
    return ("", sender(text)) if match is None else (match[1], sender(match[2]))


def sender(name: str) -> str:
    """Return `name` if it is a valid sender in CAP. Raises CepError if it is not."""
    if not name or _NO_SENDER.search(name) or len(name) > 200:
        hint = "use a unique word, with or without a name: `--sender 'Weather Service <alerts@example.org>'`"
        raise CepError(
            f"--sender `{clean(name, 80)}`: a sender has no spaces, commas, `<` or `&`", hint=hint, code="option"
        )
    return name


def own_name(base: str) -> str:
    """Return the default sender: the host in the IRI `base` or, if the IRI has no host, the name of this machine."""
    try:
        host = urlsplit(base).hostname or socket.gethostname()
    except ValueError:
        host = socket.gethostname()
    return f"semcep@{_NO_SENDER.sub('-', host) or 'localhost'}"


_TEXTS = "id alert name title text note instruction event first last severity urgency certainty category runbook link"
_PEOPLE = "by comment acknowledged assignee"
_TIMES = "time start end until"
_OBJECTS = "key values place labels"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "description": "A change of an alert.",
    "properties": {
        **{name: {"type": "string"} for name in f"{_TEXTS} {_PEOPLE}".split()},
        **{name: {"type": "string", "format": "date-time"} for name in _TIMES.split()},
        **{name: {"type": "object"} for name in _OBJECTS.split()},
        "revision": {"type": "integer", "minimum": 0},
        "occurrences": {"type": "integer", "minimum": 1},
        "reminder": {"type": "integer", "minimum": 0},
        "withdrawn": {"type": "boolean"},
        "inhibited": {"type": "boolean"},
        **{name: {"type": ["string", "null"], "format": "date-time"} for name in ("fired", "over")},
        "escalated": {"type": "integer", "minimum": 0},
        "state": {"type": "string", "enum": list(get_args(AlertState))},
        "action": {"type": "string", "enum": list(get_args(Action))},
        "verdict": {"type": "string", "enum": list(get_args(Verdict))},
        "silenced": {"type": "array", "items": {"type": "string"}},
        "status": {"type": "string", "enum": list(STATUSES)},
    },
}
"""The JSON Schema of the results of `document`."""


def document(change: AlertChange, status: str = STATUSES[0], link: str = "", reminder: int = 0) -> dict[str, Any]:
    """Return a change of an alert as an object for JSON. Times are in RFC 3339.

    `link`: the address of the alert's web page, or "". `reminder`: the number of a reminder, or 0 if the document
    describes the change itself.
    """
    return {
        "id": change.id,
        "alert": change.alert,
        "revision": change.revision,
        "reminder": reminder,
        "state": change.state,
        "status": status,
        "withdrawn": change.withdrawn,
        "inhibited": change.inhibited,
        "silenced": list(change.silenced),
        "action": change.action,
        "by": change.by,
        "comment": change.comment,
        "acknowledged": change.acknowledged,
        "assignee": change.assignee,
        "verdict": change.verdict,
        "note": change.note,
        "time": rfc3339(change.time),
        "name": change.name,
        "severity": change.severity,
        "escalated": change.escalated,
        "urgency": change.urgency,
        "certainty": change.certainty,
        "category": change.category,
        "title": change.title,
        "text": change.text,
        "instruction": change.instruction,
        "runbook": change.runbook,
        "link": link,
        "labels": dict(change.labels),
        "start": rfc3339(change.start),
        "fired": None if change.fired is None else rfc3339(change.fired),
        "end": rfc3339(change.end),
        "until": rfc3339(change.until),
        "over": None if change.ended is None else rfc3339(change.ended),
        "occurrences": change.occurrences,
        "event": change.event,
        "first": change.first,
        "last": change.last,
        "key": dict(change.key),
        "values": dict(change.values),
        "place": dict(change.place),
    }


def shown_values(change: AlertChange) -> list[tuple[str, str]]:
    """Return the names and values of an alert's attributes and LABELS. Labels that equal an attribute are left out."""
    values = [(name, value_text(value)) for name, value in change.values.items()]
    return [*values, *(label for label in change.labels.items() if label not in values)]


def to_json(entry: OutboxEntry, origin: Publisher) -> bytes:
    """Return the document of an entry as one line of ASCII."""
    body = document(entry.change, origin.status, origin.page(entry.change), entry.reminder)
    return json.dumps(body, separators=(",", ":")).encode()
