"""What conditions ask of background knowledge: a predicate for each table that answers it (M14, M15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cep.events import Iri
from cep.plan.algebra import Triples
from cep.rules.terms import (
    Condition,
    Constant,
    Disjunction,
    Graph,
    Predicate,
    StaticRule,
    Variable,
    condition_variables,
    expression_variables,
    localised,
)


class KnowledgePatterns:
    """`asked`: by the name of the predicate. `own_triples`: the program has a predicate `triple` of its own."""

    def __init__(self, own_triples: bool) -> None:
        self.own_triples = own_triples
        self.asked: dict[str, Graph | Triples] = {}

    def static(self, rule: StaticRule) -> StaticRule:
        if not rule.conditions:
            return rule
        counts = Counter(name for argument in rule.arguments for name in expression_variables(argument))
        counts.update(name for condition in rule.conditions for name in condition_variables(condition))
        return replace(rule, conditions=tuple(self.condition(condition, counts) for condition in rule.conditions))

    def condition(self, condition: Condition, uses: Mapping[str, int]) -> Condition:
        """What asks the knowledge under the name of the table that answers it; `uses` counts the rule's variables."""
        if isinstance(condition, Disjunction):
            inside = tuple(tuple(self.condition(each, uses) for each in each_of) for each_of in condition.alternatives)
            return localised(replace(condition, alternatives=inside), uses)
        if not isinstance(condition, Predicate):
            return condition
        if condition.graph is not None:
            return self.graph(condition, condition.graph, uses)
        if condition.name == "triple" and len(condition.arguments) == 3 and not self.own_triples:
            return self.triple(condition)
        return condition

    def graph(self, predicate: Predicate, graph: Graph, uses: Mapping[str, int]) -> Condition:
        name = graph.text
        while (known := self.asked.setdefault(name, graph)) is not graph and not _alike(known, graph):
            name += "'"  # the same text under other prefixes
        arguments = predicate.arguments
        if predicate.negated:  # "there is none" needs no value for what nothing else speaks of
            arguments = tuple(
                Variable("_", each.span) if isinstance(each, Variable) and uses[each.name] == 1 else each
                for each in arguments
            )
        return replace(predicate, name=name, arguments=arguments)

    def triple(self, predicate: Predicate) -> Condition:
        subject, verb, thing = (
            each.value if isinstance(each, Constant) and isinstance(each.value, Iri) else None
            for each in predicate.arguments
        )
        fixed = (subject, verb, thing)
        name = f"triple({', '.join('_' if each is None else f'<{each}>' for each in fixed)})"
        self.asked.setdefault(name, Triples(fixed, predicate.span))
        return replace(predicate, name=name)


def _alike(known: Graph | Triples, graph: Graph) -> bool:
    """Whether two patterns of one text mean the same: they agree in the prefixes that may be in it."""
    assert isinstance(known, Graph), "the name of triples is in no braces"
    one, other = ({(name, iri) for name, iri in g.prefixes if f"{name}:" in g.text} for g in (known, graph))
    return one == other
