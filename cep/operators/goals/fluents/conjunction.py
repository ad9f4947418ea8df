"""The goal of conjunctions of formulas. It returns pairs of tuples that hold together. Under NOT, it returns the left
tuples while no right tuple with the same key holds.

goal(P, Q):  stores the tuples that hold, by side and join key; pairs each change with tuples of the other side
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import BEGINS
from cep.core.hashtable import MISSING, NAN
from cep.core.interval_sets import Intervals, coalesce, subtract
from cep.core.kernels import njit
from cep.core.prefetch import prefetch
from cep.core.relation import END, FIRST, START, Table, concat, empty, rows
from cep.core.stable_order import phased_order
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import Arrays, Goal, Ints, WaitingRows
from cep.operators.goals.converted_keys import RecursiveWithConvertedKeys
from cep.operators.goals.fluents.changes import PendingChanges, Rows, in_order, put_changes, waiting_table
from cep.operators.goals.heads import codes_of, others
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.conjunction import Conjunction

# Columns of a tuple: 1 if it holds, its neighbours in the chain of its key, and a number by order of beginning.
HOLDS, AFTER, BEFORE, TURN = range(4)
CELLS = 4
# Columns of a key: the first and the last tuple that holds.
HEAD, TAIL = range(2)


@njit()
def _lose(  # type: ignore[no-untyped-def]
    count, tuples, keys, negated, left, right, left_chains, right_chains, left_gone, right_gone, pairs
):
    """Let tuples end in a stretch. Return the pairs that end with them, each pair once, and the number of pairs.

    - `tuples`: the tuples that end, or -1 for a tuple that is not stored. The first `count` belong to the left side.
    - `left_gone`, `right_gone`: a mark for each tuple that has ended in this stretch.
    - `pairs`: a buffer for rows (left tuple, right tuple), which is replaced by a larger one if needed.
    """
    paired = 0
    for i in range(len(tuples)):
        p, key = tuples[i], keys[i]
        own, gone, other, others_gone, facing = right, right_gone, left, left_gone, left_chains
        if i < count:
            own, gone, other, others_gone, facing = left, left_gone, right, right_gone, right_chains
        if p < 0 or not own[p, HOLDS] or gone[p]:
            continue
        gone[p] = 1
        if negated:
            if key < 0 or facing[key, HEAD] < 0:
                if paired == pairs.shape[0]:
                    pairs = grow(pairs, paired + 1)
                pairs[paired, 0], pairs[paired, 1] = p, -1
                paired += 1
            continue
        if key < 0:
            continue
        q = facing[key, HEAD]
        while q >= 0:
            if not others_gone[q]:
                if paired == pairs.shape[0]:
                    pairs = grow(pairs, paired + 1)
                pairs[paired, 0], pairs[paired, 1] = (p, q) if i < count else (q, p)
                paired += 1
            q = other[q, AFTER]
    return pairs, paired


@njit()
def _facing(keys, chains, state, gone, pairs):  # type: ignore[no-untyped-def]
    """Pair each key with the tuples of the other side that have this key and hold throughout the stretch. Return the
    pairs (index into `keys`, tuple) and their count.

    `gone`: a mark for each tuple that ends in the stretch. `pairs`: a buffer, which is enlarged if needed.
    """
    paired = 0
    for i in range(len(keys)):
        if keys[i] < 0:
            continue
        q = chains[keys[i], HEAD]
        while q >= 0:
            if not gone[q]:
                if paired == pairs.shape[0]:
                    pairs = grow(pairs, paired + 1)
                pairs[paired, 0], pairs[paired, 1] = i, q
                paired += 1
            q = state[q, AFTER]
    return pairs, paired


@dataclass(frozen=True, slots=True)
class Side:
    """The columns of one side of a conjunction.

    - `width`: the number of columns. `kind`: the column with the kind of change.
    - `key`: the columns of the join key, in a representation that both sides share.
    - `codes`: the columns of pool codes. `take`: the columns that are output.
    """

    width: int
    kind: int
    key: tuple[int, ...]
    codes: tuple[int, ...]
    take: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns except `kind`. They are the values of the tuple that changes."""
        return tuple(column for column in range(self.width) if column != self.kind)


@dataclass(frozen=True, slots=True)
class ConjunctionSpec:
    """A conjunction of two inputs.

    `lates`: the delay of each input in microseconds. `negated`: True for NOT. The results are then left tuples, while
    no right tuple with the same key holds.
    """

    left: Side
    right: Side
    negated: bool
    lates: tuple[int, int]


class ConjunctionStretches(InRounds):
    """Methods that evaluate a conjunction over a stretch, in rounds.

    They read the goal's state. For each side, `chains` contains the tuples that hold, by the number of their key in
    `keys`.
    """

    spec: ConjunctionSpec
    sides: tuple[Side, Side]
    columns: list[Ints]
    key: list[Ints]
    keys: Keys
    tuples: list[Keys]
    state: list[Ints]
    chains: list[Ints]
    _reserve: Callable[[], None]

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.stretch, self.goes_on = (first, last), goes_on
        if goes_on:
            self._reserve()
            self.gone = [np.zeros(len(state), np.uint8) for state in self.state]
        self.met_by = Keys(len(self.spec.left.key))
        self.met = [Rows(side.width) for side in self.sides]

    def shrink(self, inputs: Sequence[Table]) -> Table:
        tuples = [self.tuples[n].slots(inputs[n], self.columns[n], insert=False, groups=True) for n in range(2)]
        keys = [self.keys.slots(inputs[n], self.key[n], insert=False) for n in range(2)]
        pairs, paired = _lose(
            rows(inputs[0]), np.concatenate(tuples), np.concatenate(keys), self.spec.negated, *self.state, *self.chains,
            *self.gone, np.empty((rows(inputs[0]) + rows(inputs[1]), 2), np.int64),
        )  # fmt: skip
        places = np.arange(paired)
        start, end = (np.full(paired, code) for code in self.stretch)
        right = empty(self.sides[1].width) if self.spec.negated else self._known(1, pairs[:paired, 1])
        return self._pairs(self._known(0, pairs[:paired, 0]), places, right, places[: rows(right)], start, end)

    def _known(self, side: int, tuples: Ints) -> Table:
        table = np.zeros((FIRST + self.sides[side].width, len(tuples)), np.int64)
        table[START], table[END] = self.stretch[0], self.stretch[1]
        table[FIRST + self.columns[side]] = self.tuples[side].known[tuples].T
        return table

    def _on(self, side: int, table: Table) -> tuple[Ints, Table]:
        """Pair the rows in `table`, which belong to one side, with the tuples of the other side, whose number is
        `side`.

        Only tuples that continue through the stretch are paired. Return the number of each pair's row, and a table with
        each pair's tuple.
        """
        keys = self.keys.slots(table, self.key[1 - side], insert=False)
        pairs, paired = _facing(
            keys, self.chains[side], self.state[side], self.gone[side], np.empty((max(1, len(keys)), 2), np.int64)
        )
        return pairs[:paired, 0], self._known(side, pairs[:paired, 1])

    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return the pairs that new rows of either side complete.

        A negated side is never part of the cycle, so all its rows are known when the stretch begins.
        """
        left, right = (np.ascontiguousarray(table) for table in inputs)
        if self.spec.negated and self.goes_on:
            facing = self.keys.slots(left, self.key[0], insert=False)
            met = facing >= 0
            met[met] = self.chains[1][facing[met], HEAD] >= 0
            rest = np.flatnonzero(~met)
            return self._pairs(left, rest, right[:, :0], rest[:0], left[START, rest], left[END, rest])
        mine, theirs = self.met[0], self.met[1]
        left_keys = self.met_by.slots(left, self.key[0])
        right_keys = self.met_by.slots(right, self.key[1])
        if self.spec.negated:
            theirs.add(right, right_keys, self.met_by.count)
            rows_of, others = theirs.met(left, left_keys)
            alone = Intervals(np.arange(rows(left)), left[START].copy(), left[END].copy())
            away = coalesce(rows_of, theirs.table[START, others], theirs.table[END, others])
            kept = subtract(alone, away)
            return self._pairs(left, kept.key, right[:, :0], kept.key[:0], kept.start, kept.end)
        news = [theirs.met(left, left_keys)]
        mine.add(left, left_keys, self.met_by.count)
        theirs_new, mine_old = mine.met(right, right_keys)
        tables = []
        for lefts, left_rows, rights, right_rows in (
            (left, news[0][0], theirs.table, news[0][1]),
            (mine.table, mine_old, right, theirs_new),
        ):
            start = np.maximum(lefts[START, left_rows], rights[START, right_rows])
            end = np.minimum(lefts[END, left_rows], rights[END, right_rows])
            tables.append(self._pairs(lefts, left_rows, rights, right_rows, start, end))
        theirs.add(right, right_keys, self.met_by.count)
        if self.goes_on:
            mine_rows, others = self._on(1, left)
            tables.append(
                self._pairs(left, mine_rows, others, np.arange(rows(others)), *left[[START, END]][:, mine_rows])
            )
            their_rows, others = self._on(0, right)
            tables.append(
                self._pairs(others, np.arange(rows(others)), right, their_rows, *right[[START, END]][:, their_rows])
            )
        return concat(tables)

    def _pairs(self, left: Table, left_rows: Ints, right: Table, right_rows: Ints, start: Ints, end: Ints) -> Table:
        joined = np.zeros((FIRST + len(self.spec.left.take) + len(self.spec.right.take) + 1, len(start)), np.int64)
        joined[START], joined[END] = start, end
        place = FIRST
        for table, chosen, side in ((left, left_rows, self.spec.left), (right, right_rows, self.spec.right)):
            for column in side.take:
                joined[place] = table[FIRST + column, chosen]
                place += 1
        joined[place] = BEGINS
        return joined


AHEAD = 16
"""The number of changes by which prefetching is ahead of processing."""


@inside
def link(state, chains, p, key, turn):  # type: ignore[no-untyped-def]
    """Mark tuple `p` as holding, and append it to the chain of its key (-1: no key)."""
    state[p, HOLDS], state[p, AFTER], state[p, BEFORE], state[p, TURN] = 1, -1, -1, turn
    if key < 0:
        return
    last = chains[key, TAIL]
    state[p, BEFORE] = last
    if last >= 0:
        state[last, AFTER] = p
    else:
        chains[key, HEAD] = p
    chains[key, TAIL] = p


@inside
def unlink(state, chains, p, key):  # type: ignore[no-untyped-def]
    """Mark tuple `p` as not holding, and remove it from the chain of its key."""
    state[p, HOLDS] = 0
    if key < 0:
        return
    before, after = state[p, BEFORE], state[p, AFTER]
    if before >= 0:
        state[before, AFTER] = after
    else:
        chains[key, HEAD] = after
    if after >= 0:
        state[after, BEFORE] = before
    else:
        chains[key, TAIL] = before


@inside
def _turned(state, chains, p, key, begun, turn):  # type: ignore[no-untyped-def]
    """Apply a change to tuple `p`: it begins to hold if `begun`, and otherwise stops holding.

    Return 0 if the tuple was already in this state. Otherwise, return 1 if another tuple with the same key holds, and 2
    if none does.
    """
    if begun == state[p, HOLDS]:
        return 0
    alone = key < 0
    if begun:
        alone = alone or chains[key, HEAD] < 0
        link(state, chains, p, key, turn)
    else:
        unlink(state, chains, p, key)
        alone = alone or chains[key, HEAD] < 0
    return 2 if alone else 1


@njit()
def _linked(state, chains, keys):  # type: ignore[no-untyped-def]
    """Mark all tuples as holding, in the order of their numbers. `state` and `chains` must have rows for all."""
    for p in range(len(keys)):
        link(state, chains, p, keys[p], p)


@njit()
def _meet(  # type: ignore[no-untyped-def]
    order, count, begins, tuples, keys, negated, turn, left, right, left_chains, right_chains, pairs
):
    """Process changes of both sides in order. Return the changes of pairs, and their count.

    The first `count` changes belong to the left side. A result is a row (number of the change, left tuple, right tuple,
    1 for a beginning). `pairs`: a buffer for the results, which is replaced by a larger one if needed. The states
    (`left`, `right`) and the chains must have room for all tuples and keys.
    """
    paired = 0
    for position in range(len(order)):
        if position + AHEAD < len(order):
            i = order[position + AHEAD]
            prefetch(left_chains, keys[i])
            prefetch(right_chains, keys[i])
            if i < count:
                prefetch(left, tuples[i])
            else:
                prefetch(right, tuples[i])
        i = order[position]
        p, key, begun = tuples[i], keys[i], begins[i]
        mine = i < count
        if mine:
            turned = _turned(left, left_chains, p, key, begun, turn + position)
            q = right_chains[key, HEAD] if key >= 0 else -1
        else:
            turned = _turned(right, right_chains, p, key, begun, turn + position)
            q = left_chains[key, HEAD] if key >= 0 else -1
        if turned == 0:
            continue
        if negated and mine:
            if q < 0:
                if paired == pairs.shape[0]:
                    pairs = grow(pairs, paired + 1)
                pairs[paired, 0], pairs[paired, 1], pairs[paired, 2], pairs[paired, 3] = i, p, -1, begun
                paired += 1
            continue
        if negated and turned == 1:
            continue
        while q >= 0:
            if paired == pairs.shape[0]:
                pairs = grow(pairs, paired + 1)
            pairs[paired, 0], pairs[paired, 3] = i, 1 - begun if negated else begun
            pairs[paired, 1], pairs[paired, 2] = (p, q) if mine else (q, p)
            paired += 1
            q = right[q, AFTER] if mine else left[q, AFTER]
    return pairs, paired


@njit()
def _put_pairs(table, pairs, known, columns, place, first):  # type: ignore[no-untyped-def]
    """Write one side of each pair into the matrix rows of a table from `first` on.

    `place`: the column of `pairs` with the tuple's number. `known`: all tuples. `columns`: the columns to write.
    """
    for row in range(len(columns)):
        for i in range(len(pairs)):
            table[first + row, i] = known[pairs[i, place], columns[row]]


class HoldingAlone:
    """The method `unmatched` of goals of conjunctions, which finds tuples that hold without a partner."""

    spec: ConjunctionSpec
    sides: tuple[Side, Side]
    _state: Callable[[], Arrays]

    def unmatched(self, side: int, width: int, watermark: int) -> WaitingRows:
        """See `cep.operators.goals.contract`. Return the tuples that hold without a partner at the watermark.

        Under NOT, return the tuples that have a partner.
        """
        state = self._state()
        tuples = state["left"], state["right"]
        places = [[own.columns.index(column) for column in own.key] for own in self.sides]
        keys = [held[:, place] for held, place in zip(tuples, places, strict=True)]
        count = len(keys[side])
        number = np.unique(np.concatenate([keys[side], keys[1 - side]]), axis=0, return_inverse=True)[1].reshape(-1)
        met = np.isin(number[:count], number[count:]) & ~np.isin(keys[side], (MISSING, NAN)).any(axis=1)
        chosen = np.flatnonzero(met == self.spec.negated)
        arguments = np.full((self.sides[side].width, len(chosen)), BEGINS, np.int64)
        arguments[list(self.sides[side].columns)] = tuples[side][chosen].T
        now = np.full(len(chosen), watermark, np.int64)
        end = np.full(len(chosen), END_OF_TIME, np.int64)
        return WaitingRows(now, now, arguments[:width], end, np.zeros(len(chosen), np.int64))


class ConjunctionGoal(HoldingAlone, NumberedState, ConjunctionStretches):
    def __init__(self, spec: ConjunctionSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.sides = (spec.left, spec.right)
        self.columns = [np.array(side.columns, np.int64) for side in self.sides]
        self.key = [np.array(side.key, np.int64) for side in self.sides]
        places = [[side.columns.index(column) for column in side.take] for side in self.sides]
        self.given_columns = [np.array(place, np.int64) for place in places]
        self.waiting = PendingChanges([s.width for s in self.sides], [s.kind for s in self.sides], spec.lates)
        self._clear()

    def _clear(self) -> None:
        self.keys = Keys(len(self.spec.left.key))
        self.tuples = [Keys(len(columns)) for columns in self.columns]
        self.state = [np.zeros((0, CELLS), np.int64) for _ in range(2)]
        self.chains = [np.full((0, 2), -1, np.int64) for _ in range(2)]
        self.turn = 0
        self.waiting.clear()

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        taken = self.waiting.take(inputs, frontier)
        spec = self.spec
        changes: list[tuple[Ints, ...]] = []
        for side, (table, code, begins) in enumerate(taken):
            if len(code):
                keys = self.keys.slots(table, self.key[side])
                tuples = self.tuples[side].slots(table, self.columns[side], groups=True)
                changes.append((code, begins, 1 - begins if spec.negated and side else begins, tuples, keys))
        width = len(spec.left.take) + len(spec.right.take) + 1
        if not changes:
            return empty(width)
        self._reserve()
        code, begins, phases, tuples, keys = changes[0] if len(changes) == 1 else map(np.concatenate, zip(*changes))
        order = phased_order(code, phases)
        pairs, paired = _meet(
            order, len(taken[0][1]), begins, tuples, keys, spec.negated, self.turn, *self.state, *self.chains,
            np.empty((len(order), 4), np.int64),
        )  # fmt: skip
        self.turn += len(order)
        if not paired:
            return empty(width)
        pairs = pairs[:paired]
        table = np.empty((FIRST + width, paired), np.int64)
        left, right = self.tuples
        _put_pairs(table, pairs, left.table, self.given_columns[0], 1, FIRST)
        _put_pairs(table, pairs, right.table, self.given_columns[1], 2, FIRST + len(spec.left.take))
        put_changes(table, FIRST + width - 1, code[pairs[:, 0]], pairs[:, 3])
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def _reserve(self) -> None:
        for side in range(2):
            self.state[side] = filled_room(self.state[side], self.tuples[side].count, 0)
            self.chains[side] = filled_room(self.chains[side], self.keys.count, -1)

    def due(self) -> int | None:
        return self.waiting.due()

    def pending(self) -> int:
        """Return an upper bound of the number of results that waiting changes produce.

        The bound assumes that each waiting change is paired with all tuples of the other side.
        """
        return self.waiting.count * (1 + max(keys.count for keys in self.tuples))

    def _numbers(self) -> int:
        return max(self.keys.count, *(keys.count for keys in self.tuples))

    # --- state ---

    def _state(self) -> Arrays:
        arrays: Arrays = {}
        for side, (name, waiting) in enumerate(zip(("left", "right"), self.waiting.state())):
            held = np.flatnonzero(self.state[side][: self.tuples[side].count, HOLDS])
            held = held[np.argsort(self.state[side][held, TURN], kind="stable")]
            arrays[name] = self.tuples[side].known[held]
            arrays[f"{name}_waiting"] = waiting
        return arrays

    def _tables(self) -> dict[str, StateTable]:
        tables = {}
        for number, (name, side) in enumerate(zip(("left", "right"), self.sides)):
            codes = tuple(side.columns.index(column) for column in side.codes)
            tables[name] = StateTable(
                distinct=True, width=side.width - 1, keyed=tuples_of(name, side.columns, number), codes=codes
            )
            waiting = f"{name}_waiting"
            tables[waiting] = waiting_table(waiting, side.width, side.kind, side.codes, number)
        return tables

    def _become(self, state: Arrays) -> None:
        self._clear()
        for side, name in enumerate(("left", "right")):
            known = state[name]
            self.tuples[side].become(known.copy(), len(known))
            table = np.zeros((FIRST + self.sides[side].width, len(known)), np.int64)
            table[FIRST + self.columns[side]] = known.T
            keys = self.keys.slots(table, self.key[side])
            self._reserve()
            _linked(self.state[side], self.chains[side], keys)
            self.turn = max(self.turn, len(known))
        self._reserve()
        self.waiting.become([state["left_waiting"], state["right_waiting"]])

    def codes(self) -> list[Ints]:
        coded = [self.keys.known.reshape(-1)]
        for side, spec in enumerate(self.sides):
            for column in spec.codes:
                coded += [
                    self.tuples[side].known[:, spec.columns.index(column)],
                    self.waiting.tables[side][FIRST + column],
                ]
        return coded

    @property
    def size(self) -> tuple[int, int]:
        held = sum(int(self.state[side][: self.tuples[side].count, HOLDS].sum()) for side in range(2))
        arrays = sum(array.nbytes for array in (*self.state, *self.chains))
        return held + self.waiting.count, int(arrays + self.keys.nbytes + sum(keys.nbytes for keys in self.tuples))


LEFT, RIGHT, ALONE = 1, 2, 4
"""Flags of a tuple. LEFT, RIGHT: it holds on this side. ALONE: a value is missing, so it has no partner."""


def matches(spec: ConjunctionSpec) -> bool:
    """Return True if the join key consists of all columns of both sides."""
    return all(sorted(side.key) == list(side.columns) for side in (spec.left, spec.right))


@bare
def _matched(  # type: ignore[no-untyped-def]
    left, left_code, left_begins, right, right_code, right_begins, negated, flags, changes
):
    """Process sorted changes of both sides, which have the same tuples. Write the results, and return their count.

    At one code, ends are processed before beginnings, and the left side before the right side. If `negated`, a
    beginning of the right side counts as an end, and an end as a beginning. There is at most one result per change. It
    is a column (tuple, code, 1 for a beginning) in `changes`. `flags` has a row for each tuple.
    """
    n, m = len(left), len(right)
    i = j = count = 0
    while i < n or j < m:
        first = j == m
        if i < n and not first:
            phase, other = left_begins[i], right_begins[j] ^ (1 if negated else 0)
            first = left_code[i] < right_code[j] or (left_code[i] == right_code[j] and phase <= other)
        if first:
            if i + AHEAD < n:
                prefetch(flags, left[i + AHEAD])
            key, code, begins, bit = left[i], left_code[i], left_begins[i], LEFT
            i += 1
        else:
            if j + AHEAD < m:
                prefetch(flags, right[j + AHEAD])
            key, code, begins, bit = right[j], right_code[j], right_begins[j], RIGHT
            j += 1
        known = flags[key, 0]
        if (1 if known & bit else 0) == begins:
            continue
        flags[key, 0] = known ^ bit
        met = known & (LEFT + RIGHT - bit) if not known & ALONE else 0
        told = 1 if met else 0
        if negated and bit == LEFT:
            told = 1 - told
        changes[0, count], changes[1, count] = key, code
        changes[2, count] = 1 - begins if negated and bit == RIGHT else begins
        count += told
    return count


class MatchedConjunctionGoal(ConjunctionGoal):
    """The goal of a Conjunction node if the join key consists of all columns of both sides."""

    def _clear(self) -> None:
        self.keys = Keys(len(self.spec.left.key))
        self.flags: Ints = np.zeros((0, 1), np.int64)
        self.waiting.clear()
        places = [[side.key.index(column) for column in side.take] for side in self.sides]
        self.shown = [place for side_places in places for place in side_places]

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        changes: list[Ints] = []
        for side, (table, code, begins) in enumerate(self.waiting.take(inputs, frontier)):
            keys = self._slots(table, side)
            changes += in_order(keys, code, begins, 1 if self.spec.negated and side else 0)
        matched = np.empty((3, len(changes[0]) + len(changes[3])), np.int64)
        count = _matched(*changes, self.spec.negated, self.flags, matched)
        if not count:
            return empty(len(self.shown) + 1)
        table = np.empty((FIRST + len(self.shown) + 1, count), np.int64)
        for row, place in enumerate(self.shown):
            table[FIRST + row] = self.keys.known[matched[0, :count], place]
        put_changes(table, FIRST + len(self.shown), matched[1, :count], matched[2, :count])
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def _slots(self, table: Table, side: int) -> Ints:
        before = self.keys.count
        slots = self.keys.slots(table, self.key[side], groups=True)
        if self.keys.count > before:
            self.flags = filled_room(self.flags, self.keys.count, 0)
            known = self.keys.known[before:]
            alone = ((known == MISSING) | (known == NAN)).any(axis=1)
            self.flags[before : self.keys.count, 0] = np.where(alone, ALONE, 0)
        return slots

    def pending(self) -> int:
        return self.waiting.count

    def _numbers(self) -> int:
        return self.keys.count

    def _held(self, side: int) -> Ints:
        return np.flatnonzero(self.flags[: self.keys.count, 0] & (LEFT, RIGHT)[side])

    def _state(self) -> Arrays:
        arrays: Arrays = {}
        for side, (name, waiting) in enumerate(zip(("left", "right"), self.waiting.state())):
            own = self.sides[side]
            arrays[name] = self.keys.known[self._held(side)][:, [own.key.index(column) for column in own.columns]]
            arrays[f"{name}_waiting"] = waiting
        return arrays

    def _become(self, state: Arrays) -> None:
        self._clear()
        for side, name in enumerate(("left", "right")):
            known = state[name]
            table = np.zeros((FIRST + self.sides[side].width, len(known)), np.int64)
            table[FIRST + self.columns[side]] = known.T
            slots = self._slots(table, side)
            self.flags[slots, 0] |= (LEFT, RIGHT)[side]
        self.waiting.become([state["left_waiting"], state["right_waiting"]])

    def codes(self) -> list[Ints]:
        waiting = [self.waiting.tables[side][FIRST + c] for side, spec in enumerate(self.sides) for c in spec.codes]
        return [*waiting, self.keys.known.reshape(-1)]

    @property
    def size(self) -> tuple[int, int]:
        held = sum(len(self._held(side)) for side in range(2))
        return held + self.waiting.count, int(self.flags.nbytes + self.keys.nbytes)


def conjunction_of(node: Conjunction, builder: GoalBuilder, number: int) -> Goal:
    """Return the goal of a node. In a cycle, this is the general goal, because only that can be evaluated in rounds."""
    left, right = builder.types(node.left), builder.types(node.right)
    mine, theirs = builder.keys(node.key, left, right)
    left_key, left_added = builder.widened_key(mine, left)
    right_key, right_added = builder.widened_key(theirs, right)
    sides = []
    for types, kind, key, pairs, take in (
        (left, node.left_kind, left_key, mine, tuple(c for c in range(len(left)) if c != node.left_kind)),
        (right, node.right_kind, right_key, theirs, node.take),
    ):
        wide = [*types, *others(pairs, types)]
        sides.append(Side(len(wide), kind, key, codes_of(wide), take))
    spec = ConjunctionSpec(sides[0], sides[1], node.negated, node.lates)
    alone = matches(spec) and number not in builder.on_cycles
    goal = (MatchedConjunctionGoal if alone else ConjunctionGoal)(spec, builder.lineage)
    added = (left_added, right_added)
    return RecursiveWithConvertedKeys(goal, added, (left, right)) if any(added) else goal
