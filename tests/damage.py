"""Damage to bytes and files, as after a disk has lost data."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


def flipped(data: bytes, count: int, random: Random | None, until: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The same with one bit flipped, so many times, at random places of its first `until` bytes, or at all in turn;
    with the number of the bit."""
    bits = 8 * (len(data) if until is None else until)
    for number in range(min(count, bits)) if random is None else (random.randrange(bits) for _ in range(count)):
        damaged = bytearray(data)
        damaged[number // 8] ^= 1 << number % 8
        yield number, bytes(damaged)


def cut(data: bytes, random: Random) -> list[bytes]:
    """The same emptied, cut short, with something behind it, with zeros in the middle."""
    middle = random.randrange(1, len(data))
    zeros = data[: middle // 2] + bytes(len(data) - middle // 2)
    return [b"", data[:-1], data[:middle], data + b"\0", zeros]
