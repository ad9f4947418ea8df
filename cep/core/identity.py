"""The identity of an occurrence: its name is the same in every run over the same input, however that is cut, and under
all rules that mean the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import polars as pl

from cep.core.fluents import CHANGES, EDGE
from cep.core.schema import Schema

ID = "@id"
"""The column that holds it."""

FEW = 16
"""Rows: fewer are written value by value."""

_QUOTE = pl.Series(['"'])
_ESCAPED = r"[^ !#-\[\]-~]"
"""What JSON, in ASCII, writes otherwise than it is."""


def identified(table: pl.DataFrame, schema: Schema, meaning: str) -> pl.DataFrame:
    """Derived occurrences with their `@id`: 32 hexadecimal digits, of what the event means (`Engine.meanings`), its
    name, start, end (but of fluents), arguments.

    Occurrences that agree in all of it are one, in the language as well.
    """
    return table.hstack([pl.Series(ID, identity_hashes(occurrence_texts(table, schema), meaning), dtype=pl.String)])


def occurrence_texts(table: pl.DataFrame, schema: Schema) -> list[str]:
    """Occurrences as texts, which are equal if event, start, end and arguments are. An interval in which a fluent holds
    is one from its start on, before its end is known."""
    times = ["start", "end"] if schema.fluent is None else ["start"]
    if schema.fluent is not None and schema.fluent.part == CHANGES:
        times = [EDGE, "time"]
    columns = [table[name] for name in (*times, *(attribute.name for attribute in schema.attributes))]
    name = json.dumps(schema.name)
    if table.height < FEW:
        return [f"{name} {json.dumps(row)}" for row in zip(*(column.to_list() for column in columns), strict=True)]
    written = [_written(column).to_list() for column in columns]
    return [f"{name} [{row}]" for row in map(", ".join, zip(*written, strict=True))]


def _written(column: pl.Series) -> pl.Series:
    """Values as JSON writes them: just as the library of Python does, value by value, which takes much longer."""
    type = column.dtype
    if type == pl.Null:
        return pl.Series(["null"]).new_from_index(0, len(column))
    if type == pl.String:
        odd = column.str.contains(_ESCAPED).to_numpy() if len(column) else None
        made = _QUOTE + column + _QUOTE
    elif type == pl.Float64:
        size = np.abs(column.to_numpy())
        odd = ~((size >= 1e-4) & (size < 1e16) | (size == 0))  # it has another exponent there
        made = column.cast(pl.String)
    elif type.is_integer() or type == pl.Boolean:
        odd, made = None, column.cast(pl.String)
    else:
        return pl.Series(list(map(json.dumps, column.to_list())), dtype=pl.String)
    if column.null_count():
        odd = column.is_null().to_numpy() if odd is None else odd.astype(np.bool_) | column.is_null().to_numpy()
    if odd is not None and odd.any():
        places = np.flatnonzero(odd)
        made = made.scatter(places, [json.dumps(column[place]) for place in places.tolist()])
    return made


def identity_hashes(texts: Iterable[str], key: str) -> list[str]:
    """Names for texts: 32 hexadecimal digits each."""
    begun = blake2b(key.encode(), digest_size=16)
    found = []
    for text in texts:
        one = begun.copy()
        one.update(text.encode())
        found.append(one.hexdigest())
    return found
