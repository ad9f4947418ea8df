"""Inference of input declarations for LARS programs. The types of undeclared predicates follow from the rules."""

from __future__ import annotations

from dataclasses import replace

from cep.language.dialects.lars.account import comes_in
from cep.language.dialects.lars.ast import LarsProgram, LarsRule
from cep.language.dialects.lars.safety import atoms
from cep.language.syntax import ast
from cep.plan.types import grown
from cep.rules.terms import Call, Comparison, Constant, Expression, Variable


def with_inputs(program: LarsProgram) -> LarsProgram:
    """Declare the input predicates of a program that declares no events.

    Each declared event is instantaneous and has positional arguments. The types of its arguments are inferred from the
    rules.
    """
    undeclared = [
        ast.EventDeclaration(
            name,
            tuple(
                ast.AttributeTree(f"arg{index + 1}", type) for index, type in enumerate(argument_types(program, name))
            ),
            "time",
        )
        for name in comes_in(program)
    ]
    return replace(program, declarations=(*program.declarations, *undeclared)) if undeclared else program


def argument_types(program: LarsProgram, name: str) -> list[str]:
    """Infer the argument types of a predicate from the constants in its arguments. For a variable, use the constants
    with which the rule compares it.

    An argument has the type `any` if the program contains no such constant, or if its constants have incompatible
    types.
    """
    types: list[str | None] = []
    for rule in program.rules:
        compared = _compared(rule)
        for atom in (atom for atom, _ in atoms(replace(program, rules=(rule,))) if atom.predicate == name):
            types += [None] * (len(atom.arguments) - len(types))
            for index, argument in enumerate(atom.arguments):
                type = argument.type if isinstance(argument, Constant) else None
                if isinstance(argument, Variable):
                    type = compared.get(argument.name)
                before = types[index]
                types[index] = before if type is None else type if before is None else grown(before, type)
    return [column_type or "any" for column_type in types]


def _compared(rule: LarsRule) -> dict[str, str]:
    """Return types for the variables of a rule. The type of a variable is the type of the constants with which a
    comparison or calculation combines it."""
    types: dict[str, str] = {}

    def see(expression: Expression, type: str | None) -> None:
        if isinstance(expression, Variable) and type is not None:
            types[expression.name] = grown(types.get(expression.name, type), type)
        elif isinstance(expression, Call):
            inside = [argument.type for argument in expression.arguments if isinstance(argument, Constant)]
            for argument in expression.arguments:
                see(argument, inside[0] if inside else type)

    for element in rule.body:
        if isinstance(element, Comparison):
            for side, other in ((element.left, element.right), (element.right, element.left)):
                see(side, other.type if isinstance(other, Constant) else None)
    return types
