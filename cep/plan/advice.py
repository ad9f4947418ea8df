"""Better hints for error messages, which suggest what the author probably meant to write."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace

from cep.core.errors import CepError, CepErrors, Source, Warning
from cep.core.schema import Attribute
from cep.core.suggest import nearest
from cep.plan.names import excerpt
from cep.rules.terms import Comparison, Condition, Constant, Expression, Predicate, StaticRule, each_condition

CONVERSIONS = ("int", "float", "string", "iri")
_UNKNOWN = re.compile(
    r"`(?P<unbound>[A-Z]\w*)`(?:.* is not bound\b| has no value(?:$|: the body)| is used nowhere else)"
    r"|.*\b(?:number|tick)\b.*, found `(?P<found>[A-Z]\w*)`$"
)
"""A pattern for error messages about a variable that may be a mistyped parameter. It also matches messages of dialects
that expect a number and find a name."""
_MEANT = re.compile(r"^did you mean `([^`]+)`\?$")


def conversion(argument: Expression, type: str, attribute: Attribute, source: Source) -> str:
    """Return the hint for a head argument whose type does not fit the declared attribute. `type`: its type."""
    declare = f"declare it `{attribute.name}: {type}`" if type != "any" else "declare the event it comes from"
    if attribute.type not in CONVERSIONS or type == "bool":
        return declare
    function = "round" if (attribute.type, type) == ("int", "float") else attribute.type
    return f"{declare}, or write `{function}({excerpt(source, argument.span) or 'X'})`"


def arrowed(error: CepError, statics: Sequence[StaticRule], events: Container[str], source: Source) -> CepError:
    """Return the error of a static rule, possibly with a better hint.

    If the rule uses an event as a static predicate, the hint shows the arrow of event rules.
    """
    for static in statics:
        for condition in each_condition(static.conditions):
            if isinstance(condition, Predicate) and condition.span == error.span and condition.name in events:
                written = excerpt(source, condition.span) or f"{condition.name}(...)"
                rule = f"{static.name}(...) <- {written}"
                hint = f"`{condition.name}` is an event; a rule of events has another arrow: `{rule}`"
                return CepError(error.message, error.source, error.span, hint, error.code)
    return error


def advised(error: CepError, conditions: Sequence[Condition], events: Container[str], source: Source) -> CepError:
    """Return the error of a condition, possibly with a better hint. The hint says what to write if a predicate is
    really an event, or if a text was meant to be a variable."""
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


def parameters_meant(error: CepError, parameters: Collection[str]) -> CepError:
    """Return `error`, an error or a group of errors, with better hints. If the name of an unbound variable resembles a
    parameter, the hint names the parameter."""
    if isinstance(error, CepErrors):
        return CepErrors([parameters_meant(error, parameters) for error in error.errors])
    meant = _parameter_meant(error, parameters)
    return CepError(error.message, error.source, error.span, meant, error.code) if meant else error


def warned_of_parameters(warnings: Sequence[Warning], parameters: Collection[str]) -> Iterator[Warning]:
    """Yield `warnings` with better hints. If the name of an unused variable resembles a parameter, the hint names the
    parameter."""
    for warning in warnings:
        meant = _parameter_meant(warning, parameters)
        yield replace(warning, hint=meant) if meant else warning


def _parameter_meant(told: CepError | Warning, parameters: Collection[str]) -> str | None:
    unknown = _UNKNOWN.match(told.message)
    if unknown is None or not parameters or told.span is None or told.source is None:
        return None
    name = unknown["unbound"] or unknown["found"]
    if excerpt(told.source, told.span) != name:
        return None
    other = _MEANT.match(told.hint or "")
    meant = nearest(name, [*parameters, *(other.groups() if other else ())])
    return f"did you mean `{meant}`?" if meant in parameters else None
