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
    """Its name, its arguments, and the names of these where they have some."""

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None


def asked_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
    """Read an event. `prefixes`: of the program, with their IRIs. Raises CepError."""
    declared = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes)
    body = text.strip().removesuffix(".")
    try:
        statement = parse(f"{declared}asked <- {body}.", "event").statements[-1]
    except CepError as error:
        hint = "an event is written as in a rule: `warning(EWR, _)`, `warning(station: EWR)`"
        raise CepError(f"`{text}` is no event: {error.message}", hint=hint, code="option") from None
    if not isinstance(statement, EventRule) or not isinstance(statement.body, EventPattern):
        hint = "one event: `warning(EWR, _)`, `warning(station: EWR)`, `warning`"
        raise CepError(f"`{text}` is no event", hint=hint, code="option")
    return AskedEvent(statement.body.name, statement.body.arguments, statement.body.names)
