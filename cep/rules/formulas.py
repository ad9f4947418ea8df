"""Formulas of defined fluents, `head WHILE formula`, as they are written; and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.core.literals import write_duration
from cep.rules.printing import print_argument, print_arguments, print_conditions, print_result
from cep.rules.terms import (
    AggregateResult,
    Condition,
    Expression,
    Variable,
    condition_variables,
    expression_variables,
)

UNARY = ("ONCE", "HISTORICALLY", "EVENTUALLY", "ALWAYS")
BINARY = ("SINCE", "UNTIL")
FUTURE = {"EVENTUALLY": "ONCE", "ALWAYS": "HISTORICALLY", "UNTIL": "SINCE"}
"""The operators that look ahead, each with the one that looks back as far."""
BOXES = ("HISTORICALLY", "ALWAYS")
"""Those that ask for all times, and those that a head may carry."""


@dataclass(frozen=True, slots=True)
class MetricInterval:
    """`[low, high]` behind an operator: how far it reaches, in microseconds; `high` None: however far. `bounds`: which
    of the two ends belong to it."""

    low: int = 0
    high: int | None = None
    bounds: str = "[)"

    @property
    def text(self) -> str:
        if self == MetricInterval():
            return ""
        high = "inf" if self.high is None else write_duration(self.high)
        return f"{self.bounds[0]}{write_duration(self.low)}, {high}{self.bounds[1]}"


@dataclass(frozen=True, slots=True)
class FormulaAtom:
    """`f(X, 3)`, `f(X) = v`, an event, `e(X) WITHIN d`: `within` in microseconds. `names`: of arguments by name."""

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None = None
    value: Expression | None = None
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """`p AND q AND NOT r`; `negated`: which of the parts are; the first is not."""

    parts: tuple[Formula, ...]
    negated: tuple[bool, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """`p OR q OR r`."""

    parts: tuple[Formula, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MetricFormula:
    """An operator of metric time over one formula, or over two."""

    operator: str
    parts: tuple[Formula, ...]
    within: MetricInterval = MetricInterval()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LastingFormula:
    """`formula LASTING >= least`, or `>`; microseconds."""

    formula: Formula
    least: int
    strictly: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RestrictedFormula:
    """`formula WHERE conditions`."""

    formula: Formula
    conditions: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AggregatedFormula:
    """`formula AGGREGATE results BY variables`."""

    formula: Formula
    results: tuple[AggregateResult, ...]
    by: tuple[Variable, ...]
    span: Span = field(default=NOWHERE, compare=False)


Formula = FormulaAtom | And | Or | MetricFormula | LastingFormula | RestrictedFormula | AggregatedFormula


def formula_parts(formula: Formula) -> tuple[Formula, ...]:
    """The formulas directly inside one."""
    match formula:
        case FormulaAtom():
            return ()
        case And() | Or() | MetricFormula():
            return formula.parts
        case _:
            return (formula.formula,)


def formula_atoms(formula: Formula) -> list[FormulaAtom]:
    """The fluents and events of a formula, as often as they are written."""
    if isinstance(formula, FormulaAtom):
        return [formula]
    return [each for part in formula_parts(formula) for each in formula_atoms(part)]


def formula_variables(formula: Formula) -> list[str]:
    """Names of the variables of a formula, with repetitions."""
    inner = [name for part in formula_parts(formula) for name in formula_variables(part)]
    match formula:
        case FormulaAtom():
            values = (*formula.arguments, *([] if formula.value is None else [formula.value]))
            return [name for each in values for name in expression_variables(each)]
        case RestrictedFormula():
            return inner + [name for each in formula.conditions for name in condition_variables(each)]
        case AggregatedFormula():
            for result in formula.results:
                inner.append(result.variable)
                inner += [] if result.argument is None else expression_variables(result.argument)
            return inner + [each.name for each in formula.by]
        case _:
            return inner


def bound_variables(formula: Formula) -> frozenset[str]:
    """The variables that a formula has values for."""
    match formula:
        case FormulaAtom(_, arguments):
            return frozenset(each.name for each in arguments if isinstance(each, Variable))
        case And(inner, negated):
            return frozenset().union(*(bound_variables(p) for p, no in zip(inner, negated, strict=True) if not no))
        case Or(inner):
            return frozenset.intersection(*map(bound_variables, inner))
        case MetricFormula(_, inner):
            return bound_variables(inner[-1])
        case LastingFormula(inner):
            return bound_variables(inner)
        case RestrictedFormula(inner, conditions):
            return bound_variables(inner) | asked(conditions)
        case AggregatedFormula(_, results, by):
            return frozenset((*(v.name for v in by), *(r.variable for r in results)))


def asked(conditions: Sequence[Condition]) -> frozenset[str]:
    """The variables of conditions."""
    return frozenset(name for each in conditions for name in condition_variables(each) if name != "_")


# --- text ---

_WHOLE, _OR, _AND, _SINCE, _UNARY = range(5)


def print_formula(formula: Formula) -> str:
    """The formula as it is read."""
    return _text(formula)[0]


def _at(formula: Formula, place: int) -> str:
    """The text, in parentheses where it holds together less than its place asks for."""
    text, holds = _text(formula)
    return text if holds >= place else f"({text})"


def _text(formula: Formula) -> tuple[str, int]:
    match formula:
        case FormulaAtom(name, arguments, names, value, within):
            text = name + print_arguments(arguments)
            if names is not None:
                pairs = (f"{key}: {print_argument(each)}" for key, each in zip(names, arguments, strict=True))
                text = f"{name}({', '.join(pairs)})"
            text += "" if value is None else f" = {print_argument(value)}"
            return (text, _UNARY) if within is None else (f"{text} WITHIN {write_duration(within)}", _WHOLE)
        case And(inner, negated):
            words = [f"{'NOT ' if no else ''}{_at(each, _SINCE)}" for each, no in zip(inner, negated, strict=True)]
            return " AND ".join(words), _AND
        case Or(inner):
            return " OR ".join(_at(each, _SINCE) for each in inner), _OR
        case MetricFormula(operator, (only,), within):
            return f"{operator}{within.text} {_at(only, _UNARY)}", _UNARY
        case MetricFormula(operator, (left, right), within):
            return f"{_at(left, _UNARY)} {operator}{within.text} {_at(right, _UNARY)}", _SINCE
        case LastingFormula(inner, least, strictly):
            return f"{_at(inner, _OR)} LASTING {'>' if strictly else '>='} {write_duration(least)}", _WHOLE
        case RestrictedFormula(inner, conditions):
            return f"{_at(inner, _OR)} WHERE {print_conditions(conditions)}", _WHOLE
        case AggregatedFormula(inner, results, by):
            groups = f" BY {', '.join(each.name for each in by)}" if by else ""
            return f"{_at(inner, _OR)} AGGREGATE {', '.join(map(print_result, results))}{groups}", _WHOLE
    raise AssertionError("an operator has one part or two")
