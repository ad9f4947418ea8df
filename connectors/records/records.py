"""The reference implementation for reading one record of JSON or text fields. Fast readers have the same results."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from cep.connectors.records.declarations import RESERVED, declaration
from cep.connectors.records.paths import (
    EACH,
    KEY,
    Path,
    elsewhere,
    first_at,
    from_message,
    is_own,
    list_of,
    path,
    source_of,
    sources,
    written,
)
from cep.connectors.records.paths import place as element
from cep.connectors.records.record_tests import JsonValues, passed
from cep.connectors.records.time_hint import time_hint
from cep.connectors.records.times import FIXED, of_duration, shown
from cep.connectors.records.values import (
    Real,
    Unreadable,
    json_time,
    json_value,
    kind,
    text_time,
    text_value,
    written_time,
)
from cep.core.schema import Attribute, Schema, TimeFormat
from cep.core.suggest import nearest
from cep.core.time_pattern import padded
from cep.events import Value

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""
_CP1252 = re.compile(rb"[\x80-\x9f]")
"""Bytes that are characters in Windows-1252, but control characters in ISO 8859-1."""
_CLOCK = re.compile("%[HIMSf]")
_CALENDAR = re.compile(r"P[^T/]*[0-9][YM]")
"""A pattern for durations that contain years or months."""
NO_EVENT = "the record is not an event of the program: no WHEN is true for it"
_NAME = r'\s*"?[^\W\d][^,;\t"{}\[\]]*"?\s*'
_HEADER = re.compile(rf"\ufeff?{_NAME}([,;\t]){_NAME}(?:\1{_NAME})*")
_ONE_A_LINE = "a file of JSON Lines holds one object a line, as `jq -c '.[]'` makes of a list"
_DTYPES: Mapping[str, str] = {
    "int": "Int64",
    "float": "Float64",
    "string": "String",
    "iri": "String",
    "bool": "Boolean",
    "time": "Int64",
    "duration": "Int64",
}
"""The name of the polars type of each attribute type."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read: start and end in microseconds, and one value per attribute. A missing value is None."""

    type: str
    start: int
    end: int
    values: tuple[Value, ...]


class Twice(dict[str, Any]):
    """A JSON object that contains a key more than once."""

    names: frozenset[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeated = Twice(members)
    repeated.names = frozenset(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return repeated


def _missing_number(name: str) -> None:
    """Read `NaN` and `Infinity` as missing values. Python writes them, although they are not valid JSON."""


decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=Real, parse_constant=_missing_number)


def read_events(
    line: bytes,
    schemas: Mapping[str, Schema],
    default: str | None = None,
    bound: bool = False,
    envelope: Mapping[str, str | None] | None = None,
) -> list[Record | Unreadable]:
    """Return the events of one line of JSON.

    A line contains one event. If the declaration reads a list, the line contains one event per element of this list.
    For an element that cannot be read, the result contains an Unreadable. Raise Unreadable if the whole line is
    unreadable.

    - `default`: the event type of records that do not name one.
    - `bound`: True if the user bound the input to the event type `default`. Then the field `type` of a record is
      ignored. But a record that names another event type of the program is unreadable.
    - `envelope`: the values of sources in the message that contains the record, such as the topic.
    """
    value = parse(line)
    if not isinstance(value, dict):
        hint = f"; {_ONE_A_LINE}" if isinstance(value, list) else ""
        raise Unreadable("object", f"a record is a JSON object, but this is {kind(value)}{hint}")
    tested = [
        schema for schema in schemas.values() if schema.when is not None and (not bound or schema.name == default)
    ]
    if not tested:
        return _events(value, schemas[_type(value, schemas, default, bound)], envelope)
    events: list[Record | Unreadable] = []
    name = value.get("type")
    if not bound and isinstance(name, str) and name in schemas and schemas[name].when is None:
        events += _readable(partial(_events, value, schemas[name], envelope))
    for schema in tested:
        events += _readable(partial(_tested, value, schema, envelope))
    return events or ([Unreadable("type", NO_EVENT)] if tested[0].strict else [])


def _readable(read: Callable[[], list[Record | Unreadable]]) -> list[Record | Unreadable]:
    try:
        return read()
    except Unreadable as reason:
        return [reason.kept()]


def _tested(
    record: Mapping[str, Any], schema: Schema, envelope: Mapping[str, str | None] | None
) -> list[Record | Unreadable]:
    """Return the events in a record (itself, or elements of its list) that satisfy the WHEN condition."""

    def passes(place: int | None = None) -> bool:
        def value(source: str) -> JsonValues:
            value_there = record.get(source)
            if value_there is None and from_message(source):
                return JsonValues((envelope or {}).get(source) or None)
            try:
                return JsonValues(_reach(record, path(source), schema, place) if value_there is None else value_there)
            except Unreadable:
                return JsonValues(None)

        return bool(passed(schema, value)[0])

    keys = {path(source)[0] for source in schema.tested}
    if isinstance(record, Twice) and (twice := sorted(record.names & keys)):
        raise Unreadable("json", f"the key `{twice[0]}` appears twice")
    series = list_of(sources(schema, time_keys(schema)))
    elements = None if series is None else first_at(record, series)
    if not isinstance(elements, list):
        return _events(record, schema, envelope, None) if passes() else []
    return _events(record, schema, envelope, [place for place in range(len(elements)) if passes(place)])


def _events(
    record: Mapping[str, Any],
    schema: Schema,
    envelope: Mapping[str, str | None] | None,
    places: Sequence[int] | None = None,
) -> list[Record | Unreadable]:
    """Return the events of one type in a record. `places`: the indices of list elements to read, or None for all."""
    own = [source_of(attribute) for attribute in schema.attributes]
    if isinstance(record, Twice):
        keys = {path(source)[0] for source in [*own, *time_keys(schema)]} | set(own)
        for name in sorted(record.names & ({"type", "args", *keys} | set(time_keys(schema)))):
            raise Unreadable("json", f"the key `{name}` appears twice")
    if "args" in record and schema.when is None:
        return [_positional(record, schema)]
    if not schema.declared and not set(own) <= record.keys():
        raise Unreadable("args", _undeclared(record, schema))
    series = list_of(sources(schema, time_keys(schema)))
    if series is None:
        return [_event(record, schema, None, envelope)]
    elements = _reach(record, series, schema)
    if not isinstance(elements, list):
        name = written(series)
        what = "is missing" if elements is None else f"is {kind(elements)}, not a list"
        hint = f'; without `[]` it is read as it is: FROM "{name}.value"' if isinstance(elements, dict) else ""
        raise Unreadable("args", f"`{name}` {what}{hint}")
    events: list[Record | Unreadable] = []
    for place in range(len(elements)) if places is None else places:
        try:
            events.append(_event(record, schema, place, envelope))
        except Unreadable as reason:
            events.append(Unreadable(reason.code, f"element {place + 1} of `{written(series)}`: {reason.reason}"))
    return events


def _positional(record: Mapping[str, Any], schema: Schema) -> Record:
    start, end = read_times(lambda key: _reach(record, path(key), schema), schema, _json_time(schema))
    arguments = record["args"]
    if not isinstance(arguments, list):
        raise Unreadable("args", f"`args` has to be a list, but it is {kind(arguments)}")
    own = [attribute for attribute in schema.attributes if is_own(attribute)]
    if len(arguments) != len(own):
        raise Unreadable("args", f"`args` holds {len(arguments)} values, but {schema.name} has {_count(own)}")
    if named := sorted({source_of(attribute) for attribute in own} & record.keys() - set(time_keys(schema))):
        raise Unreadable("args", f"`args` and `{named[0]}` both give values")
    values = [
        *arguments,
        *(_reach(record, path(source_of(attribute)), schema) for attribute in schema.attributes[len(own) :]),
    ]
    return Record(schema.name, start, end, tuple(map(json_value, schema.attributes, values)))


def _event(
    record: Mapping[str, Any], schema: Schema, place: int | None, envelope: Mapping[str, str | None] | None
) -> Record:
    """Read an event from a record or, if the declaration reads a list, from the list element at index `place`."""

    def get(source: str) -> Any:
        return record[source] if source in record else _reach(record, path(source), schema, place)

    try:
        start, end = read_times(get, schema, _json_time(schema))
    except Unreadable as late:
        if not late.reason.endswith("is missing"):
            raise
        key = next((key for key in time_keys(schema) if get(key) is None), None)
        where = None if key is None else elsewhere(record, Attribute(key, "time"))
        hint = where.replace(": write FROM", ": write TIME") if where is not None else time_hint(record, schema)
        raise Unreadable(late.code, f"{late.reason}{hint and '; '}{hint}") from None
    values = []
    for attribute in schema.attributes:
        source = source_of(attribute)
        value = get(source)
        if value is None and from_message(source):
            values.append(envelope_value(attribute, source, envelope))
            continue
        try:
            values.append(json_value(attribute, value))
        except Unreadable as reason:
            where = elsewhere(record, attribute) if isinstance(value, dict | list) else None
            raise Unreadable(reason.code, f"{reason.reason}{'' if where is None else f'; {where}'}") from None
    return Record(schema.name, start, end, tuple(values))


def envelope_value(attribute: Attribute, source: str, envelope: Mapping[str, str | None] | None) -> Value:
    """Return an attribute's value from the message's envelope. Return None if the envelope does not contain it.

    Raise Unreadable if the value has the wrong type, or if the source is a topic level but the message has no topic.
    """
    if source in (envelope or ()):
        return text_value(attribute, (envelope or {})[source] or None)
    if source != KEY:
        reason = f"`{source}` is a level of an MQTT topic, but this record is not an MQTT message"
        raise Unreadable("args", f"{attribute.name}: {reason}")
    return None


def _reach(record: Any, steps: Path, schema: Schema, place: int | None = None) -> Any:
    """Return the value that a path selects in a record, or None if there is no such value. The step `[]` selects the
    list element at index `place`."""
    value = record
    for number, step in enumerate(steps):
        if value is None:
            return None
        if step == EACH:
            if not isinstance(value, list):
                raise Unreadable("args", f"`{written(steps[:number])}` is {kind(value)}, not a list")
            value = None if place is None or place >= len(value) else value[place]
            continue
        if (index := element(step)) is not None:
            if not isinstance(value, list):
                raise Unreadable("ill-typed", f"`{written(steps[:number])}` is {kind(value)}, not a list")
            value = value[index] if index < len(value) else None
            continue
        if not isinstance(value, dict):
            name = written(steps[:number])
            hint = f'; for an event of each element write FROM "{name}[].{step}"' if isinstance(value, list) else ""
            raise Unreadable("ill-typed", f"`{name}` is {kind(value)}, not an object with `{step}`{hint}")
        if number and isinstance(value, Twice) and step in value.names:
            raise Unreadable("json", f"the key `{written(steps[: number + 1])}` appears twice")
        value = value.get(step)
    return value


def _json_time(schema: Schema) -> Callable[[str, Any], int]:
    return lambda key, value: json_time(key, value, schema.format)


def read_fields(fields: Mapping[str, str], schema: Schema, point: str = ".", thousands: str | None = None) -> Record:
    """Read an event from the text fields of a line. Empty fields and `NA` are missing values.

    `fields`: the text of each column. `point`: the decimal mark. `thousands`: the mark between groups of digits.
    """

    def field(name: str) -> str | None:
        text = fields.get(name)
        return None if text is None or text in ("", "NA") else text

    start, end = read_times(field, schema, lambda key, text: text_time(key, text, schema.format, point), True)
    marks = point, thousands
    values = tuple(text_value(attribute, field(source_of(attribute)), *marks) for attribute in schema.attributes)
    return Record(schema.name, start, end, values)


def parse(line: bytes) -> Any:
    """Parse a line of JSON. Numbers that have a point or an exponent become `Real`."""
    text = decode(line).strip(" \t\r\n")
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        hint = f"; {_ONE_A_LINE}" if text[0] == "[" or text == "{" else table_hint(text)
        raise Unreadable("json", f"bad JSON at character {error.pos + 1}: {error.msg.lower()}{hint}") from None
    except RecursionError:
        raise Unreadable("json", "bad JSON: nested too deeply") from None
    except ValueError:
        raise Unreadable("json", "bad JSON: a number has more than 4300 digits") from None


def table_hint(line: str) -> str:
    """Return a hint for an error message if a line looks like the header of a table instead of JSON, else ""."""
    match = _HEADER.fullmatch(line)
    if match is None:
        return ""
    return f"; this looks like the header of a table: `--format {'tsv' if match[1] == chr(9) else 'csv'}`"


def decode(raw: bytes, table: bool = False) -> str:
    """Decode a line as UTF-8. Raise Unreadable if it is not UTF-8.

    `table`: True if the file is a text table. Then the error message suggests that the user declare the encoding.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8; {other_encoding(raw, table)}"
        raise Unreadable("utf-8", reason) from None


def other_encoding(raw: bytes, table: bool = False) -> str:
    """Return a hint for an error message about text that is not UTF-8. The hint says how to declare the encoding of a
    table, or how to convert another file."""
    code = "utf-16" if raw.startswith(UTF_16) or 0 in raw else "cp1252" if _CP1252.search(raw) else "latin1"
    return f'declare it: `FORMAT csv(encoding: "{code}")`' if table else f"convert it: `iconv -f {code} -t utf-8`"


def time_keys(schema: Schema) -> tuple[str, ...]:
    """Return the columns or keys that contain the time: a single one, or several parts of the time, or start and end.

    If the declaration names none, return the three keys that records may use (`RESERVED`).
    """
    if schema.time is not None:
        return (schema.time, *schema.further)
    if schema.start is not None or schema.end is not None:
        return (schema.start or "start", schema.end or "end")
    return RESERVED


def series(attribute: Attribute, values: Sequence[Value]) -> pl.Series:
    """Build a column that has the attribute's type. For the type `any`, the column has the type of the values, or
    contains Python objects if the values have several types."""
    if attribute.type != "any":
        return pl.Series(attribute.name, values, dtype=getattr(pl, _DTYPES[attribute.type]))
    kinds = {type(value) for value in values if value is not None}
    whole = [value for value in values if isinstance(value, int)]
    if kinds <= {str}:
        return pl.Series(attribute.name, values, dtype=pl.String)
    if kinds == {bool}:
        return pl.Series(attribute.name, values, dtype=pl.Boolean)
    if kinds == {int}:
        return pl.Series(attribute.name, values, dtype=pl.Int64)
    if kinds <= {int, float} and all(abs(value) <= 2**53 for value in whole):
        return pl.Series(attribute.name, [None if v is None else float(v) for v in values], dtype=pl.Float64)
    return pl.Series(attribute.name, values, dtype=pl.Object)


def closest(word: str, words: Sequence[str]) -> str:
    """Return a hint that names the word in `words` which is most similar to `word`, or "" if none is similar."""
    near = nearest(word, words)
    return f" (did you mean `{near}`?)" if near else ""


def _count(attributes: Sequence[Attribute]) -> str:
    n = len(attributes)
    return "1 attribute" if n == 1 else f"{n} attributes"


def _undeclared(record: Mapping[str, Any], schema: Schema) -> str:
    names = [attribute.name for attribute in schema.attributes]
    wanted = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` to `{names[-1]}`"
    others = [name for name, value in record.items() if name != "type" and _scalar(value)]
    types = {name: _written(value) for name, value in record.items()}
    return (
        f"{schema.name} is not declared, so its values come as `args` or as {wanted}; "
        f"declare it to have them by name: `{declaration(schema, others, types)}`"
    )


def _scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _written(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case Real():
            return "float"
        case str():
            return "string"
        case _:
            return "int"


def _type(record: Mapping[str, Any], schemas: Mapping[str, Schema], default: str | None, bound: bool) -> str:
    name = record.get("type")
    if bound and not (isinstance(name, str) and name in schemas and name != default):
        assert default is not None, "a bound input has a type"
        return default
    if bound:
        raise Unreadable("type", f"the record says that it is a {name}, but the input is bound to {default}")
    if name is None:
        if default is not None:
            return default
        raise Unreadable("type", "the record has no type: the field `type` is missing")
    if not isinstance(name, str) or isinstance(name, Real):
        raise Unreadable("type", f"`type` has to be a string, but it is {kind(name)}")
    if name not in schemas:
        raise Unreadable("type", f"no event of the program is called `{shown(name)}`{closest(name, list(schemas))}")
    return name


def _word(key: str, value: Any, pattern: str | None, fields: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Unreadable("time", f"{key}: {kind(value)} is not a time")
    text = written_time(value, pattern)
    return padded(text, pattern) if fields and pattern is not None else text


def part_patterns(format: TimeFormat | None, columns: int) -> Sequence[str | None]:
    """Return the part of the pattern that applies to each column of a split time. Use None for a part that is unknown.

    If there are two columns, the first contains the date and the second the time of day.
    """
    words = [] if format is None or format.pattern is None else format.pattern.split()
    if columns > 2:
        return words if len(words) == columns else [None] * columns
    cut = 1 if len(words) == 2 else next((number for number, word in enumerate(words) if _CLOCK.search(word)), 0)
    return (" ".join(words[:cut]), " ".join(words[cut:])) if cut else (None, None)


def read_times(
    get: Callable[[str], Any], schema: Schema, read: Callable[[str, Any], int], fields: bool = False
) -> tuple[int, int]:
    """Return the start and the end of a record.

    `get`: a function that returns the value of one of the `time_keys`. `read`: a function that converts a key and its
    value to microseconds. `fields`: True if the values come from a text table, in which numbers are texts of digits.
    """
    keys = time_keys(schema)
    values = [get(key) for key in keys]
    if len(keys) == 3:
        time, *ends = values
        if time is None and ends == [None, None]:
            raise Unreadable("time", "no time: `time`, or `start` and `end`, is missing")
        if time is not None and ends != [None, None]:
            raise Unreadable("time", "`time` and `start` or `end` both give the time")
        keys, values = (keys[:1], values[:1]) if time is not None else (keys[1:], values[1:])
    for key, value in zip(keys, values):
        if value is None:
            raise Unreadable("time", f"no time: `{key}` is missing")
    if schema.further:
        words = [_word(*column, fields) for column in zip(keys, values, part_patterns(schema.format, len(keys)))]
        return (time := read(", ".join(keys), " ".join(words))), time
    if len(keys) == 2 and keys[0] == keys[1]:
        return interval(keys[0], values[0], read, schema)
    start = read(keys[0], values[0])
    return start, read(keys[-1], values[-1]) if len(keys) > 1 else start


def interval(key: str, value: Any, read: Callable[[str, Any], int], schema: Schema | None = None) -> tuple[int, int]:
    """Parse a text that contains an interval: `start/end`, `start/PT1H` or `PT1H/end`. Return the start and the end.

    If the text is a single time, start and end are equal. If the schema has `FOLD order`, `FIXED` is added to a time
    that is computed from a duration.
    """
    later = FIXED if schema is not None and schema.format is not None and schema.format.fold == "order" else 0
    first, slash, last = str(value).partition("/") if isinstance(value, str) else ("", "", "")
    if not slash:
        return (time := read(key, value)), time + later
    lengths = [text.strip(" \t").startswith("P") for text in (first, last)]
    if all(lengths):
        raise Unreadable("time", f"{key}: `{shown(str(value))}` consists of two durations, so it has no time")
    try:
        if lengths[1]:
            return (start := read(key, first)), start + of_duration(last.strip(" \t")) + later
        if lengths[0]:
            return (end := read(key, last)) - of_duration(first.strip(" \t")) + later, end
    except ValueError as error:
        hint = "; months and years differ in length" if _CALENDAR.search(value) else ""
        raise Unreadable("time", f"{key}: {error}{hint}") from None
    return read(key, first), read(key, last)
