"""Comparison of our closure of some triples with owlrl's, with the reasons of known differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as Either

import numpy as np
from owlrl import OWLRL_Semantics, RDFS_Semantics
from rdflib import Literal
from rdflib.namespace import RDF, RDFS

from cep.core.errors import CepError
from cep.knowledge.rdf.interop import to_rdflib
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.closure import compute_closure
from cep.knowledge.reasoning.owlrl_rules import Triple, expanded, quiet, sort_key
from cep.knowledge.verification.literal_values import representative
from cep.knowledge.verification.rule_sets import (
    CARDINALITIES,
    DATATYPES,
    CorrectedOwlRl,
    CorrectedRdfs,
    generalised,
    left_out,
    with_datatype,
)

DIFFERENCES = {
    "D1": "everything is the same as itself (eq-ref)",
    "D2": "axioms about OWL's annotation properties (prp-ap)",
    "D3": "axioms about XML Schema's datatypes (dt-type1)",
    "D4": "literals as subjects, blank nodes as predicates",
    "D5": "datatypes as types of things that are not literals (dt-type2)",
    "D6": "a triple again in another form of its literal (dt-eq)",
    "D": "what follows from these in owlrl",
    "O1": "owlrl compares only some things that share a key (prp-key)",
    "O3": "equivalent classes are their own subclasses, in owlrl if declared",
    "O4": "owlrl does not give literals all their types (dt-type2)",
    "O7": "owlrl does not treat literals of the same value as equal (dt-eq)",
    "O": "what follows where owlrl is corrected (O1 to O7)",
    "R1": "everything is an rdfs:Resource",
    "R3": "a triple again in another form of its literal",
    "R": "what follows from these in owlrl",
}
"""The meaning of each known difference, numbered as in docs/decisions/2026-11-21-reasoning.md.

The keys `D`, `O` and `R` without a number mean consequences of the numbered differences.
"""

Side = Either["semcep", "owlrl"]


@dataclass(frozen=True, slots=True)
class ClosureComparison:
    """The result of a comparison.

    - `both`: the number of triples in both closures.
    - `explained`: for each known difference, the number of triples that are in only one closure because of it.
    - `unexplained`: the triples that are in only one closure, without a known difference as the reason.
    - `contradictions`: if only one of the closures found a contradiction, this closure and the error message.
    """

    both: int
    explained: dict[tuple[Side, str], int]
    unexplained: tuple[tuple[Side, Triple], ...]
    contradictions: tuple[tuple[Side, str], ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.unexplained and not self.contradictions

    def only(self, side: Side) -> int:
        """Return the number of triples that only the closure of `side` contains."""
        explained = sum(count for (who, _), count in self.explained.items() if who == side)
        return explained + sum(who == side for who, _ in self.unexplained)


def compare_closures(terms: Terms, asserted: TripleSet, reasoning: Either["rdfs", "owlrl"]) -> ClosureComparison:
    """Compare the closures under our rules and by owlrl. Raises CepError if both find a contradiction."""
    with quiet():
        stated = _triples(terms, asserted)
        corrected = _Once(CorrectedOwlRl if reasoning == "owlrl" else CorrectedRdfs, stated)
        try:
            ours = _triples(terms, compute_closure(terms, asserted, reasoning).triples)
        except CepError as error:
            if error.code == "inconsistent" and not corrected.errors:
                return ClosureComparison(0, {}, (), (("semcep", str(error)),))
            raise
        owlrl = corrected
        if reasoning == "rdfs" or not any(
            p in CARDINALITIES and not isinstance(o, Literal) for _, p, o in stated
        ):  # O6
            owlrl = _Once(OWLRL_Semantics if reasoning == "owlrl" else RDFS_Semantics, stated)
        theirs = owlrl.triples
        explained: Counter[tuple[Side, str]] = Counter()
        unexplained: list[tuple[Side, Triple]] = []
        explain: tuple[tuple[Side, set[Triple], Callable[[Triple], str | None]], ...] = (
            ("semcep", ours - theirs, lambda triple: _only_ours(triple, corrected)),
            ("owlrl", theirs - ours, _OnlyOwlrl(ours, corrected, reasoning)),
        )
        for side, triples, why in explain:
            for triple in sorted(triples, key=_key):
                if (difference := why(triple)) is None:
                    unexplained.append((side, triple))
                else:
                    explained[side, difference] += 1
        contradictions: tuple[tuple[Side, str], ...] = tuple(("owlrl", str(error)) for error in owlrl.errors)
        return ClosureComparison(len(ours & theirs), dict(explained), tuple(unexplained), contradictions)


def _triples(terms: Terms, triples: TripleSet) -> set[Triple]:
    used = {id: with_datatype(to_rdflib(terms.term(id))) for id in np.unique(np.concatenate(triples.columns)).tolist()}
    return {(used[s], used[p], used[o]) for s, p, o in zip(*(column.tolist() for column in triples.columns))}


def _key(triple: Triple) -> tuple[str, ...]:
    return tuple(part for node in triple for part in sort_key(node))


class _Once:
    """The closure of some triples under a rule set of owlrl, computed at first use."""

    def __init__(self, rules: type[Any], triples: set[Triple]) -> None:
        self._rules, self._asserted = rules, triples
        self._triples: set[Triple] | None = None
        self._errors: tuple[str, ...] = ()
        self._corrections: dict[Triple, str] = {}

    def _run(self) -> set[Triple]:
        if self._triples is None:
            self._triples, run = expanded(self._rules, sorted(self._asserted, key=_key))
            self._errors = tuple(sorted(map(str, run.error_messages)))
            self._corrections = getattr(run, "corrections", {})
        return self._triples

    @property
    def triples(self) -> set[Triple]:
        return self._run()

    @property
    def errors(self) -> tuple[str, ...]:
        self._run()
        return self._errors

    @property
    def corrections(self) -> dict[Triple, str]:
        self._run()
        return self._corrections


def _only_ours(triple: Triple, corrected: _Once) -> str | None:
    if triple in corrected.triples:
        return corrected.corrections.get(triple, "O")
    if triple[1] == RDF.type and triple[2] in DATATYPES:
        return "D5"
    return left_out(triple)


class _OnlyOwlrl:
    """A function that returns the known difference because of which only owlrl's closure contains a triple, or None."""

    def __init__(self, ours: set[Triple], corrected: _Once, reasoning: str) -> None:
        self._corrected, self._reasoning = corrected, reasoning
        self._values = {_same(triple) for triple in ours}

    def __call__(self, triple: Triple) -> str | None:
        if generalised(triple):
            return "D4"
        if self._reasoning == "rdfs":
            if triple[2] == RDFS.Resource:
                return "R1"
            if _same(triple) in self._values:
                return "R3"
            return None if triple in self._corrected.triples else "R"
        if (axiom := left_out(triple)) is not None:
            return axiom
        if triple[1] == RDF.type and triple[2] in DATATYPES:
            return "D5"
        if _same(triple) in self._values:
            return "D6"
        return None if triple in self._corrected.triples else "D"


def _same(triple: Triple) -> Triple:
    s, p, o = triple
    return s, p, representative(o)
