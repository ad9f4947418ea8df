"""Static predicates that are not tables, for instance `hot(T) :- T > 30.` Their rules are evaluated for the arguments
of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cep.core.errors import CepError, Source
from cep.core.relation import Column
from cep.core.values import Ints, Pool
from cep.rules.conditions.binding_order import arrange, binding
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.checking import check, compile_expression, variables
from cep.rules.expressions.evaluate import Evaluation
from cep.rules.expressions.typed import Typed, coerced, common_type, grown
from cep.rules.static.materialized import present, words
from cep.rules.terms import Comparison, Condition, Expression, Predicate, StaticRule, Variable


@dataclass(frozen=True, slots=True)
class GivenArguments:
    """Those arguments of a call that have values.

    `names`: for each such argument, a variable that has the value. `conditions`: conditions on these variables that
    must hold in addition to the rule's body.
    """

    names: dict[int, str]
    conditions: tuple[Condition, ...]


def enter(arguments: Sequence[Expression], bound_places: Sequence[int]) -> GivenArguments:
    """Bind the arguments of a rule's head to the values in a call. `bound_places`: the positions of the arguments that
    have values in the call.

    If an argument of the head is a variable, it gets the value. Any other argument must equal the value.
    """
    names: dict[int, str] = {}
    seen: set[str] = set()
    conditions: list[Condition] = []
    for i in bound_places:
        argument = arguments[i]
        if isinstance(argument, Variable) and argument.name != "_" and argument.name not in seen:
            names[i] = argument.name
            seen.add(argument.name)
        else:
            names[i] = f"#{i}"
            if not isinstance(argument, Variable) or argument.name != "_":
                conditions.append(Comparison("=", Variable(f"#{i}", argument.span), argument, argument.span))
    return GivenArguments(names, tuple(conditions))


class RulePredicate:
    """The rules of one predicate that is not recursive. The types of its arguments can differ from call to call."""

    def __init__(
        self,
        name: str,
        rules: Sequence[StaticRule],
        relations: Mapping[str, Relation],
        pool: Pool,
        source: Source | None,
    ) -> None:
        self.name = name
        self.arity = len(rules[0].arguments)
        self.types: tuple[None, ...] = (None,) * self.arity
        self._rules = tuple(rules)
        self._relations = relations
        self._pool = pool
        self._source = source
        self._ready: dict[frozenset[int], bool] = {}
        self._probes: dict[tuple[tuple[tuple[int, str], ...], tuple[int, ...]], _Call] = {}
        needed = [
            relations.get(condition.name)
            for rule in rules
            for condition in rule.conditions
            if isinstance(condition, Predicate)
        ]
        self.depth: int = 1 + max((body.depth for body in needed if isinstance(body, RulePredicate)), default=0)

    def ready(self, bound: frozenset[int]) -> bool:
        if bound not in self._ready:
            self._ready[bound] = all(self._runs(rule, sorted(bound)) for rule in self._rules)
        return self._ready[bound]

    def _runs(self, rule: StaticRule, bound: Sequence[int]) -> bool:
        entry = enter(rule.arguments, bound)
        try:
            known = order_of(rule, entry, self._relations, self._source)[1]
        except CepError:
            return False
        free = [argument for i, argument in enumerate(rule.arguments) if i not in entry.names]
        named = all(not (isinstance(argument, Variable) and argument.name == "_") for argument in free)
        return named and all(variable.name in known for argument in free for variable in variables(argument))

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> _Call:
        asked = (tuple(bound.items()), wanted)
        if asked not in self._probes:
            self._probes[asked] = self._probe(bound, wanted)
        return self._probes[asked]

    def _probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> _Call:
        bodies: list[tuple[GivenArguments, Conditions, list[Typed]]] = []
        types: list[str | None] = [None] * len(wanted)
        for rule in self._rules:
            entry = enter(rule.arguments, list(bound))
            known = {entry.names[i]: type for i, type in bound.items()}
            body = entry.conditions + rule.conditions
            conditions = compile_conditions(body, known, self._relations, self._pool, self._source)
            known |= conditions.binds
            outputs = [check(rule.arguments[i], known, self._source) for i in wanted]
            for i, output in enumerate(outputs):
                types[i] = grown(types[i], output.type)
            bodies.append((entry, conditions, outputs))
        fixed = tuple(type or "any" for type in types)
        rules = [
            _Rule(
                tuple(entry.names.values()), conditions,
                [compile_expression(fit_head(output, type), self._pool) for output, type in zip(outputs, fixed)],
            )
            for entry, conditions, outputs in bodies
        ]  # fmt: skip
        return _Call(rules, fixed, self._pool)


def order_of(
    rule: StaticRule, entry: GivenArguments, relations: Mapping[str, Relation], source: Source | None
) -> tuple[tuple[Condition, ...], set[str]]:
    """Return the conditions of a rule in binding order, and all variables that are bound after the last condition.

    `entry`: the arguments of the call.
    """
    known = set(entry.names.values())
    order = arrange(entry.conditions + rule.conditions, known, relations, source)
    for condition in order:
        known.update(binding(condition, known))
    return order, known


def fit_head(typed: Typed, type: str) -> Typed:
    """Convert an argument of a rule's head to the type of its column. The type must include all values of the
    argument."""
    assert typed.type == type or type == "any" or common_type(typed.type, type) == type, "a column holds all its values"
    fit = coerced(typed, type)
    assert fit is not None, "a column holds all its values"
    return fit


@dataclass(frozen=True, slots=True)
class _Rule:
    names: tuple[str, ...]
    conditions: Conditions
    outputs: list[Evaluation]


@dataclass(frozen=True, slots=True)
class _Call:
    """The rules of a predicate, compiled for calls whose arguments have certain types."""

    rules: list[_Rule]
    types: tuple[str, ...]
    pool: Pool

    @property
    def single(self) -> bool:
        return len(self.rules) == 1 and self.rules[0].conditions.single

    @property
    def timed(self) -> bool:
        return self.pool.areas.several or any(rule.conditions.timed for rule in self.rules)

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        answers_by_rule: list[tuple[Ints, list[Column]]] = []
        for rule in self.rules:
            bound_columns = _columns(rule, bound, ends)
            index, binds = rule.conditions.answers(bound_columns, rows)
            answered = {name: column[index] for name, column in bound_columns.items()} | binds
            (index, *outputs), _ = present(
                [index, *(output(answered, len(index)) for output in rule.outputs)], len(index)
            )
            answers_by_rule.append((index, outputs))
        if self.single:
            return answers_by_rule[0]
        index = np.concatenate([index for index, _ in answers_by_rule])
        order = np.argsort(index, kind="stable")
        index = index[order]
        columns = [np.concatenate(parts)[order] for parts in zip(*(columns for _, columns in answers_by_rule))]
        from cep.core.hashtable import KeySet

        _, first = KeySet(1 + len(columns)).insert(words([index, *columns], len(index)))
        return index[first], [column[first] for column in columns]

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> NDArray[np.bool_]:
        result = np.zeros(rows, dtype=np.bool_)
        for rule in self.rules:
            result |= rule.conditions.holds(_columns(rule, bound, ends), rows)
        return result


def _columns(rule: _Rule, bound: Sequence[Column], ends: Ints | None) -> dict[str, Column]:
    columns = dict(zip(rule.names, bound))
    return columns if ends is None else {**columns, "end()": ends}
