"""What changes of the rows of an event: which go and which come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cep.core.relation import Table
from cep.runtime.revision.row_window import without


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Of an event: rows that were there and are no more, and rows that are there now."""

    going: Table
    coming: Table


def joined(changes: Iterable[RowChanges]) -> RowChanges:
    """Several changes one after the other, as one."""
    found = list(changes)
    if len(found) == 1:
        return found[0]
    going = np.concatenate([each.going for each in found], axis=1)
    coming = np.concatenate([each.coming for each in found], axis=1)
    return RowChanges(without(going, coming), without(coming, going))
