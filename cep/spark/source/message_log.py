"""Messages kept on disk before they are acknowledged: what a broker gives once can so be read again, by number."""

from __future__ import annotations

import os
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.storage.disk import BACK, put, sync_names
from cep.spark.storage.lock import locked
from connectors.mqtt import Arrival

_HEAD = struct.Struct("<HB")
"""`mid` and QoS; the topic is behind it."""
_BEFORE = struct.Struct("<IIIHB")
"""In a file of the version before: check sum of what follows it, bytes of the payload, of the topic, `mid` and QoS."""

_FULL = 1 << 24  # bytes of a file
_MIDS = 1 << 16  # numbers that a broker has for messages on their way
_GONE = "known"  # of the files that were removed: a check sum, then `mid` and digest of each message
_PAIR = struct.Struct("<HI")


@dataclass(slots=True)
class _Part:
    """A file with the messages from number `first` on, and where each ends; `places` begins with where the first does.
    `old`: of the version before, to which nothing is added."""

    path: Path
    first: int
    places: list[int]
    old: bool = False

    @property
    def beyond(self) -> int:
        return self.first + len(self.places) - 1


class MessageLog:
    """A folder of messages numbered from 0. Those before some number are forgotten when they are not needed any more.

    What a process that was killed had half written was not acknowledged, and is cut off when the folder is opened.
    """

    def __init__(self, folder: Path, patience: float = 10.0) -> None:
        """CepError: another process has it open, and has not let go of it after so many seconds; or it is damaged: then
        nothing is cut off."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._guard = threading.Lock()
        self._lock = locked(folder, patience)
        try:
            self._parts = [_read(path) for path in sorted(folder.glob("*.mail"))]
            for part, following in zip(self._parts, self._parts[1:]):
                if part.beyond != following.first:
                    raise _damaged(part.path, part.beyond)
        except BaseException:
            self._lock.close()
            raise
        self._file: BinaryIO | None = None

    @property
    def end(self) -> int:
        """The number of the next message."""
        return self._parts[-1].beyond if self._parts else 0

    def append(self, arrived: Sequence[Arrival]) -> None:
        """Keep messages; they are on the disk when this returns. CepError: it is closed."""
        if self._lock.closed:
            raise CepError(f"{self._folder}: it is closed, and may be another run's", code="checkpoint")
        pieces = [_packed(one) for one in arrived]
        if self._file is None or self._parts[-1].places[-1] >= _FULL:
            self._next()
        assert self._file is not None, "the next part is open"
        self._file.write(b"".join(pieces))
        self._file.flush()
        os.fsync(self._file.fileno())
        with self._guard:
            places = self._parts[-1].places
            for piece in pieces:
                places.append(places[-1] + len(piece))

    def read(self, start: int, end: int) -> list[Arrival]:
        """The messages from `start` up to, not including, `end`. CepError: some are not there, or damaged."""
        found: list[Arrival] = []
        for part, first, last in self._between(start, end):
            with part.path.open("rb") as file:
                file.seek(part.places[first])
                data = file.read(part.places[last] - part.places[first])
            try:
                here = [one for one, _ in _unpacked(data, part.old)]
            except checksum.Broken as broken:
                raise _damaged(part.path, part.first + first + broken.number) from None
            if len(here) != last - first:
                raise _damaged(part.path, part.first + first + len(here))
            found += here
        return found

    def cuts(self, start: int, end: int, most: int, size: int) -> Iterator[tuple[int, int]]:
        """The same in ranges of up to so many messages and bytes, of one message at least; always the same ones."""
        for part, first, last in self._between(start, end):
            while first < last:
                full = bisect_right(part.places, part.places[first] + size) - 1
                stop = min(last, first + most, max(full, first + 1))
                yield part.first + first, part.first + stop
                first = stop

    def within(self, start: int, end: int, size: int) -> int:
        """Up to where messages from `start` on are about so many bytes, of one at least, but not beyond `end`."""
        for part, first, last in self._between(start, end):
            taken = part.places[last] - part.places[first]
            if taken > size:
                full = bisect_right(part.places, part.places[first] + size) - 1
                return max(part.first + full, start + 1)
            size -= taken
        return max(start, end)

    def _between(self, start: int, end: int) -> list[tuple[_Part, int, int]]:
        """The files with these messages, each with the first of them and the one after the last, counted in it."""
        if start >= end:
            return []
        with self._guard:
            parts = [part for part in self._parts if part.first < end and part.beyond > start]
            there = (parts[0].first, parts[-1].beyond) if parts else (0, 0)
        if there[0] > start or there[1] < end:
            missing = start if not there[0] <= start < there[1] else there[1]
            raise CepError(
                f"--checkpoint: {self._folder}: messages from {missing} on are not there any more",
                hint=BACK,
                code="checkpoint",
            )
        return [(part, max(start, part.first) - part.first, min(end, part.beyond) - part.first) for part in parts]

    def known(self) -> dict[int, int]:
        """The latest messages, by which one that comes again is known: digests by `mid`. At least the last 65,536 are
        in it. CepError: it is damaged."""
        return self._gone() | self._digests(self._parts)

    def forget(self, until: int) -> None:
        """Remove files that hold nothing from number `until` on; the last one stays, so that numbers go on."""
        gone = [part for part in self._parts[:-1] if part.beyond <= until]
        if digests := self._digests(gone):
            pairs = b"".join(_PAIR.pack(*pair) for pair in (self._gone() | digests).items())
            put(self._folder / _GONE, crc32(pairs).to_bytes(4, "little") + pairs)
            sync_names(self._folder)
        with self._guard:
            self._parts = self._parts[len(gone) :]
        for part in gone:
            part.path.unlink(missing_ok=True)

    def _digests(self, parts: Sequence[_Part]) -> dict[int, int]:
        """Of the messages in these files, where they are among the latest."""
        found: dict[int, int] = {}
        for part in parts:
            if part.beyond > self.end - _MIDS:
                try:
                    there = _unpacked(part.path.read_bytes(), part.old, part.places[0])
                    found |= {one.mid: one.digest for one, _ in there if one.qos}
                except checksum.Broken as broken:
                    raise _damaged(part.path, part.first + broken.number) from None
        return found

    def _gone(self) -> dict[int, int]:
        """What is known of files that were removed: no more than there are numbers."""
        file = self._folder / _GONE
        data = file.read_bytes() if file.exists() else bytes(4)
        pairs = data[4:]
        if crc32(pairs).to_bytes(4, "little") != data[:4] or len(pairs) % _PAIR.size:
            hint = "remove it: messages that the broker sends again are then taken for new ones, once"
            raise CepError(f"{file}: it is damaged", hint=hint, code="checkpoint")
        return dict(_PAIR.iter_unpack(pairs))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()

    def _next(self) -> None:
        """The last file if it has room, else a new one."""
        if self._file is not None:
            self._file.close()
        if not self._parts or self._parts[-1].old or self._parts[-1].places[-1] >= _FULL:
            path = self._folder / f"{self.end:020}.mail"
            with self._guard:
                if self._parts and self._parts[-1].first == self.end:  # of the version before, and nothing in it
                    self._parts.pop()
                self._parts.append(_Part(path, self.end, [len(checksum.MARK)]))
            path.write_bytes(checksum.MARK)
        part = self._parts[-1]
        self._file = part.path.open("r+b")
        self._file.truncate(part.places[-1])
        self._file.seek(part.places[-1])
        sync_names(self._folder)


def _packed(one: Arrival) -> bytes:
    return checksum.record(_HEAD.pack(one.mid, one.qos) + one.topic.encode(), one.payload)


def _unpacked(data: bytes, old: bool = False, start: int = 0) -> Iterator[tuple[Arrival, int]]:
    """Messages and where each ends, up to what is torn. Broken: one is damaged."""
    if old:
        yield from _unpacked_before(data)
        return
    for head, payload, stop in checksum.records(data, start):
        mid, qos = _HEAD.unpack_from(head)
        yield Arrival(head[_HEAD.size :].decode(), payload, mid, qos), stop


def _unpacked_before(data: bytes) -> Iterator[tuple[Arrival, int]]:
    """Likewise, of the version before: up to what is damaged."""
    place = 0
    while place + _BEFORE.size <= len(data):
        sum, size, length, mid, qos = _BEFORE.unpack_from(data, place)
        stop = place + _BEFORE.size + length + size
        if stop > len(data) or crc32(data[place + 4 : stop]) != sum:
            return
        middle = place + _BEFORE.size + length
        yield Arrival(data[place + _BEFORE.size : middle].decode(), data[middle:stop], mid, qos), stop
        place = stop


def _damaged(path: Path, number: int) -> CepError:
    return CepError(f"--checkpoint: {path}: message {number} is damaged", hint=BACK, code="checkpoint")


def _read(path: Path) -> _Part:
    """The file as far as it is whole. CepError: a message that is not has more behind it, or is not half written: it
    was kept and acknowledged."""
    data, first = path.read_bytes(), int(path.stem)
    try:
        new = checksum.marked(data)
        start = len(checksum.MARK) if new else 0
        places = [start, *(stop for _, stop in _unpacked(data, not new, start))]
    except checksum.Broken as broken:
        raise _damaged(path, first + broken.number) from None
    part, rest = _Part(path, first, places, not new), memoryview(data)[places[-1] :]
    if part.old and len(rest) >= _BEFORE.size and any(rest):
        _, size, length, _, _ = _BEFORE.unpack_from(rest)
        if _BEFORE.size + length + size < len(rest):
            raise _damaged(path, part.beyond)
    return part
