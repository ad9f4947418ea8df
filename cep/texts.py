"""The built-in functions of texts and values of unknown kind: applied once to each distinct value of a column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from cep.events import Iri
from cep.functions import Column, absent
from cep.values import MISSING, Ints, Pool

_CODED = ("string", "iri", "any")


def distinct(columns: list[Ints], codes: bool) -> tuple[list[Ints], Ints]:
    """The distinct rows of columns (`codes`: all of them of codes), and for each row which of them it is."""
    first = columns[0]
    top = int(first.max(initial=0)) + 1
    if codes and len(columns) == 1 and top <= 8 * len(first) + 64:
        place = np.full(top + 1, -1, dtype=np.int64)  # the last place is that of the missing
        place[np.maximum(first, -1)] = 0
        found = np.flatnonzero(place == 0)
        place[found] = np.arange(len(found))
        return [np.where(found == top, MISSING, found)], place[np.maximum(first, -1)]
    values, inverse = np.unique(first, return_inverse=True)
    rows = [values]
    for column in columns[1:]:
        values, place = np.unique(column, return_inverse=True)
        pairs, inverse = np.unique(inverse * len(values) + place, return_inverse=True)
        rows = [kept[pairs // len(values)] for kept in rows] + [values[pairs % len(values)]]
    return rows, inverse


def by_value(function: Callable[..., Any], types: tuple[str, ...], gives: str, pool: Pool) -> Callable[..., Column]:
    """A function of single values (None where it has none to give) on columns of these types.

    Missing in any argument is missing in the result.
    """

    def apply(*columns: Column) -> Column:
        varying = [i for i, column in enumerate(columns) if np.ndim(column)]
        fixed = [_values(np.reshape(column, 1), type, pool)[0] for column, type in zip(columns, types)
                 if not np.ndim(column)]  # fmt: skip
        if not varying:
            return _column([function(*fixed) if None not in fixed else None], gives, pool)[0]
        coded = all(types[i] in _CODED for i in varying)
        rows, inverse = distinct([columns[i].view(np.int64) for i in varying], coded)
        values: list[list[Any]] = [[value] * len(rows[0]) for value in fixed]
        for i, row in zip(varying, rows):
            values.insert(i, _values(row.view(columns[i].dtype), types[i], pool))
        return _column([None if None in row else function(*row) for row in zip(*values)], gives, pool)[inverse]

    return apply


def _values(column: Column, type: str, pool: Pool) -> list[Any]:
    if type in _CODED:
        return pool.decode_values(column)
    missing = np.isnan(column) if type == "float" else absent(column)
    return [None if gone else value for value, gone in zip(column.tolist(), missing.tolist())]


def _column(values: list[Any], gives: str, pool: Pool) -> Column:
    if gives == "float":
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    if gives in _CODED:
        return pool.encode_values(values)
    return np.array([MISSING if value is None else int(value) for value in values], dtype=np.int64)


def matching(pool: Pool) -> Callable[[Column, Column], Column]:
    """`matches`: regular expressions in linear time (those of Rust)."""

    def apply(texts: Column, patterns: Column) -> Column:
        if not np.ndim(texts) and not np.ndim(patterns):
            return apply(np.reshape(texts, 1), patterns)[0]
        if np.ndim(patterns):
            (wanted,), which = distinct([patterns], codes=True)
            result = np.full(len(which), MISSING, dtype=np.int64)
            for i, pattern in enumerate(wanted):
                rows = which == i
                result[rows] = apply(texts[rows] if np.ndim(texts) else np.full(int(rows.sum()), texts), pattern)
            return result
        pattern = pool.value(int(patterns))
        if pattern is None or regex_error(str(pattern)) is not None:
            return np.full(len(texts), MISSING, dtype=np.int64)
        (found,), inverse = distinct([texts], codes=True)
        tested = pool.decode(found, "string").str.contains(str(pattern))
        return tested.cast(pl.Int64).fill_null(MISSING).to_numpy()[inverse]

    return apply


def regex_error(pattern: str) -> str | None:
    """What is wrong with a regular expression."""
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])
    return None


def substring(text: str, first: int, length: int | None = None) -> str:
    stop = len(text) if length is None else first - 1 + length
    return text[max(0, first - 1) : max(0, stop)]


_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_REAL = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)


def int_of(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if len(value) < 40 and not isinstance(value, Iri) and _WHOLE.fullmatch(value) else None
    return int(value) if value is not None and abs(value) < 2.0**63 and abs(int(value)) < 2**63 else None


def float_of(value: Any) -> float | None:
    if isinstance(value, str):
        value = float(value) if not isinstance(value, Iri) and _REAL.fullmatch(value) else None
    return float(value) if value is not None and math.isfinite(value) else None


def string_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def string_of_bool(value: int) -> str:
    return "true" if value else "false"


def string_of_time(ticks: int) -> str | None:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks)
    except OverflowError:
        return None
    return moment.isoformat().removesuffix("+00:00") + "Z"


def string_of_duration(ticks: int) -> str:
    whole, rest = divmod(abs(ticks), 1_000_000)
    return "-" * (ticks < 0) + f"{whole}" + f".{rest:06}".rstrip("0") * (rest > 0) + " s"


def iri_of(value: Any) -> Iri | None:
    return Iri(value) if isinstance(value, str) else None


TEXT_VALUES: dict[str, Callable[..., Any]] = {
    "lower": str.lower, "upper": str.upper, "trim": str.strip, "length": len, "concat": lambda *texts: "".join(texts),
    "contains": lambda text, part: part in text, "starts_with": str.startswith, "ends_with": str.endswith,
    "replace": lambda text, part, by: text.replace(part, by) if part else text, "substring": substring,
    "int": int_of, "float": float_of, "string": string_of, "iri": iri_of,
}  # fmt: skip
"""Of single values: texts, and values of unknown kind."""


def text_implementation(function: str, types: tuple[str, ...], gives: str, pool: Pool) -> Callable[..., Column]:
    """A function whose first argument is a text or a value of unknown kind, or that makes a text."""
    kind = types[0]
    if function == "matches":
        return matching(pool)
    if function == "iri" and kind == "iri":
        return lambda codes: codes
    if function == "string" and kind not in _CODED:
        by_type = {"time": string_of_time, "duration": string_of_duration, "bool": string_of_bool}
        return by_value(by_type.get(kind, string_of), types, gives, pool)
    return by_value(TEXT_VALUES[function], types, gives, pool)
