"""A parser of single lines of InfluxDB's line protocol. It is slower than the compiled scanner (`influx_scan`), but
parses every valid line. For lines that both can read, it defines the correct result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep.connectors.records.paths import from_message, source_of
from cep.connectors.records.records import Record, decode, envelope_value, read_times
from cep.connectors.records.times import shown
from cep.connectors.records.values import Real, Unreadable, json_time, json_value, text_time, text_value
from cep.core.fluents import RECORD_END
from cep.core.schema import Schema, TimeFormat

TIME, MEASUREMENT = "time", "measurement"
"""The names that a declaration uses for a point's timestamp and measurement."""
TAGS, FIELDS = "tags.", "fields."
"""The prefixes with which a declaration selects only tags, or only fields."""

_NAME = re.compile(r"(?:[^\\, ]|\\[, ]?)+", re.DOTALL)
_WORD = re.compile(r"(?:[^\\,= ]|\\[,= ]?)+", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+i|\+?[0-9]+u")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TIME = re.compile(r"-?[0-9]+")
_TRUE, _FALSE = ("t", "T", "true", "True", "TRUE"), ("f", "F", "false", "False", "FALSE")
_LINE = "`measurement,tag=value field=1.5 1700000000000000000`"


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A parsed line of InfluxDB's line protocol.

    - `tags`: the value of each tag, a text.
    - `fields`: the value of each field: a text, a boolean, an integer or another number (`Real`).
    - `time`: the digits of the timestamp.
    - `twice`: the keys that occur more than once among the tags or among the fields.
    """

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    time: str | None
    twice: frozenset[str] = frozenset()


def read_point(line: bytes) -> LinePoint:
    """Parse a line. Raise Unreadable if it is not a point."""
    text = decode(line).lstrip(" \t").rstrip(" \t\r\n")
    match = _NAME.match(text)
    if match is None:
        raise _bad("a line begins with the name of a measurement", text, 0)
    measurement, place = _unescaped(match[0], ", "), match.end()
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    twice: set[str] = set()
    while text[place : place + 1] == ",":
        key, place = _key(text, place + 1, "tag")
        match = _WORD.match(text, place)
        if match is None or text[match.end() : match.end() + 1] == "=":
            reason = "has no value, or its value has a `=`, `,` or space without a `\\` before it"
            raise _bad(f"the tag `{shown(key)}` {reason}", text, place)
        if key in tags:
            twice.add(key)
        tags[key], place = _unescaped(match[0], ",= "), match.end()
    if text[place : place + 1] != " ":
        raise _bad(f"no field: a line is {_LINE}", text, place)
    place = _past_blanks(text, place)
    while True:
        key, place = _key(text, place, "field")
        value, place = _value(text, place, key)
        if key in fields:
            twice.add(key)
        fields[key] = value
        if text[place : place + 1] != ",":
            break
        place += 1
    rest = text[place:]
    time = rest.lstrip(" ")
    if rest and (rest == time or _TIME.fullmatch(time) is None):
        raise _bad(
            f"`{shown(time)}` is not a timestamp, which is a whole number after a space", text, len(text) - len(time)
        )
    return LinePoint(measurement, tags, fields, time or None, frozenset(twice))


def timed(schema: Schema) -> Schema:
    """Return the schema with its time columns filled in. If the declaration names none, it is the timestamp.

    If a time column is the timestamp and FORMAT names no unit, the numbers in all time columns have the precision of
    the timestamp.
    """
    if schema.time is None and schema.start is None and schema.end is None:
        schema = replace(schema, time=TIME)
    if TIME in (schema.time, schema.start, schema.end) and (schema.format is None or schema.format.unit is None):
        precision = schema.records.option("precision") if _own(schema) and schema.records is not None else None
        format = TimeFormat(unit=precision or "ns")
        ends = (
            replace(attribute, format=format) if attribute.name == RECORD_END else attribute
            for attribute in schema.attributes
        )
        schema = replace(schema, format=format, attributes=tuple(ends))
    return schema


def measurement(schema: Schema) -> str | None:
    """Return the measurement that the declaration names. Return None if the declaration names no measurement."""
    return schema.records.option("measurement") if _own(schema) and schema.records is not None else None


def record(point: LinePoint, schema: Schema, envelope: Mapping[str, str | None] | None) -> Record:
    """Convert a point to an occurrence of an event type. Raise Unreadable if a value is missing or has the wrong type.

    `schema`: a result of `timed`. `envelope`: values that the point's message has for sources, such as the topic.
    """

    def get(source: str) -> Any:
        if source.removeprefix(TAGS).removeprefix(FIELDS) in point.twice:
            raise Unreadable("args", f"the key `{source}` appears twice")
        for prefix, values in ((TAGS, point.tags), (FIELDS, point.fields)):
            if source.startswith(prefix) and source not in point.tags and source not in point.fields:
                return values.get(source.removeprefix(prefix))
        candidates = [values[source] for values in (point.tags, point.fields) if source in values]
        if source == TIME and point.time is not None:
            candidates.append(_Count(point.time))
        elif source == MEASUREMENT:
            candidates.append(point.measurement)
        if len(candidates) > 1:
            places = f'"{TAGS}{source}" is the tag, "{FIELDS}{source}" the field'
            raise Unreadable("args", f"`{source}` has several meanings in this line: FROM {places}")
        return candidates[0] if candidates else None

    def time(key: str, value: Any) -> int:
        if isinstance(value, str) and not isinstance(value, Real | _Count):
            return text_time(key, value, schema.format)
        return json_time(key, str(value) if isinstance(value, _Count) else value, schema.format)

    if point.time is None and TIME in (schema.time, schema.start, schema.end) and get(TIME) is None:
        hint = "if a field holds the time, name it with TIME"
        raise Unreadable("time", f"the line has no timestamp, and the time of arrival is not used: {hint}")
    start, end = read_times(get, schema, time, True)
    values = []
    for attribute in schema.attributes:
        source = source_of(attribute)
        value = get(source)
        if value is None and from_message(source):
            values.append(envelope_value(attribute, source, envelope))
            continue
        if isinstance(value, str) and not isinstance(value, Real | _Count):
            values.append(text_value(attribute, value))
        else:
            values.append(json_value(attribute, int(value) if isinstance(value, _Count) else value))
    return Record(schema.name, start, end, tuple(values))


class _Count(str):
    """The digits of a timestamp, in a class of their own to distinguish them from the text of a tag or field."""

    __slots__ = ()


def _own(schema: Schema) -> bool:
    return schema.records is not None and schema.records.name == "influx"


def _key(text: str, position: int, what: str) -> tuple[str, int]:
    match = _WORD.match(text, position)
    if match is None or text[match.end() : match.end() + 1] != "=":
        raise _bad(f"no {what} `key=value`: a line is {_LINE}", text, position)
    return _unescaped(match[0], ",= "), match.end() + 1


def _value(text: str, position: int, key: str) -> tuple[Any, int]:
    """Parse the value of a field. Return the value, and the position where it ends in `text`."""
    if text[position : position + 1] == '"':
        match = _STRING.match(text, position)
        if match is None:
            raise _bad(f"the quote of the field `{shown(key)}` is not closed", text, position)
        value: Any = _unescaped(match[1], '"\\')
        end = match.end()
        if text[end : end + 1] not in ("", ",", " "):
            raise _bad(f"something follows the closing quote of the field `{shown(key)}`", text, end)
        return value, end
    end = position
    while end < len(text) and text[end] not in ", ":
        end += 1
    word = text[position:end]
    if word in _TRUE or word in _FALSE:
        return word in _TRUE, end
    if _INTEGER.fullmatch(word):
        return (Real(word[:-1]) if len(word) > 4000 else int(word[:-1])), end
    if _FLOAT.fullmatch(word):
        return Real(word), end
    hint = (
        "put a string in double quotes, and end a whole number with `i`" if word else "the value after `=` is missing"
    )
    raise _bad(f"the field `{shown(key)}` has no value that can be read, `{shown(word)}`: {hint}", text, position)


def _unescaped(text: str, escaped: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    place = 0
    while place < len(text):
        if text[place] == "\\" and text[place + 1 : place + 2] and text[place + 1] in escaped:
            place += 1
        parts.append(text[place])
        place += 1
    return "".join(parts)


def _past_blanks(text: str, position: int) -> int:
    while text[position : position + 1] == " ":
        position += 1
    return position


def _bad(reason: str, text: str, position: int) -> Unreadable:
    return Unreadable("influx", f"bad line protocol at character {position + 1}: {reason}")
