"""Conversion of columns of RDF literals to the engine's numbers, booleans, times and durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.values import MISSING, Ints, Pool
from cep.knowledge.rdf.namespaces import XSD
from cep.rules.static.materialized import Column

if TYPE_CHECKING:
    from cep.knowledge.rdf.terms import Terms

Bools = NDArray[np.bool_]
Read = Callable[[pl.Series], tuple[Bools, Column]]
"""A function that parses texts as values of a datatype.

It returns a mask of the valid texts, and a column of values. The values of invalid texts are arbitrary.
"""

_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class _Part:
    """The values of one type in a column.

    `places`: the indices of the terms that have these values, among the column's distinct terms. `values`: the texts of
    these terms, or the engine's values.
    """

    type: str
    places: Ints
    values: pl.Series | Column


def decoded_column(terms: Terms, ids: Ints, pool: Pool) -> tuple[str, Column]:
    """Convert a column of term ids to values. Return the type of the column and the values (see `Terms.columns`).

    A negative id stands for a missing value.
    """
    frame = pl.DataFrame({"id": ids})
    distinct = frame.filter(pl.col("id") >= 0).unique().sort("id")["id"].to_numpy()
    parts = _parts(terms, distinct)
    type = _type(parts)
    values = np.full(len(distinct) + 1, np.nan) if type == "float" else np.full(len(distinct) + 1, MISSING)
    for part in parts:
        values[part.places] = _encoded(part, type, pool)
    return type, values[np.where(ids >= 0, np.searchsorted(distinct, ids), len(distinct))]


def _parts(terms: Terms, distinct: Ints) -> list[_Part]:
    sorts, parts = terms.sort_of(distinct), []
    for index in np.unique(sorts).tolist():
        sort, places = terms.sorts[index], np.flatnonzero(sorts == index)
        texts = terms.texts(distinct[places])
        if not sort.datatype:
            parts.append(_Part("iri", places, texts if sort.kind == 0 else "_:" + texts))
        elif sort.datatype not in READ:
            parts.append(_Part("string", places, texts))
        else:
            type, read = READ[sort.datatype]
            good, values = read(texts)
            if good.any():
                parts.append(_Part(type, places[good], values[good]))
            if not good.all():
                parts.append(_Part("string", places[~good], texts.filter(~good)))
    return parts


def _type(parts: list[_Part]) -> str:
    types = {part.type for part in parts}
    if types == {"int", "float"}:
        whole = np.concatenate([part.values for part in parts if part.type == "int"])
        whole = whole[whole != MISSING]
        exact = (np.abs(whole) < 2**53).all() or (whole.astype(np.float64).astype(object) == whole.astype(object)).all()
        return "float" if exact else "any"
    return types.pop() if len(types) == 1 else "any"


def _encoded(part: _Part, type: str, pool: Pool) -> Column:
    values = part.values
    if isinstance(values, pl.Series):
        return pool.encode(values, part.type)
    if part.type == type:
        return values
    if type == "float":
        return np.where(values == MISSING, np.nan, values.astype(np.float64))
    if part.type == "float":
        return pool.encode_floats(values)
    if part.type == "bool":
        return pool.encode_bools(values)
    return pool.encode_ints(values) if part.type == "int" else pool.encode_ticks(values)


# --- lexical forms ---

_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", '\\"': '"', "\\t": "\t", "\\b": "\b", "\\f": "\f"}
_ESCAPES |= {f"\\u{point:04X}": chr(point) for point in [*range(32), 127]}


def unescaped(texts: pl.Series) -> pl.Series:
    """Remove the escapes from literals of canonical N-Triples."""
    if not texts.str.contains("\\", literal=True).any():
        return texts
    return texts.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()), leftmost=True)


def escaped(texts: pl.Series) -> pl.Series:
    """Add the escapes of canonical N-Triples to literals."""
    if not texts.str.contains(r'[\\"\x00-\x1F\x7F]').any():
        return texts
    return texts.str.replace_many(list(_ESCAPES.values()), list(_ESCAPES), leftmost=True)


def _mask(series: pl.Series) -> Bools:
    return series.fill_null(False).to_numpy()


def _integers(texts: pl.Series) -> tuple[Bools, Column]:
    # The bounds of derived types are ignored: SPARQL has one type of integers.
    good = _mask(texts.str.contains(r"^[+-]?[0-9]+$"))
    return good, texts.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy()


def _floats(form: str, single: bool = False) -> Read:
    def read(texts: pl.Series) -> tuple[Bools, Column]:
        good = _mask(texts.str.contains(form))
        numbers = texts.cast(pl.Float64, strict=False)
        if single:  # use the shortest decimal that equals the number in 32 bits: 0.1 stays 0.1
            numbers = numbers.cast(pl.Float32).cast(pl.String).cast(pl.Float64)
        column = numbers.fill_null(np.nan).to_numpy()
        return good, np.where(np.isfinite(column), column, np.nan)

    return read


def _bools(texts: pl.Series) -> tuple[Bools, Column]:
    return _mask(texts.is_in(["true", "false", "1", "0"])), texts.is_in(["true", "1"]).cast(pl.Int64).to_numpy()


_ZONE = r"(?<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = r"^(?<year>-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(?<month>[0-9]{2})-(?<day>[0-9]{2})"
_CLOCK = r"T(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})(?:\.(?<fraction>[0-9]+))?"
_PERIOD = (
    r"^(?<sign>-)?P(?:(?<days>[0-9]+)D)?"
    r"(?:T(?:(?<hours>[0-9]+)H)?(?:(?<minutes>[0-9]+)M)?(?:(?<seconds>[0-9]+)(?:\.(?<fraction>[0-9]+))?S)?)?$"
)


def _whole(series: pl.Series, default: int = 0) -> Ints:
    column: Ints = series.cast(pl.Int64, strict=False).fill_null(default).to_numpy()
    return column


def _micros(fraction: pl.Series) -> Ints:
    """Convert the digits after a decimal point to microseconds, rounded half to even."""
    digits = fraction.fill_null("").str.pad_end(6, "0")
    ticks = _whole(digits.str.head(6))
    rest = digits.str.slice(6).str.strip_chars_end("0")
    up = _mask(rest > "5") | (_mask(rest == "5") & (ticks % 2 == 1))
    rounded: Ints = ticks + up
    return rounded


def _times(clock: bool) -> Read:
    def read(texts: pl.Series) -> tuple[Bools, Column]:
        fields = texts.str.extract_groups(_DATE + (_CLOCK if clock else "") + _ZONE + "$").struct.unnest()
        good = fields["year"].is_not_null().to_numpy()
        year, month, day = (_whole(fields[name], 10**6) for name in ("year", "month", "day"))
        good &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= _month_length(year, month))
        ticks = _days(year, month, day) * _DAY
        if clock:
            hour, minute, second = (_whole(fields[name]) for name in ("hour", "minute", "second"))
            fraction = _micros(fields["fraction"])
            last = (hour == 24) & (minute == 0) & (second == 0) & (fraction == 0)
            good &= ((hour <= 23) & (minute <= 59) & (second <= 59)) | last
            ticks += ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
        zone = fields["zone"].fill_null("Z").replace("Z", "+00:00")
        minutes = _whole(zone.str.slice(1, 2)) * 60 + _whole(zone.str.slice(4, 2))
        ticks -= np.where(_mask(zone.str.starts_with("-")), -minutes, minutes) * 60_000_000
        return good, np.where((ticks >= _FIRST) & (ticks <= _LAST) & (np.abs(year) < 20_000), ticks, MISSING)

    return read


def _days(year: Ints, month: Ints, day: Ints) -> Ints:
    """Return the number of days from 1970-01-01 to each date of the proleptic Gregorian calendar."""
    year = np.clip(year, -20_000, 20_000) - (month <= 2)
    era, since = np.divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days: Ints = era * 146_097 + since * 365 + since // 4 - since // 100 + of_year - 719_468
    return days


_FIRST = int(_days(*(np.array([n]) for n in (1, 1, 1)))[0]) * _DAY
_LAST = int(_days(*(np.array([n]) for n in (10_000, 1, 1)))[0]) * _DAY - 1


def _month_length(year: Ints, month: Ints) -> Ints:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[np.clip(month, 0, 12)]
    length: Ints = lengths + (leap & (month == 2))
    return length


def _durations(texts: pl.Series) -> tuple[Bools, Column]:
    fields = texts.str.extract_groups(_PERIOD).struct.unnest()
    good = _mask(texts.str.contains(_PERIOD)) & _mask(~texts.str.contains("[PT]$"))
    seconds: Ints = np.zeros(len(texts), dtype=np.int64)
    fits = np.ones(len(texts), dtype=np.bool_)
    for name, unit in (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)):
        # An absent part is 0; a number of more than 64 bits exceeds any duration.
        part = np.where(fields[name].is_null().to_numpy(), 0, _whole(fields[name], 2**62))
        fits &= part < 9_000_000_000_000 // unit
        seconds += np.where(fits, part, 0) * unit
    fits &= seconds < 9_200_000_000_000
    ticks = np.where(fits, seconds, 0) * 1_000_000 + _micros(fields["fraction"])
    return good, np.where(fits, np.where(fields["sign"].is_not_null().to_numpy(), -ticks, ticks), MISSING)


_DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_REAL = f"^(?:{_DECIMAL}(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN)$"
INTEGERS = (
    *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
    *("negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
)

READ: dict[str, tuple[str, Read]] = {
    **{XSD + name: ("int", _integers) for name in INTEGERS},
    XSD + "decimal": ("float", _floats(f"^{_DECIMAL}$")),
    XSD + "double": ("float", _floats(_REAL)),
    XSD + "float": ("float", _floats(_REAL, single=True)),
    XSD + "boolean": ("bool", _bools),
    XSD + "dateTime": ("time", _times(True)),
    XSD + "dateTimeStamp": ("time", _times(True)),
    XSD + "date": ("time", _times(False)),
    XSD + "dayTimeDuration": ("duration", _durations),
    XSD + "duration": ("duration", _durations),
}
"""For each datatype whose literals become values of the engine, the type of these values and their parser.

Literals of other datatypes become strings.
"""
