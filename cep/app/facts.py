"""Facts of static predicates from tables (`--facts linked=links.csv`). A row is a fact, and a column an argument."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from cep.app.durations import refuse
from cep.connectors.records.records import other_encoding
from cep.connectors.records.thousands import plain_number
from cep.connectors.records.times import is_number
from cep.core.errors import Warning, reason_of
from cep.core.schema import RecordFormat
from cep.core.suggest import astray, did_you_mean, missing
from cep.rules.static.typed_facts import FactDeclaration, by_name

_ENCODINGS = ("utf-8", "utf8")


def _csv(path: Path, declared: FactDeclaration | None) -> pl.DataFrame:
    dialect = _dialect(declared)
    encoding = dialect.option("encoding") or "utf-8"
    thousands = dialect.option("thousands")
    read = partial(
        pl.read_csv,
        path,
        separator=dialect.option("separator") or ("\t" if path.suffix.lower() == ".tsv" else ","),
        decimal_comma=thousands is None and dialect.option("decimal") == ",",
        comment_prefix=dialect.option("comment"),
        quote_char=dialect.option("quote") or '"',
        encoding="utf8" if encoding.lower() in _ENCODINGS else encoding,
        null_values=["", "NA"],
    )
    if declared is None:
        texts = _leading_zeros(read(infer_schema=False))
    else:
        texts = _texts(declared, read(n_rows=0, infer_schema=False).columns)
    if thousands is None:
        return read(infer_schema_length=None, schema_overrides=dict.fromkeys(texts, pl.String))
    decimal = dialect.option("decimal") or "."
    table = read(infer_schema=False)
    return table.select(column if column.name in texts else _numbers(column, thousands, decimal) for column in table)


def _dialect(declared: FactDeclaration | None) -> RecordFormat:
    return (None if declared is None else declared.records) or RecordFormat("csv")


def _leading_zeros(table: pl.DataFrame) -> set[str]:
    """Return the columns that contain numbers with leading zeros, like `0042`, which are names or dates."""
    return {column.name for column in table if column.str.strip_chars().str.contains("^0[0-9]+$").any()}


def _texts(declared: FactDeclaration, columns: Sequence[str]) -> set[str]:
    """Return the columns that must be read as text. These are columns of strings, in which `0042` is not 42, and
    columns of dates in a format such as `%d%m%Y`."""
    attributes = declared.attributes
    named = by_name([attribute.name for attribute in attributes], columns)
    return {
        column
        for column, attribute in zip(named or columns, attributes)
        if attribute.type in ("string", "iri")
        or (attribute.format is not None and attribute.format.pattern is not None)
    }


def _numbers(column: pl.Series, thousands: str, decimal: str) -> pl.Series:
    """Convert a column of texts to numbers if every text is a number. Otherwise return the column unchanged.

    - `thousands`: the mark between groups of digits.
    - `decimal`: the mark before the decimals.
    """
    plain = [
        None if text is None else plain_number(text.strip(" \t"), thousands, decimal).replace(decimal, ".", 1)
        for text in column
    ]
    if not all(map(is_number, filter(None, plain))):
        return column
    texts = pl.Series(column.name, plain, pl.String)
    whole = texts.cast(pl.Int64, strict=False)
    return whole if (whole.is_null() == texts.is_null()).all() else texts.cast(pl.Float64)


def _jsonl(path: Path, _: FactDeclaration | None) -> pl.DataFrame:
    return pl.read_ndjson(path, infer_schema_length=None)


def _parquet(path: Path, _: FactDeclaration | None) -> pl.DataFrame:
    return pl.read_parquet(path)


READERS: Mapping[str, Callable[[Path, FactDeclaration | None], pl.DataFrame]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def read_facts(name: str, path: Path, declared: FactDeclaration | None = None) -> pl.DataFrame:
    """Read the table of facts of one predicate.

    `declared`: the predicate's declaration in the program, or None. A CSV file must have a header. Empty and `NA`
    fields are missing values. Raises CepError if the table cannot be read.
    """
    reader = READERS.get(path.suffix.lower(), None if declared is None or declared.records is None else _csv)
    if reader is None:
        raise refuse(f"--facts {name}: `{path}` is not a known kind of table", "name it .csv, .tsv, .parquet or .jsonl")
    if (lost := astray(path)) is not None:
        raise refuse(f"--facts {name}: `{path}`: {lost}")
    if not path.is_file():
        raise refuse(f"--facts {name}: `{path}`: no such file", missing(path))
    if reader is _csv:
        _check_header(name, path, _dialect(declared))
    try:
        table = reader(path, declared)
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        reason = str(error).strip().splitlines()[0]
        if "utf-8" in reason.lower():
            hint = other_encoding(path.read_bytes(), reader is _csv)
            raise refuse(f"--facts {name}: `{path}` is not UTF-8", hint) from None
        raise refuse(
            f"--facts {name}: `{path}` cannot be read: {reason}", _WRITTEN if reader is _csv else None
        ) from None
    nested = [column for column, type in table.schema.items() if type.is_nested()]
    if nested:
        raise refuse(f"--facts {name}: the column `{nested[0]}` of `{path}` holds lists or records, not values")
    return table


_WRITTEN = 'if the file has other separators, declare them: `fact name(...) FORMAT csv(separator: ";", decimal: ",").`'


def _check_header(name: str, path: Path, record_format: RecordFormat) -> None:
    """Raise CepError if the header does not use the declared separator, or contains a column name twice."""
    separator = record_format.option("separator") or ("\t" if path.suffix.lower() == ".tsv" else ",")
    comment = record_format.option("comment")
    try:
        with path.open(encoding=record_format.option("encoding") or "utf-8-sig", errors="replace") as file:
            line = next((line for line in file if not (comment and line.startswith(comment))), "")
    except OSError as error:
        raise refuse(f"--facts {name}: `{path}` cannot be read: {reason_of(error)}") from None
    columns = [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    other = next((mark for mark in ";\t|," if mark != separator and mark in line), None) if len(columns) < 2 else None
    if other is not None:
        mark = "\\t" if other == "\t" else other
        decimal = ', decimal: ","' if other == ";" else ""
        declared = ", ".join(f"{_word(cell)}: ..." for cell in line.strip().split(other))
        hint = f'declare it: `fact {name}({declared}) FORMAT csv(separator: "{mark}"{decimal}).`'
        raise refuse(f"--facts {name}: the header of `{path}` is separated by `{mark}`, not by `{separator}`", hint)
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise refuse(f"--facts {name}: two columns of `{path}` are called `{twice}`")


def _word(column: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in column.strip().strip('"').lower())


def unused(tables: Collection[str], predicates: Collection[str], program: str) -> list[Warning]:
    """Return a warning for each table of facts that no condition of the program uses.

    `predicates`: the predicates that conditions use. `program`: the name of the program.
    """
    warnings = []
    for name in tables:
        if name not in predicates:
            hint = did_you_mean(name, predicates) or f"use the facts in a condition: `WHERE {name}(...)`"
            warnings.append(
                Warning(f"--facts {name}: no rule of {program} asks for `{name}`", hint=hint, code="unused")
            )
    return warnings
