"""Triples in columns are sets of triples, whatever was put in and taken out, and whichever of their ids is asked for;
the name of what they say does not go by their order."""

from __future__ import annotations

from random import Random

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.knowledge.rdf.fingerprint import quads_fingerprint
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from tests.long import examples

Row = tuple[int, int, int]
random = st.randoms(use_true_random=False)


def of(rows: list[Row]) -> TripleSet:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return TripleSet.of(*(column.copy() for column in columns))


def rows_of(triples: TripleSet, order: int = 0) -> list[Row]:
    return list(zip(*(column.tolist() for column in triples.ordered(order))))


def some(random: Random, most: int, ids: int) -> list[Row]:
    s, p, o = range(ids), range(1 + ids // 3), range(ids)
    return [(random.choice(s), random.choice(p), random.choice(o)) for _ in range(random.randrange(most))]


def check(triples: TripleSet, expected: set[Row], random: Random) -> None:
    assert len(triples) == len(expected)
    for order, places in enumerate(((0, 1, 2), (1, 2, 0), (2, 0, 1))):
        assert rows_of(triples, order) == sorted(expected, key=lambda row: tuple(row[place] for place in places))
    asked = [*random.sample(sorted(expected), min(5, len(expected))), (0, 0, 0), (-1, 0, 99), (99, 99, 99)]
    random.shuffle(asked)
    for fixed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        columns = [
            np.array([row[place] for row in asked], dtype=np.int64) if place in fixed else None for place in range(3)
        ]
        wanted = [[row for row in expected if all(row[at] == one[at] for at in fixed)] for one in asked]
        assert triples.counts(*columns).tolist() == [len(each) for each in wanted]
        index, found = triples.found(*columns)
        pairs = list(zip(index.tolist(), zip(*(column.tolist() for column in found)), strict=True))
        assert sorted(pairs) == sorted((at, row) for at, each in enumerate(wanted) for row in each)
        first = [asked[0][place] if place in fixed else None for place in range(3)]
        assert triples.count(*first) == len(wanted[0])


@pytest.mark.parametrize("size", [3, 60, 1500])  # a change is many of the first, few and fewer of the others
@examples(30)
@given(random=random)
def test_they_are_sets(size: int, random: Random) -> None:
    ids = random.choice((3, 12, 60))
    rows = some(random, size, ids)
    triples, expected = of(rows), set(rows)
    for _ in range(random.randrange(1, 8)):
        change = some(random, 1 + size // random.choice((2, 100)), ids)
        if random.randrange(2):
            change = random.sample(sorted(expected), min(len(expected), len(change)))  # of those that are there
        if random.randrange(2):
            triples, expected = triples.plus(of(change)), expected | set(change)
        else:
            triples, expected = triples.minus(of(change)), expected - set(change)
        if random.randrange(3) == 0:
            triples.ordered(random.randrange(3))
    check(triples, expected, random)
    other = some(random, 20, ids)
    assert set(rows_of(triples.common(of(other)))) == expected & set(other)


TERMS = [
    ox.NamedNode("urn:a"), ox.NamedNode("urn:ab"), ox.NamedNode("urn:a" + "b" * 40), ox.Literal(""), ox.Literal("b"),
    ox.Literal("b", language="de"), ox.Literal("7", datatype=ox.NamedNode("urn:t")), ox.Literal("ü€😀"),
    ox.BlankNode("b"), ox.Literal(7), ox.Literal(7.5),
]  # fmt: skip


@examples(40)
@given(random=random)
def test_a_name_goes_by_what_is_said(random: Random) -> None:
    quads = [tuple(random.choice(TERMS) for _ in range(3)) + (random.randrange(3),) for _ in range(random.randrange(9))]
    quads = list(dict.fromkeys(quads))

    def name(quads: list[tuple[ox.Term, ox.Term, ox.Term, int]], reasoning: str = "owlrl") -> str:
        terms, graphs = Terms(), {}
        order = random.sample(TERMS, len(TERMS))
        terms.ids(order[: random.randrange(len(TERMS))])  # other ids, and terms that no quad has
        for graph in random.sample(range(3), 3):
            of_it = [quad[:3] for quad in quads if quad[3] == graph]
            id = NONE if graph == 0 else terms.iri(f"urn:g{graph}")
            if of_it:
                graphs[id] = TripleSet.of(*(terms.ids(column) for column in zip(*of_it)))
        return quads_fingerprint(terms, graphs, reasoning)

    assert name(quads) == name(random.sample(quads, len(quads)))
    assert name(quads) != name(quads, "rdfs")
    if quads:
        assert name(quads) != name(quads[1:])
        s, p, o, graph = quads[0]
        others = [(s, p, o, (graph + 1) % 3), (random.choice(TERMS), p, o, graph), (o, p, s, graph)]
        for other in others:
            if other not in quads:
                assert name(quads) != name([other, *quads[1:]])
