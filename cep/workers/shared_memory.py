"""Memory shared by two processes. One process writes data, the other reads the data in place and releases them."""

from __future__ import annotations

import mmap
import os
from collections import deque
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SIZE = 1 << 28
"""The size of the address range in bytes. The first free place is used, so the system provides little real memory."""

ALIGNED = 64
"""The alignment of each allocation in bytes."""


def shared_memory() -> int | None:
    """Return a descriptor of new memory, or None if the system does not support it.

    The system frees the memory when the last process that uses it ends.
    """
    if not hasattr(os, "memfd_create"):
        return None
    with suppress(OSError):
        descriptor = os.memfd_create("semcep")
        try:
            os.ftruncate(descriptor, SIZE)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    return None


def aligned(size: int) -> int:
    """Return the size rounded up to the alignment."""
    return -(-size // ALIGNED) * ALIGNED


class GivenMemory:
    """The writing side of shared memory.

    `given_back`: the offsets of allocations that the reader has released. Any thread may append to it.
    """

    def __init__(self, descriptor: int) -> None:
        self._bytes = np.frombuffer(mmap.mmap(descriptor, SIZE), np.uint8)
        self._used: list[tuple[int, int]] = []  # (first byte, byte after the last), sorted
        self.given_back: deque[int] = deque()

    def room(self, size: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Allocate `size` bytes. Return their offset and the bytes, or None if not enough memory is free."""
        if self.given_back:
            over = {self.given_back.popleft() for _ in range(len(self.given_back))}
            self._used = [block for block in self._used if block[0] not in over]
        size = aligned(max(size, 1))
        begin = place = 0
        for first, stop in self._used:  # use the first gap, so that little memory is touched
            if first - begin >= size:
                break
            begin = stop
            place += 1
        if begin + size > SIZE:
            return None
        self._used.insert(place, (begin, begin + size))
        return begin, self._bytes[begin : begin + size]


class TakenMemory:
    """The reading side of shared memory."""

    def __init__(self, descriptor: int) -> None:
        self._bytes = np.frombuffer(mmap.mmap(descriptor, SIZE, prot=mmap.PROT_READ), np.uint8)
        self._address = self._bytes.ctypes.data
        self._over: deque[int] = deque()

    def buffer(self, begin: int, size: int) -> pa.Buffer:
        """Return a buffer over part of this memory. It is released when the last array that refers to it is deleted."""
        return pa.foreign_buffer(self._address + begin, size, _Held(begin, self._over, self._bytes))

    def over(self) -> list[int]:
        """Return the offsets of the buffers that were released since the last call."""
        return [self._over.popleft() for _ in range(len(self._over))]


class _Held:
    """A part of the memory that is in use. It keeps the whole memory alive."""

    __slots__ = ("_begin", "_bytes", "_over")

    def __init__(self, begin: int, over: deque[int], whole: NDArray[np.uint8]) -> None:
        self._begin, self._over, self._bytes = begin, over, whole

    def __del__(self) -> None:
        self._over.append(self._begin)
