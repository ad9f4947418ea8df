"""Windows of every form: rows enter their groups' windows, and results come at an arrival or when time has come.

EACH and SESSION have one running result a group, and keep rows only for what needs them: values in their order, and
lineage. The groups whose time comes first are at the head of the list.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.core.room import SPARE
from cep.operators.goals.intrinsics import prefetch
from cep.operators.goals.keys import grow
from cep.operators.goals.partial import DISTINCT
from cep.operators.goals.wide_partial import WORDS, join, single, sorts
from cep.operators.goals.window import (
    ARRIVAL,
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
)
from cep.operators.goals.window_group import (
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

LAST_EVENTS, LAST_TIME, EVERY, EACH, SESSION = range(5)


@njit(cache=True)
def advance(  # type: ignore[no-untyped-def]
    table, values, ranks, slots, opens, dues, form, length, step, watermark, kinds, parameters, keeps, store, groups,
    nodes, tally_index, tallies, state, keys, lineage
):  # fmt: skip
    """Rows enter their groups' windows, and time goes on to the watermark. Gives (results, edges): an edge is (result,
    name of a row in it), for lineage; the rest is in `state` and the arrays.

    `values`: a row a result, the bits of its argument, `ranks`: what it is sorted by. `opens`, `dues`: of EACH and
    SESSION, when each row's window begins and is over. `length`: how many events, or microseconds. `keeps`: whether
    rows are kept. There is room: in `store` for all rows, in `groups` for all slots, in `nodes` for each row's value of
    each that sorts, in `tallies` for those that count, in the index for twice as many.
    """
    n = table.shape[1]
    results = kinds.shape[0]
    columns = FIRST + keys.shape[1] + results
    made = np.empty((n + 8 * SPARE, columns), np.int64)
    edges = np.empty((8 * SPARE if lineage else 0, 2), np.int64)
    scratch = np.zeros((1, WORDS), np.int64)
    edge_count = 0
    out = 0
    i = 0
    p = -1
    while True:
        until = table[T_END, i] - 1 if i < n else watermark
        if form == EVERY:
            while state[HEAD] >= 0 and state[TICK] <= until:
                now = state[TICK]
                slot = state[HEAD]
                while slot >= 0:
                    after = groups[slot, G_AFTER]
                    if groups[slot, G_END] <= now - length:
                        clear(store, slot, groups, kinds, nodes, tallies, state)
                        slot = after
                        continue
                    while store[groups[slot, G_HEAD], END] <= now - length:
                        leave(store, slot, groups, kinds, parameters, nodes, tallies, state)
                    if out == made.shape[0]:
                        made = grow(made, out + 1)
                    give(made, out, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
                    if lineage:
                        if edge_count + groups[slot, G_COUNT] > edges.shape[0]:
                            edges = grow(edges, edge_count + groups[slot, G_COUNT])
                        edge_count = name(edges, edge_count, out, store, groups[slot, G_HEAD])
                    out += 1
                    slot = after
                state[TICK] = now + step
        elif form == EACH or form == SESSION:
            while state[HEAD] >= 0 and groups[state[HEAD], G_DUE] <= until:
                slot = state[HEAD]
                if out == made.shape[0]:
                    made = grow(made, out + 1)
                give(made, out, slot, groups[slot, G_DUE], kinds, parameters, store, groups, nodes, keys, scratch)
                if lineage:
                    if edge_count + groups[slot, G_COUNT] > edges.shape[0]:
                        edges = grow(edges, edge_count + groups[slot, G_COUNT])
                    edge_count = name(edges, edge_count, out, store, groups[slot, G_HEAD])
                out += 1
                clear(store, slot, groups, kinds, nodes, tallies, state)
        if i == n:
            break
        now = table[T_END, i]
        if form == EVERY and state[HEAD] < 0:
            state[TICK] = -((-now) // step) * step
        first = state[ROWS]
        while i < n and table[T_END, i] == now:
            if i + 24 < n:
                prefetch(groups, slots[i + 24])
                if keeps:
                    head = groups[slots[i + 12], G_HEAD]
                    if head >= 0:
                        prefetch(store, head)
                        prefetch(store, groups[slots[i + 12], G_TAIL])
            slot = slots[i]
            if form >= EVERY:
                if groups[slot, G_COUNT] > 0:
                    unlink(groups, slot, state)
                link(groups, slot, state)
            begin = opens[i] if form == EACH else table[START, i]
            empty = groups[slot, G_COUNT] == 0
            if keeps:
                p = state[ROWS]
                state[ROWS] += 1
                store[p, BEGIN] = begin
                store[p, END] = now
                store[p, NEXT] = -1
                store[p, ARRIVAL] = table[ORDER, i]
                store[p, NAME] = table[IDENTITY, i]
                store[p, SLOT] = slot
                store[p, LEAST] = 0
                tail = groups[slot, G_TAIL]
                store[p, PREVIOUS] = tail
                if tail >= 0:
                    store[tail, NEXT] = p
                else:
                    groups[slot, G_HEAD] = p
                groups[slot, G_TAIL] = p
                empty = groups[slot, G_BACK] < 0
                if empty:
                    groups[slot, G_BACK] = p
            groups[slot, G_START] = begin if empty else min(groups[slot, G_START], begin)
            groups[slot, G_COUNT] += 1
            groups[slot, G_END] = now
            groups[slot, G_ORDER] = table[ORDER, i]
            groups[slot, G_SEQUENCE] = state[ENTERED]
            state[ENTERED] += 1
            if form == EACH or form == SESSION:
                groups[slot, G_DUE] = dues[i]
            for k in range(results):
                kind, at = kinds[k], GROUP + WORDS * k
                if keeps:
                    cell = HEADER + CELLS * k
                    store[p, cell + VALUE] = values[k, i]
                    store[p, cell + RANK] = ranks[k, i]
                    for word in range(PARTIAL, CELLS):
                        store[p, cell + word] = 0
                    if kind == DISTINCT or sorts(kind):
                        enter_sorted(
                            store, p, k, kind, slot, groups, results, nodes, tally_index, tallies, state
                        )  # fmt: skip
                        continue
                single(kind, values[k, i], now, scratch, 0, 0)
                join(kind, parameters[k], groups, slot, at, scratch, 0, 0, groups, slot, at)
            i += 1
        if form == LAST_EVENTS or form == LAST_TIME:
            for newest in range(first, state[ROWS]):
                slot = store[newest, SLOT]
                if slot < 0 or groups[slot, G_TAIL] != newest:
                    continue
                while (form == LAST_EVENTS and groups[slot, G_COUNT] > length) or (
                    form == LAST_TIME and store[groups[slot, G_HEAD], END] <= now - length
                ):
                    leave(store, slot, groups, kinds, parameters, nodes, tallies, state)
                give(made, out, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
                if lineage:
                    if edge_count + groups[slot, G_COUNT] > edges.shape[0]:
                        edges = grow(edges, edge_count + groups[slot, G_COUNT])
                    edge_count = name(edges, edge_count, out, store, groups[slot, G_HEAD])
                out += 1
    return made[:out], edges[:edge_count]
