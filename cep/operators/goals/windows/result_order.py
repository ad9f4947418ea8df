"""The results of windows, which groups gave one after the other, in order of arrival."""

from __future__ import annotations

import numpy as np

from cep.core.kernels import njit
from cep.core.relation import END, IDENTITY, ORDER, START
from cep.operators.goals.intrinsics import bare

FEW = 16


@njit(cache=True)
def in_order(made, found, edges):  # type: ignore[no-untyped-def]
    """The results `found` of `made`, a row each, as a table sorted by (end, start, order of arrival), and of equal
    ones the first that has the lesser identity, which a table has not. Edges name their results by their new numbers.
    """
    n = found.shape[0]
    for j in range(1, n):
        if made[found[j], END] < made[found[j - 1], END]:
            sort_by(made, found, 0, n, END)
            break
    first = 0
    while first < n:
        last = end_of_run(made, found, first, n, END)
        arrange(made, found, first, last)
        first = last
    table = np.empty((made.shape[1], n), np.int64)
    for j in range(n):
        row = found[j]
        for column in range(made.shape[1]):
            table[column, j] = made[row, column]
        table[IDENTITY, j] = 0
    if edges.shape[0] > 0:
        places = np.empty(made.shape[0], np.int64)
        for j in range(n):
            places[found[j]] = j
        for j in range(edges.shape[0]):
            edges[j, 0] = places[edges[j, 0]]
    return table


@njit(cache=True)
def sort_by(made, found, first, last, column):  # type: ignore[no-untyped-def]
    """What stands from `first` to before `last` is sorted by a column, stably."""
    values = np.empty(last - first, np.int64)
    before = found[first:last].copy()
    for j in range(last - first):
        values[j] = made[before[j], column]
    order = np.argsort(values, kind="mergesort")
    for j in range(last - first):
        found[first + j] = before[order[j]]


@bare
def end_of_run(made, found, first, last, column):  # type: ignore[no-untyped-def]
    """Where those end that have the value of the first."""
    value = made[found[first], column]
    end = first + 1
    while end < last and made[found[end], column] == value:
        end += 1
    return end


@njit(cache=True)
def arrange(made, found, first, last):  # type: ignore[no-untyped-def]
    """What ends at one instant is sorted."""
    if last - first <= FEW:
        insert_all(made, found, first, last)
        return
    sort_by(made, found, first, last, START)
    while first < last:
        alike = end_of_run(made, found, first, last, START)
        if alike - first > FEW:
            sort_by(made, found, first, alike, ORDER)
        insert_all(made, found, first, alike)
        first = alike


@bare
def insert_all(made, found, first, last):  # type: ignore[no-untyped-def]
    """Sorted by insertion: they are few, or nearly in order."""
    for j in range(first + 1, last):
        row = found[j]
        k = j - 1
        while k >= first and precedes(made, row, found[k]):
            found[k + 1] = found[k]
            k -= 1
        found[k + 1] = row


@bare
def precedes(made, one, other):  # type: ignore[no-untyped-def]
    """Whether one result comes before another that ends with it."""
    if made[one, START] != made[other, START]:
        return made[one, START] < made[other, START]
    if made[one, ORDER] != made[other, ORDER]:
        return made[one, ORDER] < made[other, ORDER]
    return made[one, IDENTITY] < made[other, IDENTITY]
