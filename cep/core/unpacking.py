"""A limit for decompression. It refuses a small file that would fill the memory, or take a day to unpack."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

MOST_TIMES = 500
"""The maximum ratio of unpacked to compressed size, for input that unpacks to more than FREE bytes.

Records and triples usually compress to a tenth, rarely to a hundredth. gzip never compresses below a thousandth.
"""

FREE = 1 << 28
"""The number of bytes to which any input may unpack."""


class UnpackedTooLarge(OSError):
    """Compressed input unpacks to more bytes than are allowed."""


def check_unpacked(unpacked: int, packed: int) -> None:
    """Check the size of unpacked input. `packed`: the number of compressed bytes that were read.

    Raises UnpackedTooLarge if `unpacked` bytes are too many.
    """
    if unpacked > FREE and unpacked > MOST_TIMES * packed:
        reason = f"it unpacks to more than {MOST_TIMES} times its size, and more than {FREE >> 20} MB"
        raise UnpackedTooLarge(reason)


class Unpacked(io.RawIOBase):
    """The output of a decompressor, within the limit. `packed`: a function that returns the number of compressed bytes
    read."""

    def __init__(self, stream: Any, packed: Callable[[], int]) -> None:
        self._stream, self._packed, self._read = stream, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._read += len(data)
        check_unpacked(self._read, self._packed())
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
