"""An index of stored rows for inequalities. With it, a search skips most rows that cannot match.

Each chain of the store has a tree over its rows, in the order of the chain. A tree node stores, for each of its
children, the greatest end and the greatest value of each compared column below it. So a search skips children without
matches, and finds matches in the order of the chain. With one inequality, a search costs the number of matches times
the height of the tree.

The tree of a chain is built once a search has passed many rows that do not match. Afterwards each new row is appended.
A search that encounters a row which has left its chain drops this row. Trees are derived from the store: they are never
saved, and are rebuilt after rows have moved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cep.core.array_capacity import CHECKED
from cep.core.relation import FIRST
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import MISSING
from cep.operators.goals.store import END, GONE, HEADER, NEXT, sortable

Ints = NDArray[np.int64]

FANOUT = 2 if CHECKED else 32
PASSED, FITTING, SEARCHES = (1, 0, 0) if CHECKED else (64, 3, 8)
"""Thresholds that decide when the tree of a chain is built.

A search without a tree counts wasted rows: rows that do not match, minus FITTING for each match. The tree is built once
a search has wasted more than PASSED rows, and all searches together more than SEARCHES times as many. If many rows
match, a search of the chain itself is faster.
"""
MOST = 2**63 - 1

# Columns of `roots`: for each side of a slot, the root and the number of levels below it.
ROOTS = 4
MOST_WASTED = 1 << 20
"""The maximum of the count of wasted rows over all searches."""
# Places in `cursor`: 1 if the search uses a tree, the rows wasted by this search and by all without one, its level and
# that of the root; then for each key the least value that matches, then for each level the node and the next child.
BY_TREE, WASTED, ALL_WASTED, LEVEL, TOP, LEAST = range(6)
MOST_LEVELS = 64 if CHECKED else 16


class InequalityIndex(NamedTuple):
    """The trees of a store.

    - `roots`: a row for each slot. For each side, it contains the root and the number of levels below the root.
    - `nodes`: the nodes of all trees. A node has FANOUT ends, FANOUT values of each compared column, FANOUT children,
      and the number of children. The children of a leaf are row numbers of the store.
    - `cursor`: the position of the current search.
    """

    nodes: Ints
    roots: Ints
    cursor: Ints


def no_index(orders: int) -> InequalityIndex:
    """Return an index without trees. `orders`: the number of inequalities."""
    width = (orders + 2) * FANOUT + 1 if orders else 0
    cursor = np.zeros(LEAST + 1 + orders + 2 * MOST_LEVELS, np.int64)
    return InequalityIndex(np.empty((0, width), np.int64), np.empty((0, ROOTS), np.int64), cursor)


@inside
def key_of(orders, offset, k, side, cold, p):  # type: ignore[no-untyped-def]
    """Return the value of row `p` that inequality number `k` compares. Rows that have a greater value match more rows
    of the other side."""
    place = offset + 1 + 4 * k
    value = sortable(cold[p, HEADER + orders[place + 1 + side]], orders[place + 3])
    return ~value if value != MISSING and (orders[place] < 2) == (side == 0) else value


@bare
def append(index, used, orders, offset, slot, side, hot, cold, p):  # type: ignore[no-untyped-def]
    """Append row `p` to the tree of its chain. Return the new number of used nodes, or -1 if there is no room.

    `orders`: an array that contains the inequalities, from `offset` on.
    """
    nodes = index.nodes
    keys = orders[offset] + 1
    own = keys * FANOUT
    last = own + FANOUT
    root = index.roots[slot, 2 * side]
    top = index.roots[slot, 2 * side + 1] if root >= 0 else np.int64(-1)
    if used + top + 3 > nodes.shape[0] or top + 2 > MOST_LEVELS:
        return np.int64(-1)
    # Find the lowest node on the right edge that is not full.
    place = np.int64(-1)
    level = np.int64(-1)
    node = root
    for depth in range(top + 1):
        if nodes[node, last] < FANOUT:
            place = node
            level = top - depth
        node = nodes[node, own + nodes[node, last] - 1]
    if place < 0:
        place = used
        used += 1
        level = top + 1
        nodes[place, last] = 0
        if root >= 0:
            nodes[place, last] = 1
            nodes[place, own] = root
            for k in range(keys):
                nodes[place, k * FANOUT] = greatest(nodes, root, k, last)
        index.roots[slot, 2 * side] = place
        index.roots[slot, 2 * side + 1] = level
        root = place
        top = level
    # Go down the edge, and add new nodes below that node.
    node = root
    for depth in range(top + 1):
        below = top - depth
        fresh = below <= level
        if fresh:
            nodes[node, last] += 1
        child = nodes[node, last] - 1
        for k in range(keys):
            value = hot[p, END] if k == 0 else key_of(orders, offset, k - 1, side, cold, p)
            nodes[node, k * FANOUT + child] = value if fresh else max(value, nodes[node, k * FANOUT + child])
        if below == 0:
            nodes[node, own + child] = p
        elif fresh:
            nodes[node, own + child] = used
            nodes[used, last] = 0
            used += 1
        node = nodes[node, own + child]
    return used


@inside
def greatest(nodes, node, k, last):  # type: ignore[no-untyped-def]
    """Return the greatest value below a node for the key `k`."""
    most = np.int64(MISSING)
    for child in range(nodes[node, last]):
        most = max(most, nodes[node, k * FANOUT + child])
    return most


@bare
def build(index, used, orders, offset, chains, slot, side, hot, cold):  # type: ignore[no-untyped-def]
    """Build the tree of a chain. Return the new number of used nodes, or -1 if there is no room."""
    index.roots[slot, 2 * side] = -1
    p = chains[slot, 2 * side]
    while p >= 0 and used >= 0:
        used = append(index, used, orders, offset, slot, side, hot, cold, p)
        p = hot[p, NEXT]
    if used < 0:
        index.roots[slot, 2 * side] = -1
    return used


@bare
def open_search(index, orders, offset, slot, side, floor, table, row):  # type: ignore[no-untyped-def]
    """Begin a search of the rows of `side` that match a row of the other side, and do not end before `floor`.

    `table`, `row`: the row of the other side. Return False if no row can match.
    """
    cursor = index.cursor
    keys = orders[offset] + 1
    cursor[LEAST] = max(floor, np.int64(MISSING + 1))
    for k in range(orders[offset]):
        place = offset + 1 + 4 * k
        value = sortable(table[FIRST + orders[place + 2 - side], row], orders[place + 3])
        if value == MISSING:
            return False
        if (orders[place] < 2) == (side == 0):
            value = ~value
        if (orders[place] == 0 or orders[place] == 2) and value < MOST:
            value += 1
        cursor[LEAST + 1 + k] = value
    top = index.roots[slot, 2 * side + 1]
    cursor[TOP] = cursor[LEVEL] = top
    path = LEAST + keys
    cursor[path + 2 * top] = index.roots[slot, 2 * side]
    cursor[path + 2 * top + 1] = 0
    return True


@bare
def next_found(index, keys, hot):  # type: ignore[no-untyped-def]
    """Return the next row of the search that may match, in the order of the chain, or -1.

    `keys`: the number of keys of a node.
    """
    nodes = index.nodes
    cursor = index.cursor
    own = keys * FANOUT
    last = own + FANOUT
    path = LEAST + keys
    level = cursor[LEVEL]
    while True:
        node = cursor[path + 2 * level]
        child = cursor[path + 2 * level + 1]
        while child < nodes[node, last]:
            fits = True
            for k in range(keys):
                fits = fits and nodes[node, k * FANOUT + child] >= cursor[LEAST + k]
            if fits:
                break
            child += 1
        cursor[path + 2 * level + 1] = child + 1
        if child == nodes[node, last]:
            if level == cursor[TOP]:
                cursor[LEVEL] = level
                return np.int64(-1)
            level += 1  # update the parent, because rows have left
            parent = cursor[path + 2 * level]
            for k in range(keys):
                nodes[parent, k * FANOUT + cursor[path + 2 * level + 1] - 1] = greatest(nodes, node, k, last)
        elif level > 0:
            level -= 1
            cursor[path + 2 * level] = nodes[node, own + child]
            cursor[path + 2 * level + 1] = 0
        elif hot[nodes[node, own + child], NEXT] == GONE:
            for k in range(keys):
                nodes[node, k * FANOUT + child] = MISSING
        else:
            cursor[LEVEL] = level
            return nodes[node, own + child]
