"""Identities of occurrences. An identity is the same in every run over the same input, however the input is divided
into batches.

They also stay the same if a rule is replaced by a rule that has the same meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.fluents import CHANGES, EDGE, HOLDS, SINCE_EVER
from cep.core.hashtable import NAN
from cep.core.identity_columns import BOOL, FLOAT, NONE, OPTIONAL, TEXT, WHOLE, IdentityColumns, column_identities
from cep.core.nullable import MISSING
from cep.core.relation import END, FIRST, START, Table, contiguous
from cep.core.schema import NUMBER, Schema

ID = "@id"
"""The column that holds identities."""

FEW = 16
"""If a table has fewer rows than this, its rows are written and hashed one by one."""

_KINDS = {"float": (FLOAT, NAN), "bool": (BOOL, MISSING)}
"""For the types float and bool: the kind of their columns, and the number that stands for a missing value. Columns of
all other types contain whole numbers."""

_ESCAPED = r"[^ !#-\[\]-~]"
"""A pattern that matches the characters that ASCII JSON escapes."""


def identified(table: pl.DataFrame, schema: Schema, meaning: str) -> pl.DataFrame:
    """Add the column `@id` to derived occurrences. An identity has 32 hexadecimal digits.

    The identity of an occurrence is a hash of these values:

    - the meaning of its event (see `Engine.meanings`), and the event's name
    - its start, its end (except for fluents), and its arguments
    - the number of equal occurrences before it

    The column `@number` contains this last number, and is removed from the result. If the column is missing, the table
    must contain all equal occurrences.
    """
    ids = identities(table, schema, meaning)
    if NUMBER in table.columns:
        return table.drop(NUMBER).hstack([told_apart(ids, table[NUMBER].to_numpy())])
    if schema.fluent is None and ids.n_unique() < len(ids):
        ids = told_apart(ids, ids.to_frame().select(pl.int_range(pl.len()).over(ID)).to_series().to_numpy())
    return table.hstack([ids])


def told_apart(ids: pl.Series, numbers: NDArray[np.int64]) -> pl.Series:
    """Make the identities of equal occurrences distinct. `numbers`: how many equal occurrences precede each."""
    places = np.flatnonzero(numbers)
    if not len(places):
        return ids
    texts = map(_numbered, ids.gather(places), numbers[places].tolist())
    return ids.scatter(places, identity_hashes(texts, "")).alias(ID)


def identity(text: str, meaning: str, number: int) -> str:
    """Return the `@id` of one occurrence.

    - `text`: the text that `occurrence_texts` returns for it.
    - `meaning`: the fingerprint of the occurrence's event.
    - `number`: the number of equal occurrences before this one.
    """
    (id,) = identity_hashes([text], meaning)
    return identity_hashes([_numbered(id, number)], "")[0] if number else id


def _numbered(id: str, number: int) -> str:
    return f"{id} {number}"


def identities(table: pl.DataFrame, schema: Schema, meaning: str) -> pl.Series:
    """Return the column `@id` for a table. Equal occurrences have equal identities."""
    if table.height >= FEW:
        columns = column_identities(_of_text(table, schema), _head(schema, meaning))
        if columns is not None:
            return _all_of(*columns, table, schema, meaning)
    return pl.Series(ID, identity_hashes(occurrence_texts(table, schema), meaning), dtype=pl.String)


class TableIdentities:
    """A generator of identities for occurrences of one event in engine tables (see `cep.core.relation`)."""

    def __init__(self, schema: Schema, meaning: str) -> None:
        self.schema, self.meaning = schema, meaning
        self._texts = [attribute.name for attribute in schema.attributes if attribute.type in ("string", "iri")]
        fluent = schema.fluent
        about = [(WHOLE, START, 0)]
        if fluent is None:
            about.append((WHOLE, END, 0))
        elif fluent.part == HOLDS:
            about = [(OPTIONAL, START, SINCE_EVER)]
        for number, attribute in enumerate(schema.attributes):
            if attribute.name in self._texts:
                about.append((TEXT, self._texts.index(attribute.name), NONE))
            else:
                kind, none = _KINDS.get(attribute.type, (OPTIONAL, MISSING))
                about.append((kind, FIRST + number, none))
        self._columns = IdentityColumns.of(_head(schema, meaning), about)
        changes = fluent is not None and fluent.part == CHANGES
        self._rows = not changes and all(attribute.type != "any" for attribute in schema.attributes)

    def of(self, table: Table, frame: pl.DataFrame) -> pl.Series:
        """Return the identities of the occurrences in `table`. `frame`: the same rows as a polars frame."""
        if not self._rows:
            return identities(frame, self.schema, self.meaning)
        columns = self._columns.identities(contiguous(table), [frame[name] for name in self._texts])
        return _all_of(*columns, frame, self.schema, self.meaning)


def _all_of(ids: pl.Series, odd: NDArray[np.bool_], table: pl.DataFrame, schema: Schema, meaning: str) -> pl.Series:
    if odd.any():
        places = np.flatnonzero(odd)
        ids = ids.scatter(places, identity_hashes(occurrence_texts(table[places], schema), meaning))
    return ids.alias(ID)


def _head(schema: Schema, meaning: str) -> bytes:
    return f"{meaning}{json.dumps(schema.name)} [".encode()


def occurrence_texts(table: pl.DataFrame, schema: Schema) -> list[str]:
    """Write occurrences as texts. Two texts are equal if the event, start, end and arguments are equal.

    The text of a fluent's interval does not contain the end, because the text is used before the end is known.
    """
    columns = _of_text(table, schema)
    name = json.dumps(schema.name)
    if table.height < FEW:
        return [f"{name} {json.dumps(row)}" for row in zip(*(column.to_list() for column in columns), strict=True)]
    written = [_written(column).to_list() for column in columns]
    return [f"{name} [{row}]" for row in map(", ".join, zip(*written, strict=True))]


def _of_text(table: pl.DataFrame, schema: Schema) -> list[pl.Series]:
    times = ["start", "end"] if schema.fluent is None else ["start"]
    if schema.fluent is not None and schema.fluent.part == CHANGES:
        times = [EDGE, "time"]
    return [table[name] for name in (*times, *(attribute.name for attribute in schema.attributes))]


def _written(column: pl.Series) -> pl.Series:
    """Write values as JSON, much faster than Python's library but with the same result."""
    type = column.dtype
    if type == pl.Null:
        return pl.Series(["null"]).new_from_index(0, len(column))
    if type == pl.String:
        odd = column.str.contains(_ESCAPED).to_numpy() if len(column) else None
        quote = pl.Series(['"'])
        texts = quote + column + quote
    elif type == pl.Float64:
        size = np.abs(column.to_numpy())
        odd = ~((size >= 1e-4) & (size < 1e16) | (size == 0))  # polars writes exponents otherwise
        texts = column.cast(pl.String)
    elif type.is_integer() or type == pl.Boolean:
        odd, texts = None, column.cast(pl.String)
    else:
        return pl.Series(list(map(json.dumps, column.to_list())), dtype=pl.String)
    if column.null_count():
        odd = column.is_null().to_numpy() if odd is None else odd.astype(np.bool_) | column.is_null().to_numpy()
    if odd is not None and odd.any():
        places = np.flatnonzero(odd)
        texts = texts.scatter(places, [json.dumps(column[place]) for place in places.tolist()])
    return texts


def identity_hashes(texts: Iterable[str], key: str) -> list[str]:
    """Return a hash of each text, as 32 hexadecimal digits. `key`: a text that is hashed before each of `texts`."""
    begun = blake2b(key.encode(), digest_size=16)
    hashes = []
    for text in texts:
        hashed = begun.copy()
        hashed.update(text.encode())
        hashes.append(hashed.hexdigest())
    return hashes
