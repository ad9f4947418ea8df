"""The closure of a transitive relation (rule prp-trp). A walk starts from each subject whose pairs may change, and
produces no pair twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.core.errors import CepError
from cep.core.kernels import njit
from cep.core.values import Ints
from cep.knowledge.rdf.relation import packed, sorted_distinct, unpacked

MOST = 100_000_000
"""The maximum number of pairs in the result of `reachable_pairs`."""


def reachable_pairs(closed: Ints, steps: Ints, again: bool = False) -> Ints:
    """Add the pairs `steps` to a transitive relation. Return the pairs that become related.

    - `closed`: the packed pairs of the relation, sorted.
    - `steps`: the packed pairs to add, sorted.
    - `again`: also return pairs that are already in `closed`, if a path that contains at least one of the steps
      connects them.

    The result is packed and sorted. The union of `closed` and the result is the smallest transitive relation that
    contains `closed` and `steps`. Raises CepError if the result has more than MOST pairs.
    """
    ends = [end for pairs in (closed, steps) for end in unpacked(pairs)]
    nodes = sorted_distinct(np.concatenate(ends))
    old_first, old_second, new_first, new_second = (np.searchsorted(nodes, end) for end in ends)
    old_starts = np.searchsorted(old_first, np.arange(len(nodes) + 1))
    new_starts = np.searchsorted(new_first, np.arange(len(nodes) + 1))
    walks = np.zeros(len(nodes), dtype=np.bool_)
    walks[new_first] = True
    walks[old_first[walks[old_second]]] = True
    sources = np.flatnonzero(walks)
    pairs, count = _walked(sources, old_starts, old_second, new_starts, new_second, again, MOST)
    if count > MOST:
        raise CepError(
            f"a transitive property relates more than {MOST:,} pairs of things",
            hint="use a property path in a pattern instead: `?x <property>+ ?y`",
            code="too-large",
        )
    first, second = unpacked(pairs[:count])
    return np.sort(packed(nodes[first], nodes[second]))


def _walked(
    sources: Any, old_starts: Any, old: Any, new_starts: Any, new: Any, again: Any, most: Any
) -> Any:  # pragma: no cover - compiled
    # `stack` has room for x, for its successors in `old`, and for each node once. A node that was seen is not put there
    # again.
    size = old_starts.shape[0] - 1
    most_old = 0
    for x in range(size):
        most_old = max(most_old, old_starts[x + 1] - old_starts[x])
    seen = np.full(size, -1, dtype=np.int64)  # the last source that has seen a node
    stepped = np.full(size, -1, dtype=np.int64)
    stack = np.empty(1 + most_old + size, dtype=np.int64)
    pairs = np.empty(1024, dtype=np.int64)
    count = 0
    for x in sources:
        top = 0
        stack[top] = x
        top += 1
        for i in range(old_starts[x], old_starts[x + 1]):
            if not again:
                seen[old[i]] = x
            stack[top] = old[i]
            top += 1
        while top > 0:
            top -= 1
            node = stack[top]
            if stepped[node] == x:
                continue
            stepped[node] = x
            for j in range(new_starts[node], new_starts[node + 1]):
                v = new[j]
                if seen[v] == x:
                    continue
                # The end of the step, then its successors in `closed`.
                k = old_starts[v] - 1
                while k < old_starts[v + 1]:
                    w = v if k < old_starts[v] else old[k]
                    k += 1
                    if seen[w] == x:
                        continue
                    seen[w] = x
                    if count == pairs.shape[0]:
                        if count > most:
                            return pairs, count
                        more = np.empty(2 * count, dtype=np.int64)
                        more[:count] = pairs
                        pairs = more
                    pairs[count] = (x << 32) | w
                    count += 1
                    if stepped[w] != x:
                        stack[top] = w
                        top += 1
    return pairs, count


_walked = njit()(_walked)
