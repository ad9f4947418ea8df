"""The closure against owlrl, its proofs, its changes, and what it refuses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rdflib import Graph
from rdflib.namespace import OWL, RDF

from benchmarks import network
from cep.core.errors import CepError
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning import delete_rederive, join, same_as, saturation, transitivity
from cep.knowledge.reasoning.closure import Closure, compute_closure
from cep.knowledge.reasoning.proof import Proof
from cep.knowledge.verification.rule_sets import CorrectedOwlRl, CorrectedRdfs, with_datatype
from tests.closures import Triple, closed, closed_by, comparable, loaded, proof_of, read, text_of, texts, triples_of
from tests.conftest import FUZZ
from tests.graph_maker import GraphMaker
from tests.long import examples

random = st.randoms(use_true_random=False)
often = examples(40)


def closed_or_error(triples: Graph | list[Triple]) -> Closure | CepError:
    try:
        return closed(sorted(triples))
    except CepError as error:
        return error


def ids(closed: Closure) -> set[tuple[int, int, int]]:
    return set(zip(*(column.tolist() for column in closed.triples.columns)))


def without(triples: TripleSet, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> TripleSet:
    return TripleSet(tuple(column[~chosen] for column in triples.columns))  # type: ignore[arg-type]


# --- what follows ---


@given(random)
@often
def test_the_closure_is_that_of_owlrl(random: Random) -> None:
    graph = GraphMaker(random).made()
    found = closed_or_error(graph)
    expected, contradictions = closed_by(CorrectedOwlRl, graph)
    if isinstance(found, CepError):
        assert found.code == "inconsistent" and contradictions, str(found)
    else:
        assert not contradictions
        assert texts(comparable(triples_of(found))) == texts(comparable(expected))


@given(random)
@often
def test_the_closure_in_rdfs_is_that_of_owlrl(random: Random) -> None:
    graph = GraphMaker(random).made()
    assert texts(triples_of(closed(sorted(graph), "rdfs"))) == texts(closed_by(CorrectedRdfs, graph)[0])


def test_stations_are_closed_as_owlrl_closes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # `make fuzz` closes 300, which takes owlrl half a minute; as deep a hierarchy of places has fewer stations.
    monkeypatch.setattr(network, "PLACES", 10 if FUZZ else 4)
    graph = Graph().parse(data=network.turtle(300 if FUZZ else 50), format="turtle")
    expected, contradictions = closed_by(CorrectedOwlRl, graph)
    assert not contradictions
    found = triples_of(closed(graph))
    assert len(found) > 2 * len(graph)
    assert found == expected


def test_30_stations_in_rdfs() -> None:
    graph = Graph().parse(data=network.turtle(30), format="turtle")
    assert triples_of(closed(graph, "rdfs")) == closed_by(CorrectedRdfs, graph)[0]


def test_without_reasoning_there_is_what_was_asserted() -> None:
    triples = read(":Blizzard rdfs:subClassOf :Storm . :o1 a :Blizzard .")
    found = closed(triples, "none")
    assert len(found.triples) == 2 and found.inferred == 0
    assert text_of(found, proof_of(found, triples[1])) == ":o1 a :Blizzard   asserted"


def test_the_closure_depends_on_no_order() -> None:
    triples = read(network.ONTOLOGY.replace("sosa:", ":").replace("gn:", ":"))
    assert triples_of(closed(triples)) == triples_of(closed(triples[::-1]))


# --- why ---


@given(random)
@often
def test_every_triple_has_a_proof(random: Random) -> None:
    graph = GraphMaker(random).made()
    found = closed_or_error(graph)
    assume(isinstance(found, Closure))
    assert isinstance(found, Closure)
    for triple in ids(found):
        proof = found.proof(*triple)
        assert proof.triple == triple
        assert all(found.asserted[p].has(np.array([s << 32 | o]))[0] for s, p, o in proof.asserted)
        check_acyclic(proof, ())


def check_acyclic(proof: Proof, above: tuple[tuple[int, int, int], ...]) -> None:
    assert proof.triple not in above
    assert (proof.rule == "asserted") <= (not proof.premises)
    for premise in proof.premises:
        check_acyclic(premise, (*above, proof.triple))


@given(random)
@examples(25)
def test_what_a_proof_rests_on_is_enough(random: Random) -> None:
    graph = GraphMaker(random).made()
    found = closed_or_error(graph)
    assume(isinstance(found, Closure) and found.inferred > 0)
    assert isinstance(found, Closure)
    inferred = sorted(triple for triple in ids(found) if found.proof(*triple).rule != "asserted")
    lists = {triple for triple in graph if triple[1] in (RDF.first, RDF.rest)}  # written within the axioms
    for triple in random.sample(inferred, min(3, len(inferred))):
        proof = found.proof(*triple)
        rests_on = triples_of(found, TripleSet.of(*(np.array(column) for column in zip(*proof.asserted, (0, 0, 0)))))
        known, _ = closed_by(
            CorrectedOwlRl, (rests_on & {tuple(map(with_datatype, triple)) for triple in graph}) | lists
        )
        proved = triples_of(found, TripleSet.of(*(np.array([id]) for id in triple)))
        assert comparable(proved) <= comparable(known)


def test_a_proof_goes_down_to_what_was_asserted() -> None:
    triples = read(
        ":A rdfs:subClassOf :B . :x a :A . :D owl:intersectionOf (:B :C) . :C owl:equivalentClass :B . "
        ":y owl:sameAs :x ."
    )
    found = closed(triples)
    assert (
        text_of(found, proof_of(found, read(":y a :D .")[0]))
        == """\
:y a :D   eq-rep-s
  :x owl:sameAs :y   eq-sym
    :y owl:sameAs :x   asserted
  :x a :D   cls-int1
    :D owl:intersectionOf (:B :C)   asserted
    :x a :C   cax-sco
      :A rdfs:subClassOf :C   scm-sco
        :A rdfs:subClassOf :B   asserted
        :B rdfs:subClassOf :C   scm-eqc1
          :C owl:equivalentClass :B   asserted
      :x a :A   asserted
    :x a :B   cax-sco
      :A rdfs:subClassOf :B   asserted
      :x a :A   asserted"""
    )


def test_a_proof_proves_a_thing_once() -> None:
    triples = read(
        ":beside rdfs:subPropertyOf :near . :near a owl:SymmetricProperty . "
        ":linked owl:propertyChainAxiom (:near :near) . :ewr :beside :lga ."
    )
    found = closed(triples)
    assert (
        text_of(found, proof_of(found, read(":ewr :linked :ewr .")[0]))
        == """\
:ewr :linked :ewr   prp-spo2
  :linked owl:propertyChainAxiom (:near :near)   asserted
  :ewr :near :lga   prp-spo1
    :beside rdfs:subPropertyOf :near   asserted
    :ewr :beside :lga   asserted
  :lga :near :ewr   prp-symp
    :near a owl:SymmetricProperty   asserted
    :ewr :near :lga   prp-spo1, see above"""
    )


def test_what_is_not_there_has_no_proof() -> None:
    found = closed(read(":x a :A . :y a :B ."))
    with pytest.raises(CepError, match="neither asserted nor inferred"):
        proof_of(found, read(":x a :B .")[0])


# --- more and fewer triples ---


@given(random, st.integers(0, 2**32))
@often
def test_triples_added_and_taken_away_leave_what_closing_anew_gives(random: Random, seed: int) -> None:
    terms, triples = loaded(sorted(GraphMaker(random).made()))
    chosen = np.random.default_rng(seed).random(len(triples)) < 0.3
    more = without(triples, ~chosen)
    try:
        part = compute_closure(terms, without(triples, chosen), "owlrl")
    except CepError:
        assume(False)
    try:
        whole = compute_closure(terms, triples, "owlrl")
    except CepError as error:
        with pytest.raises(CepError) as caught:
            part.plus(more)
        assert caught.value.code == error.code
        return
    assert ids(part.plus(more)) == ids(whole)
    assert ids(whole.minus(more)) == ids(part)
    for found in (part.plus(more), whole.minus(more)):
        for triple in ids(found):
            check_acyclic(found.proof(*triple), ())


@given(random, st.integers(0, 2**32))
@often
def test_doubt_however_wide_is_resolved(random: Random, seed: int) -> None:
    terms, triples = loaded(sorted(GraphMaker(random).made(axioms=4, facts=20)))
    chosen = np.random.default_rng(seed).random(len(triples)) < 0.2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete_rederive, "MOST", 100.0)
        try:
            whole = compute_closure(terms, triples, "owlrl")
        except CepError:
            assume(False)
        try:
            part = compute_closure(terms, without(triples, chosen), "owlrl")
        except CepError as error:
            assert error.code == "list"
            return
        assert ids(whole.minus(without(triples, ~chosen))) == ids(part)


def test_a_station_comes_and_goes() -> None:
    terms, triples = network.loaded(50)
    station = terms.id_of("http://example.org/id/station-20")
    its = (triples.s == station) | (triples.o == station)
    before = compute_closure(terms, without(triples, its), "owlrl")
    after = before.plus(without(triples, ~its))
    came, went = after.since(before)
    assert not len(went)
    assert ids(after) - ids(before) == set(zip(*(column.tolist() for column in came.columns)))
    again = after.minus(without(triples, ~its))
    assert ids(again) == ids(before)
    assert after.since(again)[0].columns[0].tolist() == came.columns[0].tolist()


def test_what_contradicts_is_not_added() -> None:
    before = closed(read(":A owl:disjointWith :B . :x a :A . :y a :B ."))
    kind, y, of = (before.terms.iri(iri) for iri in (str(RDF.type), "http://example.org/y", "http://example.org/A"))
    with pytest.raises(CepError, match="inconsistent: disjoint classes have a common member"):
        before.plus(TripleSet.of(np.array([y]), np.array([kind]), np.array([of])))
    assert len(before.triples) == len(closed(read(":A owl:disjointWith :B . :x a :A . :y a :B .")).triples)


def test_a_list_that_comes_later_makes_its_rules() -> None:
    axioms = read(":measures owl:propertyChainAxiom (:hosts :observes) .")
    facts = read(":ewr :hosts :s1 . :s1 :observes :wind .")
    terms, triples = loaded([*facts, *axioms])
    first = without(triples, triples.p >= terms.id_of(str(OWL.propertyChainAxiom)))
    late = without(triples, triples.p < terms.id_of(str(OWL.propertyChainAxiom)))
    assert ids(compute_closure(terms, first, "owlrl").plus(late)) == ids(compute_closure(terms, triples, "owlrl"))


# --- what is refused ---


def refused(turtle: str) -> str:
    with pytest.raises(CepError) as caught:
        closed(read(turtle))
    assert caught.value.code != "inconsistent"
    return str(caught.value)


def test_lists_that_are_none() -> None:
    assert refused(":A owl:unionOf _:l . _:l rdf:first :B .") == (
        "the list (:B) is broken: (:B) has 0 values of rdf:rest\n"
        "hint: each node of a list has one rdf:first and one rdf:rest, and the last rdf:rest is rdf:nil"
    )
    assert "has 2 values of rdf:first" in refused(":A owl:unionOf :l . :l rdf:first :B , :C ; rdf:rest () .")
    assert "has no end" in refused(":A owl:oneOf :l . :l rdf:first :B ; rdf:rest :l .")
    assert refused(":A owl:hasKey () .").startswith("owl:hasKey has an empty list\n")


def test_too_many_equal_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_as, "MOST", 100)
    message = refused(":id a owl:FunctionalProperty . :x :id " + ", ".join(f":v{n}" for n in range(12)) + " .")
    assert message.startswith(
        "12 terms are owl:sameAs each other; that makes 132 pairs of equal terms, more than 100\n"
    )


def test_a_transitive_property_that_relates_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitivity, "MOST", 1000)
    message = refused(":in a owl:TransitiveProperty . " + " ".join(f":p{n} :in :p{n + 1} ." for n in range(1500)))
    assert message.startswith("a transitive property relates more than 1,000 pairs of things\n")


def test_a_join_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MOST", 1000)
    stations = " ".join(f":s{n} :near :hub . :hub :near :s{n} ." for n in range(50))
    message = refused(f":close owl:propertyChainAxiom (:near :near) . {stations}")
    assert message.startswith("reasoning over the knowledge needs a join of 2,550 rows, more than the limit of 1,000\n")


def test_a_closure_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturation, "MOST", 1000)
    stations = " ".join(f":s{n} :near :hub . :hub :near :s{n} ." for n in range(50))
    message = refused(f":close owl:propertyChainAxiom (:near :near) . {stations}")
    assert message.startswith("the closure has more than 1,000 triples; the last 2,501 have the predicate")


def test_blocks_however_small_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    terms, triples = network.loaded(20)
    whole = ids(compute_closure(terms, triples, "owlrl"))
    for module in (join, saturation):
        monkeypatch.setattr(module, "BLOCK", 7)
    assert ids(compute_closure(terms, triples, "owlrl")) == whole
