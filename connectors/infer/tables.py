"""A table of text as columns: what separates its fields, how its numbers are written, in which encoding."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from cep.core.errors import CepError
from cep.core.schema import RecordFormat
from connectors.csv import header
from connectors.infer.sample import RecordSample
from connectors.infer.types import ABSENT
from connectors.paths import EACH, level
from connectors.thousands import is_grouped, plain_number
from connectors.times import is_number
from connectors.values import with_point

SEPARATORS = ";\t|,"
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MARKS = (",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")
"""What may stand between thousands."""
_LOOKED_AT = 50
"""Lines by which the separator is found."""
_SHOWN = 2_000
"""Values of a column by which its marks are."""


def table_sample(stream: Any, limit: int, kind: str) -> RecordSample:
    """A table of text: its separator is the one that cuts all lines alike, its marks what makes numbers of most
    columns."""
    data = b"".join(islice(iter(lambda: stream.read(1 << 16), b""), max(16, limit // 100)))
    text, encoding = _decoded(data)
    lines = [line.removesuffix("\r") for line in text.split("\n")[: limit + _LOOKED_AT]]
    comment = "#" if lines and lines[0].startswith("#") else None
    lines = [line for line in lines if comment is None or not line.startswith(comment)]
    usual = "\t" if kind == "tsv" else ","
    separator = _separator(lines, usual)
    sample = RecordSample(None, text=True)
    if not lines or not lines[0].strip():
        return sample
    names = header("", lines[0].encode("utf-8", "surrogateescape"), separator)
    for row in islice(_rows(lines[1:], separator), limit):
        if len(row) == len(names):
            sample.add({name: None if value in ("", "NA") else value for name, value in zip(names, row, strict=True)})
        elif row:
            sample.unreadable += 1
    for name in dict.fromkeys(names):
        why = _unnamed(name, names)
        if why is not None and sample.columns.pop(name, None) is not None:
            sample.left_out[name] = why
    decimal, thousands = _marks(sample, separator)
    options = (
        ("separator", None if separator == usual else separator),
        ("decimal", None if decimal == "." else decimal),
        ("thousands", thousands),
        ("comment", comment),
        ("encoding", encoding),
    )
    said = tuple((name, value) for name, value in options if value is not None)
    sample.format = RecordFormat("csv", said) if said else None
    return sample


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader((line + "\n" for line in lines), delimiter=separator)
    except csv.Error as error:
        raise CepError(f"the table cannot be read: {error}", code="input") from None


def _unnamed(name: str, names: Sequence[str]) -> str | None:
    """Why a column cannot be declared, None: it can."""
    if names.count(name) > 1:
        return f"{names.count(name)} columns are called so"
    if EACH in name or level(name) is not None:
        return "in a declaration the name means something else"
    return None


def _decoded(data: bytes) -> tuple[str, str | None]:
    for mark, name in BOMS:
        if data.startswith(mark):
            return data.decode("utf-8-sig" if name == "utf-8" else name, "replace"), None if name == "utf-8" else name
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4:  # a character that the sample cuts
            return data[: error.start].decode("utf-8"), None
        return data.decode("cp1252", "replace"), "cp1252"


def _separator(lines: Sequence[str], usual: str) -> str:
    """That which cuts most lines into as many fields as the first, more than one; of several that which makes most."""

    def fit(mark: str) -> tuple[float, int, bool]:
        rows = list(_rows(lines[:_LOOKED_AT], mark))
        width = len(rows[0]) if rows else 1
        alike = sum(len(row) == width for row in rows) / max(1, len(rows))
        return (alike if width > 1 else 0.0, width, mark == usual)

    best = max(SEPARATORS, key=fit)
    return best if fit(best)[0] > 0.5 else usual


def number(text: str, decimal: str, thousands: str | None) -> str | None:
    """A field that is a number under these marks, with a point and without marks; None: it is none."""
    plain = text if thousands is None else plain_number(text, thousands, decimal)
    try:
        plain = with_point(plain, decimal)
    except ValueError:
        return None
    return plain if is_number(plain) else None


def _marks(sample: RecordSample, separator: str) -> tuple[str, str | None]:
    """The decimal mark and that of thousands with which most columns are numbers; of several the plainest."""
    columns = [
        [value.strip(" \t") for value in column if value is not None and value.strip(" \t").lower() not in ABSENT]
        for column in sample.columns.values()
    ]
    columns = [column[:_SHOWN] for column in columns if column]
    best: tuple[str, str | None] = (".", None)
    most = _numeric(columns, *best)
    for mark in (None, *MARKS):
        for decimal in (".", ","):
            if decimal in (separator, mark) or (mark is not None and not _marked(columns, mark, decimal)):
                continue
            found = _numeric(columns, decimal, mark)
            if found[0] > most[0] or (mark is None and found > most):
                best, most = (decimal, mark), found
    return best


def _marked(columns: Sequence[Sequence[str]], mark: str, decimal: str) -> bool:
    return any(is_grouped(value, mark, decimal) for column in columns for value in column)


def _numeric(columns: Sequence[Sequence[str]], decimal: str, thousands: str | None) -> tuple[int, int]:
    """How many columns are numbers, and how many values."""
    fits = [[number(value, decimal, thousands) is not None for value in column] for column in columns]
    return sum(map(all, fits)), sum(map(sum, fits))
