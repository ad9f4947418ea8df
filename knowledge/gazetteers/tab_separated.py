"""Tab-separated files as tables. A file is read column by column. Errors name the line and the reason."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
import polars.exceptions

from cep.core.errors import CepError

DTYPES: dict[str, type[pl.DataType]] = {"text": pl.String, "int": pl.Int64, "float": pl.Float64}


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a file: its name in the table, its title in messages, and conditions on its values."""

    name: str
    type: Literal["text", "int", "float"] = "text"
    title: str = ""
    needed: bool = False
    low: float | None = None
    high: float | None = None
    among: tuple[str, ...] = ()
    distinct: bool = False

    @property
    def tests(self) -> list[pl.Expr]:
        """The conditions that every value of this column must satisfy."""
        value = pl.col(self.name)
        tests = [value.is_not_null()] if self.needed else []
        if self.type == "float":
            tests.append(value.is_finite())
        if self.low is not None:
            tests.append(value >= self.low)
        if self.high is not None:
            tests.append(value <= self.high)
        if self.among:
            tests.append(value.is_in(self.among))
        if self.distinct:
            tests.append(value.is_first_distinct())
        return tests

    def wrong(self, text: str) -> str | None:
        """Return the reason why `text` is not a valid value of this column. Return None if it is valid."""
        title = self.title or self.name
        if not text:
            return f"has no {title}" if self.needed else None
        if self.type != "text":
            value = _number(text, self.type)
            if value is None:
                return f"has the {title} `{text}`, not a {'whole ' if self.type == 'int' else ''}number"
            if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
                low, high = ("" if bound is None else f"{bound:g}" for bound in (self.low, self.high))
                return f"has the {title} `{text}`, not one {f'from {low} to {high}' if high else f'of at least {low}'}"
        if self.among and text not in self.among:
            return f"has the {title} `{text}`, not one of {', '.join(self.among)}"
        return None


def read_rows(content: bytes, path: Path, fields: Sequence[Field], comment: str | None = None) -> pl.DataFrame:
    """Convert each line of a file to a row, except lines that begin with `comment`. An empty field becomes null.

    There is no quoting: a field is the text between two tabs. The last line need not end with a line feed. Raises
    CepError at the first line whose fields do not match `fields`. `path`: the file's name in the message.
    """
    content = content.removeprefix(codecs.BOM_UTF8)  # some editors add it
    if not content:
        return pl.DataFrame(schema={field.name: DTYPES[field.type] for field in fields})
    try:
        table = pl.read_csv(
            io.BytesIO(content),
            separator="\t",
            has_header=False,
            schema={field.name: DTYPES[field.type] for field in fields},
            quote_char=None,
            comment_prefix=comment,
        )
    except polars.exceptions.PolarsError:
        raise _blame(content, path, fields, comment) from None
    tests = [test.all() for field in fields for test in field.tests]  # a test of null does not fail
    if table.height != _count(content, comment) or not all(table.select(pl.all_horizontal(tests)).row(0)):
        raise _blame(content, path, fields, comment)
    return table


def _count(content: bytes, comment: str | None) -> int:
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if comment is not None:
        start = comment.encode()
        lines -= content.startswith(start) + content.count(b"\n" + start)
    return lines


def _blame(content: bytes, path: Path, fields: Sequence[Field], comment: str | None) -> CepError:
    # Search the wrong line. Only fields that are not needed may be missing at the end of a line.
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        if comment is not None and line.startswith(comment.encode()):
            continue
        reason = _wrong(line.removesuffix(b"\r"), fields, seen, number)
        if reason is not None:
            foreign = number == 1 and "tab-separated" in reason
            hint = f"{path.suffix or path.name} is for GeoNames dumps; RDF ends in .ttl, .nt, .nq, .jsonld or the like"
            message = f"{path}:{number}: the line {reason}"
            return CepError(message, hint=hint if foreign else None, code="places")
    raise AssertionError(f"{path}: what the table refuses is wrong in a line")


def _wrong(line: bytes, fields: Sequence[Field], seen: dict[tuple[str, str], int], number: int) -> str | None:
    try:
        texts = line.decode().split("\t")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 at its byte {error.start + 1}"
    if not line:
        return "is empty"
    if len(texts) != len(fields):
        return f"has {len(texts)} tab-separated field{'s' * (len(texts) != 1)}, not {len(fields)}"
    for field, text in zip(fields, texts):
        reason = field.wrong(text)
        if reason is None and field.distinct and seen.setdefault((field.name, text), number) != number:
            reason = f"has the {field.title or field.name} {text} of line {seen[field.name, text]}"
        if reason is not None:
            return reason
    return None


def _number(text: str, type: str) -> float | None:
    if re.fullmatch(r"-?[0-9]+" if type == "int" else r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) is None:
        return None
    value = int(text) if type == "int" else float(text)
    return value if abs(value) < 2**63 else None
