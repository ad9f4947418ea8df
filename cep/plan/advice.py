"""Hints for mistakes of types: what an author most likely wanted to write."""

from __future__ import annotations

from collections.abc import Container, Sequence

from cep.core.errors import CepError, Source
from cep.core.schema import Attribute
from cep.plan.names import excerpt
from cep.rules.terms import Comparison, Condition, Constant, Expression, Predicate, StaticRule, each_condition

CONVERSIONS = ("int", "float", "string", "iri")


def conversion(argument: Expression, type: str, attribute: Attribute, source: Source) -> str:
    """How a head's argument of a type becomes what its attribute is declared to be."""
    declare = f"declare it `{attribute.name}: {type}`" if type != "any" else "declare the event it comes from"
    if attribute.type not in CONVERSIONS or type == "bool":
        return declare
    function = "round" if (attribute.type, type) == ("int", "float") else attribute.type
    return f"{declare}, or write `{function}({excerpt(source, argument.span) or 'X'})`"


def arrowed(error: CepError, statics: Sequence[StaticRule], events: Container[str], source: Source) -> CepError:
    """An unknown predicate of a static rule, with another hint where it is an event."""
    for static in statics:
        for condition in each_condition(static.conditions):
            if isinstance(condition, Predicate) and condition.span == error.span and condition.name in events:
                written = excerpt(source, condition.span) or f"{condition.name}(...)"
                rule = f"{static.name}(...) <- {written}"
                hint = f"`{condition.name}` is an event; a rule of events has another arrow: `{rule}`"
                return CepError(error.message, error.source, error.span, hint, error.code)
    return error


def advised(error: CepError, conditions: Sequence[Condition], events: Container[str], source: Source) -> CepError:
    """A mistake of conditions, with another hint where the program as a whole gives a better one."""
    hint = error.hint
    for condition in each_condition(conditions):
        if condition.span != error.span:
            continue
        match condition:
            case Predicate(name) if error.code == "unknown" and name in events:
                hint = f"`{name}` is an event, which stands in the pattern: `... AND {name}(...)`"
            case Comparison(_, left, right) if error.code == "type":
                for side in (left, right):
                    text = excerpt(source, side.span)
                    if isinstance(side, Constant) and side.type == "string" and text == side.value:
                        hint = f'a variable starts with an upper-case letter; `{text}` is the text "{text}"'
            case _:
                pass
    return CepError(error.message, error.source, error.span, hint, error.code)
