"""The triples that an answer of a graph pattern rests on, and why they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyoxigraph as ox

from cep.background import Background, Fixed
from cep.events import Iri, Value
from cep.syntax.ast import Graph
from cep.why.judging import Fact, Step, Triple
from knowledge.asking.products import groups
from knowledge.asking.sparql import Constant, Pattern, Slot, basic
from knowledge.graph import Knowledge
from knowledge.rdf.names import Names
from knowledge.rdf.terms import NONE
from knowledge.reasoning.proof import ASSERTED

MOST = 50
"""Triples that are told of for one answer."""


class Used:
    """Knowledge, asked for what led to its answers."""

    def __init__(self, knowledge: Knowledge, prefixes: Mapping[str, str] | None = None) -> None:
        self.loaded = self.knowledge = knowledge
        self.prefixes = dict(prefixes or {})

    def __call__(self, asked: Graph | Fixed, given: Mapping[str, Value], then: Background | None = None) -> list[Fact]:
        """The triples behind one answer: of a graph pattern in which some variables have values, or of
        `triple(S, P, O)` with values by place (`0`, `1`, `2`). Of several answers that fit the first is told; none
        where a triple cannot be told from others. `then`: the knowledge as it was then, where it has changed."""
        self.knowledge = then if isinstance(then, Knowledge) else self.loaded
        if isinstance(asked, Graph):
            return self._of_graph(asked, given)
        values = [term if term is not None else given.get(str(i)) for i, term in enumerate(asked)]
        slots: list[Slot] = [f"x{i}" if value is None else _slot(value) for i, value in enumerate(values)]
        return self._facts([Pattern((slots[0], slots[1], slots[2]), 0, 0)], {}, {})

    def _of_graph(self, graph: Graph, given: Mapping[str, Value]) -> list[Fact]:
        prefixes = dict(graph.prefixes)
        for filters in (_filters(given), _filters({k: v for k, v in given.items() if isinstance(v, Iri)})):
            query = f"SELECT * WHERE {{ {graph.text}\n {filters} }} LIMIT 1"
            found = self.knowledge.store().query(query, prefixes=prefixes)
            assert isinstance(found, ox.QuerySolutions), "a SELECT gives solutions"
            for solution in found:
                bound = {name.value: solution[name.value] for name in found.variables}
                ids = {name: self.knowledge.terms.id_of(term) for name, term in bound.items() if term is not None}
                return self._facts(list(_patterns(graph)), ids, prefixes)
        return []

    def _facts(self, patterns: list[Pattern], known: dict[str, int], prefixes: Mapping[str, str]) -> list[Fact]:
        knowledge = self.knowledge
        shown = {**self.prefixes, **prefixes}
        names = Names(knowledge.terms, shown) if knowledge.closure is None else knowledge.closure.names(shown)
        made: dict[str, Fact] = {}
        for pattern in patterns:
            ids = [known.get(slot) if isinstance(slot, str) else self._id(slot) for slot in pattern.slots]
            if NONE in ids:
                continue  # of an OPTIONAL or another branch
            subjects, verbs, things = knowledge.closed.match(*ids)
            if not len(subjects):
                continue
            triple = (int(subjects[0]), int(verbs[0]), int(things[0]))
            for slot, id in zip(pattern.slots, triple):
                if isinstance(slot, str):
                    known.setdefault(slot, id)
            text = names.triple(triple)
            made[text] = self._fact(text, triple, names)
            if len(made) == MOST:
                break
        return list(made.values())

    def _fact(self, text: str, triple: tuple[int, int, int], names: Names) -> Fact:
        if self.knowledge.closure is None:
            return Fact(text, (), (Step(self._terms(triple), ASSERTED),))
        proof = self.knowledge.closure.proof(*triple)
        lines = () if proof.rule == ASSERTED else tuple(proof.lines(names))
        steps: dict[tuple[int, int, int], Step] = {}
        waiting = [proof]
        while waiting:
            one = waiting.pop(0)
            if one.triple not in steps:
                premises = tuple(self._terms(premise.triple) for premise in one.premises)
                steps[one.triple] = Step(self._terms(one.triple), one.rule, premises)
                waiting += one.premises
        return Fact(text, lines, tuple(steps.values()))

    def _terms(self, triple: tuple[int, int, int]) -> Triple:
        subject, verb, thing = self.knowledge.terms.written(np.array(triple)).to_list()
        return subject, verb, thing

    def _id(self, constant: Constant) -> int:
        term: ox.NamedNode | ox.Literal
        if constant.language:
            term = ox.Literal(constant.text, language=constant.language)
        elif constant.datatype:
            term = ox.Literal(constant.text, datatype=ox.NamedNode(constant.datatype))
        else:
            term = ox.NamedNode(constant.text)
        return self.knowledge.terms.id_of(term)


def _patterns(graph: Graph) -> Iterator[Pattern]:
    """The triples that a pattern asks for, also within its groups, but not what it wants not to be there."""
    prefixes = dict(graph.prefixes)
    whole = basic(graph.text, prefixes)
    if whole is not None:
        yield from whole
        return
    for group in groups(graph.text):
        for part in group.parts:
            if part.kind == "triples":
                yield from basic(f"{{ {graph.text[part.start : part.end]} }}", prefixes) or ()


def _filters(given: Mapping[str, Value]) -> str:
    found = []
    for name, value in given.items():
        if isinstance(value, Iri):
            found.append(f"FILTER(?{name} = {ox.NamedNode(value)})")
        elif isinstance(value, bool):
            found.append(f"FILTER(?{name} = {str(value).lower()})")
        elif isinstance(value, int | float):
            found.append(f"FILTER(?{name} = {value!r})")
        elif value is not None:
            found.append(f"FILTER(STR(?{name}) = {ox.Literal(value)})")
    return " ".join(found)


def _slot(value: Value) -> Constant:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    if isinstance(value, Iri):
        return Constant(str(value))
    kind = "boolean" if isinstance(value, bool) else {int: "integer", float: "double"}.get(type(value), "string")
    return Constant(str(ox.Literal(value).value) if value is not None else "", xsd + kind)
