"""The store of occurrences that wait for a partner. Its rows are chained by key, in order of arrival.

A row is divided between two arrays. The search for a partner reads `hot`; `cold` (a header, then the arguments) is read
only once a partner is found. Rows of both sides of a goal share one store. Each slot, which is the number of a key, has
a chain for each side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.array_capacity import SPARE, roomy
from cep.core.kernels import njit
from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START
from cep.operators.goals.contract import Arrays, Ints, KeyedRows, StateKeys, WaitingRows
from cep.operators.goals.intrinsics import bare, inside, prefetch
from cep.operators.goals.keys import MISSING, NAN, Keys, grow
from cep.operators.goals.state_tables import DeclaredState, KeyedBy, StateTable

BEGIN, END, NEXT, PREVIOUS = 0, 1, 2, 3
HOT = 4
ARRIVAL, NAME, SLOT, SIDE, OTHER = 0, 1, 2, 3, 4
HEADER = 5
# The NEXT of a row that has left its chain for good.
GONE = -2
FOREVER = 2**62

# How many arrivals ahead to prefetch chains, then their first, second and third rows.
FAR, NEAR, NEARER, NEAREST = 24, 12, 6, 3


def new_store(width: int) -> tuple[Ints, Ints]:
    """Return an empty store for occurrences with up to `width` arguments."""
    count = roomy(0, 16)
    return np.empty((count, HOT), np.int64), np.empty((count, HEADER + width), np.int64)


def room(array: Ints, needed: int) -> Ints:
    """Return the array, or a larger copy if it has fewer than `needed` rows."""
    if array.shape[0] >= needed:
        return array
    larger = np.empty((roomy(needed, 2 * array.shape[0]), array.shape[1]), np.int64)
    larger[: array.shape[0]] = array
    return larger


def more_chains(chains: Ints, slots: int) -> Ints:
    """Return the array of chains, enlarged to at least `slots` slots. The added chains are empty."""
    if chains.shape[0] >= slots:
        return chains
    larger = np.full((roomy(slots, 2 * chains.shape[0]), chains.shape[1]), -1, np.int64)
    larger[: chains.shape[0]] = chains
    return larger


def chained(hot: Ints, chains: Ints, slots: Ints) -> Ints:
    """Return the stored rows that are in the chains of these slots. The slots must be distinct."""
    chained_rows: Ints = _chained(hot, chains, slots, np.empty((4 * len(slots) + 1, 1), np.int64))
    return chained_rows


@njit()
def _chained(hot, chains, slots, rows):  # type: ignore[no-untyped-def]
    """See `chained`. `rows`: a buffer for the result, which is replaced by a larger one if needed."""
    count = 0
    for slot in slots:
        for head in range(0, chains.shape[1], 2):
            p = chains[slot, head]
            while p >= 0:
                if count == rows.shape[0]:
                    rows = grow(rows, count + 1)
                rows[count, 0] = p
                count += 1
                p = hot[p, NEXT]
    return rows[:count, 0].copy()


def kept(hot: Ints, cold: Ints, keep: Ints) -> tuple[Ints, Ints, int]:
    """Return a store that has only the rows `keep`, as its two arrays and the number of rows."""
    return compacted(hot, keep), compacted(cold, keep), len(keep)


@inside
def put(hot, cold, count, table, i, slot, side, width):  # type: ignore[no-untyped-def]
    """Copy row `i` of `table` to row `count` of a store, which must have room. The row is not added to a chain."""
    row, own = np.uint64(i), np.uint64(count)  # unsigned indexes are not tested for negative values
    hot[own, BEGIN] = table[START, row]
    hot[own, END] = table[T_END, row]
    hot[own, NEXT] = hot[own, PREVIOUS] = -1
    cold[own, ARRIVAL] = table[ORDER, row]
    cold[own, NAME] = table[IDENTITY, row]
    cold[own, SLOT] = slot
    cold[own, SIDE] = side
    cold[own, OTHER] = -1
    for k in range(width):
        cold[own, np.uint64(HEADER + k)] = table[np.uint64(FIRST + k), row]


@njit(inline="always")
def ask_ahead(store, chains, slots, i, stored, supersedes, own, searches, searched, onward):  # type: ignore[no-untyped-def]
    """Prefetch the memory that the arrivals after arrival `i` will need.

    - `stored`: True if arrivals are appended to the chain of their side, whose column in `chains` is `own`.
    - `searches`: True if arrivals search the chain of the other side. The search begins at the column `searched` of
      `chains`, and follows the link `onward`.
    """
    n = slots.shape[0]
    if i + FAR < n:
        prefetch(chains, slots[i + FAR])
    if i + NEAR < n:
        slot = slots[i + NEAR]
        if slot >= 0:
            if stored:
                prefetch(store, chains[slot, own + 1])
            if searches:
                prefetch(store, chains[slot, searched])
    if (searches or supersedes) and i + NEARER < n:
        slot = slots[i + NEARER]
        if slot >= 0:
            if supersedes:
                p = chains[slot, own + 1]
                if p >= 0:
                    prefetch(store, store[p, PREVIOUS])
            if searches:
                p = chains[slot, searched]
                if p >= 0:
                    prefetch(store, store[p, onward])
        slot = slots[i + NEAREST]
        if searches and slot >= 0:
            p = chains[slot, searched]
            if p >= 0:
                p = store[p, onward]
                if p >= 0:
                    prefetch(store, store[p, onward])


@njit(inline="always")
def ask_absent_ahead(store, chains, slots, i):  # type: ignore[no-untyped-def]
    """Prefetch the latest negated rows of the keys that arrive after arrival `i`."""
    n = slots.shape[0]
    if i + FAR < n:
        prefetch(chains, slots[i + FAR])
    if i + NEAR < n:
        slot = slots[i + NEAR]
        if slot >= 0:
            prefetch(store, chains[slot, 1])
    if i + NEARER < n:
        slot = slots[i + NEARER]
        if slot >= 0:
            t = chains[slot, 1]
            if t >= 0:
                prefetch(store, store[t, PREVIOUS])


@njit(inline="always")
def link(store, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Append row `p` to a chain, which is a linked list of rows of `store`.

    `slot`: the number of the chain's key, and its row in `chains`, which must exist (`more_chains`). `head`: the column
    of `chains` with the first row of the chain. The next column has the last row.
    """
    tail = chains[np.uint64(slot), head + 1]
    store[np.uint64(p), PREVIOUS] = tail
    if tail >= 0:
        store[np.uint64(tail), NEXT] = p
    else:
        chains[np.uint64(slot), head] = p
    chains[np.uint64(slot), head + 1] = p


@bare
def link_sorted(store, cold, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Insert row `p` into a chain that is sorted by (end, start, order), after equal rows."""
    before = chains[slot, head + 1]
    while (
        before >= 0
        and store[before, END] == store[p, END]
        and (
            store[before, BEGIN] > store[p, BEGIN]
            or (store[before, BEGIN] == store[p, BEGIN] and cold[before, ARRIVAL] > cold[p, ARRIVAL])
        )
    ):
        before = store[before, PREVIOUS]
    after = chains[slot, head] if before < 0 else store[before, NEXT]
    store[p, PREVIOUS] = before
    store[p, NEXT] = after
    if before >= 0:
        store[before, NEXT] = p
    else:
        chains[slot, head] = p
    if after >= 0:
        store[after, PREVIOUS] = p
    else:
        chains[slot, head + 1] = p


@inside
def unlink(store, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Remove row `p` from its chain, and mark it as removed."""
    own = np.uint64(p)
    before = store[own, PREVIOUS]
    after = store[own, NEXT]
    if before >= 0:
        store[np.uint64(before), NEXT] = after
    else:
        chains[np.uint64(slot), head] = after
    if after >= 0:
        store[np.uint64(after), PREVIOUS] = before
    else:
        chains[np.uint64(slot), head + 1] = before
    store[own, NEXT] = GONE


@inside
def supersede(store, chains, slot, head, within, coming):  # type: ignore[no-untyped-def]
    """Remove left rows that can no longer be chosen, because a newer row is preferred. All occurrences of the right
    side must be instants.

    `coming`: the earliest time of right occurrences that may still arrive. Of the rows that end before this time, only
    the last can still be chosen.
    """
    p = chains[np.uint64(slot), head + 1]
    while p >= 0 and store[np.uint64(p), END] >= coming:
        p = store[np.uint64(p), PREVIOUS]
    if p < 0:
        return
    end = store[np.uint64(p), END]
    latest = store[np.uint64(p), BEGIN]
    p = store[np.uint64(p), PREVIOUS]
    while p >= 0 and store[np.uint64(p), END] == end:
        latest = max(latest, store[np.uint64(p), BEGIN])
        p = store[np.uint64(p), PREVIOUS]
    while p >= 0 and (within >= FOREVER or store[np.uint64(p), BEGIN] <= latest):
        before = store[np.uint64(p), PREVIOUS]
        unlink(store, chains, slot, head, p)
        p = before


@bare
def note_absent(store, cold, count, table, x, slot, chains, forgets):  # type: ignore[no-untyped-def]
    """Store a negated row. Its start is replaced by the latest start of its key so far.

    `forgets`: True if all right sides are instants. Then only the latest of the rows that end before the new row is
    kept.
    """
    put(store, cold, count, table, x, slot, 0, 0)
    tail = chains[slot, 1]
    if tail >= 0:
        store[count, BEGIN] = max(store[count, BEGIN], store[tail, BEGIN])
    link(store, chains, slot, 0, count)
    if forgets:
        p = tail
        while p >= 0 and store[p, END] == store[count, END]:
            p = store[p, PREVIOUS]
        if p >= 0:
            p = store[p, PREVIOUS]
        while p >= 0:
            before = store[p, PREVIOUS]
            unlink(store, chains, slot, 0, p)
            p = before


@bare
def known(store, cold, chains, slot, table, i, width):  # type: ignore[no-untyped-def]
    """Return True if the store has an occurrence that is identical to row `i` of `table`."""
    p = chains[slot, 1]
    while p >= 0 and store[p, END] == table[T_END, i]:
        same = store[p, BEGIN] == table[START, i]
        for k in range(width):
            same = same and cold[p, HEADER + k] == table[FIRST + k, i]
        if same:
            return True
        p = store[p, PREVIOUS]
    return False


@inside
def feed(waiting, count, arrival, start, order, arguments, width):  # type: ignore[no-untyped-def]
    """Add an occurrence that a recursive rule has derived, as a left side of this rule, at row `count` of the store.

    Return False if the store has an identical occurrence that arrived earlier. If an identical occurrence arrived
    later, it has not been paired yet, and is replaced.
    """
    hot, cold, chains, slot = waiting.hot, waiting.cold, waiting.chains, arrival.slot
    p = chains[slot, 1]
    while p >= 0 and hot[p, END] == arrival.now:
        same = hot[p, BEGIN] == start
        for k in range(width):
            same = same and cold[p, HEADER + k] == arguments[k]
        if same:
            if cold[p, ARRIVAL] <= order:
                return False
            unlink(hot, chains, slot, 0, p)
            break
        p = hot[p, PREVIOUS]
    hot[count, BEGIN] = start
    hot[count, END] = arrival.now
    hot[count, NEXT] = -1
    hot[count, PREVIOUS] = -1
    cold[count, ARRIVAL] = order
    cold[count, NAME] = 0
    cold[count, SLOT] = slot
    cold[count, SIDE] = 0
    cold[count, OTHER] = -1
    for k in range(width):
        cold[count, HEADER + k] = arguments[k]
    link_sorted(hot, cold, chains, slot, 0, count)
    return True


@njit(inline="always")
def sortable(bits, is_float):  # type: ignore[no-untyped-def]
    """Convert a value's bits to an integer that sorts like the value. Missing values sort first."""
    if is_float == 0:
        return bits
    if bits == NAN:
        return MISSING
    return bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFFFFFFFFFF)


@njit()
def rows_table(store, cold, index, width):  # type: ignore[no-untyped-def]
    """Return the stored rows `index` as a table."""
    table = np.empty((FIRST + width, index.shape[0]), np.int64)
    for i in range(index.shape[0]):
        p = index[i]
        table[START, i] = store[p, BEGIN]
        table[T_END, i] = store[p, END]
        table[ORDER, i] = cold[p, ARRIVAL]
        table[IDENTITY, i] = cold[p, NAME]
        for k in range(width):
            table[FIRST + k, i] = cold[p, HEADER + k]
    return table


@njit()
def live(hot, cold, count, within, reach_left, reach_right, watermark):  # type: ignore[no-untyped-def]
    """Return the stored rows that may be needed after `watermark`.

    These rows began less than `within` before the watermark, and ended less than their side's reach before it.
    """
    keep = np.empty(count, np.int64)
    n = 0
    for p in range(count):
        if hot[p, NEXT] == GONE:
            continue
        reach = reach_left if cold[p, SIDE] == 0 else reach_right
        if hot[p, END] <= watermark - reach or hot[p, BEGIN] <= watermark - within:
            continue
        keep[n] = p
        n += 1
    return keep[:n]


@njit()
def compacted(store, keep):  # type: ignore[no-untyped-def]
    """Return a copy of the rows `keep` that has room to grow."""
    fresh = np.empty((max(keep.shape[0], SPARE * max(8, keep.shape[0])), store.shape[1]), np.int64)
    for i in range(keep.shape[0]):
        fresh[i] = store[keep[i]]
    return fresh


def renumber(cold: Ints, count: int, keys: Keys) -> Keys:
    """Give new slots to the keys that stored rows still use. Update `cold`, and return the keys."""
    return Keys.of(*_renumbered(cold, count, keys.table, keys.count))


@njit()
def _renumbered(cold, count, keys, slots):  # type: ignore[no-untyped-def]
    numbers = np.full(max(slots, 1), -1, np.int64)
    fresh = np.empty((max(slots, SPARE * 8), keys.shape[1]), np.int64)
    n = 0
    for p in range(count):
        slot = cold[p, SLOT]
        if slot < 0:
            continue
        if numbers[slot] < 0:
            numbers[slot] = n
            fresh[n] = keys[slot]
            n += 1
        cold[p, SLOT] = numbers[slot]
    return fresh, n


@bare
def tidied(hot, cold, chains, count, within, reach_left, reach_right, watermark, in_order):  # type: ignore[no-untyped-def]
    """Drop the rows that are not needed after the watermark (`live`), and rebuild the chains. Return the number of
    remaining rows."""
    for slot in range(chains.shape[0]):
        for cell in range(chains.shape[1]):
            chains[slot, cell] = -1
    n = 0
    for p in range(count):
        row = np.uint64(p)
        if p + FAR < count and hot[np.uint64(p + FAR), NEXT] != GONE:
            prefetch(chains, cold[np.uint64(p + FAR), SLOT])
        if p + NEAR < count and hot[np.uint64(p + NEAR), NEXT] != GONE:
            prefetch(hot, chains[cold[np.uint64(p + NEAR), SLOT], 2 * cold[np.uint64(p + NEAR), SIDE] + 1])
        if hot[row, NEXT] == GONE:
            continue
        reach = reach_left if cold[row, SIDE] == 0 else reach_right
        if hot[row, END] <= watermark - reach or hot[row, BEGIN] <= watermark - within:
            continue
        own = np.uint64(n)
        hot[own, BEGIN] = hot[row, BEGIN]
        hot[own, END] = hot[row, END]
        hot[own, NEXT] = -1
        hot[own, PREVIOUS] = -1
        for cell in range(cold.shape[1]):
            cold[own, np.uint64(cell)] = cold[row, np.uint64(cell)]
        if in_order:
            link(hot, chains, cold[own, SLOT], 2 * cold[own, SIDE], n)
        else:
            link_sorted(hot, cold, chains, cold[own, SLOT], 0, n)
        n += 1
    return n


def shrunk(array: Ints, count: int) -> Ints:
    """Return the array or, if most of it is unused, a smaller copy of its first `count` rows."""
    return array if array.shape[0] <= max(8 * count, 1 << 17) else array[: 2 * count + 1024].copy()


@njit()
def relink(hot, cold, count, chains, in_order):  # type: ignore[no-untyped-def]
    """Rebuild the chains of a store.

    `in_order`: True if the rows are stored in order of arrival. Rows with a negative slot belong to no chain.
    """
    for p in range(count):
        hot[p, NEXT] = -1
        hot[p, PREVIOUS] = -1
        if cold[p, SLOT] < 0:
            continue
        if in_order:
            link(hot, chains, cold[p, SLOT], 2 * cold[p, SIDE], p)
        else:
            link_sorted(hot, cold, chains, cold[p, SLOT], 0, p)


ABSENT = 2
"""The index of a join's negated input."""


def stored(
    hot: str, width: int, codes: Sequence[Sequence[int]], key: Sequence[int], least: int, other: str | None = None
) -> dict[str, StateTable]:
    """Declare the state tables of a store: times of rows (`hot`), their other parts (`cold`), and their keys.

    - `width`: the number of arguments of a row.
    - `codes`: for each side, the arguments that are pool codes.
    - `key`: the arguments of the first side that form the key. `least`: the least slot of a row.
    - `other`: the table of the second key of a row, or None.
    """
    refers = {SLOT: ("keys", least)} | ({} if other is None else {OTHER: (other, -1)})
    keyed = [
        KeyedBy(side, {column: ("cold", HEADER + column) for column in range(width)}) for side in range(len(codes))
    ]
    return {
        hot: StateTable(width=HOT, beside="cold"),
        "cold": StateTable(
            width=HEADER + width,
            keyed=tuple(keyed),
            tag=SIDE,
            refers=refers,
            codes_by_tag=tuple(tuple(HEADER + c for c in code if c < width) for code in codes),
            handles=(NAME,),
            ranges={SIDE: (0, len(codes))},
            order=((hot, END), (hot, BEGIN), ("cold", ARRIVAL)),
        ),
        "keys": StateTable(
            width=len(key),
            dictionary=True,
            codes=tuple(place for place, column in enumerate(key) if column in codes[0]),
        ),
    }


def waiting_rows(
    hot: Ints, cold: Ints, side: int, width: int, within: int, reach: int, watermark: int
) -> tuple[WaitingRows, Ints]:
    """Copy the rows of a side that may still find a partner after the watermark. Also return their row numbers."""
    start, end = hot[:, BEGIN], hot[:, END]
    chosen = (hot[:, NEXT] != GONE) & (cold[:, SIDE] == side)
    chosen &= (start > watermark - within) & (end > watermark - reach)
    own = np.flatnonzero(chosen)
    own = own[np.argsort(cold[own, ARRIVAL], kind="stable")]
    own = own[np.argsort(end[own], kind="stable")]
    start, end = start[own], end[own]
    by_start = np.full(len(own), FOREVER, np.int64) if within >= FOREVER else start + within
    by_end = np.full(len(own), FOREVER, np.int64) if reach >= FOREVER else end + reach
    arguments = np.ascontiguousarray(cold[own, HEADER : HEADER + width].T)
    return WaitingRows(start, end, arguments, np.minimum(by_start, by_end), cold[own, ARRIVAL]), own


class StoredState(DeclaredState):
    """The base class of goals whose state is a store."""

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """See `cep.operators.goals.contract`. Links and slots are ignored, because they depend on row numbers."""
        own = state["cold"].copy()
        own[:, SLOT], own[:, OTHER] = np.minimum(own[:, SLOT], 0), 0
        hot = state["store" if "store" in state else "hot"]
        keyed_rows = [(self.keys_by_row("cold", state, keys), np.concatenate([hot[:, [BEGIN, END]], own], axis=1))]
        if "absent_keys" in state:
            slots: Ints = state["absent_cold"][:, SLOT]
            away = np.concatenate([state["absent_hot"][:, [BEGIN, END]], state["absent_keys"][slots]], axis=1)
            keyed_rows.append((self.keys_by_row("absent_keys", state, keys)[slots], away))
        return keyed_rows
