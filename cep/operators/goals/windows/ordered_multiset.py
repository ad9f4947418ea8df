"""Ordered multisets that share one array. In logarithmic time, they add and remove values, find a value by its rank,
and find the most frequent value.

Each multiset is a B+ tree (Bayer, McCreight: Organization and Maintenance of Large Ordered Indices, Acta Informatica 1,
1972). A node is eight cache lines. A small multiset is one leaf, which is searched linearly; a larger one costs one
node per level. An inner node stores the least key and the weight of each child. The weight is the number of values
below the child or, in a tree by frequency, the count of the most frequent value. A node is removed when it is empty,
and a leaf with few keys is joined with its neighbour (Johnson, Shasha: B-Trees with Inserts and Deletes: Why
Free-at-Empty Is Better Than Merge-at-Half, J. Computer and System Sciences 47, 1993).
"""

from __future__ import annotations

from cep.operators.goals.intrinsics import bare, inside

# Columns of a node: the number of entries, the level (0: leaf), and the keys in order. Leaves also store counts, inner
# nodes weights and children. A free node stores the next free node in place of its first key.
NUMBER, LEVEL, KEYS = 0, 1, 2
LEAF, FAN = 31, 20
TIMES = KEYS + LEAF
WEIGHTS, CHILDREN = KEYS + FAN, KEYS + 2 * FAN
NODE = 64

# A node splits when it is full. So a node of level n needs at least 10**n insertions, and 20 levels are enough. A value
# adds at most one node per level, and a new root.
LEVELS = 20
SPLITS = LEVELS + 1

# State that all trees share: nodes used so far, the first free one or -1, and a path to a leaf: nodes and places in
# them.
USED, FREE, PATH = 0, 1, 2
SHARED = PATH + 2 * LEVELS


@inside
def give_up(nodes, shared, root):  # type: ignore[no-untyped-def]
    """Free all nodes of a tree."""
    if root >= 0:
        nodes[root, KEYS] = shared[FREE]
        shared[FREE] = root


@bare
def taken(nodes, shared, level):  # type: ignore[no-untyped-def]
    """Return a new node for this level of a tree, without entries. The array must have room for one more node."""
    node = shared[FREE]
    if node < 0:
        node = shared[USED]
        shared[USED] += 1
    else:
        shared[FREE] = nodes[node, KEYS]
        if nodes[node, LEVEL] > 0:
            for j in range(nodes[node, NUMBER]):
                give_up(nodes, shared, nodes[node, CHILDREN + j])
    nodes[node, NUMBER] = 0
    nodes[node, LEVEL] = level
    return node


@inside
def free(nodes, shared, node):  # type: ignore[no-untyped-def]
    """Free one node, but not its children."""
    nodes[node, NUMBER] = 0
    give_up(nodes, shared, node)


@inside
def place_of(nodes, node, key):  # type: ignore[no-untyped-def]
    """Return the place of the last key in a node that is not greater than `key`, or -1."""
    place = -1
    for j in range(nodes[node, NUMBER]):
        place += nodes[node, KEYS + j] <= key
    return place


@bare
def weight(nodes, node, frequency):  # type: ignore[no-untyped-def]
    """Return the weight of a node, which its parent stores."""
    first = WEIGHTS if nodes[node, LEVEL] > 0 else TIMES
    total = 0
    for j in range(nodes[node, NUMBER]):
        amount = nodes[node, first + j]
        total = max(total, amount) if frequency else total + amount
    return total


@bare
def insert(nodes, node, place, key, amount, child):  # type: ignore[no-untyped-def]
    """Insert an entry at a place of a node that is not full."""
    inner = nodes[node, LEVEL] > 0
    amounts = WEIGHTS if inner else TIMES
    for j in range(nodes[node, NUMBER], place, -1):
        nodes[node, KEYS + j] = nodes[node, KEYS + j - 1]
        nodes[node, amounts + j] = nodes[node, amounts + j - 1]
        if inner:
            nodes[node, CHILDREN + j] = nodes[node, CHILDREN + j - 1]
    nodes[node, KEYS + place] = key
    nodes[node, amounts + place] = amount
    if inner:
        nodes[node, CHILDREN + place] = child
    nodes[node, NUMBER] += 1


@bare
def take_out(nodes, node, place):  # type: ignore[no-untyped-def]
    inner = nodes[node, LEVEL] > 0
    amounts = WEIGHTS if inner else TIMES
    last = nodes[node, NUMBER] - 1
    for j in range(place, last):
        nodes[node, KEYS + j] = nodes[node, KEYS + j + 1]
        nodes[node, amounts + j] = nodes[node, amounts + j + 1]
        if inner:
            nodes[node, CHILDREN + j] = nodes[node, CHILDREN + j + 1]
    nodes[node, NUMBER] = last


@bare
def entered(nodes, shared, node, place, key, amount, child):  # type: ignore[no-untyped-def]
    """Insert an entry into a node. If the node is full, split it.

    Return the new node that has the upper half of the entries, or -1.
    """
    level = nodes[node, LEVEL]
    number = nodes[node, NUMBER]
    if number < (FAN if level > 0 else LEAF):
        insert(nodes, node, place, key, amount, child)
        return -1
    other = taken(nodes, shared, level)
    amounts = WEIGHTS if level > 0 else TIMES
    half = number // 2
    for j in range(half, number):
        nodes[other, KEYS + j - half] = nodes[node, KEYS + j]
        nodes[other, amounts + j - half] = nodes[node, amounts + j]
        if level > 0:
            nodes[other, CHILDREN + j - half] = nodes[node, CHILDREN + j]
    nodes[node, NUMBER] = half
    nodes[other, NUMBER] = number - half
    if place <= half:
        insert(nodes, node, place, key, amount, child)
    else:
        insert(nodes, other, place - half, key, amount, child)
    return other


@bare
def add(nodes, shared, root, key, frequency):  # type: ignore[no-untyped-def]
    """Add a value. Return the new root, and the new count of the value. There must be room for SPLITS nodes."""
    if root < 0:
        root = taken(nodes, shared, 0)
        insert(nodes, root, 0, key, 1, -1)
        return root, 1
    node, depth = root, 0
    while nodes[node, LEVEL] > 0:
        place = place_of(nodes, node, key)
        if place < 0:
            place = 0
            nodes[node, KEYS] = key
        if not frequency:
            nodes[node, WEIGHTS + place] += 1
        shared[PATH + 2 * depth] = node
        shared[PATH + 2 * depth + 1] = place
        depth += 1
        node = nodes[node, CHILDREN + place]
    place = place_of(nodes, node, key)
    if place >= 0 and nodes[node, KEYS + place] == key:
        times = nodes[node, TIMES + place] + 1
        nodes[node, TIMES + place] = times
        while frequency and depth > 0:
            depth -= 1
            where = WEIGHTS + shared[PATH + 2 * depth + 1]
            if nodes[shared[PATH + 2 * depth], where] >= times:
                break
            nodes[shared[PATH + 2 * depth], where] = times
        return root, times
    other = entered(nodes, shared, node, place + 1, key, 1, -1)
    while other >= 0:
        if depth == 0:
            root = taken(nodes, shared, nodes[node, LEVEL] + 1)
            insert(nodes, root, 0, nodes[node, KEYS], weight(nodes, node, frequency), node)
            insert(nodes, root, 1, nodes[other, KEYS], weight(nodes, other, frequency), other)
            break
        depth -= 1
        parent, place = shared[PATH + 2 * depth], shared[PATH + 2 * depth + 1]
        nodes[parent, WEIGHTS + place] = weight(nodes, node, frequency)
        amount = weight(nodes, other, frequency)
        node, other = parent, entered(nodes, shared, parent, place + 1, nodes[other, KEYS], amount, other)
    return root, 1


@bare
def remove(nodes, shared, root, key, frequency):  # type: ignore[no-untyped-def]
    """Remove one copy of a value, which must exist. Return the new root (-1: empty), and the new count of the value."""
    node, depth = root, 0
    while nodes[node, LEVEL] > 0:
        place = place_of(nodes, node, key)
        if not frequency:
            nodes[node, WEIGHTS + place] -= 1
        shared[PATH + 2 * depth] = node
        shared[PATH + 2 * depth + 1] = place
        depth += 1
        node = nodes[node, CHILDREN + place]
    place = place_of(nodes, node, key)
    times = nodes[node, TIMES + place] - 1
    nodes[node, TIMES + place] = times
    if times == 0:
        take_out(nodes, node, place)
        while depth > 0 and nodes[node, NUMBER] == 0:
            free(nodes, shared, node)
            depth -= 1
            node, place = shared[PATH + 2 * depth], shared[PATH + 2 * depth + 1]
            take_out(nodes, node, place)
        if nodes[node, NUMBER] == 0:
            free(nodes, shared, node)
            return -1, 0
        above, below = depth, node
        while place == 0 and above > 0:  # the least key was removed
            above -= 1
            place = shared[PATH + 2 * above + 1]
            nodes[shared[PATH + 2 * above], KEYS + place] = nodes[below, KEYS]
            below = shared[PATH + 2 * above]
    if depth > 0 and frequency:
        below, above = node, depth
        while above > 0:
            above -= 1
            parent, where = shared[PATH + 2 * above], WEIGHTS + shared[PATH + 2 * above + 1]
            if nodes[parent, where] > times + 1:
                break
            amount = weight(nodes, below, True)
            if nodes[parent, where] == amount:
                break
            nodes[parent, where] = amount
            below = parent
    if times == 0 and depth > 0 and nodes[node, LEVEL] == 0 and nodes[node, NUMBER] <= LEAF // 4:
        join_leaves(nodes, shared, shared[PATH + 2 * depth - 2], shared[PATH + 2 * depth - 1], frequency)
    while nodes[root, LEVEL] > 0 and nodes[root, NUMBER] == 1:
        node = nodes[root, CHILDREN]
        free(nodes, shared, root)
        root = node
    return root, times


@bare
def join_leaves(nodes, shared, parent, place, frequency):  # type: ignore[no-untyped-def]
    """Join a leaf with a neighbour if the joined leaf is at most half full."""
    if place + 1 == nodes[parent, NUMBER]:
        place -= 1
    if place < 0:
        return
    left, other = nodes[parent, CHILDREN + place], nodes[parent, CHILDREN + place + 1]
    number, more = nodes[left, NUMBER], nodes[other, NUMBER]
    if number + more > LEAF // 2:
        return
    for j in range(more):
        nodes[left, KEYS + number + j] = nodes[other, KEYS + j]
        nodes[left, TIMES + number + j] = nodes[other, TIMES + j]
    nodes[left, NUMBER] = number + more
    nodes[parent, WEIGHTS + place] = weight(nodes, left, frequency)
    take_out(nodes, parent, place + 1)
    free(nodes, shared, other)


@bare
def of_rank(nodes, root, rank):  # type: ignore[no-untyped-def]
    """Return the value with this rank, counted from 0, and the value with the next rank.

    There must be a value with this rank. If it is the last one, it is returned twice.
    """
    node, after, last = root, 0, True
    while True:
        amounts = WEIGHTS if nodes[node, LEVEL] > 0 else TIMES
        place = 0
        while rank >= nodes[node, amounts + place]:
            rank -= nodes[node, amounts + place]
            place += 1
        if place + 1 < nodes[node, NUMBER]:
            after, last = nodes[node, KEYS + place + 1], False
        if nodes[node, LEVEL] == 0:
            break
        node = nodes[node, CHILDREN + place]
    key = nodes[node, KEYS + place]
    return key, key if last or rank + 1 < nodes[node, TIMES + place] else after


@bare
def most_frequent(nodes, root):  # type: ignore[no-untyped-def]
    """Return the most frequent value and its count. Of equally frequent values, return the least.

    The tree must be by frequency, and not empty.
    """
    most = weight(nodes, root, True)
    node = root
    while True:
        amounts = WEIGHTS if nodes[node, LEVEL] > 0 else TIMES
        place = 0
        while nodes[node, amounts + place] < most:
            place += 1
        if nodes[node, LEVEL] == 0:
            return nodes[node, KEYS + place], most
        node = nodes[node, CHILDREN + place]
