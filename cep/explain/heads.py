"""Unify the head of a rule with a requested event. This binds variables of the rule's body."""

from __future__ import annotations

from collections.abc import Mapping

from cep.core.schema import Schema
from cep.engine import Engine
from cep.events import Value
from cep.explain.judging import TypedValue
from cep.explain.occurrences import encoded, same
from cep.plan.algebra import Rule
from cep.plan.pattern import atoms, patterns
from cep.rules.terms import Constant, Expression, Variable


def unified(rule: Rule, fixed: Mapping[int, Value], engine: Engine) -> dict[str, TypedValue] | None:
    """Return the values that the rule's variables have if its head has the arguments `fixed`, by position.

    Returns None if the head cannot have these arguments.
    """
    schemas = engine.plan.schemas
    bound: dict[str, TypedValue] = {}
    for place, value in fixed.items():
        argument: Expression = rule.arguments[place]
        if isinstance(argument, Constant) and not same(argument.value, value):
            return None
        if not isinstance(argument, Variable):
            continue
        type = _type_of(argument.name, rule, schemas) or _type_given(argument.name, place, rule, schemas)
        if type is None:  # an aggregate binds it
            continue
        if type == "int" and isinstance(value, float):
            value = int(value) if value.is_integer() else value
        if encoded([value], type, engine.pool) is None:
            return None
        if argument.name in bound and not same(bound[argument.name][0], value):
            return None
        bound[argument.name] = (float(value) if type == "float" and value is not None else value, type)
    return bound


def _type_of(name: str, rule: Rule, schemas: Mapping[str, Schema]) -> str | None:
    for atom in atoms(rule.body):
        properties = atom.properties()
        for argument, attribute in zip(properties.arguments, schemas[properties.event or ""].attributes):
            if isinstance(argument, Variable) and argument.name == name:
                return attribute.type
    return None


def _type_given(name: str, place: int, rule: Rule, schemas: Mapping[str, Schema]) -> str | None:
    if any(name == result.variable for part in patterns(rule.body) for result in part.properties().results):
        return None
    type = schemas[rule.event].attributes[place].type
    return None if type == "any" else type
