"""The type that a column of values seems to have, what stands for a missing value, and how its times are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep.core.schema import TimeFormat
from cep.core.time_pattern import of_pattern
from connectors.times import is_number, of_iso_clock
from connectors.values import Real

SENTINELS = (-99, -999, -9999, -99999, -999999, 999, 9999, 99999, 999999, -99.9, -999.9, 999.9, 9999.9)
"""Numbers that sensors write where they have none."""
ABSENT = frozenset(("", "-", "--", "?", "na", "n/a", "nan", "null", "none", "nil", "missing", "unknown", "#n/a", "m"))
"""Texts, in lower case, that stand for a missing value among numbers and times."""
SHARE = 0.5
"""So much of a column has a type at least; what else it holds stands for missing values, or is unreadable."""

_DATES = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
    "%Y%m%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%Y.%m.%d",
)  # fmt: skip
_CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%H:%M:%S%z", "%H:%M:%S %z", "%H.%M")
_WHOLE = (
    "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S", "%Y%m%d %H%M", "%Y-%m-%d-%H:%M:%S",
    "%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z", "%Y-%m-%d %I:%M:%S %p",
    "%Y-%m-%d %H:%M:%S,%f", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S GMT",
)  # fmt: skip
_UNITS = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_SINCE, _UNTIL = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds
_TIMELY = re.compile(r"time|date|stamp|^ts$|_ts$|_at$|epoch|^t$|^(when|seen|begin|start|end|until|from|to)$", re.I)
_CLOCK = re.compile(r"\d{1,2}[:.]\d{2}([:.]\d{2}([.]\d+)?)?( ?[AaPp][Mm])?")
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Guess:
    """The type of a column, its `format` if it is a time, texts and numbers that stand for a missing value, whether one
    is missing, and what is worth knowing of it. `day`: the times have no time of day; `local`: nor an offset."""

    type: str
    values: tuple[Any, ...]
    format: TimeFormat | None = None
    missing: tuple[int | float | str, ...] = ()
    optional: bool = False
    note: str = ""
    day: bool = False
    local: bool = False


def guess(name: str, column: Sequence[Any], text: bool, decimal: str = ".", typed: pa.DataType | None = None) -> Guess:
    """What a column holds. `text`: its values are those of a table of text, which does not tell numbers from texts."""
    there = [value for value in column if value is not None]
    optional = len(there) < len(column)
    if typed is not None:
        return _typed(typed, there, optional, name)
    if not there:
        return Guess("string", (), optional=True, note="always missing, so its type is not known")
    if not text:
        kinds = Counter(map(_kind, there))
        if set(kinds) <= {"int", "float"}:
            numbers = [float(each) if isinstance(each, Real) else each for each in there]
            return _numbers(name, numbers, "float" if "float" in kinds else "int", optional)
        if set(kinds) == {"bool"}:
            return Guess("bool", tuple(there), optional=optional)
        if set(kinds) != {"string"}:
            return _mixed(name, there, kinds, optional)
    return _texts(name, [str(each).strip(" \t") for each in there], text, decimal, optional)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "float" if isinstance(value, Real | float) else "int" if isinstance(value, int) else "string"


def _mixed(name: str, there: Sequence[Any], kinds: Counter[str], optional: bool) -> Guess:
    """Numbers among which texts stand for missing ones; or a mixture, of which the most frequent kind is read."""
    numbers = [float(each) if isinstance(each, Real) else each for each in there if _kind(each) in ("int", "float")]
    words = sorted({str(each) for each in there if _kind(each) == "string"})
    if len(numbers) >= SHARE * len(there):
        found = _numbers(name, numbers, "float" if "float" in kinds else "int", optional)
        absent = tuple(word for word in words if word.strip().lower() in ABSENT)
        rest = len(there) - len(numbers) - sum(str(each) in absent for each in there)
        note = f"{rest} of {len(there)} are no numbers, those records are dead letters" if rest else found.note
        missing = absent + found.missing
        return Guess(found.type, found.values, found.format, missing, optional or bool(absent), note)
    kind = kinds.most_common(1)[0][0]
    kept = tuple(each for each in there if _kind(each) == kind)
    note = f"{len(there) - len(kept)} of {len(there)} are no {kind}, those records are dead letters"
    return Guess(kind, kept, optional=optional, note=note)


def _texts(name: str, there: Sequence[str], table: bool, decimal: str, optional: bool) -> Guess:
    """Of texts: numbers and booleans in a table, times anywhere, else a string or an IRI."""
    words = tuple(sorted({each for each in there if each.lower() in ABSENT}))
    some = [each for each in there if each not in words]
    if some and table:
        points = [each.replace(decimal, ".") if decimal != "." else each for each in some]
        if all(map(is_number, points)):
            if any(len(each) > 1 and each.lstrip("+-").startswith("0") and each.isdigit() for each in some):
                if (times := _times(name, some)) is None:
                    return Guess("string", tuple(there), optional=optional, note="digits with a leading 0: a name")
                return _with(times, words, optional)
            whole = all(each.lstrip("+-").isdigit() for each in points)
            if whole and (times := _times(name, some)) is not None and times.format and times.format.pattern:
                return _with(times, words, optional)
            numbers = [int(each) if whole else float(each) for each in points]
            return _with(_numbers(name, numbers, "int" if whole else "float", optional), words, optional)
        low = {each.lower() for each in some}
        if low <= {"true", "false"} or low <= {"yes", "no"}:
            return Guess("bool", tuple(some), None, words, optional or bool(words))
    if some and (times := _times(name, some)) is not None:
        return _with(times, words, optional)
    if some and all(re.match(r"(https?://|urn:)[^\s<>\"]+$", each) for each in some):
        return Guess("iri", tuple(some), optional=optional)
    return Guess("string", tuple(there), optional=optional)


def _with(found: Guess, words: tuple[str, ...], optional: bool) -> Guess:
    return Guess(
        found.type, found.values, found.format, words + found.missing, optional or bool(words) or found.optional,
        found.note, found.day, found.local,
    )  # fmt: skip


def _numbers(name: str, numbers: Sequence[int | float], type: str, optional: bool) -> Guess:
    """Numbers, of which one far from all others stands for a missing value; counts since 1970 where the name says
    time."""
    if _TIMELY.search(name) and (unit := _unit(numbers)) is not None:
        format = None if unit == "s" else TimeFormat(unit=unit)
        return Guess("time", tuple(numbers), format, optional=optional)
    counts = Counter(numbers)
    absent: list[int | float] = []
    for one in (min(counts), max(counts)):
        rest = [each for each in counts if each != one and each not in absent]
        if one in SENTINELS and len(rest) > 1:
            near = min(abs(each - one) for each in rest)
            if near > max(rest) - min(rest):
                absent.append(int(one) if one == int(one) else one)
    kept = tuple(each for each in numbers if each not in absent)
    return Guess(type, kept, None, tuple(absent), optional or bool(absent))


def _unit(numbers: Sequence[int | float]) -> str | None:
    for unit, size in _UNITS:
        if all(_SINCE * size <= each <= _UNTIL * size for each in numbers):
            return unit
    return None


def _times(name: str, texts: Sequence[str]) -> Guess | None:
    """How texts are written if all are times; of several ways that in which they go on in order."""
    some = list(dict.fromkeys(texts))[:500]
    try:
        found = [of_iso_clock(each) for each in some]
    except ValueError:
        pass
    else:
        local = not all(absolute for _, absolute in found)
        day = all(_ISO_DAY.fullmatch(each) for each in some)
        return Guess("time", tuple(texts), local=local, day=day)
    if all(map(is_number, texts)) and not all(len(each) in (8, 12, 14) for each in texts):
        return None
    fits = [(pattern, ticks) for pattern in _patterns() if (ticks := _read(some, pattern)) is not None]
    if all(map(is_number, texts)) and not _TIMELY.search(name):
        return None
    if not fits:
        return None
    best = min(fits, key=lambda fit: (sum(b < a for a, b in zip(fit[1], fit[1][1:], strict=False)), fits.index(fit)))
    pattern = best[0]
    others = [each for each, ticks in fits if ticks != best[1]]
    note = f"it may as well be `{others[0]}`" if others else ""
    local = "%z" not in pattern and not pattern.endswith(("Z", "UTC", "GMT"))
    return Guess(
        "time",
        tuple(texts),
        TimeFormat(pattern),
        note=note,
        local=local,
        day="%H" not in pattern and "%I" not in pattern,
    )


def _patterns() -> Iterator[str]:
    for date in _DATES:
        for clock in _CLOCKS:
            yield f"{date} {clock}".strip()
            if clock:
                yield f"{date}T{clock}"
                yield f"{date}, {clock}"
    yield from _WHOLE


def _read(texts: Sequence[str], pattern: str) -> list[int] | None:
    try:
        return [of_pattern(each, pattern)[0] for each in texts]
    except ValueError:
        return None


def clock_pattern(texts: Sequence[str]) -> str | None:
    """How times of day are written, None: they are none."""
    if not texts or not all(isinstance(each, str) and _CLOCK.fullmatch(each.strip()) for each in texts):
        return None
    for pattern in _CLOCKS[1:]:
        if _read([f"2000 {each.strip()}" for each in dict.fromkeys(texts)], f"%Y {pattern}") is not None:
            return pattern
    return None


def timely(name: str) -> bool:
    """Whether a name sounds like a time."""
    return _TIMELY.search(name) is not None


_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "float"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_date, "time"),
    (pa.types.is_duration, "duration"),
)


def _typed(typed: pa.DataType, there: Sequence[Any], optional: bool, name: str) -> Guess:
    """By the type of a column of Parquet; texts and counts in it may be times."""
    type = next((type for fits, type in _ARROW if fits(typed)), "string")
    if type in ("int", "float") and there:
        return _numbers(name, there, type, optional)
    if type == "string" and there and all(isinstance(each, str) for each in there):
        return _texts(name, there, False, ".", optional)
    return Guess(type, tuple(there), optional=optional, day=type == "time" and pa.types.is_date(typed))
