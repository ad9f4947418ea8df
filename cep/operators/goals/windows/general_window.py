"""Windows of every form: rows enter their groups' windows, and results come at an arrival or when time has come.

EACH and SESSION have one running result a group, and keep rows only for what needs them: values in their order, and
lineage. The groups whose time comes first are at the head of the list.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, ORDER, START
from cep.core.room import SPARE
from cep.operators.goals.intrinsics import inside, prefetch
from cep.operators.goals.keys import grow
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.two_stacks import (
    END,
    G_COUNT,
    G_HEAD,
    G_START,
    G_TAIL,
    HEADER,
    SLOT,
    enter_row,
)
from cep.operators.goals.windows.wide_partial import WORDS, join, single, sorts
from cep.operators.goals.windows.window_group import (
    CELLS,
    ENTERED,
    G_AFTER,
    G_DUE,
    G_END,
    G_ORDER,
    G_SEQUENCE,
    GROUP,
    HEAD,
    PARTIAL,
    RANK,
    ROWS,
    TICK,
    VALUE,
    clear,
    enter_sorted,
    give,
    leave,
    link,
    name,
    unlink,
)
from cep.operators.goals.windows.window_input import EACH, EVERY, LAST_EVENTS, LAST_TIME, SESSION


@njit(cache=True)
def advance(rows, numbers, results, windows, watermark, lineage):  # type: ignore[no-untyped-def]
    """Rows enter their groups' windows, and time goes on to the watermark. Gives (results, edges): an edge is (result,
    name of a row in it), for lineage, and the array of the trees' nodes, which is larger where it had no room; the
    rest is in `state` and the arrays.

    `rows`: EnteringRows; `numbers`: WindowNumbers; `results`: ResultKinds; `windows`: WindowArrays. There is room: in
    `store` for all rows, in `groups` for all slots.
    """
    form, length = numbers.form, numbers.length
    kinds, parameters, scratch = results.kinds, results.parameters, results.scratch
    store, groups, nodes, state, keys = windows.store, windows.groups, windows.nodes, windows.state, windows.keys
    splits = numbers.sorts * ordered_multiset.SPLITS
    ends = rows.table[T_END]
    n = ends.shape[0]
    made = np.empty((n + 8 * SPARE, FIRST + keys.shape[1] + kinds.shape[0]), np.int64)
    edges = np.empty((8 * SPARE if lineage else 0, 2), np.int64)
    edge_count = 0
    out = 0
    i = 0
    while True:
        until = ends[i] - 1 if i < n else watermark
        # Time goes on: results of windows that are due, then those that are over.
        while form >= EVERY and state[HEAD] >= 0:
            due = state[TICK] if form == EVERY else groups[state[HEAD], G_DUE]
            if due > until:
                break
            slot = state[HEAD]
            while slot >= 0:
                after = groups[slot, G_AFTER] if form == EVERY else -1
                if form == EVERY and not slid(slot, due - length, kinds, parameters, store, groups, nodes, state):
                    slot = after
                    continue
                if out == made.shape[0]:
                    made = grow(made, out + 1)
                give(made, out, slot, due, kinds, parameters, store, groups, nodes, keys, scratch)
                if lineage:
                    if edge_count + groups[slot, G_COUNT] > edges.shape[0]:
                        edges = grow(edges, edge_count + groups[slot, G_COUNT])
                    edge_count = name(edges, edge_count, out, store, groups[slot, G_HEAD])
                out += 1
                if form != EVERY:
                    clear(store, slot, groups, kinds, nodes, state)
                slot = after
            if form == EVERY:
                state[TICK] = due + numbers.step
        if i == n:
            break
        # What comes at one instant.
        now = ends[i]
        if form == EVERY and state[HEAD] < 0:
            state[TICK] = -((-now) // numbers.step) * numbers.step
        first = state[ROWS]
        while i < n and ends[i] == now:
            if i + 24 < n:
                ask_ahead(rows.slots, i, numbers.keeps, store, groups)
            if state[ordered_multiset.USED] + splits > nodes.shape[0]:
                nodes = grow(nodes, state[ordered_multiset.USED] + splits)
            enter(i, now, rows, numbers, results, store, groups, nodes, state)
            i += 1
        if form < EVERY:
            for newest in range(first, state[ROWS]):
                slot = store[newest, SLOT]
                if slot < 0 or groups[slot, G_TAIL] != newest:
                    continue
                while (form == LAST_EVENTS and groups[slot, G_COUNT] > length) or (
                    form == LAST_TIME and store[groups[slot, G_HEAD], END] <= now - length
                ):
                    leave(store, slot, groups, kinds, parameters, nodes, state)
                give(made, out, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
                if lineage:
                    if edge_count + groups[slot, G_COUNT] > edges.shape[0]:
                        edges = grow(edges, edge_count + groups[slot, G_COUNT])
                    edge_count = name(edges, edge_count, out, store, groups[slot, G_HEAD])
                out += 1
    return made[:out], edges[:edge_count], nodes


@inside
def ask_ahead(slots, i, keeps, store, groups):  # type: ignore[no-untyped-def]
    """The groups of rows that come, and the ends of their chains; there are 24 rows more."""
    prefetch(groups, slots[i + 24])
    if keeps:
        head = groups[slots[i + 12], G_HEAD]
        if head >= 0:
            prefetch(store, head)
            prefetch(store, groups[slots[i + 12], G_TAIL])


@inside
def slid(slot, over, kinds, parameters, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """What ended by then leaves a window; gives whether something is left: if not, the group is off the list."""
    if groups[slot, G_END] <= over:
        clear(store, slot, groups, kinds, nodes, state)
        return False
    while store[groups[slot, G_HEAD], END] <= over:
        leave(store, slot, groups, kinds, parameters, nodes, state)
    return True


@inside
def enter(i, now, rows, numbers, results, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Row `i` enters its group's window; there is room for SPLITS nodes for each result that is sorted."""
    form, keeps = numbers.form, numbers.keeps
    table, values, kinds, scratch = rows.table, rows.values, results.kinds, results.scratch
    slot = rows.slots[i]
    if form >= EVERY:
        if groups[slot, G_COUNT] > 0:
            unlink(groups, slot, state)
        link(groups, slot, state)
    begin = rows.opens[i] if form == EACH else table[START, i]
    empty = groups[slot, G_COUNT] == 0
    p = -1
    if keeps:
        p = state[ROWS]
        state[ROWS] += 1
        empty = enter_row(store, groups, table, i, p, slot, begin)
    groups[slot, G_START] = begin if empty else min(groups[slot, G_START], begin)
    groups[slot, G_COUNT] += 1
    groups[slot, G_END] = now
    groups[slot, G_ORDER] = table[ORDER, i]
    groups[slot, G_SEQUENCE] = state[ENTERED]
    state[ENTERED] += 1
    if form == EACH or form == SESSION:
        groups[slot, G_DUE] = rows.dues[i]
    for k in range(kinds.shape[0]):
        kind, at = kinds[k], GROUP + WORDS * k
        if keeps:
            cell = HEADER + CELLS * k
            store[p, cell + VALUE] = values[k, i]
            store[p, cell + RANK] = rows.ranks[k, i]
            for word in range(PARTIAL, CELLS):
                store[p, cell + word] = 0
            if sorts(kind):
                enter_sorted(store, p, k, kind, slot, groups, nodes, state)
                continue
        single(kind, values[k, i], now, scratch, 0, 0)
        join(kind, results.parameters[k], groups, slot, at, scratch, 0, 0, groups, slot, at)
