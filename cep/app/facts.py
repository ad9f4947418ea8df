"""Static predicates from tables: `--facts linked=links.csv`, a row a fact, a column an argument."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import polars as pl

from cep.app.durations import refuse
from cep.core.errors import Source, Warning
from cep.core.suggest import astray, did_you_mean, missing
from cep.rules.terms import Predicate


def _csv(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, null_values=["", "NA"], infer_schema_length=None)


def _jsonl(path: Path) -> pl.DataFrame:
    return pl.read_ndjson(path, infer_schema_length=None)


def _parquet(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


READERS: Mapping[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def read_facts(name: str, path: Path) -> pl.DataFrame:
    """The table of one predicate. A CSV file has a header; an empty or `NA` field is missing."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise refuse(f"--facts {name}: `{path}` is of no known kind", "name it .csv, .parquet or .jsonl")
    if (lost := astray(path)) is not None:
        raise refuse(f"--facts {name}: `{path}`: {lost}")
    if not path.is_file():
        raise refuse(f"--facts {name}: `{path}`: no such file", missing(path))
    try:
        table = reader(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise refuse(f"--facts {name}: `{path}` cannot be read: {reason}") from None
    nested = [column for column, type in table.schema.items() if type.is_nested()]
    if nested:
        raise refuse(f"--facts {name}: the column `{nested[0]}` of `{path}` holds lists or records, not values")
    return table


def unused(tables: Collection[str], program: Source) -> list[Warning]:
    """A warning for each table whose facts no condition of the program asks for."""
    from cep.language.syntax.parser import parse

    predicates = set(_predicates_of(parse(program.text, program.name).statements)) if tables else set()
    found = []
    for name in tables:
        if name not in predicates:
            hint = did_you_mean(name, predicates) or f"a condition asks for them: `WHERE {name}(...)`"
            found.append(
                Warning(f"--facts {name}: no rule of {program.name} asks for `{name}`", hint=hint, code="unused")
            )
    return found


def _predicates_of(value: object) -> Iterator[str]:
    """The static predicates of all conditions in a tree of syntax."""
    if isinstance(value, Predicate):
        yield value.name
    elif isinstance(value, tuple):
        for each in value:
            yield from _predicates_of(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _predicates_of(getattr(value, field.name))
