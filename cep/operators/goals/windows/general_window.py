"""Kernels for windows of every form. Rows enter the window of their group. Windows have results when rows arrive, or
when time passes.

If windows slide and values are sorted, the rows of a step are first sorted by group. Then each group processes all its
rows while its trees are in the processor's cache. Otherwise rows are processed in order of arrival. Results are sorted
afterwards. Windows that slide at arrivals, without lineage and trees, use a simpler loop, `slide_on`.

Windows that slide divide their rows into a front and a back, as in `sliding_rings`, but never subtract values.

EACH and SESSION have one running result per group. They store rows only for sorted values and for lineage. Their groups
are in a list, ordered by the time at which their window ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import SPARE
from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START, Table
from cep.operators.goals.contract import Ints
from cep.operators.goals.intrinsics import bare, inside, prefetch
from cep.operators.goals.keys import MISSING, NAN, grow
from cep.operators.goals.store import sortable
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.partial_aggregates import DISTINCT, combine, lift
from cep.operators.goals.windows.result_order import in_order
from cep.operators.goals.windows.slopes_and_percentiles import (
    MODE,
    MODE_FLOAT,
    RATE,
    WORDS,
    join,
    of_order,
    single,
    sorts,
    worth,
)

LAST_EVENTS, LAST_TIME, EVERY, EACH, SESSION = range(5)

# Columns of a row: its neighbours in its group's chain, oldest row first; its group; and LEAST, the least
# start from it to the youngest row of the front.
BEGIN, END, NEXT, PREVIOUS, ARRIVAL, NAME, SLOT, LEAST = range(8)
HEADER = 8

# Columns after the header, for each result: its value, its sort rank, and its partial result.
VALUE, RANK, PARTIAL = 0, 1, 2
CELLS = PARTIAL + WORDS

# Columns of a group: the ends of its chain, the first row of the back part, the number of rows, the least start of the
# back; the end of its window (EVERY: when results are due); end, order and number of its latest row; its neighbours in
# the list; then one partial result per result. Sorted results store the root of their tree there, from 1, and its size.
# A mode stores the count of its value (0: unknown) and its rank.
G_HEAD, G_TAIL, G_BACK, G_COUNT, G_START = range(5)
G_DUE, G_END, G_ORDER, G_SEQUENCE, G_BEFORE, G_AFTER = range(5, 11)
GROUP = 11
AMONG = 1
MOST, MODAL = 1, 2

# State between steps: the tree nodes, the number of rows, both ends of the list of groups, the number of rows that have
# entered, and the next time of EVERY.
ROWS, HEAD, TAIL, ENTERED, TICK = range(ordered_multiset.SHARED, ordered_multiset.SHARED + 5)
STATE = ordered_multiset.SHARED + 5

# The arguments of `advance`. Kernels unpack a NamedTuple of arrays at no cost.


class EnteringRows(NamedTuple):
    """Arriving occurrences.

    - `table`: their times, order and identity. `slots`: the group of each.
    - `values`: the bits of the functions' arguments, one row per result. `ranks`: integers that sort like the values.
    - `opens`, `dues`: for EACH and SESSION, when the window of each occurrence begins and ends.
    """

    table: Table
    values: Ints
    ranks: Ints
    slots: Ints
    opens: Ints
    dues: Ints


class WindowNumbers(NamedTuple):
    """Numbers that describe the windows.

    - `form`: the form of the windows. `length`: their length in events or microseconds.
    - `step`: the step of EVERY in microseconds.
    - `keeps`: True if rows are stored.
    - `sorts`: the number of results that need sorted values.
    """

    form: int
    length: int
    step: int
    keeps: bool
    sorts: int


class ResultKinds(NamedTuple):
    """The aggregate functions of a goal, as all kernels of this module read them.

    - `kinds`: the number of each function (`partial_aggregates`, `slopes_and_percentiles`).
    - `parameters`: the parameter of each function, 0 if it has none.
    - `scratch`: a buffer for one partial result.
    """

    kinds: Ints
    parameters: NDArray[np.float64]
    scratch: Ints


class WindowArrays(NamedTuple):
    """The state of the windows.

    - `store`: the rows in windows. `groups`: a row for each group. `nodes`: the nodes of all trees.
    - `state`: counts and other numbers, at the places ROWS to TICK.
    - `keys`: the key of each group.
    """

    store: Ints
    groups: Ints
    nodes: Ints
    state: Ints
    keys: Ints


@inside
def chain_row(store, groups, p, slot):  # type: ignore[no-untyped-def]
    """Append row `p` of the store to its group's chain. Return True if the back of the group was empty. The row's NEXT
    must be -1."""
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


@bare
def enter_sorted(store, p, k, kind, slot, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Add the value of row `p` to the tree of its group. There must be room for SPLITS further nodes."""
    offset, cell = GROUP + WORDS * k, HEADER + CELLS * k
    if lift(kind, store[p, cell + VALUE]) == 0:
        return
    rank, root = store[p, cell + RANK], groups[slot, offset] - 1
    frequency = kind == MODE or kind == MODE_FLOAT
    fresh, times = ordered_multiset.add(nodes, state, root, rank, frequency)
    groups[slot, offset] = fresh + 1
    if frequency:
        most = groups[slot, offset + MOST]
        if root < 0 or (most > 0 and (times > most or (times == most and rank < groups[slot, offset + MODAL]))):
            groups[slot, offset + MOST] = times
            groups[slot, offset + MODAL] = rank
    elif kind != DISTINCT or times == 1:
        groups[slot, offset + AMONG] += 1


@bare
def leave_sorted(store, p, k, kind, slot, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Remove the value of row `p` from the tree of its group."""
    offset, cell = GROUP + WORDS * k, HEADER + CELLS * k
    if lift(kind, store[p, cell + VALUE]) == 0:
        return
    rank = store[p, cell + RANK]
    frequency = kind == MODE or kind == MODE_FLOAT
    root, times = ordered_multiset.remove(nodes, state, groups[slot, offset] - 1, rank, frequency)
    groups[slot, offset] = root + 1
    if frequency:
        if rank == groups[slot, offset + MODAL]:
            groups[slot, offset + MOST] = 0
    elif kind != DISTINCT or times == 0:
        groups[slot, offset + AMONG] -= 1


@bare
def of_sorted(kind, parameter, slot, offset, groups, nodes):  # type: ignore[no-untyped-def]
    """Return the bits of a result that is computed from a group's tree. For MODE, return the rank of the value."""
    root = groups[slot, offset] - 1
    if kind == DISTINCT:
        return groups[slot, offset + AMONG]
    if kind != MODE and kind != MODE_FLOAT:
        return of_order(kind, parameter, nodes, root, groups[slot, offset + AMONG])
    if root < 0:
        return MISSING if kind == MODE else NAN
    if groups[slot, offset + MOST] == 0:
        rank, times = ordered_multiset.most_frequent(nodes, root)
        groups[slot, offset + MOST] = times
        groups[slot, offset + MODAL] = rank
    rank = groups[slot, offset + MODAL]
    return rank if kind == MODE else sortable(rank, 1)


@bare
def fold(store, slot, groups, kinds, parameters):  # type: ignore[no-untyped-def]
    """Move all rows of a group to its front, and empty its back. Each row gets the aggregate of itself and all younger
    rows."""
    younger = -1
    p = groups[slot, G_TAIL]
    while p >= 0:
        store[p, LEAST] = store[p, BEGIN] if younger < 0 else min(store[p, BEGIN], store[younger, LEAST])
        for k in range(kinds.shape[0]):
            kind = kinds[k]
            if sorts(kind):
                continue
            cell = HEADER + CELLS * k
            offset = cell + PARTIAL
            single(kind, store[p, cell + VALUE], store[p, END], store, p, offset)
            if younger >= 0:
                join(kind, parameters[k], store, p, offset, store, younger, offset, store, p, offset)
        younger = p
        p = store[p, PREVIOUS]
    groups[slot, G_BACK] = -1
    groups[slot, G_START] = 0
    for k in range(kinds.shape[0]):
        if not sorts(kinds[k]):
            groups[slot, GROUP + WORDS * k] = 0


@bare
def leave(store, slot, groups, kinds, parameters, nodes, state):  # type: ignore[no-untyped-def]
    """Remove the oldest row of a group from its window."""
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
    """Remove all rows from a group's window."""
    p = groups[slot, G_HEAD]
    while p >= 0:
        store[p, SLOT] = -1
        p = store[p, NEXT]
    for k in range(kinds.shape[0]):
        offset = GROUP + WORDS * k
        if sorts(kinds[k]):
            ordered_multiset.give_up(nodes, state, groups[slot, offset] - 1)
        groups[slot, offset] = 0
        groups[slot, offset + 1] = 0
    groups[slot, G_HEAD] = -1
    groups[slot, G_TAIL] = -1
    groups[slot, G_BACK] = -1
    groups[slot, G_COUNT] = 0
    groups[slot, G_START] = 0


@bare
def give(outputs, out, slot, end, kinds, parameters, store, groups, nodes, keys, scratch):  # type: ignore[no-untyped-def]
    """Write the results of a group into row `out` of `outputs`, which must exist. `end`: the end of this row. The
    identity of this row is the number of the group's latest row."""
    width = keys.shape[1]
    head, back = groups[slot, G_HEAD], groups[slot, G_BACK]
    start = groups[slot, G_START]
    if head != back:
        start = store[head, LEAST] if back < 0 else min(start, store[head, LEAST])
    outputs[out, START] = start
    outputs[out, T_END] = end
    outputs[out, ORDER] = groups[slot, G_ORDER]
    outputs[out, IDENTITY] = groups[slot, G_SEQUENCE]
    for k in range(width):
        outputs[out, FIRST + k] = keys[slot, k]
    for k in range(kinds.shape[0]):
        kind, offset = kinds[k], GROUP + WORDS * k
        column = FIRST + width + k
        if sorts(kind):
            outputs[out, column] = of_sorted(kind, parameters[k], slot, offset, groups, nodes)
        elif head == back:
            outputs[out, column] = worth(kind, parameters[k], groups, slot, offset)
        else:
            front = HEADER + CELLS * k + PARTIAL
            join(kind, parameters[k], store, head, front, groups, slot, offset, scratch, 0, 0)
            outputs[out, column] = worth(kind, parameters[k], scratch, 0, 0)


@bare
def name(edges, count, out, store, head):  # type: ignore[no-untyped-def]
    """Append a lineage edge from output row `out` to each row of a window. Return the new number of edges. `head`: the
    oldest row of the window."""
    while head >= 0:
        edges[count, 0] = out
        edges[count, 1] = store[head, NAME]
        count += 1
        head = store[head, NEXT]
    return count


@njit()
def rebuild(store, groups, kinds, nodes, state):  # type: ignore[no-untyped-def]
    """Rebuild all trees from the stored rows. Return the array of tree nodes, which may be a larger copy."""
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
    """Copy selected groups and the rows in their windows. Return the store, the groups, and the number of rows.

    - `numbers`: the new number of each group, or -1 to leave it out. `total`: the number of selected groups.
    - `capacity`: the new store has room for `capacity` times the number of rows.

    Rows of a group are adjacent, in order of arrival.
    """
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
        position = places[number]
        places[number] += 1
        fresh[position] = store[p]
        fresh[position, SLOT] = number
        fresh[position, PREVIOUS] = position - 1 if position > chosen[number, G_HEAD] else -1
        fresh[position, NEXT] = position + 1 if position < chosen[number, G_TAIL] else -1
        if p == groups[slot, G_BACK]:
            chosen[number, G_BACK] = position
    return fresh, chosen, count


# How many rows ahead to prefetch the group of a row, and then the ends of its chain; and the words of a cache line.
AHEAD, LINE = 24, 8


@njit()
def deal(rows, results, store, first, number):  # type: ignore[no-untyped-def]
    """Copy all arriving rows to the store, from row `first` on, sorted by group, stably. `number`: the number of
    groups. The store must have room. The cell LEAST of a stored row contains the number of the arriving row."""
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
    """Copy arriving row `i` to row `p` of the store, which must have room."""
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
    """Prefetch the group of an arriving row, unless it equals `before`, the group of the preceding row."""
    if slot != before:
        for word in range(0, groups.shape[1], LINE):
            prefetch(cells, slot * groups.shape[1] + word)


@inside
def ask_chain(before, slot, groups, store):  # type: ignore[no-untyped-def]
    """Prefetch the first and last stored row of a group, unless it equals `before`, the group of the preceding row."""
    if slot >= 0 and slot != before and groups[slot, G_HEAD] >= 0:
        prefetch(store, groups[slot, G_HEAD])
        prefetch(store, groups[slot, G_TAIL])


@inside
def enter(p, slot, now, i, rows, numbers, results, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Let arriving row `i` enter the window of its group. `p`: its row in the store, if rows are stored. There must be
    room for SPLITS tree nodes per sorted result."""
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
    if form < EVERY:
        groups[slot, G_ORDER] = store[p, ARRIVAL] if keeps else rows.table[ORDER, i]
    groups[slot, G_SEQUENCE] = state[ENTERED] + i
    for k in range(kinds.shape[0]):
        kind, offset = kinds[k], GROUP + WORDS * k
        if sorts(kind):
            enter_sorted(store, p, k, kind, slot, groups, nodes, state)
            continue
        value = store[p, HEADER + CELLS * k + VALUE] if keeps else rows.values[k, i]
        if kind < RATE:
            n, x, y = groups[slot, offset], groups[slot, offset + 1], groups[slot, offset + 2]
            n, x, y = combine(kind, n, x, y, lift(kind, value), value, 0)
            groups[slot, offset] = n
            groups[slot, offset + 1] = x
            groups[slot, offset + 2] = y
        else:
            single(kind, value, now, scratch, 0, 0)
            join(kind, results.parameters[k], groups, slot, offset, scratch, 0, 0, groups, slot, offset)


# The number of rows of a group and instant that enter between two checks for room.
PIECE = 16

# The progress of a step: the numbers of results and edges, the next row, the group whose results are being output; and
# the required numbers of nodes, results and edges.
RESULTS, EDGES, PLACE, GOING, NODES, MADE, NAMED = range(7)
PROGRESS = 7


@njit()
def advance(rows, numbers, results, windows, watermark, lineage):  # type: ignore[no-untyped-def]
    """Let rows enter the windows of their groups, and let time advance to the watermark.

    - `rows`: EnteringRows. `numbers`: WindowNumbers. `results`: ResultKinds. `windows`: WindowArrays.
    - `lineage`: True to return lineage edges.

    Return the output rows in order of arrival, and the edges (output row, handle of a row in its window). Also return
    the array of tree nodes, which may be a larger copy. All other state changes in place. The store must have room for
    all rows, if they are stored, and `groups` for all slots. A sliding window has at most one result per row. The loops
    are in kernels that allocate nothing: they stop when an array is full, and continue once it is larger.
    """
    form, nodes, state, keys = numbers.form, windows.nodes, windows.state, windows.keys
    n = rows.slots.shape[0]
    first = state[ROWS]
    dealing = keys.shape[0] > 1 and (form < EVERY or (form == EVERY and numbers.sorts > 0))
    if dealing:
        deal(rows, results, windows.store, first, keys.shape[0])
    if numbers.keeps:
        state[ROWS] = first + n
    # In EACH and SESSION, each row is in one window, so there is at most one result per row and group.
    likely = n + (8 * SPARE if form == EVERY else 0) + (keys.shape[0] if form > EVERY else 0)
    outputs = np.empty((likely, FIRST + keys.shape[1] + results.kinds.shape[0]), np.int64)
    edges = np.empty((max(8 * SPARE, state[ROWS] if form > EVERY else 0) if lineage else 0, 2), np.int64)
    marked = np.zeros(n if form < EVERY else 0, np.bool_)
    cells = windows.groups.reshape((windows.groups.size, 1))
    progress = np.zeros(PROGRESS, np.int64)
    progress[PLACE] = first
    while not take_rows(
        first, dealing, rows, numbers, results, windows, cells, nodes, outputs, edges, marked, progress, lineage
    ):
        nodes, outputs, edges = (
            more_room(nodes, progress[NODES]), more_room(outputs, progress[MADE]), more_room(edges, progress[NAMED])
        )  # fmt: skip
    state[ENTERED] += n
    until = watermark
    if n > 0:
        until = max(until, rows.table[T_END, n - 1] - 1)
    if form > EVERY:
        end_windows(until, numbers, results, windows, nodes, outputs, edges, progress, lineage)
    elif form == EVERY:
        progress[GOING] = state[HEAD] if state[HEAD] >= 0 and state[TICK] <= until else -1
        while not pass_all(until, numbers, results, windows, nodes, outputs, edges, progress, lineage):
            outputs, edges = more_room(outputs, progress[MADE]), more_room(edges, progress[NAMED])
    chosen = np.flatnonzero(marked) if form < EVERY else np.arange(progress[RESULTS])
    step = numbers.step if form == EVERY else 0
    table = in_order(outputs, chosen, edges[: progress[EDGES]], step, form >= EVERY)
    return table, edges[: progress[EDGES]], nodes


@njit()
def more_room(array, needed):  # type: ignore[no-untyped-def]
    """Return the array, or a larger copy if it has fewer than `needed` rows."""
    return grow(array, needed) if array.shape[0] < needed else array


@bare
def take_rows(  # type: ignore[no-untyped-def]
    first, dealing, rows, numbers, results, windows, cells, nodes, outputs, edges, marked, progress, lineage
):  # fmt: skip
    """Let the rows from `progress[PLACE]` on enter their windows. Return False if `nodes`, `outputs` or `edges` are
    full.

    - `progress`: counts. If an array is full, they say how much room is needed.
    - `dealing`: True if the rows are already in the store, from row `first` on.
    - `marked`: receives a mark for each row that has a result.

    The list of groups is ordered for EACH and SESSION. For EVERY, it has all groups that have a row.
    """
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
        if lacks(nodes, outputs, edges, progress):
            progress[PLACE] = p
            return False
        if form > EVERY and state[HEAD] >= 0 and groups[state[HEAD], G_DUE] < now:
            end_windows(now - 1, numbers, results, windows, nodes, outputs, edges, progress, lineage)
        moves = form >= EVERY and groups[slot, G_COUNT] == 0
        if form > EVERY and not moves and state[TAIL] != slot:
            unlink(groups, slot, state)
            moves = True
        if due:
            pass_time(slot, now - 1, numbers, results, windows, nodes, outputs, edges, progress, lineage)
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
            give(outputs, i, slot, now, kinds, parameters, store, groups, nodes, keys, scratch)
            marked[i] = True
            if lineage:
                progress[EDGES] = name(edges, progress[EDGES], i, store, groups[slot, G_HEAD])
    return True


@bare
def pass_all(until, numbers, results, windows, nodes, outputs, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """Output the results of EVERY that are due by `until`, from the group `progress[GOING]` on. Return False if an
    array is full."""
    groups, state = windows.groups, windows.state
    while progress[GOING] >= 0:
        slot = progress[GOING]
        ask_room(slot, until, numbers, groups, progress, lineage)
        if lacks(nodes, outputs, edges, progress):
            return False
        after = groups[slot, G_AFTER]
        if after >= 0:
            prefetch(groups, after)
        pass_time(slot, until, numbers, results, windows, nodes, outputs, edges, progress, lineage)
        if groups[slot, G_COUNT] == 0:
            unlink(groups, slot, state)
        progress[GOING] = after
    if state[HEAD] >= 0 and state[TICK] <= until:
        state[TICK] = groups[state[HEAD], G_DUE]
    return True


@inside
def ask_room(slot, until, numbers, groups, progress, lineage):  # type: ignore[no-untyped-def]
    """Set the counts of output rows and edges in `progress` to their values after `pass_time` has output a group's
    results of EVERY."""
    due = groups[slot, G_DUE]
    more = (min(until, groups[slot, G_END] + numbers.length) - due) // numbers.step + 1 if due <= until else 0
    progress[MADE] = progress[RESULTS] + more
    if lineage:
        progress[NAMED] = progress[EDGES] + more * groups[slot, G_COUNT]


@inside
def lacks(nodes, outputs, edges, progress):  # type: ignore[no-untyped-def]
    """Return True if an array has less room than `progress` demands."""
    return (
        nodes.shape[0] < progress[NODES] or outputs.shape[0] < progress[MADE] or edges.shape[0] < progress[NAMED]
    )  # fmt: skip


@bare
def pass_time(slot, until, numbers, results, windows, nodes, outputs, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """Output the results of a group that are due by `until`: those of EVERY, or those of a window that has ended.
    `progress` counts output rows and edges. There must be room for them (`ask_room`)."""
    store, groups, state = windows.store, windows.groups, windows.state
    kinds, parameters = results.kinds, results.parameters
    while groups[slot, G_COUNT] > 0 and groups[slot, G_DUE] <= until:
        due, out = groups[slot, G_DUE], progress[RESULTS]
        if numbers.form == EVERY and not slid(
            slot, due - numbers.length, kinds, parameters, store, groups, nodes, state
        ):
            break
        give(outputs, out, slot, due, kinds, parameters, store, groups, nodes, windows.keys, results.scratch)
        if lineage:
            progress[EDGES] = name(edges, progress[EDGES], out, store, groups[slot, G_HEAD])
        progress[RESULTS] += 1
        if numbers.form == EVERY:
            groups[slot, G_DUE] = due + numbers.step
        else:
            clear(store, slot, groups, kinds, nodes, state)


@bare
def end_windows(until, numbers, results, windows, nodes, outputs, edges, progress, lineage):  # type: ignore[no-untyped-def]
    """Output the results of EACH and SESSION windows that end by `until`, and remove their groups from the list of
    groups."""
    groups, state = windows.groups, windows.state
    while state[HEAD] >= 0 and groups[state[HEAD], G_DUE] <= until:
        slot = state[HEAD]
        pass_time(slot, until, numbers, results, windows, nodes, outputs, edges, progress, lineage)
        unlink(groups, slot, state)


@inside
def slid(slot, over, kinds, parameters, store, groups, nodes, state):  # type: ignore[no-untyped-def]
    """Remove the rows of a group that do not end after `over` from its window. Return True if any rows remain."""
    if groups[slot, G_END] <= over:
        clear(store, slot, groups, kinds, nodes, state)
        return False
    while store[groups[slot, G_HEAD], END] <= over:
        leave(store, slot, groups, kinds, parameters, nodes, state)
    return True


@njit()
def slide_on(rows, numbers, results, windows):  # type: ignore[no-untyped-def]
    """Let rows enter the windows of their groups, and remove old rows. Return the output rows, sorted by end. The
    arguments are those of `advance`. The store must have room for all rows, and `groups` for all slots. There is at
    most one result per row. Results of an instant are in the order of their latest rows."""
    n = rows.slots.shape[0]
    outputs = np.empty((FIRST + windows.keys.shape[1] + results.kinds.shape[0], n), np.int64)
    cells = windows.groups.reshape((windows.groups.size, 1))
    count = slide_rows(rows, numbers, results, windows, cells, outputs.T)
    windows.state[ROWS] += n
    windows.state[ENTERED] += n
    outputs[IDENTITY] = 0
    return outputs[:, :count]


@bare
def slide_rows(rows, numbers, results, windows, cells, outputs):  # type: ignore[no-untyped-def]
    """Run the loop of `slide_on` without allocating memory. Return the number of output rows."""
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
            give(outputs, out, slot, now, kinds, parameters, store, groups, nodes, windows.keys, results.scratch)
            out += 1
    return out


def chained(store: Ints, groups: Ints) -> bool:
    """Return True if the chain of each group contains the group's rows in order, as it must in a snapshot."""
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
