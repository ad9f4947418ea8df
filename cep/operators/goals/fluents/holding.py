"""The goal of conditions on fluents. It stores the tuples that hold, and tests them at the end of each occurrence.

goal(L, F):  pairs each L = [a, b] with the tuples of F that began before b and have not ended before b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.checkpoint import ALL, PICKED, Ahead, Touched
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    KeyedRows,
    StateKeys,
    Untimed,
)
from cep.operators.goals.converted_keys import WithConvertedKeys, with_converted_keys
from cep.operators.goals.heads import codes_of, others
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.holding import Holding
    from cep.rules.expressions.evaluate import Evaluation

# Columns of a tuple: 1 if it holds, its key, its neighbours in the chain of the key, name of its beginning.
HOLDS, KEY, AFTER, BEFORE_IT, NAME = range(5)
CELLS = 5


@njit()
def _meet(left, right, left_slots, tuples, right_slots, kind_row, negated, state, chains, pairs):  # type: ignore[no-untyped-def]
    """Process both sides in order of arrival. Return rows (left row, tuple that holds, lineage handle), and their
    count.

    - `negated`: True to return instead the left rows for which no tuple holds.
    - `pairs`: a buffer for the result, which is replaced by a larger one if needed.

    At one instant, beginnings and ends that apply at the instant itself come first, then left rows, then beginnings and
    ends that apply just after the instant.
    """
    n, m = left.shape[1], right.shape[1]
    i = j = paired = 0
    while i < n or j < m:
        first = i < n and (j == m or left[END, i] <= right[END, j])
        if first and j < m and left[END, i] == right[END, j]:  # changes just after the instant come later
            first = right[kind_row, j] == BEGINS or right[kind_row, j] == ENDS
        if first:
            slot = left_slots[i]
            p = chains[slot, 0] if slot >= 0 else -1
            if negated:
                if p < 0:
                    if paired == pairs.shape[0]:
                        pairs = grow(pairs, paired + 1)
                    pairs[paired, 0], pairs[paired, 1], pairs[paired, 2] = i, -1, 0
                    paired += 1
            else:
                while p >= 0:
                    if paired == pairs.shape[0]:
                        pairs = grow(pairs, paired + 1)
                    pairs[paired, 0], pairs[paired, 1], pairs[paired, 2] = i, p, state[p, NAME]
                    paired += 1
                    p = state[p, AFTER]
            i += 1
            continue
        p, slot, kind = tuples[j], right_slots[j], right[kind_row, j]
        if slot >= 0 and (kind == BEGINS or kind == BEFORE or kind == BEGINS_AT) and not state[p, HOLDS]:
            state[p, HOLDS], state[p, KEY], state[p, NAME] = 1, slot, right[IDENTITY, j]
            last = chains[slot, 1]
            state[p, AFTER], state[p, BEFORE_IT] = -1, last
            if last >= 0:
                state[last, AFTER] = p
            else:
                chains[slot, 0] = p
            chains[slot, 1] = p
        elif slot >= 0 and (kind == ENDS or kind == ENDS_AT) and state[p, HOLDS]:
            before, after = state[p, BEFORE_IT], state[p, AFTER]
            if before >= 0:
                state[before, AFTER] = after
            else:
                chains[slot, 0] = after
            if after >= 0:
                state[after, BEFORE_IT] = before
            else:
                chains[slot, 1] = before
            state[p, HOLDS] = 0
        j += 1
    return pairs, paired


@njit()
def _touched(tuples, slots, state, chains, places, known):  # type: ignore[no-untyped-def]
    """Find the tuples and keys whose state a step may change. Return the number of tuples and the number of keys.

    The tuples are those that begin or end, their neighbours in the chains, and the last tuples of their keys. `places`
    receives the tuples, at most four per row. `known` receives the keys, at most one per row.
    """
    count = held = 0
    for j in range(tuples.shape[0]):
        p, slot = tuples[j], slots[j]
        places[count] = p
        count += 1
        if slot < 0:
            continue
        known[held] = slot
        held += 1
        for beside in (state[p, AFTER], state[p, BEFORE_IT]) if state[p, HOLDS] else (-1, -1):
            if beside >= 0:
                places[count] = beside
                count += 1
        if chains[slot, 1] >= 0:
            places[count] = chains[slot, 1]
            count += 1
    return count, held


@dataclass(frozen=True, slots=True)
class HoldingSpec:
    """Columns of a condition on a fluent. The right side is the fluent. Key columns of both sides have the same
    representation.

    - `kind`: the column of the right side with the kind of change.
    - `take`: the columns of the right side that are output.
    - `codes`: the columns of the right side that contain pool codes.
    """

    left_width: int
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    right_width: int
    kind: int
    take: tuple[int, ...]
    negated: bool
    codes: tuple[int, ...]


class HoldingGoal(NumberedState, Untimed):
    """The goal of one Holding node. Inputs: the left occurrences, and the beginnings and ends of the fluent."""

    in_time = True

    def __init__(self, spec: HoldingSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.left_key = np.array(spec.left_key, np.int64)
        self.right_key = np.array(spec.right_key, np.int64)
        self.columns = np.array([c for c in range(spec.right_width) if c != spec.kind], np.int64)
        self.ahead = Ahead(self._edges)
        self._begin()

    def _begin(self) -> None:
        self.ahead.known = None
        self.keys = Keys(len(self.spec.right_key))
        self.tuples = Keys(len(self.columns))
        self.state = np.zeros((0, CELLS), np.int64)
        self.chains = np.full((0, 2), -1, np.int64)

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched:
        """See `cep.operators.goals.checkpoint`. A beginning changes the last tuple of its key; an end changes both
        neighbours."""
        _, slots, tuples = self.ahead.look(inputs[1])
        if PICKED * len(tuples) >= len(self.state):
            return {"state": ALL, "chains": ALL}
        places = np.empty(4 * len(tuples), np.int64)
        known = np.empty(len(slots), np.int64)
        count, held = _touched(tuples, slots, self.state, self.chains, places, known)
        return {"state": places[:count], "chains": known[:held]}

    def _edges(self, table: Table) -> tuple[Table, Ints, Ints]:
        """Return the beginnings and ends in order, the key of each row, and the tuple of each row. Make room for new
        tuples."""
        right = in_turn(table, self.spec.kind)
        slots = self.keys.slots(right, self.right_key)
        tuples = self.tuples.slots(right, self.columns, groups=True)
        self.state = filled_room(self.state, self.tuples.count, 0)
        self.chains = filled_room(self.chains, self.keys.count, -1)
        return right, slots, tuples

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        left, spec = contiguous(inputs[0]), self.spec
        right, right_slots, tuples = self.ahead.take(inputs[1])
        left_slots = self.keys.slots(left, self.left_key, insert=False)
        pairs, paired = _meet(
            left, right, left_slots, tuples, right_slots, FIRST + spec.kind, spec.negated, self.state, self.chains,
            np.empty((rows(left), 3), np.int64),
        )  # fmt: skip
        return self._paired(left, pairs[:paired])

    def _paired(self, left: Table, pairs: Ints) -> Table:
        """Return the output rows. `pairs`: rows (left row, tuple, lineage handle) that `_meet` has returned."""
        spec = self.spec
        if not len(pairs):
            return empty(spec.left_width + len(spec.take))
        table: Table = take(left, np.ascontiguousarray(pairs[:, 0]))
        if spec.take:
            places = [int(np.flatnonzero(self.columns == column)[0]) for column in spec.take]
            table = np.concatenate([table, self.tuples.known[pairs[:, 1]][:, places].T])
        if not spec.negated and len(spec.take) + len(spec.right_key) < len(self.columns):
            joined = np.concatenate([pairs[:, [0]].T, table[FIRST + spec.left_width :]])
            first = np.sort(np.unique(joined, axis=1, return_index=True)[1])  # one of several equal rows
            table, pairs = table.take(first, axis=1), pairs[first]
        if self.lineage is not None and not spec.negated:
            parts = table[IDENTITY].copy()
            names = self.lineage.name(table)
            self.lineage.link(names, parts)
            self.lineage.link(names, pairs[:, 2])
            self.lineage.pass_on(names, parts)
        return table

    def _numbers(self) -> int:
        return max(self.tuples.count, self.keys.count)

    # --- state ---

    def _state(self) -> Arrays:
        """Return the tuples that hold, sorted by key. Tuples of one key are in the order in which they began."""
        held = np.flatnonzero(self.state[: self.tuples.count, HOLDS] == 1)
        rank = np.empty(self.tuples.count, np.int64)
        count = 0
        for slot in np.unique(self.state[held, KEY]).tolist():
            p = int(self.chains[slot, 0])
            while p >= 0:
                rank[count] = p
                count, p = count + 1, int(self.state[p, AFTER])
        order = rank[:count]
        keys = self.keys.known[self.state[order, KEY]]
        return {"tuples": self.tuples.known[order], "keys": keys, "names": self.state[order][:, [NAME]]}

    def _tables(self) -> dict[str, StateTable]:
        columns, spec = self.columns.tolist(), self.spec
        codes = tuple(place for place, column in enumerate(columns) if column in spec.codes)
        keys = tuple(place for place, column in enumerate(spec.right_key) if column in spec.codes)
        return {
            "tuples": StateTable(width=len(columns), keyed=tuples_of("tuples", columns, 1), codes=codes),
            "keys": StateTable(width=len(spec.right_key), beside="tuples", codes=keys),
            "names": StateTable(width=1, beside="tuples", handles=(0,)),
        }

    def _become(self, state: Arrays) -> None:
        self._begin()
        count = len(state["tuples"])
        right = np.zeros((FIRST + self.spec.right_width, count), np.int64)
        right[IDENTITY] = state["names"][:, 0]
        right[FIRST + self.columns] = state["tuples"].T
        right[FIRST + self.right_key] = state["keys"].T
        right[FIRST + self.spec.kind] = BEGINS
        self.step((empty(self.spec.left_width), right), Frontier.at(0))

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        order = np.lexsort(state["keys"].T[::-1]) if self.spec.right_key else np.arange(len(state["keys"]))
        known = np.concatenate([state[name] for name in sorted(state)], axis=1)[order]
        return [(self.keys_by_row("tuples", state, keys)[order], known)]

    def codes(self) -> list[Ints]:
        columns = [place for place, column in enumerate(self.columns.tolist()) if column in self.spec.codes]
        return [*(self.tuples.known[:, place] for place in columns), self.keys.known.reshape(-1)]

    def names(self) -> list[Ints]:
        held = self.state[: self.tuples.count, HOLDS] == 1
        return [self.state[: self.tuples.count, NAME][held]]

    @property
    def size(self) -> tuple[int, int]:
        held = int(self.state[: self.tuples.count, HOLDS].sum())
        return held, int(self.state.nbytes + self.chains.nbytes + self.keys.nbytes + self.tuples.nbytes)


def in_turn(edges: Table, kind: int) -> Table:
    """Sort beginnings and ends. At one instant, those that apply at the instant itself come before those that apply
    just after it."""
    edges = contiguous(edges)
    kinds = edges[FIRST + kind]
    at_once = (kinds == BEGINS_AT) | (kinds == ENDS_AT)
    if at_once.any():
        edges = np.ascontiguousarray(edges[:, np.lexsort((~at_once, edges[END]))])
    return edges


def holding_of(node: Holding, builder: GoalBuilder) -> Goal:
    spec, added, types = spec_of(node, builder)
    return widened(HoldingGoal(spec, builder.lineage), added, types)


def spec_of(
    node: Holding, builder: GoalBuilder
) -> tuple[HoldingSpec, Sequence[Sequence[Evaluation]], Sequence[Sequence[str]]]:
    """Return the specification of the goal of a Holding node.

    Also return two lists with one entry per input: the evaluations whose results are appended as key columns, and the
    types of the input's own columns.
    """
    left, right = builder.types(node.left), builder.types(node.right)
    mine, theirs = builder.keys(node.key, left, right)
    left_key, left_added = builder.widened_key(mine, left)
    right_key, right_added = builder.widened_key(theirs, right)
    spec = HoldingSpec(
        len(left) + len(left_added),
        left_key,
        right_key,
        len(right) + len(right_added),
        node.kind,
        node.take,
        node.negated,
        codes_of([*right, *others(theirs, right)]),
    )
    return spec, (left_added, right_added), (left, right)


def widened(goal: HoldingGoal, added: Sequence[Sequence[Evaluation]], types: Sequence[Sequence[str]]) -> Goal:
    """Wrap a goal so that key columns are appended to its inputs. Return the goal itself if no column is needed."""
    if added[0]:
        return NarrowedHolding(goal, added, types, len(types[0]))
    return with_converted_keys(goal, ((), added[1]), types)


class NarrowedHolding(WithConvertedKeys):
    """A wrapper that appends key columns to the left input, and removes them from the middle of the output."""

    def __init__(
        self, goal: HoldingGoal, added: Sequence[Sequence[Evaluation]], types: Sequence[Sequence[str]], width: int
    ) -> None:
        super().__init__(goal, added, types)
        self.from_row = FIRST + width
        self.until_row = FIRST + goal.spec.left_width

    def narrowed(self, table: Table) -> Table:
        return np.delete(table, slice(self.from_row, self.until_row), axis=0)
