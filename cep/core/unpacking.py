"""A bound on what compressed input unpacks to: a small file that fills the memory or a day is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

MOST_TIMES = 500
"""So many times its own size compressed input may unpack to, beyond FREE; records and triples pack to a tenth, seldom
to a hundredth, and gzip packs nothing to less than a thousandth."""

FREE = 1 << 28
"""Bytes that any input may unpack to."""


class UnpackedTooLarge(OSError):
    """Compressed input unpacks to more than it may."""


def check_unpacked(unpacked: int, packed: int) -> None:
    """Raises UnpackedTooLarge where so many bytes have come of so many."""
    if unpacked > FREE and unpacked > MOST_TIMES * packed:
        reason = f"it unpacks to more than {MOST_TIMES} times its size, and more than {FREE >> 20} MB"
        raise UnpackedTooLarge(reason)


class Unpacked(io.RawIOBase):
    """Bytes of a decompressor, within the bound. `packed`: how many bytes it has taken."""

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
