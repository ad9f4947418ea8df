"""Conversion of occurrences to polars frames and to `Event` values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, repeat
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.fluents import BOUNDS, HOLDS, SINCE_EVER
from cep.core.relation import END, FIRST, ORDER, START, Table, column, concat, rows
from cep.core.schema import ARRIVAL, CODED, TIE, Schema
from cep.core.time import END_OF_TIME
from cep.core.values import MISSING, Pool
from cep.events import Event, Iri, Value

DerivedTables = Mapping[str, Sequence[Table]]
"""The output of a step: for each event type, one table per time slice."""
AsFrame: TypeAlias = "Callable[[Table, Schema, Pool], pl.DataFrame]"
"""A function that converts a table into a frame."""


FEW = 1 << 16
"""The maximum number of occurrences of an event type for which the tables of several time slices are joined into one
frame."""


def frames(
    derived: DerivedTables, schemas: Mapping[str, Schema], pool: Pool, as_frame: AsFrame | None = None
) -> dict[str, pl.DataFrame]:
    """Convert tables to frames with `start`, `end` and one column per attribute. Missing values become null.

    `as_frame`: a function to use instead of the usual conversion.
    """
    if not derived:
        return {}
    whole: dict[str, Sequence[Table]] = {}
    for name, tables in derived.items():
        few = len(tables) > 1 and sum(map(rows, tables)) <= FEW  # creating a frame costs more than copying so few rows
        if few or any(attribute.type == "any" for attribute in schemas[name].attributes):
            tables = [concat(tables)]  # the type of an `any` column depends on all its values
        whole[name] = tables
    cells = Cells([table for tables in whole.values() for table in tables])

    def frame(table: Table, schema: Schema) -> pl.DataFrame:
        if as_frame is not None:
            return as_frame(table, schema, pool)
        if schema.fluent is not None and schema.fluent.part == HOLDS:
            return _held_frame(table, schema, pool)
        return table_frame(table, schema, pool, cells)

    frames_by_name: dict[str, pl.DataFrame] = {}
    for name, tables in whole.items():
        parts = [frame(table, schemas[name]) for table in tables]
        frames_by_name[name] = parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=False)
    return frames_by_name


class Cells:
    """A cache of two polars columns that many small tables share: one for all integers, and one for all floats. Each
    column of a small table is a slice of one of these two, because creating a polars column takes longer than the rest
    of the conversion."""

    SMALL = 1 << 10
    """The largest size of a small table, in 64-bit words."""

    def __init__(self, tables: Sequence[Table]) -> None:
        small = [table for table in tables if table.size <= self.SMALL]
        self._starts = dict(zip(map(id, small), accumulate((table.size for table in small), initial=0)))
        self._series: dict[bool, pl.Series] = {}
        if small:
            self._words = np.concatenate([table.reshape(-1) for table in small])
            self._complete = MISSING not in self._words and not np.isnan(self._words.view(np.float64)).any()

    def column(self, name: str, table: Table, row: int, floats: bool = False) -> pl.Series | None:
        """Return the matrix row `row` of a table as a column. Return None if the row may contain missing values."""
        start = self._starts.get(id(table))
        if start is None or not self._complete:
            return None
        if floats not in self._series:
            self._series[floats] = pl.Series(self._words.view(np.float64) if floats else self._words)
        return self._series[floats].slice(start + row * rows(table), rows(table)).alias(name)


def _held_frame(table: Table, schema: Schema, pool: Pool) -> pl.DataFrame:
    """Convert the intervals of a fluent to a frame. Infinite starts and ends become null. If results of the fluent are
    delayed, the delay is subtracted from the ends.

    The column `bounds` says which end points belong to the interval. If formulas define the fluent, the table's row
    ORDER contains the bounds. Otherwise the bounds are `(]`, or `()` for an interval without an end.
    """
    kind = schema.fluent
    assert kind is not None, "it is of a fluent"
    start, end = _times("start", table[START], SINCE_EVER, 0), _times("end", table[END], END_OF_TIME, kind.late)
    attributes = [
        argument_series(table, i, attribute.type, pool).alias(attribute.name)
        for i, attribute in enumerate(schema.attributes)
    ]
    if not kind.defined:
        bounds = _bounds_alike(BOUNDS.index("(]"), rows(table))
        bounds = bounds.set(end.is_null(), "()") if end.null_count() else bounds
    elif not rows(table) or table[ORDER].min() == table[ORDER].max():
        bounds = _bounds_alike(int(table[ORDER, 0]) if rows(table) else 0, rows(table))
    else:
        bounds = _bounds().gather(table[ORDER])
    return pl.DataFrame([start, end, *attributes, bounds])


def _bounds_alike(which: int, count: int) -> pl.Series:
    return _bounds().new_from_index(which, count) if count > FEW else _few_bounds(which)[:count]


@cache
def _few_bounds(which: int) -> pl.Series:
    return _bounds().new_from_index(which, FEW)


def _times(name: str, times: NDArray[np.int64], infinite: int, late: int) -> pl.Series:
    """Subtract the delay `late` from times and return them as a column. Infinite times become null."""
    is_infinite = times == infinite
    series = pl.Series(name, times - late if late else times)
    return series.set(pl.Series(is_infinite), None) if is_infinite.any() else series


def table_frame(table: Table, schema: Schema, pool: Pool, cells: Cells | None = None) -> pl.DataFrame:
    """Convert one table of occurrences to a frame. `cells`: columns that the table shares with other small tables."""
    cells = cells or Cells([table])
    columns = []
    for row, name in ((START, "start"), (END, "end")):
        column = cells.column(name, table, row)
        columns.append(pl.Series(name, table[row]) if column is None else column)
    for i, attribute in enumerate(schema.attributes):
        column = None
        if attribute.type not in CODED and attribute.type != "bool":
            column = cells.column(attribute.name, table, FIRST + i, attribute.type == "float")
        if column is None:
            column = argument_series(table, i, attribute.type, pool).alias(attribute.name)
        columns.append(column)
    return columns[0].to_frame().hstack(columns[1:])


def places(table: Table) -> list[pl.Series]:
    """Return two columns by which the occurrences of an event type can be sorted: their arrival, and `tie`.

    `tie` distinguishes occurrences of one engine that have the same end, start and arrival.
    """
    return [pl.Series(ARRIVAL, table[ORDER]), pl.Series(TIE, np.arange(rows(table)))]


def argument_series(table: Table, argument: int, type: str, pool: Pool) -> pl.Series:
    return decoded_series(table[FIRST + argument], type, pool)


def decoded_series(values: NDArray[np.int64], type: str, pool: Pool) -> pl.Series:
    """Convert an engine's encoded values to a polars column. `type`: the attribute type of the values."""
    if type in CODED:
        return pool.decode(values, type)
    values = np.ascontiguousarray(values).view(np.float64) if type == "float" else values
    cells = pl.Series(values)
    least = values.min(initial=0)  # NaN if any value is; no integer is less than MISSING
    if least == MISSING or least != least:
        missing = np.isnan(values) if type == "float" else values == MISSING
        cells = cells.zip_with(pl.Series(~missing), pl.Series([None], dtype=cells.dtype).new_from_index(0, len(cells)))
    return cells.cast(pl.Boolean) if type == "bool" else cells


def to_events(derived: DerivedTables, schemas: Mapping[str, Schema], pool: Pool) -> list[Event]:
    """Return all occurrences as events, sorted by (end, start, type, args)."""
    events: list[Event] = []
    for name, table in ((name, table) for name, tables in derived.items() for table in tables):
        if schemas[name].fluent is not None:
            continue
        columns = [values(table, i, a.type, pool) for i, a in enumerate(schemas[name].attributes)]
        starts, ends = table[START].tolist(), table[END].tolist()
        for i in range(rows(table)):
            events.append(Event(name, tuple(c[i] for c in columns), starts[i], ends[i]))
    return sorted(events, key=_place)


def events_of(tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema]) -> list[Event]:
    """Convert the output of `frames` to events, sorted by (end, start, type, args)."""
    events: list[Event] = []
    for name, table in tables.items():
        if schemas[name].fluent is not None:
            continue
        columns = [table[attribute.name].to_list() for attribute in schemas[name].attributes]
        for i, attribute in enumerate(schemas[name].attributes):
            if attribute.type == "iri":
                columns[i] = [None if value is None else Iri(value) for value in columns[i]]
        times = zip(table["start"].to_list(), table["end"].to_list(), strict=True)
        arguments = zip(*columns, strict=True) if columns else repeat((), table.height)
        events += [Event(name, tuple(args), start, end) for (start, end), args in zip(times, arguments, strict=True)]
    return sorted(events, key=_place)


def _place(event: Event) -> tuple[int, int, str, tuple[tuple[str, float, str], ...]]:
    return event.end, event.start, event.type, tuple(_rank(value) for value in event.args)


def values(table: Table, argument: int, type: str, pool: Pool) -> list[Value]:
    """Return the values of one argument as Python values."""
    if type in CODED:
        return pool.decode_values(table[FIRST + argument])
    raw = column(table, argument, type)
    if type == "float":
        return [None if v != v else v for v in raw.tolist()]
    if type == "bool":
        return [None if v == MISSING else bool(v) for v in raw.tolist()]
    return [None if v == MISSING else v for v in raw.tolist()]


def _rank(value: Value) -> tuple[str, float, str]:
    if value is None:
        return ("", 0.0, "")
    if isinstance(value, bool | str):
        return (type(value).__name__, float(value) if isinstance(value, bool) else 0.0, str(value))
    return ("number", float(value), "")


@cache
def _bounds() -> pl.Series:
    return pl.Series("bounds", BOUNDS, dtype=pl.String)
