"""The triples of one predicate: sorted pairs, found from either end, each with the round in which it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.values import Ints

Rounds = NDArray[np.int32]

_LOW = np.int64(2**32 - 1)
_FEW = 16  # one in how many: fewer are searched one by one
MOST_TERMS = 2**31 - 1
"""A pair of ids is one int64, so ids stay below this."""


def packed(first: Ints, second: Ints) -> Ints:
    """Pairs of ids as one column that sorts by the first, then by the second."""
    return (first << 32) | second


def unpacked(pairs: Ints) -> tuple[Ints, Ints]:
    return pairs >> 32, pairs & _LOW


def flipped(pairs: Ints) -> Ints:
    return (pairs & _LOW) << 32 | pairs >> 32


def sorted_distinct(column: Ints) -> Ints:
    """Sorted, each value once."""
    column = np.sort(column)
    return column[_changes(column)]


def _changes(column: Ints) -> NDArray[np.bool_]:
    changes = np.ones(len(column), dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    return changes


def contained(within: Ints, values: Ints) -> NDArray[np.bool_]:
    """Which of `values` are in a sorted column."""
    if not len(within):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.searchsorted(within, values)
    at[at == len(within)] = 0
    there: NDArray[np.bool_] = within[at] == values
    return there


def _rows(within: Ints, values: Ints) -> Ints:
    """Return the positions, in a sorted column, of the sorted values that it contains."""
    places = np.searchsorted(within, values[contained(within, values)])
    return places


def apart(within: Ints, values: Ints) -> Ints:
    """Those of a sorted column that are not in another; fast where the two hardly differ."""
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
    """Distinct pairs (subject, object), sorted by subject, then object. Never changed.

    `pairs` are packed; `rounds` says for each in which round of the closure it came, 0 for what was there before.
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
        """Pairs, sorted and distinct, that all came in one round."""
        return cls(pairs, np.full(len(pairs), round, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def backward(self) -> Ints:
        """The pairs (object, subject), sorted. Made when first asked for."""
        if self._backward is None:
            self._backward = np.sort(flipped(self.pairs))
        return self._backward

    @property
    def subjects(self) -> Ints:
        """Each subject once."""
        if self._subjects is None:
            column = self.pairs >> 32
            self._subjects = column[_changes(column)]
        return self._subjects

    @property
    def objects(self) -> Ints:
        """Each object once."""
        if self._objects is None:
            column = self.backward >> 32
            self._objects = column[_changes(column)]
        return self._objects

    def objects_of(self, subject: int) -> list[int]:
        """The objects of a subject, ascending."""
        return _seconds(self.pairs, subject)

    def subjects_of(self, object: int) -> list[int]:
        """The subjects of an object, ascending."""
        return _seconds(self.backward, object)

    def has(self, pairs: Ints, before: int | None = None) -> NDArray[np.bool_]:
        """Return a mask of the packed pairs that are here; with `before`, of those from an earlier round."""
        there = contained(self.pairs, pairs)
        if before is not None:
            there[there] = self.rounds[np.searchsorted(self.pairs, pairs[there])] < before
        return there

    def fresh(self, pairs: Ints) -> Ints:
        """Those of some sorted distinct pairs that are not here."""
        return apart(self.pairs, pairs) if len(pairs) * _FEW > len(self.pairs) else pairs[~contained(self.pairs, pairs)]

    def plus(self, pairs: Ints, round: int) -> BinaryRelation:
        """With more pairs, sorted, distinct and fresh, that came in a round."""
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
        """Without some sorted distinct pairs."""
        gone = _rows(self.pairs, pairs)
        backward = self._backward
        if backward is not None:
            backward = np.delete(backward, _rows(backward, np.sort(flipped(pairs))))
        return BinaryRelation(np.delete(self.pairs, gone), np.delete(self.rounds, gone), backward)


NOTHING = BinaryRelation.at(np.empty(0, dtype=np.int64), 0)


class PredicateRelations(Mapping[int, BinaryRelation]):
    """Relations by predicate. A copy costs nothing: relations do not change."""

    __slots__ = ("_predicates", "_relations", "count")

    def __init__(self, relations: Mapping[int, BinaryRelation] | None = None) -> None:
        self._relations = {p: relation for p, relation in (relations or {}).items() if len(relation)}
        self.count = sum(len(relation) for relation in self._relations.values())
        self._predicates: Ints | None = None

    @property
    def predicates(self) -> Ints:
        """The predicates that have triples, ascending."""
        if self._predicates is None:
            self._predicates = np.array(sorted(self._relations), dtype=np.int64)
        return self._predicates

    @classmethod
    def of(cls, s: Ints, p: Ints, o: Ints, round: int = 0) -> PredicateRelations:
        """Build it from columns of distinct triples in any order."""
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
        """A predicate's relation, empty if it has no triples."""
        return self._relations.get(predicate, NOTHING)

    def __iter__(self) -> Iterator[int]:
        return iter(self.predicates.tolist())

    def __len__(self) -> int:
        return len(self._relations)

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._relations

    def add(self, predicate: int, pairs: Ints, round: int) -> None:
        """Pairs, sorted, distinct and fresh, that came in a round."""
        if len(pairs):
            self._relations[predicate] = self[predicate].plus(pairs, round)
            self._predicates = None
            self.count += len(pairs)

    def plus(self, more: PredicateRelations, round: int) -> PredicateRelations:
        """With triples that are fresh and came in a round."""
        made = self.copy()
        for predicate in more:
            made.add(predicate, more[predicate].pairs, round)
        return made

    def minus(self, less: PredicateRelations) -> PredicateRelations:
        """Without some triples."""
        return PredicateRelations({p: self[p].minus(less[p].pairs) if p in less else self[p] for p in self})

    def fresh(self, of: PredicateRelations) -> PredicateRelations:
        """Those of some triples that are not here."""
        return PredicateRelations({p: BinaryRelation.at(self[p].fresh(of[p].pairs), 0) for p in of})

    def renamed(self, ids: Ints) -> PredicateRelations:
        """The same with other ids, which ascend as those did."""
        made = {}
        for p in self:
            first, second = unpacked(self[p].pairs)
            made[p if p < 0 else int(ids[p])] = BinaryRelation(packed(ids[first], ids[second]), self[p].rounds)
        return PredicateRelations(made)

    def common(self, other: PredicateRelations) -> PredicateRelations:
        """The triples that are in both."""
        return PredicateRelations(
            {p: BinaryRelation.at(other[p].pairs[contained(self[p].pairs, other[p].pairs)], 0) for p in other}
        )
