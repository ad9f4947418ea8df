"""Ordered multisets in one array: a value enters, leaves and is found by its rank in logarithmic time.

Each is a treap (Seidel, Aragon: Randomized Search Trees, Algorithmica 16, 1996) whose priorities are hashes of the
keys, so its shape depends on what is in it alone. A key is two words, ordered by the first, then the second. A node
that is free holds the rest of a tree that was given up whole.
"""

from __future__ import annotations

import numpy as np

from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keys import mix

# a node: key, the value it stands for, priority (of a free one: the next free one), children, how often it is in, and
# how many are below it, in its left subtree
MAJOR, MINOR, VALUE, PRIORITY, LEFT, RIGHT, TIMES, BELOW = range(8)
NODE = 8

# what all trees share: nodes used so far, the first free one or -1
USED, FREE = 0, 1
SHARED = 2


@inside
def priority(major, minor):  # type: ignore[no-untyped-def]
    """A key's place in the heap."""
    return np.int64(mix(mix(np.uint64(0), minor), major) >> np.uint64(1))


@inside
def precedes(nodes, at, major, minor):  # type: ignore[no-untyped-def]
    """Whether a node's key is less than this one."""
    return nodes[at, MAJOR] < major or (nodes[at, MAJOR] == major and nodes[at, MINOR] < minor)


@inside
def give_up(nodes, shared, root):  # type: ignore[no-untyped-def]
    """A whole tree is free."""
    if root >= 0:
        nodes[root, PRIORITY] = shared[FREE]
        shared[FREE] = root


@inside
def taken(nodes, shared):  # type: ignore[no-untyped-def]
    """A node that is free; there is room for one more."""
    at = shared[FREE]
    if at < 0:
        at = shared[USED]
        shared[USED] += 1
        return at
    shared[FREE] = nodes[at, PRIORITY]
    give_up(nodes, shared, nodes[at, LEFT])
    give_up(nodes, shared, nodes[at, RIGHT])
    return at


@bare
def add(nodes, shared, root, major, minor, value):  # type: ignore[no-untyped-def]
    """The root of the tree with the key once more in it; there is room for a node."""
    high = priority(major, minor)
    at = root
    above, side = -1, LEFT
    while at >= 0 and nodes[at, PRIORITY] >= high:
        if nodes[at, MAJOR] == major and nodes[at, MINOR] == minor:
            nodes[at, TIMES] += 1
            return root
        above = at
        if precedes(nodes, at, major, minor):
            side = RIGHT
        else:
            side = LEFT
            nodes[at, BELOW] += 1
        at = nodes[at, side]
    # The key is new: what was here is split into what is below it and what is above it.
    less = 0
    p = at
    while p >= 0:
        if precedes(nodes, p, major, minor):
            less += nodes[p, TIMES] + nodes[p, BELOW]
            p = nodes[p, RIGHT]
        else:
            p = nodes[p, LEFT]
    fresh = taken(nodes, shared)
    nodes[fresh, MAJOR] = major
    nodes[fresh, MINOR] = minor
    nodes[fresh, VALUE] = value
    nodes[fresh, PRIORITY] = high
    nodes[fresh, TIMES] = 1
    nodes[fresh, BELOW] = less
    low, low_side, top, top_side = fresh, LEFT, fresh, RIGHT
    while at >= 0:
        if precedes(nodes, at, major, minor):
            nodes[low, low_side] = at
            less -= nodes[at, TIMES] + nodes[at, BELOW]
            low, low_side = at, RIGHT
            at = nodes[at, RIGHT]
        else:
            nodes[top, top_side] = at
            nodes[at, BELOW] -= less
            top, top_side = at, LEFT
            at = nodes[at, LEFT]
    nodes[low, low_side] = -1
    nodes[top, top_side] = -1
    if above < 0:
        return fresh
    nodes[above, side] = fresh
    return root


@bare
def remove(nodes, shared, root, major, minor):  # type: ignore[no-untyped-def]
    """The root of the tree with the key, which is in it, once less in it."""
    at = root
    above, side = -1, LEFT
    while nodes[at, MAJOR] != major or nodes[at, MINOR] != minor:
        above = at
        if precedes(nodes, at, major, minor):
            side = RIGHT
        else:
            side = LEFT
            nodes[at, BELOW] -= 1
        at = nodes[at, side]
    nodes[at, TIMES] -= 1
    if nodes[at, TIMES] > 0:
        return root
    one, other, less = nodes[at, LEFT], nodes[at, RIGHT], nodes[at, BELOW]
    nodes[at, LEFT] = -1
    nodes[at, RIGHT] = -1
    give_up(nodes, shared, at)
    while True:
        # What is left of the two, `less` in the one: the higher root comes here.
        if one >= 0 and (other < 0 or nodes[one, PRIORITY] >= nodes[other, PRIORITY]):
            upper = one
        else:
            upper = other
        if above < 0:
            root = upper
        else:
            nodes[above, side] = upper
        if one < 0 or other < 0:
            return root
        above = upper
        if upper == one:
            side = RIGHT
            less -= nodes[one, TIMES] + nodes[one, BELOW]
            one = nodes[one, RIGHT]
        else:
            side = LEFT
            nodes[other, BELOW] += less
            other = nodes[other, LEFT]


@bare
def of_rank(nodes, root, rank):  # type: ignore[no-untyped-def]
    """The node of the value of this rank, from 0, and that of the next; there are so many in the tree, of the next one
    -1 if there is none."""
    at, above = root, -1
    while True:
        less = nodes[at, BELOW]
        if rank < less:
            above = at
            at = nodes[at, LEFT]
        elif rank < less + nodes[at, TIMES]:
            break
        else:
            rank -= less + nodes[at, TIMES]
            at = nodes[at, RIGHT]
    if rank + 1 < less + nodes[at, TIMES]:
        return at, at
    after = nodes[at, RIGHT]
    if after < 0:
        return at, above
    while nodes[after, LEFT] >= 0:
        after = nodes[after, LEFT]
    return at, after


@bare
def greatest(nodes, root):  # type: ignore[no-untyped-def]
    """The node of the greatest key of a tree that has one."""
    at = root
    while nodes[at, RIGHT] >= 0:
        at = nodes[at, RIGHT]
    return at
