"""Send CloudEvents 1.0 to a webhook. Each change is one POST of structured JSON with an idempotency key. The POST is
signed if the target has secrets."""

from __future__ import annotations

import hmac
import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from urllib.parse import quote

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.document import Publisher, document
from cep.connectors.receivers.http_post import HttpConnections
from cep.connectors.receivers.sender import DeliveryRefused, ServerError, Unreachable
from cep.connectors.receivers.targets import Target

TYPE = "application/cloudevents+json; charset=utf-8"


class Webhook:
    """A delivery that sends alerts to a webhook. Changes of one alert are sent in order, different alerts in parallel.

    Each message has an `Idempotency-Key`. If a message is sent again, it has the same key. A reminder has another key
    than the change. If a target has an `origin`, it is first asked for permission (HTTP 1.1 Web Hooks for Event
    Delivery, version 1.0.2, section 4).

    If a target has secrets, messages have the headers of Standard Webhooks 1.0.0. Signatures cover the id, the time of
    the attempt and the body.
    """

    most, states = 1, False

    def __init__(self, target: Target, origin: Publisher) -> None:
        self.target, self.origin, self.lanes = target, origin, target.parallel
        self.http = HttpConnections(target)
        self._allowed, self._asking = target.origin is None, threading.Lock()

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        with self._asking:
            if not self._allowed:
                self._ask()
        for entry in entries:
            body = json.dumps(cloudevent(entry, self.origin), separators=(",", ":")).encode()
            headers = {"Content-Type": TYPE, "Idempotency-Key": entry.message}
            if self.target.secrets:
                headers |= signed(self.target.secrets, entry.message, int(time.time()), body)
            self.http.post(self.target.path or "/", body, headers)

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.give([entry])

    def _ask(self) -> None:
        """Ask the target for permission to send. Raises Unreachable unless the target has granted it."""
        name = self.target.origin or ""
        try:
            allowed_by = self.http.request("OPTIONS", self.target.path or "/", None, {"WebHook-Request-Origin": name})
        except (DeliveryRefused, ServerError) as error:
            raise Unreachable(f"{error}, when asked whether {name} may send") from None
        allowed = allowed_by.get("WebHook-Allowed-Origin", "").strip()
        if allowed != "*" and allowed.lower() != name.lower():
            raise Unreachable(f"{name} may not send: the answer has no `WebHook-Allowed-Origin` that names it")
        self._allowed = True

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        """Do nothing: open alerts are not sent again."""

    def close(self) -> None:
        self.http.close()


def signed(secrets: Sequence[bytes], id: str, second: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a message, with one signature per secret. `second`: the time of the attempt in
    seconds of Unix time."""
    content = f"{id}.{second}.".encode() + body
    signatures = [b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(second),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def cloudevent(entry: OutboxEntry, origin: Publisher) -> dict[str, object]:
    """Return an entry as a CloudEvent. The event of a reminder has its number as the attribute `reminder`."""
    change = entry.change
    return {
        "specversion": "1.0",
        "id": change.id,
        "source": f"{origin.base}program/{quote(origin.title, safe='')}",
        "type": f"semcep.alert.{change.word}",
        "subject": change.alert,
        "status": origin.status.lower(),
        "time": rfc3339(change.time),
        "datacontenttype": "application/json",
        **({"reminder": entry.reminder} if entry.reminder else {}),
        "data": document(change, origin.status, origin.page(change), entry.reminder),
    }
