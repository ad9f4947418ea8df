"""The built-in functions of texts and of values of unknown type. They are called once per distinct value of a
column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from cep.core.errors import CepError
from cep.core.literals import read_clock
from cep.core.schema import CODED
from cep.core.values import MISSING, Ints, Pool
from cep.events import Iri
from cep.rules.expressions.functions import Operand, absent


def distinct_rows(columns: list[Ints], codes: bool) -> tuple[list[Ints], Ints]:
    """Return the distinct rows of `columns`, and for each row its index among the distinct rows.

    `codes`: True if all columns contain codes of the pool.
    """
    first = columns[0]
    top = int(first.max(initial=0)) + 1
    if codes and len(columns) == 1 and top <= 8 * len(first) + 64:
        place = np.full(top + 1, -1, dtype=np.int64)  # the last entry is for the missing code
        place[np.maximum(first, -1)] = 0
        occurring = np.flatnonzero(place == 0)
        place[occurring] = np.arange(len(occurring))
        return [np.where(occurring == top, MISSING, occurring)], place[np.maximum(first, -1)]
    values, inverse = np.unique(first, return_inverse=True)
    rows = [values]
    for column in columns[1:]:
        values, place = np.unique(column, return_inverse=True)
        pairs, inverse = np.unique(inverse * len(values) + place, return_inverse=True)
        rows = [kept[pairs // len(values)] for kept in rows] + [values[pairs % len(values)]]
    return rows, inverse


class Memo:
    """A cache of a function's results. The key of a result is the code of the argument in the pool. The cache is
    cleared when the pool forgets values."""

    __slots__ = ("_compute", "_generation", "_known", "_missing", "_pool")

    def __init__(self, compute: Callable[[Ints], Operand], pool: Pool) -> None:
        """Create an empty cache. `compute`: the function whose results are cached. Its arguments are distinct pool
        codes, none of which is missing."""
        self._compute = compute
        self._pool = pool
        self._generation = -1
        self._known: Ints = np.empty(0, dtype=np.int64)  # words of results by code; last: the missing code
        self._missing: Operand = compute(np.empty(0, dtype=np.int64))

    def __call__(self, codes: Ints) -> Operand:
        places = np.maximum(codes, -1)
        if self._generation != self._pool.generation or len(self._known) != self._pool.capacity:
            self._resize()
        words = self._known[places]
        unknown = np.equal(words, _UNKNOWN)
        if unknown.any():
            (new,), _ = distinct_rows([codes[unknown]], codes=True)
            self._known[new] = self._compute(new).view(np.int64)
            self._resize()
            words = self._known[places]
        return words.view(self._missing.dtype)

    def _resize(self) -> None:
        known: Ints = np.full(self._pool.capacity, _UNKNOWN, dtype=np.int64)
        if self._generation == self._pool.generation:
            known[: len(self._known) - 1] = self._known[:-1]
        known[-1:] = np.full(1, MISSING) if self._missing.dtype == np.int64 else np.full(1, np.nan).view(np.int64)
        self._known, self._generation = known, self._pool.generation


_UNKNOWN = MISSING + 1  # a result that equals this word is computed again each time


def by_value(function: Callable[..., Any], types: tuple[str, ...], gives: str, pool: Pool) -> Callable[..., Operand]:
    """Turn a function of single values into a function of columns.

    `types`, `gives`: the types of the function's arguments, and of its result.

    The result is missing if an argument is missing, or if the function returns None. The new function accepts a single
    value in place of a column. This value applies to all rows.
    """
    memos: list[Memo] = []

    def apply(*columns: Operand) -> Operand:
        varying = [i for i, column in enumerate(columns) if np.ndim(column)]
        if len(varying) == 1 and types[varying[0]] in CODED:
            if not memos:
                place, others = varying[0], [column if not np.ndim(column) else None for column in columns]
                memos.append(Memo(lambda codes: compute([*others[:place], codes, *others[place + 1 :]], [place]), pool))
            return memos[0](columns[varying[0]])
        if not varying:
            return compute([np.reshape(columns[0], 1), *columns[1:]], [0])[0]
        rows, inverse = distinct_rows(
            [columns[i].view(np.int64) for i in varying], all(types[i] in CODED for i in varying)
        )
        of_rows = list(columns)
        for i, row in zip(varying, rows):
            of_rows[i] = row.view(columns[i].dtype)
        return compute(of_rows, varying)[inverse]

    def compute(columns: list[Operand], varying: list[int]) -> Operand:
        number = len(columns[varying[0]])
        values = [
            _values(column, type, pool) if i in varying else _values(np.reshape(column, 1), type, pool) * number
            for i, (column, type) in enumerate(zip(columns, types))
        ]
        return _column([None if None in row else function(*row) for row in zip(*values)], gives, pool)

    return apply


def _values(column: Operand, type: str, pool: Pool) -> list[Any]:
    if type in CODED:
        return pool.decode_values(column)
    missing = np.isnan(column) if type == "float" else absent(column)
    return [None if gone else value for value, gone in zip(column.tolist(), missing.tolist())]


def _column(values: list[Any], gives: str, pool: Pool) -> Operand:
    if gives == "float":
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    if gives in CODED:
        return pool.encode_values(values)
    return np.array([MISSING if value is None else int(value) for value in values], dtype=np.int64)


def matching(pool: Pool) -> Callable[[Operand, Operand], Operand]:
    """Return the implementation of the built-in function `matches` for whole columns. It uses Rust's regular
    expressions, which take linear time."""
    memos: dict[int, Memo] = {}

    def match(texts: Operand, pattern: str) -> Operand:
        return pool.decode(texts, "string").str.contains(pattern).cast(pl.Int64).fill_null(MISSING).to_numpy()

    def apply(texts: Operand, patterns: Operand) -> Operand:
        if np.ndim(patterns):
            (wanted,), which = distinct_rows([patterns], codes=True)
            result = np.full(len(which), MISSING, dtype=np.int64)
            for i, code in enumerate(wanted):
                pattern, rows = pool.value(int(code)), np.flatnonzero(which == i)
                if pattern is not None and regex_error(str(pattern)) is None:
                    result[rows] = match(texts[rows] if np.ndim(texts) else np.full(len(rows), texts), str(pattern))
            return result
        code = int(patterns)
        if code not in memos:
            pattern = str(pool.value(code))
            memos[code] = Memo(lambda text: match(text, pattern), pool)
        return memos[code](texts) if np.ndim(texts) else memos[code](np.reshape(texts, 1))[0]

    return apply


def extracting(pool: Pool) -> Callable[..., Operand]:
    """Return the implementation of the built-in function `extract` for whole columns: the text that a group of a
    regular expression matches.

    Without a group number it extracts the first group, or the whole match if the expression has no group. The
    expression and the number are constants.
    """
    memos: dict[tuple[int, int], Memo] = {}

    def apply(texts: Operand, pattern: Operand, group: Operand | None = None) -> Operand:
        written = str(pool.value(int(pattern)))
        wanted = min(1, groups_of(written)) if group is None else int(group)
        key = (int(pattern), wanted)
        if key not in memos:
            memos[key] = Memo(
                lambda codes: pool.encode(pool.decode(codes, "string").str.extract(written, wanted), "string"), pool
            )
        return memos[key](texts) if np.ndim(texts) else memos[key](np.reshape(texts, 1))[0]

    return apply


def groups_of(pattern: str) -> int:
    """Return the number of groups in a regular expression."""
    group_type = pl.DataFrame({"text": [""]}).select(pl.col("text").str.extract_groups(pattern)).schema["text"]
    assert isinstance(group_type, pl.Struct), "a field is a group"
    return len(list(group_type))


def regex_error(pattern: str) -> str | None:
    """Return the error in a regular expression, or None if it is valid."""
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])
    return None


def substring(text: str, first: int, length: int | None = None) -> str:
    stop = len(text) if length is None else first - 1 + length
    return text[max(0, first - 1) : max(0, stop)]


def split(text: str, separator: str, place: int) -> str | None:
    """Split a text and return one part, or None if there is no such part. `place`: the number of the part. 1 is the
    first part, and -1 is the last part."""
    parts = text.split(separator) if separator else []
    index = place - 1 if place > 0 else place + len(parts)
    return parts[index] if place and 0 <= index < len(parts) else None


def time_of_day(text: str) -> int | None:
    """Return the microseconds since midnight, or None if the text is not a time of day."""
    try:
        return read_clock(text)
    except CepError:
        return None


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


def iri_of(*values: Any) -> Iri | None:
    """Concatenate values to an IRI. Return None unless the first value is a text."""
    return Iri("".join(map(string_of, values))) if isinstance(values[0], str) else None


TEXT_VALUES: dict[str, Callable[..., Any]] = {
    "lower": str.lower, "upper": str.upper, "trim": str.strip, "length": len, "concat": lambda *texts: "".join(texts),
    "contains": lambda text, part: part in text, "starts_with": str.startswith, "ends_with": str.endswith,
    "replace": lambda text, part, by: text.replace(part, by) if part else text, "substring": substring,
    "split": split, "time": time_of_day, "int": int_of, "float": float_of, "string": string_of, "iri": iri_of,
}  # fmt: skip
"""Functions of single values that are texts or have an unknown type, by name."""


def text_implementation(function: str, types: tuple[str, ...], gives: str, pool: Pool) -> Callable[..., Operand]:
    """Return the implementation, for whole columns, of a built-in function that takes or returns texts, or takes values
    of unknown type.

    `types`, `gives`: the types of the built-in function's arguments, and of its result.
    """
    kind = types[0]
    if function == "matches":
        return matching(pool)
    if function == "extract":
        return extracting(pool)
    if function == "format":
        return by_value(_formatted(types), types, gives, pool)
    if function == "iri" and types == ("iri",):
        return lambda codes: codes
    if function == "string" and kind not in CODED:
        return by_value(TEXTS_OF.get(kind, string_of), types, gives, pool)
    if function == "iri" and set(types) & TEXTS_OF.keys():
        return by_value(_iri_of_typed(types), types, gives, pool)
    return by_value(TEXT_VALUES[function], types, gives, pool)


TEXTS_OF: dict[str, Callable[[int], str | None]] = {
    "time": string_of_time,
    "duration": string_of_duration,
    "bool": string_of_bool,
}
"""For each of the types time, duration and bool, a function that converts a value to a text. It takes the number that a
column contains for the value."""


def _formatted(types: tuple[str, ...]) -> Callable[..., str | None]:
    """Return the implementation of the built-in function `format`. It passes numbers to the template unchanged, and
    converts all other values to texts."""
    texts: list[Callable[[Any], str | None] | None] = [
        None if type in ("int", "float") else TEXTS_OF.get(type, string_of) for type in types[1:]
    ]

    def formatted(template: str, *values: Any) -> str | None:
        shown = [value if text is None else text(value) for text, value in zip(texts, values)]
        try:
            return None if None in shown else template.format(*shown)
        except (ValueError, OverflowError):
            return None

    return formatted


def _iri_of_typed(types: tuple[str, ...]) -> Callable[..., Iri | None]:
    texts: list[Callable[[Any], str | None]] = [TEXTS_OF.get(type, string_of) for type in types]

    def concatenated(*values: Any) -> Iri | None:
        parts = [text(value) for text, value in zip(texts, values)]
        return None if None in parts else iri_of(values[0], *parts[1:])

    return concatenated
