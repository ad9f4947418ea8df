"""Conditions and static rules of the reference interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.reference_knowledge import Triple, answers
from tests.reference_knowledge import value as of_term
from tests.reference_places import inside_of, near
from tests.reference_tree import Call, Comparison, Or, Predicate, StaticRule, Var
from tests.reference_values import (
    TESTS,
    Env,
    Span,
    compare,
    equal,
    evaluate,
    key,
    kind,
    single,
    variables,
)


class Knowledge:
    """Static facts and rules, and triples. What can be listed is listed, bottom-up; the rest is called with its
    arguments."""

    def __init__(self, rules: list[StaticRule], triples: list[Triple]) -> None:
        self.triples = triples
        self.rules: dict[str, list[StaticRule]] = {}
        for rule in rules:
            self.rules.setdefault(rule.name, []).append(rule)
        self.answers: dict[Predicate, list[tuple[Any, ...]]] = {}
        self.modes: dict[tuple[str, frozenset[int]], bool] = {}
        self.tables: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
        strata = self.strata()
        for level in sorted(set(strata.values())):
            names = [name for name in self.rules if strata[name] == level and self.callable(name, frozenset())]
            self.tables.update({name: {} for name in names})
            grown = True
            while grown:
                grown = False
                for rule in (rule for name in names for rule in self.rules[name]):
                    for env in list(self.run(list(rule.conditions), {}, (0, 0))):
                        row = tuple(evaluate(argument, env, (0, 0)) for argument in rule.arguments)
                        index = tuple(key(value) for value in row)
                        if None not in row and index not in self.tables[rule.name]:
                            self.tables[rule.name][index] = row
                            grown = True

    def strata(self) -> dict[str, int]:
        """What a predicate negates lies in a lower stratum."""
        strata = dict.fromkeys(self.rules, 0)
        for _ in range(len(strata) + 1):
            for rule in (rule for rules in self.rules.values() for rule in rules):
                for condition in single(rule.conditions):
                    if isinstance(condition, Predicate) and condition.name in strata:
                        least = strata[condition.name] + condition.negated
                        strata[rule.name] = max(strata[rule.name], least)
        return strata

    def callable(self, name: str, bound: frozenset[int]) -> bool:
        """Can it be evaluated when the arguments at these positions are known? With none known: it can be listed."""
        if name == "near" and name not in self.rules:
            return bound >= {0, 1, 2}
        if (name, bound) not in self.modes:
            self.modes[name, bound] = True  # a recursive call may assume it
            self.modes[name, bound] = all(self.orderable(rule, bound) for rule in self.rules.get(name, []))
        return self.modes[name, bound]

    def orderable(self, rule: StaticRule, positions: frozenset[int]) -> bool:
        known = {a.name for i, a in enumerate(rule.arguments) if i in positions and isinstance(a, Var)}
        left = list(rule.conditions)
        while ready := next((condition for condition in left if self.ready(condition, known)), None):
            left.remove(ready)
            known.update(variables(ready))
        return not left and known.issuperset(variables(rule.arguments))

    def ready(self, condition: Any, known: set[str]) -> bool:
        if isinstance(condition, Or):
            return all(known | bound >= set(variables(condition)) for bound in self.bound(condition, known))
        if known.issuperset(variables(condition)) and (
            isinstance(condition, Comparison) or condition.negated or condition.name in (*TESTS, "inside")
        ):
            return True
        if isinstance(condition, Comparison):
            sides = ((condition.left, condition.right), (condition.right, condition.left))
            return condition.operator == "=" and any(
                isinstance(a, Var) and known.issuperset(variables(b)) for a, b in sides
            )
        if condition.negated or condition.name in (*TESTS, "inside"):
            return False
        if any(isinstance(a, Call) and not known.issuperset(variables(a)) for a in condition.arguments):
            return False
        bound = {i for i, a in enumerate(condition.arguments) if not isinstance(a, Var) or a.name in known}
        return self.callable(condition.name, frozenset(bound))

    def bound(self, condition: Or, known: set[str]) -> Iterator[set[str]]:
        """What each alternative binds; less than its variables where it cannot be evaluated."""
        for alternative in condition.alternatives:
            behind, left = set(known), list(alternative)
            while ready := next((each for each in left if self.ready(each, behind)), None):
                left.remove(ready)
                behind.update(variables(ready))
            yield set() if left else behind

    def solve(self, conditions: tuple[Any, ...], env: Env, span: Span) -> list[Env]:
        """The answers of a conjunction: each way to bind its named variables once, in the order of their values."""
        names = variables(conditions)
        answers: dict[tuple[Any, ...], Env] = {}
        for answer in self.run(list(conditions), env, span):
            answers.setdefault(tuple(key(answer[name]) for name in names), answer)
        return [answers[index] for index in sorted(answers)]

    def run(self, conditions: list[Any], env: Env, span: Span) -> Iterator[Env]:
        if not conditions:
            yield env
            return
        known = set(env)
        chosen = next(condition for condition in conditions if self.ready(condition, known))
        rest = [condition for condition in conditions if condition is not chosen]
        for answer in self.one(chosen, env, span):
            yield from self.run(rest, answer, span)

    def one(self, condition: Any, env: Env, span: Span) -> Iterator[Env]:
        if isinstance(condition, Or):
            names = variables(condition)
            for alternative in condition.alternatives:
                for answer in self.run(list(alternative), env, span):
                    yield {**env, **{name: answer[name] for name in names}}
            return
        if isinstance(condition, Comparison):
            left, right = condition.left, condition.right
            if isinstance(right, Var) and right.name not in env:
                left, right = right, left
            if isinstance(left, Var) and left.name not in env:
                value = evaluate(right, env, span)
                if value is not None:
                    yield {**env, left.name: value}
            elif compare(condition.operator, evaluate(left, env, span), evaluate(right, env, span)):
                yield env
            return
        values = [
            evaluate(argument, env, span) if not isinstance(argument, Var) or argument.name in env else ...
            for argument in condition.arguments
        ]
        if None in values:
            return
        if condition.name == "inside":
            numbers = all(kind(value) == "number" for value in values[:2])
            if numbers and inside_of(*values, self.triples) == (not condition.negated):  # None: nothing is known
                yield env
        elif condition.name in TESTS:
            strings = all(kind(value) == "string" for value in values)
            if strings and TESTS[condition.name](*values) != condition.negated:
                yield env
        elif condition.negated:
            if not any(True for _ in self.call(condition, values, env)):
                yield env
        else:
            yield from self.call(condition, values, env)

    def call(self, condition: Predicate, values: list[Any], env: Env) -> Iterator[Env]:
        """The ways a static atom holds, given some of its arguments (`...` stands for an unknown one)."""
        for row in self.rows(condition.name, values) if condition.graph is None else self.graph(condition):
            answer = dict(env)
            for argument, value, given in zip(condition.arguments, row, values):
                if given is not ...:
                    if not equal(given, value):
                        break
                elif argument.name.startswith("_#"):
                    continue
                elif argument.name not in answer:
                    answer[argument.name] = value
                elif not equal(answer[argument.name], value):
                    break
            else:
                yield answer

    def graph(self, condition: Predicate) -> list[tuple[Any, ...]]:
        """The answers of a pattern in braces. Renamed variables (of a TIMES) have their old names before a `#`."""
        if condition not in self.answers:
            names = [variable.name.removeprefix("_#").partition("#")[0] for variable in condition.arguments]
            self.answers[condition] = answers(condition.name, dict(condition.graph or ()), names, self.triples)
        return self.answers[condition]

    def rows(self, name: str, values: list[Any]) -> Iterator[tuple[Any, ...]]:
        if name == "near" and name not in self.rules:
            lat, long, radius = values[:3]
            yield from ((lat, long, radius, *found) for found in near(lat, long, radius, self.triples))
            return
        if name == "triple" and name not in self.rules:
            yield from (tuple(map(of_term, triple)) for triple in self.triples)
            return
        if self.callable(name, frozenset()):
            yield from list(self.tables.get(name, {}).values())
            return
        for rule in self.rules[name]:
            env: Env = {}
            fits = True
            for argument, value in zip(rule.arguments, values):
                if isinstance(argument, Var) and value is not ...:
                    fits = fits and equal(env.setdefault(argument.name, value), value)
            for answer in self.run(list(rule.conditions), env, (0, 0)) if fits else ():
                row = tuple(evaluate(argument, answer, (0, 0)) for argument in rule.arguments)
                if None not in row:
                    yield row
