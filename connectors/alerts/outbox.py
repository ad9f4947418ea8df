"""The outbox: every change of an alert, numbered, on disk; and how far each receiver has come.

What was added stays after any end of the process, also of the machine (SQLite, a write-ahead log, synchronous). A
round's changes come all at once or not at all, with how far event time had come; so what is replayed after a start is
known.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cep.errors import CepError
from cep.runtime.clock import BEGINNING
from connectors.alerts.life import Change, resolved

KEPT = 1_000_000
"""Changes that are kept at least; older ones go when all receivers have them."""

_FORM = 1
_TABLES = """
create table if not exists changes (number integer primary key autoincrement, alert text not null,
    revision integer not null, body text not null, unique (alert, revision));
create table if not exists live (alert text primary key, number integer not null);
create table if not exists receivers (name text primary key, cursor integer not null);
create table if not exists dead (receiver text not null, number integer not null, reason text not null,
    primary key (receiver, number));
create table if not exists meta (name text primary key, value text not null);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change with its number, from 1 in the order in which they came; numbers may have gaps."""

    number: int
    change: Change


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a receiver has come: its last entry's number, how many wait, how many it has refused."""

    name: str
    cursor: int
    waiting: int
    dead: int


class Outbox:
    """The changes of a program's alerts, for any thread; `path` None: in memory, for a run that keeps nothing.

    Raises CepError where the file is no outbox, or belongs to another process.
    """

    def __init__(self, path: Path | None, kept: int = KEPT) -> None:
        self._lock = threading.RLock()
        self._came = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self._served: set[str] = set()
        self._kept = kept
        where = ":memory:" if path is None else str(path)
        try:
            self._base = sqlite3.connect(where, check_same_thread=False, isolation_level=None, timeout=2)
            self._base.execute("pragma locking_mode = exclusive")
            self._base.execute("pragma journal_mode = wal")
            self._base.execute("pragma synchronous = full")
            self._base.executescript(f"begin immediate; {_TABLES} commit;")
        except sqlite3.Error as error:
            hint = "one server has it at a time; another `--state` is another outbox"
            raise CepError(f"{where}: the outbox cannot be opened: {error}", hint=hint, code="outbox") from None
        form = self._meta("form")
        if form not in (None, str(_FORM)):
            wrong = f"{where}: the outbox was written by another version"
            raise CepError(wrong, hint="another `--state`", code="outbox")
        if form is None:
            self._set("form", str(_FORM))
        self.last = self._one("select max(seq) from sqlite_sequence where name = 'changes'") or 0
        self.first = self._first()

    # --- what the program writes ---

    def begin(self, program: str) -> tuple[list[Change], int]:
        """What is known of a program's alerts: the last changes of those not resolved, and how far event time came.

        If the outbox was another program's, its open alerts end here.
        """
        with self._lock:
            before, reached = self._meta("program"), int(self._meta(f"reached {program}") or BEGINNING)
            live = [entry.change for entry in self.live()]
            if before != program:
                self._write([resolved(change, change.time) for change in live], {"program": program})
                live = []
        self._tell()
        return live, reached

    def add(self, changes: Sequence[Change], program: str, reached: int) -> None:
        """Append changes of a program, in this order, all or none; `reached`: everything up to then is in here."""
        if not changes:
            return
        with self._lock:
            self._write(changes, {f"reached {program}": str(reached)})
            self._prune()
        self._tell()

    def _write(self, changes: Sequence[Change], meta: Mapping[str, str]) -> None:
        rows = [(n, c.alert, c.revision, c.dump()) for n, c in enumerate(changes, self.last + 1)]
        latest = {change.alert: (number, change.state) for number, change in enumerate(changes, self.last + 1)}
        live = [(alert, number) for alert, (number, state) in latest.items() if state != "resolved"]
        over = [(alert,) for alert, (_, state) in latest.items() if state == "resolved"]
        with self._at_once():
            self._base.executemany("insert into changes values (?, ?, ?, ?)", rows)
            self._base.executemany("insert or replace into live values (?, ?)", live)
            self._base.executemany("delete from live where alert = ?", over)
            for name, value in meta.items():
                self._set(name, value)
        self.last += len(rows)

    def _prune(self) -> None:
        """Drop what is older than the last `kept`, when it is a tenth more, and all that are served have it."""
        if self.last - self.first < self._kept * 1.1:
            return
        marks = ", ".join("?" * len(self._served))
        slowest = self._one(f"select min(cursor) from receivers where name in ({marks})", *sorted(self._served))
        until = min(self.last - self._kept, self.last if slowest is None else slowest)
        self._base.execute(
            "delete from changes where number <= ? and number not in (select number from live)", (until,)
        )
        self.first = self._first()

    # --- what feeds read ---

    def after(self, number: int, most: int = 500) -> list[Entry]:
        """Up to `most` entries behind a number, in order."""
        return self._entries("where number > ? order by number limit ?", number, most)

    def between(self, low: int, high: int) -> list[Entry]:
        """The entries from `low` to `high`, both included."""
        return self._entries("where number between ? and ? order by number", low, high)

    def revision(self, alert: str, revision: int | None = None) -> Entry | None:
        """One change of an alert, by default the latest."""
        if revision is None:
            found = self._entries("where alert = ? order by revision desc limit 1", alert)
        else:
            found = self._entries("where alert = ? and revision = ?", alert, revision)
        return found[0] if found else None

    def life(self, alert: str) -> list[Entry]:
        """All changes of an alert, in order."""
        return self._entries("where alert = ? order by revision", alert)

    def live(self) -> list[Entry]:
        """The last changes of the alerts that are not resolved, in order."""
        return self._entries("where number in (select number from live) order by number")

    def wait(self, number: int, seconds: float) -> bool:
        """Until there is an entry behind this one, or so long; whether there is."""
        with self._came:
            return self._came.wait_for(lambda: self.last > number, seconds)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call it after every addition, in the thread that adds."""
        self._listeners.append(listener)

    # --- receivers ---

    def receiver(self, name: str, start: bool = False) -> int:
        """Where a receiver goes on. One that is new begins behind what is there, or with `start` at its start."""
        with self._lock:
            self._served.add(name)
            first = 0 if start else self.last
            self._base.execute("insert or ignore into receivers values (?, ?)", (name, first))
            return self._one("select cursor from receivers where name = ?", name) or 0

    def taken(self, name: str, number: int) -> None:
        """A receiver has the entries up to this one."""
        with self._lock:
            self._base.execute("update receivers set cursor = max(cursor, ?) where name = ?", (number, name))

    def refused(self, name: str, number: int, reason: str) -> None:
        """A receiver will never take an entry: it is a dead letter, and the receiver goes on behind it."""
        with self._lock, self._at_once():
            self._base.execute("insert or replace into dead values (?, ?, ?)", (name, number, reason))
            self._base.execute("update receivers set cursor = max(cursor, ?) where name = ?", (number, name))

    def dead(self, name: str) -> list[tuple[Entry, str]]:
        """The dead letters of a receiver that are still kept, with their reasons."""
        with self._lock:
            found = self._base.execute("select number, reason from dead where receiver = ? order by number", (name,))
            reasons = dict(found.fetchall())
        return [(entry, reasons[number]) for number in reasons for entry in self.between(number, number)]

    def standings(self) -> list[Standing]:
        """How far each receiver has come, by name."""
        with self._lock:
            found = self._base.execute(
                "select name, cursor, (select count(*) from dead where receiver = name) from receivers order by name"
            ).fetchall()
            return [Standing(name, cursor, self._count(cursor), dead) for name, cursor, dead in found]

    def close(self) -> None:
        with self._lock:
            self._base.close()

    # --- below ---

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """All that the block writes, or, if it fails, nothing."""
        self._base.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._base.execute("rollback")
            raise
        self._base.execute("commit")

    def _count(self, cursor: int) -> int:
        return self._one("select count(*) from changes where number > ?", cursor) or 0

    def _first(self) -> int:
        return self._one("select min(number) from changes") or self.last + 1

    def _entries(self, where: str, *values: object) -> list[Entry]:
        with self._lock:
            rows = self._base.execute(f"select number, body from changes {where}", values).fetchall()
        return [Entry(number, Change.load(body)) for number, body in rows]

    def _one(self, query: str, *values: object) -> int | None:
        with self._lock:
            row = self._base.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _meta(self, name: str) -> str | None:
        with self._lock:
            row = self._base.execute("select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _set(self, name: str, value: str) -> None:
        self._base.execute("insert or replace into meta values (?, ?)", (name, value))

    def _tell(self) -> None:
        with self._came:
            self._came.notify_all()
        for listener in self._listeners:
            listener()
