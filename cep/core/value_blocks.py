"""The values of a pool in blocks, each a part of a snapshot: more values make only few blocks anew."""

from __future__ import annotations

import numpy as np
import polars as pl

from cep.core.values import FREE, Ints, Pool

_BLOCKS = 65_536, 4096, 256  # values of a block


def blocks(pool: Pool) -> list[tuple[int, int]]:
    """The codes in few stretches, each from its first to before its last: but for the last ones, what more values
    bring makes others only seldom."""
    found, first = [], 0
    end = int(_valued(pool, 0, pool.capacity - 1).max(initial=-1)) + 1
    while first < end:
        size = next((size for size in _BLOCKS if first + size <= end), _BLOCKS[-1])
        found.append((first, min(first + size, end)))
        first = found[-1][1]
    return found


def settled(pool: Pool, first: int, last: int) -> bool:
    """Return True if all codes of a block have values. They stay while the pool's `generation` does."""
    return last - first in _BLOCKS and len(_valued(pool, first, last)) == last - first


def dumped(pool: Pool, first: int, last: int) -> pl.DataFrame:
    """A snapshot of the values of a block, as `Pool.dump`."""
    return pool.dump_codes(_valued(pool, first, last))


def _valued(pool: Pool, first: int, last: int) -> Ints:
    codes: Ints = np.arange(first, last)
    kept: Ints = codes[pool.kinds(codes) != FREE]
    return kept
