"""Detection of a column's type, its time format, and the values that mean "missing"."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from cep.connectors.infer.sentinels import sentinels
from cep.connectors.records.thousands import plain_number
from cep.connectors.records.time_hint import TIMELY
from cep.connectors.records.times import LARGEST, is_number, of_iso_clock
from cep.connectors.records.values import FALSE_WORDS, NOT_IRI, TRUE_WORDS, Real, with_point
from cep.core.schema import TimeFormat
from cep.core.time_pattern import of_pattern

NOTHING = frozenset(("", "-", "--", "?", "na", "n/a", "nan", "null", "none", "nil", "#n/a"))
"""Texts, in lower case, that mean "missing" in any column."""
ABSENT = NOTHING | {"missing", "unknown", "unavailable", "m", "mm"}
"""Texts, in lower case, that mean "missing" in a column of numbers or times."""
SHARE = 0.5
"""The minimum share of a column's values that must have the column's type. All other values must mean "missing"."""
MOSTLY = 0.8
"""The minimum share of numbers in a column of texts for a remark that the column is mostly numeric."""
_TRIED = 500
"""The number of texts that are examined to find possible time formats."""
FEW = 8
"""The maximum number of different texts in one column that mean "missing"."""
BIG = "some have more than 64 bits"
_BIG_FLOAT = f"{BIG}: read as floats, which have 15 digits"
_BIG_TEXT = f"{BIG}: read as texts"

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
_BESIDE = ("%d%m%Y", "%m%d%Y")
"""Additional date formats that consist of digits only."""
_UNITS = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_SINCE, _UNTIL = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds
_DAY = 86_400 * 10**6
_CLOCK = re.compile(r"\d{1,2}[:.]\d{2}([:.]\d{2}([.]\d+)?)?( ?[AaPp][Mm])?")
_IRI = re.compile(r"https?://.|urn:.")
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Guess:
    """The guessed type of a column.

    - `type`: the type, or "" if the column cannot be declared.
    - `note`: a remark about the column. If `type` is "", it is the reason.
    - `format`: the format of the times, if the type is time.
    - `missing`: the texts and numbers that mean "missing".
    - `optional`: True if some values are missing.
    - `day`: True if the times are days, without a time of day.
    - `local`: True if some times have no offset.
    - `clock`: True if the values are times of day, without a date.
    - `quoted`: True if some numbers are in quotes.
    - `bad`: the number of values that do not have the guessed type. Their records become dead letters.
    """

    type: str
    values: tuple[Any, ...]
    format: TimeFormat | None = None
    missing: tuple[int | float | str, ...] = ()
    optional: bool = False
    note: str = ""
    day: bool = False
    local: bool = False
    clock: bool = False
    quoted: bool = False
    bad: int = 0


def allowed(count: int) -> int:
    """Return how many of `count` values may have another type than the column."""
    return max(count // 50, int(count >= 20))


def guess(
    name: str,
    column: Sequence[Any],
    text: bool,
    decimal: str = ".",
    typed: pa.DataType | None = None,
    thousands: str | None = None,
) -> Guess:
    """Guess the type of a column.

    - `text`: True if the values are fields of a text table, which does not distinguish numbers from texts.
    - `decimal`, `thousands`: the decimal mark and the thousands mark in numbers.
    - `typed`: the type that the column has in the file, or None if the file does not define types.
    """
    present = [value for value in column if value is not None]
    optional = len(present) < len(column)
    if typed is not None:
        return _typed(typed, present, optional, name)
    if not present:
        return Guess("string", (), optional=True, note="always missing, so its type is not known")
    if text:
        return _fields(name, present, decimal, thousands, optional)
    kinds = Counter(map(_kind, present))
    if (most := _majority(kinds)) is not None:
        kept = [value if value is None or _of_kinds(value, most) else ... for value in column]
        guessed = guess(name, [value for value in kept if value is not ...], text, decimal, typed, thousands)
        odd = [value for value, own in zip(column, kept, strict=True) if own is ...]
        if guessed.type == "time" and guessed.format is None and most == {"string"} and unit_of_all(odd) == "s":
            number = "1 is a number, seconds" if len(odd) == 1 else f"{len(odd)} are numbers, seconds"
            return replace(guessed, note="; ".join(filter(None, (guessed.note, f"{number} since 1970"))))
        return _without_bad(guessed, len(odd), len(present))
    if set(kinds) == {"int"} and (dates := _dates(name, present)) is not None:
        return _with(dates, (), optional)
    if set(kinds) <= {"int", "float"}:
        return _numbers(name, _plain(present), optional)
    if set(kinds) == {"string"}:
        guessed = _texts(name, present, optional)
        return replace(guessed, note=_in_quotes(guessed.values)) if guessed.type == "string" else guessed
    if "bool" in kinds:
        return _bools(present, kinds, optional)
    return _mixed(name, present, kinds, optional)


def _majority(kinds: Counter[str]) -> frozenset[str] | None:
    """Return the kinds that almost all values have, or None if no or too many values have other kinds.

    `kinds`: the number of values of each kind.
    """
    numbers = frozenset(("int", "float"))
    count = kinds.total()
    for most in (numbers, *(frozenset((kind,)) for kind in kinds if kind not in numbers)):
        others = count - sum(kinds[kind] for kind in most)
        if 0 < others <= allowed(count) and not (most == numbers and set(kinds) <= {*numbers, "string"}):
            return most
    return None


def _of_kinds(value: Any, kinds: frozenset[str]) -> bool:
    return _kind(value) in kinds


def _without_bad(guess: Guess, bad: int, count: int, examples: Sequence[str] = ()) -> Guess:
    if not guess.type:
        return guess
    what = {"int": "numbers", "float": "numbers", "time": "times", "bool": "booleans"}.get(guess.type, "texts")
    shown = f" ({', '.join(map(json.dumps, examples[:3]))}{', ..' if len(examples) > 3 else ''})" if examples else ""
    others = "the other becomes a dead letter" if bad == 1 else "the others become dead letters"
    note = f"{count - bad:,} of {count:,} are {what}: {others.replace(' become', f'{shown} become')}"
    return replace(guess, bad=guess.bad + bad, note="; ".join(filter(None, (guess.note, note))))


def _kind(value: Any) -> str:
    if isinstance(value, dict | list):
        return "object"
    if isinstance(value, bool):
        return "bool"
    return "float" if isinstance(value, Real | float) else "int" if isinstance(value, int) else "string"


def _plain(values: Sequence[Any]) -> list[int | float]:
    return [float(value) if isinstance(value, Real) else value for value in values]


def _bools(present: Sequence[Any], kinds: Counter[str], optional: bool) -> Guess:
    words = {str(value).lower() for value in present if not isinstance(value, bool)}
    if words <= {*TRUE_WORDS, *FALSE_WORDS}:
        return Guess("bool", tuple(present), optional=optional)
    return _unlike(kinds)


def _unlike(kinds: Counter[str]) -> Guess:
    named = {"bool": "booleans", "string": "texts"}
    counts = Counter[str]()
    for kind, number in kinds.items():
        counts[named.get(kind, "numbers")] += number
    return Guess("", (), note=f"{' and '.join(f'{number} {kind}' for kind, number in counts.most_common())} in it")


def _mixed(name: str, present: Sequence[Any], kinds: Counter[str], optional: bool) -> Guess:
    """Guess the type of a column that contains both numbers and texts.

    The column is numeric if the few texts among the numbers mean "missing" or are invalid. It is a column of texts if
    the few numbers among the texts mean "missing". Otherwise, it has no type.
    """
    numbers = [value for value in present if _kind(value) != "string"]
    texts = [value for value in present if _kind(value) == "string"]
    quoted = [text for text in texts if is_number(text.strip(" \t"))]
    if quoted:
        return _quoted(name, numbers, texts, quoted, optional)
    words = sorted(set(texts))
    if len(words) > FEW and len(texts) <= allowed(len(present)):
        return _without_bad(_numbers(name, _plain(numbers), optional), len(texts), len(present), words)
    if len(numbers) >= SHARE * len(present) and len(words) <= FEW:
        guessed = _numbers(name, _plain(numbers), True)
        if guessed.type:
            odd = [word for word in words if word.strip().lower() not in ABSENT]
            note = f"{guessed.note}; " if guessed.note else ""
            note += f"{', '.join(map(json.dumps, odd))} is read as a missing value" if odd else ""
            words = sorted({form for word in words for form in (word, word.strip(" \t"))})
            return replace(guessed, missing=(*words, *guessed.missing), note=note.removesuffix("; "))
    absent = {number for number in numbers if isinstance(number, int) and number in sentinels([*_plain(numbers), 0, 1])}
    if len(absent) == len(set(numbers)) and len(words) > 1:
        guessed = _texts(name, [value for value in present if _kind(value) == "string"], True)
        return replace(guessed, missing=(*guessed.missing, *sorted(absent)), optional=True)
    return _unlike(kinds)


def _in_quotes(texts: Sequence[str]) -> str:
    """Return a remark if all texts are numbers without a leading zero. Otherwise, return ""."""
    plain = [text.strip(" \t").lstrip("+-") for text in texts]
    if not all(map(is_number, plain)) or any(text[:1] == "0" and text[1:2].isdigit() for text in plain):
        return ""
    type = "int" if all(map(str.isdigit, plain)) else "float"
    return f"numbers in quotes: `{type} QUOTED` reads them as numbers"


def _quoted(name: str, numbers: Sequence[Any], texts: Sequence[str], quoted: Sequence[str], optional: bool) -> Guess:
    """Guess the type of a column of numbers, some of which are in quotes.

    `quoted`: the texts among `texts` that are numbers. If the column has more than a few other texts, it has no type.
    """
    absent = {text for text in texts if text.strip(" \t").lower() in ABSENT}
    odd = sorted({text for text in texts if text not in quoted and text not in absent})
    bad = sum(text in odd for text in texts)
    count = len(numbers) + len(texts)
    if bad > allowed(count):
        return _unlike(Counter(int=len(numbers), string=len(texts)))
    plain = [text.strip(" \t") for text in quoted]
    read = [int(text) if text.lstrip("+-").isdigit() and len(text) < 400 else float(text) for text in plain]
    guessed = _numbers(name, [*_plain(numbers), *read], optional or bool(absent))
    if guessed.type not in ("int", "float"):
        return guessed
    note = f"{len(quoted):,} of {count:,} are in quotes"
    guessed = replace(guessed, quoted=True, note="; ".join(filter(None, (guessed.note, note))))
    words = tuple(sorted({form for text in absent if text for form in (text, text.strip(" \t"))}))
    guessed = _with(guessed, words, bool(absent))
    return _without_bad(guessed, bad, count, odd) if bad else guessed


def _fields(name: str, raw: Sequence[str], decimal: str, thousands: str | None, optional: bool) -> Guess:
    """Guess the type of a column of a text table.

    The type is int, float, bool or time if all fields fit. If all except a few fit, it may be int, float or time.
    Otherwise, it is string or IRI.
    """
    present = [text.strip(" \t") for text in raw]
    words = tuple(sorted({value for value in present if value.lower() in ABSENT}))
    some = [value for value in present if value not in words]
    if some and (points := _pointed(some, decimal, thousands)) is not None:
        whole = all(point.lstrip("+-").isdigit() for point in points)
        if any(len(point) > 1 and point.lstrip("+-").startswith("0") and point.isdigit() for point in points):
            if (times := _times(name, some)) is None:
                return Guess("string", tuple(raw), optional=optional, note="digits with a leading 0: a name")
            return _with(times, words, optional)
        if whole and (times := _times(name, some)) is not None and times.format and times.format.pattern:
            return _with(times, words, optional)
        guessed = _numbers(
            name, [int(point) if whole and len(point) < 400 else float(point) for point in points], optional
        )
        if not guessed.type or guessed.note == _BIG_FLOAT:
            return Guess("string", tuple(raw), optional=optional, note=_BIG_TEXT if guessed.type else guessed.note)
        if guessed.type == "time" and thousands is not None and points != some:
            return Guess("string", tuple(raw), optional=optional, note="counts with marks between thousands")
        return _with(guessed, words, optional)
    low = {text.lower() for text in some}
    if low and (low <= {"true", "false"} or low <= {"yes", "no"}):
        absent = tuple(dict.fromkeys(text for text in raw if text.strip(" \t") in words))
        return Guess("bool", tuple(some), None, absent, optional or bool(absent))
    if some and (times := _times(name, some)) is not None:
        return _with(times, words, optional)
    odd = Counter(text for text in some if _pointed([text], decimal, thousands) is None)
    if not 0 < odd.total() <= allowed(len(some)):
        odd = _untimely(name, some)
    if odd:
        kept = [text for text in raw if text.strip(" \t") not in odd]
        guessed = _fields(name, kept, decimal, thousands, optional)
        if guessed.type in ("int", "float", "time"):
            return _without_bad(guessed, odd.total(), len(some), sorted(odd))
    guessed = _named(raw, optional)
    return guessed if guessed.type != "string" else replace(guessed, note=_nearly(some, decimal, thousands))


def _untimely(name: str, texts: Sequence[str]) -> Counter[str]:
    """Count the texts in a column of times that are not times in the format that fits the most texts. The result is
    empty if all texts are times, or if too many are not."""
    counts = Counter(texts)
    if len(texts) < 20:
        return Counter()
    most = _TRIED // 25
    tried = list(counts)[:: max(1, len(counts) // most)][:most]
    tests: list[Callable[[str], bool]] = [_is_iso, *(partial(_fits, pattern) for pattern in _patterns())]
    candidates = [fits for fits in tests if sum(map(fits, tried)) * 3 >= len(tried) * 2]
    odd = [Counter({text: number for text, number in counts.items() if not fits(text)}) for fits in candidates]
    least = min(odd, key=Counter.total, default=Counter[str]())
    return least if least.total() <= allowed(len(texts)) else Counter()


def most_times(texts: Sequence[str]) -> tuple[str | None, int]:
    """Return the time format that fits the most texts, or None for ISO 8601, and the number of these texts."""
    counts = Counter(texts)
    tried = list(counts)[:: max(1, len(counts) // 20)]
    ways: list[tuple[str | None, Callable[[str], bool]]] = [(None, _is_iso)]
    ways += [(pattern, partial(_fits, pattern)) for pattern in _patterns()]
    pattern, fits = max(ways, key=lambda way: sum(map(way[1], tried)))
    return pattern, sum(number for text, number in counts.items() if fits(text))


def _is_iso(text: str) -> bool:
    try:
        of_iso_clock(text)
    except ValueError:
        return False
    return True


def _fits(pattern: str, text: str) -> bool:
    return _read([text], pattern) is not None


def _nearly(texts: Sequence[str], decimal: str, thousands: str | None) -> str:
    odd = Counter(text for text in texts if _pointed([text], decimal, thousands) is None)
    numbers = len(texts) - odd.total()
    if not odd or len(odd) > FEW or numbers < MOSTLY * len(texts):
        return ""
    shown = ", ".join(map(json.dumps, sorted(odd)[:3])) + (", .." if len(odd) > 3 else "")
    return f"{numbers:,} of {len(texts):,} are numbers: as `float` the others ({shown}) become dead letters"


def _pointed(texts: Sequence[str], decimal: str, thousands: str | None) -> list[str] | None:
    numbers = []
    for text in texts:
        try:
            plain = with_point(text if thousands is None else plain_number(text, thousands, decimal), decimal)
        except ValueError:
            return None
        if not is_number(plain):
            return None
        numbers.append(plain)
    return numbers


def _texts(name: str, present: Sequence[str], optional: bool) -> Guess:
    absent = {value for value in present if value.strip(" \t").lower() in ABSENT}
    words = tuple(sorted({form for text in absent for form in (text, text.strip(" \t"))}))
    some = [value for value in present if value not in words]
    if some and (times := _times(name, some, quoted=True)) is not None:
        return _with(times, words, optional)
    if odd := _untimely(name, some):
        guessed = _texts(name, [value for value in present if value not in odd], optional)
        if guessed.type == "time":
            return _without_bad(guessed, odd.total(), len(some), sorted(odd))
    return _named(present, optional)


def _named(texts: Sequence[str], optional: bool) -> Guess:
    words = tuple(dict.fromkeys(text for text in texts if text.strip(" \t").lower() in ABSENT))
    some = [text for text in texts if text not in words]
    if some and all(_IRI.match(text) and not NOT_IRI.search(text) for text in some) and len(words) <= FEW:
        return Guess("iri", tuple(some), None, words, optional or bool(words))
    return Guess("string", tuple(texts), optional=optional)


def _with(guess: Guess, words: tuple[str, ...], optional: bool) -> Guess:
    return replace(guess, missing=words + guess.missing, optional=optional or bool(words) or guess.optional)


def _numbers(name: str, numbers: Sequence[int | float], optional: bool) -> Guess:
    """Guess the type of a column of numbers.

    Numbers that are far from all other numbers may mean "missing". If the column's name suggests times, the numbers may
    be times since 1970, in seconds or a smaller unit.
    """
    if TIMELY.search(name) and (unit := unit_of(numbers)) is not None:
        format = None if unit == "s" else TimeFormat(unit=unit)
        return Guess("time", tuple(numbers), format, optional=optional)
    try:
        finite = all(map(math.isfinite, numbers))
    except OverflowError:
        finite = False
    if not finite:
        return Guess("", (), note="numbers beyond the floats in it")
    whole = all(isinstance(number, int) for number in numbers)
    absent = sentinels(numbers)
    kept = tuple(number for number in numbers if number not in absent)
    big = whole and any(abs(number) > LARGEST for number in numbers)
    type = "int" if whole and not big else "float"
    return Guess(type, kept, None, absent, optional or bool(absent), _BIG_FLOAT if big else "")


def _dates(name: str, numbers: Sequence[int | float]) -> Guess | None:
    if not TIMELY.search(name) or not all(number >= 0 and number == int(number) for number in numbers):
        return None
    guessed = None if unit_of(numbers) else _times(name, [str(int(number)) for number in numbers])
    return (
        guessed if guessed is not None and guessed.format is not None and guessed.format.pattern is not None else None
    )


def unit_of_all(values: Sequence[Any]) -> str | None:
    """Return the unit in which all values are times since 1970, or None if some are not numbers or no unit fits."""
    return unit_of(_plain(values)) if all(_kind(value) in ("int", "float") for value in values) else None


def unit_of(numbers: Sequence[int | float]) -> str | None:
    """Return the unit in which all numbers are times between 1990 and 2100, counted from 1970, or None."""
    for unit, size in _UNITS:
        if all(_SINCE * size <= number <= _UNTIL * size for number in numbers):
            return unit
    return None


def _times(name: str, texts: Sequence[str], quoted: bool = False) -> Guess | None:
    """Guess the time format of a column of texts. Return None if the texts are not all times.

    If several formats fit, prefer the one in which the fewest times are earlier than their predecessor. `quoted`: True
    if the texts come from JSON. In JSON, numbers in quotes need a FORMAT, and blanks around ISO 8601 times are not
    allowed.
    """
    some = list(dict.fromkeys(texts))
    if quoted and all(is_number(text.strip(" \t")) for text in some):
        unit = unit_of([float(text) for text in some]) if TIMELY.search(name) else None
        if unit is not None:
            return Guess("time", tuple(texts), TimeFormat(unit=unit))
    if quoted:
        texts = [text.strip(" \t") for text in texts]
    try:
        clocks = [of_iso_clock(text) for text in some]
    except ValueError:
        pass
    else:
        local = not all(absolute for _, absolute in clocks)
        day = all(_ISO_DAY.fullmatch(text) for text in some)
        return Guess("time", tuple(texts), local=local, day=day)
    if numbers := all(map(is_number, texts)):
        if not TIMELY.search(name) or not all(len(text) in (7, 8, 12, 14)[quoted:] for text in texts):
            return None
        some = some if quoted else list(dict.fromkeys(map(_eight, some)))
    first = some[:_TRIED]
    patterns = (*_patterns(), *_BESIDE) if numbers else _patterns()
    fits = [(pattern, ticks) for pattern in patterns if (ticks := _read(first, pattern)) is not None]
    if len(some) > _TRIED:
        fits = [(pattern, ticks) for pattern, _ in fits if (ticks := _read(some, pattern)) is not None]
    if numbers:
        since, until = -_UNTIL * 10**6, _UNTIL * 10**6
        fits = [fit for fit in fits if all(since <= instant <= until for instant in fit[1])]
    if not fits:
        return None
    best = min(fits, key=lambda fit: (sum(b < a for a, b in zip(fit[1], fit[1][1:], strict=False)), fits.index(fit)))
    pattern = best[0]
    others = [name_of_fit for name_of_fit, ticks in fits if ticks != best[1]]
    note = f"it could also be `{others[0]}`" if others else ""
    local = "%z" not in pattern and not pattern.endswith(("Z", "UTC", "GMT"))
    return Guess(
        "time",
        tuple(texts),
        TimeFormat(pattern),
        note=note,
        local=local,
        day="%H" not in pattern and "%I" not in pattern,
    )


def _eight(text: str) -> str:
    """Add the leading zero that a date in eight digits has lost. For example, `1052024` becomes `01052024`."""
    return text.zfill(8)


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
        return [of_pattern(text, pattern)[0] for text in texts]
    except ValueError:
        return None


def clock_pattern(texts: Sequence[str]) -> str | None:
    """Return the format of a column of times of day. Return None if the column contains something else."""
    some = [text for text in texts if isinstance(text, str) and _CLOCK.fullmatch(text.strip())]
    if not some or len(texts) - len(some) > allowed(len(texts)):
        return None
    counts = Counter(text.strip() for text in some)
    for pattern in _CLOCKS[1:]:
        wrong = sum(number for text, number in counts.items() if not _fits(f"%Y {pattern}", f"2000 {text}"))
        if wrong + len(texts) - len(some) <= allowed(len(texts)):
            return pattern
    return None


def timely(name: str) -> bool:
    """Return True if the name of a column suggests that it contains times."""
    return TIMELY.search(name) is not None


_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "float"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_date, "time"),
    (pa.types.is_duration, "duration"),
)


def _typed(typed: pa.DataType, present: Sequence[Any], optional: bool, name: str) -> Guess:
    """Guess the type of a Parquet column from the type that the file defines. Texts and numbers may also be times."""
    if pa.types.is_null(typed):
        return Guess("string", (), optional=True, note="always missing, so its type is not known")
    if pa.types.is_time(typed):
        return Guess("", tuple(present), optional=optional, note="times of day, without a day", clock=True)
    type = next((type for fits, type in _ARROW if fits(typed)), "string")
    if type in ("int", "float") and present:
        if (dates := _dates(name, present)) is not None:
            return _with(dates, (), optional)
        guessed = _numbers(name, present, optional)
        if guessed.type in ("int", "float") and not pa.types.is_integer(typed):
            guessed = replace(guessed, type="float")
        return guessed
    if type == "string" and present:
        return _texts(name, present, optional)
    local = type == "time" and getattr(typed, "tz", None) is None
    day = local and (pa.types.is_date(typed) or all(value % _DAY == 0 for value in present))
    return Guess(type, tuple(present), optional=optional, day=day, local=local)
