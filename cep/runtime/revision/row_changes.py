"""Changes of rows, by their time, and several one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cep.core.relation import END, Table, contiguous
from cep.operators.goals.arrival import by_arrival
from cep.runtime.revision.row_window import without
from cep.runtime.revision.stage_replay import RowChanges


@dataclass(frozen=True, slots=True)
class NetChange:
    """Of a derived event: what was given and is no more, and what is given now."""

    withdrawn: Table
    added: Table


def between(changes: RowChanges, after: int, until: int) -> RowChanges:
    """Those rows that end after `after` and at or before `until`, sorted by arrival."""
    found = []
    for table in (changes.going, changes.coming):
        found.append(by_arrival(contiguous(table[:, (table[END] > after) & (table[END] <= until)])))
    return RowChanges(*found)


def joined(changes: Iterable[RowChanges]) -> RowChanges:
    """Several changes one after the other, as one."""
    found = list(changes)
    going = np.concatenate([each.going for each in found], axis=1)
    coming = np.concatenate([each.coming for each in found], axis=1)
    return RowChanges(without(going, coming), without(coming, going))
