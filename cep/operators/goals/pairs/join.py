"""The goal of joins: SEQ and the other interval relations, and NOT within a SEQ, under every policy.

goal(L, R):  L is stored under its join key; when R arrives, the goal finds the partners of R and outputs each pair
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Self

import numpy as np

from cep.core import interval_relations
from cep.core.array_capacity import roomy
from cep.core.relation import END, FIRST, Table, contiguous, empty, narrowed, rows, slice_until
from cep.core.time import Frontier
from cep.operators.goals.arrival import order_of_arrival, take
from cep.operators.goals.checkpoint import ALL, Checkpoint, Touched
from cep.operators.goals.contract import (
    Arrays,
    Ints,
    Untimed,
    WaitingRows,
)
from cep.operators.goals.in_family import InFamily
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage, first_of_each
from cep.operators.goals.pairs import join_family, pairing
from cep.operators.goals.pairs.bytecode import stack_cells
from cep.operators.goals.pairs.found_pairs import assemble, consume, latest
from cep.operators.goals.pairs.inequality_index import no_index
from cep.operators.goals.pairs.join_spec import JoinSpec
from cep.operators.goals.pairs.pairing import SideRows, still_absent
from cep.operators.goals.pairs.rows_by_key import SharedRows, are_few, near
from cep.operators.goals.state_tables import StateTable, tuples_of
from cep.operators.goals.store import (
    ABSENT,
    BEGIN,
    FOREVER,
    GONE,
    HEADER,
    HOT,
    NAME,
    NEXT,
    SIDE,
    SLOT,
    StoredState,
    chained,
    more_chains,
    new_store,
    relink,
    renumber,
    room,
    shrunk,
    stored,
    tidied,
    waiting_rows,
)

NOTHING: Ints = np.empty(0, np.int64)
NO_CODE: Ints = np.empty((0, 2), np.int64)
CHUNK = 4096


class JoinGoal(StoredState, Untimed, InFamily):
    in_time = True

    def __init__(
        self,
        spec: JoinSpec,
        lineage: Lineage | None = None,
        shared: SharedRows | None = None,
        once: Sequence[bool] = (),
    ) -> None:
        """Create the goal.

        `shared`: row caches that all goals share. If it is None, the goal has its own. `once`: for each input, True if
        the goal needs only the first of equal occurrences.
        """
        self.spec = spec
        self.lineage = lineage
        self.shared = shared or SharedRows()
        self.within = FOREVER if spec.within is None else spec.within
        self.external = spec.policy == "chronological" and spec.test is not None and spec.stack is None
        relation = interval_relations.relation_named(spec.relation, spec.gap)
        self.keep_right = not relation.right_completes
        recent = spec.policy == "recent" and relation == interval_relations.RELATIONS["SEQ"]
        self.latest = recent and not spec.absent
        # True if every later right side that matches an older left side prefers the newer one.
        supersedes = recent and spec.point and spec.absence <= pairing.ABSENT_RIGHT
        # How long after its end a waiting row can be needed.
        self.reach_left = 0 if relation.left_waits_an_instant else relation.reach if spec.point else FOREVER
        self.reach_right = 0 if relation.right_waits_an_instant else FOREVER
        self.numbers = spec.numbers(self.external, self.keep_right, supersedes, self.reach_left, self.reach_right)
        self.left_key = np.array(spec.left_key, np.int64)
        self.right_key = np.array(spec.right_key, np.int64)
        self.absent_key = np.array(spec.absent_key, np.int64)
        self.absent_from = np.array(spec.absent_from, np.int64).reshape(len(spec.absent_from), 2)
        self.take_left = np.array(spec.take_left, np.int64)
        self.take_right = np.array(spec.take_right, np.int64)
        self.code, self.literals = (NO_CODE, NOTHING) if spec.stack is None else spec.stack
        if spec.policy != "chronological":
            self.code, self.literals = NO_CODE, NOTHING
        # The head of a recursive rule, which derives left sides (`cep.operators.goals.pairs.linear_recursion`).
        self.feeds = False
        self.head, self.head_literals, self.head_ends = NO_CODE, NOTHING, NOTHING
        self.hot, self.cold = new_store(max(spec.left_width, spec.right_width if self.keep_right else 0))
        self.absent_hot, self.absent_cold = new_store(0)
        self.count = self.absent_count = 0
        self.keys, self.absent_keys = Keys(len(spec.left_key)), Keys(len(spec.absent_key))
        self.chains = np.full((roomy(0, 16), 4), -1, np.int64)
        self.absent_chains = np.full((roomy(0, 16), 2), -1, np.int64)
        self.index, self.nodes = no_index(len(spec.orders)), 0
        self.watched = 1024
        self.once = once
        widths = max(spec.left_width, spec.right_width) + 1, max(spec.left_width, 1)
        cells = (*widths, stack_cells(self.code), len(spec.absent_key))
        self.scratch = tuple(np.empty(n, np.int64) for n in cells)

    def shape(self) -> Hashable:
        return None if self.spec.absent or self.lineage is not None else (self.spec, tuple(self.once))

    def united(self, members: Sequence[Self]) -> Self:
        return type(self)(self.spec.of_family(), None, self.shared, self.once)

    def gather(self, members: Sequence[Self]) -> None:
        join_family.gathered(self, members)

    def divide(self, members: Sequence[Self]) -> None:
        join_family.divided(self, members)

    def sizes(self, members: Sequence[Self]) -> Sequence[tuple[int, int]]:
        return join_family.sizes(self, members)

    def touched(self, inputs: Sequence[Table], frontier: Frontier) -> Touched | None:
        """See `cep.operators.goals.checkpoint`. A step also changes stored rows that have the key of an input row."""
        if self.external and rows(inputs[0]) + rows(inputs[1]) > CHUNK:
            return None  # rows move
        left, right, *others = map(contiguous, inputs)
        slots = _known(*self._slots(left, right))
        touched: Touched = {"count": ALL, "hot": chained(self.hot, self.chains, slots), "chains": slots}
        if not self.spec.absent:
            return touched
        away = _known(self.absent_keys.slots(others[0], self.absent_key))
        self.absent_chains = more_chains(self.absent_chains, self.absent_keys.count)
        rows_away = chained(self.absent_hot, self.absent_chains, away)
        return {**touched, "absent_count": ALL, "absent_hot": rows_away, "absent_chains": away}

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """Process the new rows of the left and the right input, and of the negated input if there is one."""
        if self.simple and not self.count and not rows(inputs[0]):
            return empty(len(self.take_left) + len(self.take_right))  # nothing waits for the right side
        if any(self.once):
            inputs = first_of_each(inputs, self.once, self.lineage)
        left, right, *others = self._sides(inputs)
        absent = others[0] if self.spec.absent else empty(0)
        width = len(self.spec.take_left) + len(self.spec.take_right)
        if not rows(left) and not rows(right) and not rows(absent):
            return empty(width)
        if self.external and rows(left) + rows(right) > CHUNK:
            return self._in_chunks(left, right, absent)
        if self.latest:
            table, names = self._latest(left, right)
            if not rows(table):
                return empty(width)
        else:
            pairs = self._pairs(left, right, absent)
            if self.external:
                pairs = self._consumed(pairs, right)
            elif len(pairs) == 0:
                return empty(width)
            table, names = self._assembled(pairs, right, True)
        if self.spec.test is not None and not self.external and (self.spec.policy != "chronological"):
            keep = self.spec.test(table)
            if not keep.all():
                table, names = self._picked(table, names, np.flatnonzero(keep))
        self._link(table, names)
        return table

    @property
    def simple(self) -> bool:
        """Return True if the goal stores only left occurrences, so every pair is found when its right side arrives."""
        return not (self.keep_right or self.spec.absent or self.feeds)

    def _sides(self, inputs: Sequence[Table]) -> Sequence[Table]:
        """Return the inputs as contiguous arrays.

        If the goal stores few left occurrences, drop the right occurrences that cannot find a partner among them.
        """
        if not self.simple or not len(self.left_key) or not are_few(self.count + rows(inputs[0]), inputs[1]):
            return [contiguous(table) for table in inputs]
        left, reach = contiguous(inputs[0]), min(self.within, self.reach_left)
        slots, waiting = self.keys.slots(left, self.left_key), (self.hot, self.cold, self.count)
        return left, near(self.shared, inputs[1], self.right_key, self.keys, waiting, left, slots, reach)

    def _link(self, table: Table, names: Ints) -> None:
        if self.lineage is not None:
            wholes = self.lineage.name(table)
            self.lineage.link(wholes, names[0])
            self.lineage.link(wholes, names[1])

    def _pairs(self, left: Table, right: Table, absent: Table) -> Ints:
        left_slots, right_slots = self._slots(left, right)
        kind = int(self.numbers[pairing.S_ABSENCE])
        absent_of = [NOTHING, NOTHING, NOTHING]
        if kind != pairing.NO_ABSENCE:
            absent_of[2] = self.absent_keys.slots(absent, self.absent_key)
            sides = (pairing.ABSENT_LEFT,), (pairing.ABSENT_COMMON, pairing.ABSENT_RIGHT)
            for side, table in enumerate((left, right)):
                if kind in sides[side]:
                    columns = np.array([self._column_on(side, *place) for place in self.spec.absent_from], np.int64)
                    absent_of[side] = self.absent_keys.slots(table, columns)
            self.absent_chains = more_chains(self.absent_chains, self.absent_keys.count)
            needed = self.absent_count + rows(absent)
            self.absent_hot, self.absent_cold = room(self.absent_hot, needed), room(self.absent_cold, needed)
        return self._paired(
            SideRows(left, left_slots, absent_of[0]),
            SideRows(right, right_slots, absent_of[1]),
            SideRows(absent, absent_of[2], NOTHING),
        )

    def _paired(self, left: SideRows, right: SideRows, absent: SideRows) -> Ints:
        """Return the pairs that the kernel finds. If an array is too small, call the kernel again with a larger one."""
        arriving = rows(left.table) + rows(right.table)
        pairs = np.empty((roomy(1, arriving + 16), 4), np.int64)
        self._make_room(roomy(1, 1 + rows(left.table) + (rows(right.table) if self.keep_right or self.feeds else 0)))
        state = np.zeros(pairing.STATE, np.int64)
        state[pairing.A_RESUME] = -1
        state[pairing.A_COUNT], state[pairing.A_ABSENT] = self.count, self.absent_count
        state[pairing.A_NODES] = self.nodes
        if self.spec.orders:
            self.index = self.index._replace(roots=more_chains(self.index.roots, self.keys.count))
        current, new, stack, key = self.scratch
        while not pairing.pair(
            self.numbers,
            tuple(left),
            tuple(right),
            tuple(absent),
            (self.hot, self.cold, self.chains),
            (self.absent_hot, self.absent_cold, self.absent_chains),
            (self.absent_from, self.absent_keys.index, self.absent_keys.table, key),
            tuple(self.index),
            (self.code, self.literals, stack, current),
            (self.head, self.head_literals, self.head_ends, new),
            pairs,
            state,
        ):
            self.count = int(state[pairing.A_COUNT])
            pairs = room(pairs, int(state[pairing.A_MADE]) + 1)
            self._make_room(roomy(1, len(pairs)) if self.feeds else 1)
            if state[pairing.A_LACKING]:
                nodes = self.index.nodes
                self.index = self.index._replace(nodes=room(nodes, roomy(len(nodes) + 16, 2 * len(nodes) + 256)))
        self.nodes = int(state[pairing.A_NODES])
        self.count, self.absent_count = int(state[pairing.A_COUNT]), int(state[pairing.A_ABSENT])
        joined: Ints = pairs[: state[pairing.A_MADE]]
        return joined

    def _slots(self, left: Table, right: Table) -> tuple[Ints, Ints]:
        slots = self.keys.slots(left, self.left_key), self.keys.slots(right, self.right_key, insert=self.keep_right)
        self.chains = more_chains(self.chains, self.keys.count)
        return slots

    def _latest(self, left: Table, right: Table) -> tuple[Table, Ints]:
        """Find the pairs under the policy `recent`. The kernel is simpler than that of `_paired`, but needs an array
        that has room for all results.

        Return the pairs as a table and, if there is lineage, the handles of both sides.
        """
        left_slots, right_slots = self._slots(left, right)
        self._make_room(rows(left))
        state = np.zeros(pairing.STATE, np.int64)
        state[pairing.A_COUNT] = self.count
        table = np.empty((FIRST + len(self.take_left) + len(self.take_right), rows(right)), np.int64)
        names = np.empty((2, 0 if self.lineage is None else rows(right)), np.int64)
        latest(
            self.numbers, left, right, left_slots, right_slots, self.chains, self.hot, self.cold,
            self.take_left, self.take_right, table, names, state,
        )  # fmt: skip
        self.count, paired = int(state[pairing.A_COUNT]), int(state[pairing.A_MADE])
        if paired < rows(right):
            table, names = narrowed(table, paired), names if self.lineage is None else narrowed(names, paired)
        if state[pairing.A_IN_ORDER]:
            return table, names
        return self._picked(table, names, order_of_arrival(table))

    def _make_room(self, more: int) -> None:
        self.hot, self.cold = room(self.hot, self.count + more), room(self.cold, self.count + more)

    def _column_on(self, side: int, known: int, column: int) -> int:
        if known == side:
            return column
        here, other_key = (self.spec.left_key, self.spec.right_key)[:: 1 if side == 0 else -1]
        return here[other_key.index(column)]

    def _assembled(self, pairs: Ints, right: Table, sorts: bool) -> tuple[Table, Ints]:
        """Build a table from the pairs that a kernel found. Also return the handles of both sides, if there is lineage.

        `sorts`: True to sort the table by arrival.
        """
        n = len(pairs)
        table = np.empty((FIRST + len(self.take_left) + len(self.take_right), n), np.int64)
        names = np.empty((2, 0 if self.lineage is None else n), np.int64)
        in_order = assemble(
            pairs, self.hot, self.cold, right, self.keep_right,
            self.take_left, self.take_right, sorts, np.empty(n, np.int64), table, names,
        )  # fmt: skip
        if sorts and not in_order:
            return self._picked(table, names, order_of_arrival(table))
        return table, names

    def _picked(self, table: Table, names: Ints, index: Ints) -> tuple[Table, Ints]:
        return take(table, index), names if self.lineage is None else take(names, index)

    def _consumed(self, pairs: Ints, right: Table) -> Ints:
        """Choose pairs under the policy `chronological`, if the kernel cannot test the conditions.

        `pairs`: all candidate pairs. Their conditions are tested before any pair is chosen.
        """
        assert self.spec.test is not None, "an outside condition has a test"
        table, _ = self._assembled(pairs, right, False)
        taken = consume(
            pairs, self.spec.test(table), int(self.numbers[pairing.S_TIE]),
            self.spec.by[0], self.spec.by[1], int(self.spec.by_float), self.hot, self.cold,
            self.keep_right, self.chains,
        )  # fmt: skip
        chosen: Ints = pairs[taken]
        return chosen

    def _in_chunks(self, left: Table, right: Table, absent: Table) -> Table:
        """Process the inputs in slices of complete instants, to limit the number of candidate pairs in memory."""
        ends = np.sort(np.concatenate([left[END], right[END]]), kind="stable")  # two runs
        outputs = []
        done = [0, 0, 0]
        until: list[int] = [int(e) for e in ends[CHUNK - 1 :: CHUNK]]
        if not until or until[-1] != int(ends[-1]):
            until.append(int(ends[-1]))
        for number, end in enumerate(until):
            stop = [slice_until(t, end) for t in (left, right, absent)]
            if number == len(until) - 1:
                stop[2] = rows(absent)
            pieces = [contiguous(t[:, a:b]) for t, a, b in zip((left, right, absent), done, stop, strict=True)]
            done = stop
            pairs = self._consumed(self._pairs(*pieces), pieces[1])
            table, names = self._assembled(pairs, pieces[1], True)
            self._link(table, names)
            outputs.append(table)
            self._compact(end)
        return np.concatenate(outputs, axis=1)

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """See `cep.operators.goals.contract`. Left occurrences that the negated event has followed are left out."""
        hot, cold = self.hot[: self.count], self.cold[: self.count]
        reach = self.reach_left if side == 0 else self.reach_right
        waiting, own = waiting_rows(hot, cold, side, width, self.within, reach, watermark)
        known = self.spec.absence in (pairing.ABSENT_COMMON, pairing.ABSENT_LEFT)
        if side == 1 or not self.spec.point or not known or not self.absent_count:
            return waiting
        columns = np.array([self._column_on(0, *place) for place in self.spec.absent_from], np.int64)
        table = np.zeros((FIRST + self.spec.left_width, len(own)), np.int64)
        table[FIRST:] = cold[own, HEADER : HEADER + self.spec.left_width].T
        slots = self.absent_keys.slots(table, columns, insert=False)
        present = slots >= 0
        last = np.full(len(own), -1, np.int64)
        last[present] = self.absent_chains[slots[present], 1]
        present = last >= 0
        over = np.zeros(len(own), np.bool_)
        over[present] = self.absent_hot[last[present], BEGIN] > waiting.end[present]
        return waiting.taken(np.flatnonzero(~over))

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        if wholly or self.count + self.absent_count > self.watched:
            self._compact(frontier.watermark)
            self.watched = max(1024, 2 * (self.count + self.absent_count))

    def _compact(self, watermark: int) -> None:
        self.count = tidied(
            self.hot, self.cold, self.chains, self.count, self.within, self.reach_left, self.reach_right,
            watermark, self._in_order(),
        )  # fmt: skip
        self.hot, self.cold = shrunk(self.hot, self.count), shrunk(self.cold, self.count)
        if self.keys.count > self.count:
            self.keys = renumber(self.cold, self.count, self.keys)
            self.chains = np.full((roomy(self.keys.count, 16), 4), -1, np.int64)
            relink(self.hot, self.cold, self.count, self.chains, self._in_order())
        self._drop_index()
        if self.spec.absent:
            self._compact_absent(watermark)

    def _drop_index(self) -> None:
        """Drop the search trees, because stored rows have got other numbers. A long search rebuilds them."""
        self.index.roots[:] = -1
        self.nodes = 0

    def take_back(self, to: Checkpoint) -> None:
        super().take_back(to)
        self._drop_index()

    def _in_order(self) -> bool:
        return True

    def _compact_absent(self, watermark: int) -> None:
        store = self.absent_hot, self.absent_cold, self.absent_count, self.absent_keys
        kept = still_absent(*store, self.cold[: self.count], self.within, watermark)
        self.absent_hot, self.absent_cold, self.absent_count, self.absent_keys, self.absent_chains = kept

    def _state(self) -> Arrays:
        self._compact(-FOREVER)
        return self._needed()

    def _needed(self) -> Arrays:
        cold = self.cold[: self.count]
        for side, width in enumerate((self.spec.left_width, self.spec.right_width)):
            if HEADER + width < cold.shape[1]:  # clear the unused cells of the narrower side
                cold[cold[:, SIDE] == side, HEADER + width :] = 0
        return {
            "hot": self.hot[: self.count],
            "cold": cold,
            "absent_hot": self.absent_hot[: self.absent_count],
            "absent_cold": self.absent_cold[: self.absent_count],
            "keys": self.keys.known,
            "absent_keys": self.absent_keys.known,
        }

    def _tables(self) -> dict[str, StateTable]:
        spec, width = self.spec, len(self.spec.absent_key)
        codes = (spec.left_codes, spec.right_codes)
        away = tuple(place for place, (side, column) in enumerate(spec.absent_from) if column in codes[side])
        own = tuples_of("absent_keys", range(width), ABSENT)
        return stored("hot", self.cold.shape[1] - HEADER, codes, spec.left_key, 0, "absent_keys") | {
            "absent_hot": StateTable(width=HOT, beside="absent_cold"),
            "absent_cold": StateTable(
                width=HEADER,
                owner=SLOT,
                refers={SLOT: ("absent_keys", 0)},
                ranges={SIDE: (0, 1)},
                order=(("absent_hot", END),),  # starts are the latest of their key so far, so this keeps the order
            ),
            "absent_keys": StateTable(width=width, dictionary=True, keyed=own, codes=away),
        }

    def _become(self, state: Arrays) -> None:
        self.hot, self.cold, self.count = state["hot"], state["cold"], len(state["hot"])
        self.absent_hot, self.absent_cold = state["absent_hot"], state["absent_cold"]
        self.absent_count = len(self.absent_hot)
        self.keys.become(state["keys"], len(state["keys"]))
        self.absent_keys.become(state["absent_keys"], len(state["absent_keys"]))
        self.chains = more_chains(self.chains, self.keys.count)
        self._compact(-FOREVER)

    def codes(self) -> list[Ints]:
        # Any number in a key may be a pool code. Keeping unused codes does no harm.
        held = [self.keys.known.reshape(-1), self.absent_keys.known.reshape(-1)]
        cold = self.cold[: self.count]
        for side, columns in enumerate((self.spec.left_codes, self.spec.right_codes)):
            held += [cold[cold[:, SIDE] == side, HEADER + c] for c in columns if side == 0 or self.keep_right]
        return held

    def names(self) -> list[Ints]:
        return [self.cold[: self.count, NAME]]

    @property
    def size(self) -> tuple[int, int]:
        count = int((self.hot[: self.count, NEXT] != GONE).sum())
        count += int((self.absent_hot[: self.absent_count, NEXT] != GONE).sum())
        used = self.count * (HOT + self.cold.shape[1]) + self.absent_count * (HOT + HEADER)
        used += self.keys.count * (6 + len(self.spec.left_key))
        used += self.absent_keys.count * (4 + len(self.spec.absent_key))
        return count, 8 * used


def _known(*slots: Ints) -> Ints:
    every = np.unique(np.concatenate(slots))
    return every[np.searchsorted(every, 0) :]
