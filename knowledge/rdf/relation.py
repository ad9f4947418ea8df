"""The triples of one predicate as a relation: sorted pairs (subject, object) that can be searched by subject or object.

Each pair has the number of the round in which a rule derived it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.values import Ints

Rounds = NDArray[np.int32]

_LOW = np.int64(2**32 - 1)
_FEW = 16  # fewer pairs than this fraction (one in 16) are searched one by one
MOST_TERMS = 2**31 - 1
"""The maximum id of a term. Two ids up to this maximum fit into one int64."""


def packed(first: Ints, second: Ints) -> Ints:
    """Pack pairs of ids into one column of int64. The order of the packed pairs is that of the first id, then of the
    second."""
    return (first << 32) | second


def unpacked(pairs: Ints) -> tuple[Ints, Ints]:
    return pairs >> 32, pairs & _LOW


def flipped(pairs: Ints) -> Ints:
    return (pairs & _LOW) << 32 | pairs >> 32


def sorted_distinct(column: Ints) -> Ints:
    column = np.sort(column)
    return column[_changes(column)]


def _changes(column: Ints) -> NDArray[np.bool_]:
    changes = np.ones(len(column), dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    return changes


def contained(within: Ints, values: Ints) -> NDArray[np.bool_]:
    """Return a mask of the `values` that are in the column `within`. `within` must be sorted."""
    if not len(within):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(within, values)
    places[places == len(within)] = 0
    is_contained: NDArray[np.bool_] = within[places] == values
    return is_contained


def _rows(within: Ints, values: Ints) -> Ints:
    """Return the positions of values in the column `within`. Both must be sorted. Values that are not in `within` are
    left out."""
    places = np.searchsorted(within, values[contained(within, values)])
    return places


def apart(within: Ints, values: Ints) -> Ints:
    """Return the `values` that are not in the column `within`. Both must be sorted. This is fast if `values` and
    `within` hardly differ."""
    if len(values) < _SIMILAR or not len(within):
        return values[~contained(within, values)]
    out: Ints = np.empty(len(values), dtype=np.int64)
    return out[: _apart(within, values, out)].copy()


def _apart(within: Any, values: Any, out: Any) -> Any:
    count, j = 0, 0
    for i in range(values.shape[0]):
        while j < within.shape[0] and within[j] < values[i]:
            j += 1
        if j == within.shape[0] or within[j] != values[i]:
            out[count] = values[i]
            count += 1
    return count


_apart = njit()(_apart)
_SIMILAR = 256


def _seconds(pairs: Ints, first: int) -> list[int]:
    start, stop = np.searchsorted(pairs, [first << 32, (first + 1) << 32])
    seconds: list[int] = (pairs[start:stop] & _LOW).tolist()
    return seconds


class BinaryRelation:
    """The pairs (subject, object) of a predicate, distinct and sorted by subject, then by object. It is immutable.

    `pairs`: the packed pairs. `rounds`: the number of the round in which a rule derived each pair, or 0 if it is
    asserted.
    """

    __slots__ = ("_backward", "_objects", "_subjects", "pairs", "rounds")

    def __init__(self, pairs: Ints, rounds: Rounds, backward: Ints | None = None) -> None:
        self.pairs = pairs
        self.rounds = rounds
        self._backward = backward
        self._subjects: Ints | None = None
        self._objects: Ints | None = None

    @classmethod
    def at(cls, pairs: Ints, round: int) -> BinaryRelation:
        """Build a relation from packed pairs that were derived in the round `round`. The pairs must be sorted and
        distinct."""
        return cls(pairs, np.full(len(pairs), round, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def backward(self) -> Ints:
        """The packed pairs (object, subject), sorted. This column is computed at first use."""
        if self._backward is None:
            self._backward = np.sort(flipped(self.pairs))
        return self._backward

    @property
    def subjects(self) -> Ints:
        """The distinct subjects, in ascending order."""
        if self._subjects is None:
            column = self.pairs >> 32
            self._subjects = column[_changes(column)]
        return self._subjects

    @property
    def objects(self) -> Ints:
        """The distinct objects, in ascending order."""
        if self._objects is None:
            column = self.backward >> 32
            self._objects = column[_changes(column)]
        return self._objects

    def objects_of(self, subject: int) -> list[int]:
        """Return the objects of a subject, in ascending order."""
        return _seconds(self.pairs, subject)

    def subjects_of(self, object: int) -> list[int]:
        """Return the subjects of an object, in ascending order."""
        return _seconds(self.backward, object)

    def has(self, pairs: Ints, before: int | None = None) -> NDArray[np.bool_]:
        """Return a mask of the packed pairs that are in the relation. `before`: if it is not None, count only pairs
        that were derived in a round before this one."""
        is_held = contained(self.pairs, pairs)
        if before is not None:
            is_held[is_held] = self.rounds[np.searchsorted(self.pairs, pairs[is_held])] < before
        return is_held

    def fresh(self, pairs: Ints) -> Ints:
        """Return those of the packed `pairs` that are not in the relation. `pairs` must be sorted and distinct."""
        return apart(self.pairs, pairs) if len(pairs) * _FEW > len(self.pairs) else pairs[~contained(self.pairs, pairs)]

    def plus(self, pairs: Ints, round: int) -> BinaryRelation:
        """Return a relation that also contains the packed `pairs`, which were derived in the round `round`. They must
        be sorted, distinct and new."""
        places = np.searchsorted(self.pairs, pairs)
        backward = None
        if self._backward is not None:
            back = np.sort(flipped(pairs))
            backward = np.insert(self._backward, np.searchsorted(self._backward, back), back)
        return BinaryRelation(
            np.insert(self.pairs, places, pairs),
            np.insert(self.rounds, places, np.int32(round)),
            backward,
        )

    def minus(self, pairs: Ints) -> BinaryRelation:
        """Return a relation without the packed `pairs`, which must be sorted and distinct."""
        gone = _rows(self.pairs, pairs)
        backward = self._backward
        if backward is not None:
            backward = np.delete(backward, _rows(backward, np.sort(flipped(pairs))))
        return BinaryRelation(np.delete(self.pairs, gone), np.delete(self.rounds, gone), backward)


NOTHING = BinaryRelation.at(np.empty(0, dtype=np.int64), 0)


class PredicateRelations(Mapping[int, BinaryRelation]):
    """A set of triples as one relation per predicate. A copy of this object is cheap, because relations are
    immutable."""

    __slots__ = ("_predicates", "_relations", "count")

    def __init__(self, relations: Mapping[int, BinaryRelation] | None = None) -> None:
        self._relations = {p: relation for p, relation in (relations or {}).items() if len(relation)}
        self.count = sum(len(relation) for relation in self._relations.values())
        self._predicates: Ints | None = None

    @property
    def predicates(self) -> Ints:
        """The predicates that have triples, in ascending order."""
        if self._predicates is None:
            self._predicates = np.array(sorted(self._relations), dtype=np.int64)
        return self._predicates

    @classmethod
    def of(cls, s: Ints, p: Ints, o: Ints, round: int = 0) -> PredicateRelations:
        """Build relations from columns of distinct triples. The triples may be in any order. `round`: the round in
        which they were derived."""
        order = np.argsort(p, kind="stable")
        pairs, p = packed(s, o)[order], p[order]
        starts = np.flatnonzero(_changes(p))
        stops = [*starts[1:].tolist(), len(p)]
        return cls(
            {
                int(p[start]): BinaryRelation.at(np.sort(pairs[start:stop]), round)
                for start, stop in zip(starts.tolist(), stops)
            }
        )

    def copy(self) -> PredicateRelations:
        return PredicateRelations(self._relations)

    def __getitem__(self, predicate: int) -> BinaryRelation:
        return self._relations.get(predicate, NOTHING)

    def __iter__(self) -> Iterator[int]:
        return iter(self.predicates.tolist())

    def __len__(self) -> int:
        return len(self._relations)

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._relations

    def add(self, predicate: int, pairs: Ints, round: int) -> None:
        """Add packed pairs to the relation of a predicate. The pairs must be sorted, distinct and new.

        `round`: the round in which the pairs were derived.
        """
        if len(pairs):
            self._relations[predicate] = self[predicate].plus(pairs, round)
            self._predicates = None
            self.count += len(pairs)

    def plus(self, more: PredicateRelations, round: int) -> PredicateRelations:
        """Return a copy that also contains the triples of `more`. These triples must be new. `round`: the round in
        which they were derived."""
        relations = self.copy()
        for predicate in more:
            relations.add(predicate, more[predicate].pairs, round)
        return relations

    def minus(self, less: PredicateRelations) -> PredicateRelations:
        """Return a copy without the triples of `less`."""
        return PredicateRelations({p: self[p].minus(less[p].pairs) if p in less else self[p] for p in self})

    def fresh(self, of: PredicateRelations) -> PredicateRelations:
        """Return the triples of `of` that are not in these relations."""
        return PredicateRelations({p: BinaryRelation.at(self[p].fresh(of[p].pairs), 0) for p in of})

    def renamed(self, ids: Ints) -> PredicateRelations:
        """Return a copy in which each id i is replaced by `ids[i]`. The new ids must have the same order as the old
        ids."""
        relations = {}
        for p in self:
            first, second = unpacked(self[p].pairs)
            relations[p if p < 0 else int(ids[p])] = BinaryRelation(packed(ids[first], ids[second]), self[p].rounds)
        return PredicateRelations(relations)

    def common(self, other: PredicateRelations) -> PredicateRelations:
        """Return the triples that are in both these relations and `other`."""
        return PredicateRelations(
            {p: BinaryRelation.at(other[p].pairs[contained(self[p].pairs, other[p].pairs)], 0) for p in other}
        )
