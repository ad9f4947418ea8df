"""Terms and conditions of rules: variables, constants, calls; comparisons, predicates; static rules of them.

The parser builds them, and every stage behind it works on them. Spans take no part in equality: two terms written at
different places may be the same term.
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
    """`Wind`, or `_` (anonymous, each one its own)."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant. `type` is int float string bool iri time duration.

    `value` is int, float, str, bool or Iri; for time and duration whole microseconds. A lower-case name
    is the string of that name; a prefixed name is the Iri it stands for. `parameter`: the name that is written there.
    """

    value: int | float | str | bool | Iri
    type: str
    span: Span = field(default=NOWHERE, compare=False)
    parameter: str | None = field(default=None, compare=False)


class NamedNumber(int):
    """A number of microseconds or events for which a parameter is written, with its name. It stands in syntax trees and
    lowered rules; plans have plain numbers."""

    parameter: str

    @classmethod
    def of(cls, number: int, parameter: str | None) -> int:
        """Return a number with the name of a parameter, without one as it is."""
        if parameter is None:
            return number
        found = cls(number)
        found.parameter = parameter
        return found


T = TypeVar("T")


def without_names(value: T) -> T:
    """Return a value in which no number has the name of a parameter."""
    changed: Any = value
    if isinstance(value, NamedNumber):
        changed = int(value)
    elif isinstance(value, tuple):
        parts = tuple(map(without_names, value))
        changed = parts if any(one is not other for one, other in zip(parts, value)) else value
    elif isinstance(value, dict):
        changed = {key: without_names(part) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts_by_name = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        others = {name: without_names(part) for name, part in parts_by_name.items()}
        if any(others[name] is not part for name, part in parts_by_name.items()):
            changed = replace(value, **others)
    return changed  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values: `+ - * / // mod ** neg`, or by name: `abs`, `lower`, `start`, `duration`, ..."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


DIVIDED = "/ of whole numbers"
"""A division that is whole where both sides are (`//`), and is `/` otherwise: which, their types say."""

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

    `text` is what was written, with its braces. `variables`: those in it that start with an upper-case letter, which
    are the rule's, in the order in which they first appear. `prefixes`: those of the program so far, (name, IRI).
    """

    text: str
    variables: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`linked(X, Y)`, `not linked(X, Y)`; also built-in tests: `contains(X, "snow")`, `matches(X, "^K")`.

    A graph pattern is a predicate of the variables in its braces: `graph` is the pattern, `name` its text.
    """

    name: str
    arguments: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`(X > 3 or linked(X, Y), Y < 2)`: at least one of the alternatives holds, each a conjunction.

    `local`: the variables that stand in it alone, and in some alternatives only; nothing outside sees them. All others
    are bound by every alternative, or elsewhere.
    """

    alternatives: tuple[tuple[Condition, ...], ...]
    local: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Condition = Comparison | Predicate | Disjunction


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """`unrestricted`, `recent`, `chronological`, with the tie rule: `longest`, `shortest` or `by` a variable.

    `tie` is None where nothing was written (recent: longest, chronological: shortest).
    """

    name: str
    tie: str | None = None
    by: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


LATER = {"later": True}
"""Marks a field that came later: where it is None, goals are kept under the names that they had before."""


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """`A = avg(W)`: variable, function (`cep.rules.expressions.aggregates`), argument (None: `count()`);
    `distinct` for `count(distinct X)`; `parameter`: what is behind the value, of percentile a number from 0 to 100, of
    ewma microseconds. The argument may be any expression over the pattern's variables."""

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
    """Names of the variables of an expression, in order, with repetitions, without `_`."""
    match expression:
        case Variable(name):
            return [] if name == "_" else [name]
        case Call(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case _:
            return []


def arguments_of(results: Iterable[AggregateResult]) -> list[Expression]:
    """Return the arguments of the functions; `count()` has none."""
    return [each.argument for each in results if each.argument is not None]


def fluent_variables(arguments: Sequence[Expression], value: Expression | None) -> list[str]:
    """Return the variables of a fluent as it is written, its value last."""
    every = (*arguments, *([] if value is None else [value]))
    return [name for each in every for name in expression_variables(each)]


def condition_variables(condition: Condition) -> list[str]:
    """Names of the variables of a condition, likewise; not those that are local to it."""
    match condition:
        case Comparison(_, left, right):
            return expression_variables(left) + expression_variables(right)
        case Predicate(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case Disjunction(alternatives, local):
            inside = [n for conditions in alternatives for each in conditions for n in condition_variables(each)]
            return [name for name in inside if name not in local]


def each_condition(conditions: Iterable[Condition]) -> Iterator[Comparison | Predicate]:
    """Comparisons and predicates, those inside alternatives too."""
    for condition in conditions:
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from each_condition(alternative)
        else:
            yield condition


def localised(condition: Condition, uses: Mapping[str, int]) -> Condition:
    """The condition with what is local to its alternatives; `uses` counts the variables of the whole rule."""
    if not isinstance(condition, Disjunction):
        return condition
    names = [[n for each in conditions for n in condition_variables(each)] for conditions in condition.alternatives]
    inside = Counter(name for alternative in names for name in alternative)
    local = tuple(
        name
        for name, count in inside.items()
        if uses.get(name, 0) <= count and not all(name in alternative for alternative in names)
    )
    alternatives = tuple(tuple(localised(each, uses) for each in conditions) for conditions in condition.alternatives)
    return replace(condition, alternatives=alternatives, local=local)


def disjunctive_normal_form(conditions: tuple[Condition, ...]) -> Iterator[tuple[Comparison | Predicate, ...]]:
    """Conjunctions without alternatives, of which one holds where the conditions do."""
    for place, condition in enumerate(conditions):
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from disjunctive_normal_form((*conditions[:place], *alternative, *conditions[place + 1 :]))
            return
    yield tuple(each for each in conditions if not isinstance(each, Disjunction))


def without_alternatives(rule: StaticRule) -> list[StaticRule]:
    """A rule for each of the alternatives in a body: together they say the same."""
    return [replace(rule, conditions=conditions) for conditions in disjunctive_normal_form(rule.conditions)]


def normal_forms(conditions: Iterable[Condition]) -> int:
    """Return the number of conjunctions in the disjunctive normal form."""
    number = 1
    for condition in conditions:
        if isinstance(condition, Disjunction):
            number *= sum(map(normal_forms, condition.alternatives))
    return number


def rename_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression with its variables renamed."""
    match expression:
        case Variable(name, span):
            return Variable(names.get(name, name), span)
        case Call(function, arguments, span):
            return Call(function, tuple(rename_expression(a, names) for a in arguments), span)
        case _:
            return expression


def rename_result(result: AggregateResult, names: Mapping[str, str], variable: str) -> AggregateResult:
    """The result under another name, over renamed variables."""
    argument = None if result.argument is None else rename_expression(result.argument, names)
    return replace(result, variable=variable, argument=argument)


def rename_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
    """The condition with its variables renamed."""
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
            renamed = tuple(tuple(rename_condition(each, names) for each in inside) for inside in alternatives)
            return replace(condition, alternatives=renamed, local=tuple(names.get(name, name) for name in local))


def as_expression(condition: Condition) -> Call | None:
    """A condition as an expression that is true or false, None where it asks a graph pattern.

    Comparisons are calls of their operators; alternatives of `or`, conjunctions of `and`; `not` of a test.
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
    """Several conditions as one expression, likewise."""
    calls = [as_expression(each) for each in conditions]
    known = tuple(call for call in calls if call is not None)
    if len(known) != len(calls):
        return None
    return known[0] if len(known) == 1 else Call("and", known, span)
