"""The closure of knowledge under RDFS or OWL 2 RL: its computation, its proofs, and its updates after changes.

The rules are lines in tables (rdfs.py, owl2rl.py). One evaluator applies them to schema and data alike, as joins of
sorted columns. Evaluation is semi-naive: each round joins the results of the previous round with all facts. For each
rule, docs/decisions/2026-11-21-reasoning.md says which part of the W3C's rule is left out, and how other reasoners
differ from ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cep.core.errors import CepError
from cep.core.values import Ints
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.relation import MOST_TERMS, BinaryRelation, PredicateRelations, packed, unpacked
from cep.knowledge.rdf.terms import IRI, LITERAL, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.delete_rederive import overdeleted, rederived
from cep.knowledge.reasoning.equal_literals import literal_values, lost_values, more_values
from cep.knowledge.reasoning.inconsistency import ConsistencyCheck, Contradiction, inconsistent
from cep.knowledge.reasoning.proof import Proof, Prover
from cep.knowledge.reasoning.rule import TripleRule
from cep.knowledge.reasoning.ruleset import REASONING, Reasoning, Ruleset, ruleset
from cep.knowledge.reasoning.same_as import united
from cep.knowledge.reasoning.saturation import DerivedFacts, Saturation


def compute_closure(
    terms: Terms, triples: TripleSet, reasoning: Reasoning, prefixes: Mapping[str, str] | None = None
) -> Closure:
    """Compute the closure of triples. The terms in the rules are added to the dictionary.

    `prefixes`: the prefixes for error messages. Raises CepError (code `inconsistent`) if the triples contradict each
    other. The message shows the rule and the proof.
    """
    assert reasoning in REASONING, f"no kind of reasoning: {reasoning}"
    return _closed(terms, PredicateRelations.of(*triples.columns), reasoning, prefixes or {})


@dataclass(frozen=True)
class Closure:
    """Triples and everything inferred from them. A closure is immutable: `plus` and `minus` return another closure.

    - `facts`: all facts. Some of them are not valid RDF, such as facts about literals, but lead to triples. The
      property `triples` leaves them out.
    - `labels`: for each term, the term that represents all terms that are equal to it (same_as.py).
    - `round`: the number of the last round in which rules were applied.
    - `cached`: True if the closure was read from disk (cache.py).
    """

    terms: Terms
    reasoning: Reasoning
    asserted: PredicateRelations
    rules: Ruleset
    facts: PredicateRelations
    labels: Ints
    round: int
    prefixes: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False

    @cached_property
    def triples(self) -> TripleSet:
        """The asserted and inferred triples."""
        return visible(self.terms, self.facts)

    @property
    def inferred(self) -> int:
        """The number of triples that are not asserted."""
        return len(self.triples) - self.asserted.count

    def names(self, prefixes: Mapping[str, str] | None = None) -> PrefixedNames:
        """Return readable names of terms, as they appear in proofs."""
        return PrefixedNames(self.terms, self.prefixes if prefixes is None else prefixes, self.asserted)

    def proof(self, s: int, p: int, o: int) -> Proof:
        """Return the proof of a triple. Raises CepError if it is neither asserted nor inferred."""
        if min(s, p, o) < 0 or not self.facts[p].has(packed(np.array([s]), np.array([o])))[0]:
            raise CepError("the triple is neither asserted nor inferred", code="unknown-triple")
        return self._prover.proof((s, p, o))

    def plus(self, triples: TripleSet) -> Closure:
        """Return the closure after asserted triples are added.

        If the new triples concern lists, cardinalities or datatypes, the closure is computed anew. Raises CepError if
        the result is inconsistent.
        """
        more = self.asserted.fresh(PredicateRelations.of(*triples.columns))
        asserted = self.asserted.plus(more, 0)
        if not self.rules.fits(self.terms, more):
            return _closed(self.terms, asserted, self.reasoning, self.prefixes)
        new, round = self.facts.fresh(more), self.round + 1
        start = replace(self, asserted=asserted)
        start._refuse(start._check.ill_formed(new))
        if self.reasoning == "owlrl":
            new = new.plus(more_values(self.terms, self.facts, asserted, more), 0)
        start = replace(self, asserted=asserted, facts=self.facts.plus(new, round), round=round, cached=False)
        start._refuse(start._check.contradiction(start.facts, new))
        return start._saturated(self.rules.deriving, self.rules.deriving, new)

    def minus(self, triples: TripleSet) -> Closure:
        """Return the closure after asserted triples are removed.

        An inferred triple is also removed, unless it has a proof from the remaining triples.
        """
        less = self.asserted.common(PredicateRelations.of(*triples.columns))
        asserted = self.asserted.minus(less)
        if self.reasoning == "owlrl":
            less = less.plus(lost_values(self.terms, self.facts, asserted, less), 0)
        work = self._work()
        kept = asserted.plus(asserted.fresh(self.rules.lists), 0)
        doubtful = overdeleted(work, self.rules.deriving, less, kept) if self.rules.fits(self.terms, less) else None
        if doubtful is None:
            return _closed(self.terms, asserted, self.reasoning, self.prefixes)
        work.facts = self.facts.minus(doubtful)
        work.labels = united(np.arange(len(self.labels)), work.facts[work.words.same].pairs)[0]
        again, round = rederived(work, self.rules.deriving, doubtful), self.round + 1
        facts = work.facts.plus(again, round)
        start = replace(self, asserted=asserted, facts=facts, labels=work.labels, round=round, cached=False)
        return start._saturated(self.rules.deriving, self.rules.deriving, again)

    def changed(self, removed: TripleSet, added: TripleSet) -> Closure:
        """Return the closure after some asserted triples are removed and then others are added."""
        less = self.minus(removed) if len(removed) else self
        return less.plus(added) if len(added) else less

    def since(self, before: Closure) -> tuple[TripleSet, TripleSet]:
        """Return the triples that only this closure contains, and the triples that only `before` contains.

        This is fast if the closures differ little, and if one was computed from the other.
        """
        changed = [p for p in sorted({*self.facts, *before.facts}) if self.facts[p] is not before.facts[p]]
        here, former = (PredicateRelations({p: facts[p] for p in changed}) for facts in (self.facts, before.facts))
        return visible(self.terms, former.fresh(here)), visible(self.terms, here.fresh(former))

    def links(self, less: Closure) -> bool:
        """Return True if `less` lacks the result and at least one premise of an inference step in this closure."""
        changed = [p for p in sorted({*self.facts, *less.facts}) if self.facts[p] is not less.facts[p]]
        here, former = (PredicateRelations({p: facts[p] for p in changed}) for facts in (self.facts, less.facts))
        more = former.fresh(here)
        work, heads = self._work(), DerivedFacts()
        if len(more[work.words.same].pairs):
            return True
        for rule in self.rules.deriving:
            work.apply(rule, more, heads, linked=False)
        return bool(
            more.common(PredicateRelations({p: BinaryRelation.at(heads.of(p), 0) for p in sorted(heads.pairs)}))
        )

    # --- rounds ---

    def _saturated(
        self, first: Sequence[TripleRule], rules: Sequence[TripleRule], new: PredicateRelations | None
    ) -> Closure:
        """Return the closure under `rules`. Raises CepError if the result is inconsistent.

        The first round applies only the rules `first`. At least one of the facts to which it applies a rule must be in
        `new`. If `new` is None, the first round applies these rules to all facts.
        """
        work = self._work()
        for brought in work.run(first, rules, new):
            now = replace(self, facts=work.facts, round=work.round)
            now._refuse(self._check.contradiction(work.facts, brought))
        return replace(self, facts=work.facts, labels=work.labels, round=work.round)

    def _work(self) -> Saturation:
        return Saturation(self.terms, self.facts.copy(), self.labels, self.rules.words, self.round)

    @property
    def _check(self) -> ConsistencyCheck:
        return ConsistencyCheck(self.terms, self.rules.words, self.rules.refusing)

    @property
    def _prover(self) -> Prover:
        return Prover(self.facts, self.rules.deriving, self.asserted, self.rules.typed, self.rules.words)

    def _refuse(self, contradiction: Contradiction | None) -> None:
        if contradiction:
            raise inconsistent(contradiction, self._prover, self.names())


def _closed(terms: Terms, asserted: PredicateRelations, reasoning: Reasoning, prefixes: Mapping[str, str]) -> Closure:
    rules = ruleset(reasoning, terms, asserted, PrefixedNames(terms, prefixes, asserted))
    assert len(terms) <= MOST_TERMS, "ids of terms fit into 31 bits"
    facts = asserted.plus(rules.lists, 0).plus(asserted.fresh(rules.typed), 0)
    start = Closure(terms, reasoning, asserted, rules, facts, np.arange(len(terms), dtype=np.int64), 0, prefixes)
    if reasoning == "none":
        return start
    start._refuse(start._check.ill_formed(asserted))
    if reasoning == "owlrl":
        facts = facts.plus(literal_values(terms, asserted), 0)
        start = replace(start, facts=facts, labels=np.arange(len(terms), dtype=np.int64))
    start = start._saturated(rules.schema, rules.schema, None)
    start._refuse(start._check.contradiction(start.facts, None))
    return start._saturated(rules.data, rules.deriving, None)


def visible(terms: Terms, facts: PredicateRelations) -> TripleSet:
    """Return the facts that are valid triples of RDF: the predicate is an IRI, and the subject is not a literal."""
    predicates = facts.predicates[facts.predicates >= 0]
    predicates = predicates[terms.kinds(predicates) == IRI]
    pairs = np.concatenate([np.empty(0, dtype=np.int64), *(facts[p].pairs for p in predicates.tolist())])
    p = np.repeat(predicates, [len(facts[p]) for p in predicates.tolist()])
    s, o = unpacked(pairs)
    order = np.argsort(s, kind="stable")  # they are sorted by predicate and object already
    order = order[terms.kinds(s[order]) != LITERAL]
    return TripleSet((s[order], p[order], o[order]))
