"""Windows that slide at arrivals, of results that are not sorted, without lineage: a result a group and instant."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY
from cep.operators.goals.intrinsics import bare
from cep.operators.goals.windows.entering_rows import AHEAD, ask_ahead, ask_chain, enter, put
from cep.operators.goals.windows.two_stacks import END, G_COUNT, G_HEAD, G_TAIL
from cep.operators.goals.windows.window_group import ENTERED, ROWS, give, leave
from cep.operators.goals.windows.window_input import LAST_EVENTS, LAST_TIME


@njit()
def slide_on(rows, numbers, results, windows):  # type: ignore[no-untyped-def]
    """Rows enter their groups' windows, and what is too old leaves. Gives the results by end, those of an instant in
    the order of their last rows.

    The arguments are those of `advance`. There is room: in `store` for all rows, in `groups` for all slots; a row makes
    one result at most.
    """
    n = rows.slots.shape[0]
    made = np.empty((FIRST + windows.keys.shape[1] + results.kinds.shape[0], n), np.int64)
    cells = windows.groups.reshape((windows.groups.size, 1))
    count = slide_rows(rows, numbers, results, windows, cells, made.T)
    windows.state[ROWS] += n
    windows.state[ENTERED] += n
    made[IDENTITY] = 0
    return made[:, :count]


@bare
def slide_rows(rows, numbers, results, windows, cells, made):  # type: ignore[no-untyped-def]
    """The loop of `slide_on`, which makes no array: how many results there are in `made`."""
    form, length, kinds, parameters = numbers.form, numbers.length, results.kinds, results.parameters
    store, groups, nodes, state = windows.store, windows.groups, windows.nodes, windows.state
    n, first = rows.slots.shape[0], state[ROWS]
    i = out = 0
    while i < n:
        now, since = rows.table[T_END, i], i
        while i < n and rows.table[T_END, i] == now:
            if i + AHEAD < n:
                ask_ahead(rows.slots[i + AHEAD - 1], rows.slots[i + AHEAD], groups, cells)
                ask_chain(rows.slots[i + AHEAD // 2 - 1], rows.slots[i + AHEAD // 2], groups, store)
            put(rows, i, kinds, store, first + i)
            enter(first + i, rows.slots[i], now, i, rows, numbers, results, store, groups, nodes, state)
            i += 1
        for newest in range(since, i):
            slot = rows.slots[newest]
            if groups[slot, G_TAIL] != first + newest:
                continue
            while (form == LAST_EVENTS and groups[slot, G_COUNT] > length) or (
                form == LAST_TIME and store[groups[slot, G_HEAD], END] <= now - length
            ):
                leave(store, slot, groups, kinds, parameters, nodes, state)
            give(made, out, slot, now, kinds, parameters, store, groups, nodes, windows.keys, results.scratch)
            out += 1
    return out
