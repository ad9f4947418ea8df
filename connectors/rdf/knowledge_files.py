"""The files beside a store: the loaded knowledge, with a hash, and its later changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from cep.core import checksum
from cep.core.append_log import RecordBytes, RecordLog
from cep.core.checksum import Broken

HASH = "hash:"
"""The prefix of a note that contains the hash of a file."""


class Damaged(Exception):
    """An error for a file that was changed from outside or is damaged."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is damaged: restore the folder from a backup, or start afresh with another one")


def hash_path(path: str) -> str:
    """Return the note with the hash of a file."""
    with open(path, "rb") as file:
        return HASH + hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def is_intact(path: str, notes: set[str]) -> bool:
    """Return True if one of the notes has the hash of the file."""
    return hash_path(path) in notes


class StoreChangeLog:
    """The log at `path` of all changes to the knowledge since it was loaded: the lines that each removed and added.

    An incomplete entry at the end is ignored.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._log: RecordLog | None = None

    def append(self, gone: bytes, come: bytes) -> None:
        """Append a change; it is on disk when this returns.

        Raise Damaged, and append nothing, if the log is damaged. Raise OSError if it cannot be written.
        """
        if self._log is None:
            log = RecordLog(self.path)
            for _ in self._unread(log):
                pass
            self._log = log
        self._log.append([(gone, come)])

    def changes(self) -> Iterator[RecordBytes]:
        """Yield all logged changes. Raise Damaged as `append` does."""
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
