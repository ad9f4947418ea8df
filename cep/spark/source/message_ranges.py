"""Ranges of messages of live inputs. Each range is a work item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cep.connectors.ahead_limits import AheadLimits
from cep.connectors.brokers.kafka import Topic
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.brokers.mqtt import messages
from cep.connectors.brokers.rate import Rate
from cep.connectors.inputs import Input
from cep.spark.source.work_item import WorkItem

if TYPE_CHECKING:
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock
    from cep.spark.source.message_log import LoggedRange


class MessageRange(WorkItem):
    """A range of messages of one input. `number`: a number that identifies the input and the partition. It has the same
    form as the number of a file."""

    def __init__(self, number: int, input: Input, first: int) -> None:
        super().__init__((number, first))
        self.number, self.input, self.first = number, input, first

    @abstractmethod
    def messages(self) -> Iterator[Messages]:
        """Read the messages in a worker."""

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.source.reading import in_time, record_blocks

        name, limit = f"read-{self.number:08}-{self.first:012}", (ahead.live, self.clock)
        inbox = Inbox(self.input, program.read)
        pieces = in_time((inbox.batch(part, 0) for part in self.messages()), limit)
        yield from record_blocks(program, self.number, self.input.path, pieces, dead_letters, name)


class LoggedMessages(MessageRange):
    """A range of messages of a log on disk."""

    def __init__(self, number: int, input: Input, logged: LoggedRange) -> None:
        assert input.address is not None, "messages are received from an address"
        named = replace(input.address, options={}, user=None, password=None)  # workers only name the input
        super().__init__(number, replace(input, address=named), logged.first)
        self.there = logged

    def messages(self) -> Iterator[Messages]:
        assert self.input.address is not None, "messages are received from an address"
        yield messages(self.input.address, self.there.read(), range(self.there.first, self.there.last))


class OffsetRange(MessageRange):
    """A range of messages of a topic's partition, with the offsets from `first` to `end` - 1."""

    def __init__(self, number: int, input: Input, partition: int, first: int, end: int) -> None:
        super().__init__(number, input, first)
        self.partition, self.end = partition, end

    def messages(self) -> Iterator[Messages]:
        assert self.input.address is not None, "a topic has an address"
        topic = Topic(self.input.address)
        try:
            for batch, _ in topic.read({self.partition: self.first}, {self.partition: self.end}):
                yield batch
        finally:
            topic.close()


class RateRange(MessageRange):
    """Records `first` to `end` - 1 of an input `rate://`. `start`: the time of the record with number 0."""

    def __init__(self, number: int, input: Input, start: int, first: int, end: int) -> None:
        super().__init__(number, input, first)
        self.start, self.end = start, end

    def messages(self) -> Iterator[Messages]:
        assert self.input.address is not None, "a rate has an address"
        yield Rate(self.input.address, self.start).read(self.first, self.end)
