"""Text for people. It contains no characters that are invisible, change the writing direction or are forbidden in XML,
and its length is limited."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from cep.core.literals import say_duration
from cep.rules.alert import Template

LONGEST = 500
"""The maximum number of characters of a value. A longer value is cut and ends in `…`."""

JsonValue = str | int | float | bool | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_JOINERS = "\u200c\u200d"  # some scripts need them


def clean(text: str, longest: int = LONGEST) -> str:
    """Replace control characters and line ends by spaces and invalid characters by U+FFFD. Remove direction marks."""
    cut = text if len(text) <= 4 * longest else text[: 4 * longest]
    if not cut.isprintable():
        cut = "".join(map(_visible, cut))
    return cut if len(cut) <= longest and len(text) <= 4 * longest else cut[: longest - 1] + "…"


def _visible(character: str) -> str:
    match unicodedata.category(character):
        case "Cc" | "Zl" | "Zp":
            return " "
        case "Cf":
            return character if character in _JOINERS else ""
        case "Cs":
            return "\ufffd"
        case _:
            return "\ufffd" if ord(character) & 0xFFFE == 0xFFFE else character


def json_value(value: JsonValue, type: str) -> JsonValue:
    """Return an attribute's value for JSON: times in ISO 8601, durations in readable form, strings after `clean`."""
    if value is None or isinstance(value, bool):
        return value
    if type == "time" and isinstance(value, int):
        return rfc3339(value)
    if type == "duration" and isinstance(value, int):
        return say_duration(value)
    if isinstance(value, float) and value - value != 0:  # not a number, or infinite
        return str(value)
    return clean(value) if isinstance(value, str) else value


def value_text(value: JsonValue) -> str:
    """Return a value as text for a sentence. A missing value becomes `unknown`."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def fill_template(template: Template, values: dict[str, JsonValue], in_address: bool = False) -> str:
    """Fill a template with values that `json_value` returned. `in_address`: True to encode the values for a URL."""
    if not template:
        return ""
    texts = (clean(part, 4096) if isinstance(part, str) else value_text(values[part[0]]) for part in template)
    if not in_address:
        return "".join(texts)
    return "".join(text if isinstance(part, str) else quote(text, safe="") for part, text in zip(template, texts))


def rfc3339(ticks: int) -> str:
    """Return a time as text in RFC 3339, in UTC, to the microsecond. A time outside the years 1 to 9999 becomes the
    nearest microsecond in these years."""
    return at(ticks).isoformat().replace("+00:00", "Z")


def at(ticks: int) -> datetime:
    """Return a time as a datetime in UTC. A time outside the years 1 to 9999 becomes the nearest time in this range."""
    return _EPOCH + timedelta(microseconds=min(max(ticks, _FIRST), _LAST))
