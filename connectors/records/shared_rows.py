"""Numbering of events when one row may contain several events, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cep.connectors.records.batch import Block

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def share_rows(block: Block, events: Sequence[Bools]) -> tuple[list[Ints], Block]:
    """Number the events in the rows of a block, in the order of the rows.

    `events`: for each event type, a mask of the rows that contain an event of this type. Return the numbers of the
    events of each type, and a block that has one record per event.
    """
    counts: Ints = np.add.reduce([rows.astype(np.int64) for rows in events])
    number = block.first + np.cumsum(counts) - counts
    numbers = []
    for rows in events:
        numbers.append(number[rows])
        number = number + rows
    if (counts == 1).all():
        return numbers, block
    own = np.repeat(np.arange(len(counts)), counts)
    lines = own + block.line if block.lines is None else block.lines[own]
    unmatched = int((counts == 0).sum())
    return numbers, replace(block, count=len(own), lines=lines, rows=own, unmatched=unmatched)
