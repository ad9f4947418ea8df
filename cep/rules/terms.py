"""Terms, conditions and static rules.

The parser creates them, and all later passes use them. Two terms that differ only in their spans are equal, because a
term may occur in several places of a program.
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
    """A variable such as `Wind`. Each occurrence of `_` means a different variable."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant.

    - `value`: an int, float, str, bool or Iri. Times and durations are whole microseconds. A lower-case name is a
      string, and a prefixed name is an Iri.
    - `type`: int, float, string, bool, iri, time or duration.
    - `parameter`: the name of the parameter that the program writes instead of the constant, or None.
    """

    value: int | float | str | bool | Iri
    type: str
    span: Span = field(default=NOWHERE, compare=False)
    parameter: str | None = field(default=None, compare=False)


class NamedNumber(int):
    """A number of microseconds or events that the program writes as the name of a parameter, as in `OVER LAST N
    EVENTS`. It is an int that also contains this name.

    It occurs in syntax trees and lowered rules. Plans contain plain numbers.
    """

    parameter: str

    @classmethod
    def of(cls, number: int, parameter: str | None) -> int:
        """Attach the name of a parameter to a number. If the name is None, return the number unchanged."""
        if parameter is None:
            return number
        named = cls(number)
        named.parameter = parameter
        return named


T = TypeVar("T")


def without_names(value: T) -> T:
    """Replace each NamedNumber inside `value` by a plain number."""
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
    """A call of an operator (`+ - * / // mod ** neg`) or a function (`abs`, `lower`, `start`, `duration`, ...)."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


DIVIDED = "/ of whole numbers"
"""The operator that means `//` if both operands are ints, and `/` otherwise."""

Expression = Variable | Constant | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`. The operator is one of = != < <= > >=. Programs may also write `is` and `==` for `=`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """`{ ?Station wgs84:lat ?Lat }`: a SPARQL group graph pattern over the background knowledge.

    - `text`: the text in the program, with its braces.
    - `variables`: the variables that begin with a capital, in the order of their first occurrence. They belong to
      the rule.
    - `prefixes`: the names and IRIs of the prefixes that are declared before the pattern.
    """

    text: str
    variables: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`linked(X, Y)`, `not linked(X, Y)`, or a built-in test: `contains(X, "snow")`, `matches(X, "^K")`.

    A graph pattern is also a predicate. Its arguments are those variables of the pattern that belong to the rule, and
    `name` is the pattern's text.
    """

    name: str
    arguments: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`(X > 3 or linked(X, Y), Y < 2)`: at least one of the alternatives holds. Each alternative is a conjunction.

    `local`: the variables that occur only in this disjunction, and not in all its alternatives. All other variables get
    their value from every alternative, or from the rest of the rule.
    """

    alternatives: tuple[tuple[Condition, ...], ...]
    local: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Condition = Comparison | Predicate | Disjunction


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A consumption policy: `unrestricted`, `recent` or `chronological`.

    `tie`: the rule for the choice between occurrences that tie: `longest`, `shortest`, or `by` a variable. None means
    longest for recent, and shortest for chronological.
    """

    name: str
    tie: str | None = None
    by: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


LATER = {"later": True}
"""Metadata of a field that was added in a later version. Fingerprints of goals omit the field if its value is None, so
that the fingerprints of older programs stay the same."""


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """A result of an aggregate, `A = avg(W)`.

    - `function`: the name of a function in `cep.rules.expressions.aggregates`.
    - `argument`: an expression over the pattern's variables, or None for `count()`.
    - `distinct`: True for `count(distinct X)`.
    - `parameter`: the second argument. It is a number from 0 to 100 for percentile, and microseconds for ewma.
    """

    variable: str
    function: str
    argument: Expression | None
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    parameter: float | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class StaticRule:
    """`name(arguments) :- conditions.`, or a fact, `name(arguments).`, which has no conditions."""

    name: str
    arguments: tuple[Expression, ...]
    conditions: tuple[Condition, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


def expression_variables(expression: Expression) -> list[str]:
    """Return the names of an expression's variables except `_`, in order. A name can occur several times."""
    match expression:
        case Variable(name):
            return [] if name == "_" else [name]
        case Call(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case _:
            return []


def arguments_of(results: Iterable[AggregateResult]) -> list[Expression]:
    """Return the arguments of aggregates. For `count()`, which has no argument, the result has no entry."""
    return [result.argument for result in results if result.argument is not None]


def fluent_variables(arguments: Sequence[Expression], value: Expression | None) -> list[str]:
    """Return the names of the variables in a fluent's arguments, then of the variables in its value."""
    every = (*arguments, *([] if value is None else [value]))
    return [name for expression in every for name in expression_variables(expression)]


def condition_variables(condition: Condition) -> list[str]:
    """Return the names of a condition's variables except `_` and local variables, in order. A name can occur several
    times."""
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
    """Yield all comparisons and predicates, including those in the alternatives of disjunctions."""
    for condition in conditions:
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from each_condition(alternative)
        else:
            yield condition


def localised(condition: Condition, uses: Mapping[str, int]) -> Condition:
    """Return a disjunction in which `local` is set, also in the disjunctions inside it. Return a condition of another
    kind unchanged.

    `uses`: how often the whole rule uses each variable.
    """
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
    """Yield conjunctions that contain no disjunctions. `conditions` are true if and only if at least one of these
    conjunctions is true."""
    for place, condition in enumerate(conditions):
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from disjunctive_normal_form((*conditions[:place], *alternative, *conditions[place + 1 :]))
            return
    yield tuple(condition for condition in conditions if not isinstance(condition, Disjunction))


def without_alternatives(rule: StaticRule) -> list[StaticRule]:
    """Expand a rule that has disjunctions into rules without disjunctions, which together derive the same rows."""
    return [replace(rule, conditions=conditions) for conditions in disjunctive_normal_form(rule.conditions)]


def normal_forms(conditions: Iterable[Condition]) -> int:
    """Return the number of conjunctions that `disjunctive_normal_form` yields."""
    number = 1
    for condition in conditions:
        if isinstance(condition, Disjunction):
            number *= sum(map(normal_forms, condition.alternatives))
    return number


def rename_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    match expression:
        case Variable(name, span):
            return Variable(names.get(name, name), span)
        case Call(function, arguments, span):
            return Call(function, tuple(rename_expression(a, names) for a in arguments), span)
        case _:
            return expression


def rename_result(result: AggregateResult, names: Mapping[str, str], variable: str) -> AggregateResult:
    argument = None if result.argument is None else rename_expression(result.argument, names)
    return replace(result, variable=variable, argument=argument)


def rename_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
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
    """Convert a condition to a boolean expression. Return None if the condition contains a graph pattern.

    A comparison becomes a call of its operator. A disjunction becomes `or`, a conjunction `and`, and a negated test
    `not`.
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
    """Convert conditions to one boolean expression that is true if all of them are true. Return None if they contain a
    graph pattern."""
    calls = [as_expression(condition) for condition in conditions]
    known = tuple(call for call in calls if call is not None)
    if len(known) != len(calls):
        return None
    return known[0] if len(known) == 1 else Call("and", known, span)
