"""The state of goals whose occurrences wait in a store (`cep.operators.goals.store`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.operators.goals.contract import Arrays, Ints, KeyedRows, StateKeys
from cep.operators.goals.state_tables import DeclaredState, KeyedBy, StateTable
from cep.operators.goals.store import ARRIVAL, BEGIN, END, HEADER, HOT, NAME, OTHER, SIDE, SLOT

ABSENT = 2
"""The input of a join that must not occur between."""


def stored(
    hot: str, width: int, codes: Sequence[Sequence[int]], key: Sequence[int], least: int, other: str | None = None
) -> dict[str, StateTable]:
    """Declare the tables of a store: times of rows (`hot`), the rest of the rows (`cold`) and the keys that they name.

    `width`: the arguments of a row; `codes`: for each side, its arguments that are pool codes; `key`: the arguments of
    the first side that make the key; `least`: the least slot of a row; `other`: the table of the second key of a row.
    """
    refers = {SLOT: ("keys", least)} | ({} if other is None else {OTHER: (other, -1)})
    keyed = [
        KeyedBy(side, {column: ("cold", HEADER + column) for column in range(width)}) for side in range(len(codes))
    ]
    return {
        hot: StateTable(width=HOT, beside="cold"),
        "cold": StateTable(
            width=HEADER + width,
            keyed=tuple(keyed),
            tag=SIDE,
            refers=refers,
            codes_by_tag=tuple(tuple(HEADER + c for c in each if c < width) for each in codes),
            handles=(NAME,),
            ranges={SIDE: (0, len(codes))},
            order=((hot, END), (hot, BEGIN), ("cold", ARRIVAL)),
        ),
        "keys": StateTable(
            width=len(key),
            dictionary=True,
            codes=tuple(place for place, column in enumerate(key) if column in codes[0]),
        ),
    }


class StoredState(DeclaredState):
    """A state that is a store."""

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """See `cep.operators.goals.contract`. Chains and slots are where rows are, not what they are."""
        own = state["cold"].copy()
        own[:, SLOT], own[:, OTHER] = np.minimum(own[:, SLOT], 0), 0
        hot = state["store" if "store" in state else "hot"]
        found = [(self.numbered("cold", state, keys), np.concatenate([hot[:, [BEGIN, END]], own], axis=1))]
        if "absent_keys" in state:
            slots: Ints = state["absent_cold"][:, SLOT]
            away = np.concatenate([state["absent_hot"][:, [BEGIN, END]], state["absent_keys"][slots]], axis=1)
            found.append((self.numbered("absent_keys", state, keys)[slots], away))
        return found
