"""Send derived events as messages to a broker. Each message has an `id` by which receivers can recognise duplicates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from cep.connectors.addresses import OUTPUTS, Address, address
from cep.connectors.brokers.message_sender import Message, MessageSender
from cep.connectors.records.records import closest
from cep.core.errors import CepError
from cep.core.identity import ID
from cep.core.schema import CHANGE, Schema

_TYPE = "{type}"


class Sending:
    """A file-like object that sends each line of JSON to its topic.

    After a failed `write` or a crash, messages may be sent again with the same `id`.
    """

    def __init__(self, text: str, schemas: Mapping[str, Schema]) -> None:
        """Connect to the broker at the address `text`. `schemas`: the event types that will be written.

        Raises CepError if the address is wrong or the broker cannot be reached.
        """
        target = output_address(text, schemas)
        self._topic, self._by = target.path, target.options.get("by")
        self._revised = any(attribute.name == CHANGE for schema in schemas.values() for attribute in schema.attributes)
        self._seen: Counter[bytes] = Counter()
        """For each line of the last `write`, the number of its occurrences so far. If the next `write` contains an
        equal line, it continues this count."""
        self._sender = _sender(target, sorted({self._topic.replace(_TYPE, type) for type in schemas}))

    def write(self, piece: bytes | memoryview) -> None:
        """Send whole lines. Each line may begin with an id (`with_ids`).

        Raises CepError if the broker does not accept the lines. If the error has the code `UNREACHABLE`, the broker may
        accept them later.
        """
        lines = bytes(piece).splitlines()
        ids, self._seen = _ids(lines, self._seen)
        self._sender.send([self._message(line, id) for line, id in zip(lines, ids, strict=True)])

    def close(self) -> None:
        self._sender.close()

    def discard(self) -> None:
        """Close the sender. Messages that were already sent are not withdrawn."""
        self._sender.close()

    def _message(self, line: bytes, id: str) -> Message:
        if not line.startswith(b"{"):
            name, _, line = line.partition(b" ")
            id = name.decode()
        topic, key = self._topic, id.encode()
        if self._by is not None or self._revised or _TYPE in topic:
            record = json.loads(line)
            # with the same key, the withdrawal of a row arrives after it
            key = record[ID].encode() if self._revised else key
            topic = topic.replace(_TYPE, record["type"])
            if self._by is not None and self._by in record:
                value = record[self._by]
                key = (value if isinstance(value, str) else json.dumps(value)).encode()
        return Message(topic, key, line, id)


def with_ids(written: bytes, canonical: bytes) -> bytes:
    """Write an id and a space before each line of JSON. The id is a hash of the line's canonical form.

    `written`: the lines as they are sent. `canonical`: the same lines with times in ISO 8601.
    """
    ids, _ = _ids(canonical.splitlines(), Counter())
    pairs = zip(written.splitlines(), ids, strict=True)
    return b"".join(b"%b %b\n" % (id.encode(), line) for line, id in pairs)


def _ids(lines: Sequence[bytes], before: Counter[bytes]) -> tuple[list[str], Counter[bytes]]:
    """Return a different id for each line, and for each of these lines the number of its occurrences so far.

    `before`: for each line, the number of its occurrences before `lines`.
    """
    ids: list[str] = []
    seen: Counter[bytes] = Counter()
    for line in lines:
        number = seen[line] = (seen[line] or before[line]) + 1
        ids.append(blake2b(line if number == 1 else b"%b %d" % (line, number), digest_size=16).hexdigest())
    return ids, seen


def is_topic(text: str) -> bool:
    """Return True if an output is the topic of a broker, rather than a file or folder."""
    kind, scheme, _ = text.partition("://")
    return bool(scheme) and kind.removesuffix("s") in OUTPUTS


def output_address(text: str, schemas: Mapping[str, Schema]) -> Address:
    """Parse the address of an output. `schemas`: the written event types. Raises CepError if it is wrong."""
    target = address(text, OUTPUTS)
    if not target.path:
        raise _wrong(target, "the address names no topic", f"e.g. `{target.text.rstrip('/')}/derived`")
    odd = _TYPE in target.path and target.kind == "kafka" and "/" in target.path
    if odd or any(letter in target.path.replace(_TYPE, "") for letter in "{}+#"):
        raise _wrong(
            target, "the path is not a valid topic", "`{type}` stands for the name of the event: `derived/{type}`"
        )
    by = target.options.get("by")
    names = {attribute.name for schema in schemas.values() for attribute in schema.attributes} | {"type"}
    if by is not None and by not in names:
        hint = "attributes are " + ", ".join(sorted(names))
        raise _wrong(target, f"`by={by}`: no derived event has this attribute{closest(by, sorted(names))}", hint)
    return target


def _sender(target: Address, topics: Sequence[str]) -> MessageSender:
    if target.kind == "kafka":
        from cep.connectors.brokers.kafka_sender import KafkaSender

        return KafkaSender(target, topics)
    from cep.connectors.brokers.mqtt_sender import MqttSender

    return MqttSender(target)


def _wrong(target: Address, reason: str, hint: str) -> CepError:
    return CepError(f"--output {target.text}: {reason}", hint=hint, code="output")
