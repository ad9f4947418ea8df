"""Actions of people on alerts: acknowledge, assign, comment, close, silence.

Each action becomes a change of its alert. These changes and the changes that the program causes are numbered together.
The outbox also records each action, with the watermark at which the action took effect.

A round is one batch of input that the engine processes. The program changes alerts only during a round, and people
change alerts only between two rounds. A lock enforces this order. Silences and maintenance windows begin and end by the
wall clock. Each such beginning or end also becomes a change of every alert that it affects.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, get_args

from cep.connectors.alerts.handling_tables import Recorded, RecordedAction
from cep.connectors.alerts.labels import LABELLED, alert_labels
from cep.connectors.alerts.lifecycle import Action, AlertChange, AlertState, Verdict
from cep.connectors.alerts.matchers import Matchers
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import Closed
from cep.connectors.alerts.silences import KEPT, LONGEST_COMMENT, Silence
from cep.connectors.alerts.text import JsonValue, clean, rfc3339
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.core.time import BEGINNING
from cep.rules.alert import Alert

VERDICTS: tuple[Verdict, ...] = tuple(verdict for verdict in get_args(Verdict) if verdict)
MACHINE = "semcep"
"""The author of the server's own actions, for example when a maintenance window begins or a silence expires."""

RAN_OUT = "the silence is over"

_LONGEST_NAME = 64
_LOOK = 1.0  # seconds until the calendar and the clock are read again


class Unknown(LookupError):
    """Raised if no alert or silence has the given id."""


class Conflict(Exception):
    """Raised if the state of an alert or silence does not allow the action."""


Heir = tuple[AlertChange, str]
"""The last change of a withdrawn alert, and the id of the alert that replaces it."""


class Adopter(Protocol):
    """An object that is notified of changes that people make to alerts.

    `alerts`: the ALERT statements of the program.
    """

    @property
    def alerts(self) -> Sequence[Alert]: ...

    def adopt(self, change: AlertChange) -> None: ...


class Calendar(Protocol):
    """A source of maintenance windows. `windows` returns the windows near a time (microseconds of Unix time), by id.

    `trouble`: the reason why the windows are out of date, or "". `remarks`: the reasons why some calendar events are
    not maintenance windows.
    """

    trouble: str
    remarks: tuple[str, ...]

    def windows(self, now: int) -> Mapping[str, Silence]: ...


def _clock() -> int:
    return time.time_ns() // 1000


class Handling:
    """The actions of people on the alerts of one server. Actions raise Unknown, Conflict or CepError.

    - `program`: the value of the label `program` of all alerts.
    - `status`: the value of the label `status` of all alerts. If it is `Actual`, alerts do not have this label.
    - `watermark`: the event time that the program has reached.
    - `lock`: a lock. The caller holds it during each round, and each action acquires it.
    """

    def __init__(
        self,
        outbox: Outbox,
        program: str = "",
        status: str = "Actual",
        calendar: Calendar | None = None,
        clock: Callable[[], int] = _clock,
    ) -> None:
        self.outbox, self.program, self.status, self.clock = outbox, program, status, clock
        self.lock = threading.RLock()
        self.watermark = outbox.farthest()
        self._calendar = calendar
        self._adopter: Adopter | None = None
        self._open = {change.alert: change for change in outbox.open_changes()}
        self._spans: dict[str, list[tuple[int, int | None]]] = {}
        for action in outbox.actions():
            # the server copied that acknowledgement from a withdrawn alert
            if (action.action, action.person) != ("closed", MACHINE):
                self._span(action.alert, action.action, action.watermark)
        self._silences: dict[str, Silence] = {}
        self._unread: list[str] = []
        for id, body in outbox.silences().items():
            try:
                self._silences[id] = Silence.load(id, body)
            except (CepError, ValueError, TypeError) as error:
                reason = error.message if isinstance(error, CepError) else str(error)
                self._unread.append(f"the silence {id} cannot be read, so it hides no alerts: {clean(reason)}")
        self._windows: Mapping[str, Silence] = {}
        self._labels: dict[str, dict[str, str]] = {}
        # the active silences that alerts' `silenced` reflects; None: check all
        self._active: dict[str, Matchers] | None = None
        self._bell, self._stopped = threading.Event(), False

    # --- by the clock ---

    def run(
        self,
        trouble: Callable[[str], None] = lambda reason: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Begin and end silences when they are due, until `stop` is called.

        - `trouble`: a function that is called with the reason when an attempt fails for the first time. It is called
          with "" when a later attempt succeeds.
        - `remark`: a function that is called for each calendar event that is not a maintenance window.
        """
        told, remarked = "", frozenset[str]()
        for text in self._unread:
            trouble(text)
        while not self._stopped:
            wait, reason = _LOOK, ""
            try:
                wait = min(wait, (self.tick() - self.clock()) / 1_000_000)
                reason = "" if self._calendar is None else self._calendar.trouble
                remarks = () if self._calendar is None else self._calendar.remarks
                for text in remarks:
                    if text not in remarked:
                        remark(text)
                remarked = frozenset(remarks)
            except Closed:
                return
            except Exception as error:  # an error must not end the thread, or no more silences would begin
                reason = str(error) or type(error).__name__
            if reason != told:
                trouble(reason)
            told = reason
            self._bell.wait(max(0.0, wait))
            self._bell.clear()

    @property
    def calendar_up(self) -> bool | None:
        """True if the calendar of maintenance windows can be read now, False if not, None if there is no calendar."""
        return None if self._calendar is None else not self._calendar.trouble

    def stop(self) -> None:
        """Make `run` return."""
        self._stopped = True
        self._bell.set()

    def tick(self) -> int:
        """Publish the silences that have begun or ended. Return the time when the next silence begins or ends."""
        # slow, so it is done without the lock
        windows = {} if self._calendar is None else self._calendar.windows(self.clock())
        with self.lock:
            self._windows, now = windows, self.clock()
            over = [id for id, silence in self._silences.items() if silence.ends + KEPT < now]
            if over:
                self.outbox.act([], silences=dict.fromkeys(over))
                for id in over:
                    del self._silences[id]
            self.look()
            times = [tick for silence in self._all.values() for tick in (silence.starts, silence.ends) if tick > now]
            return min(times, default=now + KEPT)

    def look(self, by: str = "", comment: str = "") -> None:
        """Publish a change for each alert that is newly silenced or no longer silenced. Call this before a round
        publishes its changes. The caller must hold `lock`.

        A silence ends by the clock, or when a person ends it. In the second case, `by` is the person's name, and
        `comment` is the person's reason. Only silences that began or ended since the last call are considered.
        """
        now = self.clock()
        active = {id: silence.matchers for id, silence in self._all.items() if silence.starts <= now < silence.ends}
        if active == self._active:
            return
        before, self._active = self._active, None  # if the rest fails, the next call checks all alerts
        begun = active if before is None else {id: m for id, m in active.items() if before.get(id) != m}
        turned = []
        for told in [*self._open.values()]:
            same = [id for id in told.silenced if before is not None and id in active and id not in begun]
            silenced = sorted([*same, *(id for id, silence in begun.items() if silence.matches(self._labels_of(told)))])
            if silenced != told.silenced:
                turned.append(self._turned(told, silenced, by, comment if by else RAN_OUT))
        if turned:
            self.outbox.act(turned)
            self._adopt(turned)
        self._active = active

    @property
    def _all(self) -> Mapping[str, Silence]:
        return {**self._silences, **self._windows}

    def _turned(self, told: AlertChange, silenced: list[str], by: str = "", comment: str = "") -> AlertChange:
        """Return the change that marks an open alert as silenced by `silenced`. If this list is empty, return the
        change that marks the alert as no longer silenced.

        The author of a `silenced` change is the author of the first silence. The author of an `unsilenced` change is
        `by`, who has ended the last silence, or MACHINE if no person has.
        """
        if not silenced:
            return self._next(told, "unsilenced", by or MACHINE, comment, silenced=[])
        first = self._all.get(silenced[0])
        author, said = (MACHINE, "") if first is None else (first.author, first.comment)
        return self._next(told, "silenced", author, said, silenced=silenced)

    @property
    def alerts(self) -> Sequence[Alert]:
        """The ALERT statements of the program, empty until the program is known."""
        return () if self._adopter is None else self._adopter.alerts

    # --- in a round ---

    def attach(self, adopter: Adopter, watermark: int = BEGINNING) -> None:
        """Report actions to the program `adopter` from now on, and no longer to the previous program."""
        with self.lock:
            self._adopter = adopter
            self._open = {change.alert: change for change in self.outbox.open_changes()}
            self._labels.clear()
            self._active = None
            self.watermark = max(self.watermark, watermark)

    def follow(self, changes: Sequence[AlertChange]) -> list[AlertChange]:
        """Return the changes of a round with people's data added: acknowledgement, assignee, verdict and silences.

        A change can alter which silences match an alert, for example by a new severity. Then the result also has a
        `silenced` or an `unsilenced` change. If the alert becomes silenced, the additional change precedes the round's
        change, so that receivers are sent neither. Otherwise it follows, so that receivers are sent the alert's new
        state.
        """
        followed: list[AlertChange] = []
        told_now: dict[str, AlertChange] = {}
        more: Counter[str] = Counter()
        for change in changes:
            if change.hidden:
                followed.append(change)
                continue
            before = told_now.get(change.alert)
            if before is None and change.revision:
                before = self._last(change.alert)
            goes_on = before is not None and before.state != "resolved" and change.state != "resolved"
            silenced = self._silenced(change, before if goes_on else None)
            if before is not None and goes_on and silenced and silenced != before.silenced:
                followed.append(before := self._turned(before, silenced))
                self._remember(before)
                more[change.alert] += 1
            hiding = before.silenced if before is not None and goes_on else silenced
            told = self._told(replace(change, revision=change.revision + more[change.alert]), before, hiding)
            self._remember(told)
            followed.append(told)
            if hiding and hiding != silenced:
                followed.append(told := self._turned(told, silenced))
                self._remember(told)
                more[change.alert] += 1
            told_now[told.alert] = told
        return followed

    def _told(self, change: AlertChange, before: AlertChange | None, silenced: list[str]) -> AlertChange:
        """Return the published form of a change that a round has caused.

        `before`: the alert's previous change, or None. `silenced`: the ids of the silences that hide the alert.
        """
        sent = change.sent if before is None else before.sent
        if before is None and sent is not None and (change.inhibited or silenced):
            sent = None
        if sent is None and not (change.over or change.inhibited or silenced):
            sent = change.revision
        told = replace(change, action="", by="", comment="", silenced=silenced, sent=sent)
        if before is None:
            return told
        return replace(told, acknowledged=before.acknowledged, assignee=before.assignee, verdict=before.verdict)

    def _silenced(self, change: AlertChange, before: AlertChange | None) -> list[str]:
        """Return the sorted ids of the silences that hide an alert.

        `change`: the new change of the alert. `before`: its previous change, or None.
        """
        if change.state == "resolved":
            return []
        if before is not None and all(getattr(before, name) == getattr(change, name) for name in LABELLED):
            return before.silenced
        labels = self.labels(change)
        return sorted(id for id, matchers in (self._active or {}).items() if matchers.matches(labels))

    def hand_over(self, heirs: Sequence[Heir]) -> bool:
        """Copy acknowledgements that are still in effect from withdrawn alerts to the alerts that replace them. Return
        True if an acknowledgement was copied."""
        turned = False
        for old, alert in heirs:
            spans, own = self._spans.get(old.alert, []), self._spans.get(alert, [])
            if spans and spans[-1][1] is None and not (own and own[-1][1] is None):
                self._spans[alert] = [*own, spans[-1]]
                turned = True
        return turned

    def taken_over(
        self, heirs: Sequence[Heir], changes: Sequence[AlertChange]
    ) -> tuple[list[AlertChange], list[RecordedAction]]:
        """Copy the acknowledgement, assignee and verdict of withdrawn alerts to the alerts that replace them.

        Values that people have already set on the replacing alert are kept. `changes`: the changes of the round.
        Returns additional changes to publish after `changes`, and the actions to record.
        """
        told = {change.alert: change for change in changes}
        taken: list[AlertChange] = []
        recorded: list[RecordedAction] = []

        def act(alert: str, action: Action, time: int, details: dict[str, JsonValue], **more: str) -> None:
            comment = f"it takes the place of {old.alert}"
            told[alert] = change = self._next(told[alert], action, MACHINE, comment, **more)
            details = {"comment": comment, **details}
            recorded.append(RecordedAction(self.clock(), time, MACHINE, action, alert, None, None, details))
            taken.append(change)
            self._remember(change)

        for old, alert in heirs:
            now = told.get(alert) or self._last(alert)
            if now is None or now.hidden:
                continue
            told[alert] = now
            if old.acknowledged and not now.acknowledged and now.state != "resolved":
                since = self._spans[alert][-1][0]
                act(alert, "acknowledged", since, {"acknowledged": old.acknowledged}, acknowledged=old.acknowledged)
            if old.assignee and not now.assignee:
                act(alert, "assigned", self.watermark, {"to": old.assignee}, assignee=old.assignee)
            if old.verdict and not now.verdict:
                act(alert, "closed", self.watermark, {"verdict": old.verdict}, verdict=old.verdict)
        return taken, recorded

    def hold(self, changes: Sequence[AlertChange]) -> None:
        """Update `holding`, the fluent intervals that keep an alert open, for some open alerts.

        `changes`: the last change of each of these alerts. Only `holding` differs from the stored change.
        """
        for change in changes:
            told = self._open.get(change.alert)
            if told is not None:
                self._open[change.alert] = replace(told, holding=change.holding)

    def free(self, alert: str, time: int) -> int | None:
        """Return the earliest time, `time` or later, at which an alert is not acknowledged. None means never."""
        for begin, end in self._spans.get(alert, ()):
            if begin < time and (end is None or time < end):
                if end is None:
                    return None
                time = end
        return time

    def _last(self, alert: str) -> AlertChange | None:
        if alert in self._open:
            return self._open[alert]
        entry = self.outbox.revision(alert)
        return None if entry is None else entry.change

    def _remember(self, told: AlertChange) -> None:
        if told.hidden:
            return
        before = self._open.pop(told.alert, None)
        if before is None or any(getattr(before, name) != getattr(told, name) for name in LABELLED):
            self._labels.pop(told.alert, None)
        if told.state == "resolved":
            self._labels.pop(told.alert, None)
        else:
            self._open[told.alert] = told

    # --- what people do ---

    def acknowledge(self, alert: str, by: str, comment: str = "") -> AlertChange:
        """Acknowledge an alert: it no longer escalates, and reminders stop."""
        with self.lock:
            told = self._known(alert)
            if told.ended is not None:
                raise Conflict(f"the alert is over since {rfc3339(told.ended)}: it can only be commented on or closed")
            if told.acknowledged == by and not comment.strip():
                return told
            return self._act(told, "acknowledged", by, comment, acknowledged=by)

    def unacknowledge(self, alert: str, by: str, comment: str = "") -> AlertChange:
        """Withdraw an acknowledgement: the alert escalates again, and reminders resume."""
        with self.lock:
            told = self._known(alert)
            if not told.acknowledged:
                raise Conflict("nobody has acknowledged the alert")
            if told.ended is not None:
                raise Conflict(f"the alert is over since {rfc3339(told.ended)}")
            return self._act(told, "unacknowledged", by, comment, acknowledged="")

    def assign(self, alert: str, by: str, to: str, comment: str = "") -> AlertChange:
        """Assign an alert to a person. An empty `to` removes the assignee."""
        name = clean(to.strip(), _LONGEST_NAME)
        with self.lock:
            return self._act(self._known(alert), "assigned", by, comment, assignee=name)

    def comment(self, alert: str, by: str, comment: str) -> AlertChange:
        if not comment.strip():
            raise CepError(
                "comment: the text is missing", hint='e.g. `{"comment": "pump 2 runs again"}`', code="action"
            )
        with self.lock:
            return self._act(self._known(alert), "commented", by, comment)

    def close(self, alert: str, by: str, verdict: str, comment: str = "") -> AlertChange:
        """Close an alert with a verdict. An open alert is also acknowledged."""
        known_verdict = next((known for known in VERDICTS if known == verdict), None)
        if known_verdict is None:
            hint = did_you_mean(verdict, VERDICTS) or f"use one of {', '.join(VERDICTS)}"
            raise CepError(f"`{clean(verdict, 40)}` is not a verdict", hint=hint, code="action")
        with self.lock:
            told = self._known(alert)
            acknowledged = told.acknowledged or ("" if told.state == "resolved" else by)
            return self._act(told, "closed", by, comment, verdict=known_verdict, acknowledged=acknowledged)

    def reopen(self, alert: str, by: str, comment: str = "") -> AlertChange:
        """Remove the verdict on an alert. Its acknowledgement stays."""
        with self.lock:
            told = self._known(alert)
            if not told.verdict:
                raise Conflict("nobody has closed the alert")
            return self._act(told, "reopened", by, comment, verdict="")

    def _known(self, alert: str) -> AlertChange:
        told = self._last(alert)
        if told is None:
            raise Unknown("there is no such alert")
        return told

    def _next(self, told: AlertChange, action: Action, by: str, comment: str, **more: Any) -> AlertChange:
        """Return the change that a person's action makes to an alert between two rounds.

        `told`: the last published change of the alert. `more`: the fields that the action sets.
        """
        state: AlertState = "updated" if told.state in ("firing", "escalated", "inhibited") else told.state
        change = replace(
            told, revision=told.revision + 1, state=state, time=max(told.time, self.watermark), note="",
            action=action, by=clean(by, _LONGEST_NAME), comment=clean(comment.strip(), LONGEST_COMMENT), **more,
        )  # fmt: skip
        if change.sent is None and not (change.over or change.inhibited or change.silenced):
            change = replace(change, sent=change.revision, state="firing")
        return change

    def _act(self, told: AlertChange, action: Action, by: str, comment: str, **more: Any) -> AlertChange:
        change = self._next(told, action, by, comment, **more)
        details: dict[str, JsonValue] = {"comment": change.comment} if change.comment else {}
        if action == "assigned":
            details["to"] = change.assignee
        if action == "closed":
            details["verdict"] = change.verdict
        recorded = RecordedAction(self.clock(), change.time, change.by, action, change.alert, None, None, details)
        self.outbox.act([change], recorded)
        self._span(change.alert, action, change.time)
        self._adopt([change])
        return change

    def _adopt(self, changes: Sequence[AlertChange]) -> None:
        for change in changes:
            self._remember(change)
            if self._adopter is not None:
                self._adopter.adopt(change)

    def _span(self, alert: str | None, action: str, time: int) -> None:
        """Record the watermark at which an alert became acknowledged, or stopped being acknowledged."""
        if alert is None:
            return
        spans = self._spans.get(alert, [])
        held = bool(spans) and spans[-1][1] is None
        if action in ("acknowledged", "closed") and not held:
            self._spans[alert] = [*spans, (time, None)]
        elif action == "unacknowledged" and held:
            spans[-1] = spans[-1][0], time

    # --- silences ---

    def silences(self) -> list[Silence]:
        """Return the active silences and maintenance windows, then the pending ones, then the expired ones. Each of
        these groups is sorted by the time at which the silences end.

        For a maintenance window that recurs, only the active, the last and the next occurrence are listed.
        """
        with self.lock:
            now = self.clock()
            silences = [*self._silences.values()]
            once: dict[tuple[object, ...], Silence] = {}  # the closest occurrence of each window
            for silence in self._windows.values():
                if (state := silence.state(now)) == "active":
                    silences.append(silence)
                    continue
                window = state, silence.matchers, silence.author, silence.comment
                other = once.setdefault(window, silence)
                if silence.ends > other.ends if state == "expired" else silence.starts < other.starts:
                    once[window] = silence
            order = {"active": 0, "pending": 1, "expired": 2}
            return sorted([*silences, *once.values()], key=lambda span: (order[span.state(now)], span.ends, span.id))

    def silence(self, id: str) -> Silence:
        """Return the silence that has this id. Raises Unknown if no silence has this id."""
        with self.lock:
            silence = self._all.get(id)
        if silence is None:
            raise Unknown("there is no such silence")
        return silence

    def hidden_by(self, matchers: Matchers) -> list[AlertChange]:
        """Return the open alerts that a silence with these matchers would hide."""
        with self.lock:
            return [change for change in self._open.values() if matchers.matches(self._labels_of(change))]

    def hidden(self) -> Counter[str]:
        """Return the number of open alerts that each silence hides at the moment, by the id of the silence."""
        with self.lock:
            return Counter(id for change in self._open.values() for id in change.silenced)

    def add(self, new: Silence, by: str, instead: str = "") -> Silence:
        """Add a silence, or replace the silence that has the id `instead`.

        As in Alertmanager, the replacement gets a new id if its matchers differ or if the old silence has ended.
        """
        with self.lock:
            ended: list[tuple[Silence, Recorded]] = []
            action: Recorded = "silence"
            if instead:
                old, now = self._own(instead), self.clock()
                if old.state(now) != "expired":
                    if old.matchers == new.matchers:
                        action = "edit_silence"
                        starts = old.starts if old.state(now) == "active" else new.starts
                        new = replace(new, id=old.id, starts=starts, author=old.author)
                    else:
                        ended = [(old.expired(now), "unsilence")]
            self._set(by, *ended, (new, action))
            return new

    def _own(self, id: str) -> Silence:
        if id in self._windows:
            raise Conflict("this is a maintenance window: only its calendar file can change or end it")
        silence = self._silences.get(id)
        if silence is None:
            raise Unknown("there is no such silence")
        return silence

    def expire(self, id: str, by: str, comment: str = "") -> Silence:
        """End a silence now."""
        with self.lock:
            silence, now = self._own(id), self.clock()
            if silence.state(now) == "expired":
                raise Conflict("the silence has ended already")
            ended = silence.expired(now)
            self._set(by, (ended, "unsilence"), comment=comment)
            return ended

    def _set(self, by: str, *silences: tuple[Silence, Recorded], comment: str = "") -> None:
        """Store silences in one transaction.

        `silences`: each silence, with the action that has changed it. `comment`: the reason for ending a silence. For a
        new silence, its own comment is recorded.
        """
        recorded, comment = [], clean(comment.strip(), LONGEST_COMMENT)
        for silence, action in silences:
            details: dict[str, JsonValue] = {
                "matchers": str(silence.matchers),
                "startsAt": rfc3339(silence.starts),
                "endsAt": rfc3339(silence.ends),
            }
            if said := comment if action == "unsilence" else silence.comment:
                details["comment"] = said
            recorded.append(RecordedAction(self.clock(), self.watermark, by, action, None, silence.id, None, details))
        self.outbox.act([], *recorded, silences={silence.id: silence.dump() for silence, _ in silences})
        self._silences |= {silence.id: silence for silence, _ in silences}
        self.look(by, comment)
        self._bell.set()

    # --- what is said of an alert ---

    def labels(self, change: AlertChange) -> dict[str, str]:
        """Return the labels of an alert that matchers of silences compare."""
        return alert_labels(change, self.program, self.status)

    def _labels_of(self, told: AlertChange) -> Mapping[str, str]:
        labels = self._labels.get(told.alert)
        if labels is None:
            labels = self._labels[told.alert] = self.labels(told)
        return labels
