"""The kernel of joins. It finds stored rows that match an arrival, chooses among them, and tests the negated side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import roomy
from cep.core.interval_relations import A, B, C, D, IntervalRelation
from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, ORDER, START, Table
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING, Keys, id_of
from cep.operators.goals.pairs.bytecode import run
from cep.operators.goals.pairs.inequality_index import (
    ALL_WASTED,
    BY_TREE,
    FITTING,
    MOST_WASTED,
    PASSED,
    SEARCHES,
    WASTED,
    InequalityIndex,
    append,
    build,
    next_found,
    open_search,
)
from cep.operators.goals.store import (
    BEGIN,
    END,
    FOREVER,
    GONE,
    HEADER,
    NEXT,
    OTHER,
    PREVIOUS,
    SLOT,
    ask_absent_ahead,
    ask_ahead,
    feed,
    kept,
    known,
    link,
    link_sorted,
    live,
    note_absent,
    put,
    relink,
    renumber,
    sortable,
    supersede,
    unlink,
)
from cep.plan.join_conditions import MOST_ORDERS

DIFFERENCES = ((B, C), (A, C), (B, D), (A, D), (A, B), (C, D))
MOST_BOUNDS = 4
"""The maximum number of bounds of a relation. Each bound is three numbers: the index of its difference in DIFFERENCES,
the least value and the greatest value."""


def bounds_of(relation: IntervalRelation) -> Sequence[int]:
    """Return a relation as the numbers that `relates` reads: the number of bounds, then three for each bound."""
    assert len(relation.bounds) <= MOST_BOUNDS, "there is room for four"
    numbers = [len(relation.bounds)]
    for bound in relation.bounds:
        if (bound.earlier, bound.later) in DIFFERENCES:
            numbers += [DIFFERENCES.index((bound.earlier, bound.later)), bound.low, bound.high]
        else:
            numbers += [DIFFERENCES.index((bound.later, bound.earlier)), -bound.high, -bound.low]
    return numbers


@njit()
def relates(spec, offset, a, b, c, d):  # type: ignore[no-untyped-def]
    """Return True if L = [a, b] and R = [c, d] satisfy the relation whose numbers begin at `spec[offset]`."""
    for place in range(offset + 1, offset + 1 + 3 * spec[offset], 3):
        which = spec[place]
        if which == 0:
            difference = c - b
        elif which == 1:
            difference = c - a
        elif which == 2:
            difference = d - b
        elif which == 3:
            difference = d - a
        elif which == 4:
            difference = b - a
        else:
            difference = d - c
        if difference < spec[place + 1] or difference > spec[place + 2]:
            return False
    return True


Ints = NDArray[np.int64]

POLICIES = {"unrestricted": 0, "recent": 1, "chronological": 2}
UNRESTRICTED, RECENT, CHRONOLOGICAL = range(3)
TIES = {"longest": 0, "shortest": 1, "by": 2}

# Places in `spec`.
(
    S_POLICY, S_TIE, S_WITHIN, S_POINT, S_STORE_RIGHT, S_ABSENCE, S_FEEDBACK,
    S_BY_LEFT, S_BY_RIGHT, S_BY_FLOAT, S_WIDTH_LEFT, S_WIDTH_RIGHT,
    S_SUPERSEDES, S_REACH_LEFT, S_REACH_RIGHT, S_LEAST_GAP, S_MOST_GAP, S_BOUNDS,
) = range(18)  # fmt: skip
S_ORDERS = S_BOUNDS + 1 + 3 * MOST_BOUNDS
# From there on: the number of inequalities that the search uses, and four numbers for each of them: its index in
# `join_conditions.ORDERS`, the left column, the right column, and 1 if they are floats.
SPEC = S_ORDERS + 1 + 4 * MOST_ORDERS

# Places in `state`: rows processed of each input, rows in the stores, pairs; then the arrival whose search stopped for
# lack of room (A_RESUME: the next partner to try, else -1); 1 if the output is in order; the nodes of the inequality
# index, and 1 if it lacks room.
(
    A_I, A_J, A_X, A_COUNT, A_ABSENT, A_MADE, A_RESUME, A_SIDE, A_ROW, A_MINE, A_FLOOR, A_IN_ORDER, A_NODES, A_LACKING,
) = range(14)  # fmt: skip
STATE = 14

# Where the key of the negated event comes from: no negated event, the join key, the right side, the left side, or both.
NO_ABSENCE, ABSENT_COMMON, ABSENT_RIGHT, ABSENT_LEFT, ABSENT_BOTH = range(5)


class SideRows(NamedTuple):
    """The arrivals of one side of a join.

    `slots`: the slot of each arrival's key. `absent`: the slot of the negated event's key for each arrival, or -1 if
    this side does not determine it.
    """

    table: Table
    slots: Ints
    absent: Ints


class Waiting(NamedTuple):
    """The arrays of a store (see `cep.operators.goals.store`).

    `hot`: the parts of rows that every search reads. `cold`: the other parts. `chains`: the rows of each key.
    """

    hot: Ints
    cold: Ints
    chains: Ints


class AbsentKey(NamedTuple):
    """The key of the negated event, if both sides contribute columns to it.

    - `columns`: for each part of the key, the side (0: left, 1: right) and the column.
    - `places`, `keys`: the arrays of `Keys`.
    - `key`: a buffer for one key.
    """

    columns: Ints
    places: Ints
    keys: Ints
    key: Ints


class DecidingCode(NamedTuple):
    """A compiled condition.

    - `code`, `literals`: the program and its literals.
    - `stack`, `current`: buffers for the stack and for the arguments of the arrival.
    """

    code: Ints
    literals: Ints
    stack: Ints
    current: Ints


class HeadCode(NamedTuple):
    """The compiled head of a recursive rule.

    - `code`: the programs of all arguments. `ends`: where the program of each argument ends.
    - `literals`: the literals of the programs.
    - `arguments`: a buffer for the computed arguments.
    """

    code: Ints
    literals: Ints
    ends: Ints
    arguments: Ints


class TurnRow(NamedTuple):
    """The arrival that is being processed.

    - `side`: its side (0: left, 1: right). `row`: its row in the table of this side.
    - `slot`: the slot of its key.
    - `begin`, `now`: its start and end.
    """

    side: int
    row: int
    slot: int
    begin: int
    now: int


class PairSpec(NamedTuple):
    """The parameters of a join, read from the array `spec`. Most of them are flags:

    - `only_gap`: the relation only limits the time from the end of the left side to the start of the right side. So the
      right side completes the pair.
    - `orders`: values of both sides are compared.
    - `indexed`: searches may use the index of inequalities.
    - `tested`: the kernel tests a condition.
    - `computes`: the kernel reads the arguments of arrivals.
    - `backward`: partners are tried from the latest end on. `onward`: the link that leads to the next partner.
    - `longest`: of two partners that end together, the longer one is preferred.
    """

    policy: int
    within: int
    point: bool
    keeps_right: bool
    absence: int
    feedback: bool
    by_left: int
    by_right: int
    by_float: int
    width_left: int
    width_right: int
    supersedes: bool
    reach_left: int
    reach_right: int
    least_gap: int
    most_gap: int
    only_gap: bool
    orders: bool
    indexed: bool
    tested: bool
    computes: bool
    backward: bool
    onward: int
    longest: bool


@inside
def read_spec(spec, code):  # type: ignore[no-untyped-def]
    """Return the parameters of a join. `code`: the program of its condition."""
    policy = spec[S_POLICY]
    tie = spec[S_TIE]
    feedback = spec[S_FEEDBACK] != 0
    tested = code.shape[0] > 0 and (policy == CHRONOLOGICAL or feedback)
    backward = policy == RECENT
    return PairSpec(
        policy,
        spec[S_WITHIN],
        spec[S_POINT] != 0,
        spec[S_STORE_RIGHT] != 0,
        spec[S_ABSENCE],
        feedback,
        spec[S_BY_LEFT] if tie == 2 else -1,
        spec[S_BY_RIGHT] if tie == 2 else -1,
        spec[S_BY_FLOAT],
        spec[S_WIDTH_LEFT],
        spec[S_WIDTH_RIGHT],
        spec[S_SUPERSEDES] != 0,
        spec[S_REACH_LEFT],
        spec[S_REACH_RIGHT],
        spec[S_LEAST_GAP],
        spec[S_MOST_GAP],
        spec[S_BOUNDS] == 1 and spec[S_BOUNDS + 1] == 0 and spec[S_STORE_RIGHT] == 0,
        spec[S_ORDERS] > 0,
        spec[S_ORDERS] > 0 and not backward and not feedback,
        tested,
        tested or feedback or spec[S_ORDERS] > 0,
        backward,
        PREVIOUS if backward else NEXT,
        tie == 0 or (tie == 2 and backward),
    )


@inside
def note_until(absent, absences, x, count, now, point):  # type: ignore[no-untyped-def]
    """Store the negated rows that end before `now`.

    `x`: the first row of `absent` to store. `count`: the number of rows in the store, which must have room. Return the
    next row of `absent`, and the new number of stored rows.
    """
    while x < absent.table.shape[1] and absent.table[T_END, x] < now:
        ask_ahead(absences.hot, absences.chains, absent.slots, x, True, point, 0, False, 0, PREVIOUS)
        slot = absent.slots[x]
        if slot >= 0:
            note_absent(absences.hot, absences.cold, count, absent.table, x, slot, absences.chains, point)
            count += 1
        x += 1
    return x, count


@inside
def latest_start(absences, slot, begin):  # type: ignore[no-untyped-def]
    """Return the latest start among the negated rows of a key that ended before `begin`, or MISSING.

    `slot`: the slot of the key; -1 if there are no negated rows.
    """
    if slot < 0:
        return MISSING
    t = absences.chains[slot, 1]
    while t >= 0 and absences.hot[t, END] >= begin:
        t = absences.hot[t, PREVIOUS]
    return absences.hot[t, BEGIN] if t >= 0 else MISSING


@inside
def free_from(absence, absences, absent_key, cold, p, right, row, begin):  # type: ignore[no-untyped-def]
    """Return the latest start among the negated rows that ended before `begin` and have the key of a pair, or MISSING.

    The negated key is stored with row `p`, or is combined from row `p` of the store and row `row` of the right table.
    """
    slot = cold[p, OTHER]
    if absence == ABSENT_BOTH:
        slot = slot_of_both(absent_key.columns, cold, p, right, row, absent_key.key, absent_key.places, absent_key.keys)
    return latest_start(absences, slot, begin)


@bare
def slot_of_both(columns, cold, p, right, row, key, index, keys):  # type: ignore[no-untyped-def]
    """Return the slot of the negated event's key for a pair.

    `columns`: for each part of the key, a side (0: left, 1: right) and a column.
    """
    for k in range(columns.shape[0]):
        if columns[k, 0] == 0:
            key[k] = cold[p, HEADER + columns[k, 1]]
        else:
            key[k] = right[FIRST + columns[k, 1], row]
    return id_of(key, index, keys)


def still_absent(
    hot: Ints, cold: Ints, count: int, known: Keys, waiting: Ints, within: int, watermark: int
) -> tuple[Ints, Ints, int, Keys, Ints]:
    """Drop the negated rows that are not needed after the watermark.

    `waiting`: the stored rows of the other sides, in which the slots of negated keys are renumbered. Return the store,
    its number of rows, the keys and the chains.
    """
    hot, cold, count = kept(hot, cold, live(hot, cold, count, within, FOREVER, FOREVER, watermark))
    watching = np.flatnonzero(waiting[:, OTHER] >= 0)
    # Keep the keys of negated rows, and of left sides that refer to them by number.
    both = np.concatenate([cold[:count], waiting[watching][:, :HEADER]])
    both[count:, SLOT] = both[count:, OTHER]
    keys = renumber(both, len(both), known)
    cold[:count, SLOT] = both[:count, SLOT]
    chains = np.full((roomy(keys.count, 16), 2), -1, np.int64)
    relink(hot, cold, count, chains, True)
    waiting[watching, OTHER] = both[count:, SLOT]
    return hot, cold, count, keys, chains


@inside
def left_is_next(left, right, i, j):  # type: ignore[no-untyped-def]
    """Return True if row `i` of the left table is processed before row `j` of the right one. At least one exists.

    At equal arrival, the left row comes first.
    """
    if i >= left.shape[1]:
        return False
    if j >= right.shape[1]:
        return True
    if left[T_END, i] != right[T_END, j]:
        return left[T_END, i] < right[T_END, j]
    if left[START, i] != right[START, j]:
        return left[START, i] < right[START, j]
    return left[ORDER, i] <= right[ORDER, j]


@inside
def better(longest, by, by_float, hot, cold, p, best):  # type: ignore[no-untyped-def]
    """Return True if partner `p` is preferred to `best`, which has the same end.

    `by`: the column that decides, or -1.
    """
    if by >= 0:
        return sortable(cold[p, HEADER + by], by_float) > sortable(cold[best, HEADER + by], by_float)
    if longest:
        return hot[p, BEGIN] < hot[best, BEGIN]
    return hot[p, BEGIN] > hot[best, BEGIN]


@inside
def expire(hot, chains, slot, chain, limit):  # type: ignore[no-untyped-def]
    """Remove the rows that ended before `limit` from a chain. The chain must be in order of ends."""
    p = chains[np.uint64(slot), chain]
    while p >= 0 and hot[np.uint64(p), END] < limit:
        after = hot[np.uint64(p), NEXT]
        unlink(hot, chains, slot, chain, p)
        p = after


@inside
def first_partner(hot, chains, slot, chain, backward, floor):  # type: ignore[no-untyped-def]
    """Return the row at which a search begins, or -1.

    It is the row that ends last if `backward`, and otherwise the first row that does not end before `floor`.
    """
    if backward:
        return chains[slot, chain + 1]
    if floor == MISSING:
        return chains[slot, chain]
    p = chains[slot, chain + 1]
    first = -1
    while p >= 0 and hot[p, END] >= floor:
        first = p
        p = hot[p, PREVIOUS]
    return first


@inside
def fed_back(rule, head, waiting, condition, arrival, count, p, start, order):  # type: ignore[no-untyped-def]
    """Derive an occurrence from a pair, and add the occurrence as a left row, at row `count` of the store.

    Return False if an equal occurrence exists already. The programs of `head` use the stack of `condition`.
    """
    begun = np.int64(0)  # with a literal 0, numba would compile `run` once more
    for h in range(head.ends.shape[0]):
        run(
            head.code, begun, head.ends[h], head.literals, condition.stack,
            waiting.cold, p, HEADER, condition.current, arrival.side == 1, start, arrival.now,
        )  # fmt: skip
        head.arguments[h] = condition.stack[0]
        begun = head.ends[h]
    if not feed(waiting, count, arrival, start, order, head.arguments, rule.width_left):
        return False
    if rule.supersedes:
        supersede(waiting.hot, waiting.chains, arrival.slot, 0, rule.within, arrival.now)
    return True


@inside
def reach(rule, arrival):  # type: ignore[no-untyped-def]
    """Return the earliest end that a partner of the arrival can have."""
    return arrival.now - min(rule.within, rule.reach_left if arrival.side == 1 else rule.reach_right)


@inside
def begin_search(spec, rule, waiting, absences, index, arrival, absent_slot, table):  # type: ignore[no-untyped-def]
    """Begin the search for partners of an arrival. Return the first row to try (-1: none), and a floor.

    The floor is the earliest end of a left row that can match. It follows from the longest gap of the relation. Under
    NOT, if the arrival alone determines the negated key (`absent_slot`), it also follows from the latest negated row.
    Rows that can never match again are removed from the chain. `table`: the table that contains the arrival.
    """
    hot, chains, slot, chain = waiting.hot, waiting.chains, arrival.slot, 2 - 2 * arrival.side
    expire(hot, chains, slot, chain, reach(rule, arrival))
    gap_floor = arrival.begin - rule.most_gap if arrival.side == 1 and rule.most_gap < FOREVER else MISSING
    floor = gap_floor
    dropped = False
    if rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT:
        free = latest_start(absences, absent_slot, arrival.begin)
        floor = max(floor, free)
        dropped = rule.point and rule.absence == ABSENT_COMMON and not rule.backward
        if dropped:  # later right sides cannot match them either
            expire(hot, chains, slot, chain, free)
    if rule.indexed:
        index.cursor[WASTED] = 0
        index.cursor[BY_TREE] = index.roots[slot, chain] >= 0
        if index.cursor[BY_TREE] == 1:
            if open_search(index, spec, S_ORDERS, slot, 1 - arrival.side, floor, table, arrival.row):
                return next_found(index, spec[S_ORDERS] + 1, hot), floor
            return np.int64(-1), floor
    return first_partner(hot, chains, slot, chain, rule.backward, gap_floor if dropped else floor), floor


@inside
def holds(condition, cold, p, arrival, start):  # type: ignore[no-untyped-def]
    """Return True if the condition holds for row `p` of the store and the arrival."""
    # np.int64(0) instead of a literal 0, for which numba would compile `run` once more.
    return (
        run(
            condition.code, np.int64(0), condition.code.shape[0], condition.literals, condition.stack,
            cold, p, HEADER, condition.current, arrival.side == 1, start, arrival.now,
        )
        == 1
    )  # fmt: skip


@inside
def ordered(spec, rows, p, offset, current, partner_is_left):  # type: ignore[no-untyped-def]
    """Return True if a partner and the arrival satisfy all inequalities of the join.

    - `rows`, `p`: the array and the row of the partner. `offset`: the column of its first argument.
    - `current`: the arguments of the arrival.

    A missing value satisfies no inequality.
    """
    for place in range(S_ORDERS + 1, S_ORDERS + 1 + 4 * spec[S_ORDERS], 4):
        left, right = spec[place + 1], spec[place + 2]
        if partner_is_left:
            mine, other = rows[p, offset + left], current[right]
        else:
            mine, other = current[left], rows[p, offset + right]
        mine, other = sortable(mine, spec[place + 3]), sortable(other, spec[place + 3])
        which = spec[place]
        if mine == MISSING or other == MISSING:
            return False
        if which == 0:
            fits = mine < other
        elif which == 1:
            fits = mine <= other
        elif which == 2:
            fits = mine > other
        else:
            fits = mine >= other
        if not fits:
            return False
    return True


@inside
def following(spec, rule, index, hot, p):  # type: ignore[no-untyped-def]
    """Return the row that a search tries after row `p`, or -1."""
    if rule.indexed and index.cursor[BY_TREE] == 1:
        return next_found(index, spec[S_ORDERS] + 1, hot)
    return hot[p, rule.onward]


@inside
def next_partner(  # type: ignore[no-untyped-def]
    spec, rule, waiting, absences, absent_key, index, left, right, condition, arrival, p, best, limit, floor
):
    """Return the next partner of an arrival, starting with row `p`, or -1.

    `best`: the best partner so far, or -1. Partners that end worse than `best` are not returned: earlier if `backward`,
    otherwise later.
    """
    hot = waiting.hot
    cold = waiting.cold
    begin = arrival.begin
    now = arrival.now
    unfit = 0
    while p >= 0:
        end = hot[p, END]
        if rule.backward:
            if end < limit or end < floor or (best >= 0 and end < hot[best, END]):
                break
        elif (arrival.side == 1 and end > begin - rule.least_gap) or (best >= 0 and end > hot[best, END]):
            break
        if rule.only_gap:  # the floor checks the longest gap
            fits = end <= begin - rule.least_gap
        elif arrival.side == 1:
            fits = relates(spec, S_BOUNDS, hot[p, BEGIN], end, begin, now)
        else:
            fits = relates(spec, S_BOUNDS, begin, now, hot[p, BEGIN], end)
        start = min(begin, hot[p, BEGIN])
        fits = fits and now - start <= rule.within
        if fits and rule.orders:
            fits = ordered(spec, cold, p, HEADER, condition.current, arrival.side == 1)
            unfit += not fits
        if fits and rule.absence >= ABSENT_LEFT:
            fits = free_from(rule.absence, absences, absent_key, cold, p, right, arrival.row, begin) <= end
        if fits and rule.tested and rule.policy != RECENT:
            fits = holds(condition, cold, p, arrival, start)
        if fits:
            if rule.indexed:
                index.cursor[WASTED] += unfit - FITTING
            return p
        p = following(spec, rule, index, hot, p)
    if rule.indexed:
        index.cursor[WASTED] += unfit
    return -1


@inside
def note_in_index(spec, rule, waiting, index, used, arrival, mine):  # type: ignore[no-untyped-def]
    """Append an arrival to the tree of its chain. If the search of the arrival lacked a tree, build this tree.

    `mine`: the stored row of the arrival, or -1. Return the number of used nodes, and True if there was too little
    room.
    """
    hot, cold, side = waiting.hot, waiting.cold, np.int64(arrival.side)
    lacking = False
    if mine >= 0 and index.roots[arrival.slot, 2 * side] >= 0:
        now = append(index, used, spec, S_ORDERS, arrival.slot, side, hot, cold, mine)
        lacking = now < 0
        if lacking:
            index.roots[arrival.slot, 2 * side] = -1
        else:
            used = now
    if index.cursor[BY_TREE] == 1 or not (side == 1 or rule.keeps_right):
        return used, lacking
    wasted = index.cursor[WASTED]
    index.cursor[ALL_WASTED] = min(max(index.cursor[ALL_WASTED] + wasted, np.int64(0)), np.int64(MOST_WASTED))
    if wasted > PASSED and index.cursor[ALL_WASTED] > SEARCHES * wasted:
        now = build(index, used, spec, S_ORDERS, waiting.chains, arrival.slot, 1 - side, hot, cold)
        if now < 0:
            lacking = True
        else:
            used = now
    return used, lacking


@bare
def pair(  # type: ignore[no-untyped-def]
    spec, left, right, absent, waiting, absences, absent_key, index, condition, head, pairs, state
):
    """Process arrivals of both sides in order, and pair them with stored rows and with each other.

    - `left`, `right`, `absent`: the fields of SideRows. `waiting`, `absences`: the fields of Waiting. The other
      arguments are as in `pair_input`. All are plain tuples, which numba passes in half the time of named tuples.
    - `left.absent`: with feedback, it contains numbers that distinguish equal left rows, or is empty.
    - `pairs`: the output. A row is (left row, right row, side that completes, derived row), as row numbers of the
      store. If right rows are not stored, the right row number is that of the table.

    Return True if all arrivals are processed. Otherwise `pairs` or the store is full; the caller must enlarge it and
    call again. `state` has the position at which the kernel continues (A_I and so on). Each step writes at most one
    pair and one row before it checks the room again. The store of the negated side must have room for all its arrivals.
    """
    left, right, absent = SideRows(*left), SideRows(*right), SideRows(*absent)
    waiting, absences, absent_key = Waiting(*waiting), Waiting(*absences), AbsentKey(*absent_key)
    index = InequalityIndex(*index)
    condition, head = DecidingCode(*condition), HeadCode(*head)
    rule = read_spec(spec, condition.code)
    hot = waiting.hot
    cold = waiting.cold
    chains = waiting.chains
    n_left = left.table.shape[1]
    n_right = right.table.shape[1]
    paired = state[A_MADE]
    count = state[A_COUNT]
    absent_count = state[A_ABSENT]
    i = state[A_I]
    j = state[A_J]
    x = state[A_X]
    resumed = state[A_RESUME]
    side = state[A_SIDE]
    row = state[A_ROW]
    mine = state[A_MINE]
    floor = state[A_FLOOR]
    nodes = state[A_NODES]
    lacking = False
    room = min(hot.shape[0], cold.shape[0])
    full = False
    while resumed >= 0 or i < n_left or j < n_right:
        full = paired == pairs.shape[0] or count == room or lacking
        if full:
            break
        if resumed < 0:
            side = 0 if left_is_next(left.table, right.table, i, j) else 1
            ask_for_next(rule, waiting, absences, left, right, i, j, side)
            row = j if side == 1 else i
            i += 1 - side
            j += side
        if side == 0:
            arrival = TurnRow(side, row, left.slots[row], left.table[START, row], left.table[T_END, row])
        else:
            arrival = TurnRow(side, row, right.slots[row], right.table[START, row], right.table[T_END, row])
        slot = arrival.slot

        if resumed < 0:
            if rule.absence != NO_ABSENCE:
                x, absent_count = note_until(absent, absences, x, absent_count, arrival.now, rule.point)
            if slot < 0:
                continue
            mine = row
            if side == 0:
                if (
                    rule.feedback
                    and (left.absent.shape[0] == 0 or left.absent[row] == 0)
                    and known(hot, cold, chains, slot, left.table, row, rule.width_left)
                ):
                    continue
                put(hot, cold, count, left.table, row, slot, 0, rule.width_left)
                if rule.absence == ABSENT_LEFT:
                    cold[count, OTHER] = left.absent[row]
                mine = count
                count += 1
            elif rule.keeps_right:
                put(hot, cold, count, right.table, row, slot, 1, rule.width_right)
                mine = count
                count += 1

        matched = False
        if side == 1 or rule.keeps_right:
            if rule.computes:
                read_arguments(rule, left.table, right.table, arrival, condition.current)
            p = resumed
            if resumed < 0:
                known_absent = rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT
                p, floor = begin_search(
                    spec, rule, waiting, absences, index, arrival, right.absent[row] if known_absent else -1,
                    right.table if side == 1 else left.table,
                )  # fmt: skip
            resumed = -1
            best = np.int64(-1)
            limit = reach(rule, arrival)
            while True:
                p = next_partner(
                    spec, rule, waiting, absences, absent_key, index, left.table, right.table, condition, arrival, p,
                    best, limit, floor,
                )  # fmt: skip
                chosen = p
                if rule.policy == UNRESTRICTED:
                    if p < 0:
                        break
                    full = paired == pairs.shape[0] or (rule.feedback and count == room)
                    if full:
                        resumed = p
                        break
                    p = following(spec, rule, index, hot, p)
                elif p >= 0:
                    by = rule.by_right if side == 0 else rule.by_left
                    if best < 0 or better(rule.longest, by, rule.by_float, hot, cold, p, best):
                        best = p
                    p = following(spec, rule, index, hot, p)
                    continue
                else:
                    if best < 0:
                        break
                    chosen = best
                    if rule.policy == CHRONOLOGICAL:
                        matched = True
                        unlink(hot, chains, slot, 2 - 2 * side, best)

                start = min(arrival.begin, hot[chosen, BEGIN])
                if rule.tested and rule.policy == RECENT and not holds(condition, cold, chosen, arrival, start):
                    break
                derived = -1
                if rule.feedback:
                    order = right.table[ORDER, row]
                    if fed_back(rule, head, waiting, condition, arrival, count, chosen, start, order):
                        derived = count
                        count += 1
                if not rule.feedback or derived >= 0:
                    pairs[paired, 0] = chosen if side == 1 else mine
                    pairs[paired, 1] = mine if side == 1 else chosen
                    pairs[paired, 2] = side
                    pairs[paired, 3] = derived
                    paired += 1
                if rule.policy != UNRESTRICTED:
                    break
        if full:
            break
        if side == 0 or rule.keeps_right:
            if matched:
                hot[mine, NEXT] = GONE
            elif rule.feedback:
                link_sorted(hot, cold, chains, slot, 0, mine)
            else:
                link(hot, chains, slot, 2 * side, mine)
            if rule.supersedes and side == 0:
                supersede(hot, chains, slot, 0, rule.within, arrival.now)
        if rule.indexed:
            waits = (side == 0 or rule.keeps_right) and not matched
            nodes, lacking = note_in_index(spec, rule, waiting, index, nodes, arrival, mine if waits else np.int64(-1))
    if not full and rule.absence != NO_ABSENCE:
        x, absent_count = note_until(absent, absences, x, absent_count, np.int64(FOREVER), rule.point)
    state[A_RESUME] = resumed
    state[A_SIDE] = side
    state[A_ROW] = row
    state[A_MINE] = mine
    state[A_FLOOR] = floor
    state[A_I] = i
    state[A_J] = j
    state[A_X] = x
    state[A_COUNT] = count
    state[A_ABSENT] = absent_count
    state[A_MADE] = paired
    state[A_NODES] = nodes
    state[A_LACKING] = lacking
    return not full


@inside
def ask_for_next(rule, waiting, absences, left, right, i, j, side):  # type: ignore[no-untyped-def]
    """Prefetch the memory that later arrivals of a side will need."""
    from_tail = 1 if rule.backward else 0
    hot, chains, keeps = waiting.hot, waiting.chains, rule.keeps_right
    if side == 0:
        ask_ahead(hot, chains, left.slots, i, True, rule.supersedes, 0, keeps, 2 + from_tail, rule.onward)
    else:
        ask_ahead(hot, chains, right.slots, j, keeps, False, 2, True, from_tail, rule.onward)
        if rule.absence == ABSENT_COMMON or rule.absence == ABSENT_RIGHT:
            ask_absent_ahead(absences.hot, absences.chains, right.absent, j)


@inside
def read_arguments(rule, left, right, arrival, current):  # type: ignore[no-untyped-def]
    """Copy the arguments of the arrival into `current`, which must have room for the arguments of either side."""
    if arrival.side == 0:
        for k in range(rule.width_left):
            current[k] = left[FIRST + k, arrival.row]
    else:
        for k in range(rule.width_right):
            current[k] = right[FIRST + k, arrival.row]
