"""Patterns of times, such as `%d.%m.%Y %H:%M`. This module checks patterns, and reads times that are written in them.

The directives are those of Python's `strptime` for a date, a time of day or an offset, with English names. `%f` reads
any number of digits; the result is rounded half to even to microseconds. Adjacent numbers, as in `%d%m%Y`, must have
all their digits; other numbers may have fewer. The hour `24` without minutes is the next midnight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from cep.core.errors import CepError

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SECOND = 1_000_000


def _names(words: Sequence[str], letters: int | None = None) -> str:
    return "|".join(word[:letters] for word in words)


_REGEX = {
    "Y": r"[0-9]{4}",
    "y": r"[0-9]{2}",
    "m": r"1[0-2]|0[1-9]",
    "d": r"3[01]|[12][0-9]|0[1-9]",
    "j": r"36[0-6]|3[0-5][0-9]|[12][0-9]{2}|0[1-9][0-9]|00[1-9]",
    "H": r"2[0-4]|[01][0-9]",
    "I": r"1[0-2]|0[1-9]",
    "M": r"[0-5][0-9]",
    "S": r"[0-5][0-9]",
    "f": r"[0-9]+",
    "b": _names(MONTHS, 3),
    "B": _names(MONTHS),
    "a": _names(DAYS, 3),
    "A": _names(DAYS),
    "p": "AM|PM",
    "z": r"Z|[+-][0-9]{2}:?[0-5][0-9](?::?[0-5][0-9])?",
    "Z": "UTC|GMT|Z",
    "G": r"[0-9]{4}",
    "V": r"5[0-3]|0[1-9]|[1-4][0-9]",
    "U": r"5[0-3]|[0-4][0-9]",
    "W": r"5[0-3]|[0-4][0-9]",
    "u": r"[1-7]",
    "w": r"[0-6]",
}
_FEWER = {
    **dict.fromkeys("mdIV", "[1-9]"),
    **dict.fromkeys("HMSUW", "[0-9]"),
    "j": "[1-9][0-9]|0[1-9]|[1-9]",
}
"""Expressions for numbers that may have fewer digits, because no other number is adjacent to them."""
_DIGITS = {**dict.fromkeys("ymdHIMSVUW", 2), **dict.fromkeys("YG", 4), "j": 3, "u": 1, "w": 1}
_FROM_ZERO = frozenset("yHMSUWw")
_NUMBERS = re.compile(r"(?:%[ymdHIMSVUWYGjuw]){2,}")
_CLOCK = frozenset("HIpMSf")
WEEKS = frozenset("GVUW")
"""The directives of years and weeks that determine a date together with a weekday."""
DIRECTIVES = frozenset(_REGEX)

_INSTEAD = {
    "T": "`%T` is written `%H:%M:%S`",
    "R": "`%R` is written `%H:%M`",
    "F": "`%F` is written `%Y-%m-%d`",
    "D": "`%D` is written `%m/%d/%y`",
    "e": "`%e` is written `%d`, which also takes one digit",
    "k": "`%k` is written `%H`, which also takes one digit",
    "l": "`%l` is written `%I`, which also takes one digit",
    "h": "`%h` is written `%b`",
    "n": "`%n` is written as a blank",
    "t": "`%t` is written as a blank",
    "s": "seconds since 1970 are `FORMAT epoch s`",
    "c": "write out each part: `%a %b %d %H:%M:%S %Y`",
    "x": "write out each part: `%m/%d/%y`",
    "X": "write out each part: `%H:%M:%S`",
    "N": "parts of a second are `%f`, however many digits they have",
    "L": "parts of a second are `%f`, however many digits they have",
}
_JAVA = re.compile(r"(?<![A-Za-z%])(?:yyyy|YYYY|dd?|DD?|MM?|HH?|hh?|mm|ss|SSS)(?![A-Za-z])")
_OF_JAVA = {
    "y": "%Y",
    "Y": "%Y",
    "M": "%m",
    "d": "%d",
    "D": "%d",
    "H": "%H",
    "h": "%I",
    "m": "%M",
    "s": "%S",
    "S": "%f",
}
_LIST = (
    "the directives are `%Y %y %m %b %B %d %j`, `%G %V %U %W` with `%u %w %a %A`, `%H %I %p %M %S %f`, `%z` and `%Z` "
    "(as UTC, GMT or Z): `%Y-%m-%d %H:%M:%S`, `%d.%m.%y`"
)

TimeToken = tuple[str, str]
"""A part of a pattern: ("", a character), (" ", "") for blanks, or (directive, "")."""


def parts(pattern: str, clocks: bool = False) -> list[TimeToken]:
    """Split a pattern into its parts. `clocks`: True if the pattern may lack a date.

    Raises CepError if the pattern is invalid or cannot determine a time.
    """
    tokens: list[TimeToken] = []
    position = 0
    while position < len(pattern):
        c = pattern[position]
        position += 1
        if c.isspace():
            if not tokens or tokens[-1] != (" ", ""):
                tokens.append((" ", ""))
        elif c != "%":
            tokens.append(("", c))
        elif position == len(pattern):
            raise _wrong("this format ends in the middle of a directive", "`%%` stands for a `%`")
        else:
            name = pattern[position]
            position += 1
            if name == "%":
                tokens.append(("", "%"))
                continue
            if name == "-" and position < len(pattern) and pattern[position] in DIRECTIVES:
                raise _wrong(
                    f"`%-{pattern[position]}` is not a known directive",
                    f"`%{pattern[position]}` reads one digit as well as two",
                )
            if name not in DIRECTIVES:
                raise _wrong(f"`%{name}` is not a known directive", _INSTEAD.get(name, _LIST))
            if (name, "") in tokens:
                raise _wrong(f"`%{name}` is in this format twice", "use each directive only once")
            tokens.append((name, ""))
    _check(pattern, {name for name, _ in tokens if name.strip()}, clocks)
    return tokens


@lru_cache(maxsize=64)
def of_day(pattern: str) -> bool:
    """Return True if a valid pattern describes only a time of day."""
    return {name for name, _ in parts(pattern, True) if name.strip()} <= _CLOCK


def _check(pattern: str, names: set[str], clocks: bool) -> None:
    if not names:
        meant = _JAVA.sub(lambda match: _OF_JAVA[match[0][0]], pattern)
        raise _wrong("this format has no directive", f"write `{meant}`" if meant != pattern else _LIST)
    _check_weeks(names)
    clock = clocks and names <= _CLOCK
    if clock and not names & set("HI"):
        raise _wrong("this format has no hour", 'a time of day is `"%H:%M"`, `"%H%M"`, `"%I:%M %p"`')
    if not clock and not names & {"Y", "y", "G"}:
        hint = 'if the day is in another column, name that column first: `TIME day, clock FORMAT "%d.%m.%Y %H:%M"`'
        hint += "; a fact may have a time of day alone"
        raise _wrong("this format has no year", hint if names & set("HIMS") else "the year is `%Y`, or `%y`")
    same = (("Y", "y"), ("H", "I"), ("b", "B"), ("m", "b"), ("m", "B"), ("a", "A"), ("j", "d"), ("z", "Z"), ("u", "w"))
    for first, other in same:
        if {first, other} <= names:
            raise _wrong(f"`%{first}` and `%{other}` mean the same", "remove one of them")
    if "p" in names and "I" not in names:
        raise _wrong("`%p` (AM or PM) needs an hour on the 12-hour clock", "use `%I` instead of `%H`")
    if "I" in names and "p" not in names:
        raise _wrong(
            "`%I` is an hour on the 12-hour clock, so it needs `%p` (AM or PM)", "use `%H` for the 24-hour clock"
        )


def _check_weeks(names: set[str]) -> None:
    weeks = names & WEEKS - {"G"}
    if not names & WEEKS:
        return
    of_iso = "`%G-W%V-%u`, the year, week and weekday of ISO 8601, or `%Y-%U-%w`, of weeks that begin on a Sunday"
    if len(weeks) != 1:
        raise _wrong(
            "a format can name only one kind of week" if weeks else "`%G` is the year of an ISO week, so it needs `%V`",
            of_iso,
        )
    (week,) = weeks
    year = {"G"} if week == "V" else {"Y", "y"}
    if not names & year or names & ({"Y", "y"} if week == "V" else {"G"}):
        raise _wrong(f"`%{week}` goes with {'the year `%G`' if week == 'V' else 'the year `%Y`'}", of_iso)
    if not names & set("uwaA"):
        raise _wrong(f"`%{week}` is a week, but the format has no day of the week", of_iso)
    if names & set("mbBdj"):
        raise _wrong(f"`%{week}` and a day of the month both say which day it is", "remove one of them")


def _of_week(fields: Mapping[str, str]) -> date:
    """Return the date that a year, a week and a weekday determine. Raises ValueError if no such date exists."""
    if name := fields.get("a") or fields.get("A"):
        weekday = next(n for n, day in enumerate(DAYS, 1) if day[:3].lower() == name[:3].lower())
    else:
        weekday = int(fields["u"]) if "u" in fields else int(fields["w"]) or 7
    if "V" in fields:
        return date.fromisocalendar(int(fields["G"]), int(fields["V"]), weekday)
    year = int(fields["Y"]) if "Y" in fields else _century(int(fields["y"]))
    first = date(year, 1, 1)
    if "W" in fields:  # weeks begin on Monday; days before the first Monday are in week 0
        return first + timedelta(days=(-first.weekday()) % 7 + 7 * (int(fields["W"]) - 1) + weekday - 1)
    return first + timedelta(days=(6 - first.weekday()) % 7 + 7 * (int(fields["U"]) - 1) + weekday % 7)


def _century(year: int) -> int:
    return year + (1900 if year >= 69 else 2000)


def _wrong(message: str, hint: str) -> CepError:
    return CepError(message, hint=hint, code="syntax")


def beside(tokens: Sequence[TimeToken]) -> frozenset[int]:
    """Return the positions of numbers in a pattern that are adjacent to other numbers."""
    numbers = [name in _DIGITS or name == "f" for name, _ in tokens]
    pairs = [place for place in range(1, len(tokens)) if numbers[place - 1] and numbers[place]]
    return frozenset(pairs) | {place - 1 for place in pairs}


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    letters = []
    tokens = parts(pattern)
    whole = beside(tokens)
    for place, (name, c) in enumerate(tokens):
        fewer = f"|{_FEWER[name]}" if name in _FEWER and place not in whole else ""
        letters.append(re.escape(c) if not name else r"\s+" if name == " " else f"(?P<{name}>{_REGEX[name]}{fewer})")
    return re.compile("".join(letters), re.IGNORECASE)


@lru_cache(maxsize=64)
def whole_digits(pattern: str) -> tuple[int, int] | None:
    """Return the number of digits that a time in this pattern has at least, and the number that it has with all leading
    zeros.

    A time that was stored as a whole number has lost its leading zeros. Return None unless the pattern consists of
    adjacent numbers only, and may begin with a zero: a year of four digits never does.
    """
    if not _NUMBERS.fullmatch(pattern) or pattern[1] in "YG":
        return None
    full = sum(_DIGITS[name] for name in pattern[1::2])
    return (1 if pattern[1] in _FROM_ZERO else full - _DIGITS[pattern[1]] + 1), full


def padded(text: str, pattern: str) -> str:
    """Return `text`, a time that was stored as a whole number, with the leading zeros that it has lost.

    `pattern`: a pattern of adjacent numbers (see `whole_digits`). For any other pattern, return `text` unchanged.
    """
    least, full = whole_digits(pattern) or (0, 0)
    return text.zfill(full) if least <= len(text) < full and text.isascii() and text.isdigit() else text


def of_clock(text: str, pattern: str) -> int:
    """Read a time of day as microseconds since midnight. `24:00` is the end of the day.

    Raises ValueError if the text does not match the pattern.
    """
    return of_pattern(f"1970 {text}", f"%Y {pattern}")[0]


def _unfit(text: str, pattern: str) -> str:
    if numbers := _NUMBERS.match(pattern):
        full = sum(_DIGITS[name] for name in numbers[0][1::2])
        rest = text.lstrip("0123456789")
        count = len(text) - len(rest)
        if 0 < count < full and (not rest or rest[0].isspace()):
            return f"has {count} digit{'s' * (count > 1)} where `{numbers[0]}` has {full}"
    return f"is not written `{pattern}`"


def of_pattern(text: str, pattern: str) -> tuple[int, bool]:
    """Read a time as microseconds since 1970. Also return True if the text contains an offset. Without an offset, the
    result is local time.

    Parts that the pattern lacks default to the first month, day, and instant of the day. Raises ValueError if the text
    does not match or is not a valid time.
    """
    match = _compiled(pattern).fullmatch(text)
    if match is None:
        raise ValueError(_unfit(text, pattern))
    fields = match.groupdict()
    of_week = None
    if not WEEKS.isdisjoint(fields):
        try:
            of_week = _of_week(fields)
        except (ValueError, OverflowError):
            raise ValueError("is not a time of the calendar") from None
        if of_week.year != int(fields.get("Y", of_week.year)):
            raise ValueError("is not a time of the calendar")
        fields = {name: text for name, text in fields.items() if name not in "aAuw"}
    year = int(fields["Y"]) if "Y" in fields else _century(int(fields["y"])) if "y" in fields else 1
    year = year if of_week is None else of_week.year
    month = int(fields.get("m", "1")) if of_week is None else of_week.month
    if word := fields.get("b") or fields.get("B"):
        month = next(n for n, name in enumerate(MONTHS, 1) if name[:3].lower() == word[:3].lower())
    hour = int(fields.get("H", "0"))
    if "I" in fields:
        hour = int(fields["I"]) % 12 + (12 if fields["p"].lower() == "pm" else 0)
    digits = fields.get("f", "0")
    micros = int(digits[:6].ljust(6, "0"))
    rest = int(digits[6:] or "0") * 2 - 10 ** len(digits[6:])  # the digits after the sixth, compared with a half
    next_day = hour == 24
    if next_day and (int(fields.get("M", "0")) or int(fields.get("S", "0")) or micros or rest > 0):
        raise ValueError("is not a time of the day: 24:00 is its end")
    day = int(fields.get("d", "1")) if of_week is None else of_week.day
    try:
        days = int(fields.get("j", "1")) - 1
        moment = datetime(
            year, month, day, 0 if next_day else hour, int(fields.get("M", "0")), int(fields.get("S", "0"))
        )
        moment += timedelta(days=days)
        if moment.year != year:
            raise ValueError
        moment += timedelta(days=next_day)
    except (ValueError, OverflowError):
        raise ValueError("is not a time of the calendar") from None
    ticks = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) + micros
    if len(digits) > 6 and (rest > 0 or (rest == 0 and ticks % 2)):
        ticks += 1
    if "Z" in fields:
        return ticks, True
    if (offset := fields.get("z")) is None:
        return ticks, False
    if offset in "Zz":
        return ticks, True
    digits = offset[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3_600 + int(digits[2:4]) * 60 + int(digits[4:])
    if seconds >= 24 * 3_600:
        raise ValueError("is not a time of the calendar")
    return ticks - (-1 if offset[0] == "-" else 1) * seconds * SECOND, True
