"""Queries to the background knowledge in conditions. Each query becomes a predicate for the table that contains its
answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace

from cep.events import Iri
from cep.language.syntax.ast import SyntaxTree
from cep.plan.algebra import Triples
from cep.plan.identity import OF_AREAS
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import (
    Call,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Graph,
    Predicate,
    StaticRule,
    Variable,
    condition_variables,
    each_condition,
    expression_variables,
    localised,
)


class KnowledgePatterns:
    """The queries of a program to the background knowledge.

    - `asked`: the queries. The keys are the names of the predicates by which this class replaces them.
    - `rules`: the static rules of the program.
    - `own`: the names of predicates that the program defines or declares.
    """

    def __init__(self, rules: Sequence[StaticRule], own: Collection[str]) -> None:
        self.rules, self.own = rules, frozenset(own)
        self.own_triples = "triple" in self.own
        self.asked: dict[str, Graph | Triples] = {}
        self._following: set[str] | None = None

    @classmethod
    def of(cls, program: SyntaxTree, tables: Collection[str]) -> KnowledgePatterns:
        """Collect the static rules and predicates of a program.

        `tables`: the names of predicates whose rows come from outside the program.
        """
        rules = [statement for statement in program.statements if isinstance(statement, StaticRule)]
        declared = [statement.name for statement in program.statements if isinstance(statement, FactDeclaration)]
        return cls(rules, [*tables, *declared, *(rule.name for rule in rules)])

    def asked_by(self, conditions: Sequence[Condition]) -> bool:
        """Return True if one of the conditions queries the background knowledge, directly or through static rules."""
        if self._following is None:
            self._following = following = set[str]()
            known = -1
            while len(following) > known:
                known = len(following)
                following.update(rule.name for rule in self.rules if self._asks(rule.conditions, following))
        return self._asks(conditions, self._following)

    def _asks(self, conditions: Sequence[Condition], following: Set[str]) -> bool:
        for condition in each_condition(conditions):
            if isinstance(condition, Predicate):
                outside = condition.name not in self.own and (
                    condition.name not in FUNCTIONS or condition.name == OF_AREAS
                )
                if (
                    condition.graph is not None
                    or condition.name in following
                    or outside
                    or any(map(_areas, condition.arguments))
                ):
                    return True
            elif _areas(condition.left) or _areas(condition.right):
                return True
        return False

    def static(self, rule: StaticRule) -> StaticRule:
        if not rule.conditions:
            return rule
        counts = Counter(name for argument in rule.arguments for name in expression_variables(argument))
        counts.update(name for condition in rule.conditions for name in condition_variables(condition))
        return replace(rule, conditions=tuple(self.condition(condition, counts) for condition in rule.conditions))

    def condition(self, condition: Condition, uses: Mapping[str, int]) -> Condition:
        """Replace a query to the background knowledge by a predicate for the table that contains the query's answers.
        Return other conditions unchanged.

        `uses`: how often the rule uses each variable.
        """
        if isinstance(condition, Disjunction):
            inside = tuple(
                tuple(self.condition(inner, uses) for inner in each_of) for each_of in condition.alternatives
            )
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
            name += "'"  # the same text with other prefixes
        arguments = predicate.arguments
        if predicate.negated:  # a negated condition binds no value, so a variable without other uses becomes `_`
            arguments = tuple(
                Variable("_", argument.span)
                if isinstance(argument, Variable) and uses[argument.name] == 1
                else argument
                for argument in arguments
            )
        return replace(predicate, name=name, arguments=arguments)

    def triple(self, predicate: Predicate) -> Condition:
        subject, verb, thing = (
            argument.value if isinstance(argument, Constant) and isinstance(argument.value, Iri) else None
            for argument in predicate.arguments
        )
        fixed = (subject, verb, thing)
        name = f"triple({', '.join('_' if iri is None else f'<{iri}>' for iri in fixed)})"
        self.asked.setdefault(name, Triples(fixed, predicate.span))
        return replace(predicate, name=name)


def _areas(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return False
    return expression.function == OF_AREAS or any(map(_areas, expression.arguments))


def _alike(known: Graph | Triples, graph: Graph) -> bool:
    """Return True if two graph patterns that have the same text also have the same prefixes for the names in this
    text."""
    assert isinstance(known, Graph), "the name of triples is in no braces"
    known_prefixes, other = ({(name, iri) for name, iri in g.prefixes if f"{name}:" in g.text} for g in (known, graph))
    return known_prefixes == other
