"""Sliding windows in constant time per event: two stacks of partial results per group, without subtraction or drift.

A group's window is a chain of rows, oldest first, in two parts. Each row of the front part stores the aggregate of
itself and all younger rows of the front. The back part has one running aggregate. The result of a window combines the
front's first row with the back. When the front is empty, the back is folded into a new front, from the youngest row on.
(This is the two-stack queue of functional programming; cf. Tangwongsan, Hirzel, Schneider, Wu: General Incremental
Sliding-Window Aggregation, PVLDB 8(7), 2015.)

A partial result is three cells (n, x, y): the number of its values, and two that depend on the function.
"""

from __future__ import annotations

import numpy as np

from cep.core.array_capacity import SPARE
from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.contract import Ints
from cep.operators.goals.intrinsics import inside, prefetch
from cep.operators.goals.keys import MISSING, NAN, grow, id_of_two
from cep.operators.goals.windows.partial_aggregates import DISTINCT, combine, lift, outcome

# Columns of a row: header (LEAST: the least start from it to the youngest of the front), then four cells per result.
BEGIN, END, NEXT, PREVIOUS, ARRIVAL, NAME, SLOT, LEAST = range(8)
HEADER = 8

# Columns of a group: chain, first row of the back part, its number of rows; least start and results of the back.
G_HEAD, G_TAIL, G_BACK, G_COUNT, G_START = 0, 1, 2, 3, 4
GROUP = 5


@inside
def tally(index, tallies, count, slot, value):  # type: ignore[no-untyped-def]
    """Return the place of (group, value) among the tallies, which must have room; `count` itself if it is new."""
    where = id_of_two(slot, value, index, tallies, count)
    if where == count:
        tallies[where, 2] = 0
    return where


@inside
def enter_row(store, groups, table, i, p, slot, begin):  # type: ignore[no-untyped-def]
    """Copy row `i` of the table to row `p` of the store, as the youngest of its group's chain. The store must have
    room.

    Returns True if the back part was empty. The caller updates the group's count, start and results.
    """
    store[p, BEGIN] = begin
    store[p, END] = table[T_END, i]
    store[p, NEXT] = -1
    store[p, ARRIVAL] = table[ORDER, i]
    store[p, NAME] = table[IDENTITY, i]
    store[p, SLOT] = slot
    store[p, LEAST] = 0
    return chain_row(store, groups, p, slot)


@inside
def chain_row(store, groups, p, slot):  # type: ignore[no-untyped-def]
    """Append row `p` of the store, whose NEXT must be -1, to its group's chain. Return True if the back part was
    empty."""
    tail = groups[slot, G_TAIL]
    store[p, PREVIOUS] = tail
    if tail >= 0:
        store[tail, NEXT] = p
    else:
        groups[slot, G_HEAD] = p
    groups[slot, G_TAIL] = p
    fresh = groups[slot, G_BACK] < 0
    if fresh:
        groups[slot, G_BACK] = p
    return fresh


@inside
def drop_oldest(store, groups, slot):  # type: ignore[no-untyped-def]
    """Remove the oldest row of a group's chain. Return the new oldest row, or -1."""
    head = groups[slot, G_HEAD]
    store[head, SLOT] = -1
    head = store[head, NEXT]
    groups[slot, G_HEAD] = head
    groups[slot, G_COUNT] -= 1
    if head >= 0:
        store[head, PREVIOUS] = -1
    else:
        groups[slot, G_TAIL] = -1
    return head


@njit()
def fold(store, slot, groups, kinds):  # type: ignore[no-untyped-def]
    """Turn the back part into the front part: each row gets the aggregate of itself and all younger rows."""
    younger = -1
    p = groups[slot, G_TAIL]
    while p >= 0:
        store[p, LEAST] = store[p, BEGIN] if younger < 0 else min(store[p, BEGIN], store[younger, LEAST])
        for k in range(kinds.shape[0]):
            kind = kinds[k]
            if kind == DISTINCT:
                continue
            at = HEADER + 4 * k
            n, x, y = lift(kind, store[p, at]), store[p, at], 0
            if younger >= 0:
                n, x, y = combine(kind, n, x, y, store[younger, at + 1], store[younger, at + 2], store[younger, at + 3])
            store[p, at + 1] = n
            store[p, at + 2] = x
            store[p, at + 3] = y
        younger = p
        p = store[p, PREVIOUS]
    groups[slot, G_BACK] = -1
    groups[slot, G_START] = 0
    for k in range(kinds.shape[0]):
        if kinds[k] != DISTINCT:
            groups[slot, GROUP + 3 * k] = 0


@njit()
def slide(  # type: ignore[no-untyped-def]
    table, values, slots, events, duration, kinds, store, count, groups, keys, tally_index, tallies, tally_count,
    lineage
):  # fmt: skip
    """Let rows enter the windows of their groups, and compute one result per group and instant.

    `values`: the bits of the arguments, one row per result. Returns the results, edges (result, name of a row in it)
    for lineage, the number of rows in the store, and the number of tallies. There is at most one result per row.

    `store` must have room for all rows, `groups` for all slots. `tallies` must have room for one value per row and
    DISTINCT aggregate, and its index for twice as many.
    """
    n = table.shape[1]
    results = kinds.shape[0]
    width = keys.shape[1]
    made = np.empty((FIRST + width + results, n), np.int64)
    edges = np.empty((8 * SPARE if lineage else 0, 2), np.int64)
    edge_count = 0
    out = 0
    i = 0
    while i < n:
        now = table[T_END, i]
        first = count
        while i < n and table[T_END, i] == now:
            if i + 24 < n:
                prefetch(groups, slots[i + 24])
                head = groups[slots[i + 12], G_HEAD]
                if head >= 0:
                    prefetch(store, head)
                    prefetch(store, groups[slots[i + 12], G_TAIL])
            slot = slots[i]
            p = count
            count += 1
            fresh = enter_row(store, groups, table, i, p, slot, table[START, i])
            groups[slot, G_COUNT] += 1
            groups[slot, G_START] = store[p, BEGIN] if fresh else min(groups[slot, G_START], store[p, BEGIN])
            for k in range(results):
                value = values[k, i]
                store[p, HEADER + 4 * k] = value
                for cell in range(1, 4):
                    store[p, HEADER + 4 * k + cell] = 0
                at = GROUP + 3 * k
                if kinds[k] == DISTINCT:
                    if value != MISSING and value != NAN:
                        where = tally(tally_index, tallies, tally_count, slot * results + k, value)
                        tally_count += where == tally_count
                        tallies[where, 2] += 1
                        if tallies[where, 2] == 1:
                            groups[slot, at] += 1
                        store[p, HEADER + 4 * k + 1] = where
                    continue
                m, x, y = combine(
                    kinds[k],
                    groups[slot, at],
                    groups[slot, at + 1],
                    groups[slot, at + 2],
                    lift(kinds[k], value),
                    value,
                    0,
                )
                groups[slot, at] = m
                groups[slot, at + 1] = x
                groups[slot, at + 2] = y
            i += 1
        for newest in range(first, count):
            slot = store[newest, SLOT]
            if slot < 0 or groups[slot, G_TAIL] != newest:
                continue
            head = groups[slot, G_HEAD]
            while (events > 0 and groups[slot, G_COUNT] > events) or (
                duration > 0 and head >= 0 and store[head, END] <= now - duration
            ):
                if head == groups[slot, G_BACK]:
                    fold(store, slot, groups, kinds)
                for k in range(results):
                    if kinds[k] == DISTINCT:
                        value = store[head, HEADER + 4 * k]
                        if value != MISSING and value != NAN:
                            where = store[head, HEADER + 4 * k + 1]
                            tallies[where, 2] -= 1
                            if tallies[where, 2] == 0:
                                groups[slot, GROUP + 3 * k] -= 1
                head = drop_oldest(store, groups, slot)
            back = groups[slot, G_BACK]
            start = groups[slot, G_START]
            if head != back:
                start = store[head, LEAST] if back < 0 else min(start, store[head, LEAST])
            made[START, out] = start
            made[T_END, out] = now
            made[ORDER, out] = store[groups[slot, G_TAIL], ARRIVAL]
            made[IDENTITY, out] = 0
            for k in range(width):
                made[FIRST + k, out] = keys[slot, k]
            for k in range(results):
                at = GROUP + 3 * k
                column = FIRST + width + k
                m, x, y = groups[slot, at], groups[slot, at + 1], groups[slot, at + 2]
                if kinds[k] != DISTINCT and head != back:
                    front = HEADER + 4 * k + 1
                    if back < 0:
                        m = 0
                    m, x, y = combine(
                        kinds[k], store[head, front], store[head, front + 1], store[head, front + 2], m, x, y
                    )
                made[column, out] = outcome(kinds[k], m, x, y)
            if lineage:
                p = head
                while p >= 0:
                    if edge_count == edges.shape[0]:
                        edges = grow(edges, edge_count + 1)
                    edges[edge_count, 0] = out
                    edges[edge_count, 1] = store[p, NAME]
                    edge_count += 1
                    p = store[p, NEXT]
            out += 1
    return made[:, :out], edges[:edge_count], count, tally_count


@njit()
def regroup(store, keep, groups, numbers, fresh_groups, kinds):  # type: ignore[no-untyped-def]
    """Move the rows `keep` of the store together, renumber groups by `numbers`, and rebuild the tallies.

    Returns (store, index of tallies, tallies, their number). `fresh_groups` must have room for all numbers.
    """
    fresh = np.empty((max(keep.shape[0], SPARE * max(8, keep.shape[0])), store.shape[1]), np.int64)
    moved = np.full(max(1, store.shape[0]), -1, np.int64)
    for i in range(keep.shape[0]):
        fresh[i] = store[keep[i]]
        moved[keep[i]] = i
    for i in range(keep.shape[0]):
        fresh[i, NEXT] = -1 if fresh[i, NEXT] < 0 else moved[fresh[i, NEXT]]
        fresh[i, PREVIOUS] = -1 if fresh[i, PREVIOUS] < 0 else moved[fresh[i, PREVIOUS]]
        fresh[i, SLOT] = numbers[fresh[i, SLOT]]
    for slot in range(numbers.shape[0]):
        if numbers[slot] >= 0:
            fresh_groups[numbers[slot]] = groups[slot]
            for cell in range(3):
                p = groups[slot, cell]
                fresh_groups[numbers[slot], cell] = -1 if p < 0 else moved[p]
    distinct = 0
    for k in range(kinds.shape[0]):
        if kinds[k] == DISTINCT:
            distinct += keep.shape[0]
    capacity = 32
    while capacity < 2 * distinct:
        capacity *= 2
    index = np.full(capacity, -1, np.int64)
    counts = np.empty((max(distinct, SPARE * 8), 3), np.int64)
    total = 0
    for i in range(keep.shape[0]):
        for k in range(kinds.shape[0]):
            value = fresh[i, HEADER + 4 * k]
            if kinds[k] == DISTINCT and value != MISSING and value != NAN:
                where = tally(index, counts, total, fresh[i, SLOT] * kinds.shape[0] + k, value)
                total += where == total
                counts[where, 2] += 1
                fresh[i, HEADER + 4 * k + 1] = where
    return fresh, index, counts, total


def chained(store: Ints, groups: Ints) -> bool:
    """Return True if the chain of each group contains its rows in order, as it must in a snapshot."""
    count, number, slots = len(store), len(groups), store[:, SLOT]
    if count and (int(slots.min()) < 0 or int(slots.max()) >= number):
        return False
    sizes = np.bincount(slots, minlength=number)
    order, last = np.argsort(slots, kind="stable"), np.cumsum(sizes) - 1
    first = last - sizes + 1
    following, before = np.append(order[1:], -1)[:count], np.append(-1, order[:-1])[:count]
    back = groups[:, G_BACK]
    if not sizes.all() or (number and (int(back.min()) < -1 or int(back.max()) >= count)):
        return False
    following[last], before[first] = -1, -1
    return bool(
        (store[order, NEXT] == following).all()
        and (store[order, PREVIOUS] == before).all()
        and (groups[:, G_HEAD] == order[first]).all()
        and (groups[:, G_TAIL] == order[last]).all()
        and (groups[:, G_COUNT] == sizes).all()
        and ((back < 0) | (slots[back] == np.arange(number))).all()
    )
