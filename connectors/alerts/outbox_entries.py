"""Entries of an outbox, in the form in which feeds and senders read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.connectors.alerts.lifecycle import AlertChange


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A change of an alert in the outbox, with its number. Numbers increase from 1, and some may be missing.

    - `recorded`: the wall-clock time when the change was added (microseconds of Unix time), or None if it is unknown.
    - `reminder`: the number of the reminder about this change; 0 for the change itself.
    - `composed`: the time when the message that contains the change was composed. A repetition of the message has the
      same time. It is None if the change is not part of a group's message.
    - `group`: the id of the group's message. It is None if the message has the id of its first entry.
    """

    number: int
    change: AlertChange
    recorded: int | None = None
    reminder: int = 0
    composed: int | None = field(default=None, compare=False)
    group: str | None = field(default=None, compare=False)

    @property
    def message(self) -> str:
        """The id of the message to a receiver. It consists of the id of the change and, for a reminder, the number of
        the reminder. A repeated message has the same id."""
        return f"{self.change.id}.{self.reminder}" if self.reminder else self.change.id


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that a receiver has refused.

    - `reason`: the receiver's reason.
    - `time`: the wall-clock time when the sender gave up, in microseconds of Unix time.
    - `again`: True if the entry will be sent once more.
    """

    entry: OutboxEntry
    reason: str
    time: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """The progress of a receiver: the number of the last entry that it has accepted, the number of entries that wait,
    and the number of entries that it has refused."""

    name: str
    cursor: int
    waiting: int
    dead: int


@dataclass(slots=True)
class ReceiverCounts:
    """The counters of a sender since its start.

    - `delivered`: the number of accepted changes.
    - `failures`: the number of failed attempts.
    - `failing`: True if the last attempt has failed.
    """

    delivered: int = 0
    failures: int = 0
    failing: bool = False


class Closed(Exception):
    """Raised if the outbox is used after it was closed."""
