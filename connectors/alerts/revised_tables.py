"""The tables of an outbox that store the state of revised alerts, by key. Each row has a hash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cep.connectors.alerts import outbox_tables

HASHED = {"keys": "slot, body", "occurrences": "slot, name, body"}
_TABLES = (
    "create table if not exists keys (slot text primary key, body text not null, hash blob)",
    "create table if not exists occurrences (slot text not null, name text not null, body text not null, hash blob,"
    " primary key (slot, name))",
)


@dataclass(frozen=True, slots=True)
class RevisedKey:
    """The stored state of one key of an alert.

    `alert`: the alert's fingerprint. In an outbox of an older version, it is the alert's name. The other attributes are
    those of `AlertKey`, with three differences:

    - `base` and `now` are JSON.
    - `told` lists only the ids of alerts.
    - `held` has the columns of each occurrence as JSON.
    """

    alert: str
    base: str | None
    since: int
    now: str | None
    reached: int
    told: list[str]
    held: dict[str, str] = field(default_factory=dict)


def make(base: sqlite3.Connection, where: str) -> None:
    """Create the tables, or verify all rows if the tables exist. Raises CepError if a row is damaged."""
    for statement in _TABLES:
        base.execute(statement)
    for table, columns in HASHED.items():
        outbox_tables.verify(base, where, table, columns=columns)


def read(base: sqlite3.Connection, alerts: Collection[str]) -> tuple[dict[str, RevisedKey], list[str]]:
    """Return the stored keys of some alerts, by `AlertChange.slot`. Delete the keys of all other alerts.

    `alerts`: the fingerprints of the alerts. Also returns the slots of the deleted keys.
    """
    keys: dict[str, RevisedKey] = {}
    gone = []
    for slot, body in base.execute("select slot, body from keys order by slot").fetchall():
        key = RevisedKey(*json.loads(body))
        if key.alert in alerts:
            keys[slot] = key
        else:
            gone.append(slot)
    forget(base, gone)
    for slot, name, body in base.execute("select slot, name, body from occurrences order by slot, name").fetchall():
        keys[slot].held[name] = body
    return keys, gone


def write(
    base: sqlite3.Connection,
    keys: Mapping[str, RevisedKey | None],
    come: Mapping[tuple[str, str], str],
    gone: Iterable[tuple[str, str]],
) -> None:
    """Store the state of keys, and add and remove occurrences.

    - `keys`: the state of each key, by `AlertChange.slot`. None deletes the key.
    - `come`: the columns of each new occurrence as JSON, by the key's slot and the occurrence's id.
    - `gone`: the slots and ids of occurrences to remove.
    """
    base.executemany("delete from occurrences where slot = ? and name = ?", gone)
    rows = [(slot, name, body) for (slot, name), body in come.items()]
    base.executemany("insert or replace into occurrences values (?1, ?2, ?3, hashed(?1, ?2, ?3))", rows)
    tables = [(slot, _body(key)) for slot, key in keys.items() if key is not None]
    base.executemany("insert or replace into keys values (?1, ?2, hashed(?1, ?2))", tables)
    forget(base, [slot for slot, key in keys.items() if key is None])


def forget(base: sqlite3.Connection, slots: Iterable[str] | None = None) -> None:
    """Delete the state of the keys `slots`, or of all keys."""
    for table in HASHED:
        if slots is None:
            base.execute(f"delete from {table}")
        else:
            base.executemany(f"delete from {table} where slot = ?", [(slot,) for slot in slots])


def _body(key: RevisedKey) -> str:
    return json.dumps([key.alert, key.base, key.since, key.now, key.reached, key.told], ensure_ascii=False)
