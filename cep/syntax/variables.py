"""The variables of expressions and conditions: which there are, and other names for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cep.syntax import ast


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
