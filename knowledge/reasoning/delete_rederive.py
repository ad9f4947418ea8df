"""Removal of inferred triples whose premises were removed, unless others imply them (delete and rederive, DRed)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.values import Ints
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations, contained, sorted_distinct, unpacked
from cep.knowledge.reasoning.join import BodyAtom, Substitutions, solutions
from cep.knowledge.reasoning.owl2rl import WALKED
from cep.knowledge.reasoning.rule import RuleAtom, TripleRule
from cep.knowledge.reasoning.same_as import pairs_of
from cep.knowledge.reasoning.saturation import DerivedFacts, Saturation
from cep.knowledge.reasoning.transitivity import reachable_pairs
from cep.rules.static.semi_naive import rounds

MOST = 0.2
"""The maximum share of triples that may depend on removed ones. With more, computing the closure anew is faster."""


_NONE: Ints = np.empty(0, dtype=np.int64)


def overdeleted(
    work: Saturation, rules: Sequence[TripleRule], gone: PredicateRelations, kept: PredicateRelations
) -> PredicateRelations | None:
    """Return the triples `gone`, and all triples that have a proof from one of them. Leave out the triples in `kept`.

    Return None if the result would contain too many triples.
    """
    doubtful = gone
    ways: dict[int, Ints] = {}

    def follows(new: PredicateRelations) -> PredicateRelations:
        nonlocal doubtful
        heads = DerivedFacts()
        for rule in rules:
            if rule.name not in WALKED:
                work.apply(rule, new, heads, linked=False)
        for p in work.transitive:
            # RULE prp-trp: every pair that a path with a doubtful step connects, without paths known before.
            steps = work.facts[p].pairs if work.is_transitive(p, new) else new[p].pairs
            steps = steps[~contained(ways.get(p, _NONE), steps)]
            if len(steps):
                more = reachable_pairs(work.facts[p].pairs, steps, again=True)
                ways[p] = sorted_distinct(np.concatenate([ways.get(p, _NONE), more]))
                heads.add(p, more)
        if len(same := new[work.words.same].pairs):
            # RULES eq-sym, eq-trans: every pair of a class depends on every other.
            heads.add(work.words.same, pairs_of(work.labels, sorted_distinct(work.labels[unpacked(same)[0]])))
        possible = PredicateRelations({p: BinaryRelation.at(heads.of(p), 0) for p in sorted(heads.pairs)})
        more_doubtful = doubtful.fresh(kept.fresh(work.facts.common(possible)))
        doubtful = doubtful.plus(more_doubtful, 0)
        return more_doubtful

    for _ in rounds(gone, follows):
        if doubtful.count > MOST * work.facts.count:
            return None
    return doubtful


def rederived(work: Saturation, rules: Sequence[TripleRule], doubtful: PredicateRelations) -> PredicateRelations:
    """Return the triples of `doubtful` that a rule derives from the other facts, `work.facts`."""
    heads = DerivedFacts()
    for rule in rules:
        assert rule.head is not None, "a rule without a head gives nothing"
        parts = [BodyAtom(atom, work.facts) for atom in rule.body]
        for predicate in [rule.head.p] if isinstance(rule.head.p, int) else [p for p in doubtful if p >= 0]:
            start = _bound(rule.head, predicate, doubtful[predicate])
            for rows in solutions(parts, start, set(rule.head.variables), rule.differ):
                work.give(rule.head, rows, heads)
    classes = sorted_distinct(work.labels[unpacked(work.facts[work.words.same].pairs)[0]])
    heads.add(work.words.same, pairs_of(work.labels, classes))
    return doubtful.common(PredicateRelations({p: BinaryRelation.at(heads.of(p), 0) for p in sorted(heads.pairs)}))


def _bound(head: RuleAtom, predicate: int, relation: BinaryRelation) -> Substitutions:
    s, o = unpacked(relation.pairs)
    columns: dict[str, Ints] = {}
    fits = np.ones(len(s), dtype=np.bool_)
    for slot, column in ((head.s, s), (head.p, np.full(len(s), predicate, dtype=np.int64)), (head.o, o)):
        if isinstance(slot, int):
            fits &= column == slot
        else:
            fits &= columns.setdefault(slot, column) == column
    return Substitutions(len(s), columns).take(fits, int(fits.sum()))
