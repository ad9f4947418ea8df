"""Kafka as an input. The caller requests ranges of offsets in the partitions, so each message is read once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Messages
from cep.connectors.brokers.sources import SourceLost
from cep.core.extras import install_command

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

WAIT = 10.0
"""The time limit in seconds for an answer of a broker. For messages that certainly exist, it is six times as long."""

Offsets = Mapping[int, int]
"""The offset of the next message, by partition."""

_AT_ONCE = 10_000
_BYTES = 1 << 26
_LOOK = 0.1  # seconds between two polls
_NO_GROUP = "semcep"  # librdkafka requires a group, even if it is not used


class Topic:
    """A topic that is read by offsets. The caller keeps track of the offsets that were read."""

    def __init__(self, address: Address) -> None:
        """Check an address, and create a consumer for its topic.

        Raises CepError if confluent-kafka is not installed, the address has no topic, or an option is wrong.
        """
        if not address.path or "/" in address.path:
            raise address.refused("the address names no topic", f"e.g. `kafka://{address.servers}/readings`")
        self.address, self.name = address, address.path
        self._error: str | None = None
        try:
            from confluent_kafka import Consumer, KafkaException
        except ModuleNotFoundError:
            raise address.refused("Kafka needs confluent-kafka", install_command("kafka")) from None
        self._failure = KafkaException
        settings = _reading(address) | {"error_cb": self._failed}
        try:
            self._consumer: Consumer = Consumer(settings)
        except (KafkaException, ValueError, TypeError) as error:
            raise address.refused(f"a setting is wrong: {reason_of(error)}") from None

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions. Raises CepError if the broker lacks the topic or does not answer."""
        metadata = self._ask(lambda: self._consumer.list_topics(self.name, timeout=WAIT)).topics[self.name]
        if metadata.error is not None or not metadata.partitions:
            every = self._ask(lambda: self._consumer.list_topics(timeout=WAIT)).topics
            known_topics = ", ".join(sorted(name for name in every if not name.startswith("_"))[:10]) or "none"
            reason = "no such topic" if metadata.error is None else reason_of(metadata.error)
            raise self.address.refused(reason, f"the broker has the topics {known_topics}")
        return sorted(metadata.partitions)

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return, for each partition, the first available offset and the offset of the next message.

        Raises CepError if the broker does not answer.
        """
        return {number: self._bounds(number) for number in self.partitions()}

    def begin(self) -> dict[int, int]:
        """Return the offsets at which to start, by partition.

        They are the earliest available offsets or, with `from=latest`, the offsets of the next messages. Raises
        CepError if the broker does not answer.
        """
        last = self.address.choice("from", ("earliest", "latest")) == "latest"
        return {number: bounds[last] for number, bounds in self.bounds().items()}

    def following(self, start: Offsets, most: int | None) -> dict[int, int]:
        """Return the end offsets for reading about `most` messages from `start` on. None means all available messages.

        A partition that has more unread messages gets a larger share, so that all partitions are read up to about the
        same time. Raises CepError if some messages from `start` on are no longer available. With `gone=skip`, these
        messages are skipped, and the error is only raised if the partition ends before `start`.
        """
        ends = dict(start)
        gone = self.address.choice("gone", ("refuse", "skip")) == "refuse"
        for number, (first, last) in self.bounds().items():
            begin = start.get(number, 0)
            if last < begin or (first > begin and gone):
                kept = f"the broker has {first} to {last}" if last > first else "the broker has none"
                raise self.address.refused(
                    f"the messages of partition {number} from offset {begin} on are no longer on the broker: {kept}",
                    "were they deleted, or was the topic created anew? `?gone=skip` reads the messages that are left",
                )
            ends[number] = last
        waiting = sum(end - start.get(number, 0) for number, end in ends.items())
        if most is None or waiting <= most:
            return ends
        shares = {}
        for number, end in ends.items():
            begin = start.get(number, 0)
            shares[number] = min(end, begin + -(-(end - begin) * most // waiting))
        return shares

    def read(self, start: Offsets, end: Offsets) -> Iterator[tuple[Messages, list[int]]]:
        """Yield the messages from `start` to `end` (exclusive) and their timestamps in milliseconds.

        Each pair contains some messages of one partition. Raises CepError if messages do not arrive.
        """
        for number in sorted(end):
            if end[number] > start.get(number, 0):
                yield from self._range(number, start.get(number, 0), end[number])

    def commit(self, offsets: Offsets) -> None:
        """Store offsets at the broker for the consumer group. Raises CepError if the broker refuses them."""
        places = [self._place(number, offset) for number, offset in offsets.items()]
        self._ask(lambda: self._consumer.commit(offsets=places, asynchronous=False))

    def committed(self) -> dict[int, int]:
        """Return, by partition, the offsets that the consumer group has stored at the broker. Partitions for which no
        offset is stored are left out."""
        places = [self._place(number) for number in self.partitions()]
        positions = self._ask(lambda: self._consumer.committed(places, timeout=WAIT))
        return {place.partition: place.offset for place in positions if place.offset >= 0}

    def close(self) -> None:
        self._consumer.close()

    def source(self, number: int) -> str:
        """Return the name of a partition. Error reports contain this name in place of the name of a file."""
        return f"{self.address.text}/{number}"

    def _range(self, number: int, start: int, end: int) -> Iterator[tuple[Messages, list[int]]]:
        from confluent_kafka import KafkaError

        first, _ = self._bounds(number)
        self._ask(lambda: self._consumer.assign([self._place(number, max(start, first))]))
        source, position, deadline = self.source(number), start, time.monotonic() + 6 * WAIT
        while position < end:
            numbers: list[int] = []
            payloads: list[bytes] = []
            keys: list[bytes | None] = []
            times: list[int] = []
            count = min(_AT_ONCE, end - position)
            for message in self._ask(lambda count=count: self._consumer.consume(count, _LOOK)):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise SourceLost(f"{self.address.text}: {reason_of(error)}", code="input")
                position = max(position, message.offset() + (error is None))
                if error is None and message.offset() < end:
                    numbers.append(message.offset())
                    payloads.append(message.value() or b"")
                    keys.append(message.key())
                    times.append(message.timestamp()[1])
            if numbers:
                deadline = time.monotonic() + 6 * WAIT
                yield Messages([source] * len(numbers), numbers, payloads, keys=keys), times
            elif position < end and time.monotonic() > deadline:
                reason = f"messages {position} to {end} of partition {number} have not arrived for {6 * WAIT:g} s"
                more = f": {self._error}" if self._error else ""
                raise SourceLost(f"{self.address.text}: {reason}{more}", code="input")

    def _bounds(self, number: int) -> tuple[int, int]:
        place = self._place(number)
        first, last = self._ask(lambda: self._consumer.get_watermark_offsets(place, timeout=WAIT))
        return first, last

    def _place(self, number: int, offset: int | None = None) -> TopicPartition:
        from confluent_kafka import TopicPartition

        return TopicPartition(self.name, number) if offset is None else TopicPartition(self.name, number, offset)

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._failure as error:
            hint = "is a broker running at this address, and do TLS (kafkas://) and the login fit its settings?"
            what = f"{self.address.text}: no answer: {self._error or reason_of(error)}"
            raise SourceLost(what, hint=hint, code="input") from None

    def _failed(self, error: Any) -> None:
        self._error = reason_of(error)


class TopicSource:
    """The messages of a topic as they arrive. `place`: the offsets at which to start.

    With `group=`, the broker stores the offsets up to which messages were processed. The next run continues there
    unless `place` contains other offsets. With `until=now`, only messages that exist at the start are read.
    """

    lost = None

    def __init__(self, topic: Topic, place: Offsets) -> None:
        address = topic.address
        self._topic = topic
        self._grouped = "group" in address.options
        self._start = topic.begin() | (topic.committed() if self._grouped else {}) | dict(place)
        self._end = self._acknowledged = self._start
        self._most = 1 << 62  # the number of messages per poll, adapted to their size
        bounded = address.choice("until", ("ever", "now")) == "now"
        self._target = topic.following(self._start, None) if bounded else None

    @classmethod
    def open(cls, address: Address, place: Offsets | None = None) -> TopicSource:
        """Open a source that starts at `place`. Raises CepError if the broker lacks the topic or does not answer."""
        return cls(Topic(address), place or {})

    @property
    def place(self) -> Offsets:
        """The offsets that follow the last processed messages."""
        return self._start

    def poll(self, most: int, seconds: float) -> Messages | None:
        """Return up to `most` messages of at most about 64 MiB in total. Wait up to `seconds` for new messages.

        Return None if all messages up to `until=now` have been returned.
        """
        while True:
            self._end = self._topic.following(self._start, min(most, self._most))
            if self._target is not None:
                self._end = {number: min(end, self._target.get(number, 0)) for number, end in self._end.items()}
                if all(self._start.get(number, 0) >= end for number, end in self._target.items()):
                    return None
            if all(end <= self._start.get(number, 0) for number, end in self._end.items()):
                time.sleep(min(_LOOK, seconds))
            parts: list[tuple[Messages, list[int]]] = []
            size = count = 0
            for part in self._topic.read(self._start, self._end):
                parts.append(part)
                size += sum(map(len, part[0].payloads))
                count += len(part[0])
                if size > _BYTES and count > len(self._end):
                    break
            else:
                self._most = max(self._most, min(2 * self._most, 1 << 62)) if 4 * size < _BYTES else self._most
                return replace(merged(parts), place=dict(self._end))
            self._most = max(1, count // 2 * _BYTES // size)

    def done(self) -> None:
        self._start = self._end

    def kept(self) -> None:
        if self._grouped and self._start != self._acknowledged:
            self._topic.commit(self._start)
            self._acknowledged = self._start

    def close(self) -> None:
        self._topic.close()


def merged(parts: Sequence[tuple[Messages, list[int]]]) -> Messages:
    """Merge the messages of several partitions by timestamp. The messages of each partition stay in order.

    `parts`: the messages of each partition, with their timestamps.
    """
    sources = [source for part, _ in parts for source in part.sources]
    numbers = [number for part, _ in parts for number in part.numbers]
    payloads = [payload for part, _ in parts for payload in part.payloads]
    keys = [key for part, _ in parts for key in part.keys]
    arrivals: list[int] = []
    for part, times in parts:
        before = arrivals[-1] if arrivals and part.sources[0] == sources[len(arrivals) - 1] else 0
        arrivals += np.maximum.accumulate(np.maximum(times, before)).tolist()
    order = np.argsort(arrivals, kind="stable").tolist()
    ordered = [sources[i] for i in order], [numbers[i] for i in order], [payloads[i] for i in order]
    return Messages(*ordered, keys=[keys[i] for i in order] if len(keys) == len(order) else ())


def _reading(address: Address) -> dict[str, Any]:
    return {
        "group.id": address.options.get("group", _NO_GROUP),
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": 1,
        "fetch.wait.max.ms": 50,
    } | settings(address)


def settings(address: Address) -> dict[str, Any]:
    """Return the settings that librdkafka needs for an address: the broker and the login."""
    options = address.options
    config: dict[str, Any] = {"bootstrap.servers": address.servers, "log_level": 0}
    if address.user is not None:
        config["sasl.username"], config["sasl.password"] = address.user, address.password or ""
        config["sasl.mechanism"] = options.get("sasl", "PLAIN")
    config["security.protocol"] = layer(address)
    files = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    config |= {name: options[option] for option, name in files.items() if option in options}
    return config | {name: value for name, value in options.items() if "." in name}


def layer(address: Address) -> str:
    """Return the security protocol of an address, as librdkafka names it."""
    return ("SASL_" if address.user is not None else "") + ("SSL" if address.tls else "PLAINTEXT")


def reason_of(error: Any) -> str:
    """Return the reason of a librdkafka error, in lower case and without librdkafka's internal names."""
    cause = error.args[0] if isinstance(error, Exception) and error.args else error
    text = str(cause.str() if hasattr(cause, "str") else cause)
    return text.rpartition("]: ")[2].removeprefix("Broker: ").rstrip(".").lower()
