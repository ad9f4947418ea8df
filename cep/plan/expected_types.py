"""Infer the types of empty columns of the knowledge from the rules that use these columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cep.plan.algebra import Rule, Rules
from cep.plan.pattern import Pattern, conditions, patterns
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Predicate,
    StaticRule,
    Variable,
    each_condition,
    expression_variables,
)

ArgumentPosition = tuple[str, int]
"""A predicate and the position of one of its arguments."""

_PASSED_ON = ("first", "last", "mode", "min", "max", "sum")  # aggregates of the type of their input


def wanted(rules: Rules, types: Mapping[ArgumentPosition, str | None]) -> dict[ArgumentPosition, str]:
    """Infer the types of the argument positions that are None in `types`. Their columns contain no values.

    If the values of a column would reach a declared attribute, directly or through static rules and undeclared events,
    the column has the attribute's type. If a policy ranks by the column and nothing else uses it, the column is a
    float.

    The result lacks a position if no type can be inferred, or if several types are inferred. Such a column has the type
    `any`. But if the inferred types are int and float, the column is an int.
    """
    wants = _Wants(rules, types)
    for rule in rules.rules:
        schema = rules.schemas[rule.event]
        if schema.declared:
            for argument, attribute in zip(rule.arguments, schema.attributes, strict=True):
                wants.event(rule, argument, attribute.type)
    expected = {place: _one(types) for place, types in wants.follow().items()}
    wants = _Wants(rules, {place: expected.get(place, type) for place, type in types.items()})
    for rule in rules.rules:
        for pattern in patterns(rule.body):
            policy = pattern.properties().policy
            if policy is not None and policy.by is not None:
                wants.event(rule, Variable(policy.by), "float")
    expected |= {place: _one(types) for place, types in wants.follow().items()}
    return {place: type for place, type in expected.items() if type != "any"}


def _one(types: Collection[str]) -> str:
    if set(types) == {"int", "float"}:
        return "int"
    return next(iter(types)) if len(types) == 1 else "any"


class _Wants:
    """A search that begins at variables whose type is known, and goes back to the columns from which they get their
    values."""

    def __init__(self, rules: Rules, types: Mapping[ArgumentPosition, str | None]) -> None:
        self.rules = rules
        self.types = types
        self.derived = {rule.event for rule in rules.rules if not rules.schemas[rule.event].declared}
        self.statics = {rule.name for rule in rules.statics}
        self.found: dict[ArgumentPosition, list[str]] = {}
        self.todo: list[tuple[bool, str, int, str]] = []  # (is an event, name, position, type)
        self.seen: set[tuple[bool, str, int, str]] = set()

    def follow(self) -> dict[ArgumentPosition, list[str]]:
        while self.todo:
            event, name, place, type = self.todo.pop()
            if event:
                for rule in self.rules.rules:
                    if rule.event == name:
                        self.event(rule, rule.arguments[place], type)
            else:
                for static in self.rules.statics:
                    if static.name == name and place < len(static.arguments):
                        self.static(static, static.arguments[place], type)
        return self.found

    def event(self, rule: Rule, argument: Expression, type: str) -> None:
        """Record that an argument or variable of an event rule must have the type `type`."""
        self.ask(argument, type, patterns(rule.body), [*each_condition(conditions(rule.body))], frozenset())

    def static(self, rule: StaticRule, argument: Expression, type: str) -> None:
        self.ask(argument, type, (), [*each_condition(rule.conditions)], frozenset())

    def ask(
        self,
        argument: Expression,
        type: str,
        parts: Sequence[Pattern],
        conditions: Sequence[Condition],
        passed: frozenset[str],
    ) -> None:
        for name in _operands(argument, type):
            if name in passed:
                continue
            self.sources(name, type, parts, conditions)
            for other in _made_of(name, parts, conditions):
                self.ask(other, type, parts, conditions, passed | {name})

    def sources(self, name: str, type: str, parts: Sequence[Pattern], conditions: Sequence[Condition]) -> None:
        """Find the columns and events from which a variable gets its values, and record that they must have the type
        `type`.

        A column that already has another type keeps it.
        """
        places = [
            (True, properties.event, i)
            for properties in (part.properties() for part in parts)
            if properties.event is not None
            for i, argument in enumerate(properties.arguments)
            if argument == Variable(name)
        ]
        if any(event not in self.derived for _, event, _ in places):
            return
        places += [
            (False, condition.name, i)
            for condition in conditions
            if isinstance(condition, Predicate) and not condition.negated
            for i, argument in enumerate(condition.arguments)
            if argument == Variable(name)
        ]
        known = [self.types[asked, i] for event, asked, i in places if not event and (asked, i) in self.types]
        if any(known_type is not None and known_type != type for known_type in known):
            return
        for event, asked, i in places:
            if not event and (asked, i) in self.types:
                if self.types[asked, i] is None and type not in self.found.setdefault((asked, i), []):
                    self.found[asked, i].append(type)
            elif (event or asked in self.statics) and (event, asked, i, type) not in self.seen:
                self.seen.add((event, asked, i, type))
                self.todo.append((event, asked, i, type))


def _operands(expression: Expression, type: str) -> Iterator[str]:
    """Yield the variables of an expression that must have the type `type` so that the expression has this type."""
    match expression:
        case Variable(name) if name != "_":
            yield name
        case Call("+" | "-", (left, Constant())) if type == "time":
            yield from _operands(left, type)
        case Call("+" | "-" | "*" | "//" | "mod" | "**" | "neg", arguments) if type == "int":
            for argument in arguments:
                yield from _operands(argument, type)
        case Call(function, arguments) if function in FUNCTIONS and FUNCTIONS[function].gives == "same":
            for argument in arguments:
                yield from _operands(argument, type)


def _made_of(name: str, parts: Sequence[Pattern], conditions: Sequence[Condition]) -> Iterator[Expression]:
    """Yield the expressions from which a variable gets its value: the other side of an equation, or the argument of an
    aggregate."""
    for condition in conditions:
        if isinstance(condition, Comparison) and condition.operator == "=":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if side == Variable(name) and name not in expression_variables(other):
                    yield other
    for part in parts:
        for result in part.properties().results:
            if result.variable == name and result.function in _PASSED_ON and result.argument is not None:
                yield result.argument
