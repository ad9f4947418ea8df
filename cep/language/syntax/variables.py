"""The variables of expressions, conditions and patterns: which there are, and other names for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cep.language.syntax import ast


def expression_variables(expression: ast.Expression) -> list[str]:
    """Names of the variables of an expression, in order, with repetitions, without `_`."""
    match expression:
        case ast.Variable(name):
            return [] if name == "_" else [name]
        case ast.Call(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]
        case _:
            return []


def condition_variables(condition: ast.Condition) -> list[str]:
    """Names of the variables of a condition, likewise."""
    match condition:
        case ast.Comparison(_, left, right):
            return expression_variables(left) + expression_variables(right)
        case ast.Predicate(_, arguments):
            return [name for argument in arguments for name in expression_variables(argument)]


def pattern_variables(pattern: ast.Pattern) -> list[str]:
    """Names of the variables of a pattern, likewise."""
    match pattern:
        case ast.EventPattern():
            return [n for a in pattern.arguments for n in expression_variables(a)]
        case ast.TimePoint():
            return []
        case ast.Binary():
            return pattern_variables(pattern.left) + pattern_variables(pattern.right)
        case ast.Not():
            return (
                pattern_variables(pattern.absent) + pattern_variables(pattern.left) + pattern_variables(pattern.right)
            )
        case ast.Unless():
            return pattern_variables(pattern.left) + pattern_variables(pattern.absent)
        case ast.Where():
            return pattern_variables(pattern.pattern) + [n for c in pattern.conditions for n in condition_variables(c)]
        case ast.Aggregate():
            inner = pattern_variables(pattern.pattern) + [v.name for v in pattern.by]
            for result in pattern.results:
                inner.append(result.variable)
                inner += [] if result.argument is None else expression_variables(result.argument)
            return inner
        case ast.Policy():
            return pattern_variables(pattern.pattern) + ([pattern.choice.by] if pattern.choice.by else [])
        case _:
            return pattern_variables(pattern.pattern)


def rename_expression(expression: ast.Expression, names: Mapping[str, str]) -> ast.Expression:
    """The expression with its variables renamed."""
    match expression:
        case ast.Variable(name, span):
            return ast.Variable(names.get(name, name), span)
        case ast.Call(function, arguments, span):
            return ast.Call(function, tuple(rename_expression(a, names) for a in arguments), span)
        case _:
            return expression


def rename_condition(condition: ast.Condition, names: Mapping[str, str]) -> ast.Condition:
    """The condition with its variables renamed."""
    match condition:
        case ast.Comparison():
            return replace(
                condition,
                left=rename_expression(condition.left, names),
                right=rename_expression(condition.right, names),
            )
        case ast.Predicate():
            return replace(condition, arguments=tuple(rename_expression(a, names) for a in condition.arguments))
