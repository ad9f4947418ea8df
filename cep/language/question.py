"""The event that a question is about, as it stands in a rule: `warning(EWR)`, `warning(station: EWR)`, `warning`; of
LARS also an atom at a tick, `used(EWR) at 3`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cep.core.errors import CepError
from cep.language.syntax.ast import EventPattern, EventRule
from cep.language.syntax.parser import parse
from cep.rules.terms import Expression


@dataclass(frozen=True, slots=True)
class AskedEvent:
    """Its name, its arguments, and the names of these where they have some; of a fluent its value. `at`: it is an atom
    at a tick, which may be written, too."""

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None
    value: Expression | None = None
    at: bool = False
    tick: Expression | None = None


_AT_TICK = re.compile(r"(?P<name>[^\s(]+)\s*(?P<arguments>\(.*\))?\s+at\b\s*(?P<rest>.*)", re.DOTALL)
"""`used(EWR) at 3`, `used at`; and `used at(EWR, 3)`, as it is written where it is told."""


def asked_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
    """Read an event. `prefixes`: of the program, with their IRIs. Raises CepError."""
    prefixes = list(prefixes)
    at = _AT_TICK.fullmatch(text.strip().removesuffix("."))
    try:
        return _plain_event(text, prefixes)
    except CepError:
        if at is None:
            raise
    name, arguments, rest = at["name"], at["arguments"] or "", at["rest"].strip()
    if rest.startswith("("):
        arguments, rest = arguments + rest, ""
    atom = _plain_event(f"{name}{arguments}", prefixes)
    try:
        ticks = _plain_event(f"tick({rest})", prefixes).arguments if rest else (None,)
    except CepError:
        ticks = ()
    if len(ticks) != 1:
        raise CepError(f"`{rest}` is no tick", hint=f"`{name}{arguments} at 3`, or `at` alone for any", code="option")
    return replace(atom, at=True, tick=ticks[0])


def _plain_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
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
