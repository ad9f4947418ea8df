"""The kernel of every binary goal: an arrival meets the partners that wait under its key.

Generic over relation, policy, tie rule, WITHIN, absence and the feedback of a recursive rule, all of them numbers in `spec`, so
nothing is compiled for a rule. A waiting occurrence is a row of a store (int64 rows): a header, then its arguments; the rows of one
key are a doubly linked chain in order of arrival.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cep.goals.bytecode import run
from cep.goals.keys import MISSING, NAN, grow, slot_of_key
from cep.table import END as T_END
from cep.table import FIRST, IDENTITY, ORDER, START

# the header of a row that waits
BEGIN, END, NEXT, PREVIOUS, ARRIVAL, NAME, SLOT, OTHER = 0, 1, 2, 3, 4, 5, 6, 7
HEADER = 8

RELATIONS = {"SEQ": 0, "AND": 1, "PAR": 2, "EQUALS": 3, "MEETS": 4, "DURING": 5, "STARTS": 6, "FINISHES": 7}
SEQ, AND, PAR, EQUALS, MEETS, DURING, STARTS, FINISHES = range(8)
POLICIES = {"unrestricted": 0, "recent": 1, "chronological": 2}
UNRESTRICTED, RECENT, CHRONOLOGICAL = range(3)
TIES = {"longest": 0, "shortest": 1, "by": 2}

# places in `spec`
(
    S_RELATION, S_POLICY, S_TIE, S_WITHIN, S_POINT, S_STORE_RIGHT, S_ABSENCE, S_FEEDBACK,
    S_BY_LEFT, S_BY_RIGHT, S_BY_FLOAT, S_WIDTH_LEFT, S_WIDTH_RIGHT,
) = range(13)  # fmt: skip
SPEC = 13

# where the key of the absent event comes from: no absence, from the join key, the right side, the left side, both
NO_ABSENCE, ABSENT_COMMON, ABSENT_RIGHT, ABSENT_LEFT, ABSENT_BOTH = range(5)
FOREVER = 2**62


@njit(cache=True, inline="always")
def relates(relation, a, b, c, d):  # type: ignore[no-untyped-def]
    """Whether the relation holds between L = [a, b] and R = [c, d] (language reference, table of patterns)."""
    if relation == SEQ:
        return b < c
    if relation == AND:
        return True
    if relation == PAR:
        return max(a, c) < min(b, d)
    if relation == EQUALS:
        return a == c and b == d
    if relation == MEETS:
        return b == c
    if relation == DURING:
        return c < a and b < d
    if relation == STARTS:
        return a == c and b < d
    return b == d and c < a


@njit(cache=True, inline="always")
def begins(relation, a, c):  # type: ignore[no-untyped-def]
    """The start of the pair's interval; its end is the later of the two ends."""
    if relation == AND or relation == PAR:
        return min(a, c)
    if relation == DURING or relation == FINISHES:
        return c
    return a


@njit(cache=True, inline="always")
def sortable(bits, is_float):  # type: ignore[no-untyped-def]
    """A value's bits as an integer that sorts like the value; missing is least."""
    if is_float == 0:
        return bits
    if bits == NAN:
        return MISSING
    return bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True)
def put(store, count, table, i, slot, width):  # type: ignore[no-untyped-def]
    """Row `i` of `table` as row `count` of `store`, in no chain yet."""
    store[count, BEGIN] = table[START, i]
    store[count, END] = table[T_END, i]
    store[count, NEXT] = -1
    store[count, PREVIOUS] = -1
    store[count, ARRIVAL] = table[ORDER, i]
    store[count, NAME] = table[IDENTITY, i]
    store[count, SLOT] = slot
    store[count, OTHER] = -1
    for k in range(width):
        store[count, HEADER + k] = table[FIRST + k, i]


@njit(cache=True, inline="always")
def link(store, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Append row `p` to the chain of `slot`."""
    tail = chains[slot, head + 1]
    store[p, PREVIOUS] = tail
    if tail >= 0:
        store[tail, NEXT] = p
    else:
        chains[slot, head] = p
    chains[slot, head + 1] = p


@njit(cache=True)
def link_sorted(store, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Put row `p` into the chain of `slot` by (end, start, order), after its equals."""
    before = chains[slot, head + 1]
    while (
        before >= 0
        and store[before, END] == store[p, END]
        and (
            store[before, BEGIN] > store[p, BEGIN]
            or (store[before, BEGIN] == store[p, BEGIN] and store[before, ARRIVAL] > store[p, ARRIVAL])
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


@njit(cache=True)
def unlink(store, chains, slot, head, p):  # type: ignore[no-untyped-def]
    """Take row `p` out of its chain for good."""
    before = store[p, PREVIOUS]
    after = store[p, NEXT]
    if before >= 0:
        store[before, NEXT] = after
    else:
        chains[slot, head] = after
    if after >= 0:
        store[after, PREVIOUS] = before
    else:
        chains[slot, head + 1] = before
    store[p, SLOT] = -1


@njit(cache=True)
def supersede(store, chains, slot, head, within):  # type: ignore[no-untyped-def]
    """Forget what is superseded for ever where right sides are points: they come no earlier than the chain's latest
    end, so that of the ends before it only the last can still be chosen."""
    top = chains[slot, head + 1]
    if top < 0:
        return
    p = store[top, PREVIOUS]
    while p >= 0 and store[p, END] == store[top, END]:
        p = store[p, PREVIOUS]
    if p < 0:
        return
    end = store[p, END]
    latest = store[p, BEGIN]
    while p >= 0 and store[p, END] == end:
        latest = max(latest, store[p, BEGIN])
        p = store[p, PREVIOUS]
    while p >= 0 and (within >= FOREVER or store[p, BEGIN] <= latest):
        before = store[p, PREVIOUS]
        unlink(store, chains, slot, head, p)
        p = before


@njit(cache=True)
def note_absent(store, count, table, x, slot, chains, forgets):  # type: ignore[no-untyped-def]
    """An occurrence of what is to be absent: kept with the latest start so far under its key.

    `forgets`: right sides are points, so that of the ends before the latest only the last one counts.
    """
    put(store, count, table, x, slot, 0)
    tail = chains[slot, 1]
    store[count, OTHER] = table[START, x]
    if tail >= 0:
        store[count, OTHER] = max(table[START, x], store[tail, OTHER])
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


@njit(cache=True)
def pair(  # type: ignore[no-untyped-def]
    spec, left, right, absent, left_slots, right_slots, absent_slots, right_absent, left_absent, absent_key,
    absent_index, absent_keys, chains, absent_chains, left_store, left_count, right_store, right_count,
    absent_store, absent_count, code, literals, head, head_literals, head_ends,
):  # fmt: skip
    """Arrivals of both sides in order, against what waits and each other.

    Gives (pairs, stores and counts): `pairs` rows are (left row, right row, completed by the right side, new row), a row being one
    of the store, or of the batch where the side keeps nothing.
    """
    relation = spec[S_RELATION]
    policy = spec[S_POLICY]
    tie = spec[S_TIE]
    within = spec[S_WITHIN]
    absence = spec[S_ABSENCE]
    feedback = spec[S_FEEDBACK] != 0
    width_left = spec[S_WIDTH_LEFT]
    width_right = spec[S_WIDTH_RIGHT]
    keep_right = spec[S_STORE_RIGHT] != 0
    both = keep_right
    supersedes = policy == RECENT and relation == SEQ and spec[S_POINT] != 0 and absence <= ABSENT_RIGHT
    point = spec[S_POINT] != 0
    instant = relation == EQUALS or relation == FINISHES

    n_left = left.shape[1]
    n_right = right.shape[1]
    n_absent = absent.shape[1]
    pairs = np.empty((n_left + n_right + 16, 4), np.int64)
    count = 0
    current = np.empty(max(width_left, width_right) + 1, np.int64)
    new = np.empty(max(width_left, 1), np.int64)
    stack = np.empty(64, np.int64)
    key = np.empty(absent_key.shape[0], np.int64)
    i = 0
    j = 0
    x = 0
    while i < n_left or j < n_right:
        side = 1
        if i < n_left:
            if j >= n_right:
                side = 0
            elif left[T_END, i] != right[T_END, j]:
                side = 0 if left[T_END, i] < right[T_END, j] else 1
            elif left[START, i] != right[START, j]:
                side = 0 if left[START, i] < right[START, j] else 1
            else:
                side = 0 if left[ORDER, i] <= right[ORDER, j] else 1
        row = j
        if side == 0:
            row = i
            now = left[T_END, i]
            begin = left[START, i]
            slot = left_slots[i]
            i += 1
        else:
            now = right[T_END, j]
            begin = right[START, j]
            slot = right_slots[j]
            j += 1

        if absence != NO_ABSENCE:
            while x < n_absent and absent[T_END, x] < now:
                where = absent_slots[x]
                if where >= 0:
                    note_absent(absent_store, absent_count, absent, x, where, absent_chains, point)
                    absent_count += 1
                x += 1
        if slot < 0:
            continue

        mine = row
        if side == 0:
            if feedback:
                if left_count + 2 > left_store.shape[0]:
                    left_store = grow(left_store, left_count + 2)
                if known(left_store, chains, slot, left, row, width_left):
                    continue
            put(left_store, left_count, left, row, slot, width_left)
            if absence == ABSENT_LEFT:
                left_store[left_count, OTHER] = left_absent[row]
            mine = left_count
            left_count += 1
        elif keep_right:
            put(right_store, right_count, right, row, slot, width_right)
            mine = right_count
            right_count += 1

        matched = False
        if side == 1 or both:
            partner = right_store if side == 0 else left_store
            chain = 2 if side == 0 else 0
            if policy == CHRONOLOGICAL or feedback:
                table = left if side == 0 else right
                for k in range(table.shape[0] - FIRST):
                    current[k] = table[FIRST + k, row]
            limit = now - within
            if instant or (relation == MEETS and side == 0):
                limit = now
            p = chains[slot, chain]
            while p >= 0 and partner[p, END] < limit:
                after = partner[p, NEXT]
                unlink(partner, chains, slot, chain, p)
                p = after
            floor = MISSING
            if absence == ABSENT_COMMON or absence == ABSENT_RIGHT:
                where = right_absent[row]
                if where >= 0:
                    t = absent_chains[where, 1]
                    while t >= 0 and absent_store[t, END] >= begin:
                        t = absent_store[t, PREVIOUS]
                    if t >= 0:
                        floor = absent_store[t, OTHER]
            backward = policy == RECENT
            if backward:
                p = chains[slot, chain + 1]
            elif floor != MISSING:
                if point and absence == ABSENT_COMMON:
                    while p >= 0 and partner[p, END] < floor:
                        after = partner[p, NEXT]
                        unlink(partner, chains, slot, chain, p)
                        p = after
                else:
                    p = chains[slot, chain + 1]
                    first = -1
                    while p >= 0 and partner[p, END] >= floor:
                        first = p
                        p = partner[p, PREVIOUS]
                    p = first
            best = -1
            while p >= 0:
                end = partner[p, END]
                if backward:
                    if end < limit or end < floor or (best >= 0 and end < partner[best, END]):
                        break
                else:
                    if relation == SEQ and end >= begin:
                        break
                    if best >= 0 and end > partner[best, END]:
                        break
                if side == 1:
                    fits = relates(relation, partner[p, BEGIN], end, begin, now)
                    start = begins(relation, partner[p, BEGIN], begin)
                else:
                    fits = relates(relation, begin, now, partner[p, BEGIN], end)
                    start = begins(relation, begin, partner[p, BEGIN])
                fits = fits and now - start <= within
                if fits and absence >= ABSENT_LEFT:
                    if absence == ABSENT_LEFT:
                        where = partner[p, OTHER]
                    else:
                        for k in range(absent_key.shape[0]):
                            if absent_key[k, 0] == 0:
                                key[k] = partner[p, HEADER + absent_key[k, 1]]
                            else:
                                key[k] = right[FIRST + absent_key[k, 1], row]
                        where = slot_of_key(key, absent_index, absent_keys)
                    if where >= 0:
                        t = absent_chains[where, 1]
                        while t >= 0 and absent_store[t, END] >= begin:
                            t = absent_store[t, PREVIOUS]
                        if t >= 0 and absent_store[t, OTHER] > end:
                            fits = False
                if fits and policy == CHRONOLOGICAL and code.shape[0] > 0:
                    fits = run(code, literals, stack, partner, p, HEADER, current, side == 1, start, now) == 1
                if fits:
                    if policy == UNRESTRICTED:
                        ok = True
                        if feedback and code.shape[0] > 0:
                            ok = run(code, literals, stack, partner, p, HEADER, current, True, start, now) == 1
                        if ok:
                            if count == pairs.shape[0]:
                                pairs = grow(pairs, count + 1)
                            pairs[count, 0] = p if side == 1 else mine
                            pairs[count, 1] = mine if side == 1 else p
                            pairs[count, 2] = side
                            pairs[count, 3] = -1
                            if feedback:
                                begun = 0
                                for h in range(head_ends.shape[0]):
                                    run(
                                        head[begun : head_ends[h]], head_literals, stack, partner, p, HEADER,
                                        current, True, start, now,
                                    )  # fmt: skip
                                    new[h] = stack[0]
                                    begun = head_ends[h]
                                left_store, left_count, made = feed(
                                    left_store, left_count, chains, slot, start, now, right[ORDER, row], new, width_left
                                )
                                partner = left_store
                                pairs[count, 3] = made
                                if made < 0:
                                    count -= 1
                            count += 1
                    elif best < 0:
                        best = p
                    else:
                        if tie == 2:
                            by = spec[S_BY_LEFT] if side == 1 else spec[S_BY_RIGHT]
                        else:
                            by = -1
                        if by >= 0:
                            is_float = spec[S_BY_FLOAT]
                            mark = sortable(partner[p, HEADER + by], is_float)
                            best_mark = sortable(partner[best, HEADER + by], is_float)
                            if mark > best_mark:
                                best = p
                        else:
                            longest = tie == 0 or (tie == 2 and policy == RECENT)
                            if longest and partner[p, BEGIN] < partner[best, BEGIN]:
                                best = p
                            elif not longest and partner[p, BEGIN] > partner[best, BEGIN]:
                                best = p
                p = partner[p, PREVIOUS] if backward else partner[p, NEXT]
            if best >= 0:
                start = begins(relation, partner[best, BEGIN], begin)
                if side == 0:
                    start = begins(relation, begin, partner[best, BEGIN])
                ok = True
                if policy == CHRONOLOGICAL:
                    matched = True
                    unlink(partner, chains, slot, chain, best)
                elif feedback and code.shape[0] > 0:
                    ok = run(code, literals, stack, partner, best, HEADER, current, True, start, now) == 1
                if ok:
                    if count == pairs.shape[0]:
                        pairs = grow(pairs, count + 1)
                    pairs[count, 0] = best if side == 1 else mine
                    pairs[count, 1] = mine if side == 1 else best
                    pairs[count, 2] = side
                    pairs[count, 3] = -1
                    if feedback:
                        begun = 0
                        for h in range(head_ends.shape[0]):
                            run(
                                head[begun : head_ends[h]], head_literals, stack, partner, best, HEADER,
                                current, True, start, now,
                            )  # fmt: skip
                            new[h] = stack[0]
                            begun = head_ends[h]
                        left_store, left_count, made = feed(
                            left_store, left_count, chains, slot, start, now, right[ORDER, row], new, width_left
                        )
                        pairs[count, 3] = made
                        if made < 0:
                            count -= 1
                        elif supersedes:
                            supersede(left_store, chains, slot, 0, within)
                    count += 1
        if side == 0:
            if matched:
                left_store[mine, SLOT] = -1
            else:
                if feedback:
                    link_sorted(left_store, chains, slot, 0, mine)
                else:
                    link(left_store, chains, slot, 0, mine)
                if supersedes:
                    supersede(left_store, chains, slot, 0, within)
        elif keep_right:
            if matched:
                right_store[mine, SLOT] = -1
            else:
                link(right_store, chains, slot, 2, mine)
    while x < n_absent:
        where = absent_slots[x]
        if where >= 0:
            note_absent(absent_store, absent_count, absent, x, where, absent_chains, point)
            absent_count += 1
        x += 1
    return pairs[:count], left_store, left_count, right_count, absent_count


@njit(cache=True)
def known(store, chains, slot, table, i, width):  # type: ignore[no-untyped-def]
    """Whether the very same occurrence as row `i` of `table` waits already."""
    p = chains[slot, 1]
    while p >= 0 and store[p, END] == table[T_END, i]:
        same = store[p, BEGIN] == table[START, i]
        for k in range(width):
            same = same and store[p, HEADER + k] == table[FIRST + k, i]
        if same:
            return True
        p = store[p, PREVIOUS]
    return False


@njit(cache=True)
def feed(store, count, chains, slot, start, end, order, arguments, width):  # type: ignore[no-untyped-def]
    """A derived occurrence becomes a left side of its own rule, unless the very same waits already.

    Gives (store, count, row), row -1 where it was known.
    """
    p = chains[slot, 1]
    while p >= 0 and store[p, END] == end:
        same = store[p, BEGIN] == start
        for k in range(width):
            same = same and store[p, HEADER + k] == arguments[k]
        if same:
            return store, count, -1
        p = store[p, PREVIOUS]
    if count + 2 > store.shape[0]:
        store = grow(store, count + 2)
    store[count, BEGIN] = start
    store[count, END] = end
    store[count, NEXT] = -1
    store[count, PREVIOUS] = -1
    store[count, ARRIVAL] = order
    store[count, NAME] = 0
    store[count, SLOT] = slot
    store[count, OTHER] = -1
    for k in range(width):
        store[count, HEADER + k] = arguments[k]
    link_sorted(store, chains, slot, 0, count)
    return store, count + 1, count


@njit(cache=True)
def consume(pairs, allowed, relation, tie, by_left, by_right, by_float, left_store, right_store, keep_right, chains):  # type: ignore[no-untyped-def]
    """The chronological choice among pairs that are all those fitting, in order of arrival, and are `allowed`.

    Gives which pairs were taken; what they took is out of the chains.
    """
    taken = np.zeros(pairs.shape[0], np.bool_)
    first = 0
    while first < pairs.shape[0]:
        side = pairs[first, 2]
        mine = pairs[first, side]
        last = first
        best = -1
        while last < pairs.shape[0] and pairs[last, 2] == side and pairs[last, side] == mine:
            store = right_store if side == 0 else left_store
            p = pairs[last, 1 - side]
            if allowed[last] and store[p, SLOT] >= 0:
                if best < 0:
                    best = last
                else:
                    b = pairs[best, 1 - side]
                    if store[p, END] < store[b, END]:
                        best = last
                    elif store[p, END] == store[b, END]:
                        by = -1
                        if tie == 2:
                            by = by_left if side == 1 else by_right
                        if by >= 0:
                            if sortable(store[p, HEADER + by], by_float) > sortable(store[b, HEADER + by], by_float):
                                best = last
                        elif tie == 0 and store[p, BEGIN] < store[b, BEGIN]:
                            best = last
                        elif tie != 0 and store[p, BEGIN] > store[b, BEGIN]:
                            best = last
            last += 1
        if best >= 0:
            taken[best] = True
            p = pairs[best, 1 - side]
            if side == 1:
                unlink(left_store, chains, left_store[p, SLOT], 0, p)
                if keep_right:
                    unlink(right_store, chains, right_store[mine, SLOT], 2, mine)
            else:
                unlink(right_store, chains, right_store[p, SLOT], 2, p)
                unlink(left_store, chains, left_store[mine, SLOT], 0, mine)
        first = last
    return taken


@njit(cache=True)
def assemble(pairs, relation, left_store, right, right_stored, take_left, take_right):  # type: ignore[no-untyped-def]
    """The pairs as a table: interval, order of the completing side, then the arguments taken from each side."""
    n = pairs.shape[0]
    table = np.empty((FIRST + take_left.shape[0] + take_right.shape[0], n), np.int64)
    names = np.empty((2, n), np.int64)
    for i in range(n):
        p = pairs[i, 0]
        q = pairs[i, 1]
        if right_stored:
            c = right[q, BEGIN]
            d = right[q, END]
            order = right[q, ARRIVAL]
            names[1, i] = right[q, NAME]
        else:
            c = right[START, q]
            d = right[T_END, q]
            order = right[ORDER, q]
            names[1, i] = right[IDENTITY, q]
        names[0, i] = left_store[p, NAME]
        table[START, i] = begins(relation, left_store[p, BEGIN], c)
        table[T_END, i] = max(left_store[p, END], d)
        table[ORDER, i] = order if pairs[i, 2] == 1 else left_store[p, ARRIVAL]
        table[IDENTITY, i] = 0
        for k in range(take_left.shape[0]):
            table[FIRST + k, i] = left_store[p, HEADER + take_left[k]]
    base = FIRST + take_left.shape[0]
    for k in range(take_right.shape[0]):
        for i in range(n):
            if right_stored:
                table[base + k, i] = right[pairs[i, 1], HEADER + take_right[k]]
            else:
                table[base + k, i] = right[FIRST + take_right[k], pairs[i, 1]]
    return table, names


@njit(cache=True)
def rows_table(store, index, width):  # type: ignore[no-untyped-def]
    """Rows of a store as a table."""
    table = np.empty((FIRST + width, index.shape[0]), np.int64)
    for i in range(index.shape[0]):
        p = index[i]
        table[START, i] = store[p, BEGIN]
        table[T_END, i] = store[p, END]
        table[ORDER, i] = store[p, ARRIVAL]
        table[IDENTITY, i] = store[p, NAME]
        for k in range(width):
            table[FIRST + k, i] = store[p, HEADER + k]
    return table


@njit(cache=True)
def live(store, count, within, instant, watermark):  # type: ignore[no-untyped-def]
    """The rows of a store that may still be needed after `watermark`."""
    keep = np.empty(count, np.int64)
    n = 0
    for p in range(count):
        if store[p, SLOT] < 0:
            continue
        if instant:
            if store[p, END] <= watermark:
                continue
        elif store[p, BEGIN] <= watermark - within:
            continue
        keep[n] = p
        n += 1
    return keep[:n]


@njit(cache=True)
def compacted(store, keep):  # type: ignore[no-untyped-def]
    """A store of just these rows, with room to grow."""
    fresh = np.empty((max(16, 2 * keep.shape[0]), store.shape[1]), np.int64)
    for i in range(keep.shape[0]):
        fresh[i] = store[keep[i]]
    return fresh


@njit(cache=True)
def renumber(store, count, other, other_count, keys, slots):  # type: ignore[no-untyped-def]
    """Slots that rows of either store still use get new numbers; their keys come along.

    Gives (keys, slots, numbers): `numbers` maps old slots to new ones, -1 for the unused.
    """
    numbers = np.full(max(slots, 1), -1, np.int64)
    fresh = np.empty((max(16, slots), keys.shape[1]), np.int64)
    n = 0
    for which in range(2):
        rows = store if which == 0 else other
        for p in range(count if which == 0 else other_count):
            slot = rows[p, SLOT]
            if numbers[slot] < 0:
                numbers[slot] = n
                fresh[n] = keys[slot]
                n += 1
            rows[p, SLOT] = numbers[slot]
    return fresh, n, numbers


@njit(cache=True)
def relink(store, count, chains, head, in_order):  # type: ignore[no-untyped-def]
    """Chain the rows of a store anew, in their order, or sorted by arrival."""
    for p in range(count):
        store[p, NEXT] = -1
        store[p, PREVIOUS] = -1
        if in_order:
            link(store, chains, store[p, SLOT], head, p)
        else:
            link_sorted(store, chains, store[p, SLOT], head, p)
