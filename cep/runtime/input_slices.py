"""Sorted inputs in slices, each of which a machine steps in one pass over its goals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cep.core.relation import END, Table, rows, slice_until

# Rows a slice: small enough that what waits and what arrives stay in the processor's cache, and enough that a hundred
# rules, each of which looks at what waits in each slice, take twice as many at once.
SLICE = 131_072


def slices(inputs: Mapping[str, Table], watermark: int) -> list[tuple[dict[str, Table], int]]:
    """Sorted inputs cut at instants into slices of about SLICE rows, each with its watermark."""
    total = sum(rows(table) for table in inputs.values())
    if total <= 2 * SLICE:
        return [(dict(inputs), watermark)]
    largest = max(inputs.values(), key=rows)
    stride = max(1, rows(largest) * SLICE // total)
    cuts = np.unique(largest[END, stride - 1 :: stride])
    made: list[tuple[dict[str, Table], int]] = []
    done = dict.fromkeys(inputs, 0)
    for cut in [*(int(c) for c in cuts if c < watermark), watermark]:
        piece: dict[str, Table] = {}
        for name, table in inputs.items():
            stop = rows(table) if cut == watermark else slice_until(table, cut)
            piece[name] = table[:, done[name] : stop]
            done[name] = stop
        made.append((piece, cut))
    return made
