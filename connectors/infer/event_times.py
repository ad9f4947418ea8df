"""Detection of the column that contains the time of each event, in a sample of records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from cep.connectors.infer.sample import RecordSample
from cep.connectors.infer.types import Guess, allowed, clock_pattern, most_times, timely, unit_of
from cep.connectors.records.paths import path
from cep.connectors.records.records import interval
from cep.connectors.records.times import of_iso, of_iso_clock
from cep.connectors.records.values import Unreadable, text_time
from cep.core.schema import TimeFormat

_PREFERRED = (
    "time",
    "timestamp",
    "ts",
    "datetime",
    "date_time",
    "observed_at",
    "event_time",
    "phenomenontime",
    "t",
    "date",
)
_BEGINS = ("start", "begin", "from", "started", "started_at", "start_time", "departed", "von")
_HOUR = 3_600 * 10**6
_TRIED = 500
"""The number of texts in a column that are examined to find out whether the column contains intervals."""
_BETWEEN = re.compile(r"\s+(-|\u2013|\u2014|to|bis|until)\s+")
"""A pattern for the text between the start and the end of an interval."""
_HOURS = re.compile(r"^(hours?|hr|hh|hod|stunde|std|heure|hora)$|_(hour|hr)$|^hour_", re.I)
_CLOCKS = re.compile(r"time|clock|uhr|zeit|^hh_?mm|^hrmn$|heure|hora|^utc$", re.I)
"""A pattern for the names of columns that contain hours or times of day."""
_PARTS = (
    (re.compile(r"^#?(year|yr|yyyy|yy|jahr|ann[eé]e|a[nñ]o)$", re.I), 0, 2100, "%Y"),
    (re.compile(r"^(month|mon|monat|mo|mois|mes)$|^MM$", re.I), 1, 12, "%m"),
    (re.compile(r"^(day|dd|dy|tag|jour|d[ií]a|mday)$", re.I), 1, 31, "%d"),
    (re.compile(r"^(hours?|hr|hh|stunde|std|heure|hora|time|hrmn)$", re.I), 0, 2400, "%H"),
    (re.compile(r"^(minutes?|min|mn|mm)$", re.I), 0, 59, "%M"),
    (re.compile(r"^(seconds?|sec|ss)$", re.I), 0, 59, "%S"),
)
"""The parts of a time that may have a column of their own. For each part: a pattern for the column's name, the smallest
and the largest value, and the format directive."""
_ENDS = ("end", "stop", "to", "until", "ended", "ended_at", "end_time", "arrived", "landed", "bis")


def event_times(
    sample: RecordSample, guesses: Mapping[str, Guess]
) -> tuple[tuple[str, ...], tuple[str, ...], TimeFormat | None]:
    """Find the columns that contain the time of each event. Return three things:

    - the column of the time, or two columns for start and end; empty if no column contains the time
    - additional columns that contain parts of the time
    - the format of the time
    """
    last = {source: path(source)[-1].lower() for source in guesses}
    if sample.positional:
        named = [key for key in ("time", "start", "end") if key in guesses]
        return tuple(named), (), guesses[named[0]].format if named else None
    known = [source for source, guess in guesses.items() if guess.type == "time"]
    whole = [source for source in known if None not in sample.columns[source] and not guesses[source].missing]
    if not whole and known:
        lacking = {
            source: sum(value is None or value in guesses[source].missing for value in sample.columns[source])
            for source in known
        }
        fullest = min(known, key=lacking.__getitem__)
        few = allowed(sample.count) if guesses[fullest].missing else sample.count // 2
        if lacking[fullest] <= few:
            whole = [fullest]
    begin = next((source for word in _BEGINS for source in whole if last[source].split(" ")[-1] == word), None)
    end = next((source for word in _ENDS for source in whole if last[source].split(" ")[-1] == word), None)
    if begin is not None and end is not None and _interval(guesses[begin], guesses[end]):
        return (begin, end), (), guesses[begin].format
    if (parts := _parts(sample, guesses)) is not None and all(guesses[source].day for source in whole):
        return parts
    for day in whole:
        clock = _clock_of(day, sample, guesses) if guesses[day].day else None
        if clock is not None:
            return (day,), (clock[0],), clock[1]

    def rank(source: str) -> tuple[bool, int, bool, int]:
        word = last[source]
        place = _PREFERRED.index(word) if word in _PREFERRED else len(_PREFERRED)
        return guesses[source].day, place, not timely(word), whole.index(source)

    if not whole and (intervals := next(filter(partial(_is_interval, sample), guesses), None)) is not None:
        return (intervals, intervals), (), None
    if not whole and (counts := _counts(guesses)) is not None:
        return (counts[0],), (), counts[1]
    best = min(whole, key=rank, default=None)
    return ((), (), None) if best is None else ((best,), (), guesses[best].format)


def local(sample: RecordSample, source: str) -> bool:
    """Return True if some times in a column of intervals have no offset."""
    for text in (value for value in sample.columns[source] if isinstance(value, str)):
        for part in text.split("/"):
            try:
                if not part.startswith("P") and not of_iso_clock(part.strip(" \t"))[1]:
                    return True
            except ValueError:
                continue
    return False


def set_back(sample: RecordSample, begin: str, end: str, format: TimeFormat | None) -> int:
    """Count the intervals that end at most an hour before they start, as happens when clocks are set back."""
    number = 0
    for pair in zip(sample.columns[begin], sample.columns[end], strict=True):
        try:
            first, last = (text_time("", str(text).strip(" \t"), format) for text in pair)
        except Unreadable:
            continue
        number += 0 < first - last <= _HOUR
    return number


def mostly_times(sample: RecordSample, guesses: Mapping[str, Guess]) -> str | None:
    """Return a remark about a column that could contain the time of the events but cannot be used. Return None if there
    is no such column.

    In such a column, at least half of the texts are times, but too many are not, or each text contains two times.
    """
    best: tuple[int, int, str, str | None] | None = None
    for source, guess in guesses.items():
        texts = [value for value in sample.columns[source] if isinstance(value, str)]
        if guess.type != "string" or not texts:
            continue
        if (intervals := _pairs(source, texts)) is not None:
            return intervals
        pattern, number = most_times([text.strip(" \t") for text in texts])
        if number * 2 >= len(texts) and (best is None or number > best[0]):
            best = number, len(texts), source, pattern
    if best is None:
        return None
    number, count, source, pattern = best
    named = source if source.isidentifier() else f'"{source}"'
    written = f"TIME {named}" + ("" if pattern is None else f' FORMAT "{pattern}"')
    return f"{number:,} of {count:,} of `{source}` are times: `{written}` reads those, the rest are dead letters"


def _pairs(source: str, texts: Sequence[str]) -> str | None:
    """Return a remark if the texts of a column are intervals in an unsupported form, such as `27.10.2024 01:00 -
    27.10.2024 02:00`. Otherwise, return None."""
    pairs = [_BETWEEN.split(text.strip(" \t"))[::2] for text in texts]
    both = [pair for pair in pairs if len(pair) == 2]
    if 2 * len(both) <= len(texts):
        return None
    pattern, number = most_times([text for pair in both for text in pair])
    if number <= len(both):
        return None
    between = _BETWEEN.search(texts[pairs.index(both[0])])
    written = "" if pattern is None else f' FORMAT "{pattern}"'
    return (
        f"`{source}` has intervals, the start and the end in one column. START and END need two columns: cut it at the "
        f'"{between[1] if between else ""}" between blanks, then `START .. END ..{written}` reads them'
    )


def _interval(begin: Guess, end: Guess) -> bool:
    """Return True if the columns `begin` and `end` can be the start and the end of intervals.

    Both columns must have the same format. If this is the default format and all times are valid, no interval in the
    sample may end before it begins.
    """
    if begin.format != end.format:
        return False
    if begin.bad or end.bad:
        return True
    try:
        return begin.format is not None or all(
            begins <= other for begins, other in zip(begin.values, end.values, strict=False)
        )
    except TypeError:
        return True


def _clock_of(day: str, sample: RecordSample, guesses: Mapping[str, Guess]) -> tuple[str, TimeFormat | None] | None:
    """Find the column that contains the times of day which belong to the column `day`.

    Return its name, and the format of the day and the time of day together. Return None if there is no such column.
    """
    for source, column in sample.columns.items():
        guess = guesses[source]
        if source == day or path(source)[:-1] != path(day)[:-1] or column.count(None) > allowed(len(column)):
            continue
        if guess.clock:
            return source, None
        sure = guess.type == "string" or (guess.type == "float" and timely(path(source)[-1]))
        format = guesses[day].format
        column = [text for text in column if text is not None]
        odd = sum(not _is_iso(text) for text in column) if sure and format is None else len(column)
        if column and odd <= allowed(len(column)):  # also if only some have fractions of a second
            return source, None
        pattern = (clock_pattern(column) if sure else None) or _number_clock(path(source)[-1], column, sample)
        if pattern is not None:
            return source, TimeFormat(f"{'%Y-%m-%d' if format is None else format.pattern} {pattern}")
    return None


def _is_interval(sample: RecordSample, source: str) -> bool:
    """Return True if a column contains intervals such as `2024-05-01T08:00:00Z/PT1H`."""
    column = [value for value in sample.columns[source] if value is not None]
    texts = [value for value in column if isinstance(value, str) and "/" in value]
    if not texts or len(column) - len(texts) > allowed(len(column)):
        return False
    try:
        for text in texts[:_TRIED]:
            interval(source, text, text_time)
    except Unreadable:
        return False
    return True


def _counts(guesses: Mapping[str, Guess]) -> tuple[str, TimeFormat | None] | None:
    """Find the first column of numbers that are all times since 1970 in the same unit, between the years 1990 and 2100.

    Return its name and its format, or None if there is no such column. The name of the column is not considered.
    """
    for source, guess in guesses.items():
        if guess.type in ("int", "float") and not guess.optional and (unit := unit_of(guess.values)) is not None:
            return source, None if unit == "s" else TimeFormat(unit=unit)
    return None


def _parts(
    sample: RecordSample, guesses: Mapping[str, Guess]
) -> tuple[tuple[str, ...], tuple[str, ...], TimeFormat | None] | None:
    """Find separate columns for the year, month, day and smaller parts of the time. Return None if there are none.

    Otherwise, return the same three values as `event_times`.
    """
    parts: list[str] = []
    words: list[str] = []
    for names, low, high, directive in _PARTS:
        source = next((source for source in guesses if source not in parts and names.search(path(source)[-1])), None)
        values = [] if source is None else [value for value in sample.columns[source] if value is not None]
        numbers = [int(value) for value in values if str(value).strip().isdigit()]
        odd = len(values) - sum(low <= number <= high for number in numbers)
        if source is None or not numbers or odd > allowed(len(values)):
            if directive in ("%Y", "%m"):
                return None
            break
        if directive == "%H" and not all(low <= number <= 24 for number in numbers):
            directive = "%H%M"
        if directive == "%Y" and max(numbers) < 100:
            directive = "%y"
        parts.append(source)
        words.append(directive)
        if directive == "%H%M":
            break
    if len(parts) < 3:
        return None
    return (parts[0],), tuple(parts[1:]), TimeFormat(" ".join(words))


def _number_clock(name: str, column: Sequence[object], sample: RecordSample) -> str | None:
    """Return the format of a column of times of day written as numbers, or None for any other column.

    A time of day is a number like `1234`. It is a number of hours if the name of the column suggests this.
    """
    values = []
    for text in column:
        if isinstance(text, str) and text.strip().isascii() and text.strip().isdigit():
            if not sample.text and len(text.strip()) not in (4, 6):
                return None
            values.append(int(text))
        elif isinstance(text, int | float) and not isinstance(text, bool) and text == int(text):
            values.append(int(text))
        else:
            return None
    if not values or min(values) < 0:
        return None
    if _HOURS.search(name):
        return "%H" if max(values) <= 24 else None
    if not _CLOCKS.search(name) or any(value % 100 > 59 for value in values):
        return None
    if 100 <= max(values) <= 2400:
        return "%H%M"
    long = 10_000 <= max(values) <= 240_000 and all(value // 100 % 100 < 60 for value in values)
    return "%H%M%S" if long else None


def _is_iso(clock: object) -> bool:
    if not isinstance(clock, str) or ":" not in clock:
        return False
    try:
        of_iso(f"2000-01-01 {clock.strip()}")
    except ValueError:
        return False
    return True
