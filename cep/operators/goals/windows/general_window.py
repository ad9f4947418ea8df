"""Windows of every form: rows enter their groups' windows, and results come at an arrival or when time has come.

Where values are sorted and windows slide, what comes in one step is dealt to its groups first, and each group takes all
of its own: its trees lie in the processor's cache then, however many groups there are. Other rows enter straight from
the table. The results are put in their order afterwards. What slides at arrivals without lineage and without trees has
a simpler loop in `arrival_window`.

EACH and SESSION have one running result a group, and keep rows only for what needs them: values in their order, and
lineage. The groups whose time comes first are at the head of the list.
"""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST
from cep.core.room import SPARE
from cep.operators.goals.intrinsics import bare, inside, prefetch
from cep.operators.goals.keys import grow
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.entering_rows import AHEAD, ask_ahead, ask_chain, deal, enter, put
from cep.operators.goals.windows.result_order import in_order
from cep.operators.goals.windows.two_stacks import (
    END,
    G_COUNT,
    G_HEAD,
    LEAST,
    SLOT,
)
from cep.operators.goals.windows.window_group import (
    ENTERED,
    G_AFTER,
    G_DUE,
    G_END,
    HEAD,
    ROWS,
    TAIL,
    TICK,
    clear,
    give,
    leave,
    link,
    name,
    unlink,
)
from cep.operators.goals.windows.window_input import EVERY, LAST_EVENTS, LAST_TIME

# How many rows of a group and instant enter without asking for room in between.
PIECE = 16

# How far a step is: the results and the edges that there are, the next row, the group that gives its
# results; and for how many nodes, results and edges there is to be room.
RESULTS, EDGES, PLACE, GOING, NODES, MADE, NAMED = range(7)
PROGRESS = 7


@njit()
def advance(rows, numbers, results, windows, watermark, lineage):  # type: ignore[no-untyped-def]
    """Rows enter their groups' windows, and time goes on to the watermark. Gives the results in order of arrival,
    edges, which are (result, name of a row in it), for lineage, and the array of the trees' nodes, which is larger
    where it had no room; the rest is in `state` and the arrays.

    `rows`: EnteringRows; `numbers`: WindowNumbers; `results`: ResultKinds; `windows`: WindowArrays. There is room: in
    `store` for all rows where they are kept, in `groups` for all slots. A sliding window makes one result a row at
    most. The loops are in kernels that make no array: they stop where one has no room, and go on when it is larger.
    """
    form, nodes, state, keys = numbers.form, windows.nodes, windows.state, windows.keys
    n = rows.slots.shape[0]
    first = state[ROWS]
    dealing = keys.shape[0] > 1 and (form < EVERY or (form == EVERY and numbers.sorts > 0))
    if dealing:
        deal(rows, results, windows.store, first, keys.shape[0])
    if numbers.keeps:
        state[ROWS] = first + n
    # EACH and SESSION have each row in one window, and end those of rows and of groups at most once.
    likely = n + (8 * SPARE if form == EVERY else 0) + (keys.shape[0] if form > EVERY else 0)
    made = np.empty((likely, FIRST + keys.shape[1] + results.kinds.shape[0]), np.int64)
    edges = np.empty((max(8 * SPARE, state[ROWS] if form > EVERY else 0) if lineage else 0, 2), np.int64)
    given = np.zeros(n if form < EVERY else 0, np.bool_)
    cells = windows.groups.reshape((windows.groups.size, 1))
    progress = np.zeros(PROGRESS, np.int64)
    progress[PLACE] = first
    while not take_rows(
        first, dealing, rows, numbers, results, windows, cells, nodes, made, edges, given, progress, lineage
    ):
        nodes, made, edges = (
            more_room(nodes, progress[NODES]), more_room(made, progress[MADE]), more_room(edges, progress[NAMED])
        )  # fmt: skip
    state[ENTERED] += n
    until = watermark
    if n > 0:
        until = max(until, rows.table[T_END, n - 1] - 1)
    if form > EVERY:
        end_windows(until, numbers, results, windows, nodes, made, edges, progress, lineage)
    elif form == EVERY:
        progress[GOING] = state[HEAD] if state[HEAD] >= 0 and state[TICK] <= until else -1
        while not pass_all(until, numbers, results, windows, nodes, made, edges, progress, lineage):
            made, edges = more_room(made, progress[MADE]), more_room(edges, progress[NAMED])
    found = np.flatnonzero(given) if form < EVERY else np.arange(progress[RESULTS])
    step = numbers.step if form == EVERY else 0
    table = in_order(made, found, edges[: progress[EDGES]], step)
    return table, edges[: progress[EDGES]], nodes


@njit()
def more_room(array, needed):  # type: ignore[no-untyped-def]
    """The array, or a larger one with its rows, in which so many have room."""
    return grow(array, needed) if array.shape[0] < needed else array


@bare
def take_rows(  # type: ignore[no-untyped-def]
    first, dealing, rows, numbers, results, windows, cells, nodes, made, edges, given, progress, lineage
):  # fmt: skip
    """The rows from `progress[PLACE]` on enter; those that are dealt are in the store from `first` on. False where
    `nodes`, `made` or `edges` have no room: for how many there is to be, `progress` says. `given` says at
    which row a result is. The list's order counts where windows end; EVERY's has what is in a window."""
    form, length = numbers.form, numbers.length
    kinds, parameters, scratch = results.kinds, results.parameters, results.scratch
    store, groups, state, keys = windows.store, windows.groups, windows.state, windows.keys
    last = first + rows.slots.shape[0]
    splits = numbers.sorts * ordered_multiset.SPLITS * PIECE
    p = progress[PLACE]
    while p < last:
        i = p - first
        slot = store[p, SLOT] if dealing else rows.slots[i]
        now = store[p, END] if dealing else rows.table[T_END, i]
        progress[NODES] = state[ordered_multiset.USED] + splits
        if form < EVERY and lineage:
            progress[NAMED] = progress[EDGES] + groups[slot, G_COUNT] + PIECE
        due = form == EVERY and groups[slot, G_COUNT] > 0 and groups[slot, G_DUE] < now
        if due:
            ask_room(slot, now - 1, numbers, groups, progress, lineage)
        if lacks(nodes, made, edges, progress):
            progress[PLACE] = p
            return False
        if form > EVERY and state[HEAD] >= 0 and groups[state[HEAD], G_DUE] < now:
            end_windows(now - 1, numbers, results, windows, nodes, made, edges, progress, lineage)
        moves = form >= EVERY and groups[slot, G_COUNT] == 0
        if form > EVERY and not moves and state[TAIL] != slot:
            unlink(groups, slot, state)
            moves = True
        if due:
            pass_time(slot, now - 1, numbers, results, windows, nodes, made, edges, progress, lineage)
        until, more = min(last, p + PIECE), True
        while p < until and more:
            i = store[p, LEAST] if dealing else p - first
            if p + AHEAD < last:
                if dealing:
                    ask_ahead(store[p + AHEAD - 1, SLOT], store[p + AHEAD, SLOT], groups, cells)
                    ask_chain(store[p + AHEAD // 2 - 1, SLOT], store[p + AHEAD // 2, SLOT], groups, store)
                else:
                    ask_ahead(rows.slots[i + AHEAD - 1], rows.slots[i + AHEAD], groups, cells)
                    if numbers.keeps:
                        ask_chain(rows.slots[i + AHEAD // 2 - 1], rows.slots[i + AHEAD // 2], groups, store)
            if numbers.keeps and not dealing:
                put(rows, i, kinds, store, p)
            enter(p, slot, now, i, rows, numbers, results, store, groups, nodes, state)
            p += 1
            if p == last:
                more = False
            elif dealing:
                more = store[p, SLOT] == slot and store[p, END] == now
            else:
                more = rows.slots[p - first] == slot and rows.table[T_END, p - first] == now
        if moves:
            if form == EVERY:
                state[TICK] = groups[slot, G_DUE] if state[HEAD] < 0 else min(state[TICK], groups[slot, G_DUE])
            link(groups, slot, state)
        elif form < EVERY and not more:
            while (form == LAST_EVENTS and groups[slot, G_COUNT] > length) or (
                form == LAST_TIME and store[groups[slot, G_HEAD], END] <= now - length
            ):
                leave(store, slot, groups, kinds, parameters, nodes, state)
            give(made, i, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
            given[i] = True
            if lineage:
                progress[EDGES] = name(edges, progress[EDGES], i, store, groups[slot, G_HEAD])
    return True


@bare
def pass_all(until, numbers, results, windows, nodes, made, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """The groups from `progress[GOING]` on give EVERY's results that are due by `until`. False where there is no room,
    as `take_rows`."""
    groups, state = windows.groups, windows.state
    while progress[GOING] >= 0:
        slot = progress[GOING]
        ask_room(slot, until, numbers, groups, progress, lineage)
        if lacks(nodes, made, edges, progress):
            return False
        after = groups[slot, G_AFTER]
        if after >= 0:
            prefetch(groups, after)
        pass_time(slot, until, numbers, results, windows, nodes, made, edges, progress, lineage)
        if groups[slot, G_COUNT] == 0:
            unlink(groups, slot, state)
        progress[GOING] = after
    if state[HEAD] >= 0 and state[TICK] <= until:
        state[TICK] = groups[state[HEAD], G_DUE]
    return True


@inside
def ask_room(slot, until, numbers, groups, progress, lineage):  # type: ignore[no-untyped-def]
    """Room for EVERY's results of a group until then, and for their edges."""
    due = groups[slot, G_DUE]
    more = (min(until, groups[slot, G_END] + numbers.length) - due) // numbers.step + 1 if due <= until else 0
    progress[MADE] = progress[RESULTS] + more
    if lineage:
        progress[NAMED] = progress[EDGES] + more * groups[slot, G_COUNT]


@inside
def lacks(nodes, made, edges, progress):  # type: ignore[no-untyped-def]
    """Whether an array has no room for as many as there are to be."""
    return (
        nodes.shape[0] < progress[NODES] or made.shape[0] < progress[MADE] or edges.shape[0] < progress[NAMED]
    )  # fmt: skip


@bare
def pass_time(slot, until, numbers, results, windows, nodes, made, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """A group's windows that are over by `until` give their results, and EVERY's those that are due. `progress` says
    how many results and edges there are, for which there is room (`ask_room`)."""
    store, groups, state = windows.store, windows.groups, windows.state
    kinds, parameters = results.kinds, results.parameters
    while groups[slot, G_COUNT] > 0 and groups[slot, G_DUE] <= until:
        due, out = groups[slot, G_DUE], progress[RESULTS]
        if numbers.form == EVERY and not slid(
            slot, due - numbers.length, kinds, parameters, store, groups, nodes, state
        ):
            break
        give(made, out, slot, due, kinds, parameters, store, groups, nodes, windows.keys, results.scratch)
        if lineage:
            progress[EDGES] = name(edges, progress[EDGES], out, store, groups[slot, G_HEAD])
        progress[RESULTS] += 1
        if numbers.form == EVERY:
            groups[slot, G_DUE] = due + numbers.step
        else:
            clear(store, slot, groups, kinds, nodes, state)


@bare
def end_windows(until, numbers, results, windows, nodes, made, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """The windows of EACH and SESSION that are over by `until` give their results, and their groups leave the list."""
    groups, state = windows.groups, windows.state
    while state[HEAD] >= 0 and groups[state[HEAD], G_DUE] <= until:
        slot = state[HEAD]
        pass_time(slot, until, numbers, results, windows, nodes, made, edges, progress, lineage)
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
