"""Hashes of the files that RocksDB writes for a store. They detect damage.

RocksDB itself checks a block only when it reads the block. If a log is damaged, RocksDB takes the damage for the end of
the log. The hashes are in a file beside the store's folder. A complete table (`.sst`) never changes. Logs and manifests
only grow, so the hash of their beginning stays valid. A file without a hash counts as a new file, because the process
may have ended before it recorded the hash.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cep.core import checksum
from cep.core.append_log import RecordBytes, RecordLog
from cep.core.checksum import Broken
from cep.core.private_files import private_folder

_COMPLETE = struct.pack("<Q", 0x88E241B785F4CFF7)  # the end of a table of RocksDB
_BLOCK, _HEADER = 1 << 15, struct.Struct("<IHBI")  # the header in a log: checksum, size, kind, number of the log
_KINDS = range(5, 9)  # the kinds of record parts in a log whose file was reused
_READ = 1 << 20
_NOTES = 5_000  # after this many notes, rewrite the file with valid ones
_REMOVED = b""  # the key of the note with the number of removed quads

Note: TypeAlias = tuple[int, str, str]
"""The hash of the beginning of a file: the number of hashed bytes, the hash, and an identifier of the machine's boot.

The hash is valid until the next boot. If the identifier is an empty text, the hash is always valid.
"""


class Corruption(Exception):
    """An error for a damaged file of the store."""


class StoreFiles:
    """The files in a store's folder. Create this object before the store is opened, because opening changes files.

    `removed`: the number of quads removed from the store, which is saved with the hashes. Raise Corruption if a log or
    a manifest is damaged.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self._log = Path(folder), RecordLog(Path(f"{folder}.hashes"))
        private_folder(self._folder)
        self._growing: dict[str, tuple[int, blake2b]] = {}  # by file, the hashed bytes and the hash
        try:
            notes = dict(self._log.unread())
        except Broken:
            raise Corruption(f"{self._log.path} is damaged") from None
        self.removed = self._noted_removed = int(json.loads(notes.pop(_REMOVED, b"0")))
        self._notes: dict[str, Note] = {name.decode(): tuple(json.loads(note)) for name, note in notes.items()}
        self._forget()
        for name, (size, hash, boot) in self._notes.items():
            if not name.endswith(".sst") and boot in ("", _boot()):
                self._verify(name, size, hash)

    def verify(self) -> None:
        """Compare the tables with their hashes, while others may write. Raise Corruption if a table is damaged."""
        for name, (size, hash, _) in list(self._notes.items()):
            if name.endswith(".sst"):
                self._verify(name, size, hash)

    def note(self) -> None:
        """Save the hashes of files that were written since the last call. No other thread may write to logs meanwhile.

        Raise OSError if a file cannot be read, or the hashes cannot be saved.
        """
        new: dict[str, Note] = {}
        for name in os.listdir(self._folder):
            with suppress(FileNotFoundError):  # it was merged into another
                if (note := self._new(name)) is not None:
                    new[name] = note
        records = [_record(*note) for note in new.items()]
        if self.removed != self._noted_removed:
            self._noted_removed = self.removed
            records.append(self._count())
        if records:
            self._notes |= new
            self._log.append(records, sync=False)
        if len(self._log) > _NOTES:
            self._forget()

    def _new(self, name: str) -> Note | None:
        """Return the hash to save for a file, or None if the saved hash is up to date or the file is incomplete."""
        kind, path = os.path.splitext(name)[1], self._folder / name
        if kind == ".sst":
            if name in self._notes:
                return None
            with path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < len(_COMPLETE):
                    return None
                file.seek(-len(_COMPLETE), os.SEEK_END)
                if file.read() != _COMPLETE:  # it is still being written
                    return None
                file.seek(0)
                size, digest = _hashed(file, blake2b(digest_size=checksum.SIZE))
            return size, digest.hexdigest(), ""
        if kind != ".log" and not name.startswith("MANIFEST-"):
            return None
        start, hashed = self._growing.get(name, (0, blake2b(digest_size=checksum.SIZE)))
        with path.open("rb") as file:
            stop = _end(file, start, int(path.stem)) if kind == ".log" else file.seek(0, os.SEEK_END)
            if stop <= start:
                return None
            if kind != ".log":
                os.fsync(file.fileno())
            file.seek(start)
            _, digest = _hashed(file, hashed.copy(), stop - start)
        self._growing[name] = stop, digest
        return stop, digest.hexdigest(), _boot() if kind == ".log" else ""

    def _verify(self, name: str, size: int, hash: str) -> None:
        try:
            with (self._folder / name).open("rb") as file:
                count, digest = _hashed(file, blake2b(digest_size=checksum.SIZE), size)
        except FileNotFoundError:  # it was merged into another
            return
        except OSError as error:
            raise Corruption(f"{name} cannot be read: {error}") from None
        if count < size or digest.hexdigest() != hash:
            raise Corruption(f"{name} is not what was written")

    def _forget(self) -> None:
        """Drop the hashes of deleted files, so that new files may reuse their names."""
        here = set(os.listdir(self._folder))
        self._notes = {name: note for name, note in self._notes.items() if name in here}
        self._growing = {name: grown for name, grown in self._growing.items() if name in here}
        self._log.close()
        path, new = self._log.path, self._log.path.with_suffix(".hashes.new")
        new.unlink(missing_ok=True)
        self._log = RecordLog(new)
        self._log.append([self._count(), *(_record(*note) for note in self._notes.items())])
        self._log.move(path)

    def _count(self) -> RecordBytes:
        return _REMOVED, json.dumps(self._noted_removed).encode()


def _record(name: str, note: Note) -> RecordBytes:
    return name.encode(), json.dumps(note).encode()


def _hashed(file: BinaryIO, hashed: blake2b, most: int | None = None) -> tuple[int, blake2b]:
    count = 0
    while part := file.read(_READ if most is None else min(_READ, most - count)):
        hashed.update(part)
        count += len(part)
    return count, hashed


def _end(file: BinaryIO, start: int, number: int) -> int:
    """Return the position after the last record of the log that has the number `number`.

    RocksDB may reuse the file of an older log, so the bytes after this position may belong to the older log.
    """
    stop = start
    for place, size in _parts(file, start, number):
        stop = place + size
    return stop


def _parts(file: BinaryIO, place: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield the position and the size of each record part in a log, from position `place` on."""
    size = file.seek(0, os.SEEK_END)
    while place + _HEADER.size <= size:
        if (left := _BLOCK - place % _BLOCK) < _HEADER.size:
            place += left
            continue
        file.seek(place)
        _, length, kind, log = _HEADER.unpack(file.read(_HEADER.size))
        if kind not in _KINDS or log != number & 0xFFFFFFFF or place + _HEADER.size + length > size:
            return
        yield place, _HEADER.size + length
        place += _HEADER.size + length


@cache
def _boot() -> str:
    """Return an identifier of the machine's current boot.

    The hash of a log is valid only during one boot. Data that a process wrote to a log survives the end of the process,
    but may be lost if the machine crashes.
    """
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"
