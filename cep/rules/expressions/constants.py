"""Checks of constant arguments when a program is read: regular expressions, areas, units, zones and templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import Formatter

from cep.core.errors import CepError
from cep.core.literals import read_clock
from cep.events import Iri
from cep.rules.expressions.texts import groups_of, regex_error
from cep.rules.expressions.typed import Typed, TypedConstant
from cep.rules.expressions.units import mistakes as unit_mistakes

ArgumentMistake = tuple[int, str, str | None, str]
"""A mistake in a constant argument: the index of the argument, the message, the hint, and the error code."""

ZONED = frozenset(
    ("hour", "minute", "second", "day", "weekday", "month", "year", "day_of_year", "week", "date_trunc", "local_time")
)
"""The functions that take a time and may have a time zone as their last argument."""
WRITTEN = {
    "date_trunc": {0: '`date_trunc("hour", T)`'},
    "extract": {1: '`extract(S, "pump-([0-9]+)", 1)`', 2: '`extract(S, "pump-([0-9]+)", 1)`'},
    "format": {0: '`format("{} at {:.1f}", S, T)`'},
}
"""For each function, the positions of the arguments that must be constants, each with an example."""
_REGEX = 'a regular expression like `"^K[A-Z]+"`; look-around and back references are not supported'
_SAMPLES = {"int": 1, "float": 1.0}


def constant_mistakes(name: str, arguments: tuple[Typed, ...]) -> Iterator[ArgumentMistake]:
    """Yield the mistakes in the constant arguments of a function. `name`: the function."""
    values = [argument.value if isinstance(argument, TypedConstant) else None for argument in arguments]
    for place, example in WRITTEN.get(name, {}).items():
        if place < len(arguments) and values[place] is None:
            yield place, f"`{name}` needs a constant as this argument, not a computed value", f"e.g. {example}", "type"
            return
    if name in ("matches", "extract") and values[1] is not None:
        yield from _regex(name, str(values[1]), values[2] if len(values) > 2 else None)
    elif name == "split":
        if values[1] == "":
            yield 1, "the separator is empty", 'e.g. `split(S, ",", 1)`', "type"
        if values[2] == 0:
            yield 2, "parts are counted from 1", "the last is -1, the one before it -2", "type"
    elif name == "format":
        yield from _template(str(values[0]), arguments)
    elif name == "time" and values[0] is not None:
        try:
            read_clock(str(values[0]))
        except CepError as error:
            yield 0, error.message, error.hint, "type"
    elif name == "inside" and values[2] is not None and not isinstance(values[2], Iri):
        from cep.rules.expressions.areas import WrongArea, read  # needs shapely: imported only if there are areas

        try:
            read(str(values[2]))
        except WrongArea as wrong:
            yield 2, str(wrong), wrong.hint, "area"
    elif name == "value_in":
        units = [None if unit is None else str(unit) for unit in values[1:]]
        for place, message, hint in unit_mistakes(*units):
            yield place, message, hint, "unit"
    elif name in ZONED:
        yield from _calendar(name, values)


def _regex(name: str, pattern: str, group: object) -> Iterator[ArgumentMistake]:
    wrong = regex_error(pattern)
    if wrong is not None:
        yield 1, f"this is not a regular expression: {wrong}", _REGEX, "type"
    elif isinstance(group, int) and name == "extract":
        number = groups_of(pattern)
        if not 0 <= group <= number:
            group_count = "no groups" if not number else "1 group" if number == 1 else f"{number} groups"
            hint = "a group stands in parentheses; 0 is all that matches"
            yield 2, f"there is no group {group}: the regular expression has {group_count}", hint, "type"


def _template(template: str, arguments: tuple[Typed, ...]) -> Iterator[ArgumentMistake]:
    hint = 'a value is `{}`, with decimals `{:.1f}`, a brace itself `{{` or `}}`: `format("{} at {:.1f}", S, T)`'
    try:
        pieces = list(Formatter().parse(template))
    except ValueError:
        yield 0, "the braces of this text do not match", hint, "type"
        return
    number = 0
    for _, field, form, conversion in pieces:
        if field is None:
            continue
        number += 1
        if field or conversion:
            yield 0, f"`{{{field}}}` names a value, but values are used in their order", hint, "type"
            return
        if number < len(arguments):
            type = arguments[number].type
            try:
                format(_SAMPLES.get(type, "text"), form or "")
            except ValueError:
                yield (
                    0,
                    f"`{{:{form}}}` is not a way to write {'a number' if type in _SAMPLES else 'a text'}",
                    hint,
                    "type",
                )
                return
    count = len(arguments) - 1
    if number != count:
        noun = "value" if number == 1 else "values"
        yield (
            0,
            f"the text has places for {number} {noun}, but {count} {'follows' if count == 1 else 'follow'}",
            hint,
            "type",
        )


def _calendar(name: str, values: Sequence[object]) -> Iterator[ArgumentMistake]:
    from cep.rules.expressions.calendar import unknown_unit, unknown_zone  # reads time zones: imported only if needed

    first = 1 if name == "date_trunc" else 0
    if first:
        unit = unknown_unit(str(values[0]))
        if unit is not None:
            yield 0, unit[0], unit[1], "type"
    if len(values) > first + 1 and values[first + 1] is not None:
        place = unknown_zone(str(values[first + 1]))
        if place is not None:
            yield first + 1, place[0], place[1], "zone"
