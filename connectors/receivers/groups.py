"""Grouping of alerts into messages to a receiver. Times are by the wall clock, as in Alertmanager.

Before a message is sent, the outbox records its contents and time. So after a crash, the message is repeated with the
same contents, and a group does not wait longer than planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers.notices import as_people_know_it


@dataclass(frozen=True, slots=True)
class Group:
    """A group of alerts that share messages.

    - `key`: the key that identifies the group.
    - `wait`: the delay in microseconds between the group's first change and its first message.
    - `interval`: the minimum time in microseconds between later messages.
    """

    key: str
    wait: int = 0
    interval: int = 0


GroupOf = Callable[[AlertChange], Group]


def by_alert(change: AlertChange) -> Group:
    """Return the group of a change if the receiver has no grouping: one group per key of an alert, without a delay."""
    return Group(change.slot)


class Groups:
    """The groups of alerts for one receiver.

    - `name`: the name of the receiver.
    - `has`: a function that takes the number of an entry. It returns True if the receiver has accepted the entry.
    - `wants`: a function that takes a change. It returns True if the receiver should be sent the change.
    """

    def __init__(
        self,
        outbox: Outbox,
        name: str,
        group_of: GroupOf,
        has: Callable[[int], bool],
        wants: Callable[[AlertChange], bool],
    ) -> None:
        self._outbox, self._name, self._group_of = outbox, name, group_of
        self._sent: dict[str, int] = {}
        self._batches: dict[str, list[int]] = {}  # the numbers of the changes in each group's current message
        self._messages: dict[str, str] = {}  # the ids of these messages
        self._open: dict[str, set[str]] = {}  # alerts of which the receiver was notified and that are not over
        self._over: set[str] = set()
        self._group: dict[str, str] = {}  # the key of the last group, by open alert
        # the group in which a change was sent before this start, by the change's number
        self._begun: dict[int, str] = {}
        for key, (sent, numbers, message) in outbox.groups(name).items():
            self._sent[key] = sent
            if rest := [number for number in numbers if not has(number)]:
                self._batches[key] = rest
                if message is not None:
                    self._messages[key] = message
                self._begun |= dict.fromkeys(rest, key)
        for entry in outbox.live():
            if has(entry.number) and not entry.change.quiet and wants(entry.change):
                self._tell(group_of(entry.change).key, entry.change)
        self._over = self._sent.keys() - self._batches.keys() - self._open.keys()

    def key(self, entry: OutboxEntry) -> str:
        """Return the key of a change's group.

        If the server had begun to send the change before its last stop, this is the group of that message.
        """
        return self._begun.get(entry.number) or self._group_of(entry.change).key

    def begun(self, key: str) -> Sequence[int]:
        """Return the numbers of the changes in a group's current message that the receiver has neither accepted nor
        finally refused.

        The current message is the one that was begun but is not completed.
        """
        return self._batches.get(key, ())

    def due(self, key: str, waiting: Iterable[OutboxEntry]) -> int:
        """Return the time at which the next message of a group may be sent, in microseconds of Unix time.

        `waiting`: the changes that wait for this message. Some may have been moved here from another group.
        """
        entry, group = None, None
        for waiting_entry in waiting:
            entry = entry or waiting_entry
            group = self._group_of(waiting_entry.change)
            if group.key == key:
                break
        if entry is None or group is None or group.key != key or key in self._batches or entry.recorded is None:
            return 0
        last = self._sent.get(key)
        if last is None or not self._open.get(key):
            return entry.recorded + group.wait
        if entry.recorded <= last or not group.interval:
            return 0
        return last - (last - entry.recorded) // group.interval * group.interval

    def batch(self, key: str, waiting: Sequence[OutboxEntry], now: int) -> list[OutboxEntry]:
        """Return the changes that the next message of a group contains, in order, and record them in the outbox.

        `waiting`: the changes that wait for this message. Raises CepError if the disk cannot be written.
        """
        begun = self._batches.get(key, [])
        # no message was begun, or the routes have changed since
        if not any(entry.number in begun for entry in waiting):
            numbers = [entry.number for entry in waiting]
            message = as_people_know_it(waiting[0], self._outbox).message
            self._outbox.note_group(self._name, key, now, numbers, message)
            self._sent[key], self._batches[key], self._messages[key] = now, numbers, message
            self._over.discard(key)
        numbers = self._batches[key]
        batch = [as_people_know_it(entry, self._outbox) for entry in waiting if entry.number in numbers]
        return [replace(entry, composed=self._sent[key], group=self._messages.get(key)) for entry in batch]

    def send_alone(self, key: str) -> None:
        """Record that the changes in a group's current message are sent as separate messages.

        Raises CepError if the disk cannot be written.
        """
        if key in self._messages:
            self._outbox.note_group(self._name, key, self._sent[key], self._batches[key], None)
            del self._messages[key]

    def done(self, key: str, entries: Sequence[OutboxEntry]) -> None:
        """Record that the receiver has accepted these changes of a group, or has finally refused them."""
        numbers = self._batches.get(key, [])
        for entry in entries:
            if entry.number in numbers:
                numbers.remove(entry.number)
            self._begun.pop(entry.number, None)
            self._tell(key, entry.change)
        if not numbers:
            self._batches.pop(key, None)
            self._messages.pop(key, None)
        if key not in self._open:
            self._over.add(key)

    def _tell(self, key: str, change: AlertChange) -> None:
        """Record that a message about a group notified the receiver of an alert. From now on, the alert belongs to this
        group only. If the alert has ended, it belongs to no group."""
        before = self._group.pop(change.alert, None)
        if before is not None and (change.over or before != key):
            alerts = self._open[before]
            alerts.discard(change.alert)
            if not alerts:
                del self._open[before]
                self._over.add(before)
        if not change.over:
            self._group[change.alert] = key
            self._open.setdefault(key, set()).add(change.alert)
            self._over.discard(key)

    def drop(self, key: str, entries: Sequence[OutboxEntry]) -> None:
        """Remove changes from a group's current message, because they will not be sent."""
        numbers = self._batches.get(key, [])
        for entry in entries:
            self._begun.pop(entry.number, None)
        numbers[:] = [number for number in numbers if number not in {entry.number for entry in entries}]
        if not numbers:
            self._batches.pop(key, None)
            self._messages.pop(key, None)

    def settle(self) -> None:
        """Delete the records of groups that no longer have open alerts. Call this after the outbox has stored the
        receiver's position.

        Raises CepError if the disk cannot be written.
        """
        over = self._over - self._batches.keys()
        if over:
            self._outbox.forget_groups(self._name, over)
            for key in over:
                self._sent.pop(key, None)
            self._over -= over
