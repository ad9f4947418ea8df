"""Conversion of messages to batches. A message is read like a line of a file. Errors name its source and number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.clauses import ClauseReader
from cep.connectors.formats.influx import PointReader
from cep.connectors.formats.packs import DocumentLines, PackReader
from cep.connectors.formats.record_scan import BETWEEN, a_line_each
from cep.connectors.formats.sosa import Documents, invalidates
from cep.connectors.inputs import Input
from cep.connectors.records.batch import Batch, Block, DeadLetter, says_change
from cep.connectors.records.paths import KEY, from_message, level, sources
from cep.core.schema import Schema


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of live inputs, in the order of their arrival.

    - `sources`: the source of each message, such as `mqtt://host/topic`.
    - `numbers`: the number of each message in its source.
    - `payloads`: the contents of each message.
    - `place`: the position after these messages. The source defines the keys and values. A key that is absent has
      the same value as in the `place` of the previous messages.
    - `topics`, `keys`: the topic and the key of each message; empty if the source has no topics or keys.
    """

    sources: Sequence[str]
    numbers: Sequence[int]
    payloads: Sequence[bytes]
    place: Mapping[int, int] = field(default_factory=dict)
    topics: Sequence[str] = ()
    keys: Sequence[bytes | None] = ()

    def beside(self, sources: Sequence[str]) -> dict[str, Sequence[str | None]]:
        """Return values that belong to messages but are not in their contents: levels of the topic, and the key.

        `sources`: the names of the values to return. Each is mapped to one value per message.
        """
        columns: dict[str, Sequence[str | None]] = {}
        for source in sources:
            number = level(source)
            if source == KEY and self.keys:
                columns[source] = [_text(key) for key in self.keys]
            elif number is not None and self.topics:
                levels = {topic: dict(enumerate(topic.split("/"))).get(number) for topic in set(self.topics)}
                columns[source] = [levels[topic] for topic in self.topics]
        return columns

    def __len__(self) -> int:
        return len(self.payloads)


@dataclass(frozen=True, slots=True)
class Received(Block):
    """A block of records that arrived in messages. `rows`: for each record, the index of its message."""

    messages: Messages = Messages((), (), ())

    def place(self, order: int) -> tuple[str, int]:
        row = self._row(order - self.first)
        return self.messages.sources[row], self.messages.numbers[row]

    def without_text(self) -> Block:
        """Return the block without the contents of its messages: a plain `Block` if all have the same source."""
        (source, *others) = dict.fromkeys(self.messages.sources)
        if not others:
            return Block(source, self.first, self.count, 0, self.lines, times=self.times).in_rows()
        return replace(self, data=None, starts=None, messages=replace(self.messages, payloads=(), topics=(), keys=()))

    def _text(self, place: int) -> str | None:
        return self.messages.payloads[self._row(place)].decode("utf-8", "replace") if self.messages.payloads else None

    def _row(self, place: int) -> int:
        assert self.rows is not None and 0 <= place < self.count, "a record is looked for in its own block"
        return int(self.rows[place])


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _records(payloads: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """Return the records in messages as lines. The second result contains, for each line, the index of its message.

    A message contains one record or a list of records.
    """
    lines: list[bytes] = []
    counts = np.ones(len(payloads), np.int64)
    for number, payload in enumerate(payloads):
        if payload.lstrip()[:1] == b"[":
            some, first, beyond, _, place = a_line_each(
                np.frombuffer(payload, np.uint8), BETWEEN, True, len(payload) // 2 + 2
            )
            if place == BETWEEN:
                counts[number] = len(beyond)
                lines += [some[begin:end].tobytes() for begin, end in zip(first, beyond)]
                continue
        # A line break or a carriage return may be between the values of a message, where it does not end a line.
        lines.append(payload.replace(b"\n", b"\r"))
    return b"\n".join([*lines, b""]), np.repeat(np.arange(len(payloads)), counts)


class Inbox:
    """A reader that turns the messages of one input into batches."""

    def __init__(self, input: Input, schemas: Mapping[str, Schema]) -> None:
        self.path = input.path
        self._read = input.known.open(schemas, input.type, input.bound)
        wanted = (source for schema in schemas.values() for source in sources(schema, ()))
        self._says_changes = invalidates if input.known.shape == "graph" else says_change
        self._beside = [source for source in dict.fromkeys(wanted) if from_message(source)]

    def batch(self, messages: Messages, first: int) -> Batch:
        """Turn messages into a batch. `first`: the number of the first record.

        A message without bytes is not a record. In MQTT, it deletes a retained message. In Kafka, it deletes a key.
        """
        tables, dead, block = self._tables(messages, first)
        tables = {type: table for type, table in tables.items() if table.height}
        sources, numbers = messages.sources, messages.numbers
        dead = [replace(record, file=sources[record.line], line=numbers[record.line]) for record in dead]
        return Batch(tables, dead, [block])

    def _tables(self, messages: Messages, first: int) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Received]:
        unmatched = 0
        if isinstance(self._read, Documents):
            table, dead, rows = self._read.read(messages.payloads, first)
            tables = {self._read.schema.name: table}
            times = "iso"
        elif isinstance(self._read, PackReader):
            tables, dead, rows, times, unmatched = self._packs(self._read, messages, first)
        elif isinstance(self._read, PointReader | ClauseReader):  # a message may have many lines
            of = np.repeat(np.arange(len(messages)), [payload.count(b"\n") + 1 for payload in messages.payloads])
            data = b"\n".join([*messages.payloads, b""])
            tables, dead, block = self._read.read(self.path, data, 0, 0, first, self._beside_rows(messages, of))
            rows = of[: block.count] if block.lines is None else of[block.lines]
            dead = [replace(record, line=int(of[record.line])) for record in dead]
            times, unmatched = block.times or "", block.unmatched
        else:
            data, of = _records(messages.payloads)
            tables, dead, block = self._read.read(self.path, data, 0, 0, first, self._beside_rows(messages, of))
            rows = of[: block.count] if block.lines is None else of[block.lines]
            dead = [replace(record, line=int(of[record.line])) for record in dead]
            times, unmatched = block.times or "", block.unmatched
        lines = np.asarray(messages.numbers, np.int64)[rows]
        said = any(map(self._says_changes, messages.payloads))
        block = Received(
            self.path,
            first,
            len(rows),
            0,
            lines,
            times=times or None,
            said=said,
            unmatched=unmatched,
            messages=messages,
            rows=rows,
        )
        return tables, dead, block

    def _packs(
        self, packs: PackReader, messages: Messages, first: int
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], NDArray[np.int64], str, int]:
        """Read messages that contain packs of several records. Returns:

        - the tables of events
        - the dead letters; the line number of each is the index of its message
        - the message index of each row
        - the format of times
        - the number of records that match no event
        """
        documents = DocumentLines()
        for number, payload in enumerate(messages.payloads):
            if payload:
                packs.message(payload, number, documents)
        of = np.array(documents.document, np.int64)
        table, dead, index, times, unmatched = packs.tables(documents, first, self._beside_rows(messages, of))
        refused = []
        for record in dead:
            number = int(of[record.line])
            text = documents.text(record.line, messages.payloads[number].decode("utf-8", "surrogateescape"))
            refused.append(replace(record, line=number, text=text))
        tables = {} if table is None else {packs.schema.name: table}
        return tables, refused, of[index], times or "", unmatched

    def _beside_rows(self, messages: Messages, of: NDArray[np.int64]) -> dict[str, Sequence[str | None]] | None:
        if not self._beside:
            return None
        beside = messages.beside(self._beside)
        return {source: [texts[number] for number in of.tolist()] for source, texts in beside.items()}
