"""Entries of an outbox, as read by feeds and senders."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.connectors.alerts.lifecycle import AlertChange


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A change of an alert with its number. Numbers start at 1 and increase in the order of arrival; they may have
    gaps.

    `recorded`: the wall-clock time when it was added (microseconds of Unix time), or None if it was not recorded.
    `reminder`: the number of the reminder about this change; 0 for the change itself. `composed`: the time when the
    group's message to a receiver was composed, which stays the same if the message is repeated. None outside groups.
    `group`: the id of the group's message; None: the message has the id of its first entry.
    """

    number: int
    change: AlertChange
    recorded: int | None = None
    reminder: int = 0
    composed: int | None = field(default=None, compare=False)
    group: str | None = field(default=None, compare=False)

    @property
    def message(self) -> str:
        """The id of the message to a receiver, which stays the same in repetitions: the id of the change, and the
        number of a reminder."""
        return f"{self.change.id}.{self.reminder}" if self.reminder else self.change.id


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that a receiver has refused: the reason, and the time when the sender gave up (as
    `OutboxEntry.recorded`). `again`: it will be sent once more.
    """

    entry: OutboxEntry
    reason: str
    time: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """The progress of a receiver: the number of its last accepted entry, and the counts of waiting and refused
    entries."""

    name: str
    cursor: int
    waiting: int
    dead: int


@dataclass(slots=True)
class ReceiverCounts:
    """The counters of a sender since the start: accepted changes, failed attempts, and True if the last attempt
    failed."""

    delivered: int = 0
    failures: int = 0
    failing: bool = False


class Closed(Exception):
    """Raised if the outbox is used after it was closed."""
