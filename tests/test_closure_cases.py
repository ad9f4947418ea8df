"""A case for each rule of OWL 2 RL/RDF: what follows, what does not, what contradicts itself, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from owlrl import OWLRL_Semantics

from cep.errors import CepError
from knowledge import owl2rl
from knowledge.rule import rules_of
from tests.closure_reference import Corrected, closed_by_owlrl, comparable, texts
from tests.closures import HEADER, Triple, closed, proof_of, read, term, text_of, triples_of

FOLDER = Path(__file__).parent / "owl"
CASES = {path.stem: path for path in sorted(FOLDER.glob("*.case"))}
APART = ("eq-ref", "eq-sym", "eq-trans", "prp-ap", "prp-spo2", "prp-key")
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
    triples, errors = closed_by_owlrl(graph(case["knowledge"]), OWLRL_Semantics)
    wanted, unwanted = set(graph(case.get("follows", ""))), set(graph(case.get("not", "")))
    agrees = bool(errors) == ("inconsistent" in case) and (wanted <= triples or bool(errors))
    more = everything_of(case["knowledge"]) & unwanted
    assert (agrees, not more) == {"misses it": (False, True), "has more": (True, False)}.get(
        case.get("owlrl", ""), (True, True)
    )
    if "inconsistent" in case:
        assert closed_by_owlrl(graph(case["knowledge"]))[1]
    else:
        ours = triples_of(closed(graph(case["knowledge"])))
        assert texts(comparable(ours)) == texts(comparable(closed_by_owlrl(graph(case["knowledge"]), Corrected)[0]))


def everything_of(turtle: str) -> set[Triple]:
    """All that owlrl writes down."""
    from rdflib import Graph

    work = Graph().parse(data=HEADER + turtle, format="turtle")
    OWLRL_Semantics(work, False, False).closure()
    return set(work)
