"""Conversion of nested Parquet columns to columns of single values. Each element of a list becomes a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.records.paths import EACH, Path, list_of, path, place, written

Reasons = dict[int, tuple[str, str]]
"""The errors of unreadable rows. For each row number: the code and the reason of the row's first error."""


def resolved(schema: pa.Schema, sources: Sequence[str]) -> dict[str, Path]:
    """Return the path of each source inside a nested column. Names of whole columns have no path."""
    paths = {}
    for source in sources:
        steps = path(source)
        if source not in schema.names and len(steps) > 1 and steps[0] in schema.names:
            kind = schema.field(steps[0]).type
            if all((kind := _inside(kind, step)) is not None for step in steps[1:]):
                paths[source] = steps
    return paths


def _inside(kind: Any, step: str) -> Any:
    """Return the type of the values that one step of a path selects in the type `kind`, or None if there are none."""
    if kind is None:
        return None
    if step == EACH or place(step) is not None:
        return kind.value_type if is_list(kind) else None
    if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
        return None
    return kind.field(step).type


def is_list(kind: Any) -> bool:
    """Return True if a column of the type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def leaves(schema: pa.Schema, name: str) -> list[Path]:
    """Return the paths of all values inside a nested column that are neither structs nor lists. A list inside another
    list is also returned as a value."""
    paths: list[Path] = []
    waiting: list[tuple[Path, Any]] = [((name,), schema.field(name).type)]
    while waiting:
        steps, kind = waiting.pop(0)
        if pa.types.is_struct(kind):
            waiting += [((*steps, kind.field(i).name), kind.field(i).type) for i in range(kind.num_fields)]
        elif is_list(kind) and EACH not in steps:
            waiting.append(((*steps, EACH), kind.value_type))
        else:
            paths.append(steps)
    return paths


def flattened(
    batch: pa.RecordBatch, plain: Sequence[str], nested: Mapping[str, Path], reasons: Reasons
) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """Replace nested columns by columns of single values. Each element of a list becomes a row.

    Return the new batch, and for each new row the number of its original row. `plain`: the columns to keep unchanged.
    `nested`: the path of each source inside a nested column. A row whose list is missing is kept, and the reason is
    added to `reasons`.
    """
    import pyarrow.compute as pc

    rows = np.arange(batch.num_rows)
    series = list_of(list(nested))
    elements = index = pa.array([], pa.int64())
    if series is not None:
        lists = reached(batch, series)
        valid = lists.is_valid().to_numpy(zero_copy_only=False)
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.repeat(rows, np.where(valid, lengths, 1))
        place = np.cumsum(valid[rows]) - 1
        elements, index = pc.list_flatten(lists), pa.array(place, mask=~valid[rows])
        for row in np.flatnonzero(~valid[rows]).tolist():
            reasons.setdefault(row, ("args", f"`{written(series)}` is missing"))
    columns = {name: batch.column(name) for name in plain}
    for source, steps in nested.items():
        if EACH not in steps:
            columns[source] = reached(batch, steps)
    if series is not None:
        columns = {name: _taken(column, pa.array(rows)) for name, column in columns.items()}
        for source, steps in nested.items():
            if EACH in steps:
                columns[source] = _taken(inner(elements, steps[steps.index(EACH) + 1 :]), index)
    return pa.RecordBatch.from_pydict(columns), rows


def _taken(column: pa.Array, index: pa.Array) -> pa.Array:
    """Return the rows of a column that have the row numbers `index`.

    Polars creates string views, from which pyarrow cannot select rows. So they are converted first.
    """
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column.take(index)


def reached(batch: pa.RecordBatch, steps: Path) -> pa.Array:
    """Return the values that a path selects in a batch, through structs and through list elements with an index."""
    return inner(batch.column(steps[0]), steps[1:])


def inner(column: pa.Array, steps: Path) -> pa.Array:
    """Return the values that a path selects inside a column."""
    import pyarrow.compute as pc

    for step in steps:
        if (index := place(step)) is None:
            column = pc.struct_field(column, [step])
        else:
            series: pl.Series = pl.from_arrow(column)  # type: ignore[assignment]
            series = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
            column = series.list.get(index, null_on_oob=True).to_arrow(compat_level=pl.CompatLevel.oldest())
    return column
