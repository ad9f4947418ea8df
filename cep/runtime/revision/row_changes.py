"""Several changes of rows, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cep.core.relation import Table
from cep.runtime.revision.row_window import without
from cep.runtime.revision.stage_replay import RowChanges


@dataclass(frozen=True, slots=True)
class NetChange:
    """Of a derived event: what was given and is no more, and what is given now."""

    withdrawn: Table
    added: Table


def joined(changes: Iterable[RowChanges]) -> RowChanges:
    """Several changes one after the other, as one."""
    found = list(changes)
    if len(found) == 1:
        return found[0]
    going = np.concatenate([each.going for each in found], axis=1)
    coming = np.concatenate([each.coming for each in found], axis=1)
    return RowChanges(without(going, coming), without(coming, going))
