"""Parser of clauses about the format of input records: FORMAT, ZONE, FOLD, MISSING, and paths after FROM."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from cep.core import time_pattern
from cep.core.errors import CepError
from cep.core.literals import read_string, read_time
from cep.core.schema import RecordFormat, TimeFormat
from cep.core.suggest import nearest
from cep.core.zones import names, zone_hint
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.terms import constant
from cep.language.syntax.tokens import Token

CLAUSES = ("FORMAT", "ZONE", "FOLD", "MISSING")
UNITS = ("s", "ms", "us", "ns")
FOLDS = ("earlier", "later", "order")
RECORD_FORMATS: Mapping[str, tuple[str, ...]] = {
    "csv": ("separator", "decimal", "thousands", "comment", "quote", "encoding", "columns", "skip", "units"),
    "zeek": (),
    "senml": ("now",),
    "sensorthings": (),
    "influx": ("measurement", "precision"),
    "prometheus": ("metric",),
}
"""The options of each record format. CSV needs at least one of them."""

_FORMAT = '`FORMAT "%d.%m.%Y %H:%M"`, `FORMAT epoch ms`'
_CSV = '`FORMAT csv(separator: ";", decimal: ",", comment: "#")`'
_EXAMPLES = {
    "csv": _CSV,
    "zeek": "`FORMAT zeek`",
    "senml": '`FORMAT senml`, `FORMAT senml(now: "2026-11-22T10:00:00Z")`',
    "sensorthings": "`FORMAT sensorthings`",
    "influx": '`FORMAT influx`, `FORMAT influx(measurement: "cpu", precision: "ms")`',
    "prometheus": '`FORMAT prometheus`, `FORMAT prometheus(metric: "node_load1")`',
}

_FOREIGN_UNITS = {
    "second": "s",
    "sec": "s",
    "milli": "ms",
    "millisecond": "ms",
    "microsecond": "us",
    "nanosecond": "ns",
}
_ISO = "ISO 8601 is read without a FORMAT"
_FOREIGN_FORMATS = {
    **dict.fromkeys(("iso", "iso8601", "iso_8601", "rfc3339"), _ISO),
    **dict.fromkeys(
        ("unix", "posix", "timestamp"), "seconds since 1970 are `FORMAT epoch s`, milliseconds `FORMAT epoch ms`"
    ),
}
_FOREIGN_OPTIONS = {
    **dict.fromkeys(("sep", "delimiter", "delim"), "separator"), "decimal_comma": "decimal", "quotechar": "quote",
    "charset": "encoding", "comments": "comment", "thousand": "thousands", "grouping": "thousands",
    **dict.fromkeys(("header", "names", "fields"), "columns"), "skiprows": "skip", "skip_rows": "skip", "unit": "units",
}  # fmt: skip
_FRACTION = re.compile(r"\[[0-9]*[^0-9\]]", re.ASCII)

Missing = tuple[int | float | str, ...]


@dataclass(slots=True)
class Clauses:
    """The clauses of one attribute or one declaration that have been read so far. They describe the format of values or
    records.

    - `of`: the type of the attribute, if the clauses are those of an attribute.
    - `timed`: True if the event's declaration names a time column.
    - `facts`: True if the clauses belong to a declaration of facts, whose times may be times of day.
    """

    of: str | None = None
    timed: bool = False
    facts: bool = False
    optional: bool = True
    pattern: str | None = None
    unit: str | None = None
    zone: str | None = None
    fold: str | None = None
    missing: Missing | None = None
    records: RecordFormat | None = None
    fold_at: Token | None = None
    zone_at: Token | None = None

    def read(self, cursor: Cursor) -> None:
        """Read the next clause. Raises CepError if it is wrong or contradicts an earlier clause."""
        first = cursor.advance()
        match first.key:
            case "FORMAT":
                self._format(cursor, first)
            case "ZONE":
                self._timely(cursor, first)
                if self.zone is not None:
                    cursor.stop("the time has a second ZONE", 'one is enough: `ZONE "Europe/Zurich"`', first.span)
                self.zone_at = first
                self.zone = _text(cursor, "the name of a time zone", 'e.g. `ZONE "Europe/Zurich"`')
                cursor.read(_known_zone, cursor.previous, self.zone)
            case "FOLD":
                self._timely(cursor, first)
                hint = (
                    "if clocks show a time twice, `FOLD earlier` (the default) means the first time, and `FOLD later` "
                )
                hint += "the second; with `FOLD order`, the order of the records decides"
                if cursor.token.text.lower() not in FOLDS:
                    cursor.fail("`earlier`, `later` or `order`", hint)
                self.fold, self.fold_at = cursor.advance().text.lower(), first
                if self.fold == "order" and self.of is not None:
                    hint = 'put `FOLD order` after the time of the event: `TIME ts ZONE "Europe/Zurich" FOLD order`'
                    cursor.stop(
                        "`FOLD order` is for the time of an event, not for attributes", hint, cursor.span(first)
                    )
            case _:
                if self.missing is not None:
                    cursor.stop(
                        "the attribute has a second MISSING",
                        'values are separated by commas: `MISSING -999, "n/a"`',
                        first.span,
                    )
                if not self.optional:
                    cursor.stop(
                        "a value that may be missing needs `?`", "put it after the type: `gust: float?`", first.span
                    )
                self.missing = _values(cursor)

    def times(self, cursor: Cursor) -> TimeFormat | None:
        """Return the format of times that the clauses specify. Return None if they specify none. Raises CepError if the
        clauses contradict each other."""
        if self.fold is not None and self.zone is None:
            assert self.fold_at is not None, "it was read"
            cursor.stop("FOLD needs a ZONE", 'e.g. `ZONE "Europe/Zurich" FOLD later`', self.fold_at.span)
        if self.pattern is None and self.unit is None and self.zone is None:
            return None
        if self.facts and self.zone is not None and self.pattern is not None and time_pattern.of_day(self.pattern):
            hint = f'use a condition on local time: `local_time(end(), "{self.zone}")`'
            cursor.stop(
                "a time of day without a date cannot have a ZONE", hint, self.zone_at.span if self.zone_at else None
            )
        if self.fold == "order" and (self.unit is not None or "%z" in (self.pattern or "")):
            assert self.fold_at is not None, "it was read"
            hint = "leave out the ZONE: counts since 1970 and times with an offset are exact without it"
            cursor.stop("times of this format are never ambiguous", hint, self.fold_at.span)
        return TimeFormat(self.pattern, self.unit, self.zone, self.fold)

    def _timely(self, cursor: Cursor, first: Token) -> None:
        if self.of is None and not self.timed:
            hint = f"name the column first: `TIME ts {first.text.upper()} ...`"
            cursor.stop(
                f"{first.text.upper()} describes the time, but no column of the time is named", hint, first.span
            )
        if self.of is not None and self.of != "time" and (self.of != "duration" or first.key != "FORMAT"):
            things = "times and durations" if first.key == "FORMAT" else "times"
            hint = 'for decimal commas, write `FORMAT csv(decimal: ",")` after the declaration'
            hint = hint if self.of in ("int", "float") else f"only {things} have a {first.key}"
            cursor.stop(f"{first.text.upper()} is for times, but this attribute is of type {self.of}", hint, first.span)

    def _format(self, cursor: Cursor, first: Token) -> None:
        token = cursor.token
        bare = token.text in RECORD_FORMATS and token.text != "csv"
        bare |= not self.timed and token.text.lower() not in ("csv", "epoch", *UNITS)
        if self.of is None and token.kind == "name" and (bare or cursor.peek().key == "("):
            if self.records is not None:
                cursor.stop("the records have a second FORMAT", f"put all options together: {_CSV}", first.span)
            self.records = _records(cursor)
            return
        self._timely(cursor, first)
        if self.pattern is not None or self.unit is not None:
            cursor.stop("the time has a second FORMAT", "write only one: " + _FORMAT, first.span)
        if token.kind == "string":
            if self.of == "duration":
                clock = '; a time of day is of type time: `from: time FORMAT "%H:%M"`' if self.facts else ""
                cursor.stop("the FORMAT of a duration is its unit", f"e.g. `FORMAT ms`{clock}")
            self.pattern = _text(cursor, "a format", _FORMAT)
            cursor.read(partial(time_pattern.parts, clocks=self.facts), token, self.pattern)
            return
        word = token.text.lower()
        if self.of == "duration":
            if word == "epoch":
                cursor.stop("`epoch` is for times, not for durations", "e.g. `FORMAT ms`")
        elif word in UNITS:
            cursor.stop(
                f"expected `epoch {word}`, found `{token.text}`", f"write counts since 1970 as `FORMAT epoch {word}`"
            )
        elif word == "epoch":
            cursor.advance()
        elif word in RECORD_FORMATS:
            cursor.stop(f"`{token.text}` is a file format, and its options are missing", f"e.g. {_CSV}")
        else:
            cursor.fail("the format of the time", _FOREIGN_FORMATS.get(word, _FORMAT))
        unit = cursor.token
        if unit.text.lower() not in UNITS:
            meant = _FOREIGN_UNITS.get(unit.text.lower().removesuffix("s"))
            hint = f"write `epoch {meant}`; " if meant and self.of != "duration" else ""
            cursor.fail("a unit", f"{hint}the units are " + ", ".join(f"`{unit}`" for unit in UNITS))
        self.unit = cursor.advance().text.lower()


def _known_zone(name: str) -> None:
    if name not in names():
        raise CepError(f"unknown time zone `{name}`", hint=zone_hint(name), code="syntax")


def _values(cursor: Cursor) -> Missing:
    hint = 'list the numbers and strings that mean a missing value: `MISSING -999, "n/a"`'
    missing: list[int | float | str] = []
    while True:
        token = cursor.token
        sign = -1 if cursor.accept("-") else 1
        if cursor.token.kind == "string" and sign == 1:
            missing.append(_text(cursor, "a value", hint))
        elif cursor.token.kind == "number":
            value = constant(cursor).value
            assert isinstance(value, int | float), "a number was written"
            missing.append(sign * value)
        else:
            cursor.fail("a number or a string", hint)
        if missing[-1] in missing[:-1]:
            cursor.stop("this value is listed twice", hint, token.span)
        if cursor.token.key != "," or (cursor.peek().kind not in ("number", "string") and cursor.peek().key != "-"):
            return tuple(missing)
        cursor.advance()


def _records(cursor: Cursor) -> RecordFormat:
    name = cursor.advance()
    if name.text not in RECORD_FORMATS:
        near = nearest(name.text, tuple(RECORD_FORMATS))
        listed = "the formats of records are " + ", ".join(f"`{name}`" for name in RECORD_FORMATS)
        cursor.stop(f"unknown format `{name.text}`", f"did you mean `{near}`?" if near else listed, name.span)
    if cursor.token.key != "(":
        return RecordFormat(name.text)
    opening = cursor.advance()
    known = RECORD_FORMATS[name.text]
    example = f"e.g. {_EXAMPLES[name.text]}"
    if not known:
        cursor.stop(f"{name.text} has no options", example, cursor.span(opening))
    options: dict[str, str] = {}
    while True:
        key = cursor.token
        if key.text not in known:
            listed = ", ".join(f"`{name}`" for name in known)
            meant = _FOREIGN_OPTIONS.get(key.text.lower()) or nearest(key.text, known)
            hint = f"did you mean `{meant}`? " if meant in known else ""
            cursor.fail("an option", f"{hint}the options of {name.text} are {listed}: {_EXAMPLES[name.text]}")
        if key.text in options:
            cursor.stop(f"`{key.text}` is written twice", example)
        cursor.advance()
        cursor.expect(":", "`:` and a string", example)
        value = cursor.token
        options[key.text] = cursor.advance().text if value.kind == "number" else _text(cursor, "a string", example)
        if why := _refused(key.text, options[key.text]):
            cursor.stop(*why, value.span)
        if not cursor.accept(","):
            break
    cursor.close(opening, ")", "`,` or `)`", example)
    if {"columns", "units"} <= options.keys():
        hint = "to skip lines at the beginning, write `skip: 2`"
        cursor.stop("`units` needs a header, but `columns` replaces the header", hint, cursor.span(opening))
    marks = [options[key] for key in ("separator", "decimal", "quote", "comment") if key in options]
    if len(set(marks)) < len(marks) or ("thousands" in options and options["thousands"] == options.get("decimal", ".")):
        message = "separator, decimal, quote and comment must be different characters"
        if len(set(marks)) == len(marks):
            message = "the decimal mark and the thousands mark must be different"
            example = 'e.g. `FORMAT csv(separator: ";", decimal: ",", thousands: ".")`'
        cursor.stop(message, example, cursor.span(opening))
    return RecordFormat(name.text, tuple(options.items()))


def _twice(columns: str) -> str | None:
    """Return the first column name that occurs twice, or None. The names `_` and `-` stand for unused columns and may
    occur several times."""
    names = [name for column in columns.split(",") if (name := column.strip()).strip("_-")]
    return next((name for place, name in enumerate(names) if name in names[:place]), None)


def _refused(option: str, value: str) -> tuple[str, str] | None:
    match option:
        case "encoding":
            try:
                codecs.lookup(value)
            except LookupError:
                return f"unknown encoding `{value}`", "e.g. `latin1`, `cp1252`, `utf-16`"
        case "precision" if value not in UNITS:
            return f"`{value}` is not a precision", "the precisions are `ns` (the default), `us`, `ms` and `s`"
        case "measurement" if not value:
            return "the name of the measurement is empty", f"e.g. {_EXAMPLES['influx']}"
        case "metric" if not value:
            return "the name of the metric is empty", f"e.g. {_EXAMPLES['prometheus']}"
        case "now":
            try:
                read_time(value)
            except CepError:
                return f"`{value}` is not a time", f"ISO 8601, e.g. {_EXAMPLES['senml']}"
        case "thousands" if len(value) != 1 or value.isalnum() or value in '\r\n+-"':
            return "the thousands mark must be one character that is neither a letter nor a digit", (
                'e.g. `FORMAT csv(thousands: ",")`, `FORMAT csv(separator: ";", decimal: ",", thousands: ".")`'
            )
        case "decimal" if value not in (".", ","):
            return "the decimal mark is `.` or `,`", f"e.g. {_CSV}"
        case "comment" if not value.isascii() or not value or set(value) & set("\r\n"):
            return "a comment mark must be ASCII characters", f"e.g. {_CSV}"
        case "columns" if not value.strip(" ,"):
            return "`columns` names no column", 'e.g. `FORMAT csv(columns: "time, station, wind")`'
        case "columns" if twice := _twice(value):
            return f"the column `{twice}` is named twice", f"each column needs its own name: `{twice}`, `{twice}_2`"
        case "skip" | "units" if not (value.isascii() and value.isdigit() and len(value) < 6):
            what = "lines before the header" if option == "skip" else "rows between the header and the records"
            return f"`{value}` is not a number of {what}", f"e.g. `FORMAT csv({option}: 2)`"
        case "separator" | "quote" if len(value) != 1 or not value.isascii() or value in "\r\n":
            return f"the {option} must be one ASCII character", "a tabulator is written `\\t`"
    return None


def column(cursor: Cursor) -> str:
    """Read a column, or the path to a value in a record.

    It is a word, a string, `pump.id`, `labels."app.name"`, `readings[].value`, `coordinates[0]` or `topic[1]`.
    """
    cursor.as_word()
    token = cursor.token
    if token.kind == "string":
        text = _text(cursor, "a column", "")
        return _checked(cursor, token, text)
    if token.kind not in ("name", "variable"):
        hint = 'a column is a word or a string: `FROM wind_speed`, `FROM "Wind speed"`'
        cursor.fail("the name of a column", hint)
    text = cursor.advance().text
    while cursor.adjoins():
        if cursor.token.key == "[":
            opening = cursor.advance()
            text += "["
            if cursor.token.kind == "number":
                text += cursor.advance().text
            cursor.close(opening, "]", "`]`", "`readings[].value` is a value in each element of a list")
            text += "]"
        elif cursor.token.key == "." and _word_behind(cursor):
            cursor.advance()
            cursor.as_word()
            text += "." + cursor.advance().text
        elif cursor.token.key == "." and cursor.peek().kind == "string" and cursor.peek().start == cursor.token.end:
            cursor.advance()
            name = cursor.token
            text += f'."{_text(cursor, "a name", "")}"'
            if '"' in text.removesuffix('"').rpartition('."')[2]:
                cursor.stop(
                    "a quoted name cannot contain quotes", "rename the value where the records are written", name.span
                )
        else:
            break
    return _checked(cursor, token, text)


def _word_behind(cursor: Cursor) -> bool:
    follows = cursor.written(cursor.peek())
    return follows.kind in ("name", "variable") and follows.start == cursor.token.end


def _checked(cursor: Cursor, first: Token, text: str) -> str:
    if text.count("[]") > 1:
        message = f"the path `{text}` goes through two lists"
        hint = "only the elements of one list become events: unnest the inner list before semcep reads it"
        cursor.stop(message, hint, cursor.span(first))
    if first.kind != "string" and _FRACTION.search(text):
        message = f"`{text}` is not a valid path of a value"
        hint = "elements of lists and levels of MQTT topics count from 0: `values[0]`, `topic[0]`"
        cursor.stop(message, hint, cursor.span(first))
    return text


def arrays(event: str, sources: list[tuple[str, Token]], cursor: Cursor) -> None:
    """Refuse an event whose paths lead through two different lists."""
    lists = [(source.partition("[]")[0], token) for source, token in sources if "[]" in source]
    for name, token in lists:
        if name != lists[0][0]:
            message = f"`{event}` has values from two lists, `{lists[0][0]}` and `{name}`"
            hint = "only the elements of one list become events: declare an event for each list"
            cursor.stop(message, hint, token.span)


def _text(cursor: Cursor, expected: str, hint: str) -> str:
    token = cursor.token
    if token.kind != "string":
        cursor.fail(expected, hint or None)
    cursor.advance()
    return cursor.read(read_string, token, token.text)
