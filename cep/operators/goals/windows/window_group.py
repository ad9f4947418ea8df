"""A group's window: rows enter it and leave it, a result is given, all that is in it goes.

Sliding forms keep each group's rows as a chain with two stacks of partial results, as `two_stacks` does,
whose header of a row this shares. Groups with something in their windows form a list in the order in which
something last entered them.
"""

from __future__ import annotations

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.partial import DISTINCT, lift
from cep.operators.goals.windows.two_stacks import (
    BEGIN,
    END,
    G_BACK,
    G_COUNT,
    G_HEAD,
    G_START,
    G_TAIL,
    HEADER,
    LEAST,
    NAME,
    NEXT,
    PREVIOUS,
    SLOT,
    drop_oldest,
    tally,
)
from cep.operators.goals.windows.wide_partial import MODE, MODE_FLOAT, WORDS, join, of_order, single, sorts, worth

# Behind the header, for each result: its value, what it is sorted by, and its partial result. What is in no partial
# result has the place of its tally there instead.
VALUE, RANK, PARTIAL = 0, 1, 2
CELLS = PARTIAL + WORDS

# A group: as in a sliding window; then when its window is over (EVERY: when results are due), the end and the arrival
# of what entered last, which in the order of all that entered, the neighbours in the list; then a partial result each.
# What is sorted has the root of its tree there, from 1.
G_DUE, G_END, G_ORDER, G_SEQUENCE, G_BEFORE, G_AFTER = range(5, 11)
GROUP = 11

# What goes on from step to step: the trees' nodes, rows, tallies, the ends of the list of groups, how many entered, and
# EVERY's next time.
ROWS, TALLIES, HEAD, TAIL, ENTERED, TICK = range(ordered_multiset.SHARED, ordered_multiset.SHARED + 6)
STATE = ordered_multiset.SHARED + 6


@bare
def enter_sorted(store, p, k, kind, slot, groups, results, nodes, tally_index, tallies, state):  # type: ignore[no-untyped-def]
    """A row's value comes into its group's tree, or among its distinct values."""
    at, cell = GROUP + WORDS * k, HEADER + CELLS * k
    value = store[p, cell + VALUE]
    if lift(kind, value) == 0:
        return
    rank = store[p, cell + RANK]
    root = groups[slot, at] - 1
    if kind == DISTINCT or kind == MODE or kind == MODE_FLOAT:
        where = tally(tally_index, tallies, state[TALLIES], slot * results + k, value)
        state[TALLIES] += where == state[TALLIES]
        store[p, cell + PARTIAL] = where
        times = tallies[where, 2]
        tallies[where, 2] = times + 1
        if kind == DISTINCT:
            groups[slot, at] += times == 0
            return
        if times > 0:
            root = ordered_multiset.remove(nodes, state, root, times, ~rank)
        root = ordered_multiset.add(nodes, state, root, times + 1, ~rank, value)
    else:
        root = ordered_multiset.add(nodes, state, root, rank, 0, value)
        groups[slot, at + 1] += 1
    groups[slot, at] = root + 1


@bare
def leave_sorted(store, p, k, kind, slot, groups, nodes, tallies, state):  # type: ignore[no-untyped-def]
    """A row's value leaves them."""
    at, cell = GROUP + WORDS * k, HEADER + CELLS * k
    if lift(kind, store[p, cell + VALUE]) == 0:
        return
    value, rank = store[p, cell + VALUE], store[p, cell + RANK]
    root = groups[slot, at] - 1
    if kind == DISTINCT or kind == MODE or kind == MODE_FLOAT:
        where = store[p, cell + PARTIAL]
        times = tallies[where, 2]
        tallies[where, 2] = times - 1
        if kind == DISTINCT:
            groups[slot, at] -= times == 1
            return
        root = ordered_multiset.remove(nodes, state, root, times, ~rank)
        if times > 1:
            root = ordered_multiset.add(nodes, state, root, times - 1, ~rank, value)
    else:
        root = ordered_multiset.remove(nodes, state, root, rank, 0)
        groups[slot, at + 1] -= 1
    groups[slot, at] = root + 1


@bare
def fold(store, slot, groups, kinds, parameters):  # type: ignore[no-untyped-def]
    """The back part becomes the front: each row gets the result from itself to the youngest."""
    younger = -1
    p = groups[slot, G_TAIL]
    while p >= 0:
        store[p, LEAST] = store[p, BEGIN] if younger < 0 else min(store[p, BEGIN], store[younger, LEAST])
        for k in range(kinds.shape[0]):
            kind = kinds[k]
            if kind == DISTINCT or sorts(kind):
                continue
            cell = HEADER + CELLS * k
            at = cell + PARTIAL
            single(kind, store[p, cell + VALUE], store[p, END], store, p, at)
            if younger >= 0:
                join(kind, parameters[k], store, p, at, store, younger, at, store, p, at)
        younger = p
        p = store[p, PREVIOUS]
    groups[slot, G_BACK] = -1
    groups[slot, G_START] = 0
    for k in range(kinds.shape[0]):
        if kinds[k] != DISTINCT and not sorts(kinds[k]):
            groups[slot, GROUP + WORDS * k] = 0


@bare
def leave(store, slot, groups, kinds, parameters, nodes, tallies, state):  # type: ignore[no-untyped-def]
    """A group's oldest row leaves its window."""
    head = groups[slot, G_HEAD]
    if head == groups[slot, G_BACK]:
        fold(store, slot, groups, kinds, parameters)
    for k in range(kinds.shape[0]):
        if kinds[k] == DISTINCT or sorts(kinds[k]):
            leave_sorted(store, head, k, kinds[k], slot, groups, nodes, tallies, state)
    if drop_oldest(store, groups, slot) < 0:
        groups[slot, G_BACK] = -1


@inside
def unlink(groups, slot, state):  # type: ignore[no-untyped-def]
    """A group is taken out of the list."""
    before, after = groups[slot, G_BEFORE], groups[slot, G_AFTER]
    if before >= 0:
        groups[before, G_AFTER] = after
    else:
        state[HEAD] = after
    if after >= 0:
        groups[after, G_BEFORE] = before
    else:
        state[TAIL] = before


@inside
def link(groups, slot, state):  # type: ignore[no-untyped-def]
    """A group comes to the end of the list."""
    last = state[TAIL]
    groups[slot, G_BEFORE] = last
    groups[slot, G_AFTER] = -1
    if last >= 0:
        groups[last, G_AFTER] = slot
    else:
        state[HEAD] = slot
    state[TAIL] = slot


@bare
def clear(store, slot, groups, kinds, nodes, tallies, state):  # type: ignore[no-untyped-def]
    """A group's window is over: all that is in it goes, and the group leaves the list."""
    unlink(groups, slot, state)
    p = groups[slot, G_HEAD]
    while p >= 0:
        store[p, SLOT] = -1
        for k in range(kinds.shape[0]):
            cell = HEADER + CELLS * k
            counted = kinds[k] == DISTINCT or kinds[k] == MODE or kinds[k] == MODE_FLOAT
            if counted and lift(kinds[k], store[p, cell + VALUE]) == 1:
                tallies[store[p, cell + PARTIAL], 2] -= 1
        p = store[p, NEXT]
    for k in range(kinds.shape[0]):
        at = GROUP + WORDS * k
        if sorts(kinds[k]):
            ordered_multiset.give_up(nodes, state, groups[slot, at] - 1)
        groups[slot, at] = 0
        groups[slot, at + 1] = 0
    groups[slot, G_HEAD] = -1
    groups[slot, G_TAIL] = -1
    groups[slot, G_BACK] = -1
    groups[slot, G_COUNT] = 0
    groups[slot, G_START] = 0


@bare
def give(made, out, slot, end, kinds, parameters, store, groups, nodes, keys, scratch):  # type: ignore[no-untyped-def]
    """A group's result, ending then, as row `out`; there is room for it."""
    width = keys.shape[1]
    head, back = groups[slot, G_HEAD], groups[slot, G_BACK]
    start = groups[slot, G_START]
    if head != back:
        start = store[head, LEAST] if back < 0 else min(start, store[head, LEAST])
    made[out, START] = start
    made[out, T_END] = end
    made[out, ORDER] = groups[slot, G_ORDER]
    made[out, IDENTITY] = 0
    for k in range(width):
        made[out, FIRST + k] = keys[slot, k]
    for k in range(kinds.shape[0]):
        kind, at = kinds[k], GROUP + WORDS * k
        column = FIRST + width + k
        if kind == DISTINCT:
            made[out, column] = groups[slot, at]
        elif sorts(kind):
            made[out, column] = of_order(kind, parameters[k], nodes, groups[slot, at] - 1, groups[slot, at + 1])
        elif head == back:
            made[out, column] = worth(kind, parameters[k], groups, slot, at)
        else:
            front = HEADER + CELLS * k + PARTIAL
            join(kind, parameters[k], store, head, front, groups, slot, at, scratch, 0, 0)
            made[out, column] = worth(kind, parameters[k], scratch, 0, 0)


@bare
def name(edges, count, out, store, head):  # type: ignore[no-untyped-def]
    """The rows of a window from its oldest on as parts of result `out`; gives how many edges there are then."""
    while head >= 0:
        edges[count, 0] = out
        edges[count, 1] = store[head, NAME]
        count += 1
        head = store[head, NEXT]
    return count


@njit(cache=True)
def rebuild(store, groups, kinds, nodes, tally_index, tallies, state, trees):  # type: ignore[no-untyped-def]
    """The tallies of all rows in windows, and with `trees` the trees: new, from empty ones. There is room for each
    row's value of each that counts or sorts."""
    results = kinds.shape[0]
    for k in range(results):
        counted = kinds[k] == DISTINCT or kinds[k] == MODE or kinds[k] == MODE_FLOAT
        if trees and (counted or sorts(kinds[k])):
            for slot in range(groups.shape[0]):
                groups[slot, GROUP + WORDS * k] = 0
                groups[slot, GROUP + WORDS * k + 1] = 0
        for p in range(state[ROWS]):
            if store[p, SLOT] < 0:
                continue
            if trees and (counted or sorts(kinds[k])):
                enter_sorted(
                    store, p, k, kinds[k], store[p, SLOT], groups, results, nodes, tally_index, tallies, state
                )  # fmt: skip
            elif counted and lift(kinds[k], store[p, HEADER + CELLS * k + VALUE]) == 1:
                cell = HEADER + CELLS * k
                where = tally(
                    tally_index, tallies, state[TALLIES], store[p, SLOT] * results + k, store[p, cell + VALUE]
                )  # fmt: skip
                state[TALLIES] += where == state[TALLIES]
                tallies[where, 2] += 1
                store[p, cell + PARTIAL] = where
