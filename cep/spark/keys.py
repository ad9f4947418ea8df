"""Numbers for buckets by which Spark spreads them evenly over its partitions."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

EVEN = 48
"""Buckets are spread evenly over as many partitions, and over any number that divides it."""

_ALL = 0xFFFFFFFF


@lru_cache
def keys(buckets: int) -> tuple[int, ...]:
    """A number for each bucket: bucket b goes to partition b modulo their number, where that divides `EVEN`."""
    waiting: dict[int, list[int]] = {}
    for bucket in range(buckets):
        waiting.setdefault(bucket % EVEN, []).append(bucket)
    found = dict.fromkeys(range(buckets), 0)
    for number in count():
        if not waiting:
            return tuple(found.values())
        place = hashed(number) % EVEN
        if place in waiting:
            found[waiting[place].pop(0)] = number
            if not waiting[place]:
                del waiting[place]
    raise AssertionError("numbers have no end")


@lru_cache
def places(buckets: int) -> dict[int, int]:
    """The bucket of each number."""
    return {key: bucket for bucket, key in enumerate(keys(buckets))}


def hashed(number: int) -> int:
    """The hash of an integer that Spark partitions by: Murmur3 of 32 bits, its seed 42, signed."""
    key = (number * 0xCC9E2D51) & _ALL
    key = ((key << 15) | (key >> 17)) & _ALL
    made = 42 ^ ((key * 0x1B873593) & _ALL)
    made = ((made << 13) | (made >> 19)) & _ALL
    made = ((made * 5 + 0xE6546B64) & _ALL) ^ 4
    made = ((made ^ (made >> 16)) * 0x85EBCA6B) & _ALL
    made = ((made ^ (made >> 13)) * 0xC2B2AE35) & _ALL
    made ^= made >> 16
    return made - (1 << 32) if made >> 31 else made
