"""The rules for one kind of reasoning over a set of triples, and the facts that are true before any rule is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from cep.core.values import Ints
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations, packed, sorted_distinct, unpacked
from cep.knowledge.rdf.terms import IRI, LITERAL, Terms
from cep.knowledge.rdf.values import READ
from cep.knowledge.reasoning import owl2rl, rdfs
from cep.knowledge.reasoning.lists import lists_of, rules_of_lists
from cep.knowledge.reasoning.literals import KNOWN, inside
from cep.knowledge.reasoning.rule import HAS, TWICE, TripleRule, rules_of
from cep.knowledge.reasoning.vocabulary import ReasoningVocabulary

Reasoning = Literal["none", "rdfs", "owlrl"]
_FEW = 100  # the maximum number of terms that are tested one by one
REASONING: tuple[Reasoning, ...] = ("none", "rdfs", "owlrl")


@dataclass(frozen=True)
class Ruleset:
    """The rules for a set of triples.

    - `data`, `schema`: rules that derive triples. The rules of `schema` concern only the triples of an ontology.
    - `refusing`: rules that find contradictions.
    - `lists`: facts about the members of lists (predicates HAS and TWICE).
    - `typed`: triples that state the datatypes of literals, if axioms need them.

    If `fits` returns True for the triples of a change, all of this remains valid after the change.
    """

    words: ReasoningVocabulary
    data: tuple[TripleRule, ...] = ()
    schema: tuple[TripleRule, ...] = ()
    refusing: tuple[TripleRule, ...] = ()
    lists: PredicateRelations = field(default_factory=PredicateRelations)
    typed: PredicateRelations = field(default_factory=PredicateRelations)

    @cached_property
    def deriving(self) -> tuple[TripleRule, ...]:
        return self.schema + self.data

    def fits(self, terms: Terms, changed: PredicateRelations) -> bool:
        """Return True if the rules, lists and datatypes stay valid when the triples `changed` are added or removed."""
        read = (self.words.first, self.words.rest, *self.words.of_lists, *self.words.of_numbers)
        if any(predicate in changed for predicate in read):
            return False
        return not len(self.typed) and not len(_datatypes_in_use(terms, changed, self.words))


def ruleset(reasoning: Reasoning, terms: Terms, asserted: PredicateRelations, names: PrefixedNames) -> Ruleset:
    """Return the rules that the asserted triples need. The terms in the rules are added to the dictionary.

    Raises CepError if a list in the triples is invalid.
    """
    words = ReasoningVocabulary(terms)
    if reasoning == "none":
        return Ruleset(words)
    if reasoning == "rdfs":
        return Ruleset(words, _with_ids(rdfs.DATA, words, {}), _with_ids(rdfs.SCHEMA, words, {}))
    lists = lists_of(asserted, words, names)
    numbers = {str(n): _numbers(terms, asserted, words, n) for n in (0, 1)}
    data, schema = (_with_ids(table, words, numbers) for table in (owl2rl.DATA, owl2rl.SCHEMA))
    return Ruleset(
        words,
        tuple(rule for rule in data if rule.head) + rules_of_lists(asserted, lists, words, names),
        schema,
        tuple(rule for rule in data if not rule.head),
        PredicateRelations({HAS: BinaryRelation.at(lists.pairs, 0), TWICE: BinaryRelation.at(lists.twice, 0)}),
        _typed(terms, asserted, words),
    )


def _with_ids(table: str, words: ReasoningVocabulary, numbers: Mapping[str, list[int]]) -> tuple[TripleRule, ...]:
    """Parse the rules of a table, and replace names and numbers by ids.

    `numbers`: for each number, the literals that have this value. A rule with a number becomes one rule per literal.
    """
    rules = []
    for rule in rules_of(table):
        for literal in numbers[rule.number] if rule.number else [0]:
            ids = words.ids if rule.number is None else {**words.ids, rule.number: literal}
            rules.append(rule.with_slots(lambda slot, ids=ids: ids.get(slot, slot)))  # type: ignore[misc]
    return tuple(rules)


def _numbers(terms: Terms, asserted: PredicateRelations, words: ReasoningVocabulary, value: int) -> list[int]:
    objects = sorted_distinct(np.concatenate([asserted[predicate].objects for predicate in words.of_numbers]))
    literals = []
    for literal in objects[terms.kinds(objects) == LITERAL].tolist():
        type, read = READ.get(terms.sorts[int(terms.sort_of(np.array([literal]))[0])].datatype, ("", None))
        if type == "int" and read is not None:
            good, values = read(terms.texts(np.array([literal])))
            literals += [literal] if good[0] and values[0] == value else []
    return literals


def _typed(terms: Terms, asserted: PredicateRelations, words: ReasoningVocabulary) -> PredicateRelations:
    """RULE dt-type2: return triples that state, for each literal, the datatypes that contain its value. Only datatypes
    that axioms mention are used."""
    datatypes = _datatypes_in_use(terms, asserted, words)
    if not len(datatypes):
        return PredicateRelations()
    used = np.zeros(len(terms), dtype=np.bool_)
    for predicate in asserted:
        used[unpacked(asserted[predicate].pairs)[1]] = True
    literals = np.flatnonzero(used)
    literals = literals[terms.kinds(literals) == LITERAL]
    pairs = []
    for datatype, name in zip(datatypes.tolist(), terms.texts(datatypes)):
        members = literals[inside(terms, literals, name)]
        pairs.append(packed(members, np.full(len(members), datatype, dtype=np.int64)))
    return PredicateRelations({words.type: BinaryRelation.at(sorted_distinct(np.concatenate(pairs)), 0)})


def _datatypes_in_use(terms: Terms, facts: PredicateRelations, words: ReasoningVocabulary) -> Ints:
    """Return the datatypes that occur in facts other than ranges (rdfs:range) and declarations (rdf:type)."""
    names = {*KNOWN, *(sort.datatype for sort in terms.sorts if sort.kind == LITERAL)}
    columns = [
        column
        for predicate in facts
        if predicate not in (words.range, words.type)
        for column in unpacked(facts[predicate].pairs)
    ]
    mentioned = sorted_distinct(np.concatenate([np.empty(0, dtype=np.int64), *columns]))
    mentioned = mentioned[terms.kinds(mentioned) == IRI]
    texts = terms.texts(mentioned)
    few = len(mentioned) <= _FEW
    among = [text in names for text in texts] if few else texts.is_in(list(names)).to_list()
    known: Ints = mentioned[np.array(among, dtype=np.bool_)]
    return known
