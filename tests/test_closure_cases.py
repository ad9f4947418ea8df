"""A case for each rule of OWL 2 RL/RDF: what follows, what does not, what contradicts itself, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from owlrl import OWLRL_Semantics
from rdflib import Graph

from cep.core.errors import CepError
from cep.knowledge.reasoning import owl2rl
from cep.knowledge.reasoning.rule import rules_of
from cep.knowledge.verification.rule_sets import CorrectedOwlRl
from tests.closures import Triple, closed, closed_by, comparable, proof_of, read, term, text_of, texts, triples_of

FOLDER = Path(__file__).parent / "owl"
CASES = {path.stem: path for path in sorted(FOLDER.glob("*.case"))}
APART = ("eq-ref", "prp-ap", "prp-spo2", "prp-key")
DATATYPES = ("dt-type1", "dt-type2", "dt-eq", "dt-diff", "dt-not-type")


def sections(name: str) -> dict[str, str]:
    parts = re.split(r"^--- (\w+)\n", CASES[name].read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], (part.strip() for part in parts[2::2])))
    unknown = set(found) - {"knowledge", "follows", "not", "proof", "inconsistent", "owlrl"}
    assert parts[0].startswith("# ") and not unknown, f"{name}: a title and known sections, not {unknown}"
    return found


def graph(turtle: str) -> list[Triple]:
    return [tuple(map(term, triple)) for triple in read(turtle)]


def test_every_rule_has_a_case() -> None:
    tables = {rule.name for rule in (*rules_of(owl2rl.SCHEMA), *rules_of(owl2rl.DATA))}
    missing = tables.union(APART, DATATYPES) - set(CASES)
    assert not missing


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = sections(name)
    if "inconsistent" in case:
        with pytest.raises(CepError) as caught:
            closed(read(case["knowledge"]))
        assert caught.value.code == "inconsistent"
        assert str(caught.value) == case["inconsistent"]
        return
    found = closed(read(case["knowledge"]))
    triples = triples_of(found)
    for wanted in graph(case.get("follows", "")):
        assert wanted in triples, f"{texts([wanted])} follows"
    for unwanted in graph(case.get("not", "")):
        assert unwanted not in triples, f"{texts([unwanted])} does not follow"
    if "proof" in case:
        assert text_of(found, proof_of(found, read(case["follows"])[0])) == case["proof"]


@pytest.mark.parametrize("name", CASES)
def test_case_with_owlrl(name: str) -> None:
    """owlrl says the same, but where the case has a section on it: then it really does not."""
    case = sections(name)
    knowledge = graph(case["knowledge"])
    triples, errors = everything_of(knowledge)
    wanted, unwanted = set(graph(case.get("follows", ""))), set(graph(case.get("not", "")))
    misses = bool(errors) != ("inconsistent" in case) or not (wanted <= triples or errors)
    assert misses == (case.get("owlrl") == "misses it")
    assert bool(triples & unwanted) == (case.get("owlrl") == "has more")
    corrected, errors = closed_by(CorrectedOwlRl, knowledge)
    assert bool(errors) == ("inconsistent" in case)
    if not errors:
        assert texts(comparable(triples_of(closed(knowledge)))) == texts(comparable(corrected))


def everything_of(knowledge: list[Triple]) -> tuple[set[Triple], list[str]]:
    """All that owlrl writes down, and its contradictions."""
    work = Graph()
    for triple in knowledge:
        work.add(triple)
    run = OWLRL_Semantics(work, False, False)
    run.closure()
    return set(work), run.error_messages
