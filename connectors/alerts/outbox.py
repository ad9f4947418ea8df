"""The outbox: all changes of alerts, numbered, on disk, and the cursor of each receiver. A receiver's cursor is the
number up to which the receiver has accepted all changes.

The outbox is an SQLite database with a synchronous write-ahead log: changes survive a crash of the process or the
machine. The changes of a round are added in one transaction, together with the event time that the round has reached.
So no change is added twice if the input is read again after a restart.

Each row has a hash. Hashes are verified when the outbox is opened and when changes are read. The hashes of old changes
are verified in the background (`verify`).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from cep.connectors.alerts import handling_tables, outbox_tables, revised_tables
from cep.connectors.alerts.handling_tables import RecordedAction
from cep.connectors.alerts.lifecycle import AlertChange, resolved
from cep.connectors.alerts.outbox_entries import Closed, OutboxEntry, ReceiverCounts, ReceiverStatus, RefusedEntry
from cep.connectors.alerts.revised_tables import RevisedKey
from cep.connectors.alerts.text import JsonValue
from cep.core.errors import CepError
from cep.core.time import BEGINNING

KEPT = 1_000_000
"""The number of changes that are always kept. Older changes are removed once all receivers have accepted them."""


_CHANGES = outbox_tables.HASHED["changes"]
_HOLDS = (
    "update changes set body = ?1, hash = hashed(number, alert, revision, ?1, came) where alert = ?2 and revision = ?3"
)
_VERIFIED = 500  # changes that are verified together, while nothing is added


class Outbox:
    """The changes of a program's alerts. Any thread may use an outbox. If `path` is None, it exists in memory only.

    - `ended`: True if the input has ended, so that open alerts no longer change.
    - `lost`: the names of lost sources.
    - `counts`: for each receiver, the counters of its sender.

    Raises CepError if the file is not an outbox, or if another process uses it.
    """

    def __init__(self, path: Path | None, keep: int = KEPT) -> None:
        self._lock = threading.RLock()
        self._came = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self._served: set[str] = set()
        self._keep = keep
        self.ended, self.lost = False, tuple[str, ...]()
        self.counts: dict[str, ReceiverCounts] = {}
        self._open = True
        self._newest: list[OutboxEntry] = []  # the entries of the last addition
        self._where = where = ":memory:" if path is None else str(path)
        self._sqlite = outbox_tables.open_outbox(where)
        try:
            with self._at_once():
                revised_tables.make(self._base, where)
                handling_tables.make(self._base, where)
            self.last = self._one("select max(seq) from sqlite_sequence where name = 'changes'") or 0
            self._pruned, self._unverified = self._before(), self.last - outbox_tables.NEWEST
            self.id = self.remembered("id", str(uuid4()))
        except BaseException as error:
            self._sqlite.close()  # otherwise the file stays locked until this is collected
            if isinstance(error, sqlite3.DatabaseError):
                raise outbox_tables.damaged_outbox(where, str(error)) from None
            raise

    @property
    def first(self) -> int:
        """The number from which on all changes are kept. Of older changes, only the last of each open alert is kept."""
        return self._pruned + 1

    def remembered(self, name: str, value: str) -> str:
        """Return the value that is stored under a name. If no value is stored yet, store `value` and return it."""
        with self._lock, outbox_tables.writing(self._where):
            self._base.execute(
                "insert or ignore into meta (name, value, hash) values (?1, ?2, hashed(?1, ?2))",
                (f"kept {name}", value),
            )
            return self._meta(f"kept {name}") or value

    # --- what the program writes ---

    def begin(self, fingerprints: Mapping[str, str]) -> tuple[list[AlertChange], dict[str, int]]:
        """Return the last change of each unresolved alert. Also return, for each fingerprint, the event time up to
        which the outbox has all changes of the alert.

        `fingerprints`: the fingerprint of each alert of the program, by the alert's name. Open alerts are withdrawn if
        the program no longer has them or if their meaning has changed.
        """
        with self._lock:
            live = self._begin(fingerprints)
            revised_tables.forget(self._base)  # a plain lifecycle continues from the open alerts
            self._base.execute("delete from meta where name like 'revised %'")
            reached = {
                fingerprint: int(self._meta(f"reached {fingerprint}") or BEGINNING)
                for fingerprint in fingerprints.values()
            }
        self._notify()
        return live, reached

    def begin_revised(
        self, fingerprints: Mapping[str, str], followed: Collection[str]
    ) -> tuple[dict[str, RevisedKey], dict[str, tuple[int, int]]]:
        """Prepare the outbox as `begin` does, for a program that revises alerts.

        Returns the stored state of each key, by `AlertChange.slot`. Also returns, for each fingerprint of an alert, the
        position of the last round that `revise` has stored. `followed`: the fingerprints of all alerts whose changes
        are computed, including alerts of a former program.
        """
        with self._lock:
            before = json.loads(self._meta("meant") or "{}")
            same = {name for name, which in fingerprints.items() if before.get(name) == which}
            kept, gone = revised_tables.read(self._base, {*same, *followed})
            self._begin(fingerprints, kept, gone)
            marks = {which: self._meta(f"revised {which}") for which in followed}
        self._notify()
        return kept, {which: tuple(json.loads(mark)) for which, mark in marks.items() if mark is not None}

    def _begin(
        self, fingerprints: Mapping[str, str], kept: Collection[str] = (), gone: Collection[str] = ()
    ) -> list[AlertChange]:
        """Return the last changes of the open alerts that continue, and withdraw the other alerts.

        `kept`, `gone`: the `AlertChange.slot` of alerts that always continue, and of those that are always withdrawn.
        """
        before = json.loads(self._meta("meant") or "{}")
        live: list[AlertChange] = []
        over: list[AlertChange] = []

        def goes_on(change: AlertChange) -> bool:
            same = fingerprints.get(change.name, "") == before.get(change.name)
            return change.slot in kept or (same and change.slot not in gone)

        for entry in self.live():
            (live if goes_on(entry.change) else over).append(entry.change)
        for change in self.hidden():
            if goes_on(change):
                live.append(change)
            else:
                self._base.execute("delete from hidden where slot = ?", (change.slot,))
        if over or before != fingerprints:
            added = [resolved(change, change.time, withdrawn=True) for change in over]
            self._write(added, {"meant": json.dumps(dict(fingerprints))})
        return live

    def add(
        self, changes: Sequence[AlertChange], reached: Mapping[str, int], fewer: Sequence[AlertChange] = ()
    ) -> None:
        """Append changes in order, in one transaction.

        `reached`: for each fingerprint of an alert, the event time up to which the outbox has all changes. `fewer`: the
        last changes of open alerts whose `holding` has changed. Their other fields equal the stored ones.
        """
        if not changes and not fewer:
            return
        with self._lock:
            meta = {f"reached {source}": str(time) for source, time in reached.items()}
            self._write(changes, meta, fewer=fewer)
            self._prune()
        if changes:
            self._notify()

    def revise(
        self,
        changes: Sequence[AlertChange],
        reached: Mapping[str, int],
        marks: Mapping[str, tuple[int, int]],
        keys: Mapping[str, RevisedKey | None],
        come: Mapping[tuple[str, str], str],
        gone: Iterable[tuple[str, str]],
        fewer: Sequence[AlertChange] = (),
        actions: Sequence[RecordedAction] = (),
    ) -> None:
        """Append changes, like `add`, and store the state of keys (`revised_tables.write`) in the same transaction.

        - `marks`: for each fingerprint of an alert, the position of the round.
        - `keys`, `come`, `gone`: the parameters of `revised_tables.write`.
        - `actions`: the actions that have caused the last changes in `changes`, one per change, in the same order.
        """
        with self._lock:
            first = self.last + 1 + sum(not change.hidden for change in changes) - len(actions)
            meta = {f"reached {source}": str(time) for source, time in reached.items()}
            meta |= {f"revised {source}": json.dumps(mark) for source, mark in marks.items()}

            def besides() -> None:
                revised_tables.write(self._base, keys, come, gone)
                for number, action in enumerate(actions, first):
                    handling_tables.record(self._base, replace(action, change=number))

            self._write(changes, meta, besides, fewer)
            self._prune()
        if changes:
            self._notify()

    def act(
        self,
        changes: Sequence[AlertChange],
        *actions: RecordedAction,
        silences: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        """Append changes that people or silences cause, record the actions, and store silences, all in one transaction.

        `silences`: the JSON of each silence, by the silence's id. None removes the silence.
        """

        def besides() -> None:
            for id, body in silences.items():
                handling_tables.keep_silence(self._base, id, body)
            for action in actions:
                handling_tables.record(self._base, replace(action, change=first if changes else None))

        with self._lock:
            first = self.last + 1
            self._write(changes, {}, besides)
            self._prune()
        if changes:
            self._notify()

    def _write(
        self,
        changes: Sequence[AlertChange],
        meta: Mapping[str, str],
        besides: Callable[[], None] = lambda: None,
        fewer: Sequence[AlertChange] = (),
    ) -> None:
        hidden = [change for change in (*changes, *fewer) if change.hidden]
        changes = [change for change in changes if not change.hidden]
        now = _now()
        added = [(n, c.alert, c.revision, c.dump(), now) for n, c in enumerate(changes, self.last + 1)]
        rows = [(*row, outbox_tables.row_hash(*row)) for row in added]
        latest = {change.alert: (number, change.state) for number, change in enumerate(changes, self.last + 1)}
        live = [(alert, number) for alert, (number, state) in latest.items() if state != "resolved"]
        over = [(alert,) for alert, (_, state) in latest.items() if state == "resolved"]
        with self._at_once():
            self._base.executemany(
                "insert into changes (number, alert, revision, body, came, hash) values (?, ?, ?, ?, ?, ?)", rows
            )
            self._base.executemany(
                "insert or replace into live (alert, number, hash) values (?1, ?2, hashed(?1, ?2))", live
            )
            self._base.executemany("delete from live where alert = ?", over)
            for name, value in meta.items():
                self._set(name, value)
            self._base.executemany(_HOLDS, [(change.dump(), change.alert, change.revision) for change in fewer])
            for change in hidden:
                self._hide(change)
            for number, change in enumerate(changes, self.last + 1):
                if not change.revision:
                    handling_tables.begin_episode(self._base, change.alert, change.slot, number)
            besides()
        if not changes:
            return
        self._newest = [OutboxEntry(number, change, now) for number, change in enumerate(changes, self.last + 1)]
        self.last += len(rows)

    def _hide(self, change: AlertChange) -> None:
        """Store the last change of an alert that is never published, or remove it if the alert is resolved."""
        if change.state == "resolved":
            self._base.execute("delete from hidden where slot = ?", (change.slot,))
        else:
            row = change.slot, change.dump()
            self._base.execute("insert or replace into hidden (slot, body, hash) values (?1, ?2, hashed(?1, ?2))", row)

    def _prune(self) -> None:
        """Remove old changes once the number of stored changes exceeds the limit by a tenth.

        Changes that a receiver has not accepted yet are kept. The last change of each open alert is also kept.
        """
        if self.last - self.first < self._keep * 1.1:
            return
        marks = ", ".join("?" * len(self._served))
        slowest = self._one(f"select min(cursor) from receivers where name in ({marks})", *sorted(self._served))
        until = min(self.last - self._keep, self.last if slowest is None else slowest)
        if until - self._pruned < self._keep * 0.1:
            return
        with self._at_once():
            self._base.execute(
                "delete from changes where number <= ? and number not in (select number from live)", (until,)
            )
            self._base.execute(
                "delete from dead where number <= ? and number not in (select number from changes)", (until,)
            )
            handling_tables.prune(self._base)
            outbox_tables.prune_threads(self._base)
            self._set("pruned", str(until))
        self._pruned = until

    # --- what feeds read ---

    def after(self, number: int, most: int = 500) -> list[OutboxEntry]:
        """Return up to `most` entries whose numbers are greater than `number`, in order."""
        return self._entries("where number > ? order by number limit ?", number, most)

    def between(self, low: int, high: int) -> list[OutboxEntry]:
        """Return the entries from `low` to `high`, both included."""
        with self._lock:
            if self._open and self._newest and low >= self._newest[0].number and high <= self._newest[-1].number:
                first = self._newest[0].number
                return self._newest[low - first : high - first + 1]
        return self._entries("where number between ? and ? order by number", low, high)

    def revision(self, alert: str, revision: int | None = None) -> OutboxEntry | None:
        """Return one change of an alert, by default the latest."""
        if revision is None:
            entries = self._entries("where alert = ? order by revision desc limit 1", alert)
        else:
            entries = self._entries("where alert = ? and revision = ?", alert, revision)
        return entries[0] if entries else None

    def life(self, alert: str, after: int = 0, most: int = -1) -> list[OutboxEntry]:
        """Return the changes of an alert, in order.

        `after`: only changes that have greater numbers are returned. `most`: the maximum number of changes; -1: all.
        """
        return self._entries("where alert = ? and number > ? order by number limit ?", alert, after, most)

    def last_of(self, alert: str, before: int | None, most: int) -> list[OutboxEntry]:
        """Return the latest `most` changes of an alert, in order. `before`: return only changes with lower numbers."""
        until = self.last + 1 if before is None else before
        return self._entries("where alert = ? and number < ? order by number desc limit ?", alert, until, most)[::-1]

    def loud(self, alert: str, before: int) -> Iterator[OutboxEntry]:
        """Yield the changes of an alert that are not `quiet`, latest first. `before`: yield only lower revisions."""
        loud = "json_extract(body, '$.silenced') is null and json_extract(body, '$.inhibited') is null"
        where = f"where alert = ? and revision < ? and {loud} order by revision desc limit 100"
        while entries := self._entries(where, alert, before):
            yield from (entry for entry in entries if not entry.change.quiet)
            before = entries[-1].change.revision

    def standing(self, change: AlertChange) -> AlertChange:
        """Return the change from which receivers learn the current state of an alert's key.

        This is the last change of the open alert that has the same key, if receivers are sent this change. Otherwise it
        is the last change of the alert to which `change` belongs.
        """
        for entry in self.live():
            if entry.change.slot == change.slot and not entry.change.quiet:
                return entry.change
        last = self.revision(change.alert)
        return change if last is None else last.change

    def live(self, after: int = 0, most: int = -1) -> list[OutboxEntry]:
        """Return the last change of each unresolved alert, in order.

        `after`: only changes that have greater numbers are returned. `most`: the maximum number of changes; -1: all.
        """
        return self._entries(
            "where number > ? and number in (select number from live) order by number limit ?", after, most
        )

    def open_changes(self) -> list[AlertChange]:
        """Return the last changes of unresolved alerts, in order."""
        return [entry.change for entry in self.live()]

    def hidden(self) -> list[AlertChange]:
        """Return the last changes of open alerts that are never published."""
        with self._lock:
            rows = self._base.execute("select body from hidden order by slot").fetchall()
        return [AlertChange.load(body) for (body,) in rows]

    def actions(self, after: int = 0, most: int = -1, **only: Collection[str]) -> list[RecordedAction]:
        """Return recorded actions, in order.

        - `after`: only actions that have greater numbers are returned.
        - `most`: the maximum number of actions; -1: all.
        - `only`: the permitted values of `action`, `person` or `alert`. An empty collection permits any value.
        """
        wanted = {name: values for name, values in only.items() if values}
        some = "".join(f" and {name} in ({', '.join('?' * len(values))})" for name, values in wanted.items())
        asked = [value for values in wanted.values() for value in values]
        with self._lock:
            where = f"where number > ?{some} order by number limit ?"
            return list(handling_tables.actions(self._base, where, after, *asked, most))

    def silences(self) -> dict[str, str]:
        """Return the stored silences as JSON, by id."""
        with self._lock:
            return handling_tables.silences(self._base)

    def episodes(self, slot: str, most: int) -> list[OutboxEntry]:
        """Return the last changes of the latest `most` alerts that have a name and key, newest alert first.

        `slot`: the hash of the alerts' name and key.
        """
        with self._lock:
            alerts = handling_tables.episodes(self._base, slot, most)
        return [entry for alert in alerts if (entry := self.revision(alert)) is not None]

    def latest(self, before: int | None = None, most: int = 500) -> list[OutboxEntry]:
        """Return the last change of up to `most` alerts, newest first. `before`: return only changes with lower
        numbers."""
        newer = "select 1 from changes newer where newer.alert = changes.alert and newer.revision > changes.revision"
        where = f"where number < ? and not exists ({newer}) order by number desc limit ?"
        return self._entries(where, self.last + 1 if before is None else before, most)

    def farthest(self) -> int:
        """Return the latest event time that a round or an action of a person has reached."""
        with self._lock:
            told = self._one("select max(cast(value as integer)) from meta where name like 'reached %'")
            acted = self._one("select max(watermark) from actions")
        return max(reached for reached in (told, acted, BEGINNING) if reached is not None)

    def wait(self, number: int, seconds: float) -> bool:
        """Wait up to `seconds` for an entry whose number is greater than `number`. Return True if there is one."""
        with self._came:
            return self._came.wait_for(lambda: self.last > number, seconds)

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function that is called after changes were added, in the thread that added them. `begin` and
        `begin_revised` also call it."""
        self._listeners.append(listener)

    # --- receivers ---

    def receiver(self, name: str, start: bool = False) -> int:
        """Return the cursor of a receiver: the number up to which it has accepted all entries.

        A new receiver gets only entries that are added later or, if `start` is True, all stored entries.
        """
        with self._lock:
            self._served.add(name)
            first = 0 if start else self.last
            self._base.execute(
                "insert or ignore into receivers (name, cursor, hash) values (?1, ?2, hashed(?1, ?2))", (name, first)
            )
            return self._one("select cursor from receivers where name = ?", name) or 0

    def ahead(self, name: str) -> list[tuple[int, int]]:
        """Return the entries that a receiver has accepted beyond its cursor, as ranges that include both ends."""
        return [(low, high) for low, high in json.loads(self._meta(f"ahead {name}") or "[]")]

    def unsent(self, name: str) -> dict[str, int]:
        """Return the alerts whose latest changes were not sent to a receiver. For each alert, the value is the first
        revision that was not sent."""
        return dict(json.loads(self._meta(f"unsent {name}") or "{}"))

    def acknowledge(
        self,
        name: str,
        number: int,
        ahead: Sequence[tuple[int, int]] = (),
        unsent: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Record the entries that a receiver has accepted: all up to `number`, and the ranges `ahead`.

        `unsent`: for each alert whose latest changes were not sent to the receiver, the first revision that was not
        sent. Raises CepError if the disk cannot be written.
        """
        with self._lock, self._at_once():
            self._base.execute(
                "update receivers set cursor = max(cursor, ?1), hash = hashed(name, max(cursor, ?1)) where name = ?2",
                (number, name),
            )
            text = json.dumps(list(ahead))
            if text != (self._meta(f"ahead {name}") or "[]"):
                self._set(f"ahead {name}", text)
            text = json.dumps(dict(unsent))
            if text != (self._meta(f"unsent {name}") or "{}"):
                self._set(f"unsent {name}", text)

    def reject(self, name: str, number: int, reason: str) -> None:
        """Record that a receiver will never accept an entry. The entry becomes a dead letter.

        Raises CepError if the disk cannot be written.
        """
        with self._lock, outbox_tables.writing(self._where):
            self._base.execute(
                "insert or replace into dead (receiver, number, reason, time, again, hash)"
                " values (?1, ?2, ?3, ?4, 0, hashed(?1, ?2, ?3, ?4, 0))",
                (name, number, reason, _now()),
            )

    def dead(self, name: str) -> list[RefusedEntry]:
        """Return the stored dead letters of a receiver, in order."""
        return self._dead_letters("where receiver = ? order by dead.number", name)

    def retry(self, name: str, by: str) -> int:
        """Mark the dead letters of a receiver to be sent once more. Return the number of these dead letters.

        `by`: the person who requested this, which the outbox records. Raises CepError if the disk cannot be written.
        """
        watermark = self.farthest()
        with self._lock, outbox_tables.writing(self._where):
            again = "update dead set again = 1, hash = hashed(receiver, number, reason, time, 1) where receiver = ?"
            letters = self._base.execute(again, (name,)).rowcount
            details: dict[str, JsonValue] = {"receiver": name, "letters": letters}
            now = time.time_ns() // 1000
            handling_tables.record(self._base, RecordedAction(now, watermark, by, "send_again", details=details))
            return letters

    def next_retry(self, name: str) -> RefusedEntry | None:
        """Return the first dead letter of a receiver that must be sent once more, or None if there is none."""
        letters = self._dead_letters("where receiver = ? and again order by dead.number limit 1", name)
        return letters[0] if letters else None

    def delivered(self, name: str, number: int) -> None:
        """Record that a receiver has accepted a dead letter. Raises CepError if the disk cannot be written."""
        with self._lock, outbox_tables.writing(self._where):
            self._base.execute("delete from dead where receiver = ? and number = ?", (name, number))

    def groups(self, name: str) -> dict[str, tuple[int, list[int], str | None]]:
        """Return the groups of alerts about which a receiver was sent messages, by the group's key.

        A value describes the last message about the group: its time, the numbers of the changes that it contained, and
        its id. The id is None if the changes were sent one by one.
        """
        with self._lock:
            rows = self._base.execute("select name, value from meta where name like 'group %'").fetchall()
        groups = {}
        for row, value in rows:
            receiver, key = json.loads(row.removeprefix("group "))
            if receiver == name:
                sent, numbers, message = json.loads(value)
                groups[key] = sent, numbers, message
        return groups

    def note_group(self, name: str, key: str, sent: int, numbers: Sequence[int], message: str | None) -> None:
        """Record that the current message about a group of alerts is being sent to a receiver.

        - `sent`: the time of the message.
        - `numbers`: the numbers of the changes that the message contains.
        - `message`: the id of the message, or None if the changes are sent one by one.

        Raises CepError if the disk cannot be written.
        """
        with self._lock:
            self._set(f"group {json.dumps([name, key])}", json.dumps([sent, list(numbers), message]))

    def forget_groups(self, name: str, keys: Iterable[str]) -> None:
        """Delete the records of groups that have no open alerts. Raises CepError if the disk cannot be written."""
        rows = [(f"group {json.dumps([name, key])}",) for key in sorted(keys)]
        with self._lock, outbox_tables.writing(self._where):
            self._base.executemany("delete from meta where name = ?", rows)

    def threads(self, name: str, alerts: Sequence[str], message: str) -> list[str]:
        """Return the ids of the messages in which a receiver was first notified of some alerts, without duplicates.

        If the receiver was sent no message about an alert yet, `message` is recorded as the first one. The record stays
        until all changes of the alert are removed. Raises CepError if the disk cannot be written.
        """
        with self._lock, self._at_once():
            firsts: dict[str, None] = {}
            for alert in alerts:
                place = outbox_tables.thread(name, alert)
                if (first := self._meta(place)) is None:
                    self._set(place, first := message)
                firsts[first] = None
        return list(firsts)

    def serves(self, name: str) -> bool:
        """Return True if a sender for the receiver `name` is running."""
        return name in self._served

    def statuses(self) -> list[ReceiverStatus]:
        """Return the progress of each receiver, sorted by the receiver's name."""
        with self._lock:
            rows = self._base.execute(
                "select name, cursor, (select count(*) from dead where receiver = name) from receivers order by name"
            ).fetchall()
            return [ReceiverStatus(name, cursor, self._waiting(name, cursor), dead) for name, cursor, dead in rows]

    @property
    def open(self) -> int:
        """Return the number of unresolved alerts."""
        return self._one("select count(*) from live") or 0

    def verify(self, trouble: Callable[[CepError], None]) -> None:
        """Verify the changes that were not verified when the outbox was opened, a few at a time.

        `trouble`: a function that is called for the first damaged change. Returns when all changes are verified, or
        when the outbox is closed.
        """
        try:
            for low in range(self._pruned, self._unverified, _VERIFIED):
                with self._lock:
                    outbox_tables.verify(
                        self._base, self._where, "changes", "number between ? and ?", low, low + _VERIFIED
                    )
        except CepError as error:
            trouble(error)
        except Closed:
            return

    def close(self) -> None:
        """Close the outbox. Every later call raises Closed."""
        with self._lock:
            self._open = False
            self._sqlite.close()

    # --- below ---

    @property
    def _base(self) -> sqlite3.Connection:
        if not self._open:
            raise Closed
        return self._sqlite

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        with outbox_tables.writing(self._where):
            self._base.execute("begin immediate")
            try:
                yield
                self._base.execute("commit")
            except BaseException:
                if self._base.in_transaction:  # a full disk has ended it already
                    self._base.execute("rollback")
                raise

    def _waiting(self, name: str, cursor: int) -> int:
        query = "select count(*) from changes where number between ? and ?"
        beyond = sum(self._one(query, low, high) or 0 for low, high in self.ahead(name))
        return (self._one(query, cursor + 1, self.last) or 0) - beyond

    def _before(self) -> int:
        """Return the number up to which changes were removed.

        An outbox of an older version does not record this number. Then it is the number before the last gap in the
        numbers of the stored changes.
        """
        noted = self._meta("pruned")
        if noted is not None:
            return int(noted)
        first = self._one("select max(number) from changes where number - 1 not in (select number from changes)")
        before = self.last if first is None else first - 1
        self._set("pruned", str(before))
        return before

    def _entries(self, where: str, *values: object) -> list[OutboxEntry]:
        with self._lock:
            rows = self._base.execute(f"select {_CHANGES}, hash from changes {where}", values).fetchall()
        for row in rows:
            if outbox_tables.row_hash(*row[:-1]) != row[-1]:
                raise outbox_tables.damaged_outbox(self._where, f"in changes, at {row[0]}")
        return [OutboxEntry(number, AlertChange.load(body), added) for number, _, _, body, added, _ in rows]

    def _dead_letters(self, where: str, *values: object) -> list[RefusedEntry]:
        query = f"select number, body, came, reason, time, again from dead join changes using (number) {where}"
        with self._lock:
            rows = self._base.execute(query, values).fetchall()
        return [
            RefusedEntry(OutboxEntry(number, AlertChange.load(body), added), reason, time, bool(again))
            for number, body, added, reason, time, again in rows
        ]

    def _one(self, query: str, *values: object) -> int | None:
        with self._lock:
            row = self._base.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _meta(self, name: str) -> str | None:
        with self._lock:
            row = self._base.execute("select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _set(self, name: str, value: str) -> None:
        with outbox_tables.writing(self._where):
            self._base.execute(
                "insert or replace into meta (name, value, hash) values (?1, ?2, hashed(?1, ?2))", (name, value)
            )

    def _notify(self) -> None:
        with self._came:
            self._came.notify_all()
        for listener in self._listeners:
            listener()


def _now() -> int:
    return time.time_ns() // 1000
