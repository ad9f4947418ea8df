"""Records that withdraw others: the column `@change` of what comes in, and of what goes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from cep.core.identity import ID
from cep.core.schema import CHANGE, Attribute, Schema
from connectors.batch import Batch, DeadLetter

ADD, WITHDRAW = "add", "withdraw"


def with_changes(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Events as they are read where records may say `@change`. What is not declared has no room for it. A record that
    withdraws one of an event with a KEY needs no more than that."""
    return {name: _with_change(schema) if schema.declared else schema for name, schema in schemas.items()}


def _with_change(schema: Schema) -> Schema:
    own = schema.attributes
    if schema.key is not None:
        own = tuple(each if each.name in schema.key else replace(each, optional=True) for each in own)
    return replace(schema, attributes=(*own, Attribute(CHANGE, "string", optional=True)))


def changes_of(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches in which `@change` is 1 or -1, as `Engine.push` takes it; other words are dead letters."""
    for batch in batches:
        yield _numbered(batch)


def _numbered(batch: Batch) -> Batch:
    tables, dead = {}, list(batch.dead)
    for event, table in batch.tables.items():
        if CHANGE not in table.columns:
            tables[event] = table
            continue
        words = table[CHANGE]
        wrong = ~(words.is_null() | words.is_in([ADD, WITHDRAW]))
        for row in np.flatnonzero(wrong.to_numpy()).tolist():
            file, line, text = batch.origin(event, row)
            reason = f"`{CHANGE}` is `{ADD}` or `{WITHDRAW}`, and not `{words[row]}`"
            dead.append(DeadLetter(file, line, reason, "change", text, event))
        signs = pl.select(pl.when(words == WITHDRAW).then(-1).otherwise(1).cast(pl.Int8).alias(CHANGE)).to_series()
        tables[event] = table.with_columns(signs).filter(~wrong)
    return replace(batch, tables=tables, dead=dead)


def as_written(schemas: Mapping[str, Schema], type: str = "string") -> dict[str, Schema]:
    """Derived events with the columns that say what becomes of each row; `type`: that of `@change`."""
    more = (Attribute(CHANGE, type), Attribute(ID, "string"))
    return {name: replace(schema, attributes=(*schema.attributes, *more)) for name, schema in schemas.items()}


def worded(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Derived events whose `@change` is a word."""
    word = pl.when(pl.col(CHANGE) < 0).then(pl.lit(WITHDRAW)).otherwise(pl.lit(ADD)).alias(CHANGE)
    return {name: table.with_columns(word) for name, table in tables.items()}
