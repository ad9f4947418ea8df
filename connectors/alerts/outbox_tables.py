"""The tables of an outbox in SQLite; each row has a hash of its values."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from json.encoder import encode_basestring

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.private_files import private_file

FORM = "3"
"""The version of the tables, as stored in the table `meta`."""

HASHED = {
    "changes": "number, alert, revision, body, came",
    "live": "alert, number",
    "receivers": "name, cursor",
    "dead": "receiver, number, reason, time, again",
    "meta": "name, value",
}
"""For each table, the columns from which the `hash` of a row is computed."""

NEWEST = 50_000
"""The number of changes that are verified when an outbox is opened, in addition to the changes of open alerts. Older
changes are verified in the background."""

_TABLES = """
create table if not exists changes (number integer primary key autoincrement, alert text not null,
    revision integer not null, body text not null, came integer, hash blob, unique (alert, revision));
create table if not exists live (alert text primary key, number integer not null, hash blob);
create table if not exists receivers (name text primary key, cursor integer not null, hash blob);
create table if not exists dead (receiver text not null, number integer not null, reason text not null,
    time integer, again integer not null default 0, hash blob, primary key (receiver, number));
create table if not exists hidden (slot text primary key, body text not null, hash blob);
create table if not exists meta (name text primary key, value text not null, hash blob);
"""

_NOT_OPEN = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
)


def open_outbox(where: str) -> sqlite3.Connection:
    """Open the database at the path `where`. The path `:memory:` stands for a database in memory.

    Raises CepError if the database cannot be opened, another process uses it, or it is damaged.
    """
    base: sqlite3.Connection | None = None
    try:
        if where != ":memory:":
            with suppress(OSError):  # SQLite will report why the file cannot be created
                private_file(where)  # the files that SQLite creates beside it get the same permissions
        base = sqlite3.connect(where, check_same_thread=False, isolation_level=None, timeout=2)
        base.create_function("hashed", -1, row_hash, deterministic=True)
        base.execute("pragma locking_mode = exclusive")
        base.execute("pragma journal_mode = wal")
        base.execute("pragma synchronous = full")
        _prove(base, where)
        return base
    except (sqlite3.Error, UnicodeDecodeError, CepError) as error:
        if base is not None:
            base.close()
        if isinstance(error, CepError):
            raise
        if code_of(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise unwritten(where, error) from None
        if code_of(error) in _NOT_OPEN:
            hint = "only one server can use an outbox at a time; another `--state` is another outbox"
            raise CepError(f"{where}: the outbox cannot be opened: {error}", hint=hint, code="outbox") from None
        raise damaged_outbox(where, str(error)) from None


def code_of(error: Exception) -> int:
    """Return the primary error code of an SQLite error, or 0 for any other exception."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def unwritten(where: str, error: Exception) -> CepError:
    """Return the error that reports that the disk cannot be written. Its hint advises a restart."""
    hint = "make room on the disk, or repair it, and start again: what was written is complete"
    return CepError(f"{where}: alerts cannot be written: {error}", hint=hint, code="failed")


@contextmanager
def writing(where: str) -> Iterator[None]:
    """Run a `with` block that writes to the database. If the disk is full or fails, convert the database error to
    CepError. Other errors are raised unchanged."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if code_of(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise
        raise unwritten(where, error) from None


def _prove(base: sqlite3.Connection, where: str) -> None:
    """Verify the database of an outbox. Only the newest changes, and the changes of open alerts, are verified. If the
    outbox is new, create its tables."""
    (result,) = base.execute("pragma integrity_check(1)").fetchone()
    if result != "ok":
        raise damaged_outbox(where, result.splitlines()[-1])
    base.execute("begin immediate")
    new = base.execute("select name from sqlite_master where name = 'changes'").fetchone() is None
    for statement in _TABLES.split(";"):
        base.execute(statement)
    if new:
        row = "form", FORM
        base.execute("insert into meta (name, value, hash) values (?1, ?2, hashed(?1, ?2))", row)
    if base.execute("select value from meta where name = 'form'").fetchone() != (FORM,):
        hint = "use another `--state`, or the version that wrote this outbox"
        raise CepError(f"{where}: the outbox was written by another version", hint=hint, code="outbox")
    for table in HASHED.keys() - {"changes"}:
        verify(base, where, table)
    verify(base, where, "hidden", columns="slot, body")
    (last,) = base.execute("select max(number) from changes").fetchone()
    verify(base, where, "changes", "number > ?", (last or 0) - NEWEST)
    verify(base, where, "changes", "number in (select number from live)")
    base.execute("commit")


def verify(
    base: sqlite3.Connection, where: str, table: str, some: str = "true", *values: object, columns: str = ""
) -> None:
    """Compare rows of a table with their hashes. Raises CepError if a row does not match its hash.

    - `some`: an SQL condition that selects the rows.
    - `values`: the parameters of the condition.
    - `columns`: the columns from which the hash is computed; by default those in HASHED.
    """
    columns = columns or HASHED[table]
    query = f"select {columns} from {table} where ({some}) and hash is not hashed({columns}) limit 1"
    wrong = base.execute(query, values).fetchone()
    if wrong is not None:
        raise damaged_outbox(where, f"in {table}, at {wrong[0]!r}")


def thread(receiver: str, alert: str) -> str:
    """Return the key under which the table `meta` stores the id of the first message to a receiver about an alert."""
    return f"thread {json.dumps([receiver, alert])}"


def prune_threads(base: sqlite3.Connection) -> None:
    """Delete the ids of first messages about alerts whose changes have all been removed."""
    alert = f"json_extract(substr(name, {len('thread ') + 1}), '$[1]')"
    base.execute(f"delete from meta where name like 'thread %' and {alert} not in (select alert from changes)")


def row_hash(*values: object) -> bytes:
    """Return the hash of a row's values, written as a JSON array. This function writes the array itself, because
    `json.dumps` takes twice as long."""
    parts = [
        encode_basestring(value) if type(value) is str else str(value) if type(value) is int else json.dumps(value)
        for value in values
    ]
    return checksum.digest(f"[{', '.join(parts)}]".encode("utf-8", "surrogatepass"))


def damaged_outbox(where: str, what: str) -> CepError:
    """Return the error that reports a damaged outbox. `what`: a description of the damage."""
    hint = "restore the whole folder from a backup, or start afresh with another `--state`"
    return CepError(f"{where}: the outbox is damaged: {what}", hint=hint, code="outbox")
