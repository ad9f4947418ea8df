"""`cep knowledge verify`: our closure and owlrl's of the user's own knowledge, or of a sample of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdflib import Graph
from rdflib.namespace import RDF
from typer.testing import CliRunner, Result

from benchmarks import network
from cep.command import app
from cep.core.errors import CepError
from cep.knowledge.graph import Knowledge
from cep.knowledge.reasoning import owl2rl
from cep.knowledge.verification.comparison import DIFFERENCES, ClosureComparison, compare_closures
from cep.knowledge.verification.sample import TripleSample, sample
from tests.closures import HEADER, read

FRIDGES = """\
:Fridge rdfs:subClassOf :Appliance . :Appliance owl:equivalentClass :Device .
:serial a owl:InverseFunctionalProperty .
:f1 a :Fridge ; :serial 1 ; :label "milk"@en .
:f2 a :Fridge ; :serial "01"^^xsd:integer .
"""


def known(turtle: str) -> Knowledge:
    return Knowledge.of(read(turtle))


def compared(turtle: str, reasoning: str = "owlrl") -> ClosureComparison:
    knowledge = known(turtle)
    return compare_closures(knowledge.terms, knowledge.asserted, reasoning)  # type: ignore[arg-type]


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("knowledge", "verify", *arguments), env={"COLUMNS": "80"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fridges.ttl").write_text(HEADER + FRIDGES, encoding="utf-8")


# --- differences ---


def test_differences_have_reasons() -> None:
    found = compared(FRIDGES)
    assert found.agrees
    assert {name for side, name in found.explained if side == "semcep"} == {"O3", "O"}  # O: f1 and f2 are the same
    assert {name for side, name in found.explained if side == "owlrl"} == {"D1", "D2", "D3", "D4"}
    assert {name for _, name in found.explained} <= DIFFERENCES.keys()


def test_in_rdfs_too() -> None:
    found = compared(FRIDGES, "rdfs")
    assert found.agrees and ("owlrl", "R1") in found.explained and not found.only("semcep")


def test_stations_are_closed_alike() -> None:
    knowledge = Knowledge.of(Graph().parse(data=network.turtle(20), format="turtle"))
    found = compare_closures(knowledge.terms, knowledge.asserted, "owlrl")
    assert found.agrees and {name for side, name in found.explained if side == "semcep"} == {"O3"}
    assert found.both > 2 * len(knowledge.asserted)


def test_what_owlrl_corrected_does_not_say_either_is_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(found: ClosureComparison) -> set[tuple[str, str]]:
        return {(side, " ".join(str(node).rpartition("/")[2] for node in triple)) for side, triple in found.unexplained}

    assert "scm-eqc1" in owl2rl.SCHEMA
    monkeypatch.setattr(owl2rl, "SCHEMA", "\n".join(x for x in owl2rl.SCHEMA.splitlines() if "scm-eqc1" not in x))
    found = compared(FRIDGES)
    assert not found.agrees
    assert any(side == "owlrl" and "Appliance" in triple for side, triple in said(found))


def test_a_cardinality_that_is_no_literal_is_no_failure() -> None:
    assert compared(":C a owl:Restriction ; owl:onProperty :p ; owl:maxCardinality :many . :x a :C ; :p :y .").agrees


def test_what_both_find_contradicts_itself_is_refused() -> None:
    with pytest.raises(CepError) as caught:
        compared(":A owl:disjointWith :B . :x a :A , :B .")
    assert caught.value.code == "inconsistent"


# --- the sample ---


def taken(subjects: int) -> tuple[Knowledge, TripleSample]:
    knowledge = Knowledge.of(sorted(Graph().parse(data=network.turtle(50), format="turtle")))
    return knowledge, sample(knowledge.terms, knowledge.asserted, subjects)


def test_a_sample_has_the_schema_and_subjects_with_all_that_is_said_of_them() -> None:
    knowledge, found = taken(20)
    assert found.subjects == 20 and not found.whole and found.schema > 5
    chosen = set(found.triples.s.tolist())
    for subject in chosen:
        assert found.triples.count(subject) == knowledge.asserted.count(subject)
    kind = knowledge.terms.id_of(RDF.type)
    assert set(knowledge.asserted.match(p=kind)[2]) == set(found.triples.match(p=kind)[2])


def test_a_sample_is_the_same_each_time_and_grows() -> None:
    (_, small), (_, again), (_, large) = taken(20), taken(20), taken(30)
    assert [c.tolist() for c in small.triples.columns] == [c.tolist() for c in again.triples.columns]
    assert set(small.triples.s.tolist()) < set(large.triples.s.tolist())
    assert taken(10**6)[1].whole


# --- the command ---


def test_the_command_tells_what_both_have() -> None:
    result = cep("fridges.ttl")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "8 triples: 3 of the schema, 2 of 2 subjects"
    assert lines[2] == "closed under owlrl"
    assert lines[-1] == "no difference is unexplained"
    assert all(len(line) <= 80 for line in lines)


def test_the_command_takes_a_sample() -> None:
    result = cep("-k", "fridges.ttl", "--sample", "1", "--reasoning", "rdfs")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("a sample of ")
    assert "1 of 2 subjects\n" in result.output and "closed under rdfs" in result.output


def test_an_unexplained_difference_is_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owl2rl, "SCHEMA", "\n".join(x for x in owl2rl.SCHEMA.splitlines() if "scm-eqc1" not in x))
    result = cep("fridges.ttl", "--prefix", ":=http://example.org/")
    assert result.exit_code == 1
    assert "unexplained: " in result.output
    assert "  only owlrl:  :" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no knowledge\nhint: name it: `--knowledge stations.ttl`\n"),
        (
            ("fridges.ttl", "--reasoning", "none"),
            "--reasoning: `none` cannot be verified: `none` infers nothing\n"
            "hint: use `--reasoning rdfs` or `--reasoning owlrl`, the default\n",
        ),
        (
            ("fridges.ttl", "--reasoning", "owlr"),
            "--reasoning: `owlr` cannot be verified: there is no such kind of reasoning\nhint: did you mean `owlrl`?\n",
        ),
        (
            ("fridges.ttl", "--reasoning", "owlrl:OWLRL_Extension"),
            "--reasoning: `owlrl:OWLRL_Extension` cannot be verified: only owlrl implements it\n"
            "hint: use `--reasoning rdfs` or `--reasoning owlrl`, the default\n",
        ),
    ],
)
def test_what_cannot_be_verified(arguments: tuple[str, ...], message: str) -> None:
    result = cep(*arguments)
    assert (result.exit_code, result.stderr) == (2, message)
