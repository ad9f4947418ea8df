"""Messages kept on disk before they are acknowledged: what a broker gives once can so be read again, by number."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from cep.errors import CepError
from cep.spark.lock import locked
from connectors.mqtt import Arrival

_HEAD = struct.Struct("<IIIHB")
"""Check sum of what follows it, bytes of the payload, of the topic, `mid` and QoS."""

_FULL = 1 << 24  # bytes of a file
_MIDS = 1 << 16  # numbers that a broker has for messages on their way


@dataclass(slots=True)
class _Part:
    """A file with the messages from number `first` on, and where each ends; `places` begins with 0."""

    path: Path
    first: int
    places: list[int]

    @property
    def beyond(self) -> int:
        return self.first + len(self.places) - 1


class Mail:
    """A folder of messages numbered from 0. Those before some number are forgotten when they are not needed any more.

    What a process that was killed had half written was not acknowledged, and is cut off when the folder is opened.
    """

    def __init__(self, folder: Path, patience: float = 10.0) -> None:
        """CepError: another process has it open, and has not let go of it after so many seconds."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._guard = threading.Lock()
        self._lock = locked(folder, patience)
        self._parts = [_read(path) for path in sorted(folder.glob("*.mail"))]
        self._file: BinaryIO | None = None

    @property
    def end(self) -> int:
        """The number of the next message."""
        return self._parts[-1].beyond if self._parts else 0

    def append(self, arrived: Sequence[Arrival]) -> None:
        """Keep messages; they are on the disk when this returns."""
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
        """The messages from `start` up to, not including, `end`. CepError: some are forgotten."""
        with self._guard:
            parts = [_Part(one.path, one.first, one.places) for one in self._parts if one.beyond > start]
        if start < end and (not parts or parts[0].first > start):
            raise CepError(f"{self._folder}: messages from {start} on are not there any more", code="checkpoint")
        found: list[Arrival] = []
        for part in parts:
            first, last = max(start, part.first) - part.first, min(end, part.beyond) - part.first
            if first < last:
                with part.path.open("rb") as file:
                    file.seek(part.places[first])
                    found += (one for one, _ in _unpacked(file.read(part.places[last] - part.places[first])))
        return found

    def known(self) -> dict[int, int]:
        """The latest messages, by which one that comes again is known: digests by `mid`."""
        found: dict[int, int] = {}
        for part in self._parts:
            if part.beyond > self.end - _MIDS:
                found |= {one.mid: one.digest for one, _ in _unpacked(part.path.read_bytes()) if one.qos}
        return found

    def forget(self, until: int) -> None:
        """Remove files that hold nothing from number `until` on; the last one stays, so that numbers go on."""
        with self._guard:
            gone = [part for part in self._parts[:-1] if part.beyond <= until]
            self._parts = self._parts[len(gone) :]
        for part in gone:
            part.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()

    def _next(self) -> None:
        """The last file if it has room, else a new one."""
        if self._file is not None:
            self._file.close()
        if not self._parts or self._parts[-1].places[-1] >= _FULL:
            path = self._folder / f"{self.end:020}.mail"
            with self._guard:
                self._parts.append(_Part(path, self.end, [0]))
        part = self._parts[-1]
        self._file = part.path.open("r+b" if part.path.exists() else "w+b")
        self._file.truncate(part.places[-1])
        self._file.seek(part.places[-1])
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _packed(one: Arrival) -> bytes:
    topic = one.topic.encode()
    head = _HEAD.pack(0, len(one.payload), len(topic), one.mid, one.qos)[4:]
    body = head + topic + one.payload
    return crc32(body).to_bytes(4, "little") + body


def _unpacked(data: bytes) -> Iterator[tuple[Arrival, int]]:
    """Messages and where each ends, up to what is damaged."""
    place = 0
    while place + _HEAD.size <= len(data):
        sum, size, length, mid, qos = _HEAD.unpack_from(data, place)
        stop = place + _HEAD.size + length + size
        if stop > len(data) or crc32(data[place + 4 : stop]) != sum:
            return
        middle = place + _HEAD.size + length
        yield Arrival(data[place + _HEAD.size : middle].decode(), data[middle:stop], mid, qos), stop
        place = stop


def _read(path: Path) -> _Part:
    return _Part(path, int(path.stem), [0, *(stop for _, stop in _unpacked(path.read_bytes()))])
