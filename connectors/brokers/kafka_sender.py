"""Kafka as an output. Messages have a key and the header `id`, and are sent in order. The broker acknowledges them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cep.connectors.addresses import Address
from cep.connectors.brokers.kafka import WAIT as ANSWER
from cep.connectors.brokers.kafka import reason_of, settings
from cep.connectors.brokers.message_sender import WAIT, Message
from cep.core.errors import UNREACHABLE, CepError
from cep.core.extras import install_command

if TYPE_CHECKING:
    from confluent_kafka import Producer

_MAKING = 2.0  # seconds for a broker to create a topic
_SLICE = 0.2  # seconds to wait at a time, so that Ctrl-C is not delayed


class KafkaSender:
    """An idempotent producer: the broker stores a message once, even if the producer repeats it."""

    def __init__(self, address: Address, topics: Sequence[str]) -> None:
        """Connect to the broker, and check that the topics exist.

        Raises CepError if confluent-kafka is not installed, a setting is wrong, the broker cannot be reached, or a
        topic does not exist.
        """
        self._address = address
        self._failed: CepError | None = None
        self._error = "the broker does not answer"
        try:
            from confluent_kafka import KafkaError, KafkaException, Producer
        except ModuleNotFoundError:
            raise address.refused("Kafka needs confluent-kafka", install_command("kafka")) from None
        self._passing = (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
        usual: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": int(WAIT * 1000)}
        try:
            self._producer: Producer = Producer(usual | settings(address) | {"error_cb": self._heard})
        except (KafkaException, ValueError, TypeError) as error:
            raise address.refused(f"a setting is wrong: {reason_of(error)}") from None
        for topic in topics:
            self._look(topic)

    def _look(self, topic: str) -> None:
        """Check that a topic exists. If the check causes the broker to create the topic, wait until the topic is ready.

        Raises an error if the topic does not exist after the time limit.
        """
        from confluent_kafka import KafkaException

        until = time.monotonic() + _MAKING
        while True:
            try:
                answer = self._producer.list_topics(topic, timeout=ANSWER).topics[topic]
            except KafkaException as error:
                hint = "is a broker running at this address, and do TLS (kafkas://) and the login fit its settings?"
                raise self._lost(f"no answer: {reason_of(error)}", hint) from None
            if answer.error is None:
                return
            if time.monotonic() > until:
                raise self._lost(
                    f"topic {topic}: {reason_of(answer.error)}", "create the topic, or let the broker create topics"
                )
            time.sleep(_SLICE)

    def send(self, messages: Sequence[Message]) -> None:
        self._failed = None
        for message in messages:
            while self._failed is None:
                try:
                    self._producer.produce(
                        message.topic,
                        message.payload,
                        message.key,
                        headers={"id": message.id},
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:  # the queue is full
                    self._producer.poll(_SLICE)
            self._producer.poll(0)
        since = time.monotonic()
        while self._failed is None and self._producer.flush(_SLICE):
            if time.monotonic() - since > 2 * WAIT:
                raise self._lost(f"the broker has not confirmed {len(self._producer)} messages: {self._error}")
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(_SLICE)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            if error.code() in self._passing:
                self._failed = self._lost(f"the broker has not confirmed a message: {reason_of(error)} ({self._error})")
            else:
                self._failed = CepError(
                    f"{self._address.text}: the broker refuses a message: {reason_of(error)}", code="output"
                )

    def _heard(self, error: Any) -> None:
        self._error = reason_of(error)

    def _lost(self, reason: str, hint: str | None = None) -> CepError:
        return CepError(f"{self._address.text}: {reason}", hint=hint, code=UNREACHABLE)
