"""Rows that come are put in the store, group by group where they are dealt, and enter their groups' windows."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import inside, prefetch
from cep.operators.goals.windows.partial import combine, lift
from cep.operators.goals.windows.two_stacks import (
    ARRIVAL,
    BEGIN,
    END,
    G_COUNT,
    G_HEAD,
    G_START,
    G_TAIL,
    HEADER,
    LEAST,
    NAME,
    NEXT,
    SLOT,
    chain_row,
)
from cep.operators.goals.windows.wide_partial import RATE, WORDS, join, single, sorts
from cep.operators.goals.windows.window_group import (
    CELLS,
    ENTERED,
    G_DUE,
    G_END,
    G_ORDER,
    G_SEQUENCE,
    GROUP,
    PARTIAL,
    RANK,
    VALUE,
    enter_sorted,
)
from cep.operators.goals.windows.window_input import EACH, EVERY

# How many rows ahead the group of a row is asked for, a line of the cache after the other, and then its chain's ends.
AHEAD, LINE = 24, 8


@njit()
def deal(rows, results, store, first, number):  # type: ignore[no-untyped-def]
    """All rows are in the store from `first` on, one of so many groups after the other, each one's in their order; in
    LEAST which row it is. There is room for them."""
    n = rows.slots.shape[0]
    if number > 4 * n:
        order = np.argsort(rows.slots, kind="mergesort")
        for place in range(n):
            put(rows, order[place], results.kinds, store, first + place)
        return
    places = np.zeros(number + 1, np.int64)
    for i in range(n):
        places[rows.slots[i] + 1] += 1
    for slot in range(number):
        places[slot + 1] += places[slot]
    for i in range(n):
        slot = rows.slots[i]
        put(rows, i, results.kinds, store, first + places[slot])
        places[slot] += 1


@inside
def put(rows, i, kinds, store, p):  # type: ignore[no-untyped-def]
    """Row `i` is row `p` of the store, in which there is room."""
    store[p, BEGIN] = rows.table[START, i]
    store[p, END] = rows.table[T_END, i]
    store[p, NEXT] = -1
    store[p, ARRIVAL] = rows.table[ORDER, i]
    store[p, NAME] = rows.table[IDENTITY, i]
    store[p, SLOT] = rows.slots[i]
    store[p, LEAST] = i
    for k in range(kinds.shape[0]):
        cell = HEADER + CELLS * k
        store[p, cell + VALUE] = rows.values[k, i]
        store[p, cell + RANK] = rows.ranks[k, i]
        for word in range(PARTIAL, CELLS):
            store[p, cell + word] = 0


@inside
def ask_ahead(before, slot, groups, cells):  # type: ignore[no-untyped-def]
    """The group of a row that comes, unless the row before is its, too."""
    if slot != before:
        for word in range(0, groups.shape[1], LINE):
            prefetch(cells, slot * groups.shape[1] + word)


@inside
def ask_chain(before, slot, groups, store):  # type: ignore[no-untyped-def]
    """The ends of its chain."""
    if slot >= 0 and slot != before and groups[slot, G_HEAD] >= 0:
        prefetch(store, groups[slot, G_HEAD])
        prefetch(store, groups[slot, G_TAIL])


@inside
def enter(p, slot, now, i, rows, numbers, results, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Row `i`, row `p` of the store where rows are kept, enters its group's window; there is room for SPLITS nodes for
    each result that is sorted."""
    form, keeps, kinds, scratch = numbers.form, numbers.keeps, results.kinds, results.scratch
    begin = store[p, BEGIN] if keeps else rows.table[START, i]
    empty = groups[slot, G_COUNT] == 0
    if form == EVERY:
        if empty:
            groups[slot, G_DUE] = -((-now) // numbers.step) * numbers.step
    elif form > EVERY:
        groups[slot, G_DUE] = rows.dues[i]
        if form == EACH:
            begin = rows.opens[i]
    if keeps:
        store[p, BEGIN] = begin
        store[p, LEAST] = 0
        empty = chain_row(store, groups, p, slot)
    groups[slot, G_START] = begin if empty else min(groups[slot, G_START], begin)
    groups[slot, G_COUNT] += 1
    groups[slot, G_END] = now
    groups[slot, G_ORDER] = store[p, ARRIVAL] if keeps else rows.table[ORDER, i]
    groups[slot, G_SEQUENCE] = state[ENTERED] + i
    for k in range(kinds.shape[0]):
        kind, at = kinds[k], GROUP + WORDS * k
        if sorts(kind):
            enter_sorted(store, p, k, kind, slot, groups, nodes, state)
            continue
        value = store[p, HEADER + CELLS * k + VALUE] if keeps else rows.values[k, i]
        if kind < RATE:
            n, x, y = groups[slot, at], groups[slot, at + 1], groups[slot, at + 2]
            n, x, y = combine(kind, n, x, y, lift(kind, value), value, 0)
            groups[slot, at] = n
            groups[slot, at + 1] = x
            groups[slot, at + 2] = y
        else:
            single(kind, value, now, scratch, 0, 0)
            join(kind, results.parameters[k], groups, slot, at, scratch, 0, 0, groups, slot, at)
