"""The reviser of conditions on fluents. For each key, it stores recent occurrences, and beginnings and ends of tuples.

If beginnings or ends change, the occurrences of the key that end after the change are tested again. Two sweeps run side
by side over the beginnings and ends. One computes which tuples held before the revision, the other computes which hold
now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import BEGINS, ENDS
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, empty, rows
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.fluents.holding import HOLDS, HoldingGoal
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keyed_rows import (
    AT,
    COMES,
    COUNT,
    GOES,
    KEY,
    R_END,
    R_ORDER,
    R_REST,
    R_START,
    ROW,
    TIMES,
    KeyedRows,
    changes_of,
    coming,
    copied,
    demand_there,
    first_from,
    in_turn,
    moved,
    put,
    same_key,
    turn,
    words_of,
)
from cep.operators.goals.keys import Keys, grow
from cep.operators.goals.reviser import Revised, Reviser, apart

# Columns of an edge, a beginning or end: time, 1 for a beginning, tuple, and how many tuples of the key hold after it.
E_END, E_BEGINS, E_TUPLE, E_HELD = range(4)
# Columns of a tuple: its place, from 1 (0: none), in the lists of tuples that held, that hold, and that do only one
# of both; and a mark that an edge of it was seen.
OLD, NEW, OTHER, SEEN = range(4)


@inside
def _into(lists, places, which, tuple_):  # type: ignore[no-untyped-def]
    """Add a tuple to the list `which`. The first cell of a list is its length."""
    lists[which, 0] += 1
    lists[which, lists[which, 0]] = tuple_
    places[tuple_, which] = lists[which, 0]


@inside
def _out_of(lists, places, which, tuple_):  # type: ignore[no-untyped-def]
    last = lists[which, lists[which, 0]]
    lists[which, places[tuple_, which]] = last
    places[last, which] = places[tuple_, which]
    places[tuple_, which] = 0
    lists[which, 0] -= 1


@inside
def _passed(edges, i, lists, places, which):  # type: ignore[no-untyped-def]
    """Apply the beginning or end in row `i` to the old state (`which` is OLD) or to the new state (NEW)."""
    tuple_ = edges[i, E_TUPLE]
    held = places[tuple_, which] > 0
    if held == (edges[i, E_BEGINS] == 1):
        return
    if held:
        _out_of(lists, places, which, tuple_)
    else:
        _into(lists, places, which, tuple_)
    if (places[tuple_, OLD] > 0) != (places[tuple_, NEW] > 0):
        _into(lists, places, OTHER, tuple_)
    else:
        _out_of(lists, places, OTHER, tuple_)


@njit()
def _met(left, lists, places, which, negated, differing, pairs, count):  # type: ignore[no-untyped-def]
    """Append the pairs (`left`, tuple) of a left row to `pairs`. Return `pairs`, perhaps enlarged, and the new count.

    The tuples are those that hold in the state `which`. If `differing`, they are only those that do not hold in the
    other state. If `negated`, append (`left`, -1) instead if no tuple holds.
    """
    if negated:
        if lists[which, 0] == 0:
            pairs = grow(pairs, count + 1) if count == pairs.shape[0] else pairs
            pairs[count, 0], pairs[count, 1] = left, -1
            count += 1
        return pairs, count
    listed = OTHER if differing else which
    needed = count + lists[listed, 0]
    pairs = grow(pairs, needed) if needed > pairs.shape[0] else pairs
    for place in range(1, lists[listed, 0] + 1):
        tuple_ = lists[listed, place]
        if places[tuple_, which] > 0:
            pairs[count, 0], pairs[count, 1] = left, tuple_
            count += 1
    return pairs, count


@inside
def _meets(lists, negated):  # type: ignore[no-untyped-def]
    """Return True if an occurrence has other matching tuples in the new state than in the old one.

    If `negated`, return True only if it has matching tuples in exactly one of the two states.
    """
    if negated:
        return (lists[OLD, 0] == 0) != (lists[NEW, 0] == 0)
    return lists[OTHER, 0] > 0


@inside
def _emptied(lists, places):  # type: ignore[no-untyped-def]
    for which in range(3):
        for place in range(1, lists[which, 0] + 1):
            places[lists[which, place], which] = 0
        lists[which, 0] = 0


@bare
def _held(edges, start, before, most, lists, places):  # type: ignore[no-untyped-def]
    """Fill the lists of both states with the tuples that hold after the rows `start` to `before` of a key.

    The rows are read backwards, until all tuples that hold are found. Return False, and leave the lists unchanged, if
    that takes more than `most` rows.
    """
    count = edges[before - 1, E_HELD] if before > start else 0
    first = before
    while count > 0 and before - first < most:
        first -= 1
        if places[edges[first, E_TUPLE], SEEN] == 0:
            places[edges[first, E_TUPLE], SEEN] = 1
            count -= edges[first, E_BEGINS]
    if count == 0:
        _emptied(lists, places)
    for i in range(before - 1, first - 1, -1):
        tuple_ = edges[i, E_TUPLE]
        if places[tuple_, SEEN] == 1:  # the last edge of the tuple
            places[tuple_, SEEN] = 0
            if count == 0 and edges[i, E_BEGINS] == 1:
                _into(lists, places, OLD, tuple_)
                _into(lists, places, NEW, tuple_)
    return count == 0


@inside
def _next_end(rows, i, last, changes, c, stop):  # type: ignore[no-untyped-def]
    end = END_OF_TIME
    if i < last:
        end = rows[i, R_END]
    if c < stop:
        end = min(end, changes[c, ROW + R_END])
    return end


@inside
def _next_change(edge_changes, c, stop, left_changes, d, until):  # type: ignore[no-untyped-def]
    edge = _next_end(edge_changes, 0, 0, edge_changes, c, stop)
    return min(edge, _next_end(left_changes, 0, 0, left_changes, d, until))


@njit()
def sweep(  # type: ignore[no-untyped-def]
    edge_changes, edges, edge_spans, left_changes, left, left_spans, before_now, negated, wholly, lists, places, pairs,
    was, now, ended,
):  # fmt: skip
    """Apply changes of both sides. Return how the pairs of occurrences and tuples change.

    `wholly`: True to return all pairs of an occurrence if one of them changes. The store of each key must have room for
    the key's changes, `lists` for the key's tuples, and `ended` for all changed beginnings and ends. Returns:

    - `pairs`, `counted`: the occurrences with changed pairs, each with its old and new multiplicity, and their number
    - `was`, `old`, `now`, `new`: the old and the new pairs of these occurrences, with the number of each
    - `ends`: the number of tuples whose final state changes, which are written to `ended`
    - `again`: the number of keys with changes up to `before_now`
    - `wrong`: the number of invalid changes, which remove a row that does not exist or add a row that exists
    """
    c = d = counted = old = new = ends = again = wrong = 0
    words = left.shape[1] - 1
    while c < edge_changes.shape[0] or d < left_changes.shape[0]:
        if d == left_changes.shape[0] or (c < edge_changes.shape[0] and edge_changes[c, KEY] <= left_changes[d, KEY]):
            number = edge_changes[c, KEY]
        else:
            number = left_changes[d, KEY]
        stop, until = c, d
        if c < edge_changes.shape[0] and edge_changes[c, KEY] == number:
            stop = same_key(edge_changes, c)
        if d < left_changes.shape[0] and left_changes[d, KEY] == number:
            until = same_key(left_changes, d)
        since = _next_change(edge_changes, c, stop, left_changes, d, until)
        again += since <= before_now
        # Make room for new rows: edges from x on are moved to y, occurrences from i on to j.
        edge_start, begin = edge_spans[number, AT], left_spans[number, AT]
        last, beyond = edge_start + edge_spans[number, COUNT], begin + left_spans[number, COUNT]
        y, j = first_from(edges, edge_start, last, since), first_from(left, begin, beyond, since)
        x, i = y + coming(edge_changes, c, stop), j + coming(left_changes, d, until)
        moved(edges, y, last, x - y)
        moved(left, j, beyond, i - j)
        last, beyond = last + x - y, beyond + i - j
        wrong += not _held(edges, edge_start, y, y - edge_start, lists, places)
        while True:
            if lists[OTHER, 0] == 0:  # nothing differs up to the next change
                if c == stop and d == until:
                    break
                since = _next_change(edge_changes, c, stop, left_changes, d, until)
                following = first_from(left, i, beyond, since)
                moved(left, i, following, j - i)
                i, j = following, j + following - i
                following = first_from(edges, x, last, since)
                most = following - x
                moved(edges, x, following, y - x)
                x, y = following, y + most
                if most <= lists[NEW, 0] or not _held(edges, edge_start, y, most, lists, places):
                    for passed in range(y - most, y):
                        _passed(edges, passed, lists, places, OLD)
                        _passed(edges, passed, lists, places, NEW)
            edge_end = _next_end(edges, x, last, edge_changes, c, stop)
            left_end = _next_end(left, i, beyond, left_changes, d, until)
            if edge_end == END_OF_TIME and left_end == END_OF_TIME:
                break
            if edge_end < left_end:
                which = turn(edges, x, last, edge_changes, c, stop, 3)
                if which <= 0:
                    _passed(edges, x, lists, places, OLD)
                before = y
                x, y, c, none = put(edges, x, y, edge_changes, c, which, 3, False)
                wrong += none
                if y > before:
                    _passed(edges, before, lists, places, NEW)
                    edges[before, E_HELD] = lists[NEW, 0]
                continue
            which = turn(left, i, beyond, left_changes, d, until, words)
            had = left[i, words] if which <= 0 else 0
            before = j
            i, j, d, none = put(left, i, j, left_changes, d, which, words, True)
            wrong += none
            has = left[before, words] if j > before else 0
            if had == has and not _meets(lists, negated):
                continue
            pairs = grow(pairs, counted + 1) if counted == pairs.shape[0] else pairs
            for word in range(words):
                pairs[counted, word] = left[before, word] if has > 0 else left_changes[d - 1, ROW + word]
            pairs[counted, words], pairs[counted, words + 1] = had, has
            differing = had == has and not wholly
            if had > 0:
                was, old = _met(counted, lists, places, OLD, negated, differing, was, old)
            if has > 0:
                now, new = _met(counted, lists, places, NEW, negated, differing, now, new)
            counted += 1
        moved(edges, x, last, y - x)
        moved(left, i, beyond, j - i)
        edge_spans[number, COUNT], left_spans[number, COUNT] = y + last - x - edge_start, j + beyond - i - begin
        for place in range(1, lists[OTHER, 0] + 1):  # tuples whose final state differs
            ended[ends] = lists[OTHER, place]
            ends += 1
        _emptied(lists, places)
    return pairs, counted, was, old, now, new, ends, again, wrong


@bare
def edges_of(table, kind_row, slots, tuples, changes):  # type: ignore[no-untyped-def]
    """Convert a table of a fluent's beginnings and ends to changes of keyed rows. Return their count.

    Rows without a key, and rows that are neither a beginning nor an end, are left out.
    """
    count = 0
    for i in range(table.shape[1]):
        kind = table[kind_row, i]
        if slots[i] < 0 or (kind != BEGINS and kind != ENDS):
            continue
        changes[count, KEY] = slots[i]
        changes[count, TIMES] = GOES if table[IDENTITY, i] == GOES else COMES
        changes[count, ROW + E_END] = table[END, i]
        changes[count, ROW + E_BEGINS] = kind == BEGINS
        changes[count, ROW + E_TUPLE] = tuples[i]
        count += 1
    return count


@inside
def _into_table(matched, pairs, i, times, sign, tuples, taken, table, place):  # type: ignore[no-untyped-def]
    """Write a pair into a table of changes, once for each copy of its occurrence. Return the next free place.

    `sign`: GOES if the pair is removed, 0 if it is added.
    """
    row, tuple_, width = pairs[i, 0], pairs[i, 1], matched.shape[1] - R_REST - 2
    for _ in range(matched[row, times]):
        table[END, place], table[START, place] = matched[row, R_END], matched[row, R_START]
        table[ORDER, place], table[IDENTITY, place] = matched[row, R_ORDER], sign
        for word in range(width):
            table[FIRST + word, place] = matched[row, R_REST + word]
        for column in range(len(taken)):
            table[FIRST + width + column, place] = tuples[tuple_, taken[column]]
        place += 1
    return place


@bare
def told(matched, was, now, tuples, taken, table):  # type: ignore[no-untyped-def]
    """Write old pairs as removed rows and new pairs as added rows. A pair is repeated for each copy of its occurrence.

    `taken`: the columns of tuples that are output.
    """
    place, words = 0, matched.shape[1] - 2
    for i in range(was.shape[0]):
        place = _into_table(matched, was, i, words, GOES, tuples, taken, table, place)
    for i in range(now.shape[0]):
        place = _into_table(matched, now, i, words + 1, 0, tuples, taken, table, place)


@bare
def told_rows(matched, was, now):  # type: ignore[no-untyped-def]
    """Return the number of rows that `told` writes."""
    count, words = 0, matched.shape[1] - 2
    for i in range(was.shape[0]):
        count += matched[was[i, 0], words]
    for i in range(now.shape[0]):
        count += matched[now[i, 0], words + 1]
    return count


@bare
def count_held(edges, spans, changes):  # type: ignore[no-untyped-def]
    """Update the number of tuples that hold after each stored row.

    For each key in `changes`, rows from the first change on are updated.
    """
    c = 0
    while c < changes.shape[0]:
        start, last = spans[changes[c, KEY], AT], spans[changes[c, KEY], AT] + spans[changes[c, KEY], COUNT]
        first = first_from(edges, start, last, changes[c, ROW + R_END])
        held = edges[first - 1, E_HELD] if first > start else 0
        for i in range(first, last):
            held += 1 if edges[i, E_BEGINS] == 1 else -1
            edges[i, E_HELD] = held
        c = same_key(changes, c)


@bare
def without_ended(edges, spans, keys, floor, latest):  # type: ignore[no-untyped-def]
    """Drop the beginnings and ends of these keys that are not after `floor`.

    The beginning of a tuple that holds at `floor` remains. `latest`: a buffer with a cell for every tuple.
    """
    for key in keys:
        start, count = spans[key, AT], spans[key, COUNT]
        past = 0
        while past < count and edges[start + past, E_END] <= floor:
            latest[edges[start + past, E_TUPLE]] = past
            past += 1
        kept = 0
        for i in range(count):
            begun = edges[start + i, E_BEGINS] == 1 and latest[edges[start + i, E_TUPLE]] == i
            if i >= past or begun:
                copied(edges, start + i, edges, start + kept)
                kept += 1
                if i < past:
                    edges[start + kept - 1, E_HELD] = kept
        spans[key, COUNT] = kept


class Edges(KeyedRows):
    """The beginnings and ends of tuples, by key. Each is stored with the number of the key's tuples that hold after it.

    When old rows are dropped, the beginnings of tuples that still hold remain.
    """

    def __init__(self) -> None:
        super().__init__(3, 1, bag=False)
        self.tuples = 0

    def change(self, changes: Ints) -> None:
        super().change(changes)
        count_held(self.rows, self.spans, changes)

    def forget(self, keys: Ints) -> None:
        without_ended(self.rows, self.spans, keys, self.floor, np.empty(self.tuples, np.int64))


class HoldingReviser:
    remembers = True

    def __init__(self, goal: HoldingGoal) -> None:
        self.spec = spec = goal.spec
        self.own = HoldingGoal(spec)
        self.keys_known, self.tuples = Keys(len(spec.right_key)), self.own.tuples
        self.left, self.edges = KeyedRows(3 + spec.left_width), Edges()
        self.places = np.zeros((0, 4), np.int64)
        self.words = words_of(spec.left_width)
        self.taken = np.array([int(np.flatnonzero(self.own.columns == column)[0]) for column in spec.take], np.int64)
        self.wholly = not spec.negated and len(spec.take) + len(spec.right_key) < len(goal.columns)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        self.left.length = self.edges.length = length
        right = np.zeros((FIRST + self.spec.right_width, len(state["tuples"])), np.int64)
        right[START] = right[END] = frontier.watermark
        right[FIRST + self.own.columns] = state["tuples"].T
        right[FIRST + self.own.right_key] = state["keys"].T
        right[FIRST + self.spec.kind] = BEGINS
        self.came((empty(self.spec.left_width), right))
        self.forget(frontier.watermark)

    def came(self, inputs: Sequence[Table]) -> None:
        self.edges.change(self._edge_changes(inputs[1]))
        self.left.change(self._left_changes(inputs[0]))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        left, right = inputs
        spec = self.spec
        if not rows(left) and not rows(right):
            return Revised(empty(spec.left_width + len(spec.take)))
        alone = self._without_key(left)
        edges, lefts = self._edge_changes(right), self._left_changes(left)
        self.edges.make_room(edges)
        self.left.make_room(lefts)
        lists = np.zeros((3, 1 + self.tuples.count), np.int64)
        self.places = filled_room(self.places, self.tuples.count, 0)
        matched, counted, was, old, now, new, ends, keys, wrong = sweep(
            edges, self.edges.rows, self.edges.spans, lefts, self.left.rows, self.left.spans, since, spec.negated,
            self.wholly, lists, self.places, np.empty((len(lefts), self.left.rows.shape[1] + 1), np.int64),
            np.empty((len(lefts), 2), np.int64), np.empty((len(lefts), 2), np.int64),
            ended := np.empty(len(edges), np.int64),
        )  # fmt: skip
        demand_there(wrong)
        self._put_right(cast(HoldingGoal, goal), ended[:ends])
        changes = self._told(matched[:counted], was[:old], now[:new])
        return Revised(concat([changes, alone]) if rows(alone) else changes, int(keys))

    def _told(self, matched: Ints, was: Ints, now: Ints) -> Table:
        if self.wholly:
            met, times = matched[:, :-2], matched[:, -2:].T
            return apart(self._paired(met, times[0], was), self._paired(met, times[1], now))
        width = self.spec.left_width + len(self.taken)
        table = np.empty((FIRST + width, told_rows(matched, was, now)), np.int64)
        told(matched, was, now, self.tuples.table, self.taken, table)
        return table

    def _paired(self, matched: Ints, times: Ints, pairs: Ints) -> Table:
        """Return the output rows for pairs of occurrences and tuples. `times`: the multiplicity of each occurrence."""
        if (times > 1).any():  # equal occurrences get separate numbers
            beyond = np.cumsum(times)
            matched, several = np.repeat(matched, times, axis=0), times[pairs[:, 0]]
            of_pair = np.arange(int(several.sum())) - np.repeat(np.cumsum(several) - several, several)
            pairs = np.repeat(pairs, several, axis=0)
            pairs[:, 0] = (beyond - times)[pairs[:, 0]] + of_pair
        table = np.zeros((FIRST + self.spec.left_width, len(matched)), np.int64)
        table[END], table[START], table[ORDER] = matched[:, 0], matched[:, 1], matched[:, 2]
        table[FIRST:] = matched[:, 3:].T
        named = np.zeros((len(pairs), 3), np.int64)
        named[:, :2] = pairs
        return self.own._paired(table, named)

    def _without_key(self, left: Table) -> Table:
        """Return the left occurrences whose key has a missing value, if the condition is negated.

        No tuple matches such an occurrence. So it is always output under `not`, and never without `not`.
        """
        if not self.spec.negated or not rows(left):
            return left[:, :0]
        unmatched: Table = take(left, np.flatnonzero(self.keys_known.slots(left, self.own.left_key) < 0))
        return unmatched

    def _left_changes(self, table: Table) -> Ints:
        slots = self.keys_known.slots(table, self.own.left_key)
        self._know()
        return changes_of(table, slots, self.words, self.keys_known.count)

    def _edge_changes(self, table: Table) -> Ints:
        tuples = self.tuples.slots(table, self.own.columns, groups=True)
        slots = self.keys_known.slots(table, self.own.right_key)
        self._know()
        changes = np.empty((rows(table), ROW + 3), np.int64)
        count = edges_of(table, FIRST + self.spec.kind, slots, tuples, changes)
        return in_turn(changes[:count], self.keys_known.count)

    def _know(self) -> None:
        self.edges.know(self.keys_known.count)
        self.left.know(self.keys_known.count)
        self.edges.tuples = self.tuples.count

    def _put_right(self, goal: HoldingGoal, ended: Ints) -> None:
        """Correct the goal's state for tuples that hold either before the revision or after it, but not both."""
        if not len(ended):
            return
        right = np.zeros((FIRST + self.spec.right_width, len(ended)), np.int64)
        right[FIRST + self.own.columns] = self.tuples.known[ended].T
        held = goal.tuples.slots(right, self.own.columns, insert=False, groups=True)
        holds = np.zeros(len(ended), np.bool_)
        holds[held >= 0] = goal.state[held[held >= 0], HOLDS] == 1
        right[FIRST + self.spec.kind] = np.where(holds, ENDS, BEGINS)
        goal.step((empty(self.spec.left_width), right), Frontier.at(0))

    def forget(self, until: int) -> None:
        self.left.floor = self.edges.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        edges, keys = self.edges.every()
        return [self._state_at(time, edges, keys) for time in times]

    def _state_at(self, time: int, edges: Ints, keys: Ints) -> Arrays:
        past = edges[:, E_END] <= time
        edges, keys = edges[past], keys[past]
        holds = np.full(self.tuples.count, -1)
        holds[edges[:, E_TUPLE]] = np.where(edges[:, E_BEGINS] == 1, np.arange(len(edges)), -1)
        kept = np.sort(holds[holds >= 0])
        known = self.keys_known.known[keys[kept]]
        return {
            "tuples": self.tuples.known[edges[kept, E_TUPLE]],
            "keys": known,
            "names": np.zeros((len(kept), 1), np.int64),
        }

    @property
    def keys(self) -> int:
        return max(self.keys_known.count, self.tuples.count)

    @property
    def nbytes(self) -> int:
        known = self.keys_known.nbytes + self.tuples.nbytes + self.places.nbytes
        return self.left.nbytes + self.edges.nbytes + known


def holding_reviser(goal: HoldingGoal) -> Reviser | None:
    """Return the reviser of a goal, or None if the goal records lineage."""
    return HoldingReviser(goal) if goal.lineage is None else None
