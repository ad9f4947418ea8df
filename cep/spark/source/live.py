"""Live inputs that can be replayed from a position: an offset of Kafka, or a message's number in a log on disk."""

from __future__ import annotations

import json
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cep.connectors.addresses import Address
from cep.connectors.brokers.kafka import Topic
from cep.connectors.brokers.mqtt import Arrival, Subscription
from cep.connectors.brokers.rate import Rate
from cep.connectors.brokers.tcp import Connection
from cep.connectors.inputs import Input
from cep.core.checksum import content, seal
from cep.core.durable_files import sync_names
from cep.core.errors import CepError
from cep.spark.disk import STOP, damaged_file, put
from cep.spark.source.message_log import MessageLog
from cep.spark.source.message_ranges import LoggedMessages, MessageRange, OffsetRange, RateRange

Offset = Any
"""A position in a live input, as a JSON value: a number of messages, or such a number for each partition of a topic."""

_EACH = 100_000  # the maximum number of messages per work item
_LINES, _BYTES = 20_000, 1 << 23  # the same for a log: messages, and bytes
_POLL = 0.1  # seconds
_LONGEST = 10.0  # seconds, or ten times `quiet` if longer: then a finite run stops even if messages never pause
_END = 10.0  # seconds that writing may take when a run stops


class LiveInput(ABC):
    """A live input in the process that plans micro-batches. Its offsets are numbers of messages by default."""

    _target: Any = None

    def begin(self) -> Offset:
        """Return the offset at which a new query begins. All calls return the same offset."""
        return 0

    @abstractmethod
    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the offset after the last message that exists now, but at most `most` messages after `start`. The
        limit is approximate. If `most` is None, there is no limit.

        Raises CepError if the input fails.
        """

    @abstractmethod
    def target(self) -> None:
        """Fix the end of the input: it is after the messages that exist now."""

    def reached(self, offset: Offset) -> bool:
        """Return True if `offset` is at or after the end that `target` has set."""
        return self._target is not None and bool(offset >= self._target)

    @abstractmethod
    def work_items(self, start: Offset, end: Offset) -> list[MessageRange]:
        """Return work items that read the messages between two offsets. The result depends only on the offsets."""

    def commit(self, end: Offset) -> None:
        """Record that messages before this offset will not be read again."""
        return

    def stop(self) -> None:
        return


def live_input(input: Input, number: int, folder: Path) -> LiveInput:
    """Return the live input for an address.

    `number`: the number of the input's first partition. `folder`: the folder of the input's files. Raises CepError if
    the folder belongs to another input.
    """
    address = input.address
    assert address is not None, "a live input has an address"
    before = read_or_make(folder / "address", lambda: address.text)
    if before != address.text:
        hint = "name the inputs as before, in the same order, or start anew with another folder"
        raise CepError(
            f"--checkpoint: this input was {before}, and now it is {address.text}", hint=hint, code="checkpoint"
        )
    match address.kind:
        case "mqtt" | "tcp":
            return LoggedInput(input, address, number, folder)
        case "kafka":
            return TopicInput(input, address, number, folder)
        case kind:
            assert kind == "rate", "there are these"
            return RateInput(input, address, number, folder)


class Arrivals(Protocol):
    """A receiver of messages from a broker or connection."""

    def take(self, most: int, seconds: float) -> list[Arrival] | None:
        """Wait up to `seconds` for messages. Return at most `most` messages, or None if no more messages will arrive.

        Raises CepError if receiving has failed.
        """

    def done(self) -> None:
        """Acknowledge all messages that `take` has returned. The caller must have written these messages to disk."""

    def close(self) -> None: ...


class LoggedInput(LiveInput):
    """Messages from MQTT or from connections. They are written to a log on disk before they are acknowledged.

    An offset is the number of messages in the log.
    """

    def __init__(self, input: Input, address: Address, number: int, folder: Path) -> None:
        self._input, self._address, self._number, self._folder = input, address, number, folder
        self._log = MessageLog(folder)
        self._sender: Arrivals | None = None
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._failure: BaseException | None = None
        self._stopping = False

    def latest(self, start: Offset, most: int | None) -> Offset:
        self._listen(lasting=True)
        running = self._thread.is_alive()
        if self._failure is not None:
            raise self._failure
        if self._target is None and not running:
            raise self._address.refused(
                "receiving has stopped", "run the same command again: it continues where it stopped"
            )
        end = self._log.end if self._target is None else self._target
        if start > self._log.end:
            reason = f"there were messages up to {start}, but now only up to {self._log.end}: the last file is damaged"
            raise CepError(f"{self._folder}: {reason}", code="checkpoint")
        return max(start, end if most is None else min(end, start + most))

    def target(self) -> None:
        self._listen(lasting=False)
        quiet, stop = self._address.number("quiet", 1.0), self._folder.parent / STOP
        seen, since = -1, time.monotonic()
        last = since + max(10 * quiet, _LONGEST)  # otherwise, a stream that never pauses would not end
        while (now := time.monotonic()) < min(since + quiet, last) and self._thread.is_alive() and not stop.exists():
            if self._log.end != seen:
                seen, since = self._log.end, now
            time.sleep(0.01)
        self._stop()  # messages that were not acknowledged stay with the broker
        self._target = self._log.end

    def work_items(self, start: Offset, end: Offset) -> list[MessageRange]:
        return [LoggedMessages(self._number, self._input, cut) for cut in self._log.cuts(start, end, _LINES, _BYTES)]

    def commit(self, end: Offset) -> None:
        self._log.forget(end)

    def stop(self) -> None:
        try:
            self._stop()
        finally:
            self._log.close()  # the next run waits for its lock

    def _listen(self, lasting: bool) -> None:
        """Begin to receive messages, unless this was done before. `lasting`: True to reconnect if a connection ends."""
        if self._sender is None:
            self._sender = self._opened(lasting)
            self._thread.start()

    def _opened(self, lasting: bool) -> Arrivals:
        if self._address.kind == "tcp":
            return Connection(self._address, lasting)
        client = self._address.options.get("client")
        client = client or str(read_or_make(self._folder / "client", lambda: f"semcep-{uuid.uuid4().hex[:12]}"))
        return Subscription.open(self._address, client, self._log.known())

    def _stop(self) -> None:
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join(_END)
        if self._sender is not None:
            self._sender.close()

    def _receive(self) -> None:
        sender = self._sender
        assert sender is not None, "it stands before it is listened to"
        try:
            while not self._stopping and (arrived := sender.take(_EACH, _POLL)) is not None:
                if arrived:
                    self._log.append(arrived)
                    sender.done()
        except Exception as error:  # any error: otherwise, the input would stop unnoticed
            self._failure = error


class TopicInput(LiveInput):
    """A topic of Kafka. An offset contains a number of messages for each partition."""

    def __init__(self, input: Input, address: Address, number: int, folder: Path) -> None:
        self._input, self._number, self._folder = input, number, folder
        self._topic = Topic(address)

    def begin(self) -> Offset:
        return read_or_make(self._folder / "begin", lambda: _named(self._topic.begin()))

    def latest(self, start: Offset, most: int | None) -> Offset:
        now = self._topic.following(_numbered(start), most)
        if self._target is not None:
            now = {
                number: max(start.get(str(number), 0), min(end, self._target.get(number, 0)))
                for number, end in now.items()
            }
        if self._target is None and _named(now) == start:
            time.sleep(_POLL)  # Spark asks again at once, and each answer queries the brokers
        return _named(now)

    def target(self) -> None:
        self._target = {number: last for number, (_, last) in self._topic.bounds().items()}

    def reached(self, offset: Offset) -> bool:
        return self._target is not None and all(offset.get(str(n), 0) >= end for n, end in self._target.items())

    def work_items(self, start: Offset, end: Offset) -> list[MessageRange]:
        ranges: list[MessageRange] = []
        for partition, last in _numbered(end).items():
            path = self._topic.source(partition)
            for first in range(start.get(str(partition), 0), last, _EACH):
                number, stop = self._number + partition, min(last, first + _EACH)
                ranges.append(OffsetRange(number, replace(self._input, path=path), partition, first, stop))
        return ranges

    def stop(self) -> None:
        self._topic.close()


class RateInput(LiveInput):
    """An input `rate://`, which generates records. An offset is the number of records."""

    def __init__(self, input: Input, address: Address, number: int, folder: Path) -> None:
        self._input, self._number = input, number
        self._rate = Rate(address, int(read_or_make(folder / "begin", now)))

    def latest(self, start: Offset, most: int | None) -> Offset:
        end = self._rate.end(now()) if self._target is None else self._target
        return max(start, end if most is None else min(end, start + most))

    def target(self) -> None:
        self._target = self._rate.end(now())

    def work_items(self, start: Offset, end: Offset) -> list[MessageRange]:
        firsts = range(start, end, _EACH)
        return [RateRange(self._number, self._input, self._rate.start, n, min(end, n + _EACH)) for n in firsts]


def read_or_make(file: Path, make: Callable[[], Any]) -> Any:
    """Return the JSON value in a file. If the file does not exist, first write the result of `make` to it durably.

    Raises CepError if the file is damaged.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, seal(json.dumps(make()).encode(), of=file.name.encode()))
        sync_names(file.parent)
    try:
        return json.loads(bytes(content(file.read_bytes(), file.name.encode())))
    except ValueError:
        raise damaged_file(file) from None


def now() -> int:
    """Return the current time in microseconds."""
    return time.time_ns() // 1000


def _numbered(offset: Offset) -> dict[int, int]:
    return {int(number): end for number, end in offset.items()}


def _named(offset: dict[int, int]) -> Offset:
    return {str(number): end for number, end in offset.items()}
