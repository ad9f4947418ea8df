"""Rule heads with named attributes: `alarm(station: S, level: round(M)) <- ...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.core.errors import Span
from cep.core.schema import Schema
from cep.core.suggest import did_you_mean
from cep.language.syntax import ast
from cep.rules.terms import Expression

HeadMistake = tuple[str, Span, str]
"""A mistake in a head: the message, the span, and a hint that says what to write instead."""


def head_mistakes(rule: ast.EventRule, attributes: Sequence[str], declared: bool) -> Iterator[HeadMistake]:
    """Yield the mistakes in the attribute names of a rule's head.

    `attributes`: the attribute names of the event. `declared`: True if the program declares the event.
    """
    names = rule.names or ()
    where = "it is declared" if declared else "elsewhere it is"
    written = ", ".join(f"{name}: ..." for name in attributes)
    for name, argument in zip(names, rule.arguments):
        if name not in attributes:
            hint = did_you_mean(name, attributes) or f"{where} `{rule.name}({written})`"
            yield f"`{rule.name}` has no attribute `{name}`", argument.span, hint
    missing = [f"`{name}`" for name in attributes if name not in names]
    if missing and set(names) <= set(attributes):
        message = f"the head leaves out {' and '.join(missing)}"
        yield message, rule.head_span, f"a head must have a value for every attribute: `{rule.name}({written})`"


def placed(rule: ast.EventRule, schema: Schema) -> tuple[Expression, ...]:
    """Return the arguments of a rule's head in the order of the event's attributes."""
    if rule.names is None:
        return rule.arguments
    by_name = dict(zip(rule.names, rule.arguments, strict=True))
    return tuple(by_name[attribute.name] for attribute in schema.attributes)
