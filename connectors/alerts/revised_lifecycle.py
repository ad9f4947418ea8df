"""The lifecycle of alerts whose occurrences may arrive late or be withdrawn. Published changes are then corrected.

For each key, the lifecycle stores the occurrences that may still be withdrawn. It also stores the state that the alert
had before these occurrences. An occurrence that arrives in order continues from the current state, as in
`cep.connectors.alerts.lifecycle`. After a late or withdrawn occurrence, the changes of the key are recomputed from the
earlier state. Only the differences from the published changes are published.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

import polars as pl

from cep.connectors.alerts.handling import Handling, Heir
from cep.connectors.alerts.handling_tables import RecordedAction
from cep.connectors.alerts.inhibition import Inhibition
from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, AlertOccurrence, AlertState, resolved
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.revised_tables import RevisedKey
from cep.connectors.alerts.text import clean
from cep.connectors.records.late_input import Told, unknown
from cep.core.time import BEGINNING

PUT_RIGHT = "Put right: {why}."
TAKEN_BACK = "Taken back: {why}; the events that led to this alert no longer exist."

_UNSAID = (
    "revision", "state", "time", "note", "holding", "keeping", "sent", "inhibited", "action", "by", "comment",
    "acknowledged", "assignee", "verdict", "silenced",
)  # fmt: skip
_SAME = [field.name for field in fields(AlertChange) if field.name not in _UNSAID]

Name = str
"""The id of an occurrence within its key: the occurrence's times and text as JSON. It is also stored on disk."""
Tables = Mapping[str, pl.DataFrame]
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeldOccurrence:
    """An occurrence that may still be withdrawn, and the values of its columns."""

    occurrence: AlertOccurrence
    values: Mapping[str, Any]


@dataclass(slots=True)
class AlertKey:
    """The state of an alert statement for one key.

    - `place`: the index of the alert statement.
    - `since`: the time up to which occurrences are final, which means that they will not be withdrawn.
    - `base`: the alert that was open at `since`, or None.
    - `held`: the occurrences that ended after `since`.
    - `now`: the alert that is open after the occurrences in `held`, or None.
    - `reached`: the time up to which occurrences were processed.
    - `told`: the last published change of each alert that may still change.
    - `looked`: the time at which to check next for occurrences that have become final, or None.
    """

    place: int
    base: AlertChange | None = None
    since: int = BEGINNING
    now: AlertChange | None = None
    reached: int = BEGINNING
    held: dict[Name, HeldOccurrence] = field(default_factory=dict)
    told: dict[str, AlertChange] = field(default_factory=dict)
    looked: int | None = None


@dataclass(slots=True)
class _Turn:
    """The work of a round.

    - `anew`: the keys to process, by `AlertChange.slot`. The value is True if the key must be recomputed.
    - `come`, `gone`: the ids of the occurrences to add to the outbox on disk, and to remove from it.
    - `heirs`: pairs of a withdrawn alert and the alert that replaces it.
    """

    anew: dict[str, bool] = field(default_factory=dict)
    come: dict[str, list[Name]] = field(default_factory=dict)
    gone: set[tuple[str, Name]] = field(default_factory=set)
    heirs: list[Heir] = field(default_factory=list)


class RevisedLifecycle:
    """The computation of alert changes from occurrences that may be late or withdrawn. It uses an `AlertLifecycle` to
    compute the changes of each key.

    After a restart, it skips rounds that `Outbox.revise` has already stored.
    """

    def __init__(self, lifecycle: AlertLifecycle, outbox: Outbox, handling: Handling | None = None) -> None:
        self.lifecycle, self.outbox, self.handling = lifecycle, outbox, handling or Handling(outbox)
        self.inhibition = Inhibition(lifecycle.statements)
        self._keys: dict[str, AlertKey] = {}
        self._why = unknown
        self._reached: dict[str, int] = {}  # needed if the next start is without --revise
        self._due: list[tuple[int, str]] = []
        self._final: list[tuple[int, str]] = []
        places = {alert.name: place for place, alert in enumerate(lifecycle.alerts)}
        places |= {which: place for place, which in enumerate(lifecycle.prints)}
        kept, self._marks = outbox.begin_revised(lifecycle.fingerprints, lifecycle.prints)
        hidden = {change.alert: change for change in outbox.hidden()}
        for slot, state in kept.items():
            self._keys[slot] = key = _loaded(state, slot, places[state.alert])
            key.told = {alert: told for alert in state.told if (told := hidden.get(alert) or _latest_of(outbox, alert))}
            self._await(slot, key, True)
        self.inhibition.begin([*outbox.open_changes(), *outbox.hidden()])

    def take(
        self,
        come: Tables,
        gone: Tables,
        watermark: int,
        stable: int,
        place: Place | None,
        why: Told = unknown,
    ) -> None:
        """Process the occurrences that a round adds or withdraws, and write the changes of alerts to the outbox.

        - `come`, `gone`: the added and the withdrawn rows, by the name `Alert.table`.
        - `stable`: the time up to which rows are final. A row that ends later may still be withdrawn.
        - `place`: the position of the round in the input, which is greater than that of every earlier round. It is None
          if the input has ended.
        - `why`: a function that returns the cause of revisions.
        """
        turn, self._why = _Turn(), why
        self._withdraw(turn, gone, place)
        self._add(turn, come, place)
        while self._due and self._due[0][0] <= watermark:
            _, slot = heapq.heappop(self._due)
            key = self._keys.get(slot)
            due = None if key is None else self._due_of(key)
            if due is not None and due <= watermark:
                turn.anew.setdefault(slot, False)
        told: list[tuple[tuple[int, bool], AlertChange]] = []
        for slot in sorted(turn.anew, key=lambda slot_name: (self._keys[slot_name].place, slot_name)):
            key = self._keys[slot]
            follow = self._follow_anew if turn.anew[slot] else self._follow_on
            told += _placed(follow(slot, key, turn, watermark))
            self._await(slot, key, turn.anew[slot])
        told.sort(key=lambda entry: entry[0])
        changes = [change for _, change in told]
        if self.inhibition:
            changes = self.inhibition.follow(changes)
        changes = self.handling.follow(changes)
        more, actions = self.handling.taken_over(turn.heirs, changes)
        changes += more
        for change in changes:
            key = self._keys[change.slot]
            key.told[change.alert] = change
            self.inhibition.remember(change)
            which = self.lifecycle.prints[key.place]
            self._reached[which] = max(self._reached.get(which, BEGINNING), change.time)
        settled = self._settle(turn, stable)
        if turn.anew or settled or changes:
            self._write(changes, turn, {*turn.anew, *settled, *(change.slot for change in changes)}, place, actions)

    def adopt(self, change: AlertChange) -> None:
        """Store a change of an open alert that a person or silence has caused. Later changes continue from it."""
        key = self._keys.get(change.slot)
        if key is None:
            return
        if change.alert in key.told:
            key.told[change.alert] = change
        if key.now is not None and key.now.alert == change.alert:
            self.inhibition.remember(change)
            self._await(change.slot, key, False)

    # --- what a round brings ---

    def _withdraw(self, turn: _Turn, gone: Tables, place: Place | None) -> None:
        for name, entry in self._rows(gone, place):
            key = self._keys.get(entry.occurrence.slot)
            if key is not None and key.held.pop(name, None) is not None:
                turn.anew[entry.occurrence.slot] = True
                turn.gone.add((entry.occurrence.slot, name))

    def _add(self, turn: _Turn, come: Tables, place: Place | None) -> None:
        for name, entry in self._rows(come, place):
            slot, end = entry.occurrence.slot, entry.occurrence.end
            key = self._keys.setdefault(slot, AlertKey(entry.occurrence.place))
            if name not in key.held and end > key.since:
                key.held[name] = entry
                turn.come.setdefault(slot, []).append(name)
                turn.gone.discard((slot, name))
                turn.anew[slot] = turn.anew.get(slot, False) or end <= key.reached

    def _rows(self, tables: Tables, place: Place | None) -> Iterator[tuple[Name, HeldOccurrence]]:
        """Yield the occurrences in the tables. Leave out those that the outbox had already stored before a restart."""
        lifecycle = self.lifecycle
        for number, table, over in lifecycle.told_of(tables):
            mark = self._marks.get(lifecycle.prints[number])
            if place is None or mark is None or place > mark:
                for occurrence in lifecycle.occurrences(number, table, over):
                    name = json.dumps([occurrence.end, occurrence.over, occurrence.start, occurrence.text])
                    yield name, HeldOccurrence(occurrence, table.row(occurrence.row, named=True))

    # --- one key ---

    def _follow_on(self, slot: str, key: AlertKey, turn: _Turn, watermark: int) -> list[AlertChange]:
        """Return the changes that new occurrences of a key cause. These occurrences arrived in order, so the changes
        continue from the current state."""
        come = [key.held[name] for name in turn.come.get(slot, ())]
        changes_told = self._followed(key, key.now, come, watermark, key.reached > self.lifecycle.since)
        key.now = self.lifecycle.live.get(slot)
        key.reached = self._latest(key.reached, come, changes_told)
        told: list[AlertChange] = []
        for alert, changes in groupby(changes_told, key=lambda change: change.alert):
            if alert in key.told:
                told += [self._tell(key, change) for change in changes]
            else:  # an earlier run may have published it
                told += self._put_right(key, list(changes))
        return told

    def _follow_anew(self, slot: str, key: AlertKey, turn: _Turn, watermark: int) -> list[AlertChange]:
        """Recompute the changes of a key from all stored occurrences. Return the differences from published changes."""
        held = list(key.held.values())
        followed = self._again(key, held, watermark)
        heirs = _heirs(key, _lives(key, followed))
        if self.handling.hand_over(heirs):
            followed = self._again(key, held, watermark)
        turn.heirs += heirs
        key.now = self.lifecycle.live.get(slot)
        key.reached = self._latest(key.since, held, followed)
        lives = _lives(key, followed)
        told: list[AlertChange] = []
        for alert, before in list(key.told.items()):
            if alert not in lives and not before.withdrawn:
                instant = max(watermark, before.time) + 1
                told.append(self._tell(key, resolved(before, instant, withdrawn=True, note=self._said(TAKEN_BACK))))
        for changes in lives.values():
            told += self._put_right(key, changes)
        if key.now is not None and told and told[-1].alert != key.now.alert:
            # Some receivers know an alert by its key: the last change that they receive must be that of the open one.
            told.append(self._tell(key, replace(key.now, state=_standing(key.now), note=self._said(PUT_RIGHT))))
        return told

    def _put_right(self, key: AlertKey, changes: Sequence[AlertChange]) -> list[AlertChange]:
        """Return the changes to publish for one alert so that receivers know its state after the new `changes`."""
        before = self._told(key, changes[0].alert)
        if before is not None:
            same = [number for number, change in enumerate(changes) if _says_the_same(change, before)]
            if not same:
                fires = next((n for n, change in enumerate(changes) if change.fired is not None), len(changes) - 1)
                rest = changes[fires:] if before.fired is None else [replace(changes[-1], state=_standing(changes[-1]))]
                return [self._tell(key, replace(change, note=self._said(PUT_RIGHT))) for change in rest]
            changes = changes[same[-1] + 1 :]
        return [self._tell(key, change) for change in changes]

    def _followed(
        self, key: AlertKey, base: AlertChange | None, held: Sequence[HeldOccurrence], watermark: int, turned: bool
    ) -> list[AlertChange]:
        """Return the changes that occurrences of a key cause. If an alert is still open after these changes, it is
        stored in `lifecycle.live`."""
        values = {id(entry.occurrence): entry.values for entry in held}
        occurrences = [entry.occurrence for entry in held]
        return self.lifecycle.go_through(key.place, base, occurrences, lambda row: values[id(row)], watermark, turned)

    def _again(self, key: AlertKey, held: Sequence[HeldOccurrence], watermark: int) -> list[AlertChange]:
        """Recompute the changes that occurrences of a key cause, starting from `key.base`. Invalid places of these
        occurrences are not counted a second time."""
        counted = self.lifecycle.unplaced.copy()
        changes = self._followed(key, key.base, held, watermark, key.since >= self.lifecycle.since)
        for name, number in counted.items():
            self.lifecycle.unplaced[name] = number
        return changes

    def _said(self, note: str) -> str:
        return note.format(why=clean(self._why()))

    def _told(self, key: AlertKey, alert: str) -> AlertChange | None:
        if alert not in key.told:
            entry = self.outbox.revision(alert)
            if entry is None:
                return None
            key.told[alert] = entry.change
        return key.told[alert]

    def _tell(self, key: AlertKey, change: AlertChange) -> AlertChange:
        """Return a change whose revision number follows the one of the alert's last published change."""
        before = self._told(key, change.alert)
        revision = 0 if before is None else before.revision + 1
        sent = None if before is None else before.sent
        if sent is None and change.fired is not None:
            sent = revision
        key.told[change.alert] = told = replace(change, revision=revision, sent=sent)
        return told

    # --- all keys ---

    def _settle(self, turn: _Turn, stable: int) -> list[str]:
        """Move the occurrences that have become final into `AlertKey.base`. Return the slots of their keys.

        `stable`: the time up to which occurrences are final.
        """
        settled = []
        while self._final and self._final[0][0] <= stable:
            due, slot = heapq.heappop(self._final)
            key = self._keys.get(slot)
            if key is None or key.looked != due:
                continue
            key.looked = None
            settled.append(slot)
            over = [name for name, held in key.held.items() if held.occurrence.end <= stable]
            self._again(key, [key.held[name] for name in over], stable)
            key.base, key.since = self.lifecycle.live.get(slot), stable
            for name in over:
                del key.held[name]
                turn.gone.add((slot, name))
            open_ = [change.alert for change in (key.base, key.now) if change is not None]
            for alert in [told for told, change in key.told.items() if change.time <= stable and told not in open_]:
                del key.told[alert]
            if not open_ and not key.held and not key.told:
                del self._keys[slot]
            else:
                self._await(slot, key, True)
        return settled

    def _await(self, slot: str, key: AlertKey, anew: bool) -> None:
        """Schedule two times at which a key must be processed again. One is the time at which its alert is due for a
        change. The other is the time at which its first occurrence becomes final."""
        if (due := self._due_of(key)) is not None:
            heapq.heappush(self._due, (due, slot))
        if key.looked is None or anew:
            ends = [entry.occurrence.end for entry in key.held.values()]
            ends += [change.time for change in key.told.values() if change.time > key.since]
            first = max(min(ends, default=BEGINNING), self.lifecycle.first_final(key.place))
            if ends and (key.looked is None or first < key.looked):
                key.looked = first
                heapq.heappush(self._final, (key.looked, slot))

    def _due_of(self, key: AlertKey) -> int | None:
        return (
            None if key.now is None else self.lifecycle.due_for(key.place, key.now, key.reached > self.lifecycle.since)
        )

    def _latest(self, before: int, held: Iterable[HeldOccurrence], changes: Iterable[AlertChange]) -> int:
        """Return the time up to which a key has been processed. An occurrence that ends after this time is not late."""
        times = (*(entry.occurrence.end for entry in held), *(change.time for change in changes))
        return max(self.lifecycle.since + 1, before, *times)

    def _write(
        self,
        told: Sequence[AlertChange],
        turn: _Turn,
        slots: Iterable[str],
        place: Place | None,
        actions: Sequence[RecordedAction],
    ) -> None:
        marks = self._marks
        if place is not None:
            marks = {which: max(place, self._marks.get(which, place)) for which in self.lifecycle.prints}
        come = {
            (slot, name): json.dumps(self._keys[slot].held[name].values, ensure_ascii=False)
            for slot, names in turn.come.items()
            if slot in self._keys
            for name in names
            if name in self._keys[slot].held
        }
        gone = sorted(gone_slot for gone_slot in turn.gone if gone_slot not in come)
        keys = {slot: self._kept(self._keys.get(slot)) for slot in sorted(slots)}
        fewer = [fewer_key for slot in keys if (fewer_key := self._fewer(self._keys.get(slot))) is not None]
        self.handling.hold(fewer)
        self.outbox.revise(told, self._reached, marks, keys, come, gone, fewer, actions)

    def _fewer(self, key: AlertKey | None) -> AlertChange | None:
        """Return the last published change of a key's open alert, in which `holding` is brought up to date. Return None
        if `holding` has not changed since this change.

        If the server is restarted without revision, it reads `holding` from this change.
        """
        told = None if key is None or key.now is None else key.told.get(key.now.alert)
        if key is None or key.now is None or told is None or told.holding == key.now.holding:
            return None
        key.told[told.alert] = told = replace(told, holding=key.now.holding)
        return told

    def _kept(self, key: AlertKey | None) -> RevisedKey | None:
        if key is None:
            return None
        base, now = (None if change is None else change.dump() for change in (key.base, key.now))
        return RevisedKey(self.lifecycle.prints[key.place], base, key.since, now, key.reached, sorted(key.told))


def _placed(changes: Iterable[AlertChange]) -> Iterator[tuple[tuple[int, bool], AlertChange]]:
    """Yield each change of a key with a sort key.

    The sort keys order the changes of all keys by time. Among changes that have the same time, those that resolve an
    alert because its `until` has passed come last.
    """
    place = (BEGINNING, False)
    for change in changes:
        if not change.withdrawn:
            place = max(place, (change.time, change.state == "resolved" and change.time == change.until))
        yield place, change


def _latest_of(outbox: Outbox, alert: str) -> AlertChange | None:
    entry = outbox.revision(alert)
    return None if entry is None else entry.change


def _lives(key: AlertKey, changes: Iterable[AlertChange]) -> dict[str, list[AlertChange]]:
    lives = {} if key.base is None else {key.base.alert: [key.base]}
    for change in changes:
        lives.setdefault(change.alert, []).append(change)
    return lives


def _heirs(key: AlertKey, lives: Mapping[str, Sequence[AlertChange]]) -> list[Heir]:
    """Return pairs of a withdrawn alert and the alert that replaces it, which is the last alert that overlaps the
    withdrawn one in time."""
    heirs = []
    for alert, before in key.told.items():
        if alert not in lives and not before.withdrawn:
            beside = [
                own[-1] for own in lives.values() if own[-1].start <= _end(before) and before.start <= _end(own[-1])
            ]
            heirs += [(before, beside[-1].alert)] if beside else []
    return heirs


def _end(change: AlertChange) -> int:
    return max(change.time, change.until) if change.ended is None else change.ended


def _standing(change: AlertChange) -> AlertState:
    return "updated" if change.state in ("firing", "escalated") else change.state


def _says_the_same(change: AlertChange, before: AlertChange) -> bool:
    over = change.state == "resolved"
    same = over == (before.state == "resolved") and bool(change.holding) == bool(before.holding)
    if not same or (over and not change.withdrawn and change.ended != before.ended):
        return False
    return all(getattr(change, name) == getattr(before, name) for name in _SAME)


def _loaded(kept: RevisedKey, slot: str, place: int) -> AlertKey:
    base, now = (None if text is None else AlertChange.load(text) for text in (kept.base, kept.now))
    key = AlertKey(place, base, kept.since, now, kept.reached)
    for row, (name, values) in enumerate(kept.held.items()):
        end, over, start, text = json.loads(name)
        key.held[name] = HeldOccurrence(AlertOccurrence(end, place, slot, start, text, row, over), json.loads(values))
    return key
