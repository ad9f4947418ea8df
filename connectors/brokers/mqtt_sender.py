"""MQTT as an output. Messages have QoS 1 and, in MQTT 5, the user property `id`. The broker acknowledges them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cep.connectors.addresses import Address
from cep.connectors.brokers.message_sender import WAIT, Message
from cep.connectors.brokers.mqtt import WAIT as ANSWER
from cep.connectors.brokers.mqtt import refusal, secured, unreachable
from cep.core.errors import UNREACHABLE, CepError
from cep.core.extras import install_command

if TYPE_CHECKING:
    from paho.mqtt.client import Client

_AT_ONCE = 10_000  # messages in transit; MQTT has 65,535 packet identifiers
_SLICE = 0.2  # seconds to wait at a time, so that Ctrl-C is not delayed


class MqttSender:
    """A client that reconnects automatically and then repeats the messages that were not acknowledged."""

    def __init__(self, address: Address) -> None:
        """Connect to the broker.

        Raises CepError if paho-mqtt is not installed, an option is wrong, or the connection fails or is refused.
        """
        self._address = address
        self._new = address.choice("version", ("5", "3")) == "5"
        self._qos = int(address.choice("qos", ("1", "2", "0")))
        self._retain = address.choice("retain", ("0", "1")) == "1"
        self._there = threading.Condition()
        self._connected = False
        self._waiting: set[int] = set()
        self._early: set[int] = set()  # those acknowledged before `publish` has returned their number
        self._refused: CepError | None = None
        self._client = self._made()
        host, port = address.hosts[0]
        try:
            self._client.connect(host, port)
        except (OSError, ValueError) as error:
            refusal = unreachable(address, error)
            raise CepError(refusal.message, hint=refusal.hint, code=UNREACHABLE) from None
        self._client.loop_start()
        with self._there:
            self._there.wait_for(lambda: self._connected or self._refused is not None, ANSWER)
        if not self._connected:
            self.close()
            raise self._refused or self._lost(f"the broker has not answered for {ANSWER:g} s")

    def send(self, messages: Sequence[Message]) -> None:
        for first in range(0, len(messages), _AT_ONCE):
            self._sent(messages[first : first + _AT_ONCE])

    def _sent(self, messages: Sequence[Message]) -> None:
        for message in messages:
            sent = self._client.publish(
                message.topic, message.payload, self._qos, self._retain, self._properties(message)
            )
            with self._there:
                if sent.mid in self._early:
                    self._early.remove(sent.mid)
                else:
                    self._waiting.add(sent.mid)
        left, since = -1, time.monotonic()
        with self._there:
            while self._waiting and self._refused is None:
                self._there.wait(_SLICE)
                if len(self._waiting) != left:
                    left, since = len(self._waiting), time.monotonic()
                elif time.monotonic() - since > WAIT:
                    raise self._lost(f"the broker has not confirmed {left} messages for {WAIT:g} s")
        if self._refused is not None:
            raise self._refused

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _made(self) -> Client:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        except ModuleNotFoundError:
            raise self._address.refused("MQTT needs paho-mqtt", install_command("mqtt")) from None
        version = MQTTProtocolVersion.MQTTv5 if self._new else MQTTProtocolVersion.MQTTv311
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
        secured(client, self._address)
        client.reconnect_delay_set(1, 30)
        client.on_connect, client.on_publish = self._answered, self._published
        return client

    def _properties(self, message: Message) -> Any:
        if not self._new:
            return None
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = ("id", message.id)
        return properties

    # --- called in the thread of the client ---

    def _answered(self, client: Client, data: object, flags: object, reason: Any, properties: object) -> None:
        with self._there:
            if reason.is_failure:
                why, hint = refusal(self._address, str(reason))
                self._refused = CepError(f"{self._address.text}: {why}", hint=hint, code="output")
            self._connected = not reason.is_failure
            self._there.notify_all()

    def _published(self, client: Client, data: object, mid: int, reason: Any, properties: object) -> None:
        with self._there:
            if mid in self._waiting:
                self._waiting.remove(mid)
            else:
                self._early.add(mid)
            if reason.is_failure:
                message = f"{self._address.text}: the broker refuses a message: {str(reason).lower()}"
                self._refused = CepError(message, hint="may this user write to the topic?", code="output")
            self._there.notify_all()

    def _lost(self, reason: str) -> CepError:
        return CepError(f"{self._address.text}: {reason}", code=UNREACHABLE)
