"""Relations of intervals: what follows from a row of the table is what trying all small intervals finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from cep.core.interval_relations import (
    LEFT_INSTANT,
    RELATIONS,
    RIGHT_INSTANT,
    UNBOUNDED,
    A,
    B,
    Bound,
    C,
    D,
    IntervalRelation,
    at_once,
    before,
    sequence,
)
from tests import reference_nodes

Ends = tuple[int, int, int, int]
EVERY = [ends for ends in product(range(6), repeat=4) if ends[A] <= ends[B] and ends[C] <= ends[D]]
FACTS = [
    make(one, other) for make in (before, at_once) for one, other in product((A, B, C, D), repeat=2) if one != other
]
WAYS = [*RELATIONS.values(), sequence(0, 2), sequence(2, 3)]


def holds(bounds: tuple[Bound, ...], ends: Ends) -> bool:
    return all(bound.low <= ends[bound.later] - ends[bound.earlier] <= bound.high for bound in bounds)


def having(relation: IntervalRelation, *given: Bound) -> Iterator[Ends]:
    return (ends for ends in EVERY if holds((*relation.bounds, *given), ends))


@pytest.mark.parametrize("name", RELATIONS)
def test_the_table_is_what_the_reference_says(name: str) -> None:
    relation = RELATIONS[name]
    assert [relation.misses(*ends) is None for ends in EVERY] == [
        reference_nodes.RELATIONS[name.lower()](*ends) for ends in EVERY
    ]


@pytest.mark.parametrize("relation", WAYS, ids=lambda relation: f"{relation.name}{relation.bounds}")
@pytest.mark.parametrize("given", [(), (LEFT_INSTANT,), (RIGHT_INSTANT,), (LEFT_INSTANT, RIGHT_INSTANT)], ids=len)
def test_what_follows_is_what_all_of_them_have(relation: IntervalRelation, given: tuple[Bound, ...]) -> None:
    pairs = list(having(relation, *given))
    assert relation.possible(*given) == bool(pairs)
    for fact in FACTS:
        assert relation.implies(fact, *given) == (bool(pairs) and all(holds((fact,), ends) for ends in pairs))
    assert relation.instant_if(*given) == (bool(pairs) and all(min(a, c) == max(b, d) for a, b, c, d in pairs))


@pytest.mark.parametrize("relation", WAYS, ids=lambda relation: f"{relation.name}{relation.bounds}")
def test_the_pair_begins_with_the_earlier_start(relation: IntervalRelation) -> None:
    starts = {"DURING": C, "FINISHES": C, "STARTS": C}
    if relation.name not in ("AND", "PAR"):
        assert all(ends[starts.get(relation.name, A)] == min(ends[A], ends[C]) for ends in having(relation))


def test_how_far_a_gap_reaches() -> None:
    assert sequence(1, 3).reach == 3
    assert RELATIONS["SEQ"].reach == UNBOUNDED
    assert RELATIONS["MEETS"].reach == 0
    assert max(d - b for a, b, c, d in having(sequence(1, 3), RIGHT_INSTANT)) == 3
