"""Type inference for the predicates of a LARS program. It starts from the declared input and follows the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.errors import CepError
from cep.language.dialects.lars.ast import AT, LarsAtom, LarsLiteral, LarsProgram, LarsRule
from cep.language.syntax.ast import EventDeclaration
from cep.plan.types import UNKNOWN, grown
from cep.rules.expressions.checking import check
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Comparison, Constant, Expression, Variable, expression_variables

Types = dict[str, tuple[str | None, ...]]
"""For each predicate, the types of its arguments. None means that a type is unknown."""


def column_types(
    program: LarsProgram, input_types: Mapping[str, Sequence[str | None]], unknown: str = UNKNOWN
) -> dict[str, tuple[str, ...]]:
    """Infer the argument types of all predicates.

    `input_types`: the declared types. `unknown`: the type to return for an argument whose type only the plan can
    determine, for instance because its value is read from the background knowledge.
    """
    by_predicate: Types = {name: tuple(types) for name, types in input_types.items()}
    for atom in _atoms(program):
        by_predicate.setdefault(atom.predicate, (None,) * len(atom.arguments))
    changed = True
    while changed:
        changed = False
        for rule in program.rules:
            if rule.head is None or rule.head.predicate in input_types:
                continue
            known = variable_types(rule, by_predicate)
            before = by_predicate[rule.head.predicate]
            grown_types = tuple(
                _grown(own, _type(argument, known)) for own, argument in zip(before, rule.head.arguments)
            )
            changed |= grown_types != before
            by_predicate[rule.head.predicate] = grown_types
    return {
        name: tuple(unknown if column is None else column for column in types) for name, types in by_predicate.items()
    }


def given_types(program: LarsProgram) -> dict[str, list[str | None]]:
    """Return the declared types of events and facts. None means that a type is unknown."""
    declared = [
        declaration
        for declaration in program.declarations
        if isinstance(declaration, EventDeclaration | FactDeclaration)
    ]
    return {
        declaration.name: [None if column.type == UNKNOWN else column.type for column in declaration.attributes]
        for declaration in declared
    }


def _atoms(program: LarsProgram) -> list[LarsAtom]:
    heads = [rule.head for rule in program.rules if rule.head is not None]
    return heads + [element.atom for rule in program.rules for element in rule.body if isinstance(element, LarsLiteral)]


def _grown(old: str | None, new: str | None) -> str | None:
    if old is None or new is None:
        return old or new
    return grown(old, new)


def variable_types(rule: LarsRule, by_predicate: Mapping[str, Sequence[str | None]]) -> dict[str, str]:
    """Return the types of a rule's variables as far as they are known. `by_predicate`: the argument types of each
    predicate, or None for an unknown type."""
    known: dict[str, str] = {}
    for element in rule.body:
        if isinstance(element, LarsLiteral) and not element.negated:
            if element.modality == AT and isinstance(element.tick, Variable):
                known[element.tick.name] = "int"
            for argument, type in zip(element.atom.arguments, by_predicate[element.atom.predicate]):
                if isinstance(argument, Variable) and type not in (None, UNKNOWN):
                    known.setdefault(argument.name, type)
    size = -1
    while len(known) > size:
        size = len(known)
        for element in rule.body:
            if not isinstance(element, Comparison) or element.operator != "=":
                continue
            for variable, other in ((element.left, element.right), (element.right, element.left)):
                if isinstance(variable, Variable) and variable.name not in known:
                    type = _type(other, known)
                    if type is not None:
                        known[variable.name] = type
    return known


def _type(expression: Expression, known: Mapping[str, str]) -> str | None:
    if isinstance(expression, Constant):
        return expression.type
    if not known.keys() >= set(expression_variables(expression)):
        return None
    try:
        return check(expression, known).type
    except CepError:  # the mistake is reported where the expression is used
        return None
