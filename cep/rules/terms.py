"""Terms and conditions of rules: variables, constants, calls; comparisons, predicates; static rules of them.

The parser builds them, and every stage behind it works on them. Spans take no part in equality: two terms written at
different places may be the same term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
    is the string of that name; a prefixed name is the Iri it stands for.
    """

    value: int | float | str | bool | Iri
    type: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values: `+ - * / // mod ** neg`, or by name: `abs`, `lower`, `start`, `duration`, ..."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


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


Condition = Comparison | Predicate


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """`unrestricted`, `recent`, `chronological`, with the tie rule: `longest`, `shortest` or `by` a variable.

    `tie` is None where nothing was written (recent: longest, chronological: shortest).
    """

    name: str
    tie: str | None = None
    by: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """`A = avg(W)`: variable, function (count sum avg min max stddev first last), argument (None: `count()`);
    `distinct` for `count(distinct X)`. The argument may be any expression over the pattern's variables."""

    variable: str
    function: str
    argument: Expression | None
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)


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


def condition_variables(condition: Condition) -> list[str]:
    """Names of the variables of a condition, likewise."""
    match condition:
        case Comparison(_, left, right):
            return expression_variables(left) + expression_variables(right)
        case Predicate(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]


def rename_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression with its variables renamed."""
    match expression:
        case Variable(name, span):
            return Variable(names.get(name, name), span)
        case Call(function, arguments, span):
            return Call(function, tuple(rename_expression(a, names) for a in arguments), span)
        case _:
            return expression


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
