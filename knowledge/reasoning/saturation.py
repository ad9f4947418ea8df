"""Application of rules in rounds. Each round joins the results of the previous round with all facts, until a round
derives nothing new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.errors import CepError
from cep.core.values import Ints
from cep.knowledge.rdf.relation import (
    BinaryRelation,
    PredicateRelations,
    contained,
    packed,
    sorted_distinct,
    unpacked,
)
from cep.knowledge.rdf.terms import LITERAL, Terms
from cep.knowledge.reasoning.equal_literals import one_value
from cep.knowledge.reasoning.join import BLOCK, BodyAtom, Substitutions, solutions
from cep.knowledge.reasoning.owl2rl import WALKED
from cep.knowledge.reasoning.rule import HAS, VALUE, RuleAtom, TripleRule
from cep.knowledge.reasoning.same_as import pairs_of, united
from cep.knowledge.reasoning.transitivity import reachable_pairs
from cep.knowledge.reasoning.vocabulary import ReasoningVocabulary
from cep.rules.static.semi_naive import rounds

MOST = 100_000_000
"""The maximum number of triples in a closure."""


@dataclass(slots=True)
class DerivedFacts:
    """The triples that rules derived in a round, by predicate. A triple may occur several times."""

    pairs: dict[int, list[Ints]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def add(self, predicate: int, pairs: Ints) -> None:
        if not len(pairs):
            return
        parts = self.pairs.setdefault(predicate, [])
        parts.append(pairs)
        size = self.sizes[predicate] = self.sizes.get(predicate, 0) + len(pairs)
        if size > 4 * BLOCK and size > 2 * len(parts[0]):
            self.pairs[predicate] = [self.of(predicate)]
            self.sizes[predicate] = len(self.pairs[predicate][0])

    def of(self, predicate: int) -> Ints:
        """Return the distinct pairs (subject, object) of a predicate, sorted."""
        return sorted_distinct(np.concatenate([np.empty(0, dtype=np.int64), *self.pairs.get(predicate, [])]))


@dataclass(slots=True)
class Saturation:
    """Facts whose closure is being computed.

    - `labels`: for each term, the term that represents all terms that are equal to it (same_as.py).
    - `round`: the number of the last finished round.
    - `walked`: for each transitive property, those of its pairs whose transitive closure has already been computed.
    """

    terms: Terms
    facts: PredicateRelations
    labels: Ints
    words: ReasoningVocabulary
    round: int = 0
    walked: dict[int, Ints] = field(default_factory=dict)

    def run(
        self, first: Sequence[TripleRule], rules: Sequence[TripleRule], new: PredicateRelations | None
    ) -> Iterator[PredicateRelations]:
        """Apply rules in rounds. Yield the new facts of each round.

        The first round applies the rules `first`, and all further rounds the rules `rules`.

        `new`: the facts to which the first round has not been applied yet. None means all facts.
        """
        yield from rounds(self._round(first, new), lambda facts: self._round(rules, facts))

    def _round(self, rules: Sequence[TripleRule], new: PredicateRelations | None) -> PredicateRelations:
        """Apply rules to facts, at least one of which is in `new`, or to all facts if `new` is None. Add new results to
        the facts, and return them."""
        heads = DerivedFacts()
        for rule in rules:
            self.apply(rule, new, heads)
        return self._take(heads)

    def apply(self, rule: TripleRule, new: PredicateRelations | None, heads: DerivedFacts, linked: bool = True) -> None:
        """Apply a rule to facts, at least one of which is in `new`. If `new` is None, apply it to all facts. Add the
        derived triples to `heads`.

        `linked`: True if a rule that has `twins` need only derive enough pairs of equal terms to connect all of them.
        """
        assert rule.head is not None, "a rule without a head gives nothing"
        if any(isinstance(atom.p, int) and atom.p not in self.facts for atom in rule.body):
            return
        if rule.name in WALKED:
            if rule.name == "prp-trp":
                self._walk(new, heads)
            elif rule.name == "eq-trans":
                self._equate(new, heads)
            return
        if rule.name == "cls-int1":
            self._meet(rule, new, heads)
            return
        if rule.twins and linked:
            heads.add(self.words.same, self._linked(rule, *rule.twins, new))
            return
        keep = set(rule.head.variables)
        for parts in delta_bodies(rule.body, self.facts, new):
            for rows in solutions(parts, Substitutions(), keep, rule.differ):
                self.give(rule.head, rows, heads)

    def give(self, head: RuleAtom, rows: Substitutions, heads: DerivedFacts) -> None:
        """Add one triple of a rule's head to `heads` for each row. Leave out triples whose predicate is a literal."""
        s, p, o = (rows.of(slot) for slot in head.slots)
        assert s is not None and p is not None and o is not None, "the body binds what the head has"
        pairs = packed(s, o)
        if isinstance(head.p, int):
            heads.add(head.p, pairs)
            return
        for predicate in np.unique(p).tolist():
            if self.terms.kinds(np.array([predicate]))[0] != LITERAL:
                heads.add(predicate, pairs[p == predicate])

    def _linked(self, rule: TripleRule, y: str, z: str, new: PredicateRelations | None) -> Ints:
        """Return enough pairs to connect all values of `y` that the rule makes equal.

        `y`, `z`: the rule's `twins`. Values of y are equal if they appear with the same values of the other variables.
        """
        body = [atom for atom in rule.body if z not in atom.variables]
        group = sorted({name for atom in body for name in atom.variables} - {y})
        parts = [BodyAtom(atom, self.facts) for atom in body]
        start = Substitutions()
        if new is not None:
            touched = [
                rows
                for way in delta_bodies(body, self.facts, new)
                for rows in solutions(way, Substitutions(), set(group))
            ]
            if not touched:
                return np.empty(0, dtype=np.int64)
            start = _distinct(_together(touched, group), group)
        blocks = list(solutions(parts, start, {*group, y}))
        if not blocks:
            return np.empty(0, dtype=np.int64)
        rows = _together(blocks, [*group, y])
        order = np.lexsort([rows.columns[name] for name in (y, *group)])
        left, other = order[:-1], order[1:]
        linked = rows.columns[y][left] != rows.columns[y][other]
        for name in group:
            linked &= rows.columns[name][left] == rows.columns[name][other]
        return packed(rows.columns[y][left[linked]], rows.columns[y][other[linked]])

    def _walk(self, new: PredicateRelations | None, heads: DerivedFacts) -> None:
        # RULE prp-trp: a walk instead of a join, which would derive a pair once for each thing between its ends.
        for p in self.transitive:
            relation = self.facts[p]
            if p not in self.walked:
                walked = new is not None and not self.is_transitive(p, new)
                self.walked[p] = new[p].fresh(relation.pairs) if new is not None and walked else relation.pairs[:0]
            elif new is not None and p not in new:
                continue
            steps = relation.pairs[~contained(self.walked[p], relation.pairs)]
            if len(steps):
                more = reachable_pairs(self.walked[p], steps)
                heads.add(p, more)
                self.walked[p] = sorted_distinct(np.concatenate([relation.pairs, more]))

    def _meet(self, rule: TripleRule, new: PredicateRelations | None, heads: DerivedFacts) -> None:
        # RULE cls-int1: scan only the smallest class of a list, or the new types.
        assert rule.head is not None, "the rule types a member"
        is_list, has, is_member, of_every = rule.body
        types = self.facts[self.words.type]
        lists, classes = unpacked(self.facts[HAS].pairs)
        counts = np.searchsorted(types.backward, (classes + 1) << 32) - np.searchsorted(types.backward, classes << 32)
        order = np.lexsort((counts, lists))
        first = np.r_[True, np.diff(lists[order]) != 0]
        rarest = PredicateRelations({HAS: BinaryRelation.at(np.sort(self.facts[HAS].pairs[order[first]]), 0)})
        start = Substitutions()
        if new is not None and not {is_list.p, HAS} & set(new):
            subjects = new[self.words.type].subjects
            if len(subjects) < counts[order[first]].sum():
                start = Substitutions(len(subjects), {str(rule.head.s): subjects})
        parts = [
            BodyAtom(is_list, self.facts),
            BodyAtom(has, rarest),
            BodyAtom(is_member, self.facts),
            BodyAtom(of_every, self.facts),
        ]
        for rows in solutions(parts, start, set(rule.head.variables)):
            self.give(rule.head, rows, heads)

    def is_transitive(self, p: int, by: PredicateRelations) -> bool:
        """Return True if `by` contains the declaration that a property is transitive."""
        return bool(by[self.words.type].has(packed(np.array([p]), np.array([self.words.transitive])))[0])

    @property
    def transitive(self) -> list[int]:
        """The transitive properties that have triples."""
        return [p for p in self.facts[self.words.type].subjects_of(self.words.transitive) if p in self.facts]

    def _equate(self, new: PredicateRelations | None, heads: DerivedFacts) -> None:
        # RULES eq-sym, eq-trans: derive all pairs of classes of equal terms that grew.
        pairs = (self.facts if new is None else new)[self.words.same].pairs
        if not len(pairs):
            return
        if len(self.labels) < len(self.terms):
            more = np.arange(len(self.labels), len(self.terms), dtype=np.int64)
            self.labels = np.concatenate([self.labels, more])
        self.labels, grown = united(self.labels, pairs)
        if len(grown):
            heads.add(self.words.same, pairs_of(self.labels, grown))

    def _take(self, heads: DerivedFacts) -> PredicateRelations:
        """Add the derived triples that are new to the facts, and return these triples. This ends the round.

        Raises CepError if there are more than MOST facts.
        """
        fresh = {p: self.facts[p].fresh(heads.of(p)) for p in sorted(heads.pairs)}
        if VALUE in self.facts and self.words.same in fresh:  # do not repeat a triple in another form of its literal
            pairs = fresh[self.words.same]
            fresh[self.words.same] = pairs[~one_value(self.facts, pairs)]
        most = max(fresh, key=lambda p: len(fresh[p]), default=None)
        if most is not None and self.facts.count + sum(map(len, fresh.values())) > MOST:
            raise CepError(
                f"the closure has more than {MOST:,} triples; the last {len(fresh[most]):,} have the predicate "
                f"{self.terms.term(most) if most >= 0 else most}",
                hint="look for a property or class that relates very many things to each other",
                code="too-large",
            )
        self.round += 1
        for p, pairs in fresh.items():
            self.facts.add(p, pairs, self.round)
        return PredicateRelations({p: BinaryRelation.at(pairs, self.round) for p, pairs in fresh.items()})


def delta_bodies(
    body: Sequence[RuleAtom], facts: PredicateRelations, new: PredicateRelations | None
) -> Iterator[list[BodyAtom]]:
    """Yield the bodies to evaluate for a rule in one round of semi-naive evaluation. If `new` is None, yield a single
    body, which uses all facts.

    In each body, one atom is looked up in the new facts, and the other atoms in all facts. If an atom tests a whole
    list, the body also contains an atom for the members of the list. Therefore the atom that tests the list is never
    looked up in the new facts.
    """
    if new is None:
        yield [BodyAtom(atom, facts) for atom in body]
        return
    for chosen in body:
        if not chosen.every and (isinstance(chosen.p, str) or chosen.p in new):
            yield [BodyAtom(atom, new if atom is chosen else facts) for atom in body]


def _together(blocks: Sequence[Substitutions], names: Sequence[str]) -> Substitutions:
    columns = {name: np.concatenate([rows.columns[name] for rows in blocks]) for name in names}
    return Substitutions(sum(rows.count for rows in blocks), columns)


def _distinct(rows: Substitutions, names: Sequence[str]) -> Substitutions:
    order = np.lexsort([rows.columns[name] for name in names])
    changes = np.zeros(rows.count, dtype=np.bool_)
    changes[:1] = True
    for name in names:
        column = rows.columns[name][order]
        changes[1:] |= column[1:] != column[:-1]
    first = order[changes]
    return rows.take(first, len(first))
