"""Conversion of times and durations between text and microseconds. Results are exact, or rounded half to even if the
text has more decimals."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

import numpy as np

from cep.connectors.records.iso_forms import unread_form
from cep.core.errors import CepError
from cep.core.schema import TimeFormat
from cep.core.time_pattern import of_pattern
from cep.core.zones import zone

SECOND = 1_000_000
LARGEST = 2**63 - 1  # -LARGEST is the smallest: -2**63 marks a missing value in the engine
FIRST = -62_135_596_800 * SECOND  # 0001-01-01T00:00:00Z
LAST = 253_402_300_800 * SECOND - 1  # 9999-12-31T23:59:59.999999Z
SPAN = 10**12  # seconds of the years 1 to 9999
OUTSIDE = "is not a time of the years 1 to 9999"
RECENT = 4_102_444_800  # the year 2100, in seconds
LONG_AGO = 631_152_000  # 1990
FIXED = 2**61
"""A mark: this number is added to a time that was computed from the length of its interval, which is the end in
`start/PT1H` and the start in `PT1H/end`. `FOLD order` uses the mark and removes it."""
FAR = 7_258_118_400
"""The year 2200 in seconds since 1970. A larger number is probably not in seconds but in a smaller unit, unless FORMAT
declares seconds."""
_SURE = "says which instant it is, and `FOLD order` is about times of which that is not known"
SHIFTS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""For each unit, the power of ten that converts it to microseconds. One second is 10 to the power of 6 microseconds."""

ISO, SECONDS = "iso", "seconds"
"""Two of the forms in which outputs write times. The other forms are the units `ms`, `us` and `ns`, and multiples of
microseconds.

For example, the form `60000000 us` writes a time as a number of minutes.
"""
DECIMALS = 12
"""The maximum number of decimals in a time that is written as a number."""
_COUNTED = {SECONDS: SECOND, "ms": 1_000, "us": 1, "ns": 1}

_SMALL_UNITS = (("milliseconds", 10**3, "ms"), ("microseconds", 10**6, "us"), ("nanoseconds", 10**9, "ns"))
_SIZES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WORDS_OF = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(\d{4}-(?:\d{2}-\d{2}|W\d{2}-\d))"
    r"(?:[Tt ](\d{2}:\d{2})(?::(\d{2})(?:[.,](\d+))?)?([Zz]|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)
_NUMBERED = re.compile(r"(\d{4}-\d{2}-\d{2}|\d{8}) +(\d{1,6})", re.ASCII)
_CLOCKS = (("%H%M%S", 6), ("%H%M", 4), ("%H", 2))
"""The patterns of times of day that are written as a number of up to six digits, each with its number of digits."""
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(ms|s|min|h|d)", re.ASCII)
_UNITS = {"ms": 1_000, "s": SECOND, "min": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND}
_PERIOD = re.compile(
    r"(-?)P(?=[0-9T])(?:([0-9.,]+)W)?(?:([0-9.,]+)D)?(?:T(?=[0-9])(?:([0-9.,]+)H)?(?:([0-9.,]+)M)?(?:([0-9.,]+)S)?)?"
)
_PERIOD_UNITS = (7 * _UNITS["d"], _UNITS["d"], _UNITS["h"], _UNITS["min"], SECOND)


def is_number(text: str) -> bool:
    """Return True if the text is a decimal number, such as `12`, `-0.5`, `.5`, `5.` or `1e3`. `inf`, `nan` and `1_000`
    are not decimal numbers."""
    return _NUMBER.fullmatch(text) is not None


def decimal(text: str) -> Decimal:
    """Convert a text to an exact decimal. Raise ValueError if its exponent is too large for `Decimal`."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"`{shown(text)}` is not a finite number") from None


def power(shift: int) -> Decimal:
    return Decimal(10) ** shift


def scaled(text: str, unit: int | Decimal = SECOND) -> int:
    """Convert a decimal number to microseconds. `unit`: the number of microseconds in one unit of the number.

    Raise ValueError if the text is not a number, or if the result does not fit in 64 bits.
    """
    if not is_number(text):
        raise ValueError(f"`{shown(text)}` is not a number")
    number = decimal(text)
    if number and number.adjusted() > 19:
        raise ValueError(f"`{shown(text)}` seconds do not fit in 64 bits of microseconds")
    if number and number.adjusted() < -40:
        return 0
    exact = Context(prec=len(text) + 80)
    ticks = int(exact.multiply(number, Decimal(unit)).to_integral_value(ROUND_HALF_EVEN, exact))
    if not -LARGEST <= ticks <= LARGEST:
        raise ValueError(f"`{shown(text)}` seconds do not fit in 64 bits of microseconds")
    return ticks


def since_epoch(text: str) -> int:
    """Convert seconds since 1970 to microseconds.

    Raise ValueError if the text is not a number, or if the time is not between the years 1 and 2200.
    """
    if not is_number(text):
        raise ValueError(f"`{shown(text)}` is not a number")
    number = decimal(text)
    if not -SPAN <= number <= SPAN or not FIRST <= (ticks := scaled(text)) <= FAR * SECOND:
        raise ValueError(f"`{shown(text)}` {beyond(number)}")
    return ticks


def beyond(number: Decimal) -> str:
    """Return the explanation that a number of seconds since 1970 is out of range. It suggests another unit than seconds
    if one is plausible."""
    for unit, size, name in _SMALL_UNITS:
        if 0 <= number <= RECENT * size:
            where = "is beyond the year 2200" if number <= LAST // SECOND else OUTSIDE
            looks = f"seconds since 1970 are expected, this looks like {unit}; they are declared `FORMAT epoch {name}`"
            return f"{where}: {looks}"
    return f"{OUTSIDE}: seconds since 1970 are expected"


def meant_unit(number: Decimal | int) -> str:
    """Suggest the unit of a number that counts from 1970, as the end of an error message. Return an empty text if no
    unit is plausible."""
    unit = likely_unit(number)
    return f"; it looks like {_WORDS_OF[unit]}: `FORMAT epoch {unit}`" if unit else ""


def likely_unit(number: Decimal | int) -> str | None:
    """Return the unit in which a number that counts from 1970 is a time between 1990 and 2100. Return None if there is
    no such unit."""
    return next((unit for unit, size in _SIZES.items() if LONG_AGO * size <= number <= RECENT * size), None)


def of_text(text: str, format: TimeFormat | None, numbers: bool = True) -> int:
    """Convert a text to microseconds since 1970. Raise ValueError if the text is not a valid time.

    If `format` is None, the text must be in ISO 8601. If `numbers` is True, it may also be a number of seconds.
    """
    if format is None:
        return since_epoch(text) if numbers and is_number(text) else of_iso(text)
    if format.unit is not None:
        number = decimal(text) if is_number(text) else None
        if number is not None and not FIRST <= number * power(SHIFTS[format.unit]) <= LAST:
            raise ValueError(f"`{shown(text)}` {OUTSIDE}{meant_unit(number)}")
        return scaled(text, power(SHIFTS[format.unit]))
    if format.pattern is not None:
        try:
            ticks, absolute = of_pattern(text, format.pattern)
        except ValueError as error:
            raise ValueError(f"`{shown(text)}` {error}{_meant(text, format.pattern)}") from None
    elif numbers and is_number(text):
        if format.fold == "order":
            raise ValueError(f"`{shown(text)}` {_SURE}")
        return since_epoch(text)
    else:
        ticks, absolute = of_iso_clock(text)
    if absolute and format.fold == "order":
        raise ValueError(f"`{shown(text)}` {_SURE}")
    if format.zone is not None and not absolute:
        utc_ticks, exists = zone(format.zone).utc(np.array([ticks]), format.later)
        if not exists[0]:
            raise ValueError(f"`{shown(text)}` is skipped by the clocks of {format.zone}")
        ticks = int(utc_ticks[0])
    if not FIRST <= ticks <= LAST:
        raise ValueError(f"`{shown(text)}` is not a time of the calendar")
    return ticks


def _meant(text: str, pattern: str) -> str:
    """Suggest another pattern or form for a time that does not match `pattern`, as the end of an error message. Return
    an empty text if no suggestion is certain."""
    if len(text) > 40:
        return ""
    if is_number(text):
        return meant_unit(decimal(text))
    if _ISO.fullmatch(text) and len(text) > 10:
        return "; it is ISO 8601, which is read without a FORMAT"
    for other in _others(pattern):
        try:
            of_pattern(text, other)
        except (ValueError, CepError):
            continue
        return f'; it is written `FORMAT "{other}"`'
    return ""


@lru_cache(maxsize=64)
def _others(pattern: str) -> tuple[str, ...]:
    """Return patterns that are easily confused with `pattern`.

    In these patterns, day and month are swapped, or the separators, the digits of the year or the seconds are
    different.
    """
    swapped = "%m".join(part.replace("%m", "%d") for part in pattern.split("%d"))
    swapped = swapped if "%d" in pattern and "%m" in pattern else pattern
    year = pattern.replace("%Y", "%y") if "%Y" in pattern else pattern.replace("%y", "%Y")
    marks = [pattern.replace(mark, new) for mark in "./-" for new in "./-" if f"%d{mark}" in pattern and mark != new]
    clocks = [pattern.replace(":%S", ""), pattern.replace("%H:%M", "%H:%M:%S"), pattern.replace("%S", "%S.%f")]
    clocks += [pattern.replace(" %H", "T%H"), pattern.replace("T%H", " %H"), pattern + " %H:%M", pattern + "%z"]
    some = (
        swapped,
        year,
        *marks,
        *clocks,
        *(variant + ":%S" for variant in (swapped, year, *marks) if variant.endswith("%M")),
    )
    return tuple(variant for variant in dict.fromkeys(some) if variant != pattern and "%S:%S" not in variant)


def form(format: TimeFormat | None, number: bool) -> str:
    """Return the form in which outputs write times, if the inputs have the time format `format`. If the format is a
    pattern, the form is ISO 8601.

    `number`: True if the times in the inputs are numbers.
    """
    if format is not None and format.unit is not None:
        return SECONDS if format.unit == "s" else format.unit
    return SECONDS if number and (format is None or format.pattern is None) else ISO


def form_of_ticks(tick: int) -> str:
    """Return the form in which outputs write times as numbers of ticks. `tick`: the length of a tick in
    microseconds."""
    return next((name for name, size in _COUNTED.items() if size == tick), f"{tick} us")


def unit_of(times: str) -> tuple[int, int]:
    """Return how a form writes a time as a number: the number of microseconds per unit, and the number of zeros to
    append.

    For nanoseconds, a number of microseconds with three zeros is written, so the result is (1, 3). For ISO 8601, the
    result is (0, 0).
    """
    if times == ISO:
        return 0, 0
    return _COUNTED.get(times) or int(times.removesuffix(" us")), 3 if times == "ns" else 0


def count_size(times: str) -> Fraction:
    """Return the number of microseconds in one unit of the numbers that a form writes. For ISO 8601, which writes no
    numbers, return one second."""
    unit, zeros = unit_of(times)
    return Fraction(unit or SECOND, 10**zeros)


def of_iso(text: str) -> int:
    """Convert an ISO 8601 time to microseconds since 1970. The date may be a calendar date or a week date.

    A date without a time of day means midnight. A time without an offset is in UTC. `24:00` is the midnight at the end
    of the day.
    """
    return of_iso_clock(text)[0]


def of_iso_clock(text: str) -> tuple[int, bool]:
    """Convert an ISO 8601 time to microseconds, as `of_iso` does. Also return True if the text contains an offset.

    If the text contains no offset, the microseconds are those of the same clock time in UTC.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        declared = '; other forms are declared, `FORMAT "%d.%m.%Y %H:%M"`: `cep infer FILE` finds which'
        hint = declared if sum(map(str.isdigit, text)) > 4 else ""
        if clock := _NUMBERED.fullmatch(text):
            day = "%Y-%m-%d" if "-" in clock[1] else "%Y%m%d"
            meant = [f'`FORMAT "{day} {form}"`' for form, most in _CLOCKS if len(clock[2]) <= most]
            meant = meant[-2:] if len(clock[2]) < 3 else meant[-1:]
            hint = f"; a time of day that is a number is declared, {' or '.join(meant)}"
        if is_number(text) and len(text) < 30 and (unit := likely_unit(decimal(text))):
            hint = f"; it looks like {_WORDS_OF[unit]} since 1970, which are declared: `FORMAT epoch {unit}`"
        raise ValueError(unread_form(text) or f"`{shown(text)}` is not an ISO 8601 time{hint}")
    day, minute, second, fraction, offset = match.groups()
    micros = scaled("0." + (fraction or "0"))
    if second == "60" and (reason := unread_form(text)):
        raise ValueError(reason)
    if minute == "24:00" and second in (None, "00") and not micros:
        minute, micros = "00:00", _UNITS["d"]
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{day}T{minute or '00:00'}:{second or '00'}{zone}")
        ticks = (moment - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(f"`{shown(text)}` is not a time of the calendar") from None
    ticks += micros
    if not FIRST <= ticks <= LAST:
        raise ValueError(f"`{shown(text)}` is not a time of the calendar")
    return ticks, offset is not None


def of_duration(text: str) -> int:
    """Convert a duration to microseconds: `500 ms`, `30 s`, `30 min`, `3 h`, `2 d`, `PT3H`, `PT0,5S`."""
    if match := _WORDS.fullmatch(text):
        parts, sign = [(match[1], _UNITS[match[2]])], ""
    elif match := _PERIOD.fullmatch(text):
        sign, *numbers = match.groups()
        parts = [(number.replace(",", "."), unit) for number, unit in zip(numbers, _PERIOD_UNITS) if number]
    else:
        raise ValueError(f"`{shown(text)}` is not a valid duration")
    if any(not is_number(number) for number, _ in parts):
        raise ValueError(f"`{shown(text)}` is not a valid duration")
    try:
        total = sum(scaled(number, unit) for number, unit in parts)
    except ValueError:
        total = LARGEST + 1
    if abs(total) > LARGEST:
        raise ValueError(f"`{shown(text)}` does not fit in 64 bits of microseconds")
    return -total if sign else total


def iso(ticks: int) -> str:
    """Write a time in ISO 8601 in UTC, with as many decimals as needed. Times outside of the years 1 to 9999 are
    written in seconds instead."""
    if not FIRST <= ticks <= LAST:
        return seconds_text(ticks)
    moment = _EPOCH + timedelta(microseconds=ticks)
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if moment.microsecond else text) + "Z"


def seconds_text(ticks: int) -> str:
    """Write a time as a number of seconds, an exact decimal. A whole number has no decimal point."""
    return time_text(ticks, SECONDS)


def time_text(ticks: int, times: str) -> str:
    """Write a time in the form `times`.

    A number has no decimal point if it is whole. Otherwise, it has at most `DECIMALS` decimals.
    """
    if times == ISO:
        return iso(ticks)
    unit, zeros = unit_of(times)
    whole, rest = divmod(abs(ticks), unit)
    text = f"{whole}{'0' * zeros if whole else ''}"
    if decimals := f"{rest * 10**DECIMALS // unit:0{DECIMALS}}".rstrip("0"):
        text = f"{text}.{decimals}"
    return "-" + text if ticks < 0 else text


def shown(text: str, width: int = 60) -> str:
    """Return the text, for use in a message. If it is longer than `width` characters, it is shortened."""
    return text if len(text) <= width else text[:width] + "..."
