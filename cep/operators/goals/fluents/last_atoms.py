"""The goal of windows of tuples. If a window contains `atoms` atoms, each arriving atom removes the oldest.

goal(E, A):  returns each tuple of E, perhaps with its tick, while it is among the last arrivals A
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.evaluation_ticks import WindowTicks
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, ORDER, Table, contiguous, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
)
from cep.operators.goals.fluents.windowed_event import QUEUES, PassingGoal, PassingSpec
from cep.operators.goals.heads import codes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.state_tables import StateTable

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.last_atoms import LastAtoms

HEAD, TAIL, SIZE = range(3)
"""Columns of the array with one row per key: the key's oldest atom, its latest atom, and the number of its atoms."""
NEXT, TUPLE = range(2)
"""Columns of the array with one row per atom: the next atom of its key, and its tuple (-1: not a left occurrence)."""
C_USED, C_FREE = range(2)


@njit()
def _arrived(keys, slots, code, atoms, oldest, of_keys, pool, counts, opening, closing):  # type: ignore[no-untyped-def]
    """Process arriving atoms in order. Return the number of tuples that begin, and of tuples that end.

    - `keys`, `slots`, `code`: the key, the tuple (-1: none) and the time code of each atom.
    - `opening`, `closing`: buffers for rows (code, tuple) that begin or end, at most one each per atom.

    The arrays must have room for all atoms and keys.
    """
    begun = ended = 0
    for i in range(len(keys)):
        key = keys[i]
        row = counts[C_FREE]
        if row >= 0:
            counts[C_FREE] = pool[row, NEXT]
        else:
            row = counts[C_USED]
            counts[C_USED] += 1
        pool[row, NEXT], pool[row, TUPLE] = -1, slots[i]
        if of_keys[key, SIZE] > 0:
            pool[of_keys[key, TAIL], NEXT] = row
        else:
            of_keys[key, HEAD] = row
        of_keys[key, TAIL] = row
        of_keys[key, SIZE] += 1
        if not oldest and slots[i] >= 0:
            opening[begun, 0], opening[begun, 1] = code[i], slots[i]
            begun += 1
        full = of_keys[key, SIZE] == atoms
        if of_keys[key, SIZE] > atoms:
            gone = of_keys[key, HEAD]
            of_keys[key, HEAD] = pool[gone, NEXT]
            of_keys[key, SIZE] -= 1
            if pool[gone, TUPLE] >= 0:
                closing[ended, 0], closing[ended, 1] = code[i], pool[gone, TUPLE]
                ended += 1
            pool[gone, NEXT] = counts[C_FREE]
            counts[C_FREE] = gone
            full = True
        if oldest and full:
            first = pool[of_keys[key, HEAD], TUPLE]
            if first >= 0:
                opening[begun, 0], opening[begun, 1] = code[i], first
                begun += 1
    return begun, ended


@njit()
def _kept(of_keys, count, pool, kept):  # type: ignore[no-untyped-def]
    """Write the atoms that are in windows as rows (key, tuple). Return their count.

    Rows are sorted by key. The atoms of a key are in order of arrival.
    """
    written = 0
    for key in range(count):
        row = of_keys[key, HEAD]
        for _ in range(of_keys[key, SIZE]):
            kept[written, 0], kept[written, 1] = key, pool[row, TUPLE]
            written += 1
            row = pool[row, NEXT]
    return written


class LastAtomsGoal(PassingGoal):
    """The goal of one LastAtoms node.

    `by`: the columns of arrivals that form the key. `key_codes`: the columns among them that contain pool codes.
    """

    def __init__(
        self,
        spec: PassingSpec,
        atoms: int,
        by: tuple[int, ...],
        key_codes: tuple[int, ...],
        window: WindowTicks,
        oldest: bool,
    ) -> None:
        self.atoms, self.oldest, self.window = atoms, oldest, window
        self.by, self.key_codes = np.array(by, np.int64), key_codes
        super().__init__(spec)

    def _clear(self) -> None:
        super()._clear()
        self.keys = Keys(len(self.by))
        self.of_keys = np.zeros((0, 3), np.int64)
        self.pool = np.empty((0, 2), np.int64)
        self.counts = np.array([0, -1], np.int64)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        own, every = (contiguous(table) for table in inputs)
        if rows(every):
            slots = np.full(rows(every), -1)
            ticks = every[END] // self.window.tick
            order = np.argsort(every[ORDER], kind="stable")
            mine = order[np.searchsorted(every[ORDER], own[ORDER], sorter=order)]
            slots[mine] = self._slots(own, ticks[mine])
            opening, closing = self._arrive(
                self.keys.slots(every, self.by, groups=True), slots, self.window.opens(ticks)
            )
            self.passing.put(opening[:, 0], opening[:, 1], True)
            self.passing.put(closing[:, 0], closing[:, 1], False)
        return self._pass_on(frontier)

    def _arrive(self, keys: Ints, slots: Ints, code: Ints) -> tuple[Ints, Ints]:
        self.of_keys = filled_room(self.of_keys, self.keys.count, 0)
        needed = int(self.counts[0]) + len(keys)
        if needed > len(self.pool):
            pool = np.empty((roomy(needed, 2 * len(self.pool)), 2), np.int64)
            pool[: self.counts[0]] = self.pool[: self.counts[0]]
            self.pool = pool
        opening, closing = (np.empty((len(keys), 2), np.int64) for _ in range(2))
        begun, ended = _arrived(
            keys, slots, code, self.atoms, self.oldest, self.of_keys, self.pool, self.counts, opening, closing
        )
        return opening[:begun], closing[:ended]

    def _numbers(self) -> int:
        return max(self.tuples.count, self.keys.count)

    # --- state ---

    def _content(self) -> tuple[Ints, Ints]:
        kept = np.empty((int(self.of_keys[:, SIZE].sum()), 2), np.int64)
        _kept(self.of_keys, self.keys.count, self.pool, kept)
        return kept[:, 0], kept[:, 1]

    def _state(self) -> Arrays:
        keys, slots = self._content()
        present = (slots >= 0)[:, None]
        tuples = np.zeros((len(slots), self.spec.columns), np.int64)
        tuples[present[:, 0]] = self.tuples.known[slots[present[:, 0]]]
        return super()._state() | {"last": np.concatenate([self.keys.known[keys], present, tuples], axis=1)}

    def _tables(self) -> dict[str, StateTable]:
        """Declare the tables of the state. Each row belongs to every key.

        The table `last` has the atoms that are in windows. Its tag is 1 for left occurrences.
        """
        width, spec = len(self.by), self.spec
        own = tuple(width + 1 + column for column in spec.codes)
        last = StateTable(
            width=width + 1 + spec.columns,
            tag=width,
            codes=self.key_codes,
            codes_by_tag=((), own),
            ranges={width: (0, 2)},
        )
        return {name: replace(table, keyed=()) for name, table in super()._tables().items()} | {"last": last}

    def _become(self, state: Arrays) -> None:
        super()._become({name: state[name] for name in ("held", *QUEUES)})
        last, width = state["last"], len(self.by)
        table = np.zeros((FIRST + width, len(last)), np.int64)
        table[FIRST:] = last[:, :width].T
        keys = self.keys.slots(table, np.arange(width), groups=True)
        slots = np.full(len(last), -1)
        present = last[:, width] == 1
        slots[present] = self._named(last[present, width + 1 :])
        self._arrive(keys, slots, np.zeros(len(last), np.int64))

    def codes(self) -> list[Ints]:
        return [*super().codes(), *(self.keys.known[:, column] for column in self.key_codes)]

    @property
    def size(self) -> tuple[int, int]:
        count, weight = super().size
        return count + int(self.of_keys[:, SIZE].sum()), weight + int(self.pool.nbytes + self.of_keys.nbytes)


def last_atoms_of(node: LastAtoms, builder: GoalBuilder) -> Goal:
    types, others = builder.types(node.left), builder.types(node.right)
    codes = codes_of([types[column] for column in node.take])
    window = WindowTicks(node.tick, 0, None)
    spec = PassingSpec(len(types), node.take, node.numbered, codes, window.late)
    key_codes = codes_of([others[column] for column in node.by])
    return LastAtomsGoal(spec, node.atoms, node.by, key_codes, window, node.oldest)
