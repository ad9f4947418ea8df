"""Functions that sort the results of windows by arrival, after they were computed group by group."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare, prefetch

FEW = 32
BITS, FEWEST = 12, 8
"""The maximum number of bits per round of radix sort, and the minimum, which is used for few results."""
RADIX = 1 << BITS
AHEAD = 8
"""The number of results by which prefetching is ahead of processing."""


@njit()
def in_order(outputs, chosen, edges, step, hashed):  # type: ignore[no-untyped-def]
    """Return the rows `chosen` of `outputs` as a table sorted by (end, start, order of arrival, identity).

    The table does not contain the identities. Edges are updated to the new row numbers. `step`: if it is positive, all
    ends are multiples of it, and many results have the same end. If it is 0, ends are those of arrivals, and results
    with the same end are mostly sorted already. `hashed`: True if orders are distinct hashes.
    """
    n = chosen.shape[0]
    for column in (IDENTITY, END):
        if column == IDENTITY and step > 0:
            continue
        for j in range(1, n):
            if outputs[chosen[j], END] < outputs[chosen[j - 1], END]:
                sort_by(outputs, chosen, 0, n, column, max(step, 1) if column == END else 1)
                break
    first = 0
    while first < n:
        last = end_of_run(outputs, chosen, first, n, END)
        if last - first <= FEW:
            insert_all(outputs, chosen, first, last)
        elif not ordered(outputs, chosen, first, last):
            sort_by(outputs, chosen, first, last, START, 1)
            while first < last:
                alike = end_of_run(outputs, chosen, first, last, START)
                if alike - first <= FEW:
                    insert_all(outputs, chosen, first, alike)
                elif not ordered(outputs, chosen, first, alike):
                    if hashed:
                        sort_by(outputs, chosen, first, alike, ORDER, 1, True)
                        insert_all(outputs, chosen, first, alike)
                    else:
                        sort_by(outputs, chosen, first, alike, IDENTITY, 1)
                        sort_by(outputs, chosen, first, alike, ORDER, 1)
                first = alike
        first = last
    table = np.empty((outputs.shape[1], n), np.int64)
    for j in range(n):
        row = chosen[j]
        if j + AHEAD < n:
            prefetch(outputs, chosen[j + AHEAD])
        for column in range(outputs.shape[1]):
            table[column, j] = outputs[row, column]
        table[IDENTITY, j] = 0
    if edges.shape[0] > 0:
        places = np.empty(outputs.shape[0], np.int64)
        for j in range(n):
            places[chosen[j]] = j
        for j in range(edges.shape[0]):
            edges[j, 0] = places[edges[j, 0]]
    return table


@njit()
def sort_by(outputs, chosen, first, last, column, step, roughly=False):  # type: ignore[no-untyped-def]
    """Sort the entries of `chosen` from `first` to before `last` by a column of `outputs`, with a stable radix sort.

    `step`: all values differ from the least one by a multiple of it; 1 if no step is known. `roughly`: True to compare
    only as many leading bits as distinguish almost all values, if they are spread evenly.
    """
    n = last - first
    least = outputs[chosen[first], column]
    most = least
    for j in range(first, last):
        least = min(least, outputs[chosen[j], column])
        most = max(most, outputs[chosen[j], column])
    if least == most:
        return
    ahead = (np.uint64(most) - np.uint64(least)) // np.uint64(step)
    keys, other_keys = np.empty(n, np.uint64), np.empty(n, np.uint64)
    rows, other_rows = chosen[first:last].copy(), np.empty(n, np.int64)
    for j in range(n):
        keys[j] = np.uint64(outputs[rows[j], column]) - np.uint64(least)
        if step > 1:
            keys[j] //= np.uint64(step)
    long = most_bits = 1
    while long < 64 and ahead >> np.uint64(long) > np.uint64(0):
        long += 1
    while most_bits < BITS and (most_bits < FEWEST or 1 << most_bits < n):
        most_bits += 1
    compared = 1
    while compared < long and (not roughly or n >> compared > 0):
        compared += 1
    rounds = -(-compared // most_bits)
    bits = np.uint64(-(-compared // rounds))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    places = np.empty(RADIX + 1, np.int64)
    shift = np.uint64(long - compared)
    for _ in range(rounds):
        places[: np.int64(mask) + 2] = 0
        for j in range(n):
            places[np.int64((keys[j] >> shift) & mask) + 1] += 1
        for digit in range(np.int64(mask)):
            places[digit + 1] += places[digit]
        for j in range(n):
            place = np.int64((keys[j] >> shift) & mask)
            position = places[place]
            places[place] = position + 1
            other_keys[position] = keys[j]
            other_rows[position] = rows[j]
        keys, other_keys = other_keys, keys
        rows, other_rows = other_rows, rows
        shift += bits
    chosen[first:last] = rows


@bare
def end_of_run(outputs, chosen, first, last, column):  # type: ignore[no-untyped-def]
    """Return the first entry after `first` whose value in a column differs from that of `first`, but at most `last`."""
    value = outputs[chosen[first], column]
    end = first + 1
    while end < last and outputs[chosen[end], column] == value:
        end += 1
    return end


@bare
def ordered(outputs, chosen, first, last):  # type: ignore[no-untyped-def]
    """Return True if the entries of `chosen` from `first` to before `last` are sorted."""
    for j in range(first + 1, last):
        if precedes(outputs, chosen[j], chosen[j - 1]):
            return False
    return True


@bare
def insert_all(outputs, chosen, first, last):  # type: ignore[no-untyped-def]
    """Sort the entries of `chosen` from `first` to before `last` by insertion."""
    for j in range(first + 1, last):
        row = chosen[j]
        k = j - 1
        while k >= first and precedes(outputs, row, chosen[k]):
            chosen[k + 1] = chosen[k]
            k -= 1
        chosen[k + 1] = row


@bare
def precedes(outputs, left, other):  # type: ignore[no-untyped-def]
    """Return True if the result `left` comes before the result `other`. Both have the same end."""
    if outputs[left, START] != outputs[other, START]:
        return outputs[left, START] < outputs[other, START]
    if outputs[left, ORDER] != outputs[other, ORDER]:
        return outputs[left, ORDER] < outputs[other, ORDER]
    return outputs[left, IDENTITY] < outputs[other, IDENTITY]
