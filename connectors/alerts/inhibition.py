"""Inhibition: an alert that fires suppresses other alerts.

While an alert is inhibited, the field `inhibited` of its changes is True. When inhibition begins or ends, the inhibited
alert gets an additional change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from cep.connectors.alerts.lifecycle import AlertChange, AlertState
from cep.connectors.alerts.text import JsonValue
from cep.rules.alert import Alert, Inhibitor

_Place = tuple[str, tuple[JsonValue, ...]]
"""The name of an inhibited alert, and those values of its key that an inhibiting alert must share."""


class Inhibition:
    """The inhibition of all alerts. An alert inhibits others while it fires, even if it is inhibited itself."""

    def __init__(self, alerts: Iterable[Alert]) -> None:
        self._inhibitors = {alert.name: alert.inhibitor for alert in alerts if alert.inhibitor is not None}
        self._inhibited: dict[str, list[tuple[str, Inhibitor]]] = {}
        for name, inhibitor in self._inhibitors.items():
            self._inhibited.setdefault(inhibitor.alert, []).append((name, inhibitor))
        self.begin([])

    def __bool__(self) -> bool:
        return bool(self._inhibitors)

    def begin(self, live: Iterable[AlertChange]) -> None:
        """Remove the state of all alerts, and start again from the open alerts in `live`."""
        self._firing: dict[str, AlertChange] = {}
        self._told: dict[str, AlertChange] = {}
        self._holding: Counter[_Place] = Counter()
        self._open: dict[_Place, set[str]] = {}
        for change in live:
            self._count(change)
            self.remember(change)
        self._started = True

    def follow(self, changes: Sequence[AlertChange]) -> list[AlertChange]:
        """Return the changes of a round, and the additional changes that begin or end the inhibition of alerts.

        If changes have the same time, the additional changes come last. The first round checks all open alerts, because
        the program may have changed before a restart.
        """
        followed: list[AlertChange] = []
        more: Counter[str] = Counter()
        if self._started:
            for slot in sorted(self._told):
                followed += self._turn(slot, self._told[slot].time, more)
            self._started = False
        for time, group in groupby(changes, key=lambda change: change.time):
            together = list(group)
            touched = {place for change in together for place in self._count(change)}
            for change in together:
                followed.append(self._tell(change, more))
            for slot in sorted({slot for place in touched for slot in self._open.get(place, ())}):
                followed += self._turn(slot, time, more)
        return followed

    def _count(self, change: AlertChange) -> list[_Place]:
        """Update the number of alerts that inhibit each `_Place`, after a change of an inhibiting alert. Return each
        `_Place` whose number has changed."""
        inhibited = self._inhibited.get(change.name, ())
        if not inhibited:
            return []
        before = self._firing.pop(change.slot, None)
        places = []
        for firing, number in ((before, -1), (None if change.over else change, 1)):
            if firing is None:
                continue
            for name, inhibitor in inhibited:
                if all(firing.key.get(column) == value for column, value in inhibitor.values):
                    place = name, tuple(firing.key.get(column) for column, _ in inhibitor.equal)
                    self._holding[place] += number
                    places.append(place)
        if not change.over:
            self._firing[change.slot] = change
        return places

    def _place(self, change: AlertChange) -> _Place:
        equal = self._inhibitors[change.name].equal
        return change.name, tuple(change.key.get(column) for _, column in equal)

    def remember(self, change: AlertChange) -> None:
        """Store the last published change of an alert, if other alerts can inhibit it."""
        if change.name not in self._inhibitors:
            return
        if change.state == "resolved":
            self._told.pop(change.slot, None)
            self._open.get(self._place(change), set()).discard(change.slot)
        else:
            self._told[change.slot] = change
            self._open.setdefault(self._place(change), set()).add(change.slot)

    def _tell(self, change: AlertChange, more: Counter[str]) -> AlertChange:
        """Return the published form of a change that a round has caused.

        `more`: for each alert, the number of changes that inhibition has added in this round.
        """
        if change.name not in self._inhibitors:
            return change
        before = self._told.get(change.slot)
        inhibited = self._holding[self._place(change)] > 0
        revision = change.revision + more[change.alert]
        if before is not None and before.alert == change.alert:
            sent = before.sent
        else:
            sent = change.sent if change.sent is not None and change.sent < change.revision else None
        if sent is None and not change.over and not inhibited:
            sent = revision
        told = replace(change, revision=revision, sent=sent, inhibited=inhibited)
        self.remember(told)
        return told

    def _turn(self, slot: str, time: int, more: Counter[str]) -> list[AlertChange]:
        """Return a list with the change that begins or ends the inhibition of an alert. Return an empty list if its
        inhibition stays the same.

        - `slot`: the hash of the alert's name and key.
        - `more`: for each alert, the number of changes that inhibition has added in this round.
        """
        told = self._told[slot]
        inhibited = self._holding[self._place(told)] > 0
        if told.fired is None or inhibited == told.inhibited:
            return []
        more[told.alert] += 1
        sent = told.revision + 1 if told.sent is None and not inhibited else told.sent
        state: AlertState = "inhibited" if inhibited else "firing" if told.sent is None else "updated"
        turned = replace(
            told, revision=told.revision + 1, state=state, time=max(told.time, time), sent=sent,
            inhibited=inhibited, note="",
        )  # fmt: skip
        self.remember(turned)
        return [turned]
