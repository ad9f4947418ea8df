"""The state that window goals share: one group per key, with its rows in chains, as in `two_stacks`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from cep.core.array_capacity import roomy
from cep.operators.goals.contract import Arrays, Ints
from cep.operators.goals.keys import capacity_for, reindex
from cep.operators.goals.state_tables import DeclaredState, StateTable, tuples_of
from cep.operators.goals.store import room
from cep.operators.goals.windows.two_stacks import G_BACK, G_HEAD, G_TAIL, NAME, NEXT, PREVIOUS, SLOT


class WindowState(DeclaredState):
    """The state that window goals share: groups by key, their pool codes, and their tallies."""

    by: Ints
    by_codes: tuple[int, ...]
    tally_index: Ints
    tallies: Ints

    @abstractmethod
    def _live(self) -> Arrays:
        """Return the current arrays of the state, which may include rows that are no longer needed."""

    def _windows(self, store: StateTable, groups: StateTable) -> dict[str, StateTable]:
        """Declare the tables of windows whose rows are linked in order of arrival."""
        back = dict.fromkeys((NEXT, PREVIOUS), ("store", -1))
        ends = dict.fromkeys((G_HEAD, G_TAIL, G_BACK), ("store", -1))
        return {
            "store": replace(store, owner=SLOT, refers={SLOT: ("keys", 0)} | back, handles=(NAME,)),
            "keys": self._keys(),
            "groups": replace(groups, beside="keys", refers=ends),
        }

    def _keys(self) -> StateTable:
        by = self.by.tolist()
        return StateTable(width=len(by), keyed=tuples_of("keys", by), codes=self.by_codes)

    def codes(self) -> list[Ints]:
        """See `cep.operators.goals.contract`."""
        return [array[:, column] for name, array in self._live().items() for column in self.tables[name].codes]

    def names(self) -> list[Ints]:
        """See `cep.operators.goals.contract`."""
        return [array[:, column] for name, array in self._live().items() for column in self.tables[name].handles]

    def _room_for_tallies(self, count: int, more: int) -> None:
        """Reserve room for `more` distinct values in addition to the `count` existing ones."""
        self.tallies = room(self.tallies, count + more)
        if 2 * (count + more) > len(self.tally_index):
            known = np.ascontiguousarray(self.tallies[:, :2])
            self.tally_index = reindex(known, count, capacity_for(count + more))


def no_tallies() -> tuple[Ints, Ints]:
    """Return an empty index of tallies, and room for rows (group and result, value, count)."""
    return np.full(32, -1, np.int64), np.empty((roomy(0, 16), 3), np.int64)


def more_groups(groups: Ints, slots: int) -> Ints:
    """Return the groups, extended by empty ones to at least `slots`."""
    if groups.shape[0] >= slots:
        return groups
    larger = np.zeros((roomy(slots, max(16, 2 * groups.shape[0])), groups.shape[1]), np.int64)
    larger[:, : G_BACK + 1] = -1
    larger[: groups.shape[0]] = groups
    return larger
