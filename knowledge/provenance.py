"""Search for the triples from which an answer to a graph pattern follows, and for the rules that inferred them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyoxigraph as ox

from cep.events import Iri, Value
from cep.explain.judging import Fact, ProofStep, Triple
from cep.knowledge.graph import Knowledge
from cep.knowledge.query.cross_products import group_patterns
from cep.knowledge.query.sparql import ConstantTerm, TriplePattern, VarOrTerm, basic
from cep.knowledge.rdf.lexical_forms import equal, first_like
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.terms import NONE, Term
from cep.knowledge.reasoning.proof import ASSERTED
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Fixed, KnowledgeSource

MOST = 50
"""The maximum number of triples listed for one answer."""
MOST_SOLUTIONS = 2_000
"""The maximum number of solutions of a pattern that are compared with an answer. It is also the maximum number of
triples whose objects are compared with a literal."""

TermOrValue = Term | Value
"""A term of RDF, or a value of the engine that represents a term."""


class Provenance:
    """A search for the triples of the knowledge that led to an answer."""

    def __init__(self, knowledge: Knowledge, prefixes: Mapping[str, str] | None = None) -> None:
        self.loaded = self.knowledge = knowledge
        self.prefixes = dict(prefixes or {})

    def __call__(
        self, pattern: Graph | Fixed, values: Mapping[str, Value], then: KnowledgeSource | None = None
    ) -> list[Fact]:
        """Return the triples from which an answer to `pattern` follows.

        - `pattern`: a graph pattern or `triple(S, P, O)`.
        - `values`: the answer's values, some of which may be missing. The keys are the names of variables. For
          `triple`, they are the positions `0`, `1` and `2`.
        - `then`: the knowledge at the time of the answer, if it has changed since.

        If several solutions have these values, use the first one. If none of the first MOST_SOLUTIONS solutions has
        them, return no triples.
        """
        self.knowledge = then if isinstance(then, Knowledge) else self.loaded
        if isinstance(pattern, Graph):
            return self._of_graph(pattern, values)
        slots: list[VarOrTerm] = [
            f"x{i}" if term is None else ConstantTerm(str(term)) for i, term in enumerate(pattern)
        ]
        known = {f"x{i}": values[str(i)] for i, term in enumerate(pattern) if term is None and str(i) in values}
        return self._facts([TriplePattern((slots[0], slots[1], slots[2]), 0, 0)], known, {})

    def _of_graph(self, graph: Graph, values: Mapping[str, Value]) -> list[Fact]:
        alike = lru_cache(None)(equal)
        for filters in (_filters(values, True), _filters(values, False)):
            query = f"SELECT * WHERE {{ {graph.text}\n {filters} }} LIMIT {MOST_SOLUTIONS}"
            matches = self.knowledge.store().query(query, prefixes=dict(graph.prefixes))
            assert isinstance(matches, ox.QuerySolutions), "a SELECT gives solutions"
            names = [name.value for name in matches.variables]
            for solution in matches:
                bound = {name: solution[name] for name in names if solution[name] is not None}
                if all(name in bound and alike(bound[name], value) for name, value in values.items()):
                    return self._facts(list(_patterns(graph)), bound, dict(graph.prefixes))
        return []

    def _facts(
        self, patterns: list[TriplePattern], known: Mapping[str, TermOrValue], prefixes: Mapping[str, str]
    ) -> list[Fact]:
        knowledge, known = self.knowledge, dict(known)
        shown = {**self.prefixes, **prefixes}
        names = PrefixedNames(knowledge.terms, shown) if knowledge.closure is None else knowledge.closure.names(shown)
        facts: dict[str, Fact] = {}
        for pattern in patterns:
            triple = self._triple([known.get(slot) if isinstance(slot, str) else _term(slot) for slot in pattern.slots])
            if triple is None:
                continue  # it belongs to an OPTIONAL or another branch
            for slot, id in zip(pattern.slots, triple):
                if isinstance(slot, str):
                    known.setdefault(slot, knowledge.terms.term(id))
            text = names.triple(triple)
            facts[text] = self._fact(text, triple, names)
            if len(facts) == MOST:
                break
        return list(facts.values())

    def _triple(self, pattern: Sequence[TermOrValue]) -> tuple[int, int, int] | None:
        """Return the first triple that has the terms `pattern`. A term that is None accepts any term. A literal also
        accepts other literals of the same value.

        Return None if there is no such triple.
        """
        terms, thing = self.knowledge.terms, pattern[2]
        ids = [None if (node := _node(term)) is None else terms.id_of(node) for term in pattern]
        if NONE in ids or any(pattern[i] is not None and ids[i] is None for i in (0, 1)):
            return None
        matched = np.stack(self.knowledge.closed.match(*ids), axis=1)
        if thing is not None and ids[2] is None:
            same = matched[matched[:, 2] == terms.id_of(thing)] if isinstance(thing, ox.Literal) else matched[:0]
            if not len(same):
                place = first_like(thing, [terms.term(id) for id in matched[:MOST_SOLUTIONS, 2].tolist()])
                same = matched[:0] if place is None else matched[place:]
            matched = same
        if not len(matched):
            return None
        subject, verb, object = matched[0].tolist()
        return subject, verb, object

    def _fact(self, text: str, triple: tuple[int, int, int], names: PrefixedNames) -> Fact:
        if self.knowledge.closure is None:
            return Fact(text, (), (ProofStep(self._terms(triple), ASSERTED),))
        proof = self.knowledge.closure.proof(*triple)
        lines = () if proof.rule == ASSERTED else tuple(proof.lines(names))
        steps: dict[tuple[int, int, int], ProofStep] = {}
        waiting = [proof]
        while waiting:
            step = waiting.pop(0)
            if step.triple not in steps:
                premises = tuple(self._terms(premise.triple) for premise in step.premises)
                steps[step.triple] = ProofStep(self._terms(step.triple), step.rule, premises)
                waiting += step.premises
        return Fact(text, lines, tuple(steps.values()))

    def _terms(self, triple: tuple[int, int, int]) -> Triple:
        subject, verb, thing = self.knowledge.terms.written(np.array(triple)).to_list()
        return subject, verb, thing


def _patterns(graph: Graph) -> Iterator[TriplePattern]:
    """Yield all triple patterns of a graph pattern and its nested groups, except groups that must not match."""
    prefixes = dict(graph.prefixes)
    whole = basic(graph.text, prefixes)
    if whole is not None:
        yield from whole
        return
    for group in group_patterns(graph.text):
        for part in group.elements:
            if part.kind == "triples" and not group.absent:
                yield from basic(f"{{ {graph.text[part.start : part.end]} }}", prefixes) or ()


def _filters(values: Mapping[str, Value], numbers: bool) -> str:
    """Return SPARQL filters that select the solutions which have these values.

    `numbers`: True to also filter by numbers. This may exclude the wanted solution, because times and durations are
    numbers in the engine, but not in SPARQL.
    """
    filters = []
    for name, value in values.items():
        if isinstance(value, Iri):
            filters += [] if value.startswith("_:") else [f"FILTER(?{name} = {ox.NamedNode(value)})"]
        elif isinstance(value, str):
            filters.append(f"FILTER(STR(?{name}) = {ox.Literal(value)})")
        elif isinstance(value, bool):
            filters.append(f"FILTER(?{name} = {str(value).lower()})")
        elif numbers and value is not None:
            filters.append(f"FILTER(?{name} = {ox.Literal(value)})")
    return " ".join(filters)


def _term(constant: ConstantTerm) -> Term:
    if constant.language:
        return ox.Literal(constant.text, language=constant.language)
    if constant.datatype:
        return ox.Literal(constant.text, datatype=ox.NamedNode(constant.datatype))
    return ox.NamedNode(constant.text)


def _node(term: TermOrValue) -> ox.NamedNode | ox.BlankNode | None:
    if isinstance(term, Iri):
        return ox.BlankNode(term[2:]) if term.startswith("_:") else ox.NamedNode(term)
    return term if isinstance(term, ox.NamedNode | ox.BlankNode) else None
