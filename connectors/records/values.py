"""The reference implementation for reading one value of JSON or a text field. Fast readers have the same results."""

from __future__ import annotations

import math
import re
from typing import Any

from cep.connectors.records.paths import told_name
from cep.connectors.records.thousands import is_grouped, plain_number
from cep.connectors.records.times import LARGEST, SHIFTS, decimal, is_number, of_duration, of_text, power, scaled, shown
from cep.core.literals import LEAST
from cep.core.schema import Attribute, TimeFormat
from cep.core.time_pattern import padded
from cep.events import Value

NOT_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
NUMERIC = ("int", "float", "time", "duration")
COUNTED = ("int", "float")
"""The types whose numbers may have marks between groups of three digits."""
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "1", "t"), ("false", "no", "0", "f")

_MARKS = re.compile(r"[.,' _\u2019\u00a0\u202f]")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


class Unreadable(Exception):
    """The error for a record that is not a valid event of the program.

    `code`: the kind of error: json, object, type, time, ill-typed, args, row, utf-8, long. `reason`: the explanation.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason

    def kept(self) -> Unreadable:
        """Return a copy without a traceback, whose stack frames would slow down the garbage collector."""
        return Unreadable(self.code, self.reason)


class Real(str):
    """The text of a JSON number that has a point or exponent. It is kept as text so that times stay exact."""

    __slots__ = ()


def kind(value: Any) -> str:
    """Return a name for the type of a JSON value, for error messages."""
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


def json_time(key: str, value: Any, format: TimeFormat | None) -> int:
    """Convert a time in JSON to microseconds. Without a format, the time is a number of seconds or in ISO 8601."""
    try:
        return _json_ticks(value, format)
    except ValueError as error:
        raise Unreadable("time", f"{key}: {error}") from None


def _json_ticks(value: Any, format: TimeFormat | None) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{kind(value)} is not a time")
    if (format is None or (format.pattern is None and format.unit is None)) and not isinstance(value, (int, Real)):
        return of_text(value, TimeFormat() if format is None else format, numbers=False)
    return of_text(written_time(value, None if format is None else format.pattern), format)


def written_time(value: int | str, pattern: str | None) -> str:
    """Convert a time in JSON to the text that the pattern expects. Leading zeros are added to whole numbers."""
    text = str(value).strip(" \t")
    return text if pattern is None or not isinstance(value, int) else padded(text, pattern)


def text_time(key: str, text: str, format: TimeFormat | None = None, point: str = ".") -> int:
    """Convert a time in a text field to microseconds. If `format` is None, it is in seconds or in ISO 8601.

    Blanks around the time are ignored. If the format is a pattern, leading zeros are added to a number.
    """
    try:
        bare = text.strip(" \t")
        if format is not None and format.pattern:
            return of_text(padded(bare, format.pattern), format)
        return of_text(with_point(bare, point), format)
    except ValueError as error:
        raise Unreadable("time", f"{key}: {error}") from None


def with_point(text: str, point: str) -> str:
    """Replace the decimal mark `point` in a number by a point. If the text is not a number, return it unchanged.

    Raise ValueError if the number contains a point although its decimal mark is another character.
    """
    if point == ".":
        return text
    if "." in text and is_number(text):
        raise ValueError(f"`{shown(text)}` has a point, but the decimal mark is `{point}`")
    plain = text.replace(point, ".", 1)
    return plain if is_number(plain) else text


def json_value(attribute: Attribute, value: Any) -> Value:
    """Convert a JSON value to the attribute's type. Raise Unreadable if this is not possible.

    A number is not accepted as a string, and a boolean is not accepted as a number. An int may have decimals that are
    zero, such as `3.0`.
    """
    if value is None:
        return None
    if attribute.missing and isinstance(value, int | str) and not isinstance(value, bool):
        written = str(value)
        if _absent(attribute, written.strip(" \t"), written):
            return None
    try:
        match attribute.type, value:
            case ("bool" | "any", bool()):
                return value
            case _, bool():
                pass
            case ("int" | "float" | "any", Real() | int()):
                return _number(attribute.type, str(value))
            case ("int" | "float", str()) if attribute.quoted:
                return text_value(attribute, value or None, declarable=False)
            case "bool", int() | str():
                return _boolean(str(value).strip(" \t"))
            case "time", int() | str():
                return _json_ticks(value, attribute.format)
            case "duration", Real() | int():
                return _length(str(value), attribute.format)
            case ("string" | "iri" | "any", str()) if not isinstance(value, Real):
                return _text(attribute.type, value)
            case "duration", str() if attribute.format is not None:
                return _length(value.strip(" \t"), attribute.format)
            case "duration", str():
                return of_duration(value)
        hint = ""
        if attribute.type in ("int", "float") and isinstance(value, str) and is_number(value.strip(" \t")):
            declared = f"`{attribute.name}: {attribute.type} QUOTED`"
            hint = f" `{shown(value)}`; write a number without quotes, or declare it {declared}"
        expected = attribute.type if attribute.type != "any" else "a value"
        raise ValueError(f"expected {expected}, found {kind(value)}{hint}")
    except ValueError as error:
        raise Unreadable("ill-typed", f"{told_name(attribute)}: {error}") from None


def text_value(
    attribute: Attribute, text: str | None, point: str = ".", thousands: str | None = None, declarable: bool = True
) -> Value:
    """Convert the text of a text field to the attribute's type.

    For the type `any`, the text becomes a number or a boolean if it is one, and otherwise a string. `declarable`: True
    if a declaration can define the decimal mark and the mark between groups of digits. Error messages then suggest it.
    """
    if text is None:
        return None
    bare = text.strip(" \t")
    try:
        if thousands is not None and attribute.type in COUNTED:
            bare = plain_number(bare, thousands, point)
        if attribute.type in NUMERIC and (attribute.format is None or attribute.format.pattern is None):
            bare = with_point(bare, point)
        if attribute.missing and _absent(attribute, bare, text):
            return None
        match attribute.type:
            case "string" | "iri":
                return _text(attribute.type, text)
            case "int" | "float" if is_number(bare):
                return _number(attribute.type, bare)
            case "bool":
                return _boolean(bare)
            case "time":
                pattern = None if attribute.format is None else attribute.format.pattern
                return of_text(bare if pattern is None else padded(bare, pattern), attribute.format)
            case "duration":
                return _length(bare, attribute.format) if is_number(bare) else of_duration(bare)
            case "any" if _JSON_NUMBER.fullmatch(text):
                return _number("any", text)
            case "any":
                return text == "true" if text in ("true", "false") else text
        hint = _grouped(attribute.type, bare, point, thousands) if declarable else ""
        if not declarable and attribute.type in COUNTED and is_number(bare.replace(",", ".")):
            hint = "; QUOTED reads numbers with a decimal point; only tables have other marks, with FORMAT csv"
        raise ValueError(f"expected {attribute.type}, found `{shown(text)}`{hint}")
    except ValueError as error:
        raise Unreadable("ill-typed", f"{told_name(attribute)}: {error}") from None


def _grouped(type: str, text: str, point: str, thousands: str | None) -> str:
    """Return a hint for an error message about a number that has marks between groups of digits, or a decimal mark
    other than `point`. Return an empty text if the text is no such number."""
    if type not in COUNTED or not (len(text) < 40 and is_number(_MARKS.sub("", text))):
        return ""
    if thousands is not None:
        return f"; marks of thousands, `{thousands}`, stand before each three digits"
    for dot, mark in ((".", ","), (",", "."), *((point, mark) for mark in "' _\u2019\u00a0\u202f")):
        if is_grouped(text, mark, dot) and (text.count(mark) > 1 or dot in text or dot == point):
            marks = f'thousands: "{mark}"' if dot == "." else f'separator: ";", decimal: ",", thousands: "{mark}"'
            return f"; marks of thousands are declared: `FORMAT csv({marks})`"
    if text.count(",") == 1 and is_number(text.replace(",", ".")):
        return '; decimal commas are declared: `FORMAT csv(separator: ";", decimal: ",")`'
    return "; its marks fit neither decimals nor thousands"


def _absent(attribute: Attribute, bare: str, text: str) -> bool:
    """Return True if the declaration defines this text as a missing value.

    For numeric types, `0` also matches `0.0`, and blanks around the text are ignored. For other types, the exact text
    must match.
    """
    assert attribute.missing is not None, "there are some"
    if attribute.type not in NUMERIC:
        return text in [str(absent_value) for absent_value in attribute.missing]
    if bare in attribute.missing:
        return True
    return is_number(bare) and any(
        not isinstance(absent_value, str) and float(bare) == absent_value for absent_value in attribute.missing
    )


def _boolean(text: str) -> bool:
    if text.lower() in TRUE_WORDS:
        return True
    if text.lower() in FALSE_WORDS:
        return False
    raise ValueError(f"expected bool (`true` `false`, `yes` `no`, `1` `0`), found `{shown(text)}`")


def _length(text: str, format: TimeFormat | None) -> int:
    """Convert a number to microseconds. Its unit is that of the format, or a second if the format has none."""
    return scaled(text, power(SHIFTS["s" if format is None or format.unit is None else format.unit]))


def _number(type: str, text: str) -> int | float:
    whole = _INTEGER.fullmatch(text) is not None
    if type == "float" or (type == "any" and not whole):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"`{shown(text)}` is too large for a float")
        return number + 0.0  # -0.0 is 0.0
    if whole and len(text) > 4000:
        raise ValueError("the integer does not fit in 64 bits")
    exact = decimal(text)
    if exact and exact.adjusted() > 19:
        raise ValueError(f"`{shown(text)}` is an integer that does not fit in 64 bits")
    if exact and (exact.adjusted() < 0 or exact != exact.to_integral_value()):
        raise ValueError(f"expected int, found `{shown(text)}`; declare numbers with decimals as float")
    if int(exact) == -LARGEST - 1:
        raise ValueError(f"`{shown(text)}` {LEAST}")
    if abs(int(exact)) > LARGEST:
        raise ValueError(f"`{shown(text)}` is an integer that does not fit in 64 bits")
    return int(exact)


def _text(type: str, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is not a character") from None
    if type == "iri" and (not text or NOT_IRI.search(text)):
        raise ValueError(f"`{shown(text)}` is not an IRI")
    return text
