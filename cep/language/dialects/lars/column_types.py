"""Type inference for the predicates of a LARS program, from declared input through the rules."""

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
"""Argument types by predicate; None: unknown."""


def column_types(
    program: LarsProgram, given: Mapping[str, Sequence[str | None]], unknown: str = UNKNOWN
) -> dict[str, tuple[str, ...]]:
    """Infer the types of all predicates.

    `given`: the declared types. `unknown`: the type of values that only the plan can determine, such as those from the
    background knowledge.
    """
    found: Types = {name: tuple(types) for name, types in given.items()}
    for atom in _atoms(program):
        found.setdefault(atom.predicate, (None,) * len(atom.arguments))
    changed = True
    while changed:
        changed = False
        for rule in program.rules:
            if rule.head is None or rule.head.predicate in given:
                continue
            known = variable_types(rule, found)
            before = found[rule.head.predicate]
            made = tuple(_grown(own, _type(each, known)) for own, each in zip(before, rule.head.arguments))
            changed |= made != before
            found[rule.head.predicate] = made
    return {name: tuple(unknown if each is None else each for each in types) for name, types in found.items()}


def given_types(program: LarsProgram) -> dict[str, list[str | None]]:
    """Return the declared types of events and facts. None: unknown."""
    declared = [each for each in program.declarations if isinstance(each, EventDeclaration | FactDeclaration)]
    return {
        each.name: [None if column.type == UNKNOWN else column.type for column in each.attributes] for each in declared
    }


def _atoms(program: LarsProgram) -> list[LarsAtom]:
    heads = [rule.head for rule in program.rules if rule.head is not None]
    return heads + [each.atom for rule in program.rules for each in rule.body if isinstance(each, LarsLiteral)]


def _grown(old: str | None, new: str | None) -> str | None:
    if old is None or new is None:
        return old or new
    return grown(old, new)


def variable_types(rule: LarsRule, found: Mapping[str, Sequence[str | None]]) -> dict[str, str]:
    """Return the types of a rule's variables, as far as they are known."""
    known: dict[str, str] = {}
    for each in rule.body:
        if isinstance(each, LarsLiteral) and not each.negated:
            if each.modality == AT and isinstance(each.at, Variable):
                known[each.at.name] = "int"
            for argument, type in zip(each.atom.arguments, found[each.atom.predicate]):
                if isinstance(argument, Variable) and type not in (None, UNKNOWN):
                    known.setdefault(argument.name, type)
    size = -1
    while len(known) > size:
        size = len(known)
        for each in rule.body:
            if not isinstance(each, Comparison) or each.operator != "=":
                continue
            for variable, other in ((each.left, each.right), (each.right, each.left)):
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
