"""Append-only logs on disk. An entry is either read as it was written, or reported as damaged.

The last entry may be torn: the process or the machine stopped while the entry was being written. No program has used a
torn entry, so it is cut off before the next entry is added. Other damage is only reported, and nothing is cut off.

Entries are byte records, each with its own hash, or lines of JSON, each with a hash of all lines up to it (see
`cep.core.checksum`).
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

from cep.core import checksum
from cep.core.checksum import Broken

Logged = TypeVar("Logged")

RecordBytes: TypeAlias = tuple[bytes, bytes]
"""The two parts of a record: its head and its body."""


class AppendLog(ABC, Generic[Logged]):
    """A log file, which need not exist yet.

    `places`: the byte offset of each entry that this object has read or added, and the offset after the last one.
    """

    MARK = b""
    """The first bytes of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places = array("q", [len(self.MARK)])
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self.places) - 1

    @property
    def size(self) -> int:
        """The size of the file up to the last complete entry, in bytes."""
        return self.places[-1]

    def unread(self) -> Iterator[Logged]:
        """Yield the entries that were added since the file was last read. Stop before a torn entry.

        During the loop, `len(log)` is the number of the current entry. Raises Broken if an entry is damaged. The
        exception has the entry's number.
        """
        try:
            if self.path.stat().st_size <= self.size:
                return
        except FileNotFoundError:
            return
        with self.path.open("rb") as file:
            if file.read(len(self.MARK)) != self.MARK:
                raise Broken(0)
            file.seek(self.size)
            for entry, size in self._decoded(file, len(self), new=True):
                yield entry
                self.places.append(self.size + size)

    def read(self, first: int, beyond: int) -> list[Logged]:
        """Return the entries from `first` to `beyond` - 1. This object must have read or added them before.

        Raises Broken if an entry is no longer complete. The hashes of lines are not checked again.
        """
        return self.read_at(self.places[first], self.places[beyond], first, beyond) if first < beyond else []

    def read_at(self, start: int, stop: int, first: int, beyond: int) -> list[Logged]:
        """Return the entries from `first` to `beyond` - 1, which lie in the bytes from `start` to `stop` - 1.

        This object need not have read or added them. Raises Broken if an entry is no longer complete.
        """
        with self.path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        entries = [entry for entry, _ in self._decoded(BytesIO(data), first, new=False)]
        if len(entries) != beyond - first:
            raise Broken(first + len(entries))
        return entries

    def move(self, path: Path) -> None:
        """Rename the file. It replaces a file that has the new name. Raises OSError if the file cannot be renamed."""
        os.replace(self.path, path)
        self.path = path

    def close(self) -> None:
        """Close the file. The next entry opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @abstractmethod
    def _decoded(self, file: BinaryIO, number: int, new: bool) -> Iterator[tuple[Logged, int]]:
        """Yield each entry and its length in bytes, from the file's current position up to a torn entry.

        `number`: the number of the first entry. `new`: True if these entries have not been read before. Raises Broken
        if an entry is damaged.
        """

    def _write(self, pieces: Sequence[bytes], sync: bool) -> None:
        """Write encoded entries after the last complete entry. A torn entry is overwritten. `sync`: True to wait until
        the new entries are on disk."""
        try:
            if self._file is None:
                self._file = self._opened()
            self._file.write(b"".join(pieces))
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError:
            self.close()  # the next opening cuts off a partly written record
            raise
        for piece in pieces:
            self.places.append(self.size + len(piece))

    def _opened(self) -> BinaryIO:
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        if file.seek(0, os.SEEK_END) < len(self.MARK):  # the file is new, or its mark is incomplete
            file.seek(0)
            file.write(self.MARK)
        file.truncate(self.size)
        file.seek(self.size)
        return file


class RecordLog(AppendLog[RecordBytes]):
    """A log whose entries are byte records."""

    MARK = checksum.MARK

    def append(self, records: Sequence[RecordBytes], sync: bool = True) -> None:
        """Add records. When this returns, they survive the end of the process. `sync`: True to let them survive a crash
        of the machine, too.

        Raises OSError if the file cannot be written.
        """
        self._write([checksum.record(head, body) for head, body in records], sync)

    def _decoded(self, file: BinaryIO, number: int, new: bool) -> Iterator[tuple[RecordBytes, int]]:
        before = 0
        try:
            for head, body, stop in checksum.read_records(file.read()):
                yield (head, body), stop - before
                before = stop
        except Broken as error:
            raise Broken(number + error.number) from None


class LineLog(AppendLog[dict[str, Any]]):
    """A log whose entries are JSON objects, one per line. The last field of each line, `hash`, is a hash of all lines
    up to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._chain = checksum.Chain()

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Add lines. When this returns, they survive a crash of the machine.

        Raises OSError if the file cannot be written.
        """
        chain = self._chain.copy()
        self._write([chain.add(json.dumps(line, ensure_ascii=False).encode()) for line in lines], sync=True)
        self._chain = chain

    def _decoded(self, file: BinaryIO, number: int, new: bool) -> Iterator[tuple[dict[str, Any], int]]:
        for line in file:
            if not line.endswith(b"\n"):
                return
            if new:
                self._chain.read(line)
            try:
                entry = json.loads(line)
            except ValueError:
                raise Broken(number) from None
            entry.pop("hash")
            yield entry, len(line)
            number += 1
