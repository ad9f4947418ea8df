"""The first rows of a Parquet file as columns. Fields of structs become columns, too. If a column contains lists, each
element of a list can be an event."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep.connectors.formats.nested_columns import Reasons, flattened, inner, is_list, leaves, reached
from cep.connectors.infer.sample import RecordSample
from cep.connectors.records.paths import EACH, Path, level, path, place, written

_FEW = 3
"""The maximum length of a list whose elements count as coordinates. Those of longer lists are measurements."""
_READ = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_timestamp,
    pa.types.is_date, pa.types.is_time, pa.types.is_duration, pa.types.is_string, pa.types.is_large_string,
    pa.types.is_string_view, pa.types.is_null,
)  # fmt: skip


def parquet_sample(file: File, limit: int) -> RecordSample:
    """Read the first `limit` rows. Raises ArrowException or OSError if the file cannot be read."""
    source = pq.ParquetFile(file)
    schema = source.schema_arrow
    sample = RecordSample(None)
    batch = next(source.iter_batches(limit), None)
    if batch is None:
        return sample
    sample.records = batch.num_rows
    series = _series(batch)
    plain, nested = _chosen(schema, series, sample, batch)
    if nested:
        reasons: Reasons = {}
        batch, _ = flattened(batch, plain, nested, reasons)
        sample.series = written(series) if series and any(EACH in steps for steps in nested.values()) else None
    sample.count = batch.num_rows
    sample.typed = {name: batch.schema.field(name).type for name in (*plain, *nested)}
    sample.columns = {name: _values(batch.column(name)) for name in sample.typed}
    return sample


def _chosen(
    schema: pa.Schema, series: Path | None, sample: RecordSample, batch: pa.RecordBatch
) -> tuple[list[str], dict[str, Path]]:
    """Return the names of the columns of single values that a declaration can read, and the paths of values inside
    nested columns that it can read.

    `series`: the path of the list whose elements are events, or None. `batch`: the first rows. A path that no
    declaration can read is added to `sample.left_out`.
    """
    plain: list[str] = []
    nested: dict[str, Path] = {}
    for name in dict.fromkeys(schema.names):
        if schema.names.count(name) > 1:
            sample.left_out[name] = f"{schema.names.count(name)} columns are called so"
            continue
        for steps in (target for leaf in leaves(schema, name) for target in _places(batch, leaf, series)):
            source = written(steps)
            kind = _type(schema, steps)
            if len(steps) > 1 and source in schema.names:
                sample.left_out[source] = f"it is in the struct `{steps[0]}`, but a column is called `{source}`, too"
            elif (why := _no_value(steps, kind, series)) is not None:
                sample.left_out[source] = why
            elif len(steps) > 1:
                nested[source] = steps
            else:
                plain.append(name)
    return plain, nested


def _places(batch: pa.RecordBatch, steps: Path, series: Path | None) -> list[Path]:
    """Return one path per element if `steps` leads to a short list, such as coordinates. Otherwise return `steps`."""
    whole = steps[:-1] if steps[-1] == EACH else steps
    kind = _type(batch.schema, whole)
    if whole == series or len(steps) == 1 or not is_list(kind) or not _numeric(kind.value_type):
        return [steps]
    if EACH in whole:
        series = whole[: whole.index(EACH)]
        lists = inner(pc.list_flatten(reached(batch, series)), whole[len(series) + 1 :])
    else:
        lists = reached(batch, whole)
    longest = pc.max(pc.list_value_length(lists)).as_py() or 0
    return [(*whole, f"[{i}]") for i in range(longest)] if 0 < longest <= _FEW else [steps]


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type(schema: pa.Schema, steps: Path) -> pa.DataType:
    kind = schema.field(steps[0]).type
    for step in steps[1:]:
        kind = kind.value_type if step == EACH or place(step) is not None else kind.field(step).type
    return kind


def _no_value(steps: Path, kind: pa.DataType, series: Path | None) -> str | None:
    """Explain why the data at a path cannot be the values of an attribute. Return None if they can."""
    source = written(steps)
    if len(steps) > 1 and path(source) != steps:
        return "no path leads to a name that is empty, or has quotes or brackets"
    if len(steps) == 1 and (EACH in source or level(source) is not None):
        return "in a declaration the name means something else"
    if EACH in steps and steps[: steps.index(EACH)] != series:
        where = f"instead of those of `{written(series)}[]`" if series is not None else "if no row lacks the list"
        return f'`FROM "{source}"` makes an event of each element {where}'
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_list(kind):
        return f'a list within a list; `FROM "{source}[0]"` is its first element'
    return None if any(fits(kind) for fits in _READ) else f"values of type {kind} are not read"


def _series(batch: pa.RecordBatch) -> Path | None:
    """Return the path of the list whose elements are events. Return None if each row is an event.

    Only lists that every row has are considered. A list of structs is preferred to a list of many numbers. If there are
    several such lists, the result is the one that has the most elements in all rows together.
    """
    best: tuple[bool, int] | None = None
    longest = None
    for name in dict.fromkeys(batch.schema.names):
        if batch.schema.names.count(name) > 1:
            continue
        for series in dict.fromkeys(
            steps[: steps.index(EACH)] for steps in leaves(batch.schema, name) if EACH in steps
        ):
            column = reached(batch, series)
            if column.null_count or path(written(series)) != series:
                continue
            lengths = pc.list_value_length(column)
            most, total = pc.max(lengths).as_py() or 0, pc.sum(lengths).as_py() or 0
            inside = column.type.value_type
            if not total or not (pa.types.is_struct(inside) or (_numeric(inside) and most > _FEW)):
                continue
            rank = (pa.types.is_struct(inside), total)
            if best is None or rank > best:
                best, longest = rank, series
    return longest


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values in Python: times as microseconds, times of day as texts, NaN as None."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
    if pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [None if value is None or value != value else value for value in values]
    if pa.types.is_decimal(kind):
        return [None if value is None else float(value) for value in values]
    if pa.types.is_time(kind):
        return [None if value is None else value.isoformat() for value in values]
    return values
