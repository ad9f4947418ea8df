"""The lifecycle of an alert, in event time.

An alert is pending until its condition has lasted long enough, then it fires. Each further occurrence with the same key
updates the alert. Its severity may rise over time. The alert is resolved when its duration has passed since the end of
the last occurrence. An alert on a fluent is resolved when the fluent ends, or later if the alert statement says so.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from hashlib import blake2b
from itertools import groupby
from typing import Any, Literal

import polars as pl

from cep.connectors.alerts.places import AlertPlace, alert_place, nowhere
from cep.connectors.alerts.text import JsonValue, fill_template, json_value
from cep.core.identity import identity_hashes, occurrence_texts
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.rules.alert import CERTAINTY, URGENCY, Alert

AlertState = Literal["pending", "firing", "updated", "escalated", "inhibited", "kept", "resolved"]
Action = Literal[
    "", "acknowledged", "unacknowledged", "assigned", "commented", "closed", "reopened", "silenced", "unsilenced"
]
Verdict = Literal["", "true", "false", "duplicate", "test"]
"""The verdict on a closed alert; an empty text if the alert has not been closed."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A change of an alert at an instant of event time (`time`, in microseconds).

    Identity:

    - `alert`: the alert's id, 32 hexadecimal digits. It is the same in every run over the same input.
    - `revision`: the number of the change within the alert, from 0.
    - `slot`: a hash of the alert's name and key.
    - `key`, `values`: the attributes of the key and of the latest occurrence, for display.
    - `first`, `last`: the ids of the first and the latest occurrence.

    Times:

    - `since`: the time when the condition began to hold.
    - `fired`: the time when the alert fired, or None. Receivers are not notified earlier.
    - `start`, `end`: the start of the first occurrence, and the end of the latest one.
    - `until`: the time when the alert is resolved unless another occurrence follows.
    - `ended`: the time when the alert was resolved, or None. Later actions of people do not change it.

    State:

    - `severities`: the severities that the alert can have, if there are several.
    - `escalated`: the index of the current severity in `severities`.
    - `holding`: the intervals of a fluent that keep the alert open.
    - `keeping`: True if no such interval holds any more, but the alert stays open for a while.
    - `withdrawn`: True if the alert ended because the program changed, or because its occurrences were withdrawn.
    - `note`: the reason for correcting an earlier change, or "".

    Receivers:

    - `sent`: the first revision that receivers are sent, or None.
    - `inhibited`: True if another alert inhibits this one.
    - `hidden`: True if the alert only inhibits other alerts and is never published.
    - `repeat`: the time between reminders, or 0.

    People:

    - `action`: the action of a person or silence; "" if the program caused the change.
    - `by`, `comment`: the name of the person, and their comment.
    - `acknowledged`: the name of the person who acknowledged the alert.
    - `assignee`: the name of the person to whom the alert is assigned.
    - `verdict`: the verdict that a person gave when closing the alert.
    - `silenced`: the ids of the silences that hide the alert.
    """

    alert: str
    revision: int
    state: AlertState
    time: int
    name: str
    event: str
    slot: str
    severity: str
    category: str
    title: str
    text: str
    start: int
    end: int
    until: int
    occurrences: int
    first: str
    last: str
    key: Mapping[str, JsonValue] = field(default_factory=dict)
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    place: AlertPlace = field(default_factory=dict)
    withdrawn: bool = False
    urgency: str = URGENCY
    certainty: str = CERTAINTY
    instruction: str = ""
    holding: list[str] = field(default_factory=list)
    keeping: bool = False
    note: str = ""
    since: int = BEGINNING
    fired: int | None = BEGINNING
    sent: int | None = 0
    severities: list[str] = field(default_factory=list)
    escalated: int = 0
    runbook: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    inhibited: bool = False
    hidden: bool = False
    repeat: int = 0
    action: Action = ""
    by: str = ""
    comment: str = ""
    acknowledged: str = ""
    assignee: str = ""
    verdict: Verdict = ""
    silenced: list[str] = field(default_factory=list)
    ended: int | None = None

    @property
    def word(self) -> str:
        """The kind of the change in one word, for display."""
        return self.action or ("withdrawn" if self.withdrawn else self.state)

    @property
    def over(self) -> bool:
        """Return True if receivers should treat the alert as ended, because it is resolved or has never fired."""
        return self.state == "resolved" or self.fired is None

    @property
    def quiet(self) -> bool:
        """Return True if receivers are not sent this change.

        This is the case if receivers have not been sent any change of the alert so far (`sent` is None), or if the
        alert is open and is inhibited or silenced.
        """
        return self.sent is None or ((self.inhibited or bool(self.silenced)) and not self.over)

    @property
    def remark(self) -> bool:
        """Return True if a person's action caused the change, and the change leaves the alert's content as it is."""
        return self.action not in ("", "silenced", "unsilenced")

    @property
    def id(self) -> str:
        """An id of this change. It contains only characters that are valid in every protocol."""
        return f"{self.alert}-{self.revision}"

    def dump(self) -> str:
        """Return the change as JSON. Rare fields are left out if they are empty."""
        said = {name: getattr(self, name) for name in _ALWAYS}
        said |= {name: value for name, usual in _SELDOM if (value := getattr(self, name)) != usual}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> AlertChange:
        return cls(**json.loads(text))


_SELDOM = [
    (field.name, field.default if field.default_factory is MISSING else field.default_factory())
    for field in fields(AlertChange)
    if field.default is not MISSING or field.default_factory is not MISSING
]
_ALWAYS = [field.name for field in fields(AlertChange) if field.name not in dict(_SELDOM)]


@dataclass(frozen=True, slots=True)
class AlertOccurrence:
    """An occurrence of an alert's event or fluent: one row of the alert's table.

    `place`: the index of the alert. `row`: the index of the row in the table. `over`: True if the row is a fluent's
    interval that has ended.
    """

    end: int
    place: int
    slot: str
    start: int
    text: str
    row: int
    over: bool = False

    @property
    def interval(self) -> str:
        """An id of the fluent's interval that begins or ends with this occurrence. It is unique within the alert."""
        return f"{self.start} {self.text}"


def alert_fingerprints(alerts: Iterable[Alert], meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprint of each alert, by the alert's name.

    If two alerts have the same fingerprint, they have the same occurrences and key, but perhaps other texts and
    durations. `meanings`: the fingerprints of events and of alert tables.
    """
    texts = [json.dumps([meanings[alert.table], *alert.keys]) for alert in alerts]
    return dict(zip((alert.name for alert in alerts), identity_hashes(texts, "alert")))


class AlertLifecycle:
    """The computation of a program's alert changes from occurrences.

    The changes do not depend on how the occurrences are divided into rounds. If several occurrences of a key end at the
    same instant, the one that began first counts as the latest.

    - `live`: the last change of each unresolved alert, by the hash of its name and key (`slot`).
    - `prints`: the fingerprint of each alert, by its index.
    - `reached`: for each fingerprint, the time up to which occurrences have been processed.
    - `since`: the time at which this program replaced a former program whose alerts may still change.
    - `unplaced`: for each alert name, the number of occurrences whose place is not valid.
    - `free`: a function that returns the earliest time, not before a given time, at which an alert is not
      acknowledged. It returns None if the alert stays acknowledged. An acknowledged alert does not escalate.
    """

    def __init__(
        self,
        alerts: Sequence[Alert],
        schemas: Mapping[str, Schema],
        inputs: Iterable[str],
        meanings: Mapping[str, str],
        live: Iterable[AlertChange] = (),
        reached: Mapping[str, int] | None = None,
        free: Callable[[str, int], int | None] | None = None,
    ) -> None:
        """Compute the changes of some ALERT statements, starting from the open alerts in `live`.

        `meanings`: the fingerprints of events and of alert tables (see `Engine.meanings`).
        """
        self.alerts = alerts
        self.schemas = schemas
        self.read = frozenset(inputs)
        self.fingerprints = alert_fingerprints(alerts, meanings)
        self.prints = [self.fingerprints[alert.name] for alert in alerts]
        self.since = BEGINNING
        self.reached = dict.fromkeys(self.fingerprints.values(), BEGINNING) | dict(reached or {})
        self._meanings = meanings
        self.unplaced: Counter[str] = Counter()
        self._types = {
            alert.table: [(a.name, a.type) for a in schemas[alert.table].attributes if not a.name.startswith("the ")]
            for alert in alerts
        }
        self._places = {alert.name: number for number, alert in enumerate(alerts)}
        self._by_name = {alert.name: alert for alert in alerts}
        self._due: list[tuple[int, int, str]] = []
        self._fewer: set[str] = set()
        self.free = free or _never_acknowledged
        self.begin(live)

    @property
    def statements(self) -> Sequence[Alert]:
        """All ALERT statements whose changes are computed."""
        return self.alerts

    def begin(self, live: Iterable[AlertChange]) -> None:
        """Remove the state of all alerts, and start again from the open alerts in `live`."""
        self.live = {change.slot: change for change in live}
        self._due.clear()
        for change in self.live.values():
            self._await(change)

    def take(self, tables: Mapping[str, pl.DataFrame], watermark: int) -> list[AlertChange]:
        """Return the changes up to the watermark, sorted by time. `tables`: the new occurrences, by `Alert.table`."""
        columns = {}
        occurrences: list[AlertOccurrence] = []
        for number, table, over in self.told_of(tables):
            if not over:
                columns[number] = {name: table[name].to_list() for name in table.columns}
            occurrences += self.occurrences(number, table, over)

        def row(occurrence: AlertOccurrence) -> Mapping[str, Any]:
            return {name: values[occurrence.row] for name, values in columns[occurrence.place].items()}

        self._fewer.clear()
        changes = self.follow(occurrences, row, watermark)
        for change in changes:
            which = self.fingerprints[change.name]
            self.reached[which] = max(self.reached[which], change.time)
        return changes

    def go_on(self, told: Sequence[AlertChange]) -> list[AlertChange]:
        """Store the last published change of each open alert, so that later changes continue from it. Return the
        published changes. The last one of each alert gets the alert's current `holding`.

        `told`: the published changes: those of the last `take`, and those that other steps have added.
        """
        last = {change.slot: place for place, change in enumerate(told)}
        return [self._told(change) if last[change.slot] == place else change for place, change in enumerate(told)]

    def _told(self, change: AlertChange) -> AlertChange:
        mine = self.live.get(change.slot)
        if mine is None or mine.alert != change.alert:
            return change
        self.live[change.slot] = change = replace(change, holding=mine.holding)
        return change

    @property
    def fewer(self) -> list[AlertChange]:
        """The last change of each open alert for which the last `take` ended some, but not all, fluent intervals.

        The changes that `take` returned do not report the end of these intervals.
        """
        return [self.live[slot] for slot in sorted(self._fewer & self.live.keys())]

    def told_of(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame, bool]]:
        """Yield the tables that belong to alerts, as `(index of the alert, table, over)`.

        `over`: True if the rows are fluent intervals that have ended.
        """
        for number, alert in enumerate(self.alerts):
            if (table := tables.get(alert.table)) is not None and table.height:
                yield number, table, False
            if alert.ends is not None and (table := tables.get(alert.ends)) is not None and table.height:
                yield number, table, True

    def follow(
        self, occurrences: list[AlertOccurrence], row: Callable[[AlertOccurrence], Mapping[str, Any]], watermark: int
    ) -> list[AlertChange]:
        """Return the changes that occurrences cause, and the changes that are due up to the watermark.

        `row`: a function that returns the columns of an occurrence.
        """
        changes: list[AlertChange] = []
        occurrences.sort(key=lambda entry: (entry.end, entry.place, entry.slot, entry.over, entry.start, entry.text))
        for (end, number, slot, over), same in groupby(
            occurrences, key=lambda entry: (entry.end, entry.place, entry.slot, entry.over)
        ):
            changes += self._over(end - 1)
            group = list(same)
            if over:
                changes += self._ended(slot, end, group)
                continue
            changes.append(self._seen(self.alerts[number], group, row(group[0])))
        changes += self._over(watermark)
        return changes

    def go_through(
        self,
        number: int,
        base: AlertChange | None,
        occurrences: list[AlertOccurrence],
        row: Callable[[AlertOccurrence], Mapping[str, Any]],
        watermark: int,
        turned: bool,
    ) -> list[AlertChange]:
        """Return the changes of one key of an alert. If an alert is still open after these changes, store its last
        change in `live`.

        - `number`: the index of the alert.
        - `base`: the alert of this key that is open at the beginning, or None.
        - `row`: a function that returns the columns of an occurrence.
        - `turned`: True if the changes begin after `SucceedingLifecycle.since`, so that only the current program
          determines them.
        """
        self.begin([] if base is None else [base])
        return self.follow(occurrences, row, watermark)

    def due_for(self, number: int, change: AlertChange, turned: bool) -> int | None:
        """Return the time at which an open alert changes without a new occurrence, or None if there is none.

        `turned`: as in `go_through`.
        """
        return self.due(change)

    def first_final(self, number: int) -> int:
        """Return the time before which occurrences of an alert stay in `AlertKey.held`, even if they are final."""
        return BEGINNING

    def occurrences(self, number: int, table: pl.DataFrame, over: bool = False) -> list[AlertOccurrence]:
        """Return the new occurrences of an alert. `over`: True if the rows are fluent intervals that have ended.

        If the alert is on a fluent, `AlertOccurrence.text` contains only the fluent's arguments.
        """
        alert = self.alerts[number]
        if alert.ends is None:
            texts = occurrence_texts(table, self.schemas[alert.table])
        else:
            texts = [json.dumps(row) for row in zip(*(table[name].to_list() for name in alert.arguments))]
            texts = texts or ["[]"] * table.height
        keys = zip(*(table[name].to_list() for name in alert.keys)) if alert.keys else [()] * table.height
        slots = identity_hashes((json.dumps([alert.name, *key]) for key in keys), self.fingerprints[alert.name])
        reached = self.reached[self.fingerprints[alert.name]]
        rows = zip(table["end"].to_list(), slots, table["start"].to_list(), texts)
        return [
            AlertOccurrence(end, number, slot, start, text, row, over)
            for row, (end, slot, start, text) in enumerate(rows)
            if end > reached
        ]

    def _seen(self, alert: Alert, group: Sequence[AlertOccurrence], row: Mapping[str, Any]) -> AlertChange:
        """Return the change that occurrences of one key cause. These occurrences all end at the same time.

        The change makes the alert pending, lets it fire, or updates it.
        """
        first = group[0]
        identity = self._identity(alert, row)
        before = self.live.get(first.slot)
        values = {name: json_value(row[name], type) for name, type in self._types[alert.table]}
        place = alert_place(row)
        if nowhere(row, place):
            self.unplaced[alert.name] += 1
        revision = 0 if before is None else before.revision + 1
        since, escalated = (first.end, 0) if before is None else (before.since, before.escalated)
        fired, sent = (None, None) if before is None else (before.fired, before.sent)
        state: AlertState = "pending" if fired is None else "updated"
        if fired is None and (not alert.after or (alert.ends is None and first.end - since >= alert.after)):
            state, fired, sent = "firing", first.end, revision
        escalated = min(escalated, len(alert.escalations))
        severities = [alert.severity, *(word for word, _ in alert.escalations)] if alert.escalations else []
        change = AlertChange(
            alert=_named(first.slot, identity) if before is None else before.alert,
            revision=revision,
            state=state,
            time=first.end,
            name=alert.name,
            event=alert.event,
            slot=first.slot,
            severity=severities[escalated] if severities else alert.severity,
            category=alert.category,
            title=fill_template(alert.title, values),
            text=fill_template(alert.text, values),
            start=first.start if before is None else min(first.start, before.start),
            end=first.end,
            until=first.end + alert.duration,
            occurrences=len(group) + (0 if before is None else before.occurrences),
            first=identity if before is None else before.first,
            last=identity,
            key={name: values[name] for name in alert.keys},
            values=values,
            place=place,
            urgency=alert.urgency,
            certainty=alert.certainty,
            instruction=fill_template(alert.instruction, values),
            holding=[] if alert.ends is None else _together(before, group),
            since=since,
            fired=fired,
            sent=sent,
            severities=severities,
            escalated=escalated,
            runbook=fill_template(alert.runbook, values, in_address=True),
            labels={name: fill_template(template, values) for name, template in alert.labels},
            hidden=alert.hidden,
            repeat=alert.repeat,
        )
        return self._on(change)

    def _ended(self, slot: str, time: int, group: Sequence[AlertOccurrence]) -> list[AlertChange]:
        """Process ends of intervals of an alert's fluent. Resolve the alert if no interval of its key still holds."""
        before = self.live.get(slot)
        if before is None or not before.holding:
            return []
        # In older outboxes, only the arguments name what holds.
        over = {occurrence.interval for occurrence in group} | {occurrence.text for occurrence in group}
        rest = [interval for interval in before.holding if interval not in over]
        if rest:
            self.live[slot] = replace(before, holding=rest)
            self._fewer.add(slot)
            return []
        changes = []
        if before.fired is None and (due := self.due(before)) is not None and due <= time:
            changes.append(before := self._by_itself(before, due))  # it has lasted until now, which is long enough
        keep = self._by_name[before.name].keep
        if before.fired is None or not keep:
            return [*changes, resolved(self.live.pop(slot), time)]
        kept = replace(
            before, revision=before.revision + 1, state="kept", time=time, until=time + keep, holding=[],
            keeping=True, note="",
        )  # fmt: skip
        return [*changes, self._on(kept)]

    def _identity(self, alert: Alert, row: Mapping[str, Any]) -> str:
        """Return the id of the occurrence that caused an alert: the `@id` of the derived event or input record."""
        times = [row["start"]] if alert.ends is not None else [row["start"], row["end"]]
        record = json.dumps([*times, *(row[name] for name in alert.arguments)])
        key = "" if alert.event in self.read else self._meanings[alert.event]
        return identity_hashes([f"{json.dumps(alert.event)} {record}"], key)[0]

    def _over(self, time: int) -> list[AlertChange]:
        """Return the changes up to `time` that no occurrence causes, such as the end of an alert."""
        changes = []
        while self._due and self._due[0][0] <= time:
            due, _, slot = heapq.heappop(self._due)
            change = self.live.get(slot)
            if change is not None and self.due(change) == due:
                changes.append(self._by_itself(change, due))
        return changes

    def due(self, change: AlertChange) -> int | None:
        """Return the time at which an open alert fires, escalates or is resolved if no occurrence follows. Return None
        if there is no such time."""
        over, alert = None if change.holding else change.until, self._by_name.get(change.name)
        if alert is None:
            return over
        if change.fired is None:
            return max(change.time, change.since + alert.after) if over is None else over
        if change.escalated == len(alert.escalations):
            return over
        graver = self.free(change.alert, max(change.time, change.fired + alert.escalations[change.escalated][1]))
        times = [time for time in (over, graver) if time is not None]
        return min(times, default=None)

    def _by_itself(self, change: AlertChange, time: int) -> AlertChange:
        """Return the change of an alert that becomes due at `time` without an occurrence."""
        if not change.holding and change.until == time:
            return resolved(self.live.pop(change.slot), time)
        change = replace(change, revision=change.revision + 1, time=time, note="")
        if change.fired is None:
            return self._on(replace(change, state="firing", fired=time, sent=change.revision))
        severity, _ = self._by_name[change.name].escalations[change.escalated]
        return self._on(replace(change, state="escalated", severity=severity, escalated=change.escalated + 1))

    def _on(self, change: AlertChange) -> AlertChange:
        self.live[change.slot] = change
        self._await(change)
        return change

    def adopt(self, change: AlertChange) -> None:
        """Store a change of an open alert that happened between two rounds, because of a person's action or a silence.
        Later changes continue from it."""
        mine = self.live.get(change.slot)
        if mine is not None and mine.alert == change.alert:
            self._on(replace(change, holding=mine.holding))

    def _await(self, change: AlertChange) -> None:
        due = self.due(change)
        if due is not None:
            heapq.heappush(self._due, (due, self._places.get(change.name, -1), change.slot))


def _together(before: AlertChange | None, group: Sequence[AlertOccurrence]) -> list[str]:
    """Return the ids of a key's fluent intervals that hold now, including those of the occurrences in `group`."""
    return sorted({*(() if before is None else before.holding), *(occurrence.interval for occurrence in group)})


def resolved(change: AlertChange, time: int, withdrawn: bool = False, note: str = "") -> AlertChange:
    return replace(
        change, revision=change.revision + 1, state="resolved", time=time, withdrawn=withdrawn, holding=[], note=note,
        action="", by="", comment="", silenced=[], ended=time,
    )  # fmt: skip


def _never_acknowledged(alert: str, time: int) -> int | None:
    return time


def _named(slot: str, first: str) -> str:
    return blake2b(f"{slot} {first}".encode(), digest_size=16).hexdigest()
