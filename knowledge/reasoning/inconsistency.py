"""Detection of contradictions: rules whose head is `false`. An error shows the rule, the triples and their proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep.core.errors import CepError
from cep.knowledge.rdf.prefixed_names import IdTriple, PrefixedNames
from cep.knowledge.rdf.relation import PredicateRelations, unpacked
from cep.knowledge.rdf.terms import LITERAL, Terms
from cep.knowledge.reasoning.join import Substitutions, solutions
from cep.knowledge.reasoning.literals import KNOWN, ill_formed, known_different, outside
from cep.knowledge.reasoning.proof import Prover, instance
from cep.knowledge.reasoning.rule import TripleRule
from cep.knowledge.reasoning.saturation import delta_bodies
from cep.knowledge.reasoning.vocabulary import ReasoningVocabulary

Contradiction = tuple[str, list[IdTriple]]
"""The name of a rule, and the triples that match its body."""

MEANING = {
    "eq-diff1": "things that are said to differ are equal",
    "eq-diff2": "members of an owl:AllDifferent are equal",
    "eq-diff3": "members of an owl:AllDifferent are equal",
    "prp-irp": "an irreflexive property relates a thing with itself",
    "prp-asyp": "an asymmetric property holds both ways",
    "prp-pdw": "disjoint properties hold between the same things",
    "prp-adp": "disjoint properties hold between the same things",
    "prp-npa1": "a triple is both true and denied",
    "prp-npa2": "a triple is both true and denied",
    "cls-nothing2": "a thing is of a class that can have no members",
    "cls-com": "a thing is of a class and of its complement",
    "cls-maxc1": "a property that may have no value has one",
    "cls-maxqc1": "a property that may have no value of a class has one",
    "cls-maxqc2": "a property that may have no value has one",
    "cax-dw": "disjoint classes have a common member",
    "cax-adc": "disjoint classes have a common member",
    "dt-not-type": "a literal has a datatype that does not include its value",
    "dt-diff": "literals of different values are equal",
}
"""For each rule that finds contradictions, an explanation of the contradiction."""

LINES = 40
"""The maximum number of lines that show proofs in an error message."""


@dataclass(frozen=True, slots=True)
class ConsistencyCheck:
    """A search for contradictions in facts."""

    terms: Terms
    words: ReasoningVocabulary
    rules: Sequence[TripleRule]

    def contradiction(self, facts: PredicateRelations, new: PredicateRelations | None) -> Contradiction | None:
        """Return a contradiction in `facts`, or None if there is none. If several rules find a contradiction, return
        that of the first rule.

        `new`: at least one fact of the contradiction must be in `new`. If `new` is None, any fact suffices.
        """
        for rule in self.rules:
            if triples := self._instance(rule, facts, new):
                return rule.name, triples
        return self._literals(facts if new is None else new) if self.rules else None

    def _instance(self, rule: TripleRule, facts: PredicateRelations, new: PredicateRelations | None) -> list[IdTriple]:
        if any(isinstance(atom.p, int) and atom.p not in facts for atom in rule.body):
            return []
        keep = {name for atom in rule.body for name in atom.variables}
        for parts in delta_bodies(rule.body, facts, new):
            for rows in solutions(parts, Substitutions(), keep, rule.differ):
                return instance(rule.body, _first(rows), facts)
        return []

    def _literals(self, new: PredicateRelations) -> Contradiction | None:
        # RULE dt-not-type, for inferred types: a literal whose value is not in a known datatype.
        subjects, classes = unpacked(new[self.words.type].pairs)
        of_literals = self.terms.kinds(subjects) == LITERAL
        subjects, classes = subjects[of_literals], classes[of_literals]
        for datatype in np.unique(classes).tolist():
            name = str(self.terms.texts(np.array([datatype]))[0])
            if name in KNOWN:
                literals = subjects[classes == datatype]
                wrong = literals[outside(self.terms, literals, name)]
                if len(wrong):
                    return "dt-not-type", [(int(wrong[0]), self.words.type, datatype)]
        # RULE dt-diff, with eq-diff1: equal literals with different values.
        first, second = unpacked(new[self.words.same].pairs)
        both = (self.terms.kinds(first) == LITERAL) & (self.terms.kinds(second) == LITERAL)
        for x, y in zip(first[both].tolist(), second[both].tolist()):
            if known_different(self.terms, x, y):
                return "dt-diff", [(x, self.words.same, y)]
        return None

    def ill_formed(self, facts: PredicateRelations) -> Contradiction | None:
        """Return an asserted triple whose literal is not valid for its datatype (rule dt-not-type), or None."""
        if not self.rules:
            return None
        used = np.zeros(len(self.terms), dtype=np.bool_)
        for predicate in facts.predicates.tolist():
            if predicate >= 0:
                used[unpacked(facts[predicate].pairs)[1]] = True
        objects = np.flatnonzero(used)
        wrong = ill_formed(self.terms, objects[self.terms.kinds(objects) == LITERAL])
        for literal in wrong[:1].tolist():
            for predicate in facts.predicates.tolist():
                subjects = facts[predicate].subjects_of(literal) if predicate >= 0 else []
                if subjects:
                    return "dt-not-type", [(subjects[0], predicate, literal)]
        return None


def _first(rows: Substitutions) -> dict[str, int]:
    """Return the smallest row. Rows are compared column by column, and the columns are in the order of their names."""
    names = sorted(rows.columns)
    place = int(np.lexsort([rows.columns[name] for name in reversed(names)])[0])
    return {name: int(rows.columns[name][place]) for name in names}


def inconsistent(contradiction: Contradiction, prover: Prover, names: PrefixedNames) -> CepError:
    """Build the error for a contradiction. It shows the rule, the triples, and the proofs of inferred triples."""
    rule, triples = contradiction
    shown: set[IdTriple] = set()
    proofs = [prover.proof(triple).lines(names, 1, shown) for triple in triples]
    lines = list(dict.fromkeys(line for proof in proofs for line in proof))
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"  ... and {len(lines) - LINES} more lines"]
    return CepError(
        "\n".join([f"the knowledge is inconsistent: {MEANING[rule]} (rule {rule})", *lines]),
        hint="remove one of the asserted triples; `none` and `rdfs` reasoning do not look for contradictions",
        code="inconsistent",
    )
