"""Two tables of an outbox. One stores the actions of people, in order, and one stores silences. Each row has a hash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from cep.connectors.alerts import outbox_tables
from cep.connectors.alerts.text import JsonValue

_ACTIONS = "number, came, watermark, person, action, alert, silence, change, body"
HASHED = {"actions": _ACTIONS, "silences": "id, body", "episodes": "alert, slot, number"}
_TABLES = (
    "create table if not exists actions (number integer primary key autoincrement, came integer not null,"
    " watermark integer not null, person text not null, action text not null, alert text, silence text,"
    " change integer, body text not null, hash blob)",
    "create index if not exists actions_alert on actions (alert)",
    "create table if not exists silences (id text primary key, body text not null, hash blob)",
    "create table if not exists episodes (alert text primary key, slot text not null, number integer not null,"
    " hash blob)",
    "create index if not exists episodes_slot on episodes (slot, number)",
)


Recorded = Literal[
    "acknowledged", "unacknowledged", "assigned", "commented", "closed", "reopened", "silence", "edit_silence",
    "unsilence", "send_again", "change_program", "begin_shadow", "promote_shadow", "end_shadow", "reminded",
]  # fmt: skip
REMINDED: Recorded = "reminded"
DONE: tuple[Recorded, ...] = tuple(action for action in get_args(Recorded) if action != REMINDED)
"""The actions of people, and the actions of the server on their behalf. REMINDED is left out, because it only records
that a receiver accepted a reminder."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """An action of a person on an alert, a silence, a receiver or the program.

    - `recorded`: the wall-clock time of the action, in microseconds of Unix time.
    - `watermark`: the event time that the program had reached.
    - `alert`, `silence`: the id of the alert or silence, or None.
    - `change`: the number of the change that the action caused, or None.
    - `details`: further values, such as `comment`, `receiver` or `version`.
    """

    recorded: int
    watermark: int
    person: str
    action: str
    alert: str | None = None
    silence: str | None = None
    change: int | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    number: int = 0


def make(base: sqlite3.Connection, where: str) -> None:
    """Create the tables, or verify all rows if the tables exist. Raises CepError if a row is damaged."""
    for statement in _TABLES:
        base.execute(statement)
    for table, columns in HASHED.items():
        outbox_tables.verify(base, where, table, columns=columns)


def record(base: sqlite3.Connection, action: RecordedAction) -> None:
    (last,) = base.execute("select max(seq) from sqlite_sequence where name = 'actions'").fetchone()
    row = (
        (last or 0) + 1, action.recorded, action.watermark, action.person, action.action, action.alert, action.silence,
        action.change, json.dumps(dict(action.details), ensure_ascii=False),
    )  # fmt: skip
    base.execute(
        f"insert into actions ({_ACTIONS}, hash) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, outbox_tables.row_hash(*row)),
    )


def actions(base: sqlite3.Connection, where: str, *values: object) -> Iterator[RecordedAction]:
    """Yield the actions that satisfy an SQL condition. `values`: the parameters of the condition."""
    for row in base.execute(f"select {_ACTIONS} from actions {where}", values).fetchall():
        number, acted, watermark, person, action, alert, silence, change, body = row
        yield RecordedAction(acted, watermark, person, action, alert, silence, change, json.loads(body), number)


def silences(base: sqlite3.Connection) -> dict[str, str]:
    """Return all stored silences as JSON, by id."""
    return dict(base.execute("select id, body from silences order by id").fetchall())


def keep_silence(base: sqlite3.Connection, id: str, body: str | None) -> None:
    """Store the current JSON of a silence. `body=None` removes the silence."""
    if body is None:
        base.execute("delete from silences where id = ?", (id,))
    else:
        base.execute("insert or replace into silences (id, body, hash) values (?1, ?2, hashed(?1, ?2))", (id, body))


def begin_episode(base: sqlite3.Connection, alert: str, slot: str, number: int) -> None:
    """Record the first change of an alert, so that `episodes` can find all alerts that have the same name and key.

    `slot`: the hash of the alert's name and key. `number`: the number of the change.
    """
    base.execute(
        "insert or ignore into episodes (alert, slot, number, hash) values (?1, ?2, ?3, hashed(?1, ?2, ?3))",
        (alert, slot, number),
    )


def episodes(base: sqlite3.Connection, slot: str, most: int) -> list[str]:
    """Return the ids of the latest `most` alerts that have the same name and key, newest first.

    `slot`: the hash of the alerts' name and key.
    """
    rows = base.execute("select alert from episodes where slot = ? order by number desc limit ?", (slot, most))
    return [alert for (alert,) in rows.fetchall()]


def prune(base: sqlite3.Connection) -> None:
    """Delete the records of `begin_episode` for alerts whose changes have all been removed."""
    base.execute("delete from episodes where alert not in (select alert from changes)")
