"""A log of messages on disk. Messages are written to the log before they are acknowledged.

The log is needed because a broker does not send an acknowledged message again, while Spark may read a message again.
"""

from __future__ import annotations

import socket
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from cep.connectors.brokers.mqtt import Arrival
from cep.connectors.files import DEVICE
from cep.core.append_log import RecordLog
from cep.core.checksum import Broken
from cep.core.durable_files import sync_names
from cep.core.errors import CepError, reason_of
from cep.spark.disk import BACK, locked, put

_HEAD = struct.Struct("<HB")
"""The binary form of a message's packet identifier (`mid`) and QoS, which precede the topic."""

_FULL = 1 << 24  # the size in bytes at which a segment is full
_MIDS = 1 << 16  # the number of packet identifiers of a broker
_GONE = "known"  # a file about removed segments: a checksum, then `mid` and digest of each message
_PAIR = struct.Struct("<HI")


@dataclass(frozen=True, slots=True)
class LoggedRange:
    """A range of messages in one file of the log. A process that has not opened the log can read the range.

    - `first`, `last`: the number of the first message, and the number after that of the last message.
    - `start`, `stop`: the range of bytes in the file `path` that contains the messages.
    """

    path: str
    first: int
    last: int
    start: int
    stop: int

    def read(self) -> list[Arrival]:
        """Return the messages. Raises CepError if the file is not on this machine or a message is damaged."""
        path = Path(self.path)
        try:
            records = RecordLog(path).read_at(self.start, self.stop, self.first, self.last)
            return [_unpacked(*record) for record in records]
        except Broken as broken:
            raise _damaged(path, broken.number) from None
        except OSError as error:
            raise CepError(
                f"--checkpoint: {path} cannot be read by a worker on {socket.gethostname()}: {reason_of(error)}",
                hint="all machines need the folder of the checkpoint under the same path",
                code=DEVICE,
            ) from None


class _Segment:
    """A file of the log. `first`: the number of the file's first message."""

    def __init__(self, path: Path) -> None:
        """Read a segment. Raises CepError if a message is damaged, or if a message in the middle is missing."""
        self.first = int(path.stem)
        self.log = RecordLog(path)
        try:
            for _ in self.log.unread():
                pass
        except Broken as broken:
            raise _damaged(path, self.first + broken.number) from None

    @property
    def beyond(self) -> int:
        return self.first + len(self.log)

    @property
    def full(self) -> bool:
        """True if the segment is so large that no more messages are added to it."""
        return self.log.size >= _FULL

    def part(self, first: int, last: int) -> LoggedRange:
        """Return the segment's messages from `first` to `last` - 1 as a range that other processes can read."""
        places, numbers = self.log.places, (self.first + first, self.first + last)
        return LoggedRange(str(self.log.path.absolute()), *numbers, places[first], places[last])

    def read(self, first: int, last: int) -> list[Arrival]:
        """Return the segment's messages from `first` to `last` - 1. Raises CepError if a message is damaged."""
        try:
            return [_unpacked(*record) for record in self.log.read(first, last)]
        except Broken as broken:
            raise _damaged(self.log.path, self.first + broken.number) from None


class MessageLog:
    """A folder of messages, which are numbered from 0. It consists of files, called segments. A segment is removed when
    its messages are no longer needed.

    A killed process may leave an incomplete message, which it has not acknowledged. This message is removed before
    further messages are added.
    """

    def __init__(self, folder: Path, timeout: float = 10.0) -> None:
        """Open the log. Raises CepError if the log is damaged (and does not change it), or if another process keeps it
        open for `timeout` seconds."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._guard = threading.Lock()
        self._lock = locked(folder, timeout)
        try:
            self._segments = [_Segment(path) for path in sorted(folder.glob("*.mail"))]
            for segment, following in zip(self._segments, self._segments[1:]):
                if segment.beyond != following.first:
                    raise _damaged(segment.log.path, segment.beyond)
        except BaseException:
            self._lock.close()
            raise
        self._current: RecordLog | None = None  # the segment to which messages are added

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        return self._segments[-1].beyond if self._segments else 0

    def append(self, arrived: Sequence[Arrival]) -> None:
        """Add messages, and sync them to disk. Raises CepError if the log is closed."""
        if self._lock.closed:
            raise CepError(
                f"{self._folder}: this log of messages is closed, and another run may use it", code="checkpoint"
            )
        records = [(_HEAD.pack(packet.mid, packet.qos) + packet.topic.encode(), packet.payload) for packet in arrived]
        if self._current is None or self._current.size >= _FULL:
            self._current = self._following()
        self._current.append(records)

    def read(self, start: int, end: int) -> list[Arrival]:
        """Return the messages numbered `start` to `end` - 1. Raises CepError if one of them is missing or damaged."""
        return [packet for segment, first, last in self._between(start, end) for packet in segment.read(first, last)]

    def cuts(self, start: int, end: int, most: int, size: int) -> Iterator[LoggedRange]:
        """Divide the messages from `start` to `end` - 1 into ranges of at most `most` messages and `size` bytes.

        A range has at least one message, even if it is larger. The same arguments always return the same ranges.
        """
        for segment, first, last in self._between(start, end):
            places = segment.log.places
            while first < last:
                full = bisect_right(places, places[first] + size) - 1
                stop = min(last, first + most, max(full, first + 1))
                yield segment.part(first, stop)
                first = stop

    def _between(self, start: int, end: int) -> list[tuple[_Segment, int, int]]:
        """Return the segments that contain the messages with the numbers from `start` to `end` - 1. Each segment is
        followed by the range of these messages in it, as positions.

        Raises CepError if messages are missing.
        """
        if start >= end:
            return []
        with self._guard:
            segments = [segment for segment in self._segments if segment.first < end and segment.beyond > start]
            kept = (segments[0].first, segments[-1].beyond) if segments else (0, 0)
        if kept[0] > start or kept[1] < end:
            missing = start if not kept[0] <= start < kept[1] else kept[1]
            raise CepError(
                f"--checkpoint: {self._folder}: messages from {missing} on are missing",
                hint=BACK,
                code="checkpoint",
            )
        return [(part, max(start, part.first) - part.first, min(end, part.beyond) - part.first) for part in segments]

    def known(self) -> dict[int, int]:
        """Return digests of the latest messages, by packet identifier (`mid`), so that the reader can recognize a
        message that the broker sends again.

        The result covers at least the last 65,536 messages. Raises CepError if the log is damaged.
        """
        return self._gone() | self._digests(self._segments)

    def forget(self, until: int) -> None:
        """Remove segments whose messages all have numbers below `until`.

        The last segment stays, so that the numbers of messages continue.
        """
        gone = [segment for segment in self._segments[:-1] if segment.beyond <= until]
        if digests := self._digests(gone):
            pairs = b"".join(_PAIR.pack(*pair) for pair in (self._gone() | digests).items())
            put(self._folder / _GONE, crc32(pairs).to_bytes(4, "little") + pairs)
            sync_names(self._folder)
        with self._guard:
            self._segments = self._segments[len(gone) :]
        for segment in gone:
            segment.log.path.unlink(missing_ok=True)

    def _digests(self, segments: Sequence[_Segment]) -> dict[int, int]:
        """Return digests of messages in segments, by packet identifier. Ignore segments without recent messages."""
        recent = [segment for segment in segments if segment.beyond > self.end - _MIDS]
        return {packet.mid: packet.digest for part in recent for packet in part.read(0, len(part.log)) if packet.qos}

    def _gone(self) -> dict[int, int]:
        file = self._folder / _GONE
        data = file.read_bytes() if file.exists() else bytes(4)
        pairs = data[4:]
        if crc32(pairs).to_bytes(4, "little") != data[:4] or len(pairs) % _PAIR.size:
            hint = "remove it: messages that the broker sends again then count as new, once"
            raise CepError(f"{file} is damaged", hint=hint, code="checkpoint")
        return dict(_PAIR.iter_unpack(pairs))

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        self._lock.close()

    def _following(self) -> RecordLog:
        """Return the last segment if it is not full. Otherwise create a segment, and sync its name to disk."""
        if self._current is not None:
            self._current.close()
        if not self._segments or self._segments[-1].full:
            path = self._folder / f"{self.end:020}.mail"
            with self._guard:
                self._segments.append(_Segment(path))
        log = self._segments[-1].log
        log.append([])
        sync_names(self._folder)
        return log


def _unpacked(head: bytes, payload: bytes) -> Arrival:
    mid, qos = _HEAD.unpack_from(head)
    return Arrival(head[_HEAD.size :].decode(), payload, mid, qos)


def _damaged(path: Path, number: int) -> CepError:
    return CepError(f"--checkpoint: {path}: message {number} is damaged", hint=BACK, code="checkpoint")
