"""Search for the variables of patterns in the syntax tree."""

from __future__ import annotations

from cep.language.syntax import ast
from cep.rules.terms import condition_variables, expression_variables


def pattern_variables(pattern: ast.PatternTree) -> list[str]:
    """Return the names of a pattern's variables. A name can occur several times."""
    match pattern:
        case ast.EventPattern():
            value = [] if pattern.value is None else expression_variables(pattern.value)
            return [n for a in pattern.arguments for n in expression_variables(a)] + value
        case ast.TimePoint():
            return []
        case ast.Binary():
            return pattern_variables(pattern.left) + pattern_variables(pattern.right)
        case ast.Not():
            return (
                pattern_variables(pattern.absent) + pattern_variables(pattern.left) + pattern_variables(pattern.right)
            )
        case ast.UnlessTree():
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
