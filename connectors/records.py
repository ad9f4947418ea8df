"""What one record means, a JSON object or the fields of a line; the fast readers agree with this."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cep.core.schema import Attribute, Schema
from cep.core.suggest import nearest
from cep.events import Value
from connectors.declarations import RESERVED, declaration
from connectors.times import LARGEST, decimal, is_number, of_duration, of_iso, scaled, shown, since_epoch

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""How a file of UTF-16 begins."""
NOT_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')

_ONE_A_LINE = "a file of JSON Lines holds one object a line, as `jq -c '.[]'` makes of a list"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DTYPES: Mapping[str, type[pl.DataType]] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "string": pl.String,
    "iri": pl.String,
    "bool": pl.Boolean,
    "time": pl.Int64,
    "duration": pl.Int64,
}


class Unreadable(Exception):
    """A record that is no event of the program. `code`: json, object, type, time, ill-typed, args, row, utf-8, long."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Record:
    """A readable record: microseconds, and a value for each attribute in order, None where missing."""

    type: str
    start: int
    end: int
    values: tuple[Value, ...]


class Real(str):
    """The text of a JSON number with a point or an exponent, kept so that times stay exact."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """A JSON object that has a key twice."""

    names: frozenset[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = Twice(found)
    repeated.names = frozenset(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return repeated


def _constant(name: str) -> Any:
    raise Unreadable("json", f"{name} is no JSON value; a missing value is written null")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=Real, parse_constant=_constant)


def read_line(line: bytes, schemas: Mapping[str, Schema], default: str | None = None, bound: bool = False) -> Record:
    """The event of one line of JSON; Unreadable where it is none.

    `default` is its type where it names none. `bound`: the input was bound to that type, and a field `type`
    counts only if it names another event of the program.
    """
    found = parse(line)
    if not isinstance(found, dict):
        hint = f"; {_ONE_A_LINE}" if isinstance(found, list) else ""
        raise Unreadable("object", f"a record is a JSON object, this is {kind(found)}{hint}")
    schema = schemas[_type(found, schemas, default, bound)]
    keys = {attribute.source or attribute.name for attribute in schema.attributes}
    if isinstance(found, Twice):
        for name in sorted(found.names & ({"type", "args", *keys} | set(time_keys(schema)))):
            raise Unreadable("json", f"the key `{name}` is there twice")
    start, end = _times(found.get, schema, json_time)
    if "args" in found:
        given = found["args"]
        if not isinstance(given, list):
            raise Unreadable("args", f"`args` is a list, this is {kind(given)}")
        if len(given) != len(schema.attributes):
            raise Unreadable("args", f"`args` holds {len(given)} values, {schema.name} has {_count(schema)}")
        if named := sorted(keys & found.keys() - set(time_keys(schema))):
            raise Unreadable("args", f"`args` and `{named[0]}` both give values")
    else:
        if not schema.declared and not keys <= found.keys():
            raise Unreadable("args", _undeclared(found, schema))
        given = [found.get(attribute.source or attribute.name) for attribute in schema.attributes]
    values = tuple(json_value(attribute, value) for attribute, value in zip(schema.attributes, given))
    return Record(schema.name, start, end, values)


def read_fields(fields: Mapping[str, str], schema: Schema) -> Record:
    """The event of one line of text fields, by column; empty and `NA` fields are missing."""

    def field(name: str) -> str | None:
        text = fields.get(name)
        return None if text is None or text in ("", "NA") else text

    start, end = _times(field, schema, text_time)
    values = tuple(text_value(attribute, field(attribute.source or attribute.name)) for attribute in schema.attributes)
    return Record(schema.name, start, end, values)


def parse(line: bytes) -> Any:
    """The JSON value of a line: numbers with a point as `Real`."""
    text = decode(line).strip(" \t\r\n")
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        hint = f"; {_ONE_A_LINE}" if text[0] == "[" or text == "{" else ""
        raise Unreadable("json", f"bad JSON at character {error.pos + 1}: {error.msg.lower()}{hint}") from None
    except RecursionError:
        raise Unreadable("json", "bad JSON: nested too deeply") from None
    except ValueError:
        raise Unreadable("json", "bad JSON: a number of more than 4300 digits") from None


def decode(raw: bytes) -> str:
    """The text of a line. Unreadable: not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8; {converted(raw)}"
        raise Unreadable("utf-8", reason) from None


def converted(raw: bytes) -> str:
    """How a file whose text is not UTF-8 becomes that, by some of its bytes."""
    return f"convert it: `iconv -f {'utf-16' if raw.startswith(UTF_16) or 0 in raw else 'latin1'} -t utf-8`"


def time_keys(schema: Schema) -> tuple[str, ...]:
    """The columns that may hold the times: one, or start and end, or all three where none was declared."""
    if schema.time is not None:
        return (schema.time,)
    if schema.start is not None or schema.end is not None:
        return (schema.start or "start", schema.end or "end")
    return RESERVED


def series(attribute: Attribute, values: Sequence[Value]) -> pl.Series:
    """A column of the attribute's type; of `any` the natural one, a mixture as objects."""
    if attribute.type != "any":
        return pl.Series(attribute.name, values, dtype=_DTYPES[attribute.type])
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


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case Real() | int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def closest(word: str, words: Sequence[str]) -> str:
    """A hint at the most similar of the words, or nothing."""
    near = nearest(word, words)
    return f" (`{near}` comes near)" if near else ""


def _count(schema: Schema) -> str:
    n = len(schema.attributes)
    return "1 attribute" if n == 1 else f"{n} attributes"


def _undeclared(found: Mapping[str, Any], schema: Schema) -> str:
    """Why a record of an undeclared event has no values: it says them by names that nobody has declared."""
    names = [attribute.name for attribute in schema.attributes]
    wanted = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` to `{names[-1]}`"
    others = [name for name, value in found.items() if name != "type" and _scalar(value)]
    types = {name: _written(value) for name, value in found.items()}
    return (
        f"{schema.name} is not declared, so its values come as `args` or as {wanted}; "
        f"declare it to have them by name: `{declaration(schema, others, types)}`"
    )


def _scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _written(value: Any) -> str:
    """The type of a JSON value, as a declaration writes it."""
    match value:
        case bool():
            return "bool"
        case Real():
            return "float"
        case str():
            return "string"
        case _:
            return "int"


def _type(found: Mapping[str, Any], schemas: Mapping[str, Schema], default: str | None, bound: bool) -> str:
    name = found.get("type")
    if bound and not (isinstance(name, str) and name in schemas and name != default):
        assert default is not None, "a bound input has a type"
        return default
    if bound:
        raise Unreadable("type", f"the record says it is a {name}, the input was bound to {default}")
    if name is None:
        if default is not None:
            return default
        raise Unreadable("type", "the record names no type: a field `type` is missing")
    if not isinstance(name, str) or isinstance(name, Real):
        raise Unreadable("type", f"`type` is a string, this is {kind(name)}")
    if name not in schemas:
        raise Unreadable("type", f"no event of the program is called `{shown(name)}`{closest(name, list(schemas))}")
    return name


def _times(get: Callable[[str], Any], schema: Schema, read: Callable[[str, Any], int]) -> tuple[int, int]:
    keys = time_keys(schema)
    given = [get(key) for key in keys]
    if len(keys) == 3:
        time, *interval = given
        if time is None and interval == [None, None]:
            raise Unreadable("time", "no time: `time`, or `start` and `end`, is missing")
        if time is not None and interval != [None, None]:
            raise Unreadable("time", "`time` and `start` or `end` both give the time")
        keys, given = (keys[:1], given[:1]) if time is not None else (keys[1:], given[1:])
    for key, value in zip(keys, given):
        if value is None:
            raise Unreadable("time", f"no time: `{key}` is missing")
    start = read(keys[0], given[0])
    return start, read(keys[-1], given[-1]) if len(keys) > 1 else start


def json_time(key: str, value: Any) -> int:
    """A number of seconds or an ISO 8601 string."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError(f"{kind(value)} is no time")
        return since_epoch(str(value)) if isinstance(value, (int, Real)) else of_iso(value)
    except ValueError as error:
        raise Unreadable("time", f"{key}: {error}") from None


def text_time(key: str, text: str) -> int:
    """A number of seconds or ISO 8601; blanks around it do not count."""
    text = text.strip(" \t")
    try:
        return since_epoch(text) if is_number(text) else of_iso(text)
    except ValueError as error:
        raise Unreadable("time", f"{key}: {error}") from None


def json_value(attribute: Attribute, value: Any) -> Value:
    """The value of an attribute in JSON; a boolean is no number, a whole decimal is an int, no number is a string."""
    if value is None:
        return None
    try:
        match attribute.type, value:
            case ("bool" | "any", bool()):
                return value
            case _, bool():
                pass
            case ("int" | "float" | "any", Real() | int()):
                return _number(attribute.type, str(value))
            case "time", Real() | int():
                return since_epoch(str(value))
            case "duration", Real() | int():
                return scaled(str(value))
            case ("string" | "iri" | "any", str()) if not isinstance(value, Real):
                return _text(attribute.type, value)
            case "time", str():
                return of_iso(value)
            case "duration", str():
                return of_duration(value)
        raise ValueError(f"expected {attribute.type if attribute.type != 'any' else 'a value'}, found {kind(value)}")
    except ValueError as error:
        raise Unreadable("ill-typed", f"{attribute.name}: {error}") from None


def text_value(attribute: Attribute, text: str | None) -> Value:
    """The value of an attribute in a text field. `any`: a JSON number, `true`, `false`, else a string."""
    if text is None:
        return None
    bare = text.strip(" \t")
    try:
        match attribute.type:
            case "string" | "iri":
                return _text(attribute.type, text)
            case "int" | "float" if is_number(bare):
                return _number(attribute.type, bare)
            case "bool" if bare.lower() in ("true", "false"):
                return bare.lower() == "true"
            case "time":
                return since_epoch(bare) if is_number(bare) else of_iso(bare)
            case "duration":
                return scaled(bare) if is_number(bare) else of_duration(bare)
            case "any" if _JSON_NUMBER.fullmatch(text):
                return _number("any", text)
            case "any":
                return text == "true" if text in ("true", "false") else text
        raise ValueError(f"expected {attribute.type}, found `{shown(text)}`")
    except ValueError as error:
        raise Unreadable("ill-typed", f"{attribute.name}: {error}") from None


def _number(type: str, text: str) -> int | float:
    whole = _INTEGER.fullmatch(text) is not None
    if type == "float" or (type == "any" and not whole):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"`{shown(text)}` is beyond the floats")
        return number + 0.0  # -0.0 is 0.0
    if whole and len(text) > 4000:
        raise ValueError("an integer of more than 64 bits")
    exact = decimal(text)
    if exact and exact.adjusted() > 19:
        raise ValueError(f"`{shown(text)}` is an integer of more than 64 bits")
    if exact and (exact.adjusted() < 0 or exact != exact.to_integral_value()):
        raise ValueError(f"expected int, found `{shown(text)}`")
    if abs(int(exact)) > LARGEST:
        raise ValueError(f"`{shown(text)}` is an integer of more than 64 bits")
    return int(exact)


def _text(type: str, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no character") from None
    if type == "iri" and (not text or NOT_IRI.search(text)):
        raise ValueError(f"`{shown(text)}` is no IRI")
    return text
