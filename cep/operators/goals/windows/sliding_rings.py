"""Kernels for sliding windows, in constant time per row. Each group has a ring of rows, divided into a front and a
back.

The front has the older rows. Each of its rows has the aggregate of itself and all younger rows of the front. The back
has the younger rows, with one running aggregate. The result of a window combines the front's first row with the back.
When the front is empty, the oldest value is subtracted from the back if that is exact. Otherwise the back becomes a new
front, computed from the youngest row on. (This is the two-stack queue of functional programming; cf. Tangwongsan,
Hirzel, Schneider, Wu: General Incremental Sliding-Window Aggregation, PVLDB 8(7), 2015.)

A window of time whose values cannot be subtracted exactly is divided at a fixed time. The back then only has rows since
the last multiple of the window's length. So a result depends on the rows of its window alone, to the last bit.

A partial result is three words (n, x, y): the number of its values, and two words that depend on the function. Old rows
leave a window before a row enters it. A group without rows is equal to a new one, so results do not depend on when
groups without rows are dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cep.core.relation import END as T_END
from cep.core.relation import FIRST, IDENTITY, ORDER, START, Table
from cep.operators.goals.contract import Bools, Ints
from cep.operators.goals.intrinsics import as_bits, as_float, bare, inside, prefetch
from cep.operators.goals.keys import MISSING, id_of_two
from cep.operators.goals.pairs.found_pairs import CLOSE, follows
from cep.operators.goals.windows.partial_aggregates import (
    AVG,
    COUNT_VALUES,
    DISTINCT,
    EXACT_ROWS,
    SUM_FLOAT,
    SUM_INT,
    add_floats,
    around,
    combine,
    exact,
    lift,
    outcome,
)

# Columns of a row in a ring: its times, then one value per result.
BEGIN, END, VALUES = 0, 1, 2

# Columns of the partial results beside a row. LEAST: in the front, the least start from the row on; in the back, the
# least start up to the row, unless ASCENDS. PARTIAL: in the front, three words per result.
LEAST, PARTIAL = 0, 1

# Columns of a group: the first row of its ring, the ring's size, the place of the oldest row in it, the number of rows,
# and its PARTS; then the aggregate of the back, three words per result. A distinct count has only its number.
G_RING, G_SIZE, G_OLDEST, G_COUNT, G_PARTS, G_BACK = range(6)

# G_PARTS: FRONT for each row of the front, and flags of the back. ASCENDS: no start is less than the one before it, so
# the oldest start is the least. EXACT: all values can be subtracted.
ASCENDS, EXACT, FRONT = 1, 2, 4
SUBTRACTS = ASCENDS | EXACT

# Counts: the rows of all rings, the tallies of distinct values, the edges; the rows and edges that `slide` needs to
# continue; 1 once there are partial results beside rows; 1 if the results of the step may be out of order; and for each
# size of rings the first row of an unused ring, from 1. The first word of an unused ring is the next one.
ROWS, TALLIES, EDGES, MORE_ROWS, MORE_EDGES, FOLDS, DISORDER, UNUSED = range(8)
COUNTS = UNUSED + 62

LEAST_SIZE, SHORT = 4, 16
"""The size of a group's first ring, and the maximum number of events for which this ring has room for the whole
window."""
UNLIMITED = 2**62
FAR, NEAR = 24, 12
"""The number of rows by which prefetching of a group, and of its ring, is ahead of processing."""
CACHED = 8192
"""The maximum number of groups for which most of them are in the processor's cache, so that less is prefetched."""
BLOCK = 32
"""The number of rows that `process` takes before `process_exact` tries again."""


class Windows(NamedTuple):
    """The state of sliding windows.

    - `rings`: the rows of all groups. `partials`: the aggregates of these rows. `names`: their handles, for lineage.
    - `groups`: a row for each group.
    - `tallies`: for each group and DISTINCT result, how often the window has each value: rows (group and result, value,
      count). `tally_index`: their hash table.
    - `counts`: the numbers ROWS to DISORDER, and the unused rings.
    """

    rings: Ints
    partials: Ints
    names: Ints
    groups: Ints
    tally_index: Ints
    tallies: Ints
    counts: Ints


class Entering(NamedTuple):
    """Arriving occurrences.

    `values`: the bits of the functions' arguments, one row per result. `slots`: the group of each occurrence.
    """

    table: Table
    values: Ints
    slots: Ints


class SlidingResults(NamedTuple):
    """Buffers for the results of a step.

    - `outputs`: room for one row per arriving occurrence.
    - `edges`: rows (output row, handle of a row in its window), for lineage.
    - `later`: a buffer with one word per group. It need not be cleared.
    - `superseded`: a buffer with one cell per occurrence. It need not be cleared.
    """

    outputs: Table
    edges: Ints
    later: Ints
    superseded: Bools


@inside
def subtractable(kind, value):  # type: ignore[no-untyped-def]
    """Return True if this value can be subtracted exactly from a partial result of this kind."""
    if kind == SUM_FLOAT or kind == AVG:
        return lift(kind, value) == 0 or exact(as_float(value))
    return kind <= SUM_INT or kind == DISTINCT


@inside
def add(kind, n, x, y, value):  # type: ignore[no-untyped-def]
    """Add a value to a partial result, as its youngest value. Functions without a case of their own here use
    `combine`."""
    more = lift(kind, value)
    if kind <= COUNT_VALUES:
        return n + more, x, y
    if kind == SUM_INT:
        if more == 0:
            return n, x, y
        total = around(x, value)
        if ((x ^ total) & (value ^ total)) < 0:
            y += 1 if x > 0 else -1
        return n + 1, total, y
    if (kind == SUM_FLOAT or kind == AVG) and n > 0 and more > 0:
        x, y = add_floats(x, y, value, 0)
        return n + 1, x, y
    return combine(kind, n, x, y, more, value, 0)


@inside
def subtract(kind, n, x, y, value):  # type: ignore[no-untyped-def]
    """Subtract the oldest value from a partial result. The value must be `subtractable`."""
    if lift(kind, value) == 0:
        return n, x, y
    if kind <= COUNT_VALUES:
        return n - 1, x, y
    if kind == SUM_INT:
        rest = around(x, -value)
        if ((x ^ value) & (x ^ rest)) < 0:
            y += 1 if x > 0 else -1
        return n - 1, rest, y
    x, y = add_floats(x, y, as_bits(-as_float(value)), 0)
    return n - 1, x, y


@inside
def tally(windows, group, value, change):  # type: ignore[no-untyped-def]
    """Add `change` to the count of a value in a window, and return the new count.

    `group`: a number for the combination of a BY group and a result. There must be room for one more value.
    """
    tallies, count = windows.tallies, windows.counts[TALLIES]
    where = id_of_two(group, value, windows.tally_index, tallies, count)
    if where == count:
        windows.counts[TALLIES] = count + 1
        tallies[where, 2] = 0
    tallies[where, 2] += change
    return tallies[where, 2]


@inside
def around_ring(ring, size, place):  # type: ignore[no-untyped-def]
    """Return the row of a place in a ring. The places from `size` on start again at the first row."""
    return ring + (place if place < size else place - size)


@inside
def entered(windows, slot, count, group, cell, value, limit):  # type: ignore[no-untyped-def]
    """Return 1 if none of the stored rows of a group has the entering value, else 0.

    `count`: the number of stored rows. Short windows are searched; long ones have tallies, which are updated.
    """
    if limit > SHORT:
        return 1 if tally(windows, group, value, 1) == 1 else 0
    groups = windows.groups
    ring, size, oldest = groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST]
    return absent(windows.rings, ring, size, oldest, count, cell, value)


@inside
def absent(rings, ring, size, place, count, cell, value):  # type: ignore[no-untyped-def]
    """Return 1 if none of `count` rows of a ring, starting at a place, has this value, else 0."""
    for later in range(place, place + count):
        if rings[around_ring(ring, size, later), cell] == value:
            return 0
    return 1


@bare
def fold(windows, slot, kinds):  # type: ignore[no-untyped-def]
    """Move all rows of a group to its front, and empty its back."""
    rings, partials, groups = windows.rings, windows.partials, windows.groups
    count, younger = groups[slot, G_COUNT], -1
    for place in range(groups[slot, G_OLDEST] + count - 1, groups[slot, G_OLDEST] - 1, -1):
        row = around_ring(groups[slot, G_RING], groups[slot, G_SIZE], place)
        partials[row, LEAST] = rings[row, BEGIN]
        if younger >= 0:
            partials[row, LEAST] = min(partials[row, LEAST], partials[younger, LEAST])
        for k in range(kinds.shape[0]):
            kind, cell = kinds[k], PARTIAL + 3 * k
            n, x, y = lift(kind, rings[row, VALUES + k]), rings[row, VALUES + k], 0
            if younger >= 0 and kind != DISTINCT:
                n, x, y = combine(
                    kind, n, x, y, partials[younger, cell], partials[younger, cell + 1], partials[younger, cell + 2]
                )
            partials[row, cell], partials[row, cell + 1], partials[row, cell + 2] = n, x, y
        younger = row
    for k in range(kinds.shape[0]):
        for cell in range(G_BACK + 3 * k, G_BACK + 3 * k + 3 if kinds[k] != DISTINCT else 0):
            groups[slot, cell] = 0
    groups[slot, G_PARTS] = FRONT * count + SUBTRACTS
    windows.counts[FOLDS] = 1


@inside
def least_size(limit):  # type: ignore[no-untyped-def]
    """Return the size of a group's first ring, if its window has at most `limit` rows."""
    return limit if limit <= SHORT else LEAST_SIZE


@inside
def unused(size):  # type: ignore[no-untyped-def]
    """Return the index in `counts` of the list of unused rings that have this size."""
    cell = UNUSED
    while LEAST_SIZE << (cell - UNUSED) < size:
        cell += 1
    return cell


@bare
def new_ring(windows, size):  # type: ignore[no-untyped-def]
    """Return the first row of an unused ring of this size, or -1 if there is no room."""
    counts, cell = windows.counts, unused(size)
    ring = counts[cell] - 1
    if ring >= 0:
        counts[cell] = windows.rings[ring, BEGIN]
    elif counts[ROWS] + size <= windows.rings.shape[0]:
        ring = counts[ROWS]
        counts[ROWS] += size
    else:
        counts[MORE_ROWS] = size
    return ring


@bare
def move(windows, slot, ring, size):  # type: ignore[no-untyped-def]
    """Move the rows of a group to another ring."""
    rings, partials, names, groups = windows.rings, windows.partials, windows.names, windows.groups
    old, old_size = groups[slot, G_RING], groups[slot, G_SIZE]
    for place in range(groups[slot, G_COUNT]):
        row = around_ring(old, old_size, groups[slot, G_OLDEST] + place)
        for cell in range(rings.shape[1]):
            rings[ring + place, cell] = rings[row, cell]
        for cell in range(partials.shape[1] if windows.counts[FOLDS] else 0):
            partials[ring + place, cell] = partials[row, cell]
        for cell in range(names.shape[1]):
            names[ring + place, cell] = names[row, cell]
    if old_size > 0:
        cell = unused(old_size)
        rings[old, BEGIN] = windows.counts[cell]
        windows.counts[cell] = old + 1
    groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST] = ring, size, 0


@bare
def mark_superseded(table, slots, later, superseded):  # type: ignore[no-untyped-def]
    """Mark the occurrences that another occurrence of their group follows at the same time."""
    n = slots.shape[0]
    for i in range(n - 1, -1, -1):
        slot = slots[i]
        j = later[slot]
        if j <= i or j >= n:  # the cell has not been written
            j = i
        superseded[i] = (j > i) & (slots[j] == slot) & (table[T_END, j] == table[T_END, i])
        later[slot] = i


@inside
def least(windows, ring, size, place, parts, back, begin):  # type: ignore[no-untyped-def]
    """Return the least start among the rows in a group's back and a new row, and the group's flags (`parts`).

    `back`: the number of rows in the back, which are before `place`. `begin`: the start of the new row.
    """
    if back == 0:
        return begin, parts
    before = np.uint64(around_ring(ring, size, place - 1))
    if not parts & ASCENDS:
        return min(begin, windows.partials[before, LEAST]), parts
    if windows.rings[before, BEGIN] > begin:
        parts &= ~ASCENDS
    return min(begin, windows.rings[np.uint64(around_ring(ring, size, place - back)), BEGIN]), parts


@inside
def append(windows, kinds, results, slot, row, parts, back, start):  # type: ignore[no-untyped-def]
    """Add a row to the back of its group. `count_distinct` counts the row's distinct values. Return the group's flags
    (`parts`).

    - `back`: the number of rows that the back had.
    - `start`: the least start in the back, including the new row. It is only stored if starts do not ascend.
    """
    rings, groups = windows.rings, windows.groups
    if not parts & ASCENDS:
        windows.partials[row, LEAST] = start
        windows.counts[FOLDS] = 1
    if back + 1 >= EXACT_ROWS:
        parts &= ~EXACT
    for k in range(results):
        kind, cell, value = kinds[k], G_BACK + 3 * k, rings[row, VALUES + k]
        if not subtractable(kind, value):
            parts &= ~EXACT
        if kind != DISTINCT:
            n, x, y = groups[slot, cell], groups[slot, cell + 1], groups[slot, cell + 2]
            groups[slot, cell], groups[slot, cell + 1], groups[slot, cell + 2] = add(kind, n, x, y, value)
    return parts


@inside
def count_distinct(windows, kinds, results, slot, row, count, limit):  # type: ignore[no-untyped-def]
    """Count the distinct values of a row that enters its group. `count`: the number of rows that the group had."""
    for k in range(results):
        value = windows.rings[row, VALUES + k]
        if kinds[k] == DISTINCT and lift(DISTINCT, value) == 1:
            group = np.int64(slot) * results + k
            windows.groups[slot, G_BACK + 3 * k] += entered(windows, slot, count, group, VALUES + k, value, limit)


@bare
def divide(windows, slot, kinds, front):  # type: ignore[no-untyped-def]
    """Move the first `front` rows of a group to its front, and the others to its back. Distinct values stay counted."""
    rings, groups, results = windows.rings, windows.groups, kinds.shape[0]
    ring, size, oldest, count = (
        groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST], groups[slot, G_COUNT]
    )  # fmt: skip
    for k in range(results):
        for cell in range(G_BACK + 3 * k, G_BACK + 3 * k + 3 if kinds[k] != DISTINCT else 0):
            groups[slot, cell] = 0
    groups[slot, G_COUNT], groups[slot, G_PARTS] = front, SUBTRACTS
    if front > 0:
        fold(windows, slot, kinds)
    parts = groups[slot, G_PARTS]
    for place in range(oldest + front, oldest + count):
        row, back = around_ring(ring, size, place), place - oldest - front
        start, parts = least(windows, ring, size, place, parts, back, rings[row, BEGIN])
        parts = append(windows, kinds, results, slot, row, parts, back, start)
    groups[slot, G_COUNT], groups[slot, G_PARTS] = count, parts


@bare
def divide_at(windows, slot, kinds, since):  # type: ignore[no-untyped-def]
    """Move the rows of a group that end before `since` to its front, and the others to its back."""
    groups, front = windows.groups, windows.groups[slot, G_COUNT]
    ring, size, oldest = groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST]
    while front > 0 and windows.rings[around_ring(ring, size, oldest + front - 1), END] >= since:
        front -= 1
    if front != groups[slot, G_PARTS] // FRONT:
        divide(windows, slot, kinds, front)


@inside
def ask_ahead(windows, keys, slots, i):  # type: ignore[no-untyped-def]
    """Prefetch the groups and rings of occurrences after the occurrence `i`."""
    if i + FAR >= slots.shape[0]:
        return
    rings, groups = windows.rings, windows.groups
    prefetch(groups, slots[i + FAR])
    ahead = np.uint64(slots[i + NEAR])
    ring, size, place = groups[ahead, G_RING], groups[ahead, G_SIZE], groups[ahead, G_OLDEST]
    prefetch(rings, ring + place)
    place = around_ring(ring, size, place + groups[ahead, G_COUNT])
    prefetch(rings, place)
    if keys.shape[0] > CACHED:  # rows may span two cache lines
        prefetch(groups, slots[i + FAR] + 1)
        prefetch(rings, ring + groups[ahead, G_OLDEST] + 1)
        prefetch(rings, place - 1)
        prefetch(keys, slots[i + NEAR])


@inside
def write_result(entering, windows, keys, sliding, i, start, out, last):  # type: ignore[no-untyped-def]
    """Write the interval, the order and the group of a result, which the occurrence `i` causes.

    The results of an instant are kept sorted by (start, order), so those after the new result move on by one row. If
    too many would have to move, or if lineage refers to the rows, the new result becomes the last row.

    `last`: the end, start and order of the latest of the `out` results so far. Return these values for the next result,
    and the row of this result.
    """
    outputs, place, slot = sliding.outputs, out, np.uint64(entering.slots[i])
    now, order = entering.table[T_END, i], entering.table[ORDER, i]
    if (last[0] == now) & ((start < last[1]) | ((start == last[1]) & (order < last[2]))):
        while place > 0 and out - place < CLOSE and follows(outputs, place - 1, start, now, order):
            place -= 1
        if out - place == CLOSE or windows.names.shape[1] > 0:
            windows.counts[DISORDER], place = 1, out
        for moved in range(out, place, -1):
            outputs[START, moved], outputs[ORDER, moved] = outputs[START, moved - 1], outputs[ORDER, moved - 1]
            for c in range(FIRST, outputs.shape[0]):
                outputs[c, moved] = outputs[c, moved - 1]
    else:
        last = now, start, order
    outputs[T_END, out], outputs[IDENTITY, out] = now, 0
    row = np.uint64(place)
    outputs[START, row], outputs[ORDER, row] = start, order
    if keys.shape[1] == 1:  # the compiler makes vector code of the loop, which is slow for one key
        outputs[FIRST, row] = keys[slot, 0]
    else:
        for k in range(keys.shape[1]):
            outputs[FIRST + k, row] = keys[slot, k]
    return last, row


@inside
def latest_result(outputs, out):  # type: ignore[no-untyped-def]
    """Return the end, start and order of the last of `out` results."""
    if out == 0:
        return -UNLIMITED, -UNLIMITED, -UNLIMITED
    return outputs[T_END, out - 1], outputs[START, out - 1], outputs[ORDER, out - 1]


@inside
def result_of(kind, n, x, y):  # type: ignore[no-untyped-def]
    """Return the same as `outcome`, without a call for sums of integers."""
    if kind == SUM_INT:
        return x if n > 0 and y == 0 else MISSING
    return outcome(kind, n, x, y)


@inside
def process(entering, events, duration, kinds, results, windows, keys, sliding, done, until, out):  # type: ignore[no-untyped-def]
    """Do what `slide` does, up to the occurrence `until`. `results`: the number of results."""
    table, values, slots = entering.table, entering.values, entering.slots
    rings, partials, groups, counts = windows.rings, windows.partials, windows.groups, windows.counts
    outputs, edges = sliding.outputs, sliding.edges
    width = keys.shape[1]
    lineage = windows.names.shape[1] > 0
    limit = events if events > 0 else UNLIMITED
    last = latest_result(outputs, out)
    for i in range(done, until):
        ask_ahead(windows, keys, slots, i)
        slot = np.uint64(slots[i])
        now = table[T_END, i]
        over = now - duration if duration > 0 else -UNLIMITED
        ring, size, oldest = groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST]
        count, parts = groups[slot, G_COUNT], groups[slot, G_PARTS]
        if duration > 0 and count > 0 and parts & SUBTRACTS != SUBTRACTS:
            since = now - now % duration
            if rings[around_ring(ring, size, oldest + count - 1), END] < since:
                divide(windows, slots[i], kinds, count)
                parts = groups[slot, G_PARTS]
        while count == limit or (count > 0 and rings[np.uint64(ring + oldest), END] <= over):
            if parts < FRONT and parts != SUBTRACTS:
                groups[slot, G_OLDEST], groups[slot, G_COUNT] = oldest, count
                fold(windows, slots[i], kinds)
                parts = groups[slot, G_PARTS]
            head = np.uint64(ring + oldest)
            for k in range(results):
                kind, cell, value = kinds[k], G_BACK + 3 * k, rings[head, VALUES + k]
                if kind == DISTINCT:
                    if lift(kind, value) == 1 and limit <= SHORT:
                        groups[slot, cell] -= absent(rings, ring, size, oldest + 1, count - 1, VALUES + k, value)
                    elif lift(kind, value) == 1:
                        groups[slot, cell] -= tally(windows, np.int64(slot) * results + k, value, -1) == 0
                elif parts < FRONT:
                    m, x, y = groups[slot, cell], groups[slot, cell + 1], groups[slot, cell + 2]
                    groups[slot, cell], groups[slot, cell + 1], groups[slot, cell + 2] = subtract(kind, m, x, y, value)
            if parts >= FRONT:
                parts -= FRONT
            oldest = oldest + 1 if oldest + 1 < size else 0
            count -= 1
        if count == 0:
            parts = SUBTRACTS
            for cell in range(G_BACK, G_BACK + 3 * results):
                groups[slot, cell] = 0
        groups[slot, G_OLDEST], groups[slot, G_COUNT], groups[slot, G_PARTS] = oldest, count, parts
        if lineage and counts[EDGES] + count + 1 > edges.shape[0]:
            counts[MORE_EDGES] = count + 1
            return i, out
        if count == size:
            size = min(max(least_size(limit), 2 * size), limit)
            ring = new_ring(windows, size)
            if ring < 0:
                return i, out
            move(windows, slots[i], ring, size)
            oldest = 0
        begin, back = table[START, i], count - parts // FRONT
        start, parts = least(windows, ring, size, oldest + count, parts, back, begin)
        row = np.uint64(around_ring(ring, size, oldest + count))
        rings[row, BEGIN] = begin
        rings[row, END] = now
        for k in range(results):
            rings[row, VALUES + k] = values[k, i]
        if lineage:
            windows.names[row, 0] = table[IDENTITY, i]
        parts = append(windows, kinds, results, slot, row, parts, back, start)
        count_distinct(windows, kinds, results, slot, row, count, limit)
        lost = parts & SUBTRACTS != SUBTRACTS and groups[slot, G_PARTS] & SUBTRACTS == SUBTRACTS
        count += 1
        groups[slot, G_COUNT], groups[slot, G_PARTS] = count, parts
        if duration > 0 and lost:
            divide_at(windows, slots[i], kinds, now - now % duration)
            parts = groups[slot, G_PARTS]
        if sliding.superseded[i]:
            continue
        head = np.uint64(ring + oldest)
        if parts >= FRONT:
            start = min(start, partials[head, LEAST])
        last, written = write_result(entering, windows, keys, sliding, i, start, out, last)
        for k in range(results):
            kind, cell = kinds[k], G_BACK + 3 * k
            m, x, y = groups[slot, cell], groups[slot, cell + 1], groups[slot, cell + 2]
            if parts >= FRONT and kind != DISTINCT:
                cell = PARTIAL + 3 * k
                m, x, y = combine(
                    kind, partials[head, cell], partials[head, cell + 1], partials[head, cell + 2], m, x, y
                )
            outputs[FIRST + width + k, written] = result_of(kind, m, x, y)
        for place in range(oldest, oldest + count if lineage else 0):
            edges[counts[EDGES], 0] = out
            edges[counts[EDGES], 1] = windows.names[around_ring(ring, size, place), 0]
            counts[EDGES] += 1
        out += 1
    return until, out


@bare
def process_exact(entering, events, duration, kind, windows, keys, sliding, done, out):  # type: ignore[no-untyped-def]
    """Do what `slide` does, for a single count, sum or average without lineage. Stop early at an occurrence whose group
    needs a larger ring, has values that cannot be subtracted, or has starts that do not ascend."""
    table, slots = entering.table, entering.slots
    rings, groups = windows.rings, windows.groups
    limit = events if events > 0 else UNLIMITED
    last = latest_result(sliding.outputs, out)
    for i in range(done, slots.shape[0]):
        ask_ahead(windows, keys, slots, i)
        cell = np.uint64(i)
        slot = np.uint64(slots[cell])
        now, begin, value = table[T_END, cell], table[START, cell], entering.values[0, cell]
        over = now - duration if duration > 0 else -UNLIMITED
        ring, size, oldest = groups[slot, G_RING], groups[slot, G_SIZE], groups[slot, G_OLDEST]
        count = groups[slot, G_COUNT]
        if groups[slot, G_PARTS] != SUBTRACTS or (count == size and count < limit) or count + 1 >= EXACT_ROWS:
            return i, out
        if count > 0 and rings[np.uint64(around_ring(ring, size, oldest + count - 1)), BEGIN] > begin:
            return i, out
        if not subtractable(kind, value):
            return i, out
        n, x, y = groups[slot, G_BACK], groups[slot, G_BACK + 1], groups[slot, G_BACK + 2]
        head = np.uint64(ring + oldest)
        while count == limit or (count > 0 and rings[head, END] <= over):
            n, x, y = subtract(kind, n, x, y, rings[head, VALUES])
            oldest = oldest + 1 if oldest + 1 < size else 0
            head = np.uint64(ring + oldest)
            count -= 1
        start = begin
        if count > 0:
            start = rings[head, BEGIN]
        else:
            n = x = y = 0
        n, x, y = add(kind, n, x, y, value)
        row = np.uint64(around_ring(ring, size, oldest + count))
        rings[row, BEGIN], rings[row, END], rings[row, VALUES] = begin, now, value
        groups[slot, G_OLDEST], groups[slot, G_COUNT] = oldest, count + 1
        groups[slot, G_BACK], groups[slot, G_BACK + 1], groups[slot, G_BACK + 2] = n, x, y
        if not sliding.superseded[cell]:
            last, written = write_result(entering, windows, keys, sliding, cell, start, out, last)
            sliding.outputs[FIRST + keys.shape[1], written] = result_of(kind, n, x, y)
            out += 1
    return slots.shape[0], out


@bare
def slide(entering, events, duration, kinds, windows, keys, sliding, done, out):  # type: ignore[no-untyped-def]
    """Let occurrences enter the windows of their groups. Compute one result per group and instant.

    `done`: the number of the first occurrence. `out`: the number of output rows so far. Return both after the step.

    The kernel stops early if there is no room for another row in the rings, or for its edges. Then `counts` say how
    much room it needs. `groups` must have room for all slots, `outputs` for a result per occurrence. Unless windows are
    short, `tallies` must have room for one value per occurrence and DISTINCT result, and their index for twice as many.
    """
    n, results = entering.slots.shape[0], kinds.shape[0]
    if done == 0:
        mark_superseded(entering.table, entering.slots, sliding.later, sliding.superseded)
    if results > 1:
        return process(entering, events, duration, kinds, results, windows, keys, sliding, done, n, out)
    exact = kinds[0] <= AVG and windows.names.shape[1] == 0
    while done < n:  # windows with one result have compiled loops of their own, without loops over results
        if exact:
            done, out = process_exact(entering, events, duration, kinds[0], windows, keys, sliding, done, out)
        until = min(done + BLOCK, n) if exact else n
        done, out = process(entering, events, duration, kinds, 1, windows, keys, sliding, done, until, out)
        if done < until:
            break
    return done, out


@bare
def rebuild(windows, fronts, kinds, limit):  # type: ignore[no-untyped-def]
    """Compute the aggregates of all groups from their rows.

    `fronts`: the number of rows in the front of each group. `limit`: the maximum number of rows in a window. Rings must
    begin at their first place. `tallies` must be empty, and have room for all values.
    """
    groups = windows.groups
    for slot in range(fronts.shape[0]):
        for place in range(groups[slot, G_COUNT]):
            row = groups[slot, G_RING] + place
            count_distinct(windows, kinds, kinds.shape[0], slot, row, place, limit)
        divide(windows, slot, kinds, fronts[slot])
