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
from cep.operators.goals.intrinsics import as_bits, as_float, inside, prefetch
from cep.operators.goals.keys import MISSING, NAN, grow, id_of_two
from cep.operators.goals.pairs.found_pairs import make_place
from cep.operators.goals.windows.partial_aggregates import (
    AVG,
    COUNT_VALUES,
    DISTINCT,
    EXACT_ROWS,
    SUM_FLOAT,
    SUM_INT,
    around,
    combine,
    exact,
    lift,
    outcome,
)

# Columns of a row: header (LEAST: the least start from it to the youngest of the front), then four cells per result.
BEGIN, END, NEXT, PREVIOUS, ARRIVAL, NAME, SLOT, LEAST = range(8)
HEADER = 8

# Columns of a group: chain, first row of the back part, its number of rows; least start and results of the back.
G_HEAD, G_TAIL, G_BACK, G_COUNT, G_START = 0, 1, 2, 3, 4
GROUP = 5

# LEAST of a row of the back part: EXACT if starts ascend up to it from the part's first row on and no value up to it
# makes subtraction inexact. The oldest row is then subtracted where the back part is all of the window.
EXACT = 1


@inside
def tally(index, tallies, count, slot, value):  # type: ignore[no-untyped-def]
    """Return the place of (group, value) among the tallies, which must have room; `count` itself if it is new."""
    where = id_of_two(slot, value, index, tallies, count)
    if where == count:
        tallies[where, 2] = 0
    return where


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
            offset = HEADER + 4 * k
            n, x, y = lift(kind, store[p, offset]), store[p, offset], 0
            if younger >= 0:
                n, x, y = combine(
                    kind, n, x, y, store[younger, offset + 1], store[younger, offset + 2], store[younger, offset + 3]
                )
            store[p, offset + 1] = n
            store[p, offset + 2] = x
            store[p, offset + 3] = y
        younger = p
        p = store[p, PREVIOUS]
    groups[slot, G_BACK] = -1
    groups[slot, G_START] = 0
    for k in range(kinds.shape[0]):
        if kinds[k] != DISTINCT:
            groups[slot, GROUP + 3 * k] = 0


@inside
def prefetch_row(store, cells, p):  # type: ignore[no-untyped-def]
    """Prefetch a row of the store and its first value. `cells`: the words of the store. Any row number is safe."""
    prefetch(store, p)
    prefetch(cells, p * store.shape[1] + HEADER)


@inside
def subtractable(kind, value):  # type: ignore[no-untyped-def]
    """Return True if subtracting the value from a result of this kind is exact."""
    if kind == SUM_FLOAT or kind == AVG:
        return lift(kind, value) == 0 or exact(as_float(value))
    return kind <= SUM_INT or kind == DISTINCT


@inside
def add(kind, n, x, y, value):  # type: ignore[no-untyped-def]
    """Add the youngest value to a result. Counts and sums of integers do not need `combine`."""
    more = lift(kind, value)
    if kind <= COUNT_VALUES:
        return n + more, x, y
    if kind == SUM_INT:
        if more == 0:
            return n, x, y
        if n == 0:
            return 1, value, 0
        total = around(x, value)
        if ((x ^ total) & (value ^ total)) < 0:
            y += 1 if x > 0 else -1
        return n + 1, total, y
    return combine(kind, n, x, y, more, value, 0)


@inside
def subtract(kind, n, x, y, value):  # type: ignore[no-untyped-def]
    """Subtract the oldest value, which must be `subtractable`, from a result."""
    if lift(kind, value) == 0:
        return n, x, y
    if kind <= COUNT_VALUES:
        return n - 1, x, y
    if kind == SUM_INT:
        rest = around(x, -value)
        if ((x ^ value) & (x ^ rest)) < 0:
            y += 1 if x > 0 else -1
        return n - 1, rest, y
    m, x, y = combine(kind, n, x, y, 1, as_bits(-as_float(value)), 0)
    return m - 2, x, y


@njit()
def slide(  # type: ignore[no-untyped-def]
    table, values, slots, events, duration, kinds, store, count, free, groups, keys, tally_index, tallies, tally_count,
    lineage
):  # fmt: skip
    """Let rows enter the windows of their groups, and compute one result per group and instant.

    `values`: the bits of the arguments, one row per result. `free`: the first unused row of the store, or -1; NEXT
    links the unused rows. Returns the results, edges (result, handle of a row in its window) for lineage, the number of
    rows in the store, the first unused one, and the number of tallies. There is at most one result per row.

    `store` must have room for all rows, `groups` for all slots. `tallies` must have room for one value per row and
    DISTINCT aggregate, and its index for twice as many.
    """
    n = table.shape[1]
    results = kinds.shape[0]
    width = keys.shape[1]
    results_table = np.empty((FIRST + width + results, n), np.int64)
    entered, nameless = np.empty(n, np.int64), np.empty((2, 0), np.int64)
    cells = store.reshape((store.size, 1))
    edges = np.empty((8 * SPARE if lineage else 0, 2), np.int64)
    edge_count = 0
    out = 0
    i = 0
    while i < n:
        now = table[T_END, i]
        first = i
        while i < n and table[T_END, i] == now:
            if i + 24 < n:
                prefetch(groups, slots[i + 24])
                prefetch_row(store, cells, groups[slots[i + 12], G_HEAD])
                prefetch(store, groups[slots[i + 12], G_TAIL])
                head = groups[slots[i + 5], G_HEAD]
                if head >= 0:
                    prefetch_row(store, cells, store[head, NEXT])
            slot = slots[i]
            p = free
            if p >= 0:
                free = store[p, NEXT]
            else:
                p = count
                count += 1
            entered[i] = p
            begin = table[START, i]
            store[p, BEGIN] = begin
            store[p, END] = now
            store[p, NEXT] = -1
            store[p, ARRIVAL] = table[ORDER, i]
            store[p, NAME] = table[IDENTITY, i]
            store[p, SLOT] = slot
            tail = groups[slot, G_TAIL]
            fresh = chain_row(store, groups, p, slot)
            exact = fresh or (store[tail, LEAST] == EXACT and store[tail, BEGIN] <= begin)
            groups[slot, G_COUNT] += 1
            groups[slot, G_START] = begin if fresh else min(groups[slot, G_START], begin)
            for k in range(results):
                value = values[k, i]
                exact = exact and subtractable(kinds[k], value)
                store[p, HEADER + 4 * k] = value
                for cell in range(1, 4):
                    store[p, HEADER + 4 * k + cell] = 0
                tally_at = GROUP + 3 * k
                if kinds[k] == DISTINCT:
                    if value != MISSING and value != NAN:
                        where = tally(tally_index, tallies, tally_count, slot * results + k, value)
                        tally_count += where == tally_count
                        tallies[where, 2] += 1
                        if tallies[where, 2] == 1:
                            groups[slot, tally_at] += 1
                        store[p, HEADER + 4 * k + 1] = where
                    continue
                m, x, y = groups[slot, tally_at], groups[slot, tally_at + 1], groups[slot, tally_at + 2]
                groups[slot, tally_at], groups[slot, tally_at + 1], groups[slot, tally_at + 2] = add(
                    kinds[k], m, x, y, value
                )
            store[p, LEAST] = EXACT if exact and groups[slot, G_COUNT] < EXACT_ROWS else 0
            i += 1
        for r in range(first, i):
            slot = slots[r]
            tail = groups[slot, G_TAIL]
            if tail != entered[r]:
                continue
            head = groups[slot, G_HEAD]
            while (events > 0 and groups[slot, G_COUNT] > events) or (
                duration > 0 and head >= 0 and store[head, END] <= now - duration
            ):
                whole = head == groups[slot, G_BACK]
                if whole and store[tail, LEAST] != EXACT:
                    fold(store, slot, groups, kinds)
                    whole = False
                for k in range(results):
                    value = store[head, HEADER + 4 * k]
                    tally_at = GROUP + 3 * k
                    if kinds[k] == DISTINCT:
                        if value != MISSING and value != NAN:
                            where = store[head, HEADER + 4 * k + 1]
                            tallies[where, 2] -= 1
                            if tallies[where, 2] == 0:
                                groups[slot, tally_at] -= 1
                    elif whole:
                        m, x, y = subtract(
                            kinds[k],
                            groups[slot, tally_at],
                            groups[slot, tally_at + 1],
                            groups[slot, tally_at + 2],
                            value,
                        )
                        groups[slot, tally_at] = m
                        groups[slot, tally_at + 1] = x
                        groups[slot, tally_at + 2] = y
                left = head
                head = drop_oldest(store, groups, slot)
                store[left, NEXT] = free
                free = left
                if whole:
                    groups[slot, G_BACK] = head
                    if head >= 0:
                        groups[slot, G_START] = store[head, BEGIN]
            back = groups[slot, G_BACK]
            start = groups[slot, G_START]
            if head != back:
                start = store[head, LEAST] if back < 0 else min(start, store[head, LEAST])
            order = store[tail, ARRIVAL]
            place = out if lineage else make_place(results_table, nameless, out, start, now, order)
            if place < 0:
                place = out
            results_table[START, place] = start
            results_table[T_END, place] = now
            results_table[ORDER, place] = order
            results_table[IDENTITY, place] = 0
            for k in range(width):
                results_table[FIRST + k, place] = keys[slot, k]
            for k in range(results):
                tally_at = GROUP + 3 * k
                m, x, y = groups[slot, tally_at], groups[slot, tally_at + 1], groups[slot, tally_at + 2]
                if kinds[k] != DISTINCT and head != back:
                    front = HEADER + 4 * k + 1
                    if back < 0:
                        m = 0
                    m, x, y = combine(
                        kinds[k], store[head, front], store[head, front + 1], store[head, front + 2], m, x, y
                    )
                if kinds[k] == SUM_INT:
                    results_table[FIRST + width + k, place] = x if m > 0 and y == 0 else MISSING
                else:
                    results_table[FIRST + width + k, place] = outcome(kinds[k], m, x, y)
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
    return results_table[:, :out], edges[:edge_count], count, free, tally_count


@njit()
def regroup(store, count, groups, numbers, fresh_groups, kinds):  # type: ignore[no-untyped-def]
    """Copy the `count` rows of the groups that have a number, group by group and oldest first, renumber these groups by
    `numbers`, and rebuild the tallies.

    Returns (store, index of tallies, tallies, their number). `fresh_groups` must have room for all numbers.
    """
    results = kinds.shape[0]
    fresh = np.empty((max(count, SPARE * max(8, count)), store.shape[1]), np.int64)
    distinct = 0
    for k in range(results):
        if kinds[k] == DISTINCT:
            distinct += count
    capacity = 32
    while capacity < 2 * distinct:
        capacity *= 2
    index = np.full(capacity, -1, np.int64)
    counts = np.empty((max(distinct, SPARE * 8), 3), np.int64)
    total = 0
    i = 0
    for slot in range(numbers.shape[0]):
        number = numbers[slot]
        if number < 0:
            continue
        fresh_groups[number] = groups[slot]
        fresh_groups[number, G_HEAD] = i
        p = groups[slot, G_HEAD]
        while p >= 0:
            fresh[i] = store[p]
            fresh[i, NEXT] = -1 if store[p, NEXT] < 0 else i + 1
            fresh[i, PREVIOUS] = -1 if p == groups[slot, G_HEAD] else i - 1
            fresh[i, SLOT] = number
            if p == groups[slot, G_BACK]:
                fresh_groups[number, G_BACK] = i
            for k in range(results):
                value = store[p, HEADER + 4 * k]
                if kinds[k] == DISTINCT and value != MISSING and value != NAN:
                    where = tally(index, counts, total, number * results + k, value)
                    total += where == total
                    counts[where, 2] += 1
                    fresh[i, HEADER + 4 * k + 1] = where
            p = store[p, NEXT]
            i += 1
        fresh_groups[number, G_TAIL] = i - 1
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
