"""Ordered multisets in one array: add, remove, find by rank, and find the most frequent value, in logarithmic time.

Each is a B+ tree (Bayer, McCreight: Organization and Maintenance of Large Ordered Indices, Acta Informatica 1, 1972). A
node is eight cache lines. A small multiset is one leaf, which is searched linearly; a larger one costs one node per
level. An inner node stores the least key and the weight of each child. The weight is the number of values below it or,
in a tree by frequency, the count of the most frequent value. A node is removed when it is empty, and a leaf with few
keys is joined with its neighbour (Johnson, Shasha: B-Trees with Inserts and Deletes: Why Free-at-Empty Is Better Than
Merge-at-Half, J. Computer and System Sciences 47, 1993).
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
    """Free a whole tree."""
    if root >= 0:
        nodes[root, KEYS] = shared[FREE]
        shared[FREE] = root


@bare
def taken(nodes, shared, level):  # type: ignore[no-untyped-def]
    """Return a free node, set to this level and without entries. There must be room for one more."""
    at = shared[FREE]
    if at < 0:
        at = shared[USED]
        shared[USED] += 1
    else:
        shared[FREE] = nodes[at, KEYS]
        if nodes[at, LEVEL] > 0:
            for j in range(nodes[at, NUMBER]):
                give_up(nodes, shared, nodes[at, CHILDREN + j])
    nodes[at, NUMBER] = 0
    nodes[at, LEVEL] = level
    return at


@inside
def free(nodes, shared, at):  # type: ignore[no-untyped-def]
    """Free a single node, without its children."""
    nodes[at, NUMBER] = 0
    give_up(nodes, shared, at)


@inside
def place_of(nodes, at, key):  # type: ignore[no-untyped-def]
    """Return the place of a node's last key that is at most `key`, or -1."""
    found = -1
    for j in range(nodes[at, NUMBER]):
        found += nodes[at, KEYS + j] <= key
    return found


@bare
def weight(nodes, at, frequency):  # type: ignore[no-untyped-def]
    """Return the weight that a node has in its parent."""
    first = WEIGHTS if nodes[at, LEVEL] > 0 else TIMES
    total = 0
    for j in range(nodes[at, NUMBER]):
        each = nodes[at, first + j]
        total = max(total, each) if frequency else total + each
    return total


@bare
def insert(nodes, at, place, key, amount, child):  # type: ignore[no-untyped-def]
    """Insert an entry into a node that is not full."""
    inner = nodes[at, LEVEL] > 0
    amounts = WEIGHTS if inner else TIMES
    for j in range(nodes[at, NUMBER], place, -1):
        nodes[at, KEYS + j] = nodes[at, KEYS + j - 1]
        nodes[at, amounts + j] = nodes[at, amounts + j - 1]
        if inner:
            nodes[at, CHILDREN + j] = nodes[at, CHILDREN + j - 1]
    nodes[at, KEYS + place] = key
    nodes[at, amounts + place] = amount
    if inner:
        nodes[at, CHILDREN + place] = child
    nodes[at, NUMBER] += 1


@bare
def take_out(nodes, at, place):  # type: ignore[no-untyped-def]
    """Remove an entry from its node."""
    inner = nodes[at, LEVEL] > 0
    amounts = WEIGHTS if inner else TIMES
    last = nodes[at, NUMBER] - 1
    for j in range(place, last):
        nodes[at, KEYS + j] = nodes[at, KEYS + j + 1]
        nodes[at, amounts + j] = nodes[at, amounts + j + 1]
        if inner:
            nodes[at, CHILDREN + j] = nodes[at, CHILDREN + j + 1]
    nodes[at, NUMBER] = last


@bare
def entered(nodes, shared, at, place, key, amount, child):  # type: ignore[no-untyped-def]
    """Insert an entry into a node. If the node was full, return the new node with its upper half, else -1."""
    level = nodes[at, LEVEL]
    number = nodes[at, NUMBER]
    if number < (FAN if level > 0 else LEAF):
        insert(nodes, at, place, key, amount, child)
        return -1
    other = taken(nodes, shared, level)
    amounts = WEIGHTS if level > 0 else TIMES
    half = number // 2
    for j in range(half, number):
        nodes[other, KEYS + j - half] = nodes[at, KEYS + j]
        nodes[other, amounts + j - half] = nodes[at, amounts + j]
        if level > 0:
            nodes[other, CHILDREN + j - half] = nodes[at, CHILDREN + j]
    nodes[at, NUMBER] = half
    nodes[other, NUMBER] = number - half
    if place <= half:
        insert(nodes, at, place, key, amount, child)
    else:
        insert(nodes, other, place - half, key, amount, child)
    return other


@bare
def add(nodes, shared, root, key, frequency):  # type: ignore[no-untyped-def]
    """Add a key. Return the root and the new count of the key. There must be room for SPLITS nodes."""
    if root < 0:
        root = taken(nodes, shared, 0)
        insert(nodes, root, 0, key, 1, -1)
        return root, 1
    at, depth = root, 0
    while nodes[at, LEVEL] > 0:
        place = place_of(nodes, at, key)
        if place < 0:
            place = 0
            nodes[at, KEYS] = key
        if not frequency:
            nodes[at, WEIGHTS + place] += 1
        shared[PATH + 2 * depth] = at
        shared[PATH + 2 * depth + 1] = place
        depth += 1
        at = nodes[at, CHILDREN + place]
    place = place_of(nodes, at, key)
    if place >= 0 and nodes[at, KEYS + place] == key:
        times = nodes[at, TIMES + place] + 1
        nodes[at, TIMES + place] = times
        while frequency and depth > 0:
            depth -= 1
            where = WEIGHTS + shared[PATH + 2 * depth + 1]
            if nodes[shared[PATH + 2 * depth], where] >= times:
                break
            nodes[shared[PATH + 2 * depth], where] = times
        return root, times
    other = entered(nodes, shared, at, place + 1, key, 1, -1)
    while other >= 0:
        if depth == 0:
            root = taken(nodes, shared, nodes[at, LEVEL] + 1)
            insert(nodes, root, 0, nodes[at, KEYS], weight(nodes, at, frequency), at)
            insert(nodes, root, 1, nodes[other, KEYS], weight(nodes, other, frequency), other)
            break
        depth -= 1
        parent, place = shared[PATH + 2 * depth], shared[PATH + 2 * depth + 1]
        nodes[parent, WEIGHTS + place] = weight(nodes, at, frequency)
        amount = weight(nodes, other, frequency)
        at, other = parent, entered(nodes, shared, parent, place + 1, nodes[other, KEYS], amount, other)
    return root, 1


@bare
def remove(nodes, shared, root, key, frequency):  # type: ignore[no-untyped-def]
    """Remove one occurrence of a key, which must exist. Return the root (-1: empty) and the new count of the key."""
    at, depth = root, 0
    while nodes[at, LEVEL] > 0:
        place = place_of(nodes, at, key)
        if not frequency:
            nodes[at, WEIGHTS + place] -= 1
        shared[PATH + 2 * depth] = at
        shared[PATH + 2 * depth + 1] = place
        depth += 1
        at = nodes[at, CHILDREN + place]
    place = place_of(nodes, at, key)
    times = nodes[at, TIMES + place] - 1
    nodes[at, TIMES + place] = times
    if times == 0:
        take_out(nodes, at, place)
        while depth > 0 and nodes[at, NUMBER] == 0:
            free(nodes, shared, at)
            depth -= 1
            at, place = shared[PATH + 2 * depth], shared[PATH + 2 * depth + 1]
            take_out(nodes, at, place)
        if nodes[at, NUMBER] == 0:
            free(nodes, shared, at)
            return -1, 0
        above, below = depth, at
        while place == 0 and above > 0:  # the least key was removed
            above -= 1
            place = shared[PATH + 2 * above + 1]
            nodes[shared[PATH + 2 * above], KEYS + place] = nodes[below, KEYS]
            below = shared[PATH + 2 * above]
    if depth > 0 and frequency:
        below, above = at, depth
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
    if times == 0 and depth > 0 and nodes[at, LEVEL] == 0 and nodes[at, NUMBER] <= LEAF // 4:
        join_leaves(nodes, shared, shared[PATH + 2 * depth - 2], shared[PATH + 2 * depth - 1], frequency)
    while nodes[root, LEVEL] > 0 and nodes[root, NUMBER] == 1:
        at = nodes[root, CHILDREN]
        free(nodes, shared, root)
        root = at
    return root, times


@bare
def join_leaves(nodes, shared, parent, place, frequency):  # type: ignore[no-untyped-def]
    """Join a leaf with a neighbour, if the result is at most half full."""
    if place + 1 == nodes[parent, NUMBER]:
        place -= 1
    if place < 0:
        return
    one, other = nodes[parent, CHILDREN + place], nodes[parent, CHILDREN + place + 1]
    number, more = nodes[one, NUMBER], nodes[other, NUMBER]
    if number + more > LEAF // 2:
        return
    for j in range(more):
        nodes[one, KEYS + number + j] = nodes[other, KEYS + j]
        nodes[one, TIMES + number + j] = nodes[other, TIMES + j]
    nodes[one, NUMBER] = number + more
    nodes[parent, WEIGHTS + place] = weight(nodes, one, frequency)
    take_out(nodes, parent, place + 1)
    free(nodes, shared, other)


@bare
def of_rank(nodes, root, rank):  # type: ignore[no-untyped-def]
    """Return the keys of the values with this rank, counted from 0, and with the next rank.

    There must be a value with this rank. If there is no next one, its key is returned twice.
    """
    at, after, last = root, 0, True
    while True:
        amounts = WEIGHTS if nodes[at, LEVEL] > 0 else TIMES
        place = 0
        while rank >= nodes[at, amounts + place]:
            rank -= nodes[at, amounts + place]
            place += 1
        if place + 1 < nodes[at, NUMBER]:
            after, last = nodes[at, KEYS + place + 1], False
        if nodes[at, LEVEL] == 0:
            break
        at = nodes[at, CHILDREN + place]
    key = nodes[at, KEYS + place]
    return key, key if last or rank + 1 < nodes[at, TIMES + place] else after


@bare
def most_frequent(nodes, root):  # type: ignore[no-untyped-def]
    """Return the most frequent key and its count. The tree is by frequency and not empty; the least key wins a tie."""
    most = weight(nodes, root, True)
    at = root
    while True:
        amounts = WEIGHTS if nodes[at, LEVEL] > 0 else TIMES
        place = 0
        while nodes[at, amounts + place] < most:
            place += 1
        if nodes[at, LEVEL] == 0:
            return nodes[at, KEYS + place], most
        at = nodes[at, CHILDREN + place]
