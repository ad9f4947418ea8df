"""A group's window: rows enter it and leave it, a result is given, all that is in it goes.

Sliding forms keep each group's rows as a chain with two stacks of partial results, as `two_stacks` does,
whose header of a row this shares. Groups with something in their windows form a list in the order in which
something last entered them.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING, NAN, grow
from cep.operators.goals.store import sortable
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
)
from cep.operators.goals.windows.wide_partial import MODE, MODE_FLOAT, WORDS, join, of_order, single, sorts, worth

# Behind the header, for each result: its value, what it is sorted by, and its partial result.
VALUE, RANK, PARTIAL = 0, 1, 2
CELLS = PARTIAL + WORDS

# A group: as in a sliding window; then when its window is over (EVERY: when results are due), the end and the arrival
# of what entered last, which in the order of all that entered, the neighbours in the list; then a partial result each.
# What is sorted has the root of its tree there, from 1, and how many are in it; a mode how often its value is in (0:
# that is to be looked up) and the rank of that.
G_DUE, G_END, G_ORDER, G_SEQUENCE, G_BEFORE, G_AFTER = range(5, 11)
GROUP = 11
AMONG = 1
MOST, MODAL = 1, 2

# What goes on from step to step: the trees' nodes, rows, the ends of the list of groups, how many entered, and EVERY's
# next time.
ROWS, HEAD, TAIL, ENTERED, TICK = range(ordered_multiset.SHARED, ordered_multiset.SHARED + 5)
STATE = ordered_multiset.SHARED + 5


@bare
def enter_sorted(store, p, k, kind, slot, groups, nodes, state):  # type: ignore[no-untyped-def]
    """A row's value comes into its group's tree; there is room for SPLITS nodes."""
    at, cell = GROUP + WORDS * k, HEADER + CELLS * k
    if lift(kind, store[p, cell + VALUE]) == 0:
        return
    rank, root = store[p, cell + RANK], groups[slot, at] - 1
    frequency = kind == MODE or kind == MODE_FLOAT
    fresh, times = ordered_multiset.add(nodes, state, root, rank, frequency)
    groups[slot, at] = fresh + 1
    if frequency:
        most = groups[slot, at + MOST]
        if root < 0 or (most > 0 and (times > most or (times == most and rank < groups[slot, at + MODAL]))):
            groups[slot, at + MOST] = times
            groups[slot, at + MODAL] = rank
    elif kind != DISTINCT or times == 1:
        groups[slot, at + AMONG] += 1


@bare
def leave_sorted(store, p, k, kind, slot, groups, nodes, state):  # type: ignore[no-untyped-def]
    """A row's value leaves it."""
    at, cell = GROUP + WORDS * k, HEADER + CELLS * k
    if lift(kind, store[p, cell + VALUE]) == 0:
        return
    rank = store[p, cell + RANK]
    frequency = kind == MODE or kind == MODE_FLOAT
    root, times = ordered_multiset.remove(nodes, state, groups[slot, at] - 1, rank, frequency)
    groups[slot, at] = root + 1
    if frequency:
        if rank == groups[slot, at + MODAL]:
            groups[slot, at + MOST] = 0
    elif kind != DISTINCT or times == 0:
        groups[slot, at + AMONG] -= 1


@bare
def of_sorted(kind, parameter, slot, at, groups, nodes):  # type: ignore[no-untyped-def]
    """The bits of what a group's tree comes to; of a MODE its rank."""
    root = groups[slot, at] - 1
    if kind == DISTINCT:
        return groups[slot, at + AMONG]
    if kind != MODE and kind != MODE_FLOAT:
        return of_order(kind, parameter, nodes, root, groups[slot, at + AMONG])
    if root < 0:
        return MISSING if kind == MODE else NAN
    if groups[slot, at + MOST] == 0:
        rank, times = ordered_multiset.most_frequent(nodes, root)
        groups[slot, at + MOST] = times
        groups[slot, at + MODAL] = rank
    rank = groups[slot, at + MODAL]
    return rank if kind == MODE else sortable(rank, 1)


@bare
def fold(store, slot, groups, kinds, parameters):  # type: ignore[no-untyped-def]
    """The back part becomes the front: each row gets the result from itself to the youngest."""
    younger = -1
    p = groups[slot, G_TAIL]
    while p >= 0:
        store[p, LEAST] = store[p, BEGIN] if younger < 0 else min(store[p, BEGIN], store[younger, LEAST])
        for k in range(kinds.shape[0]):
            kind = kinds[k]
            if sorts(kind):
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
        if not sorts(kinds[k]):
            groups[slot, GROUP + WORDS * k] = 0


@bare
def leave(store, slot, groups, kinds, parameters, nodes, state):  # type: ignore[no-untyped-def]
    """A group's oldest row leaves its window."""
    head = groups[slot, G_HEAD]
    if head == groups[slot, G_BACK]:
        fold(store, slot, groups, kinds, parameters)
    for k in range(kinds.shape[0]):
        if sorts(kinds[k]):
            leave_sorted(store, head, k, kinds[k], slot, groups, nodes, state)
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
def clear(store, slot, groups, kinds, nodes, state):  # type: ignore[no-untyped-def]
    """A group's window is over: all that is in it goes."""
    p = groups[slot, G_HEAD]
    while p >= 0:
        store[p, SLOT] = -1
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
    """A group's result, ending then, as row `out`, in which there is room; its identity is the sequence of what entered
    last."""
    width = keys.shape[1]
    head, back = groups[slot, G_HEAD], groups[slot, G_BACK]
    start = groups[slot, G_START]
    if head != back:
        start = store[head, LEAST] if back < 0 else min(start, store[head, LEAST])
    made[out, START] = start
    made[out, T_END] = end
    made[out, ORDER] = groups[slot, G_ORDER]
    made[out, IDENTITY] = groups[slot, G_SEQUENCE]
    for k in range(width):
        made[out, FIRST + k] = keys[slot, k]
    for k in range(kinds.shape[0]):
        kind, at = kinds[k], GROUP + WORDS * k
        column = FIRST + width + k
        if sorts(kind):
            made[out, column] = of_sorted(kind, parameters[k], slot, at, groups, nodes)
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


@njit()
def rebuild(store, groups, kinds, nodes, state):  # type: ignore[no-untyped-def]
    """All trees anew, from the rows in windows. Gives their nodes, in a larger array where they had no room."""
    state[ordered_multiset.USED] = 0
    state[ordered_multiset.FREE] = -1
    for k in range(kinds.shape[0]):
        if not sorts(kinds[k]):
            continue
        for slot in range(groups.shape[0]):
            for word in range(WORDS):
                groups[slot, GROUP + WORDS * k + word] = 0
        for p in range(state[ROWS]):
            if store[p, SLOT] >= 0:
                if state[ordered_multiset.USED] + ordered_multiset.SPLITS > nodes.shape[0]:
                    nodes = grow(nodes, state[ordered_multiset.USED] + ordered_multiset.SPLITS)
                enter_sorted(store, p, k, kinds[k], store[p, SLOT], groups, nodes, state)
    return nodes


@njit()
def gathered(store, groups, numbers, total, capacity):  # type: ignore[no-untyped-def]
    """The groups that get a number, so many in all, with the rows that are in their windows, a group's together in
    their order: (store, groups, how many rows). The store has room for `capacity` times as many rows, and for all."""
    places = np.zeros(total + 1, np.int64)
    for p in range(store.shape[0]):
        if store[p, SLOT] >= 0 and numbers[store[p, SLOT]] >= 0:
            places[numbers[store[p, SLOT]] + 1] += 1
    for number in range(total):
        places[number + 1] += places[number]
    count = places[total]
    fresh = np.empty((max(1, capacity) * count, store.shape[1]), np.int64)
    chosen = np.empty((total, groups.shape[1]), np.int64)
    for slot in range(groups.shape[0]):
        number = numbers[slot]
        if number >= 0:
            chosen[number] = groups[slot]
            filled = places[number] < places[number + 1]
            chosen[number, G_HEAD] = places[number] if filled else -1
            chosen[number, G_TAIL] = places[number + 1] - 1 if filled else -1
            chosen[number, G_BACK] = -1
    for p in range(store.shape[0]):
        slot = store[p, SLOT]
        number = numbers[slot] if slot >= 0 else -1
        if number < 0:
            continue
        at = places[number]
        places[number] += 1
        fresh[at] = store[p]
        fresh[at, SLOT] = number
        fresh[at, PREVIOUS] = at - 1 if at > chosen[number, G_HEAD] else -1
        fresh[at, NEXT] = at + 1 if at < chosen[number, G_TAIL] else -1
        if p == groups[slot, G_BACK]:
            chosen[number, G_BACK] = at
    return fresh, chosen, count
