"""Reader of the events in users' questions, such as `warning(EWR)`, `warning(station: EWR)` or `warning`.

For LARS, a question can also name an atom at a tick, `used(EWR) at 3`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cep.core.errors import CepError
from cep.language.syntax.ast import EventPattern, EventRule
from cep.language.syntax.parser import parse
from cep.rules.printing import print_string
from cep.rules.terms import Expression


@dataclass(frozen=True, slots=True)
class AskedEvent:
    """An event, fluent or atom in a question.

    - `arguments`: the arguments, each a constant or a variable.
    - `names`: the attribute names of the arguments, or None if they are positional.
    - `value`: the value of a fluent.
    - `at_tick`: True if the question is about an atom at a tick.
    - `tick`: the tick, or None for any tick.
    """

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None
    value: Expression | None = None
    at_tick: bool = False
    tick: Expression | None = None


_AT_TICK = re.compile(r"(?P<name>[^\s(]+)\s*(?P<arguments>\(.*\))?\s+at\b\s*(?P<rest>.*)", re.DOTALL)
"""A pattern that matches an atom at a tick: `used(EWR) at 3`, `used at`, or `used at(EWR, 3)`, the form in which
programs write their output."""
_PARTS = re.compile(r"(?P<name>[^(]+)\((?P<arguments>.*)\)(?P<value>\s*=\s*)?(?(value)(?P<of>.+))", re.DOTALL)
"""A pattern that matches the name, the arguments and the value of `location(P) = X`."""
_ARGUMENT = re.compile(r'(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^",])+')
"""A pattern that matches one argument. A string whose quote is not closed extends to the end of the text."""
_NAMED = re.compile(r"\s*(?P<name>[^\W\d]\w*\s*:\s)?\s*(?P<value>.*?)\s*", re.DOTALL)


def asked_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
    """Read the event of a question. Raises CepError if the text is not an event.

    `prefixes`: the prefixes of the program, each with its IRI.
    """
    prefixes = list(prefixes)
    tick_match = _AT_TICK.fullmatch(text.strip().removesuffix("."))
    try:
        return _plain_event(text, prefixes)
    except CepError:
        if tick_match is None:
            raise
    name, arguments, rest = tick_match["name"], tick_match["arguments"] or "", tick_match["rest"].strip()
    if rest.startswith("("):
        arguments, rest = arguments + rest, ""
    try:
        atom = _plain_event(f"{name}{arguments}", prefixes)
    except CepError as error:
        better = quoted(f"{name}{arguments}")
        hint = error.hint if better is None else to_type(f"{better} at {rest}")
        raise CepError(error.message, hint=hint, code="option") from None
    try:
        ticks = _plain_event(f"tick({rest})", prefixes).arguments if rest else (None,)
    except CepError:
        ticks = ()
    if len(ticks) != 1:
        hint = f"`{name}{arguments} at 3`, or `{name}{arguments} at` for any tick"
        raise CepError(f"`{rest}` is not a tick", hint=hint, code="option")
    return replace(atom, at_tick=True, tick=ticks[0])


def _plain_event(text: str, prefixes: Iterable[tuple[str, str]]) -> AskedEvent:
    declared = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes)
    body = text.strip().removesuffix(".")
    name = body.split("(")[0].strip()  # a capitalized name belongs to a dialect
    capital = name[:1].isupper() and name.isidentifier()
    body = body[:1].lower() + body[1:] if capital else body
    try:
        statement = parse(f"{declared}asked <- {body}.", "event").statements[-1]
    except CepError as error:
        better = quoted(text)
        hint = "write the event as in a rule: `warning(EWR, _)`, `warning(station: EWR)`"
        if _parses(f"{body})"):
            hint = f"its `)` is missing: `{text.strip()})`"
        elif better is not None:
            hint = to_type(better)
        raise CepError(f"`{text}` is not an event: {error.message}", hint=hint, code="option") from None
    if not isinstance(statement, EventRule) or not isinstance(statement.body, EventPattern):
        hint = "name one event: `warning(EWR, _)`, `warning(station: EWR)`, `warning`"
        raise CepError(f"`{text}` is not an event", hint=hint, code="option")
    asked = statement.body
    return AskedEvent(name if capital else asked.name, asked.arguments, asked.names, asked.value)


def quoted(text: str, place: int | None = None) -> str | None:
    """Put quotes around the arguments that are not valid values, and around the argument at the position `place`.
    Return the corrected event.

    Return None if this changes nothing, or if the result is still not a valid event.
    """
    text = text.strip().removesuffix(".")
    parts = _PARTS.fullmatch(text if ")" in text else f"{text})")
    if parts is None:
        return None
    arguments = _ARGUMENT.findall(parts["arguments"])
    written = [_as_value(argument, place == index) for index, argument in enumerate(arguments)]
    value = "" if parts["of"] is None else " = " + _as_value(parts["of"], place == len(arguments))
    better = f"{parts['name']}({', '.join(written)}){value}"
    return better if better != text and _parses(better) else None


def to_type(event: str) -> str:
    """Return a hint that says to put texts in quotes. `event`: the event with quotes, which the hint shows as an
    example."""
    return f"put text of several words in double quotes: `{event}`, in a shell `{shlex.quote(event)}`"


def _as_value(argument: str, always: bool) -> str:
    parts = _NAMED.fullmatch(argument)
    assert parts is not None, "it fits everything"
    value = parts["value"]
    if len(value) > 2 and value[0] == value[-1] == "'":
        value = value[1:-1]
        return (parts["name"] or "") + print_string(value)
    if not value or (_parses(f"asked({value})") and (value.startswith('"') or not always)):
        return argument.strip()
    if value[0] == '"':
        value = value[1:].removesuffix('"')
    elif value.count('"') == 1:
        value = value.removesuffix('"')
    return (parts["name"] or "") + print_string(value)


def _parses(event: str) -> bool:
    try:
        parse(f"asked <- {event[:1].lower()}{event[1:]}.", "event")
    except CepError:
        return False
    return True
