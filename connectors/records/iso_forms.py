"""Forms of ISO 8601 that are not supported as times. For each form, an error message suggests a supported form."""

from __future__ import annotations

import re

_DAY = r"(\d{4}-\d{2}-\d{2}|\d{4}-W\d{2}-\d|\d{4}-\d{3}|\d{8}|\d{4}W\d{3})"
_CLOCK = r"\d{2}(:?\d{2}(:?\d{2})?)?([.,]\d+)?"
_ZONE = r"([Zz]|[+-]\d{2}(:?\d{2})?)?"
_AT = rf"([Tt]{_CLOCK}{_ZONE})?"
_PERIOD = r"P(?=[\dT])(\d[\d.,]*[YMWD])*(T(\d[\d.,]*[HMS])+)?"
_DAYLESS = r"[Tt]?\d{2}:\d{2}(:\d{2})?([.,]\d+)?"
_JOIN = "the day is missing; `TIME day, clock` joins two columns"
_FORMS = (
    (r"\d{4}", "a year without a month and a day", 'declare it, `FORMAT "%Y"`'),
    (r"\d{4}-\d{2}", "a month without a day", 'declare it, `FORMAT "%Y-%m"`'),
    (r"\d{4}-?W\d{2}", "a week without a day", "add the day, `2024-W18-3`"),
    (rf"\d{{4}}-\d{{3}}{_AT}", "a day of the year", 'declare it with `%j`, as in `FORMAT "%Y-%j"`'),
    (rf"{_DAYLESS}{_ZONE}", "a time of day", _JOIN),
    (rf"{_DAY}[Tt]\d{{2}}{_ZONE}", "an hour without minutes", 'declare it, as in `FORMAT "%Y-%m-%dT%H"`'),
    (rf"{_DAY}[Tt]\d{{2}}(:?\d{{2}})?[.,]\d+{_ZONE}", "decimals of hours or minutes", "decimals of seconds are read"),
    (
        rf"{_DAY}[Tt ]\d{{2}}:?\d{{2}}:?60([.,]\d+)?{_ZONE}",
        "a leap second",
        "leap seconds are not supported; write `:59`",
    ),
    (rf"({_DAY}{_AT}|{_PERIOD})/({_DAY}{_AT}|{_CLOCK}|{_PERIOD}|\.\.)", "an interval", "START and END are two fields"),
    (_PERIOD, "a duration", "an attribute of type `duration` holds it"),
    (rf"[+-]\d{{5,}}-\d{{2}}-\d{{2}}{_AT}", "a year of more than four digits", "years are 0001 to 9999"),
    (rf"{_DAY}{_AT}", "the basic form", """declare it, as in `FORMAT "%Y%m%dT%H%M%S%z"`"""),
)
_COMPILED = tuple((re.compile(pattern, re.ASCII), what, instead) for pattern, what, instead in _FORMS)


def unread_form(text: str) -> str | None:
    """Explain why a valid ISO 8601 text is not supported as a time, and what to write instead. Return None if the text
    has none of the unsupported forms."""
    if len(text) > 60:
        return None
    for pattern, what, instead in _COMPILED:
        if pattern.fullmatch(text):
            return f"`{text}` is a form of ISO 8601 that is not supported, {what}: {instead}"
    return None
