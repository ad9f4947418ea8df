"""A converter of observations of the OGC SensorThings API: single observations, pages of them, and data arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import numpy as np

from cep.connectors.formats.pack_scan import identify
from cep.connectors.formats.plain_packs import Lines, PlainRecords, Spans
from cep.connectors.records.cells import halves
from cep.connectors.records.numbers import ESCAPED, NESTED, NULL, NUMBER, STRING
from cep.connectors.records.paths import source_of
from cep.connectors.records.records import time_keys
from cep.connectors.records.values import Real, Unreadable, kind
from cep.core.fluents import RECORD_COLUMNS, RECORD_END
from cep.core.schema import Schema

TIME = "phenomenonTime"
START, END = f"start of {TIME}", f"end of {TIME}"
LINKED = {
    "datastream": ("Datastream", "Datastreams"),
    "multidatastream": ("MultiDatastream", "MultiDatastreams"),
    "feature": ("FeatureOfInterest", "FeaturesOfInterest"),
}
_ID, _LINK = "@iot.id", "@iot.navigationLink"
_OPEN = ("", "..")
"""The texts that mark an open start or end of an interval (ISO 8601-2)."""
_ARRAY = "dataArray"
_PLACES = tuple(name for name, _ in LINKED.values())
_KEY = re.compile(r"\(([^()]+)\)$")


class Pages:
    """A converter of observations to lines of JSON. It adds values that are derived from others: the start and the end
    of the observation's time, and the ids of linked entities."""

    pages = "value"
    labels = (TIME, _ID, _ARRAY, "id", *LINKED, *_PLACES, *(place + _LINK for place in _PLACES))

    def __init__(self, schema: Schema) -> None:
        self._fluent = any(attribute.name == RECORD_END for attribute in schema.attributes)
        self._interval = schema.time is None and schema.start is None and schema.end is None
        if self._fluent and schema.time in (TIME, RECORD_COLUMNS[0]):
            ends = (
                replace(attribute, source=END) if attribute.name == RECORD_END else attribute
                for attribute in schema.attributes
            )
            self._interval, self.schema = True, replace(schema, time=START, attributes=tuple(ends))
        else:
            self.schema = replace(schema, start=START, end=END) if self._interval else schema
        types = dict.fromkeys(schema.tested, "any")
        types |= {source_of(attribute): attribute.type for attribute in schema.attributes}
        wanted = {*types, *time_keys(self.schema)}
        self._ids = [(name, types.get(name) in ("string", "iri")) for name in ("id", *LINKED) if name in wanted]
        self._instants = [key for key in (schema.time, schema.start, schema.end) if key == TIME]

    def lines(self, elements: Sequence[Any], text: Callable[[int], str]) -> list[str | Unreadable | None]:
        """Convert observations to lines of JSON.

        If an observation cannot be converted, the result contains the reason instead of a line. `text`: a function that
        maps the index of an element to its source text.
        """
        lines_read: list[str | Unreadable | None] = []
        for place, element in enumerate(elements):
            try:
                lines_read.append(self._line(element, text(place)))
            except Unreadable as reason:
                lines_read.append(reason.kept())
        return lines_read

    def made(self, records: PlainRecords) -> Lines:
        """Generate the lines of many observations at once.

        A span of text that contains a data array is marked in `Lines.refused`. It must then be converted by `lines`.
        """
        buffer, good = records.buffer, records.good & ~records.empty
        none, every = np.zeros(len(good), np.bool_), np.ones(len(good), np.bool_)
        columns: list[tuple[str, Spans]] = []
        first, length = records.cell(TIME)
        slash = halves(buffer, first, length)
        if self._interval:
            good &= records.there(TIME, STRING)
            if self._fluent:
                good &= ~np.isin(buffer[first + np.maximum(length, 1) - 1], np.frombuffer(b"./", np.uint8))
            size = np.where(slash < 0, length, slash - first - 1)
            columns.append((f'"{START}": ', (first, size, every)))
            last = np.where(slash < 0, first, slash)
            columns.append((f'"{END}": ', (last, first + length - last, every)))
        elif self._instants:
            good &= ~records.there(TIME, ESCAPED) & (slash < 0)
        for name, as_text in self._ids:
            if name == "id":
                first, length = records.cell(_ID)
                has_id = records.there(_ID, STRING, NUMBER)
                good &= has_id | ~records.there(_ID) | records.there(_ID, NULL)
                good &= ~records.there(_ID, NUMBER) | (buffer[first] != ord("-"))
                spans = first, length, as_text | records.there(_ID, STRING)
            else:
                place, collection = LINKED[name]
                has_id = records.there(place + _LINK, STRING)
                good &= ~records.there(place, NESTED) & ~records.there(place + _LINK, ESCAPED)
                first, length = records.cell(place + _LINK)
                letters = np.frombuffer(collection.encode(), np.uint8)
                *spans, read = identify(buffer, first, np.where(has_id, length, 0), letters, as_text)
                good &= read
            first, length, quoted = spans
            has_id &= ~records.there(name)
            columns.append((f'"{name}": ', (first, np.where(has_id, length, -1), quoted)))
        body = records.first + 1
        columns.append(("", (body, records.beyond - 1 - body, none)))
        refused = np.bincount(records.of[records.there(_ARRAY)], minlength=records.spans) > 0
        return Lines(buffer, columns, every, ~good, refused)

    def _line(self, entity: Any, text: str) -> str:
        if not isinstance(entity, dict):
            raise Unreadable("object", f"an observation is a JSON object, but this is {kind(entity)}")
        line = "{"
        time = entity.get(TIME)
        if self._interval:
            line += self._ends(time, entity)
        elif self._instants and isinstance(time, str) and "/" in time:
            hint = "leave TIME out of the declaration to read its start and end"
            raise Unreadable("time", f"{TIME} is an interval, but TIME needs an instant; {hint}")
        for name, as_text in self._ids:
            if name not in entity:
                linked_value = entity.get(_ID) if name == "id" else linked(entity, *LINKED[name])
                if linked_value is not None:
                    line += f'"{name}": {written(str(linked_value) if as_text else linked_value)}, '
        body = text[1:]
        if "\n" in body or "\r" in body:
            body = body.replace("\n", " ").replace("\r", " ")
        return line + body if entity else line.removesuffix(", ") + "}"

    def _ends(self, time: Any, observation: Mapping[str, Any]) -> str:
        if not isinstance(time, str) or isinstance(time, Real):
            if time is not None:
                raise Unreadable("time", f"{TIME}: {kind(time)} is not a time")
            other = "; `TIME resultTime` reads that one" if observation.get("resultTime") else ""
            raise Unreadable("time", f"no time: `{TIME}` is missing{other}")
        start, slash, end = time.partition("/")
        first = quoted(start)
        last = "null" if self._fluent and slash and end in _OPEN else quoted(end) if slash else first
        return f'"{START}": {first}, "{END}": {last}, '


def rows(page: Mapping[str, Any]) -> list[Any] | None:
    """Return the observations of a data array. Return None if `page` is not a data array.

    Each observation is an object. A row of the array that does not have one value per component is returned unchanged.
    Raise Unreadable if the array does not name its components.
    """
    array = page.get("dataArray")
    if array is None:
        return None
    names = page.get("components")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable("sensorthings", "the data array has no list of names `components`")
    if not isinstance(array, list):
        raise Unreadable("sensorthings", f"`dataArray` has to be a list, but it is {kind(array)}")
    names = [_ID if name == "id" else name for name in names]
    beside = {key: value for key, value in page.items() if key.startswith(_PLACES)}
    return [
        {**beside, **dict(zip(names, row))} if isinstance(row, list) and len(row) == len(names) else row
        for row in array
    ]


def linked(entity: Mapping[str, Any], name: str, collection: str) -> Any:
    """Return the id of the entity that is linked to `entity` under a name.

    The id is read from the embedded entity if there is one, and otherwise from the link.
    """
    related = entity.get(name)
    if isinstance(related, dict):
        return related.get(_ID)
    link = entity.get(name + _LINK)
    return _id(link, collection) if isinstance(link, str) else None


@lru_cache(maxsize=1 << 16)
def _id(link: str, collection: str) -> int | str | None:
    last = link.rstrip("/").rpartition("/")[2]
    match = _KEY.search(last)
    if match is None or not last.startswith(f"{collection}("):
        return None
    return int(match[1]) if match[1].isascii() and match[1].isdigit() else match[1].strip("'")


def written(value: Any) -> str:
    """Write a value that was parsed from JSON as JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Real() | int():
            return str(value)
        case str():
            return quoted(value)
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case _:
            return "{" + ", ".join(f"{quoted(key)}: {written(member)}" for key, member in value.items()) + "}"
