"""RDF lists in axioms: their members, and the rules for property chains and keys."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from cep.core.errors import CepError
from cep.core.values import Ints
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.relation import PredicateRelations, packed, sorted_distinct, unpacked
from cep.knowledge.reasoning.rule import VALUE, RuleAtom, TripleRule
from cep.knowledge.reasoning.vocabulary import ReasoningVocabulary

MOST_FORMS = 6
"""The maximum number of properties of a key whose literals are compared by value. The literals of all further
properties are compared as terms."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists in axioms, as pairs of a list and a member. They are sorted by list, then by position in the list."""

    heads: Ints
    members: Ints

    @property
    def pairs(self) -> Ints:
        """The distinct pairs (list, member), packed and sorted."""
        return sorted_distinct(packed(self.heads, self.members))

    @property
    def twice(self) -> Ints:
        """The pairs (list, member) of members that appear more than once in the list."""
        pairs = np.sort(packed(self.heads, self.members))
        return sorted_distinct(pairs[1:][pairs[1:] == pairs[:-1]])

    def of(self, head: int) -> list[int]:
        members: list[int] = self.members[self.heads == head].tolist()
        return members


def lists_of(facts: PredicateRelations, words: ReasoningVocabulary, names: PrefixedNames) -> Lists:
    """Return the lists in the axioms of `facts`. Raises CepError if a list branches, is incomplete or has a cycle."""
    object_ids = [facts[predicate].objects for predicate in words.of_lists]
    heads = sorted_distinct(np.concatenate(object_ids))
    nodes, place, step = heads, np.arange(len(heads)), 0
    columns: list[tuple[Ints, Ints, Ints]] = []
    while True:
        going = nodes != words.nil
        nodes, place = nodes[going], place[going]
        if not len(nodes):
            break
        columns.append((heads[place], np.full(len(nodes), step), _next(facts, words.first, nodes, heads[place], names)))
        nodes = _next(facts, words.rest, nodes, heads[place], names)
        step += 1
        if step > len(facts[words.rest]) + 1:
            endless = names.of(int(heads[place[0]]))
            raise CepError(f"the list {endless} has no end: its rdf:rest leads back to the list", code="list")
    if not columns:
        return Lists(heads[:0], heads[:0])
    head, steps, member = (np.concatenate(column) for column in zip(*columns))
    order = np.lexsort((steps, head))
    return Lists(head[order], member[order])


def _next(facts: PredicateRelations, predicate: int, nodes: Ints, heads: Ints, names: PrefixedNames) -> Ints:
    pairs = facts[predicate].pairs
    lows = np.searchsorted(pairs, nodes << 32)
    counts = np.searchsorted(pairs, (nodes + 1) << 32) - lows
    if (counts != 1).any():
        wrong = int(np.flatnonzero(counts != 1)[0])
        raise CepError(
            f"the list {names.of(int(heads[wrong]))} is broken: {names.of(int(nodes[wrong]))} has {int(counts[wrong])} "
            f"values of {names.of(predicate)}",
            hint="each node of a list has one rdf:first and one rdf:rest, and the last rdf:rest is rdf:nil",
            code="list",
        )
    return unpacked(pairs[lows])[1]


def rules_of_lists(
    facts: PredicateRelations, lists: Lists, words: ReasoningVocabulary, names: PrefixedNames
) -> tuple[TripleRule, ...]:
    """Return the OWL 2 RL rules for property chains (prp-spo2, one per chain) and for `owl:hasKey` (prp-key, several
    per axiom). Raises CepError for an empty list."""
    rules = []
    for head in facts[words.chain].objects.tolist():
        chain = _filled(lists.of(head), words.chain, names)
        links = [RuleAtom(f"?u{i}", p, f"?u{i + 1}") for i, p in enumerate(chain)]
        axiom = RuleAtom("?p", words.chain, head)
        rules.append(TripleRule("prp-spo2", (axiom, *links), RuleAtom("?u0", "?p", f"?u{len(chain)}")))
    for head in facts[words.key].objects.tolist():
        key = _filled(lists.of(head), words.key, names)
        axiom, types = RuleAtom("?c", words.key, head), [RuleAtom(of, words.type, "?c") for of in ("?x", "?y")]
        for forms in product((False, True), repeat=min(len(key), MOST_FORMS)):
            same = [atom for i, p in enumerate(key) for atom in _agreeing(i, p, i < len(forms) and forms[i])]
            differ = [(f"?z{i}", f"?w{i}") for i, apart in enumerate(forms) if apart]
            body = (axiom, *types, *same)
            rules.append(TripleRule("prp-key", body, RuleAtom("?x", words.same, "?y"), (("?x", "?y"), *differ)))
    return tuple(rules)


def _agreeing(i: int, p: int, forms: bool) -> list[RuleAtom]:
    """Return atoms that require that ?x and ?y have the same value of the property `p`.

    `i`: the position of the property in the key. `forms`: True to require different literals of equal value.
    """
    if not forms:
        return [RuleAtom("?x", p, f"?z{i}"), RuleAtom("?y", p, f"?z{i}")]
    value = [RuleAtom(f"?z{i}", VALUE, f"?v{i}"), RuleAtom(f"?w{i}", VALUE, f"?v{i}")]
    return [RuleAtom("?x", p, f"?z{i}"), *value, RuleAtom("?y", p, f"?w{i}")]


def _filled(members: list[int], predicate: int, names: PrefixedNames) -> list[int]:
    if not members:
        raise CepError(f"{names.of(predicate)} has an empty list", hint="add at least one property", code="list")
    return members
