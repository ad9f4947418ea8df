"""Windows of every form: rows enter their groups' windows, and results come at an arrival or when time has come.

What comes in one step is dealt to its groups first where windows slide, and each group takes all of its own: its window
lies in the processor's cache then, however many groups there are. The results are put in their order afterwards.

EACH and SESSION have one running result a group, and keep rows only for what needs them: values in their order, and
lineage. The groups whose time comes first are at the head of the list.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.core.room import SPARE
from cep.operators.goals.intrinsics import bare, inside, prefetch
from cep.operators.goals.keys import grow
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.result_order import in_order
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
from cep.operators.goals.windows.window_input import EACH, EVERY, LAST_EVENTS, LAST_TIME

# How many rows ahead the group of a row is asked for, a line of the cache after the other, and then its chain's ends.
AHEAD, LINE = 24, 8


@njit(cache=True)
def advance(rows, numbers, results, windows, watermark, lineage):  # type: ignore[no-untyped-def]
    """Rows enter their groups' windows, and time goes on to the watermark. Gives the results in order of arrival,
    edges, which are (result, name of a row in it), for lineage, and the array of the trees' nodes, which is larger
    where it had no room; the rest is in `state` and the arrays.

    `rows`: EnteringRows; `numbers`: WindowNumbers; `results`: ResultKinds; `windows`: WindowArrays. There is room: in
    `store` for all rows, in `groups` for all slots. A sliding window makes one result a row at most.
    """
    form, length = numbers.form, numbers.length
    kinds, parameters, scratch = results.kinds, results.parameters, results.scratch
    store, groups, nodes, state, keys = windows.store, windows.groups, windows.nodes, windows.state, windows.keys
    cells = groups.reshape((groups.size, 1))
    splits = numbers.sorts * ordered_multiset.SPLITS
    n = rows.slots.shape[0]
    first = state[ROWS]
    last = first + n
    deal(rows, results, store, first, keys.shape[0] if form <= EVERY else 0, numbers.keeps)
    if numbers.keeps:
        state[ROWS] = last
    # EACH and SESSION have each row in one window, and end those of rows and of groups at most once.
    likely = n + (8 * SPARE if form == EVERY else 0) + (keys.shape[0] if form > EVERY else 0)
    made = np.empty((likely, FIRST + keys.shape[1] + kinds.shape[0]), np.int64)
    edges = np.empty((max(8 * SPARE, state[ROWS] if form > EVERY else 0) if lineage else 0, 2), np.int64)
    counts = np.zeros(2, np.int64)
    given = np.zeros(n if form < EVERY else 0, np.bool_)
    newest = np.full(n if form == EVERY else 0, -1, np.int64)
    p, dealt = first, -1
    while p < last:
        slot, now, i = store[p, SLOT], store[p, END], 0
        if form > EVERY and state[HEAD] >= 0 and groups[state[HEAD], G_DUE] < now:
            end_windows(now - 1, numbers, results, windows, nodes, made, edges, counts, lineage)
        if form >= EVERY and groups[slot, G_COUNT] > 0 and slot != dealt:
            unlink(groups, slot, state)
        if form == EVERY:
            dealt = slot
            if groups[slot, G_COUNT] > 0 and groups[slot, G_DUE] < now:
                more = results_until(slot, now - 1, numbers, groups)
                if counts[0] + more > made.shape[0]:
                    made = grow(made, counts[0] + more)
                if lineage and counts[1] + more * groups[slot, G_COUNT] > edges.shape[0]:
                    edges = grow(edges, counts[1] + more * groups[slot, G_COUNT])
                pass_time(slot, now - 1, numbers, results, windows, nodes, made, edges, counts, lineage)
        while p < last and store[p, SLOT] == slot and store[p, END] == now:
            if p + AHEAD < last:
                ask_ahead(store, p, groups, cells, numbers.keeps)
            if state[ordered_multiset.USED] + splits > nodes.shape[0]:
                nodes = grow(nodes, state[ordered_multiset.USED] + splits)
            i = store[p, LEAST]
            enter(p, slot, i, rows, numbers, results, store, groups, nodes, state)
            p += 1
        if form > EVERY:
            link(groups, slot, state)
        elif form == EVERY:
            if p == last or store[p, SLOT] != slot:
                newest[i] = slot
        else:
            while (form == LAST_EVENTS and groups[slot, G_COUNT] > length) or (
                form == LAST_TIME and store[groups[slot, G_HEAD], END] <= now - length
            ):
                leave(store, slot, groups, kinds, parameters, nodes, state)
            give(made, i, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
            given[i] = True
            if lineage:
                if counts[1] + groups[slot, G_COUNT] > edges.shape[0]:
                    edges = grow(edges, counts[1] + groups[slot, G_COUNT])
                counts[1] = name(edges, counts[1], i, store, groups[slot, G_HEAD])
    state[ENTERED] += n
    until = watermark
    if n > 0:
        until = max(until, rows.table[T_END, n - 1] - 1)
    if form > EVERY:
        end_windows(until, numbers, results, windows, nodes, made, edges, counts, lineage)
    elif form == EVERY:
        for i in range(newest.shape[0]):
            if newest[i] >= 0:
                due = groups[newest[i], G_DUE]
                state[TICK] = due if state[HEAD] < 0 else min(state[TICK], due)
                link(groups, newest[i], state)
        slot = state[HEAD] if state[HEAD] >= 0 and state[TICK] <= until else -1
        while slot >= 0:
            after = groups[slot, G_AFTER]
            if after >= 0:
                prefetch(groups, after)
            more = results_until(slot, until, numbers, groups)
            if counts[0] + more > made.shape[0]:
                made = grow(made, counts[0] + more)
            if lineage and counts[1] + more * groups[slot, G_COUNT] > edges.shape[0]:
                edges = grow(edges, counts[1] + more * groups[slot, G_COUNT])
            pass_time(slot, until, numbers, results, windows, nodes, made, edges, counts, lineage)
            if groups[slot, G_COUNT] == 0:
                unlink(groups, slot, state)
            slot = after
        if state[HEAD] >= 0 and state[TICK] <= until:
            state[TICK] = groups[state[HEAD], G_DUE]
    found = np.flatnonzero(given) if form < EVERY else np.arange(counts[0])
    table = in_order(made, found, edges[: counts[1]])
    return table, edges[: counts[1]], nodes


@njit(linear=True, cache=True)
def deal(rows, results, store, first, number, keeps):  # type: ignore[no-untyped-def]
    """All rows are in the store from `first` on, one of so many groups after the other, each one's in their order (0:
    all in their order); in LEAST which row it is. There is room for them."""
    n = rows.slots.shape[0]
    if number <= 1:
        for i in range(n):
            put(rows, i, results.kinds, store, first + i, keeps)
        return
    if number > 4 * n:
        order = np.argsort(rows.slots, kind="mergesort")
        for place in range(n):
            put(rows, order[place], results.kinds, store, first + place, keeps)
        return
    places = np.zeros(number + 1, np.int64)
    for i in range(n):
        places[rows.slots[i] + 1] += 1
    for slot in range(number):
        places[slot + 1] += places[slot]
    for i in range(n):
        slot = rows.slots[i]
        put(rows, i, results.kinds, store, first + places[slot], keeps)
        places[slot] += 1


@inside
def put(rows, i, kinds, store, p, keeps):  # type: ignore[no-untyped-def]
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
        if keeps:
            for word in range(PARTIAL, CELLS):
                store[p, cell + word] = 0


@inside
def ask_ahead(store, p, groups, cells, keeps):  # type: ignore[no-untyped-def]
    """The groups of rows that come, and the ends of their chains; there are AHEAD rows more."""
    slot = store[p + AHEAD, SLOT]
    if slot != store[p + AHEAD - 1, SLOT]:
        for word in range(0, groups.shape[1], LINE):
            prefetch(cells, slot * groups.shape[1] + word)
    if keeps:
        slot = store[p + AHEAD // 2, SLOT]
        if slot >= 0 and slot != store[p + AHEAD // 2 - 1, SLOT] and groups[slot, G_HEAD] >= 0:
            prefetch(store, groups[slot, G_HEAD])
            prefetch(store, groups[slot, G_TAIL])


@inside
def results_until(slot, until, numbers, groups):  # type: ignore[no-untyped-def]
    """How many results of EVERY a group has until then, at most."""
    return (min(until, groups[slot, G_END] + numbers.length) - groups[slot, G_DUE]) // numbers.step + 1


@bare
def pass_time(slot, until, numbers, results, windows, nodes, made, edges, counts, lineage):  # type: ignore[no-untyped-def]
    """A group's windows that are over by `until` give their results, and EVERY's those that are due. `counts` says how
    many results and edges there are, for which there is room (`results_until`)."""
    store, groups, state = windows.store, windows.groups, windows.state
    kinds, parameters = results.kinds, results.parameters
    while groups[slot, G_COUNT] > 0 and groups[slot, G_DUE] <= until:
        due, out = groups[slot, G_DUE], counts[0]
        if numbers.form == EVERY and not slid(
            slot, due - numbers.length, kinds, parameters, store, groups, nodes, state
        ):
            break
        give(made, out, slot, due, kinds, parameters, store, groups, nodes, windows.keys, results.scratch)
        if lineage:
            counts[1] = name(edges, counts[1], out, store, groups[slot, G_HEAD])
        counts[0] += 1
        if numbers.form == EVERY:
            groups[slot, G_DUE] = due + numbers.step
        else:
            clear(store, slot, groups, kinds, nodes, state)


@bare
def end_windows(until, numbers, results, windows, nodes, made, edges, counts, lineage):  # type: ignore[no-untyped-def]
    """The windows of EACH and SESSION that are over by `until` give their results, and their groups leave the list."""
    groups, state = windows.groups, windows.state
    while state[HEAD] >= 0 and groups[state[HEAD], G_DUE] <= until:
        slot = state[HEAD]
        pass_time(slot, until, numbers, results, windows, nodes, made, edges, counts, lineage)
        unlink(groups, slot, state)


@inside
def slid(slot, over, kinds, parameters, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """What ended by then leaves a window; gives whether something is left."""
    if groups[slot, G_END] <= over:
        clear(store, slot, groups, kinds, nodes, state)
        return False
    while store[groups[slot, G_HEAD], END] <= over:
        leave(store, slot, groups, kinds, parameters, nodes, state)
    return True


@inside
def enter(p, slot, i, rows, numbers, results, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Row `p` of the store, which was row `i`, enters its group's window; there is room for SPLITS nodes for each
    result that is sorted."""
    form, kinds, scratch = numbers.form, results.kinds, results.scratch
    now, begin = store[p, END], store[p, BEGIN]
    empty = groups[slot, G_COUNT] == 0
    if form == EVERY:
        if empty:
            groups[slot, G_DUE] = -((-now) // numbers.step) * numbers.step
    elif form > EVERY:
        groups[slot, G_DUE] = rows.dues[i]
        if form == EACH:
            begin = rows.opens[i]
            store[p, BEGIN] = begin
    store[p, LEAST] = 0
    if numbers.keeps:
        empty = chain_row(store, groups, p, slot)
    groups[slot, G_START] = begin if empty else min(groups[slot, G_START], begin)
    groups[slot, G_COUNT] += 1
    groups[slot, G_END] = now
    groups[slot, G_ORDER] = store[p, ARRIVAL]
    groups[slot, G_SEQUENCE] = state[ENTERED] + i
    for k in range(kinds.shape[0]):
        kind, at = kinds[k], GROUP + WORDS * k
        if sorts(kind):
            enter_sorted(store, p, k, kind, slot, groups, nodes, state)
        else:
            single(kind, store[p, HEADER + CELLS * k + VALUE], now, scratch, 0, 0)
            join(kind, results.parameters[k], groups, slot, at, scratch, 0, 0, groups, slot, at)
