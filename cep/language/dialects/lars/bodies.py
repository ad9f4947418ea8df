"""Helpers for bodies of LARS rules: the variables of literals, and groups of literals that share variables."""

from __future__ import annotations

from collections.abc import Iterable

from cep.language.dialects.lars.ast import BodyLiteral, LarsLiteral
from cep.rules.terms import Comparison, Graph, Variable, expression_variables


def variables_of(element: BodyLiteral) -> list[str]:
    """Return the variables of a literal in order. A variable can occur several times."""
    match element:
        case LarsLiteral():
            terms = (*element.atom.arguments, *([] if element.tick is None else [element.tick]))
            return [name for term in terms for name in expression_variables(term)]
        case Comparison(_, left, right):
            return expression_variables(left) + expression_variables(right)
        case Graph():
            return list(element.variables)


def bound(element: BodyLiteral) -> list[str]:
    """Return the variables that a positive literal binds."""
    if isinstance(element, LarsLiteral):
        terms = (*element.atom.arguments, *([] if element.tick is None else [element.tick]))
        return [term.name for term in terms if isinstance(term, Variable) and term.name != "_"]
    return variables_of(element)


def assigned(compared: Iterable[Comparison], known: set[str]) -> list[Comparison]:
    """Sort comparisons for evaluation: first the equations that bind a variable, then all others. An equation that
    reads a variable comes after the equation that binds this variable.

    Add the variables that the equations bind to `known`.
    """
    waiting = list(compared)
    ordered: list[Comparison] = []
    while True:
        for comparison in waiting:
            for side, other in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
                binds = (
                    comparison.operator == "="
                    and isinstance(side, Variable)
                    and set(expression_variables(other)) <= known
                )
                if binds and isinstance(side, Variable) and comparison not in ordered:
                    known.add(side.name)
                    ordered.append(comparison)
        if not any(taken in waiting for taken in ordered):
            return [*ordered, *waiting]
        waiting = [pending for pending in waiting if pending not in ordered]


def shared(groups: list[list[BodyLiteral]]) -> set[str]:
    names = [name for group in groups for name in {name for element in group for name in variables_of(element)}]
    return {name for name in names if names.count(name) > 1}


def connected(literals: Iterable[BodyLiteral]) -> list[list[BodyLiteral]]:
    """Split literals into groups that have no variable in common."""
    groups: list[list[BodyLiteral]] = []
    for literal in literals:
        names = set(variables_of(literal))
        joined = [group for group in groups if names & {name for other in group for name in variables_of(other)}]
        groups = [group for group in groups if not any(group is other for other in joined)]
        groups.append([*(other for group in joined for other in group), literal])
    return groups
