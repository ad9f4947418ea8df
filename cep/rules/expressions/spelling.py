"""Hints that show how to write a constant in the type that is needed."""

from __future__ import annotations

import re

from cep.core.errors import CepError
from cep.core.literals import UNITS, read_time, write_time
from cep.events import Value

_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?", re.ASCII)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+)", re.ASCII)
CLOCK = re.compile(
    r"[ \t]+([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)", re.ASCII
)
"""A pattern that matches the blanks and the time of day after a date. Its group contains the time of day."""


def respelling(value: Value, wanted: str) -> str | None:
    """Return a hint that shows how to write a constant in the type `wanted`. Return None if it is unclear what the
    author meant."""
    meant = _respelt(value, wanted)
    return meant and f"write `{meant}`" + (", without quotes" if isinstance(value, str) else "")


def _respelt(value: Value, wanted: str) -> str | None:
    if wanted == "bool" and str(value).lower() in ("true", "false", "0", "1"):
        return "true" if str(value).lower() in ("true", "1") else "false"
    if not isinstance(value, str):
        return None
    text = value.strip()
    if wanted in ("int", "float") and _NUMBER.fullmatch(text):
        number = text.removeprefix("+").replace(",", ".")
        return number if wanted == "float" or "." not in number else None
    if wanted == "time":
        return _time(text)
    if wanted == "duration" and (parsed := _DURATION.fullmatch(text)) and parsed[2] in UNITS:
        return f"{parsed[1]} {parsed[2]}"
    return None


def joined(day: str, clock: str) -> str:
    """Join the text of a date and the text of a time of day to the text of one time."""
    return f"{day}T{clock if clock[1:2].isdigit() else '0' + clock}"


def _time(text: str) -> str | None:
    day, clock = text[:10], CLOCK.fullmatch(text[10:])
    written = joined(day, clock[1]) if clock else text
    try:
        ticks = read_time(written)
    except CepError:
        return None
    return write_time(ticks) if set(written) & set("W, ") else written  # only records use these forms
