"""Entries of an outbox, as its readers see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.connectors.alerts.lifecycle import AlertChange


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A change with its number, from 1 in the order in which they came; numbers may have gaps. `came`: when it was
    added, by the clock of the machine, microseconds of Unix time; None: before that was noted. `reminder`: the how
    manyth time since then receivers are reminded of it, 0: it is new to them. `composed`: when the group was put
    together in which one receiver is sent it, the same when that is repeated; None: it is not sent in a group."""

    number: int
    change: AlertChange
    came: int | None = None
    reminder: int = 0
    composed: int | None = field(default=None, compare=False)

    @property
    def message(self) -> str:
        """The name of what a receiver is sent, the same when that is repeated: the id of the change, and the number of
        the reminder if it is one."""
        return f"{self.change.id}.{self.reminder}" if self.reminder else self.change.id


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that a receiver has refused: why, and when it was given up, as `OutboxEntry.came`. `again`: it is to be
    sent once more."""

    entry: OutboxEntry
    reason: str
    time: int | None
    again: bool


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """How far a receiver has come: its last entry's number, how many wait, how many it has refused."""

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
