"""The equivalence relation owl:sameAs (rules eq-sym and eq-trans): classes of equal terms, and all pairs of terms in a
class."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.core.errors import CepError
from cep.core.kernels import njit
from cep.core.values import Ints
from cep.knowledge.rdf.relation import packed, sorted_distinct, unpacked

MOST = 20_000_000
"""The maximum number of pairs of equal terms in a closure."""


def united(labels: Ints, pairs: Ints) -> tuple[Ints, Ints]:
    """Merge classes of equal terms after further terms became equal. Return the new labels, and the labels of the
    classes that grew.

    `labels`: for each id, the lowest id that is equal to it. `pairs`: packed pairs of terms that became equal.
    """
    first, second = unpacked(pairs)
    apart = labels[first] != labels[second]
    if not apart.any():
        return labels, np.empty(0, dtype=np.int64)
    parents = labels.copy()
    _unite(parents, first[apart], second[apart])
    parents = _flat(parents)
    return parents, sorted_distinct(parents[first[apart]])


def pairs_of(labels: Ints, classes: Ints) -> Ints:
    """Return all packed pairs of different terms that belong to the same class, sorted.

    `classes`: the labels of the classes to use. Raises CepError if there are more than MOST pairs.
    """
    wanted = np.zeros(len(labels), dtype=np.bool_)
    wanted[classes] = True
    members = np.flatnonzero(wanted[labels])
    order = np.argsort(labels[members], kind="stable")
    members = members[order]
    starts = np.flatnonzero(np.r_[True, np.diff(labels[members]) != 0])
    sizes = np.diff(np.r_[starts, len(members)])
    total = int((sizes * (sizes - 1)).sum())
    if total > MOST:
        raise CepError(
            f"{int(sizes.max()):,} terms are owl:sameAs each other; that makes {total:,} pairs of equal terms, "
            f"more than {MOST:,}",
            hint="look for a property that should not be functional, inverse functional or a key",
            code="too-large",
        )
    size = np.repeat(sizes, sizes)
    x = np.repeat(members, size)
    within = np.arange(len(x)) - np.repeat(np.cumsum(size) - size, size)
    y = members[np.repeat(np.repeat(starts, sizes), size) + within]
    return np.sort(packed(x, y)[x != y])


def _flat(parents: Ints) -> Ints:
    while True:
        above = parents[parents]
        if (above == parents).all():
            return parents
        parents = above


def _unite(parents: Any, first: Any, second: Any) -> None:
    for i in range(first.shape[0]):
        a, b = first[i], second[i]
        while parents[a] != a:
            parents[a] = parents[parents[a]]
            a = parents[a]
        while parents[b] != b:
            parents[b] = parents[parents[b]]
            b = parents[b]
        if a < b:
            parents[b] = a
        else:
            parents[a] = b


_unite = njit()(_unite)
