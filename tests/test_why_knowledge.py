"""Why an event is there, told with what was known then, and what is forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.why.text import Explainer, why
from cep.engine import Engine
from cep.events import Event, Iri
from cep.explain.derivation import derivation
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory
from cep.explain.question import read_question
from cep.knowledge.graph import Knowledge
from cep.knowledge.provenance import Provenance
from cep.rules.terms import Graph
from tests.cases_format import known
from tests.test_equivalence import examples
from tests.why_checks import EVER, FRIDGE, KITCHEN, cep, everything, nodes, written

HOUR = 3_600_000_000

BLIZZARD = Path("demos/blizzard/blizzard.cep").read_text(encoding="utf-8")


def test_a_chain_of_readings_is_told_down_to_the_input() -> None:
    engine = Engine.from_text(BLIZZARD, remember=EVER)
    engine.push([Event("reading", ("EWR", 20.0, 1.0, 30.0), hour * HOUR, hour * HOUR) for hour in range(5)])
    engine.close()
    last = read_question("warning(EWR)", engine).found(Memory(engine))[-1]
    tree = Explainer(engine, times="seconds").why(last)
    assert tree == why(engine, "warning", tree["id"]) | {"start": 0, "end": 14400} | {"parts": tree["parts"]}
    assert (tree["text"], tree["rule"]["line"], tree["variables"]) == ('warning("EWR", 5)', 15, {"S": "EWR", "C": 5})
    assert [each["told"] for each in tree["conditions"]] == ["5 >= 4", "4 h >= 3 h"]
    (settling,) = tree["parts"]
    assert [each["arguments"]["readings"] for each in settling["chain"]] == [4, 3, 2, 1]
    assert [each["parts"][0]["end"] for each in settling["chain"]] == [10800, 7200, 3600, 0]
    short = Explainer(engine, times="seconds").why(last, most=4)
    assert [each["text"] for each in short["parts"][0]["chain"]] == ['settling("EWR", 4)']
    assert short["parts"][0]["left_out"] == 1


def test_what_an_engine_has_forgotten_it_does_not_tell() -> None:
    engine = Engine.from_text("high(X) <- a(X) WHERE X > 3. top(X) <- high(X) WHERE X > 5.", remember=6 * HOUR)
    for hour in range(48):
        engine.history._look_at = 0  # as if there were much
        engine.push([Event("a", (hour % 10,), hour * HOUR, hour * HOUR)])
    engine.close()
    memory = Memory(engine)
    assert [one.end // HOUR for one in read_question("top", engine).found(memory)] == [46, 47]
    assert [one.end // HOUR for one in read_question("a", engine).found(memory)] == [41, 42, 43, 44, 45, 46, 47]
    tree = derivation(memory, Judge(engine), read_question("top(7)", engine).found(memory)[-1])
    assert [(one.occurrence.event, one.record) for one, _ in nodes(tree)] == [
        ("top", False), ("high", False), ("a", True)
    ]  # fmt: skip


def test_knowledge_is_told_with_its_proof(tmp_path: Path) -> None:
    text = cep(tmp_path, "warm(milk, 8)")
    assert (
        text
        == f"""\
warm("milk", 8) at 2024-05-01T08:10:00Z
  {text.split()[4]}
  line 5:  warm: warm(F, T) <- reading(F, T) WHERE limit(F, L), T > L.
    F = "milk", T = 8, L = 7
    limit(F, L):  F = "milk", L = 7
      {{ ?f a k:Fridge ; k:name ?F ; k:limit ?L }}:  F = "milk", L = 7
        k:f1 a k:Fridge   cax-sco
          k:DairyFridge rdfs:subClassOf k:Fridge   asserted
          k:f1 a k:DairyFridge   asserted
        k:f1 k:name "milk"
        k:f1 k:limit 7
    T > L:  8 > 7
  reading("milk", 8) at 2024-05-01T08:10:00Z  fridge.csv:3
"""
    )
    assert cep(tmp_path, text.split()[4]) == text, "by its id"
    (answer,) = json.loads(cep(tmp_path, "warm(milk, 8)", "--format", "json"))
    assert answer["parts"][0]["record"]["line"] == 3 and "@" + answer["id"] == text.split()[4]
    facts = answer["conditions"][0]["because"][0]["triples"]
    assert [step["rule"] for step in facts[0]["steps"]] == ["cax-sco", "asserted", "asserted"]
    assert facts[0]["steps"][0]["from"] == [step["triple"] for step in facts[0]["steps"][1:]]
    assert facts[1]["steps"][0]["triple"][1:] == ["<http://example.org/kitchen#name>", '"milk"']

    prov = ox.Store()
    prov.load(cep(tmp_path, "warm(f: milk, t: 8)", "--format", "prov"), ox.RdfFormat.N_TRIPLES)
    query = """PREFIX prov: <http://www.w3.org/ns/prov#>
        PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> SELECT * {
        ?event prov:wasGeneratedBy/prov:used ?used
        OPTIONAL { ?used rdf:subject ?s ; rdf:predicate ?p ; rdf:object ?o }
        OPTIONAL { ?used prov:wasDerivedFrom/rdf:predicate ?from } } ORDER BY ?p ?from"""
    found = prov.query(query)
    assert isinstance(found, ox.QuerySolutions)
    rows = [[row[name] and row[name].value.rsplit("#", 1)[-1] for name in ("p", "o", "from")] for row in found]
    assert rows == [
        [None, None, None],  # the reading
        ["limit", "7", None],
        ["name", "milk", None],
        ["type", "Fridge", "type"],
        ["type", "Fridge", "subClassOf"],
    ]


def test_what_was_known_then_is_told(tmp_path: Path) -> None:
    engine = Engine.from_text(
        FRIDGE + "twice(F) <- warm(F, _) SEQ (reading(F, T) WHERE limit(F, L), T > L).",
        knowledge=Knowledge.load([written(tmp_path / "kitchen.ttl", KITCHEN)], "owlrl"),
        remember=EVER,
    )
    used = Provenance(engine.changes.loaded)  # type: ignore[union-attr, arg-type]
    prefix = "PREFIX k: <http://example.org/kitchen#> "
    minute = 60_000_000
    for at, old, new in ((15, 7, 9), (25, 9, 11), (35, 11, 20)):
        engine.update(at * minute, f"{prefix}k:f1 k:limit {new} .", f"{prefix}k:f1 k:limit {old} .")
    degrees = {0: 4.0, 10: 8.0, 20: 10.0, 30: 12.0, 40: 12.0}
    engine.push([Event("reading", ("milk", each), at * minute, at * minute) for at, each in degrees.items()])
    engine.close()
    asked = Explainer(engine, used, times="seconds")

    def limits(answer: dict[str, Any]) -> list[str]:
        facts = [fact for c in answer.get("conditions", ()) for b in c.get("because", ()) for fact in b["triples"]]
        mine = [fact["triple"] for fact in facts if "limit" in fact["triple"]]
        return mine + [each for part in answer.get("parts", ()) for each in limits(part)]

    memory = Memory(engine)
    warm = [asked.why(one) for one in read_question("warm(milk)", engine).found(memory)]
    assert [(one["end"], one["variables"]["L"]) for one in warm] == [(600, 7), (1200, 9), (1800, 11)]
    assert [limits(one)[0].split()[-1] for one in warm] == ["7", "9", "11"]
    (pair, *_) = [asked.why(one) for one in read_question("twice(milk)", engine, "1200").found(memory)]
    assert sorted(each.split()[-1] for each in limits(pair)) == ["7", "9"], "each part by what was known when it came"
    refused = asked.why_not(read_question("warm(milk)", engine, "2400"), 60_000_000)
    assert refused["rules"][0]["failure"]["conditions"][0]["told"] == "12 > 20"
    before = asked.why_not(read_question("warm(milk)", engine, "0"), 60_000_000)
    assert before["rules"][0]["failure"]["conditions"][0]["told"] == "4 > 7"
    again = asked.why_not(read_question("warm(milk)", engine, "2400"), 60_000_000)
    assert again == refused, "what is known now is what it was"

    (tmp_path / "changes.trig").write_text(
        """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        @prefix : <http://example.org/kitchen#> .
        <urn:new> prov:generatedAtTime "2024-05-01T08:15:00Z"^^xsd:dateTime .
        <urn:old> prov:invalidatedAtTime "2024-05-01T08:15:00Z"^^xsd:dateTime .
        <urn:new> { :f1 :limit 20 } <urn:old> { :f1 :limit 7 }"""
    )
    changed = "--knowledge-updates", "changes.trig"
    assert "k:f1 k:limit 7\n" in cep(tmp_path, "warm(milk)", *changed)
    assert "T > L:  12 > 20" in cep(tmp_path, "--not", "warm(milk)", "--at", "2024-05-01T08:50", *changed)


LIMITS = """
PREFIX k: <http://example.org/kitchen#>
event r(f: string, t: int).
limit(F, L) :- { ?f k:name ?F ; k:limit ?L }.
high(F, T) <- r(F, T) WHERE limit(F, L), T > L.
pair(F, G) <- (high(F, _) SEQ r(G, T)) WHERE limit(G, L), T < L.
whole(F, L) <- (r(F, S) SEQ r(F, T)) WHERE { ?f k:name ?F ; k:limit ?L }, T >= S.
later(F, L) <- (r(F, _) UNLESS high(_, _) WITHIN 2 s) WHERE limit(F, L).
most(F, M) <- r(F, T) AGGREGATE M = max(T) OVER LAST 3 s BY F WHERE limit(F, L), M > L.
"""


@examples(12)
@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 5)), min_size=1, max_size=8),
    st.dictionaries(st.integers(1, 8), st.tuples(st.sampled_from("xy"), st.integers(0, 4)), max_size=5),
)
def test_every_event_is_explained_by_what_was_known_then(
    readings: list[tuple[str, int]], changes: dict[int, tuple[str, int]]
) -> None:
    prefix = "PREFIX k: <http://example.org/kitchen#> "
    limits = {"x": 1, "y": 3}
    loaded = known(prefix + " ".join(f'k:{f} k:name "{f}" ; k:limit {n} .' for f, n in limits.items()))
    engine = Engine.from_text(LIMITS, knowledge=loaded, remember=EVER)
    for second, (name, limit) in sorted(changes.items()):
        engine.update(
            second * 1_000_000, f"{prefix}k:{name} k:limit {limit} .", f"{prefix}k:{name} k:limit {limits[name]} ."
        )
        limits[name] = limit
    engine.push([Event("r", one, n * 1_000_000, n * 1_000_000) for n, one in enumerate(readings)])
    engine.close()
    memory = Memory(engine)
    asked = Explainer(engine, Provenance(loaded), times="seconds")
    for one in everything(memory):
        answer = asked.why(one)
        assert "rule" in answer, answer["text"]
        if one.event == "whole":
            every = [fact for condition in answer["conditions"] for fact in condition.get("triples", ())]
            (fact,) = [each for each in every if "limit" in each["triple"]]
            assert fact["triple"].endswith(f"k:limit {one.args[1]}")


@pytest.mark.parametrize(
    "tested", ["FILTER NOT EXISTS { %s }", "FILTER(! EXISTS { %s })", "MINUS { %s }", "MINUS { { %s } }"]
)
def test_what_must_be_absent_is_no_reason(tested: str, tmp_path: Path) -> None:
    """One triple of a pair that must be absent may be there: it is not among the triples behind the answer."""
    (tmp_path / "known.ttl").write_text("<urn:x> a <urn:A> ; <urn:p> <urn:y> .")
    knowledge = Knowledge.load(tmp_path / "known.ttl")

    def facts(pattern: str) -> list[str]:
        graph = Graph("{ ?X a <urn:A> " + pattern + " }", ("X",), ())
        return [fact.triple for fact in Provenance(knowledge)(graph, {"X": Iri("urn:x")})]

    assert facts(tested % "?X <urn:p> ?y . ?y a <urn:Bad>") == ["<urn:x> a <urn:A>"]
    assert facts("FILTER EXISTS { ?X <urn:p> ?y }") == ["<urn:x> a <urn:A>", "<urn:x> <urn:p> <urn:y>"]
