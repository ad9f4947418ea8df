"""MQTT as an input: a subscription that acknowledges messages after they are processed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Messages
from cep.connectors.brokers.sources import SourceLost
from cep.core.errors import CepError, reason_of
from cep.core.extras import install_command

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

WAIT = 10.0
"""The time limit for an answer of a broker, in seconds."""

_EVER = 0xFFFFFFFF  # seconds for which a session is kept: forever
_MANY = 65_535  # messages that may be in transit at a time
_TAKEN_OVER = 0x8E
_BYTES = 1 << 24  # the number of bytes of messages taken at a time
_NOTHING = "semcep/nothing"  # a filter to which nobody subscribes


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that has arrived, or a line of a TCP connection. A line has no topic.

    `mid`: the identifier that the broker uses for the message until the message is acknowledged.
    """

    topic: str
    payload: bytes
    mid: int
    qos: int

    @property
    def digest(self) -> int:
        return crc32(self.payload, crc32(self.topic.encode()))


class Subscription:
    """A subscription to a topic.

    If the address has the option `client`, the broker keeps a session for this client. The broker then repeats messages
    that were not acknowledged, and delivers messages that arrived while the client was disconnected. A repeated message
    is dropped if it was received before. `known`: the digests of received messages, by `mid`.
    """

    def __init__(self, address: Address, client: str | None, known: dict[int, int] | None = None) -> None:
        """Prepare a subscription without connecting.

        Raises CepError if paho-mqtt is not installed, the address has no topic, or an option is wrong.
        """
        self.address = address
        self._persistent = client is not None
        self._new = address.choice("version", ("5", "3")) == "5"
        self._qos = int(address.choice("qos", ("1", "2", "0")))
        self._retained = address.choice("retained", ("yes", "no")) == "yes"
        self._numbered = 0
        self._known = {} if known is None else known
        self._came: deque[Arrival] = deque()
        self._open: list[Arrival] = []  # returned by `take`, but not yet processed
        self._there = threading.Condition()
        self._subscribed = self._answered = False
        self._gone = "the broker has closed the connection"
        self._error: CepError | None = None
        self._client = self._made(client or "")

    @classmethod
    def open(cls, address: Address, client: str | None, known: dict[int, int] | None = None) -> Subscription:
        """Return a connected subscription. Raises CepError if the broker does not answer or refuses the connection."""
        subscription = cls(address, client, known)
        subscription.start()
        return subscription

    def start(self) -> None:
        """Connect and subscribe. Raises the errors of `open`."""
        host, port = self.address.hosts[0]
        options: dict[str, Any] = {}
        if self._new:
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties

            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum = _MANY
            properties.SessionExpiryInterval = _EVER if self._persistent else 0
            options = {"clean_start": not self._persistent, "properties": properties}
        try:
            self._client.connect(host, port, **options)
        except (OSError, ValueError) as error:
            raise unreachable(self.address, error) from None
        self._client.loop_start()
        with self._there:
            self._there.wait_for(lambda: self._subscribed or self._error is not None, WAIT)
        if not self._subscribed:
            self.close()
            silent = f"{self.address.text}: the broker has not answered for {WAIT:g} s"
            raise self._error or SourceLost(silent, code="input")

    def take(self, most: int, seconds: float) -> list[Arrival]:
        """Return up to `most` messages that arrive within `seconds`. Their total size is about 16 MiB at most.

        Raises CepError if the broker has ended the connection.
        """
        with self._there:
            self._there.wait_for(lambda: self._came or self._error is not None, seconds)
            if self._error is not None:
                raise self._error
            taken: list[Arrival] = []
            size = 0
            while self._came and len(taken) < most and size < _BYTES:
                taken.append(self._came.popleft())
                size += len(taken[-1].payload)
            self._open += taken
        return taken

    @property
    def lost(self) -> str | None:
        """The reason why the connection is lost, or None if it is open. The client reconnects by itself."""
        return None if self._client.is_connected() else self._gone

    def poll(self, most: int, seconds: float) -> Messages:
        taken = self.take(most, seconds)
        first = self._numbered + 1
        self._numbered += len(taken)
        batch = messages(self.address, taken, range(first, first + len(taken)))
        return replace(batch, place={msg.mid: msg.digest for msg in taken if msg.qos}) if self._persistent else batch

    def done(self) -> None:
        """Acknowledge all messages that `take` has returned. If the connection is lost, the broker sends these messages
        again, and they are dropped."""
        with self._there:
            done, self._open = self._open, []
        for arrival in done:
            self._client.ack(arrival.mid, arrival.qos)

    def kept(self) -> None:
        """Do nothing, because `done` has already acknowledged the messages."""

    def close(self) -> None:
        """End the connection. If the broker answers, wait until it has received all acknowledgements."""
        if self._subscribed and self._persistent:
            self._settle()
        self._client.disconnect()
        self._client.loop_stop()

    def _settle(self) -> None:
        """Wait until the broker has processed all acknowledgements.

        The broker answers in order. So this function sends a request that has no effect, and waits for the answer.
        Without this wait, closing the connection could discard the last acknowledgements.
        """
        self._client.unsubscribe(_NOTHING)
        with self._there:
            self._there.wait_for(lambda: self._answered or not self._client.is_connected(), WAIT)

    def _made(self, client: str) -> Client:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        except ModuleNotFoundError:
            raise self.address.refused("MQTT needs paho-mqtt", install_command("mqtt")) from None
        if not self.address.path:
            raise self.address.refused(
                "the address names no topic", f"e.g. `{self.address.text.rstrip('/')}/sensors/#`"
            )
        if not _filter(self.address.path):
            hint = "`+` stands for one level, and `#` at the end for all further levels: `sensors/+/temp`, `sensors/#`"
            raise self.address.refused("the path is not a valid topic filter", hint)
        options: dict[str, Any] = {} if self._new else {"clean_session": not self._persistent}
        version = MQTTProtocolVersion.MQTTv5 if self._new else MQTTProtocolVersion.MQTTv311
        mqtt = paho.Client(CallbackAPIVersion.VERSION2, client_id=client, protocol=version, manual_ack=True, **options)
        secured(mqtt, self.address)
        mqtt.reconnect_delay_set(1, 30)
        mqtt.on_connect, mqtt.on_disconnect = self._connected, self._disconnected
        mqtt.on_subscribe, mqtt.on_message = self._granted, self._message
        mqtt.on_unsubscribe = self._settled
        return mqtt

    # --- called in the thread of the client ---

    def _connected(self, client: Client, data: object, flags: Any, reason: Any, properties: object) -> None:
        if reason.is_failure and self._subscribed:  # a broker that has answered before may be restarting
            self._gone = f"the broker refuses: {str(reason).lower()}"
        elif reason.is_failure:
            self._fail(*refusal(self.address, str(reason)))
        elif self._new:
            from paho.mqtt.subscribeoptions import SubscribeOptions

            # Retained messages come only to a new subscription, not to one that was kept.
            handling = 1 if self._retained else 2
            client.subscribe(self.address.path, options=SubscribeOptions(qos=self._qos, retainHandling=handling))
        elif flags.session_present:
            self._stands()
        else:
            client.subscribe(self.address.path, qos=self._qos)

    def _granted(self, client: Client, data: object, mid: int, reasons: Sequence[Any], properties: object) -> None:
        if refused := [reason for reason in reasons if reason.is_failure]:
            self._fail(f"the broker refuses the topic: {str(refused[0]).lower()}", "may this user read it?")
        else:
            self._stands()

    def _settled(self, client: Client, data: object, mid: int, reasons: object, properties: object) -> None:
        with self._there:
            self._answered = True
            self._there.notify_all()

    def _disconnected(self, client: Client, data: object, flags: object, reason: Any, properties: object) -> None:
        with self._there:
            self._there.notify_all()
        if self._new and reason.value == _TAKEN_OVER:
            self._fail(
                "another client has connected with the client name of this run",
                "use another `?client=NAME` for each run",
            )

    def _message(self, client: Client, data: object, message: MQTTMessage) -> None:
        if message.retain and not self._retained:  # brokers of version 3 send retained messages nevertheless
            client.ack(message.mid, message.qos)
            return
        arrival = Arrival(message.topic, bytes(message.payload), message.mid, message.qos)
        if arrival.qos:
            known, digest = self._known.get(arrival.mid), arrival.digest
            if message.dup and known == digest:
                with self._there:
                    waits = any(arrival.mid == other.mid for other in (*self._open, *self._came))
                if not waits:
                    client.ack(arrival.mid, arrival.qos)
                return
            self._known[arrival.mid] = digest
        with self._there:
            self._came.append(arrival)
            self._there.notify_all()

    def _stands(self) -> None:
        with self._there:
            self._subscribed = True
            self._there.notify_all()

    def _fail(self, reason: str, hint: str) -> None:
        with self._there:
            self._error = self.address.refused(reason, hint)
            self._there.notify_all()
        self._client.disconnect()


def secured(client: Client, address: Address) -> None:
    """Set a client's login and certificates as an address requires. Raises CepError if they cannot be read."""
    if address.user is not None:
        client.username_pw_set(address.user, address.password)
    options = address.options
    try:
        if address.tls:
            client.tls_set(options.get("ca"), options.get("cert"), options.get("key"))
    except (OSError, ValueError) as error:
        raise address.refused(f"TLS: {str(error).lower()}", "`ca`, `cert` and `key` name PEM files") from None


def unreachable(address: Address, error: Exception) -> SourceLost:
    """Return the error for a connection that cannot be opened."""
    reason = reason_of(error)
    hint = "is the broker running, are host and port right, and does TLS (mqtts://) fit its settings?"
    return SourceLost(f"{address.text}: no broker: {reason}", hint=hint, code="input")


def refusal(address: Address, reason: str) -> tuple[str, str]:
    """Explain in plain words why a broker refuses a connection. Return the explanation and a hint.

    `reason`: the text of the broker's reason code.
    """
    user, password = "SEMCEP_MQTT_USER", "SEMCEP_MQTT_PASSWORD"
    hint = f"`{address.kind}://user:password@host`, or set {user} and {password} in the environment"
    if "version" in reason.lower():
        hint = "for an older broker, use `?version=3`"
    return f"the broker refuses: {reason.lower()}", hint


def messages(address: Address, arrived: Sequence[Arrival], numbers: Sequence[int]) -> Messages:
    """Return arrivals as `Messages`. Their sources are `mqtt://host:port/topic` or `tcp://host:port`."""
    place = address.text.removesuffix(address.path)
    sources, topics = [place + msg.topic for msg in arrived], [msg.topic for msg in arrived]
    return Messages(sources, numbers, [msg.payload for msg in arrived], topics=topics if address.kind == "mqtt" else ())


def _filter(topic: str) -> bool:
    levels = topic.split("/")
    return not any(
        ("#" in level and (level != "#" or place + 1 < len(levels))) or ("+" in level and level != "+")
        for place, level in enumerate(levels)
    )
