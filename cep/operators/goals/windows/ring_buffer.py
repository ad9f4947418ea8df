"""Short windows of the last n rows: each group has a ring buffer, which is aggregated anew each time.

For a few adjacent rows this is faster than an incremental algorithm, and equally exact.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import as_bits, as_float, prefetch
from cep.operators.goals.pairs.found_pairs import make_place
from cep.operators.goals.windows.partial_aggregates import (
    AVG,
    DISTINCT,
    SUM_FLOAT,
    SUM_INT,
    around,
    combine,
    exact,
    lift,
    outcome,
)

# Columns of a ring: the number of rows, the place of the oldest; then n rows of start, name and values.
R_COUNT, R_OLDEST = 0, 1
RING = 2
SHORT = 16

# How many rows ahead to prefetch a group's ring; and the words of a cache line.
AHEAD, LINE = 12, 8


@njit()
def turn(table, values, slots, events, kinds, rings, keys, lineage):  # type: ignore[no-untyped-def]
    """Let rows enter the rings of their groups, and compute one result per group and instant.

    Returns (results, edges); an edge is (result, handle of a row in its window), for lineage. `rings` has a row for
    each slot, with room for `events` rows. There is at most one result per row, with at most `events` edges.
    """
    n = table.shape[1]
    words = rings.shape[1]
    cells = rings.reshape((rings.size, 1))
    results = kinds.shape[0]
    width = keys.shape[1]
    step = 2 + results
    results_table = np.empty((FIRST + width + results, n), np.int64)
    edges = np.empty((n * events if lineage else 0, 2), np.int64)
    edge_count = 0
    out = 0
    nameless = np.empty((2, 0), np.int64)
    last = np.empty(keys.shape[0], np.int64)  # of slots with rows in this instant
    i = 0
    while i < n:
        now = table[END, i]
        first = i
        while i < n and table[END, i] == now:
            if i + AHEAD < n:
                prefetch(keys, slots[i + AHEAD])
                for word in range(0, words, LINE):
                    prefetch(cells, slots[i + AHEAD] * words + word)
            slot = slots[i]
            filled = rings[slot, R_COUNT]
            oldest = rings[slot, R_OLDEST]
            if filled == events:
                place = oldest
                rings[slot, R_OLDEST] = oldest + 1 if oldest + 1 < events else 0
            else:
                place = oldest + filled
                if place >= events:
                    place -= events
                rings[slot, R_COUNT] = filled + 1
            ring_place = RING + place * step
            rings[slot, ring_place] = table[START, i]
            rings[slot, ring_place + 1] = table[IDENTITY, i]
            for k in range(results):
                rings[slot, ring_place + 2 + k] = values[k, i]
            last[slot] = i
            i += 1
        for r in range(first, i):
            slot = slots[r]
            if last[slot] != r:
                continue
            order = table[ORDER, r]
            filled = rings[slot, R_COUNT]
            oldest = rings[slot, R_OLDEST]
            start = rings[slot, RING + oldest * step]
            for place in range(filled):
                start = min(start, rings[slot, RING + place * step])
            place = out if lineage else make_place(results_table, nameless, out, start, now, order)
            if place < 0:
                place = out
            results_table[START, place] = start
            results_table[END, place] = now
            results_table[ORDER, place] = order
            results_table[IDENTITY, place] = 0
            for k in range(width):
                results_table[FIRST + k, place] = keys[slot, k]
            for k in range(results):
                kind = kinds[k]
                count = 0
                x = 0
                y = 0
                if kind == SUM_INT:
                    # The order does not matter, because a sum of integers is exact.
                    for e in range(filled):
                        value = rings[slot, RING + e * step + 2 + k]
                        if lift(SUM_INT, value) == 1:
                            wrapped = around(x, value)
                            if ((x ^ wrapped) & (value ^ wrapped)) < 0:
                                y += 1 if x > 0 else -1
                            x = wrapped
                            count += 1
                    results_table[FIRST + width + k, place] = outcome(kind, count, x, y)
                    continue
                if kind == SUM_FLOAT or kind == AVG:
                    # In any order where floats are exact: two sums, each of which waits for the one before only.
                    total, lost, fits = 0.0, 0.0, True
                    for e in range(filled):
                        value = rings[slot, RING + e * step + 2 + k]
                        if lift(kind, value) == 1:
                            number = as_float(value)
                            fits = fits and exact(number)
                            larger = total + number
                            added = larger - total
                            lost += (total - (larger - added)) + (number - added)
                            total = larger
                            count += 1
                    if fits:
                        results_table[FIRST + width + k, place] = outcome(kind, count, as_bits(total), as_bits(lost))
                        continue
                    count = 0
                for e in range(filled):
                    row = oldest + e if oldest + e < events else oldest + e - events
                    value = rings[slot, RING + row * step + 2 + k]
                    if kind == DISTINCT:
                        fresh = lift(kind, value)
                        for u in range(e):
                            other = oldest + u if oldest + u < events else oldest + u - events
                            if rings[slot, RING + other * step + 2 + k] == value:
                                fresh = 0
                                break
                        count += fresh
                    else:
                        count, x, y = combine(kind, count, x, y, lift(kind, value), value, 0)
                results_table[FIRST + width + k, place] = outcome(kind, count, x, y)
            if lineage:
                for e in range(filled):
                    place = oldest + e if oldest + e < events else oldest + e - events
                    edges[edge_count, 0] = out
                    edges[edge_count, 1] = rings[slot, RING + place * step + 1]
                    edge_count += 1
            out += 1
    return results_table[:, :out], edges[:edge_count]
