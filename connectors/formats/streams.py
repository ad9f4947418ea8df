"""Byte streams of inputs. An input is a file or a pipe, and may be compressed. Its text is converted to UTF-8."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from time import monotonic
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.idle import IdleTimer
from cep.core.signals import stops
from cep.core.storage.files import StoredFile
from cep.core.storage.urls import is_url
from cep.core.unpacking import check_unpacked

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
BOM = b"\xef\xbb\xbf"
LONGEST = 1 << 24
"""The maximum length in bytes of a line. A longer line is not read as a record."""

MOST = 1 << 28
"""The maximum size of a block in bytes, because positions in a block are 32-bit numbers.

The limit does not include an incomplete line that was read earlier and is prepended to the block.
"""

_LITTLE = 1 << 20  # wait briefly for more than this many bytes from a pipe
_MOMENT = 0.01  # the total seconds of this wait


class ByteStream:
    """The bytes of one input. Compression with gzip or zstd is recognised from the first bytes.

    - `position`: the number of bytes that have been read. For a compressed file, compressed bytes are counted.
    - `size`: the size in bytes of the stored file, before it is decompressed. It is None if the size is unknown.
    - `idle`: the number of seconds without data after which a pipe counts as silent. It is None if it never counts as
      silent.
    - `silence`: the timer that measures the time without data.
    - `encoding`: the encoding of the input's text, which is converted to UTF-8. Bytes that are invalid in this encoding
      are left unchanged, so they are invalid in UTF-8 too.
    - `plain`: True if the input's bytes are neither decompressed nor converted.
    """

    def __init__(
        self, path: str, stream: BinaryIO | None = None, idle: float | None = None, encoding: str | None = None
    ) -> None:
        self.silence = IdleTimer(idle)
        self.size: int | None = None
        self.damage: str | None = None  # why the rest of a compressed file cannot be read
        self._compressed: gzip.GzipFile | pa.NativeFile | None = None
        self._decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._packed: Any = None  # the compressed bytes
        self._descriptor: int | None = None
        self._read = 0
        self._ahead = b""
        if path == "-":
            if stream is None and sys.stdin is None:
                raise OSError("the stream is closed")
            self._file = stream or sys.stdin.buffer
            self._owned = False
        else:
            self._file = StoredFile(path) if is_url(path) else open(path, "rb", buffering=0)  # noqa: SIM115
            self._owned = True
        if isinstance(self._file, StoredFile):
            self.size, begin = self._file.size, self._file.read(4)
            self._file.seek(0)
        else:
            try:
                descriptor = self._file.fileno()
                mode = os.fstat(descriptor).st_mode
            except (OSError, io.UnsupportedOperation):
                return
            if stat.S_ISREG(mode):
                self.size = os.fstat(descriptor).st_size
            else:
                self._descriptor = descriptor
            begin = os.pread(descriptor, 4, self._file.tell()) if self._descriptor is None else b""
        if path.endswith((".gz", ".zst")) or begin.startswith(_GZIP) or begin == _ZSTD:
            zipped = path.endswith(".gz") or begin.startswith(_GZIP)
            if not zipped and self._descriptor is None and begin and begin != _ZSTD:
                raise OSError("this is not a zstd file; to read it uncompressed, remove `.zst` from its name")
            packed = self._file if self._descriptor is None else _Awaited(self._descriptor)
            self._unpack(packed, io.BufferedReader(packed, 1 << 20), zipped)

    def _unpack(self, packed: Any, reader: Any, zipped: bool) -> None:
        self._packed, self._descriptor = packed, None
        if zipped:
            self._compressed = gzip.GzipFile(fileobj=reader)
        else:
            self._compressed = pa.CompressedInputStream(pa.PythonFile(reader, "r"), "zstd")

    @property
    def plain(self) -> bool:
        return self._compressed is None and self._decoder is None

    @property
    def position(self) -> int:
        return self._file.tell() if self._compressed is not None and self.size is not None else self._read

    @property
    def on_disk(self) -> bool:
        """Return True if the stream is a local file whose bytes are neither decompressed nor converted."""
        return self.plain and self.size is not None and self._owned and not isinstance(self._file, StoredFile)

    def go_to(self, position: int) -> None:
        """Continue reading at byte `position` of the file. `on_disk` must be True."""
        self._file.seek(position)
        self._read, self._ahead = position, b""

    def behind_mark(self) -> int:
        """Return the position after the byte order mark, or 0 if there is none. `on_disk` must be True."""
        return len(BOM) if os.pread(self._file.fileno(), len(BOM), 0) == BOM else 0

    def silent(self) -> bool:
        """Wait for data, the end of the stream, or silence. Return True if the stream counts as silent first."""
        seconds = self.silence.remaining
        if self._ahead or self._descriptor is None or seconds is None:
            return False
        while not stops.wait(self._descriptor, seconds):
            if self.silence.due():
                return True
            seconds = self.silence.remaining or 0.0
        return False

    def empty(self) -> bool:
        """Return True if a read would have to wait, because neither data nor the end of the stream has arrived."""
        if self._ahead or self._descriptor is None:
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return not poll.poll(0)

    def read(self, most: int) -> bytes:
        """Return the next bytes: at least one and at most `most` or MOST bytes, or b"" at the end of the stream.

        For a pipe, return the bytes that have already arrived, or wait for the first one.
        """
        most = min(most, MOST)
        stops.look()
        if self._ahead:
            data, self._ahead = self._ahead[:most], self._ahead[most:]
            return data
        if self._descriptor is not None:
            stops.wait(self._descriptor, None)
            data = self._arrived(self._descriptor, most)
            if not self._read:
                data = _known(self._descriptor, data)
                if data.startswith((_GZIP, _ZSTD)):
                    packed = _Awaited(self._descriptor, data)
                    self._unpack(packed, packed, data.startswith(_GZIP))
                    return self.read(most)
        elif self._compressed is not None:
            data = self._inflated(self._compressed, most)
        else:
            data = self._file.read(most)
        self._read += len(data)
        self.silence.reset()
        return data if self._decoder is None else self._decoded(self._decoder, data, most)

    def unread(self, data: bytes) -> None:
        """Push data back, so that the next call of `read` returns it."""
        self._ahead = data

    def _decoded(self, decoder: codecs.IncrementalDecoder, data: bytes, most: int) -> bytes:
        """Convert bytes to UTF-8. Return an empty result only at the end of the stream."""
        text = decoder.decode(data, not data).encode("utf-8", "surrogateescape")
        return text if text or not data else self.read(most)

    def _arrived(self, descriptor: int, most: int) -> bytes:
        data = os.read(descriptor, most)
        if not data or len(data) >= most:
            return data
        parts = [data]
        size = len(data)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        until = monotonic() + _MOMENT
        while size < most and poll.poll(max(0.0, until - monotonic()) * 1000 if size < _LITTLE else 0):
            if size < _LITTLE and monotonic() > until:  # do not delay the reader of this data any longer
                break
            data = os.read(descriptor, most - size)
            if not data:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _inflated(self, compressed: gzip.GzipFile | pa.NativeFile, most: int) -> bytes:
        """Decompress up to `most` bytes. Stop where the data is damaged."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < most and self.damage is None and (data := compressed.read1(most - size)):
                parts.append(data)
                size += len(data)
                check_unpacked(self._read + size, self._packed.tell())
        except (EOFError, OSError, zlib.error, pa.ArrowException) as error:
            if isinstance(error, gzip.BadGzipFile) and not parts and not self._read:
                raise OSError("this is not a gzip file; to read it uncompressed, remove `.gz` from its name") from None
            self.damage = str(error).rstrip(".").lower()
        return b"".join(parts)

    def close(self) -> None:
        if self._owned:
            self._file.close()


def _known(descriptor: int, data: bytes) -> bytes:
    """Return the first bytes of a pipe. They are enough to recognise whether the stream is compressed.

    `data`: the bytes that were already read from the pipe.
    """
    while 0 < len(data) < len(_ZSTD) and (_ZSTD.startswith(data) or _GZIP.startswith(data)):
        stops.wait(descriptor, None)
        more = os.read(descriptor, len(_ZSTD))
        if not more:
            break
        data += more
    return data


class _Awaited(io.RawIOBase):
    """A file object that reads from a pipe. It first returns `ahead`, which was already read from the pipe."""

    def __init__(self, descriptor: int, ahead: bytes = b"") -> None:
        self._descriptor, self._position, self._ahead = descriptor, 0, ahead

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ahead:
            some, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
            buffer[: len(some)] = some
            self._position += len(some)
            return len(some)
        stops.wait(self._descriptor, None)
        read = os.readv(self._descriptor, [buffer])
        self._position += read
        return read

    def tell(self) -> int:
        return self._position


def whole_lines(
    stream: ByteStream, chunk: int, longest: int = LONGEST, begun: int = 0
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (bytes, position of the first byte, length) for each block of whole lines.

    `length` is 0, except for a line that is longer than `longest` bytes. Such a line is yielded on its own: `length` is
    its length, and the bytes are only its beginning. The last line may lack its line end. While the stream is silent,
    the bytes are empty. `begun`: the number of bytes of the stream that the caller has already read.
    """
    rest = b""
    position = begun
    first = not begun
    while True:
        while stream.silent():
            yield b"", position, 0
        data = stream.read(more_bytes(chunk, len(rest), longest))
        if not data:
            break
        if first:
            while len(data) < len(BOM) and BOM.startswith(data) and (more := stream.read(1)):
                data += more
            if data.startswith(BOM):
                data = data[len(BOM) :]
                position = len(BOM)
            first = False
        block = rest + data if rest else data
        cut = block.rfind(b"\n", len(rest)) + 1
        if cut:
            yield block[:cut], position, 0
        rest = block[cut:]
        position += cut
        if len(rest) > longest:
            length, head, rest = skip_line(stream, rest, chunk)
            yield head, position, length
            position += length
    if rest and stream.damage is None:  # the last line of a damaged file may be incomplete
        yield rest, position, 0


def more_bytes(chunk: int, begun: int, longest: int = LONGEST) -> int:
    """Return the number of bytes to read next if an incomplete line of `begun` bytes has been read.

    The first read fills up the chunk that contains the incomplete line. Each later read has the size of a chunk. The
    line never becomes longer than `longest` + 1 bytes.
    """
    return min(chunk - begun if begun < chunk else chunk, longest + 1 - begun)


def skip_line(stream: ByteStream, rest: bytes, chunk: int) -> tuple[int, bytes, bytes]:
    """Skip a line that begins with `rest`. Return the length of the line, its first bytes (at most 1,000), and the
    bytes after the line that were already read."""
    length = len(rest)
    head = rest[:1000]
    while data := stream.read(chunk):
        end = data.find(b"\n")
        if end >= 0:
            return length + end + 1, head, data[end + 1 :]
        length += len(data)
    return length, head, b""


def line_ends(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions where the lines of a block begin, and the positions of their line ends.

    The last line may lack its line end. Its end is then the end of the block.
    """
    breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    starts = np.concatenate([[0], breaks + 1])
    stops = np.concatenate([breaks, [len(data)]])
    return (starts[:-1], stops[:-1]) if starts[-1] == len(data) else (starts, stops)


def line_breaks(data: bytes) -> int:
    """Return the number of line ends in a block."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == 10))  # several times as fast as `bytes.count`


def not_utf8(data: bytes, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the lines that are not valid UTF-8. `starts`: the position where each line begins."""
    rows: list[int] = []
    view = memoryview(data)
    position = len(data) if data.isascii() else 0
    while position < len(data):
        try:
            codecs.utf_8_decode(view[position:], "strict", True)
            break
        except UnicodeDecodeError as error:
            row = int(np.searchsorted(starts, position + error.start, side="right")) - 1
            rows.append(row)
            position = int(starts[row + 1]) if row + 1 < len(starts) else len(data)
    return np.array(rows, np.int64)
