"""The files beside a store: a copy of the loaded knowledge, and a log of the knowledge's later changes. The store
contains the hash of the copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from cep.core import checksum
from cep.core.append_log import RecordBytes, RecordLog
from cep.core.checksum import Broken

HASH = "hash:"
"""The prefix of the literal in which the store keeps the hash of a file."""


class Damaged(Exception):
    """An error for a file that is damaged, or was changed by another program."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is damaged: restore the folder from a backup, or start afresh with another one")


def hash_path(path: str) -> str:
    """Return the hash of a file as a text that begins with HASH."""
    with open(path, "rb") as file:
        return HASH + hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def is_intact(path: str, notes: set[str]) -> bool:
    """Return True if `notes` contains the hash of the file, as `hash_path` returns it."""
    return hash_path(path) in notes


class StoreChangeLog:
    """A log of all changes of the knowledge since it was loaded. An entry contains the removed quads and the added
    quads, one quad per line.

    An incomplete entry at the end of the file is ignored.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._log: RecordLog | None = None

    def append(self, gone: bytes, come: bytes) -> None:
        """Append a change durably. `gone`, `come`: the removed and the added quads.

        Raise Damaged, and append nothing, if the log is damaged. Raise OSError if the log cannot be written.
        """
        if self._log is None:
            log = RecordLog(self.path)
            for _ in self._unread(log):
                pass
            self._log = log
        self._log.append([(gone, come)])

    def changes(self) -> Iterator[RecordBytes]:
        """Yield the removed and the added quads of each change in the log. Raise Damaged if the log is damaged."""
        yield from self._unread(RecordLog(self.path))

    def remove(self) -> None:
        """Delete the log, to start a new one."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self.path.unlink(missing_ok=True)

    def _unread(self, log: RecordLog) -> Iterator[RecordBytes]:
        try:
            yield from log.unread()
        except Broken:
            raise Damaged(str(self.path)) from None
