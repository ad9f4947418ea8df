"""Distribute rows to the partitions of a stage.

First the rows of each partition are counted, then they are copied column by column to their destination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.schema import Schema
from cep.core.values import Ints
from cep.plan.partition import Route, Stage
from cep.runtime.buckets import KeyCounter, row_hashes, stacked
from cep.runtime.state_by_key import GROUPS, check_partitions, partition_of
from cep.workers.packing import (
    NUMBERS,
    Copied,
    PackedColumn,
    PackedTable,
    TakenNumbers,
    TakenTexts,
    chunks,
    taken_ends,
    text_buffers,
)

Dealt = dict[str, pl.DataFrame | PackedTable]


def deal_packed(
    stage: Stage,
    tables: Mapping[str, Sequence[pl.DataFrame]],
    schemas: Mapping[str, Schema],
    count: int,
    keys: KeyCounter,
) -> list[Dealt]:
    """Distribute tables to `count` partitions, as `cep.runtime.state_by_key.deal_groups` does.

    `tables`: the tables by event. Each consists of parts that have the same columns. Returns the non-empty tables of
    each partition. These tables refer to rows of the given parts, and the rows are copied only when the tables are
    sent.
    """
    check_partitions(count)
    dealt: list[Dealt] = [{} for _ in range(count)]
    for event in sorted(stage.inputs.keys() & tables.keys()):
        parts, route = [part for part in tables[event] if part.height], stage.inputs[event]
        if not parts:
            continue
        if route in ("single", "broadcast"):
            whole = parts[0] if len(parts) == 1 else stacked(parts)
            for share in dealt[:1] if route == "single" else dealt:
                share[event] = whole
            continue
        rows = [_rows_of(part, schemas[event], route, count, keys) for part in parts]
        for number, table in enumerate(_packed(parts, rows, count)):
            if table.rows:
                dealt[number][event] = table
    return dealt


def _rows_of(part: pl.DataFrame, schema: Schema, route: Route, count: int, keys: KeyCounter) -> list[Ints]:
    """Return the row numbers that go to each partition, for one part of a table."""
    hashed = row_hashes(part, schema, route)
    rows, stops, groups = deal_rows(hashed, partition_of(np.arange(GROUPS), count), count)
    if isinstance(route, tuple):
        keys.take(schema.name, [schema.attributes[place].name for place in route], part, hashed, groups)
    return [rows[first:stop] for first, stop in zip(stops[:-1].tolist(), stops[1:].tolist())]


def _packed(parts: Sequence[pl.DataFrame], rows: Sequence[Sequence[Ints]], count: int) -> list[PackedTable]:
    """Distribute the rows of one table, and return one packed table for each partition. `parts`: the table, in parts.
    `rows`: the row numbers, by part and partition."""
    names = parts[0].columns
    packed = [PackedTable(sum(len(row[number]) for row in rows), names) for number in range(count)]
    rest = []
    for name in names:
        series = [part[name] for part in parts]
        dtypes = {column.dtype for column in series}
        whole = len(dtypes) == 1 and not any(column.null_count() for column in series)
        if whole and series[0].dtype in NUMBERS:
            values = [[chunk.to_numpy() for chunk in chunks(column)] for column in series]
            flat = [value[0] if len(value) == 1 else np.concatenate(value) for value in values]
            plain = [numbers.view(np.int64) for numbers in flat]
            for number, table in enumerate(packed):
                taken = [TakenNumbers(numbers, places[number]) for numbers, places in zip(plain, rows)]
                table.columns.append(PackedColumn.numbers(series, taken))
        elif whole and series[0].dtype == pl.String:
            texts = [text_buffers(column) for column in series]
            for number, table in enumerate(packed):
                table.columns.append(_texts(name, texts, [row[number] for row in rows], table.rows))
        else:
            rest.append(name)
    if rest:
        for number, table in enumerate(packed):
            if table.rows:
                taken_rest = [part.select(rest)[places_of[number]] for part, places_of in zip(parts, rows)]
                table.add_others(stacked(taken_rest).get_columns())
    return packed


def _texts(
    name: str, texts: Sequence[tuple[Ints, NDArray[np.uint8]]], rows: Sequence[Ints], count: int
) -> PackedColumn:
    ends = np.zeros(count + 1, np.int64)
    pieces, first, base = [], 1, 0
    for (stops, data), own_rows in zip(texts, rows):
        stop = int(taken_ends(stops, own_rows, ends, first, base))
        pieces.append(TakenTexts(stops, data, own_rows, stop - base))
        first, base = first + len(own_rows), stop
    return PackedColumn(name, "texts", [[Copied(ends)], pieces])


@njit()
def deal_rows(hashed, partitions, count):  # type: ignore[no-untyped-def]
    """Sort rows by partition. Rows of the same partition keep their order.

    - `hashed`: the hash of each row. The last bits of a hash are the row's key group.
    - `partitions`: the partition of each key group, below `count`.

    Returns the row numbers in the new order, the end of each partition in them, and the number of rows in each key
    group.
    """
    groups = np.zeros(partitions.shape[0], np.int64)
    last = np.uint64(partitions.shape[0] - 1)
    for i in range(hashed.shape[0]):
        groups[np.int64(hashed[i] & last)] += 1
    stops = np.zeros(count + 1, np.int64)
    for group in range(partitions.shape[0]):
        stops[partitions[group] + 1] += groups[group]
    for number in range(count):
        stops[number + 1] += stops[number]
    positions = stops[:count].copy()
    rows = np.empty(hashed.shape[0], np.int64)
    for i in range(hashed.shape[0]):
        number = partitions[np.int64(hashed[i] & last)]
        rows[positions[number]] = i
        positions[number] += 1
    return rows, stops, groups
