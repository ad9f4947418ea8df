"""Proofs of triples: the rule that derives a triple, the proofs of its premises, down to asserted triples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep.knowledge.rdf.prefixed_names import IdTriple, PrefixedNames
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations, flipped, packed
from cep.knowledge.reasoning.join import BodyAtom, Substitutions, solutions
from cep.knowledge.reasoning.rule import HAS, TWICE, VALUE, RuleAtom, TripleRule
from cep.knowledge.reasoning.vocabulary import ReasoningVocabulary

ASSERTED = "asserted"


@dataclass(frozen=True, slots=True)
class Proof:
    """A triple, the rule that derives it, and the proofs of the rule's premises. For an asserted triple, the rule is
    the text `asserted`.

    A proof is never circular, because each premise was derived in an earlier round.
    """

    triple: IdTriple
    rule: str
    premises: tuple[Proof, ...] = ()

    def lines(self, names: PrefixedNames, depth: int = 0, shown: set[IdTriple] | None = None) -> list[str]:
        """Return the proof as lines of text: one triple per line, with premises indented.

        `shown`: the triples that were written before. Their proofs are not repeated.
        """
        shown = set() if shown is None else shown
        texts: list[str] = []
        waiting = [(self, depth)]
        while waiting:
            proof, depth = waiting.pop()
            again = proof.triple in shown and bool(proof.premises)
            shown.add(proof.triple)
            line = f"{'  ' * depth}{names.triple(proof.triple)}   {proof.rule}{', see above' if again else ''}"
            if line not in texts[-1:]:  # the parts of a restriction make a single line
                texts.append(line)
            if not again:
                waiting += [(premise, depth + 1) for premise in reversed(proof.premises)]
        return texts

    @property
    def asserted(self) -> tuple[IdTriple, ...]:
        """The distinct asserted triples from which the proof starts."""
        triples: dict[IdTriple, None] = {}
        seen, waiting = {self.triple}, [self]
        while waiting:
            proof = waiting.pop()
            if proof.rule == ASSERTED:
                triples[proof.triple] = None
            for premise in reversed(proof.premises):
                if premise.triple not in seen:
                    seen.add(premise.triple)
                    waiting.append(premise)
        return tuple(triples)


@dataclass(frozen=True, slots=True)
class Prover:
    """A search for proofs in a closure.

    `typed`: triples that state the datatypes of literals. They are true without a proof.
    """

    facts: PredicateRelations
    rules: Sequence[TripleRule]
    asserted: PredicateRelations
    typed: PredicateRelations
    words: ReasoningVocabulary

    def proof(self, triple: IdTriple) -> Proof:
        """Return the proof of a triple, which must be in the closure."""
        proofs: dict[IdTriple, Proof] = {}
        steps: dict[IdTriple, tuple[str, list[IdTriple]]] = {}
        waiting = [triple]
        while waiting:
            goal = waiting[-1]
            if goal in proofs:
                waiting.pop()
                continue
            if goal not in steps:
                steps[goal] = self._step(goal)
            rule, premises = steps[goal]
            missing = [premise for premise in premises if premise not in proofs]
            if missing:
                waiting += missing
                continue
            proofs[goal] = Proof(goal, rule, tuple(proofs[premise] for premise in premises))
            waiting.pop()
        return proofs[triple]

    def _step(self, triple: IdTriple) -> tuple[str, list[IdTriple]]:
        s, p, o = triple
        key = packed(np.array([s]), np.array([o]))
        if self.asserted[p].has(key)[0]:
            return ASSERTED, []
        if self.typed[p].has(key)[0]:
            return "dt-type2", []
        relation = self.facts[p]
        assert relation.has(key)[0], "only what is in the closure has a proof"
        round = int(relation.rounds[np.searchsorted(relation.pairs, key)][0])
        best: tuple[int, int, int, list[IdTriple]] | None = None
        for number, rule in enumerate(self.rules):
            for premises in self._premises(rule, triple, round):
                rounds = [self._round(premise) for premise in premises]
                candidate = (max(rounds, default=0), sum(fact_round > 0 for fact_round in rounds), number, premises)
                if best is None or candidate < best:
                    best = candidate
        if best is None and p == self.words.same:
            chain = self._chain(triple, round, both=True)
            return "eq-sym" if len(chain) == 1 else "eq-trans", chain
        if best is None and p in self.facts[self.words.type].subjects_of(self.words.transitive):
            axiom = (p, self.words.type, self.words.transitive)
            return "prp-trp", [axiom, *self._chain(triple, round, both=False)]
        assert best is not None, f"what was inferred was inferred by a rule: {triple}, round {round}"
        return self.rules[best[2]].name, best[3]

    def _premises(self, rule: TripleRule, triple: IdTriple, before: int) -> list[list[IdTriple]]:
        """Return lists of premises from which the rule derives the triple, one list per instance of the rule. Not all
        instances are returned.

        `before`: the premises must have been derived before this round.
        """
        if rule.head is None:
            return []
        known: dict[str, int] = {}
        for slot, id in zip(rule.head.slots, triple):
            if (isinstance(slot, int) and slot != id) or (isinstance(slot, str) and known.setdefault(slot, id) != id):
                return []
        start = Substitutions(1, {name: np.array([id]) for name, id in known.items()})
        return body_instances(rule, self.facts, start, before)

    def _round(self, triple: IdTriple) -> int:
        s, p, o = triple
        relation = self.facts[p]
        return int(relation.rounds[np.searchsorted(relation.pairs, (s << 32) | o)])

    def _chain(self, triple: IdTriple, before: int, both: bool) -> list[IdTriple]:
        """Return a shortest path from the triple's subject to its object, over triples that have the same predicate.

        `before`: the triples must have been derived before this round. `both`: True if the path may also follow triples
        from the object to the subject.
        """
        s, p, o = triple
        relation = self.facts[p]
        pairs = relation.pairs[relation.rounds < before]
        reached_by: dict[int, IdTriple] = {}
        reached, seen = [s], {s} - {o}  # a path may end where it began
        while reached and o not in reached_by:
            following: list[int] = []
            for column, turned in ((pairs, False), (np.sort(flipped(pairs)), True))[: 1 + both]:
                early = BinaryRelation.at(column, 0)
                for node in reached:
                    for neighbour in early.objects_of(node):
                        if neighbour not in seen:
                            seen.add(neighbour)
                            following.append(neighbour)
                            reached_by[neighbour] = (neighbour, p, node) if turned else (node, p, neighbour)
            reached = following
        assert o in reached_by, "equal terms, and the ends of a transitive property, are joined by earlier triples"
        chain: list[IdTriple] = []
        while not chain or o != s:
            chain.append(reached_by[o])
            x, _, y = reached_by[o]
            o = x if o == y else y
        return chain[::-1]


def body_instances(
    rule: TripleRule, facts: PredicateRelations, start: Substitutions, before: int | None
) -> list[list[IdTriple]]:
    """Return some instances of a rule's body that extend the bindings `start`. An instance is a list of triples.

    `before`: the facts must have been derived before this round. None permits all facts.
    """
    parts = [BodyAtom(atom, facts, before) for atom in rule.body]
    keep = {name for atom in rule.body for name in atom.variables}
    bodies: list[list[IdTriple]] = []
    for rows in solutions(parts, start, keep, rule.differ):
        columns = {name: column.tolist() for name, column in rows.columns.items()}
        for i in range(min(rows.count, 1000)):
            bodies.append(instance(rule.body, {name: column[i] for name, column in columns.items()}, facts))
        if bodies:
            break
    return bodies


def instance(body: tuple[RuleAtom, ...], row: dict[str, int], facts: PredicateRelations) -> list[IdTriple]:
    triples: dict[IdTriple, None] = {}
    for atom in body:
        s, p, o = (row[slot] if isinstance(slot, str) else slot for slot in atom.slots)
        if p in (HAS, TWICE, VALUE):
            continue  # show a list by its members, and a literal as it is written
        objects = [o]
        if atom.every:
            objects = facts[HAS].objects_of(o)
        triples |= dict.fromkeys((s, p, member) for member in objects)
    return list(triples)
