"""The state of a goal of windows: a group a key, and where rows are kept, chains of them, as `two_stacks` has them."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import numpy as np
import pyarrow as pa

from cep.core.room import roomy
from cep.operators.goals.contract import Arrays, Bools, Ints, StateKeys, Translation, from_arrow, to_arrow
from cep.operators.goals.keyed_state import KeyedState, Parts
from cep.operators.goals.keys import capacity_for, reindex
from cep.operators.goals.store import room
from cep.operators.goals.windows.two_stacks import G_BACK, G_HEAD, G_TAIL, NEXT, PREVIOUS, SLOT


class WindowState(KeyedState):
    """What the goals of windows have in common: their state by key, its codes, and their tallies."""

    by: Ints
    tally_index: Ints
    tallies: Ints

    @abstractmethod
    def _coded_columns(self) -> dict[str, list[int]]:
        """Which columns of the state's arrays hold pool codes."""

    @abstractmethod
    def _chosen(self, state: Arrays, groups: Bools) -> Arrays:
        """The state of these groups alone."""

    @abstractmethod
    def codes(self) -> list[Ints]:
        """See `cep.operators.goals.contract`."""

    def coded(self) -> list[Ints]:
        return self.codes()

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        arrays = from_arrow(state)
        for name, columns in self._coded_columns().items():
            for column in columns:
                arrays[name][:, column] = codes(arrays[name][:, column])
        return to_arrow(arrays)

    def _taken_apart(self, state: Arrays, keys: StateKeys) -> Parts:
        places = keys.columns[0]
        by = None if places is None else tuple(self.by.tolist().index(column) for column in places)
        going = StateKeys((by,), keys.tests).going(0, state["keys"])
        return Parts.chosen(partial(self._chosen, state), keys, 0, going)

    def _put_together(self, one: Arrays, other: Arrays) -> Arrays:
        """Two states that have no group in common as one."""
        made = {name: np.concatenate([one[name], other[name]]) for name in one}
        if "store" in one:
            before, groups = len(one["store"]), len(one["keys"])
            store, more = made["store"][before:], made["groups"][groups:]
            store[:, SLOT] += groups
            for array, cells in ((store, (NEXT, PREVIOUS)), (more, (G_HEAD, G_TAIL, G_BACK))):
                for cell in cells:
                    array[array[:, cell] >= 0, cell] += before
        return made

    def _room_for_tallies(self, count: int, more: int) -> None:
        """Room for so many more distinct values than the `count` that there are."""
        self.tallies = room(self.tallies, count + more)
        if 2 * (count + more) > len(self.tally_index):
            known = np.ascontiguousarray(self.tallies[:, :2])
            self.tally_index = reindex(known, count, capacity_for(count + more))


def no_tallies() -> tuple[Ints, Ints]:
    """The index of tallies, and room for them: (group and result, value, how often)."""
    return np.full(32, -1, np.int64), np.empty((roomy(0, 16), 3), np.int64)


def more_groups(groups: Ints, slots: int) -> Ints:
    """The groups, and as many new ones with nothing in their windows as make so many."""
    if groups.shape[0] >= slots:
        return groups
    larger = np.zeros((roomy(slots, max(16, 2 * groups.shape[0])), groups.shape[1]), np.int64)
    larger[:, : G_BACK + 1] = -1
    larger[: groups.shape[0]] = groups
    return larger
