"""Terms, conditions and static rules.

The parser creates them, and all later stages use them. Spans do not count for equality: a term may occur in several
places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from cep.core.errors import NOWHERE, Span
from cep.events import Iri


@dataclass(frozen=True, slots=True)
class Variable:
    """`Wind`, or `_`, which is a different variable at each occurrence."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant. `type`: int, float, string, bool, iri, time or duration.

    `value` is int, float, str, bool or Iri; times and durations are whole microseconds. A lower-case name is the string
    of that name, and a prefixed name its Iri. `parameter`: the parameter's name, if the program writes a parameter
    instead of the constant.
    """

    value: int | float | str | bool | Iri
    type: str
    span: Span = field(default=NOWHERE, compare=False)
    parameter: str | None = field(default=None, compare=False)


class NamedNumber(int):
    """A number of microseconds or events that a program writes as a parameter, with the parameter's name.

    It occurs in syntax trees and lowered rules. Plans contain plain numbers.
    """

    parameter: str

    @classmethod
    def of(cls, number: int, parameter: str | None) -> int:
        """Return the number with a parameter's name. Without a name, return the number unchanged."""
        if parameter is None:
            return number
        named = cls(number)
        named.parameter = parameter
        return named


T = TypeVar("T")


def without_names(value: T) -> T:
    """Replace each NamedNumber in a value by a plain number."""
    changed: Any = value
    if isinstance(value, NamedNumber):
        changed = int(value)
    elif isinstance(value, tuple):
        parts = tuple(map(without_names, value))
        changed = parts if any(own_part is not other for own_part, other in zip(parts, value)) else value
    elif isinstance(value, dict):
        changed = {key: without_names(part) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts_by_name = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        others = {name: without_names(part) for name, part in parts_by_name.items()}
        if any(others[name] is not part for name, part in parts_by_name.items()):
            changed = replace(value, **others)
    return changed  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Call:
    """A call: an operator `+ - * / // mod ** neg`, or a function: `abs`, `lower`, `start`, `duration`, ..."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


DIVIDED = "/ of whole numbers"
"""The operator that means `//` if both operands are ints, and `/` otherwise."""

Expression = Variable | Constant | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; operator is one of = != < <= > >= (`is` and `==` are read as `=`)."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """`{ ?Station wgs84:lat ?Lat }`: a SPARQL group graph pattern over the background knowledge.

    `text`: as written, with braces. `variables`: the variables that begin with a capital, which belong to the rule, in
    the order of first occurrence. `prefixes`: the prefixes declared before the pattern, as (name, IRI).
    """

    text: str
    variables: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`linked(X, Y)`, `not linked(X, Y)`, or a built-in test: `contains(X, "snow")`, `matches(X, "^K")`.

    A graph pattern is a predicate of the variables in its braces. `graph` is the pattern, `name` its text.
    """

    name: str
    arguments: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`(X > 3 or linked(X, Y), Y < 2)`: at least one of the alternatives holds. Each is a conjunction.

    `local`: variables that occur only in this disjunction, and not in all alternatives. They are not visible outside.
    All other variables are bound by every alternative, or outside the disjunction.
    """

    alternatives: tuple[tuple[Condition, ...], ...]
    local: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Condition = Comparison | Predicate | Disjunction


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A consumption policy: `unrestricted`, `recent` or `chronological`, with a rule for ties.

    `tie`: `longest`, `shortest`, `by` a variable, or None if not written (recent: longest, chronological: shortest).
    """

    name: str
    tie: str | None = None
    by: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


LATER = {"later": True}
"""Metadata of a field that was added later. If its value is None, fingerprints of goals omit it, so they do not
change."""


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """A result, `A = avg(W)`.

    `function`: a name in `cep.rules.expressions.aggregates`. `argument`: any expression over the pattern's variables;
    None for `count()`. `distinct`: `count(distinct X)`. `parameter`: the second argument, a number from 0 to 100 for
    percentile, microseconds for ewma.
    """

    variable: str
    function: str
    argument: Expression | None
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    parameter: float | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class StaticRule:
    """`name(arguments) :- conditions.`, or a fact `name(arguments).` (no conditions)."""

    name: str
    arguments: tuple[Expression, ...]
    conditions: tuple[Condition, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


def expression_variables(expression: Expression) -> list[str]:
    """Return the names of an expression's variables in order, with repetitions, except `_`."""
    match expression:
        case Variable(name):
            return [] if name == "_" else [name]
        case Call(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case _:
            return []


def arguments_of(results: Iterable[AggregateResult]) -> list[Expression]:
    """Return the arguments of the aggregates. `count()` has none."""
    return [result.argument for result in results if result.argument is not None]


def fluent_variables(arguments: Sequence[Expression], value: Expression | None) -> list[str]:
    """Return the variables of a fluent's arguments, then the variables of its value."""
    every = (*arguments, *([] if value is None else [value]))
    return [name for expression in every for name in expression_variables(expression)]


def condition_variables(condition: Condition) -> list[str]:
    """Return the names of a condition's variables in order, with repetitions, except `_` and local variables."""
    match condition:
        case Comparison(_, left, right):
            return expression_variables(left) + expression_variables(right)
        case Predicate(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case Disjunction(alternatives, local):
            inside = [
                n for conditions in alternatives for condition in conditions for n in condition_variables(condition)
            ]
            return [name for name in inside if name not in local]


def each_condition(conditions: Iterable[Condition]) -> Iterator[Comparison | Predicate]:
    """Yield all comparisons and predicates, including those inside alternatives."""
    for condition in conditions:
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from each_condition(alternative)
        else:
            yield condition


def localised(condition: Condition, uses: Mapping[str, int]) -> Condition:
    """Determine the local variables of disjunctions. `uses`: how often the whole rule uses each variable."""
    if not isinstance(condition, Disjunction):
        return condition
    names = [
        [n for condition in conditions for n in condition_variables(condition)] for conditions in condition.alternatives
    ]
    inside = Counter(name for alternative in names for name in alternative)
    local = tuple(
        name
        for name, count in inside.items()
        if uses.get(name, 0) <= count and not all(name in alternative for alternative in names)
    )
    alternatives = tuple(
        tuple(localised(condition, uses) for condition in conditions) for conditions in condition.alternatives
    )
    return replace(condition, alternatives=alternatives, local=local)


def disjunctive_normal_form(conditions: tuple[Condition, ...]) -> Iterator[tuple[Comparison | Predicate, ...]]:
    """Yield conjunctions without alternatives. At least one of them holds if and only if the conditions hold."""
    for place, condition in enumerate(conditions):
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from disjunctive_normal_form((*conditions[:place], *alternative, *conditions[place + 1 :]))
            return
    yield tuple(condition for condition in conditions if not isinstance(condition, Disjunction))


def without_alternatives(rule: StaticRule) -> list[StaticRule]:
    """Expand a rule with alternatives into equivalent rules without alternatives."""
    return [replace(rule, conditions=conditions) for conditions in disjunctive_normal_form(rule.conditions)]


def normal_forms(conditions: Iterable[Condition]) -> int:
    """Return the number of conjunctions in the disjunctive normal form."""
    number = 1
    for condition in conditions:
        if isinstance(condition, Disjunction):
            number *= sum(map(normal_forms, condition.alternatives))
    return number


def rename_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Rename the variables of an expression."""
    match expression:
        case Variable(name, span):
            return Variable(names.get(name, name), span)
        case Call(function, arguments, span):
            return Call(function, tuple(rename_expression(a, names) for a in arguments), span)
        case _:
            return expression


def rename_result(result: AggregateResult, names: Mapping[str, str], variable: str) -> AggregateResult:
    """Rename the variable of a result, and the variables of its argument."""
    argument = None if result.argument is None else rename_expression(result.argument, names)
    return replace(result, variable=variable, argument=argument)


def rename_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
    """Rename the variables of a condition."""
    match condition:
        case Comparison():
            return replace(
                condition,
                left=rename_expression(condition.left, names),
                right=rename_expression(condition.right, names),
            )
        case Predicate():
            return replace(condition, arguments=tuple(rename_expression(a, names) for a in condition.arguments))
        case Disjunction(alternatives, local):
            renamed = tuple(tuple(rename_condition(part, names) for part in inside) for inside in alternatives)
            return replace(condition, alternatives=renamed, local=tuple(names.get(name, name) for name in local))


def as_expression(condition: Condition) -> Call | None:
    """Return a condition as a boolean expression, or None if it contains a graph pattern.

    Comparisons become calls of their operators, alternatives `or`, conjunctions `and`, and negated tests `not`.
    """
    match condition:
        case Comparison(operator, left, right, span):
            return Call(operator, (left, right), span)
        case Predicate(name, arguments, negated, span, graph):
            call = Call(name, arguments, span)
            return None if graph is not None else Call("not", (call,), span) if negated else call
        case Disjunction(alternatives, _, span):
            sides = [conjunction(inside, span) for inside in alternatives]
            known = tuple(side for side in sides if side is not None)
            return Call("or", known, span) if len(known) == len(sides) else None


def conjunction(conditions: tuple[Condition, ...], span: Span) -> Call | None:
    """Return several conditions as one boolean expression, or None if they contain a graph pattern."""
    calls = [as_expression(condition) for condition in conditions]
    known = tuple(call for call in calls if call is not None)
    if len(known) != len(calls):
        return None
    return known[0] if len(known) == 1 else Call("and", known, span)
