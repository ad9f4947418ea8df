"""Sorting of all events of an input by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from cep.connectors.records.batch import Batch
from cep.connectors.records.records import series
from cep.core.schema import ARRIVAL, Schema


def in_order(batches: list[Batch], schemas: Mapping[str, Schema], rows: int) -> Iterator[Batch]:
    """Yield the rows of all batches in order of their end, as new batches of about `rows` rows with watermarks.

    Rows that have the same end are yielded in the same batch. The list `batches` is emptied.
    """
    dead = [record for batch in batches for record in batch.dead]
    blocks = [block for batch in batches for block in batch.blocks]
    total = batches[-1].bytes_read if batches else 0
    remarks = tuple(dict.fromkeys(remark for batch in batches for remark in batch.remarks))
    parts: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for type, part in batch.tables.items():
            parts.setdefault(type, []).append(part)
    batches.clear()
    tables: dict[str, pl.DataFrame] = {}
    for type in [name for name in schemas if name in parts]:
        table = one_table(schemas[type], parts.pop(type))
        if not table["end"].is_sorted():
            table = table[np.argsort(table["end"].to_numpy(), kind="stable")]
        tables[type] = table
    if not tables:
        yield Batch({}, dead, blocks, total, total, remarks=remarks)
        return
    ends = {type: table["end"].to_numpy() for type, table in tables.items()}
    every = np.sort(np.concatenate(list(ends.values())), kind="stable")  # this is fast if it is sorted already
    done = dict.fromkeys(tables, 0)
    for cut in np.unique(np.append(every[rows - 1 :: rows], every[-1])).tolist():
        out = {}
        for type, table in tables.items():
            stop = int(np.searchsorted(ends[type], cut, side="right"))
            if stop > done[type]:
                out[type] = table.slice(done[type], stop - done[type])
            done[type] = stop
        yield Batch(out, dead, blocks, total * sum(done.values()) // len(every), total, cut, remarks=remarks)
        dead, remarks = [], ()


def one_table(schema: Schema, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate tables of one event type. A column of type `any` with mixed values is built value by value."""
    if all(part.schema == parts[0].schema for part in parts) and pl.Object not in parts[0].dtypes:
        return pl.concat(parts)
    columns = [pl.concat([part[name] for part in parts]) for name in ("start", "end", ARRIVAL)]
    for attribute in schema.attributes:
        values = [value for part in parts for value in part[attribute.name].to_list()]
        columns.append(series(attribute, values))
    return pl.DataFrame(columns)
