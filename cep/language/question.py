"""The event that a question is about, as it stands in a rule: `warning(EWR)`, `warning(station: EWR)`, `warning`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cep.core.errors import CepError
from cep.language.syntax.ast import EventPattern, EventRule
from cep.language.syntax.parser import parse
from cep.rules.terms import Expression


@dataclass(frozen=True, slots=True)
class AskedEvent:
    """Its name, its arguments, and the names of these where they have some; of a fluent its value."""

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None
    value: Expression | None = None


def asked_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
    """Read an event. `prefixes`: of the program, with their IRIs. Raises CepError."""
    declared = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes)
    body = text.strip().removesuffix(".")
    name = body.split("(")[0].strip()  # with a capital it is of a dialect
    capital = name[:1].isupper() and name.isidentifier()
    body = body[:1].lower() + body[1:] if capital else body
    try:
        statement = parse(f"{declared}asked <- {body}.", "event").statements[-1]
    except CepError as error:
        hint = "an event is written as in a rule: `warning(EWR, _)`, `warning(station: EWR)`"
        raise CepError(f"`{text}` is no event: {error.message}", hint=hint, code="option") from None
    if not isinstance(statement, EventRule) or not isinstance(statement.body, EventPattern):
        hint = "one event: `warning(EWR, _)`, `warning(station: EWR)`, `warning`"
        raise CepError(f"`{text}` is no event", hint=hint, code="option")
    asked = statement.body
    return AskedEvent(name if capital else asked.name, asked.arguments, asked.names, asked.value)
