"""The files beside a store: the loaded knowledge, with its hash, and its later changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from cep.core import checksum
from cep.core.append_log import RecordBytes, RecordLog
from cep.core.checksum import Broken

HASH = "hash:"
"""The prefix of the store's own note of a file's hash."""


class Damaged(Exception):
    """A file has other contents than were written."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is damaged: bring the folder back from a copy, or begin anew with another one")


def hash_path(path: str) -> str:
    """Return the note of a file's hash."""
    with open(path, "rb") as file:
        return HASH + hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def is_intact(path: str, notes: set[str]) -> bool:
    """Return True if a file has the noted hash."""
    return hash_path(path) in notes


class StoreChangeLog:
    """The log of changes to the knowledge since it was loaded, at `path`: the lines that each change removed and added.
    An incomplete entry does not count."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._log: RecordLog | None = None

    def append(self, gone: bytes, come: bytes) -> None:
        """Note a change; it is on disk when this returns. Damaged: the log has other contents than were written, and
        nothing is added. OSError: it cannot be written."""
        if self._log is None:
            log = RecordLog(self.path)
            for _ in self._unread(log):
                pass
            self._log = log
        self._log.append([(gone, come)])

    def changes(self) -> Iterator[RecordBytes]:
        """Return all changes that were noted. Damaged: see `append`."""
        yield from self._unread(RecordLog(self.path))

    def remove(self) -> None:
        """Remove the log, to begin anew."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self.path.unlink(missing_ok=True)

    def _unread(self, log: RecordLog) -> Iterator[RecordBytes]:
        try:
            yield from log.unread()
        except Broken:
            raise Damaged(str(self.path)) from None
