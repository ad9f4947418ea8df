"""Entries of an outbox, as its readers see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.connectors.alerts.lifecycle import AlertChange


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A change with its number, from 1 in the order of arrival; numbers may have gaps.

    `came`: when it was added, by the clock of the machine, microseconds of Unix time; None: it was not recorded.
    `reminder`: the number of the reminder of it, 0: it is new to receivers. `composed`: when the group was formed in
    which a receiver is sent it, the same for a repetition; None: it is not sent in a group. `group`: the name of the
    group's message; None: the first entry names it.
    """

    number: int
    change: AlertChange
    came: int | None = None
    reminder: int = 0
    composed: int | None = field(default=None, compare=False)
    group: str | None = field(default=None, compare=False)

    @property
    def message(self) -> str:
        """The name of what a receiver is sent, the same for a repetition: the id of the change, and the number of a
        reminder."""
        return f"{self.change.id}.{self.reminder}" if self.reminder else self.change.id


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that a receiver has refused: the reason, and when the sender gave up, as `OutboxEntry.came`. `again`: it
    will be sent once more."""

    entry: OutboxEntry
    reason: str
    time: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """The progress of a receiver: the number of its last entry, how many entries wait, how many it has refused."""

    name: str
    cursor: int
    waiting: int
    dead: int


@dataclass(slots=True)
class ReceiverCounts:
    """Counts of a sender since the start: accepted changes, failed attempts, and whether the last one failed."""

    delivered: int = 0
    failures: int = 0
    failing: bool = False


class Closed(Exception):
    """The outbox was used after it was closed."""
