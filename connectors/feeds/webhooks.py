"""CloudEvents 1.0 to a webhook: each change is one POST of structured JSON with an idempotency key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox
from connectors.alerts.outbox_entries import OutboxEntry
from connectors.alerts.text import rfc3339
from connectors.feeds.document import Publisher, document
from connectors.feeds.http_post import post, send_request
from connectors.feeds.sender import DeliveryRefused, ServerError, Unreachable
from connectors.feeds.targets import Target

TYPE = "application/cloudevents+json; charset=utf-8"


class Webhook:
    """`Idempotency-Key` is the event's id: what comes twice is the same change.

    A target with an `origin` is asked first, once, whether it accepts events (HTTP 1.1 Web Hooks for Event Delivery,
    version 1.0.2, section 4). Until it says so nothing is sent.
    """

    most = 1

    def __init__(self, target: Target, origin: Publisher) -> None:
        self.target = target
        self.origin = origin
        self._allowed = target.origin is None

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        if not self._allowed:
            self._ask()
        for entry in entries:
            body = json.dumps(cloudevent(entry.change, self.origin), separators=(",", ":")).encode()
            headers = {"Content-Type": TYPE, "Idempotency-Key": entry.change.id}
            post(self.target, self.target.path or "/", body, headers)

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.give([entry])

    def _ask(self) -> None:
        """Unreachable: it does not say yes, or not yet."""
        name = self.target.origin or ""
        try:
            allowed_by = send_request(
                self.target, "OPTIONS", self.target.path or "/", None, {"WebHook-Request-Origin": name}
            )
        except (DeliveryRefused, ServerError) as error:
            raise Unreachable(f"{error}, when asked whether {name} may send") from None
        allowed = allowed_by.get("WebHook-Allowed-Origin", "").strip()
        if allowed != "*" and allowed.lower() != name.lower():
            raise Unreachable(f"{name} may not send: no `WebHook-Allowed-Origin` that names it")
        self._allowed = True

    def rest(self, outbox: Outbox) -> None:
        """Nothing is sent again."""

    def close(self) -> None:
        """Each POST is a connection of its own."""


def cloudevent(change: AlertChange, origin: Publisher) -> dict[str, object]:
    """The change in its envelope."""
    return {
        "specversion": "1.0",
        "id": change.id,
        "source": f"{origin.base}program/{quote(origin.title, safe='')}",
        "type": f"semcep.alert.{change.word}",
        "subject": change.alert,
        "status": origin.status.lower(),
        "time": rfc3339(change.time),
        "datacontenttype": "application/json",
        "data": document(change, origin.status),
    }
