"""Knowledge that changes: every answer is that of knowledge loaded afresh, by whatever changes it came there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge import graph, tables, triples
from knowledge.graph import Knowledge
from tests import knowledge_maker as maker
from tests.test_equivalence import examples
from tests.test_knowledge_patterns import rows

EX = "http://ex.org/"
SCHEMA = f"""
@prefix ex: <{EX}> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:p rdfs:subPropertyOf ex:q . ex:r a owl:TransitiveProperty . ex:q owl:inverseOf ex:s .
"""
NUMBERS = ['"1"', '"01"', '"1"^^<int>', '"+1"', '"2"']

named = maker.lines.map(lambda line: line.removesuffix(".") + f"<{EX}g> .")
numbers = st.sampled_from(NUMBERS).map(
    lambda form: f"<{EX}a> <{EX}p> {form if '^^' in form else form + '^^<integer>'} .".replace(
        "^^<", "^^<http://www.w3.org/2001/XMLSchema#"
    )
)
ASKED = [
    "{ ?A ex:p ?d }",
    "{ ?A ex:p ?d . ?d ex:q ?B }",
    "{ ?A ex:p ?B . ?B ex:p ?A }",
    "{ ?A ?v ?B . ?B ex:q ?d }",
    "{ ?A ex:p ?A }",
    "{ ?A ex:p ?B . ex:a ex:q ?C . ?d ex:r ?e }",
    "{ ?A ex:p ?d ; ex:q ?d }",
    "{ ?A ex:p 1 ; ?B ?d }",
    "{ ?A ex:p ?B OPTIONAL { ?B ex:q ?C } }",
]
dense = st.tuples(*(st.sampled_from(names) for names in (["a", "b"], ["p", "q"], ["a", "b", "c"]))).map(
    lambda triple: " ".join(f"<{EX}{name}>" for name in triple) + " ."
)
quads = st.one_of(dense, dense, dense, maker.lines, named, numbers)
gone = st.one_of(quads, st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))  # a number: one that is there
changes = st.lists(st.tuples(st.lists(quads, max_size=3), st.lists(gone, max_size=3)), min_size=1, max_size=5)
Steps = list[tuple[list[str], list[str | int]]]


def knowledge_of(lines: set[str], reasoning: str) -> Knowledge:
    found = [*ox.parse("\n".join(sorted(lines)), ox.RdfFormat.N_QUADS)]
    schema = ox.parse(SCHEMA, ox.RdfFormat.TURTLE) if reasoning == "owlrl" else []
    return Knowledge.of([*schema, *found], reasoning)


def after(state: set[str], add: list[str], remove: list[str]) -> set[str]:
    gone = set(remove)
    return {line for line in state if line not in gone and line.replace(f" <{EX}g> .", " .") not in gone} | set(add)


@examples(25)
@given(
    lines=st.lists(quads, min_size=4, max_size=15),
    steps=changes,
    text=st.one_of(maker.basic(), maker.patterns()),
    reasoning=st.sampled_from(["none", "none", "owlrl"]),
    small=st.sampled_from([True, True, False]),
)
def test_changed_knowledge_is_that_of_a_fresh_start(
    lines: list[str], steps: Steps, text: str, reasoning: str, small: bool
) -> None:
    with by_difference() if small else nullcontext():
        changed_knowledge_is_that_of_a_fresh_start(lines, steps, [text, *ASKED], reasoning)


@contextmanager
def by_difference() -> Iterator[None]:
    """No change is so large, beside what there is, that all is done anew."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((triples, "_FEW"), (tables, "_LARGE"), (graph, "_MANY")):
            patch.setattr(module, name, 0)
        yield


def changed_knowledge_is_that_of_a_fresh_start(
    lines: list[str], steps: Steps, texts: list[str], reasoning: str
) -> None:
    if reasoning == "owlrl":  # to which a literal that is ill-formed is a contradiction
        lines = [line for line in lines if '"no"' not in line]
        steps = [([line for line in add if '"no"' not in line], remove) for add, remove in steps]
    state = set(lines)
    knowledge = knowledge_of(state, reasoning).fork()
    merged = b""
    for add, chosen in [([], []), *steps]:
        there = sorted(state)
        remove = [there[one % len(there)] if isinstance(one, int) else one for one in chosen if there]
        state = after(state, add, remove)
        change = knowledge.change("\n".join(add), "\n".join(remove))
        merged = knowledge.merge([merged, change])
        knowledge.apply(change)
        fresh = knowledge_of(state, reasoning)
        assert knowledge.fingerprint == fresh.fingerprint
        for text in texts:
            assert rows(knowledge, text) == rows(fresh, text)
    at_once = knowledge_of(set(lines), reasoning)
    at_once.apply(merged)
    assert at_once.fingerprint == knowledge.fingerprint
    for text in texts:
        assert rows(at_once, text) == rows(knowledge, text)
