"""Knowledge that changes: every answer is that of knowledge loaded afresh, by whatever changes it came there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import Pool
from cep.engine import Engine
from cep.events import Event
from cep.knowledge import graph
from cep.knowledge.graph import Knowledge
from cep.knowledge.query import pattern_tables
from cep.knowledge.rdf import triples
from tests import knowledge_maker as maker
from tests.test_equivalence import examples
from tests.test_knowledge_patterns import graph as pattern
from tests.test_knowledge_patterns import rows, source

EX = "http://ex.org/"
SCHEMA = f"""
@prefix ex: <{EX}> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:p rdfs:subPropertyOf ex:q . ex:r a owl:TransitiveProperty . ex:q owl:inverseOf ex:s .
ex:Ones owl:hasValue 1 ; owl:onProperty ex:p . ex:Twos owl:hasValue 2.0 ; owl:onProperty ex:q .
"""
NUMBERS = ['"1.0"^^<decimal>', '"2."^^<decimal>', '"1"', '"01"', '"1"^^<int>', '"+1"', '"2"']

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
    "{ ?A a ex:Ones }",
    "{ ?A a ex:Twos ; ex:p 2 }",
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


@examples(15)
@given(
    lines=st.lists(quads, min_size=4, max_size=15),
    steps=changes,
    text=st.one_of(maker.basic(), maker.patterns()),
    reasoning=st.sampled_from(["none", "none", "owlrl"]),
    small=st.sampled_from([True, True, False]),
    forgetful=st.booleans(),
)
def test_changed_knowledge_is_that_of_a_fresh_start(
    lines: list[str], steps: Steps, text: str, reasoning: str, small: bool, forgetful: bool
) -> None:
    with by_difference() if small else nullcontext():
        changed_knowledge_is_that_of_a_fresh_start(lines, steps, [text, *ASKED], reasoning, forgetful)


@contextmanager
def by_difference() -> Iterator[None]:
    """No change is so large, beside what there is, that all is done anew."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((triples, "_FEW"), (triples, "_MANY"), (pattern_tables, "_LARGE"), (graph, "_MANY")):
            patch.setattr(module, name, 0)
        yield


def changed_knowledge_is_that_of_a_fresh_start(
    lines: list[str], steps: Steps, texts: list[str], reasoning: str, forgetful: bool
) -> None:
    if reasoning == "owlrl":  # to which a literal that is ill-formed is a contradiction
        lines = [line for line in lines if '"no"' not in line]
        steps = [([line for line in add if '"no"' not in line], remove) for add, remove in steps]
    state = set(lines)
    knowledge = knowledge_of(state, reasoning).fork(apart=True)
    merged = b""
    for add, chosen in [([], []), *steps]:
        there = sorted(state)
        remove = [there[one % len(there)] if isinstance(one, int) else one for one in chosen if there]
        state = after(state, add, remove)
        change = knowledge.change("\n".join(add), "\n".join(remove))
        merged = knowledge.merge([merged, change])
        knowledge.apply(change)
        fresh = knowledge_of(state, reasoning)
        if forgetful:
            knowledge.forget(always=True)
            terms = len(knowledge.terms)
            knowledge.forget(always=True)
            assert len(knowledge.terms) == terms
        assert knowledge.fingerprint == fresh.fingerprint
        for text in texts:
            assert rows(knowledge, text) == rows(fresh, text)
    at_once = knowledge_of(set(lines), reasoning)
    at_once.apply(merged)
    assert at_once.fingerprint == knowledge.fingerprint
    for text in texts:
        assert rows(at_once, text) == rows(knowledge, text)


def test_text_files_and_triples_are_changes(tmp_path: Path) -> None:
    knowledge = Knowledge.of([])
    (tmp_path / "more.ttl").write_text("<x:a> <x:p> 3 .")
    triple = (rdflib.URIRef("x:a"), rdflib.URIRef("x:p"), rdflib.Literal(4))
    for add in (
        "@prefix x: <x:> . x:a x:p 1 .",
        '<x:a> <x:p> "2" <x:g> .',
        tmp_path / "more.ttl",
        [triple],
        "<x:g> { <x:a> <x:p> 5 }",
    ):
        knowledge.apply(knowledge.change(add))
    assert rows(knowledge, "{ <x:a> <x:p> ?O }") == [(1,), (3,), (4,), (5,), (("str", "2"),)]
    knowledge.apply(knowledge.change(remove="<x:a> <x:p> 5, 1, 99 ."))  # from every graph; what is not there stays away
    knowledge.apply(knowledge.change(remove=[triple]))
    assert rows(knowledge, "{ <x:a> <x:p> ?O }") == [(3,), (("str", "2"),)]


def test_a_change_that_is_no_rdf_changes_nothing() -> None:
    knowledge = Knowledge.of([])
    with pytest.raises(CepError) as refused:
        knowledge.change("<x:a> <x:p> 1 .\n<x:a> <x:p> oops .")
    assert str(refused.value).startswith("what is added:2:13: this is not TriG: oops is not a valid RDF object")
    with pytest.raises(CepError, match="what is removed:1:"):
        knowledge.change(remove='<x:a> <x:p> "x" <x:g> . oops')
    with pytest.raises(CepError, match="this is not a triple"):
        knowledge.change([(1, 2, 3)])
    assert len(knowledge) == 0


def test_a_contradiction_changes_nothing() -> None:
    schema = "<x:A> <http://www.w3.org/2002/07/owl#disjointWith> <x:B> . <x:a> a <x:A> ."
    knowledge = Knowledge.of(ox.parse(schema, ox.RdfFormat.TURTLE), "owlrl")
    before = knowledge.fingerprint, len(knowledge)
    with pytest.raises(CepError, match="inconsistent"):
        knowledge.apply(knowledge.change("<x:a> a <x:B> ."))
    assert (knowledge.fingerprint, len(knowledge)) == before
    assert rows(knowledge, "{ ?S a <x:B> }") == []
    knowledge.apply(knowledge.change("<x:a> a <x:B> .", "<x:a> a <x:A> ."))
    assert rows(knowledge, "{ ?S a <x:B> }") == [(("Iri", "x:a"),)]


def test_a_fork_goes_its_own_way() -> None:
    one = Knowledge.of(ox.parse("<x:a> <x:p> 1 .", ox.RdfFormat.TURTLE))
    texts = ("{ ?S <x:p> ?O }", "{ ?S <x:p>+ ?O }", "{ ?S <x:p> ?O FILTER(?O < 10) }")
    for text in texts:
        rows(one, text)
    two = one.fork()
    two.apply(two.change("<x:a> <x:p> 2 ."))
    one.apply(one.change("<x:a> <x:p> 3 .", "<x:a> <x:p> 1 ."))
    for text in texts:
        assert [row[1] for row in rows(one, text)] == [3]
        assert [row[1] for row in rows(two, text)] == [1, 2]


def test_blank_nodes_in_changes_are_told_apart_by_their_labels() -> None:
    knowledge = Knowledge.of(ox.parse("_:n <x:p> 1 .", ox.RdfFormat.TURTLE))
    knowledge.apply(knowledge.change("_:n <x:p> 2 . [] <x:p> 3 ."))
    change = knowledge.change("[] <x:p> 4 .")
    assert change == knowledge.change("[] <x:p> 4 .")  # no random label
    knowledge.apply(knowledge.merge([change, knowledge.change(remove="_:n <x:p> 1 .")]))
    assert sorted(number for _, number in rows(knowledge, "{ ?S <x:p> ?O }")) == [2, 3, 4]
    labels = {node for node, _ in rows(knowledge, "{ ?S <x:p> ?O }")}
    assert len(labels) == 3 and ("Iri", "_:n") in labels


def test_an_answer_that_a_change_leaves_alone_is_the_same_object() -> None:
    knowledge, pool = Knowledge.of(ox.parse("<x:a> <x:p> 1 .", ox.RdfFormat.TURTLE)), Pool()
    asked = pattern("{ ?S <x:p> ?O }")
    before = knowledge.answers(asked, pool, source(asked.text))
    with by_difference():
        knowledge.apply(knowledge.change("<x:a> <x:q> 1 ."))
    assert knowledge.answers(asked, pool, source(asked.text)) is before
    knowledge.apply(knowledge.change("<x:b> <x:p> 1 ."))
    assert knowledge.answers(asked, pool, source(asked.text)).rows == 2


def test_a_table_that_grows_too_large_is_refused_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.knowledge.query.graph_patterns.MOST_CELLS", 7)
    knowledge = Knowledge.of(ox.parse("<x:a> <x:p> 1, 2, 3 .", ox.RdfFormat.TURTLE))
    assert len(rows(knowledge, "{ ?S <x:p> ?O }")) == 3
    knowledge.apply(knowledge.change("<x:a> <x:p> 4 ."))
    with pytest.raises(CepError, match="has 4 answers"):
        rows(knowledge, "{ ?S <x:p> ?O }")
    knowledge.apply(knowledge.change(remove="<x:a> <x:p> 1 ."))
    assert len(rows(knowledge, "{ ?S <x:p> ?O }")) == 3


def test_places_follow_a_change_of_where_things_are() -> None:
    wgs84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
    text = f"<x:a> <{wgs84}lat> 40 ; <{wgs84}long> -73 ."
    knowledge, pool = Knowledge.of(ox.parse(text, ox.RdfFormat.TURTLE)), Pool()

    def near() -> int:
        probe = knowledge.relations(pool)["near"].probe({0: "float", 1: "float", 2: "float"}, (3,))
        return len(probe.answers([np.array([40.0]), np.array([-73.0]), np.array([10.0])], 1)[0])

    assert near() == 1
    knowledge.apply(knowledge.change("<x:a> <x:p> 1 ."))
    assert near() == 1
    knowledge.apply(knowledge.change(text.replace("x:a", "x:b")))
    assert near() == 2


def test_reasoning_compares_literals_by_value() -> None:
    owl = "<http://www.w3.org/2002/07/owl#"
    schema = f"<x:Five> {owl}hasValue> 5 ; {owl}onProperty> <x:p> . <x:n> a {owl}InverseFunctionalProperty> ."
    facts = '<x:a> <x:p> 5.0 . <x:b> <x:p> "05"^^<http://www.w3.org/2001/XMLSchema#int> . <x:c> <x:p> 5e0 .'
    knowledge = Knowledge.of(ox.parse(schema + facts, ox.RdfFormat.TURTLE), "owlrl")
    assert rows(knowledge, "{ ?S a <x:Five> }") == [(("Iri", "x:a"),), (("Iri", "x:b"),)]
    assert rows(knowledge, "{ ?S <x:p> 5 }") == [(("Iri", "x:a"),), (("Iri", "x:b"),)]
    knowledge.apply(knowledge.change("<x:d> <x:p> 5.00 ; <x:n> 7 . <x:e> <x:n> 7.0 .", "<x:a> <x:p> 5.0 ."))
    assert rows(knowledge, "{ ?S a <x:Five> }") == [(("Iri", "x:b"),), (("Iri", "x:d"),), (("Iri", "x:e"),)]
    knowledge.apply(knowledge.change(remove="<x:e> <x:n> 7.0 ."))
    assert rows(knowledge, "{ ?S a <x:Five> }") == [(("Iri", "x:b"),), (("Iri", "x:d"),)]


def test_a_literal_is_told_as_it_was_written() -> None:
    schema = "<x:p> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <x:q> . <x:a> <x:p> 5.0 . <x:b> <x:r> 5 ."
    knowledge = Knowledge.of(ox.parse(schema, ox.RdfFormat.TURTLE), "owlrl")
    assert rows(knowledge, "{ <x:a> <x:q> ?V }") == [(5.0,)]
    assert type(rows(knowledge, "{ <x:a> <x:q> ?V }")[0][0]) is float
    assert type(rows(knowledge, "{ <x:b> <x:r> ?V }")[0][0]) is int


@examples(30)
@given(st.lists(st.tuples(st.lists(quads, max_size=3), st.lists(quads, max_size=3)), max_size=6), st.lists(quads))
def test_changes_put_together_are_all_of_them(steps: list[tuple[list[str], list[str]]], lines: list[str]) -> None:
    lines = [line for line in lines if "[" not in line]
    one, other = (knowledge_of(set(lines), "none") for _ in range(2))
    changes = [one.change("\n".join(add), "\n".join(remove)) for add, remove in steps]
    for change in changes:
        one.apply(change)
    other.apply(other.merge([other.merge(changes[:2]), other.merge(changes[2:])]))
    assert one.fingerprint == other.fingerprint


@pytest.mark.long
def test_terms_that_came_and_went_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of endless literals so many are held as there are at one time; what was loaded has none of them."""
    monkeypatch.setattr(graph, "FEW", 16)
    text = "event r(s: string).\nhigh(S, L) <- r(S) WHERE { ?P <x:code> ?S ; <x:level> ?L }."
    for reasoning in ("none", "owlrl"):
        for together in (1, 7):
            some = '<x:a> <x:code> "A" ; <x:level> "first" . <x:b> <x:code> "B" ; <x:level> "other" .'
            known = Knowledge.of(ox.parse(some, ox.RdfFormat.TURTLE), reasoning)
            engine = Engine.from_text(text, knowledge=known, lateness=None)
            terms, most = len(known.terms), 2 * max(len(known.terms), 16) + 20
            engine.update(1, '<x:a> <x:level> "0" .', '<x:a> <x:level> "first" .')
            for n in range(1, 300, together):
                engine.updates(
                    [
                        (10 * i, f'<x:a> <x:level> "{i}" .', f'<x:a> <x:level> "{i - 1}" .')
                        for i in range(n, n + together)
                    ]
                )
                now = 10 * (n + together)
                engine.receive([Event("r", (name,), now - 5, now - 5) for name in "AB"])
                found = engine.advance(now - 1)["high"]
                assert sorted(found["l"].to_list()) == [f"{n + together - 1}", "other"]
                assert engine.changes is not None and isinstance(engine.changes._ahead, Knowledge)
                assert len(engine.changes._ahead.terms) <= most
            assert len(known.terms) == terms
