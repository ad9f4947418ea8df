"""A limit for decompression. A small file that would fill the memory, or take a day, is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

MOST_TIMES = 500
"""The maximum ratio of unpacked to compressed size, beyond FREE.

Records and triples usually compress to a tenth, rarely to a hundredth, and gzip never below a thousandth.
"""

FREE = 1 << 28
"""The bytes that any input may unpack to."""


class UnpackedTooLarge(OSError):
    """Compressed input unpacks to more than is allowed."""


def check_unpacked(unpacked: int, packed: int) -> None:
    """Raise UnpackedTooLarge if `unpacked` bytes are too many for `packed` bytes."""
    if unpacked > FREE and unpacked > MOST_TIMES * packed:
        reason = f"it unpacks to more than {MOST_TIMES} times its size, and more than {FREE >> 20} MB"
        raise UnpackedTooLarge(reason)


class Unpacked(io.RawIOBase):
    """The output of a decompressor, within the limit. `packed`: a function that returns the bytes consumed."""

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
