"""Parser of durations and whole numbers."""

from __future__ import annotations

from cep.core.literals import read_duration, read_number, read_ticks
from cep.language.syntax import messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.terms import unit_after_number
from cep.rules.terms import NamedNumber

_ONE = {"second": "1 s", "minute": "1 min", "hour": "1 h", "day": "1 d"}
"""For units that are written as words, the duration to write instead."""


def duration(cursor: Cursor) -> int:
    """Read a duration of zero or more: `10 s`, `PT3H` or a number of seconds. Return microseconds."""
    parameter = cursor.parameter()
    return NamedNumber.of(_duration(cursor), parameter)


def _duration(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind == "duration":
        cursor.advance()
        return cursor.read(read_duration, token, token.text)
    if token.kind != "number" or token.text[0] == "-":
        if token.kind in ("name", "variable") and not token.key and not token.text[1:2].isdigit():
            single_unit = _ONE.get(token.text.lower().removesuffix("s"))
            hint = (
                messages.OWN_DURATION
                if single_unit is None
                else f"write `{single_unit}`: a duration is a number and a unit"
            )
            hint = cursor.parameter_meant("duration") or hint
            cursor.stop(f"a duration is a constant, found `{token.text}`", hint)
        calendar = token.kind == "variable" and token.text[0] == "P" and token.text[1:2].isdigit()
        hint = "months and years differ in length; use `P30D`, `P365D`" if calendar else messages.DURATION
        cursor.fail("a duration", hint)
    cursor.advance()
    unit = unit_after_number(cursor)
    if cursor.token.key in ("*", "/", "+", "-") and not cursor.on_new_line():
        cursor.stop(f"a duration is a constant, found `{token.text} {cursor.token.text}`", messages.OWN_DURATION)
    ticks = cursor.read(read_ticks, token, token.text, *([unit] if unit else []))
    if unit and cursor.token.kind == "number" and not cursor.on_new_line():
        cursor.fail("the end of the duration", "a duration has one unit: `90 min`, or the form `PT1H30M`")
    return ticks


def whole_number(cursor: Cursor, what: str, example: str) -> int:
    token = cursor.token
    if token.kind != "number":
        cursor.fail(f"a whole number after {what}", cursor.parameter_meant("int") or f"e.g. {example}")
    count = cursor.read(read_number, token, token.text)
    if not isinstance(count, int) or count < 1:
        cursor.stop(f"{what} takes a whole number from 1, found `{token.text}`", f"e.g. {example}")
    parameter = cursor.parameter()
    cursor.advance()
    return NamedNumber.of(count, parameter)
