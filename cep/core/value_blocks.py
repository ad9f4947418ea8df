"""Division of a pool of values into blocks, each of which is a part of a snapshot. New values change few blocks."""

from __future__ import annotations

import numpy as np
import polars as pl

from cep.core.values import FREE, Ints, Pool

_BLOCKS = 65_536, 4096, 256  # block sizes, in values


def blocks(pool: Pool) -> list[tuple[int, int]]:
    """Divide the codes of a pool into a few blocks, which are half-open ranges of codes. New values rarely change any
    blocks except the last ones."""
    spans, first = [], 0
    end = int(_valued(pool, 0, pool.capacity - 1).max(initial=-1)) + 1
    while first < end:
        size = next((size for size in _BLOCKS if first + size <= end), _BLOCKS[-1])
        spans.append((first, min(first + size, end)))
        first = spans[-1][1]
    return spans


def settled(pool: Pool, first: int, last: int) -> bool:
    """Return True if all codes of a block have values, which stay the same as long as the pool's `generation`."""
    return last - first in _BLOCKS and len(_valued(pool, first, last)) == last - first


def dumped(pool: Pool, first: int, last: int) -> pl.DataFrame:
    """Return the values of a block as a snapshot, in the format of `Pool.dump`."""
    return pool.dump_codes(_valued(pool, first, last))


def _valued(pool: Pool, first: int, last: int) -> Ints:
    codes: Ints = np.arange(first, last)
    kept: Ints = codes[pool.kinds(codes) != FREE]
    return kept
