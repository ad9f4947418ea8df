"""The identity of an occurrence: its name is the same in every run over the same input, however that is cut, and under
all rules that mean the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import polars as pl

from cep.core.fluents import CHANGES, EDGE
from cep.core.schema import Schema

ID = "@id"
"""The column that holds it."""


def identified(table: pl.DataFrame, schema: Schema, meaning: str) -> pl.DataFrame:
    """Derived occurrences with their `@id`: 32 hexadecimal digits, of what the event means (`Engine.meanings`), its
    name, start, end (but of fluents), arguments.

    Occurrences that agree in all of it are one, in the language as well.
    """
    return table.with_columns(pl.Series(ID, identity_hashes(occurrence_texts(table, schema), meaning), dtype=pl.String))


def occurrence_texts(table: pl.DataFrame, schema: Schema) -> list[str]:
    """Occurrences as texts, which are equal if event, start, end and arguments are. An interval in which a fluent holds
    is one from its start on, before its end is known."""
    times = ["start", "end"] if schema.fluent is None else ["start"]
    if schema.fluent is not None and schema.fluent.part == CHANGES:
        times = [EDGE, "time"]
    names = [*times, *(attribute.name for attribute in schema.attributes)]
    columns = [table[name].to_list() for name in names]
    name = json.dumps(schema.name)
    return [f"{name} {json.dumps(row)}" for row in zip(*columns, strict=True)]


def identity_hashes(texts: Iterable[str], key: str) -> list[str]:
    """Names for texts: 32 hexadecimal digits each."""
    begun = blake2b(key.encode(), digest_size=16)
    found = []
    for text in texts:
        one = begun.copy()
        one.update(text.encode())
        found.append(one.hexdigest())
    return found
