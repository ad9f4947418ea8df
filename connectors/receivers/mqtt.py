"""Send alerts to MQTT. The topic of an open alert, `alerts/<name>/<key>`, has a retained message. When the alert ends,
a final message is sent to the topic, and the retained message is deleted."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import value_text
from cep.connectors.receivers.document import Publisher, to_json
from cep.connectors.receivers.sender import Unreachable
from cep.connectors.receivers.targets import Target, reachable

if TYPE_CHECKING:
    from paho.mqtt.client import Client

TIMEOUT = 10.0
"""The time limit for an answer of a broker, in seconds."""

_LONGEST = 200  # characters of a key in a topic


class Topics:
    """A delivery that sends every message with QoS 1. It counts as delivered when the broker has acknowledged it."""

    most, lanes, states = 32, 1, False

    def __init__(self, target: Target, origin: Publisher) -> None:
        self.target = target
        self.origin = origin
        self._client: Client | None = None

    def key(self, entry: OutboxEntry) -> str:
        """Return the same key for every entry, so that all entries are sent in order."""
        return ""

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        self._give(entries, retain=True)

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        """Send a dead letter again. The broker retains it only if its change is still the last of the alert's key."""
        self._give([entry], retain=entry.change.id == now.id)

    def _give(self, entries: Sequence[OutboxEntry], retain: bool) -> None:
        client = self._connected()
        sent = []
        for entry in entries:
            change = entry.change
            topic = f"{self.target.path}/{topic_end(change)}"
            kept = retain and not (change.over and change.remark)  # another alert of the key may be open by now
            sent.append(client.publish(topic, to_json(entry, self.origin), qos=1, retain=kept))
            if kept and change.over:
                sent.append(client.publish(topic, b"", qos=1, retain=True))
        try:
            for publication in sent:
                publication.wait_for_publish(TIMEOUT)
        except (RuntimeError, ValueError) as error:
            self._lost(str(error))
        if not all(publication.is_published() for publication in sent):
            self._lost("the broker does not answer")

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        """Do nothing: the client keeps the connection open."""

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None

    def _connected(self) -> Client:
        from paho.mqtt.client import Client, ConnectFlags
        from paho.mqtt.enums import CallbackAPIVersion
        from paho.mqtt.properties import Properties
        from paho.mqtt.reasoncodes import ReasonCode

        if self._client is not None and self._client.is_connected():
            return self._client
        self.close()
        client = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        if self.target.user is not None:
            client.username_pw_set(self.target.user, self.target.password)
        if self.target.tls:
            client.tls_set_context(_Named.of(self.target.host))
        answered = threading.Event()
        refusals: list[str] = []

        def connected(
            client: Client, data: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
        ) -> None:
            if code.is_failure:
                refusals.append(str(code))
            answered.set()

        client.on_connect = connected
        client.connect_timeout = TIMEOUT
        self._reach(client)
        client.loop_start()
        self._client = client
        if not answered.wait(TIMEOUT) or refusals:
            self._lost(refusals[0] if refusals else "the broker does not answer")
        return client

    def _reach(self, client: Client) -> None:
        """Connect to a checked address of the target. The host name is not resolved again, because the result could be
        another address than the checked one."""
        reason: Exception = OSError("no address")
        try:
            for address in reachable(self.target):
                try:
                    client.connect(address, self.target.port)
                    return
                except (OSError, ValueError) as error:
                    reason = error
        except (OSError, ValueError) as error:
            reason = error
        raise Unreachable(str(reason))

    def _lost(self, reason: str) -> None:
        self.close()
        raise Unreachable(reason)


class _Named(ssl.SSLContext):
    """A TLS context for a connection to an IP address. It verifies that the certificate belongs to the host name."""

    host: str

    @classmethod
    def of(cls, host: str) -> _Named:
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.load_default_certs()
        context.host = host
        return context

    def wrap_socket(self, sock: socket.socket, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(sock, *arguments, **{**options, "server_hostname": self.host})


def topic_end(change: AlertChange) -> str:
    """Return the last levels of an alert's topic: the alert's name, then one level per value of its key.

    If the key is too long for a topic, a hash of the name and the key replaces the key. The same happens if a value was
    cut.
    """
    levels = [quote(value_text(value), safe="") or "-" for value in change.key.values()]
    key = "/".join(levels)
    return f"{change.name}/{key if len(key) <= _LONGEST and '…' not in key else change.slot}" if levels else change.name
