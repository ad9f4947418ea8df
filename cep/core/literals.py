"""Reading and writing of constants: numbers, times, durations and strings. Numbers are exact to the 64th bit, times and
durations to the microsecond."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from cep.core.errors import CepError
from cep.core.time import FARTHEST

SECOND = 1_000_000
UNITS = {"ms": 1_000, "s": SECOND, "min": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND}
LARGEST = 2**63 - 1  # -LARGEST is the smallest integer: -2**63 marks a missing value
LONGEST = f"{FARTHEST // UNITS['d']} d"

CALENDAR = range(-62_135_596_800 * SECOND, 253_402_300_800 * SECOND)  # the years 1 to 9999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(\d{4}-(?:\d{2}-\d{2}|W\d{2}-\d))"
    r"(?:[Tt ](\d{2}:\d{2})(?::(\d{2})(?:[.,](\d+))?)?([Zz]|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII)
_ISO_PART = re.compile(r"([0-9.]+)([WDHMS])")
_ISO_UNITS = {"W": 7 * UNITS["d"], "D": UNITS["d"], "H": UNITS["h"], "M": UNITS["min"], "S": SECOND}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


LEAST = f"is -2**63, which stands for a missing value: integers begin at {-LARGEST}"
"""The reason why the least 64-bit number is refused."""


def _refuse(message: str, hint: str | None = None) -> CepError:
    return CepError(message, hint=hint, code="syntax")  # the parser adds the place


def read_number(text: str) -> int | float:
    """Read a number: an int if the text has only digits after an optional `-`, otherwise a finite float.

    Raises CepError if the number is out of range.
    """
    if text.startswith("-"):
        return -read_number(text[1:])
    if text.isdigit():
        if len(text.lstrip("0")) > 19 or int(text) > LARGEST:
            if len(text.lstrip("0")) == 19 and int(text) == LARGEST + 1:
                message = f"integers must be from {-LARGEST} to {LARGEST}"
                raise _refuse(message, "-2**63 means a missing value; `9.3e18` is a float")
            raise _refuse("this integer needs more than 64 bits", f"the largest is {LARGEST}; `1e20` is a float")
        return int(text)
    value = float(text)
    if value == float("inf"):
        raise _refuse("this number is too large", "the largest is about 1.8e308")
    return value


def read_ticks(text: str, unit: int | Fraction = SECOND) -> int:
    """Convert a decimal number of units to microseconds, exactly. `unit`: the number of microseconds in one unit.

    Raises CepError if the result is not a whole number of microseconds, or is out of range.
    """
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    shift = _small(exponent or "0") - len(fraction) + len(digits) - len(significant)
    if len(significant) + shift > 19:
        raise too_long()
    if shift < -19:  # the finest part of a day in whole microseconds has 13 decimals
        raise _too_fine()
    ticks: int
    count = int(significant) * unit.numerator * 10 ** max(shift, 0)
    ticks, rest = divmod(count, unit.denominator * 10 ** max(-shift, 0))
    if rest:
        raise _too_fine()
    if ticks > FARTHEST:
        raise too_long()
    return ticks


def _small(exponent: str) -> int:
    digits = exponent.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) < 9 else 10**9
    return -size if exponent.startswith("-") else size


def _too_fine() -> CepError:
    return _refuse("this time is finer than a microsecond", "leave out the digits below a microsecond")


def too_long() -> CepError:
    """Return the error for times and durations beyond their range."""
    hint = f"a duration is at most `{LONGEST}`, and a time at most that far from 1970; a bare number is seconds"
    return _refuse("this is more than 36 thousand years", hint)


def read_duration(text: str) -> int:
    """Read an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as `P1DT2H`, as microseconds."""
    total = sum(read_ticks(number, _ISO_UNITS[unit]) for number, unit in _ISO_PART.findall(text))
    if total > FARTHEST:
        raise too_long()
    return total


def read_time(text: str) -> int:
    """Read an ISO 8601 time as microseconds since 1970. Raises CepError if the text is not a valid time.

    A time without an offset is UTC, and a day without a time of day means midnight. `24:00` is the next midnight.
    """
    form = "a time is written `2013-02-08T18:00:00Z`, with `+01:00` for an offset, or `2013-02-08` for a day"
    match = _TIME.fullmatch(text)
    if match is None:
        raise _refuse(f"`{text}` is not a time", form)
    day, minute, second, fraction, offset = match.groups()
    fraction = (fraction or "").rstrip("0")
    if len(fraction) > 6:
        raise _too_fine()
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    ends_day = minute == "24:00" and second in (None, "00") and not fraction
    clock = f"{'00:00' if ends_day else minute or '00:00'}:{second or '00'}"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone}") + timedelta(days=ends_day)
        ticks = (moment - _EPOCH) // timedelta(microseconds=1) + int(fraction.ljust(6, "0"))
        if ticks not in CALENDAR:
            raise OverflowError
    except (ValueError, OverflowError):
        raise _refuse(f"`{text}` is not a time of the calendar", form) from None
    return ticks


def read_instant(text: str, unit: Fraction | None) -> int:
    """Read the time in an option, and return it as microseconds since 1970.

    The text is a time such as `2013-02-08 18:00`, or a number. `unit`: the number of microseconds that the number 1
    means. If it is None, numbers are refused, because the inputs count time in different units. Raises CepError if the
    time is not valid.
    """
    written = text.strip()
    digits = written.removeprefix("-")
    if not (digits.isascii() and digits.replace(".", "", 1).isdigit()):
        return read_time(written)
    form = "write the time as `2013-02-08T18:00:00Z`"
    if unit is None:
        raise _refuse(f"`{written}` is a bare number, and the inputs count time in several units", form)
    try:
        ticks = read_ticks(digits, unit)
    except CepError as error:
        hint = f"a bare number has the unit of the input's times; else {form}"
        raise _refuse(f"`{written}`: {error.message}", hint) from None
    return -ticks if written != digits else ticks


def read_clock(text: str) -> int:
    """Read a time of day, such as `22:00` or `06:30:15.5`, as microseconds since midnight. `24:00` is the end of the
    day.

    Raises CepError if the text is not a time of day.
    """
    form = "a time of day is written `22:00`, or with seconds `06:30:15`"
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise _refuse(f"`{text}` is not a time of day", form)
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    ticks = hour * UNITS["h"] + minute * UNITS["min"] + second * SECOND + int((match[4] or "").ljust(6, "0"))
    if minute > 59 or second > 59 or ticks > UNITS["d"]:
        raise _refuse(f"`{text}` is not a time of day", form)
    return ticks


def is_clock(text: str) -> bool:
    """Return True if a text is a time of day."""
    try:
        read_clock(text)
    except CepError:
        return False
    return True


def write_time(ticks: int) -> str:
    """Write a time in ISO 8601 (UTC) with the necessary decimals. A time outside the calendar is written in seconds."""
    if ticks not in CALENDAR:
        return _decimal(ticks, "s").removesuffix(" s")
    moment = _EPOCH + timedelta(microseconds=ticks)
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if moment.microsecond else text) + "Z"


def write_duration(ticks: int) -> str:
    """Write a duration as in a program: a whole number of the largest possible unit, or a decimal number of s or ms."""
    for name in reversed(UNITS):
        if ticks % UNITS[name] == 0 and (ticks or name == "s"):
            return f"{ticks // UNITS[name]} {name}"
    return _decimal(ticks, "s" if abs(ticks) > SECOND else "ms")


def say_duration(ticks: int) -> str:
    """Write a duration for people, in units from days to seconds: `33 min 20.000001 s`."""
    sign, rest = ("-", -ticks) if ticks < 0 else ("", ticks)
    words = []
    for name in ("d", "h", "min"):
        count, rest = divmod(rest, UNITS[name])
        words += [f"{count} {name}"] if count else []
    if rest or not words:
        words.append(_decimal(rest, "s" if words or rest >= SECOND or not rest else "ms"))
    return sign + " ".join(words)


def _decimal(ticks: int, unit: str) -> str:
    sign, (whole, part) = "-" if ticks < 0 else "", divmod(abs(ticks), UNITS[unit])
    digits = str(part).zfill(len(str(UNITS[unit])) - 1).rstrip("0")
    return f"{sign}{whole}{'.' if digits else ''}{digits} {unit}"


def read_string(text: str) -> str:
    """Read a string in double quotes, and return its value."""
    body = text[1:-1]
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 1:
        if code in _ESCAPES:
            return _ESCAPES[code]
        hint = 'the escapes are `\\n` `\\r` `\\t` `\\b` `\\f` `\\"` `\\u00e9`; a backslash itself is `\\\\`'
        raise _refuse(f"`\\{code}` is not an escape", hint)
    point = int(code[1:], 16)
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise _refuse(f"`\\{code}` is not a character")
    return chr(point)
