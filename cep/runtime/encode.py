"""Conversion of records to occurrences. Columns are checked against the schema. Rows that do not fit are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from sys import float_info
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.fluents import SINCE_EVER
from cep.core.literals import LEAST, say_duration, write_duration, write_time
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, span
from cep.core.schema import ARRIVAL, CODED, NUMBER, Attribute, Schema
from cep.core.time import FARTHEST
from cep.core.values import MISSING, Ints, Pool
from cep.events import Event, Iri
from cep.operators.goals.keys import NAN
from cep.rules.conditions.relations import Mask
from cep.runtime.interval_faults import interval_faults

Numbers = NDArray[np.int64] | NDArray[np.float64]

FAR = "has a time that is out of range: beyond 36 thousand years from 1970"


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A refused row: its event type, its position in the pushed table, the reason's code, and the reason in words."""

    type: str
    row: int
    code: str
    reason: str


@dataclass(slots=True)
class Admitted:
    """The occurrences of one pushed table in order of arrival, and the refused rows `dead`.

    - `rows`: for each occurrence, the number of its row in the pushed table. It is None if all rows of the pushed
      table, from the row `first` on, are occurrences.
    - `owners`, `starts`: only set if the pushed table is a concatenation of several tables. They contain the names of
      these tables, and the row at which each of them starts.
    """

    table: Table
    rows: NDArray[np.int64] | None
    dead: list[RefusedRow]
    first: int = 0
    owners: Sequence[str] = ()
    starts: Ints | None = None

    def pushed(self, mask: Mask | slice) -> NDArray[np.int64]:
        """Return the positions in the pushed table of the occurrences that `mask` selects."""
        places = np.arange(self.table.shape[1])[mask]
        return places + self.first if self.rows is None else self.rows[places]

    def named(self, refused: Sequence[RefusedRow]) -> list[RefusedRow]:
        """Translate refused rows of a concatenated table. In the result, each row has the name of its original table,
        and its position in that table."""
        if self.starts is None or not refused:
            return list(refused)
        places = np.searchsorted(self.starts, [row.row for row in refused], side="right") - 1
        own = zip(refused, places.tolist(), self.starts[places].tolist(), strict=True)
        return [RefusedRow(self.owners[place], row.row - start, row.code, row.reason) for row, place, start in own]

    def divided(self, names: Sequence[str], heights: Sequence[int]) -> dict[str, Admitted]:
        """Split the occurrences of a concatenated table. Return the occurrences of each original table, by name.

        `names`, `heights`: the names and the numbers of rows of the original tables, in the order in which they were
        concatenated.
        """
        self.owners, self.starts = names, np.cumsum([0, *heights])
        bounds = (self.starts if self.rows is None else np.searchsorted(self.rows, self.starts)).tolist()
        dead: dict[str, list[RefusedRow]] = {name: [] for name in names}
        for row in self.named(self.dead):
            dead[row.type].append(row)
        admitted = {}
        for name, start, (low, high) in zip(names, self.starts, pairwise(bounds), strict=False):
            places = None if self.rows is None else self.rows[low:high] - start
            admitted[name] = Admitted(np.ascontiguousarray(self.table[:, low:high]), places, dead[name])
        return admitted


@dataclass(frozen=True, slots=True)
class PushedColumns:
    """The columns of a pushed table, or of a slice of such a table.

    - `integers`: the Int64 columns without nulls, as views of the table's memory.
    - `others`: all other columns.
    - `first`: the number of the table's row at which the slice starts.
    """

    names: Sequence[str]
    integers: Mapping[str, NDArray[np.int64]]
    others: Mapping[str, pl.Series]
    height: int
    first: int = 0

    @classmethod
    def of(cls, frame: pl.DataFrame) -> PushedColumns:
        """Split a frame into its columns, without a copy."""
        integers, others = {}, {}
        for series in frame.get_columns():
            if series.dtype == pl.Int64 and not series.null_count():
                integers[series.name] = series.to_numpy()
            else:
                others[series.name] = series
        return cls(frame.columns, integers, others, frame.height)

    def between(self, start: int, stop: int) -> PushedColumns:
        """Return the columns of the rows from `start` to `stop`. The object must hold a whole table, not a slice."""
        integers = {name: values[start:stop] for name, values in self.integers.items()}
        others = {name: series[start:stop] for name, series in self.others.items()}
        return PushedColumns(self.names, integers, others, stop - start, start)

    def joined(self, name: str, values: Ints) -> PushedColumns:
        """Return the columns with an additional column of integers. `name`, `values`: those of this column."""
        return replace(self, integers={**self.integers, name: values})

    def __contains__(self, name: str) -> bool:
        return name in self.integers or name in self.others

    def series(self, name: str) -> pl.Series:
        return pl.Series(self.integers[name]) if name in self.integers else self.others[name]


def admit(
    columns: PushedColumns, schema: Schema, pool: Pool, first: int | Ints, named: bool = False, handed: bool = False
) -> Admitted:
    """Convert a pushed table to occurrences. In integer columns, -2**63 means a missing value.

    - `first`: the input position of the first row, or the positions of all rows. If the table has an `@order` column,
      its values are used instead.
    - `named`: True to use each row's position as its handle in lineage.
    - `handed`: True if the table comes from another stage. It may then have a column with the number of equal rows
      before each row.

    Raises CepError if a column is missing. Rows that do not fit the schema are refused.
    """
    n = columns.height
    table = np.empty((FIRST + len(schema.attributes), n), np.int64)
    start = "start" if "start" in columns else _found(columns, "time", schema)
    table[START], no_start = _integers(columns, start)
    if "end" in columns:
        table[END], no_end = _integers(columns, "end")
    else:
        table[END], no_end = table[START], no_start
    positions = np.arange(first, first + n) if isinstance(first, int) else first
    table[ORDER] = _order(columns, schema) if ARRIVAL in columns else positions
    table[IDENTITY] = positions + 1 if named else columns.integers[NUMBER] if handed and NUMBER in columns else 0
    missing = [none for none in (no_start, no_end) if none is not None]
    faults: list[tuple[Mask, str, str]] = [(none, "time", "has no time") for none in missing]
    if not _plain(table, schema.point):
        faults += [(table[END] < table[START], "interval", "ends before it starts"), *_odd_times(table, schema)]
    for i, attribute in enumerate(schema.attributes):
        name = attribute.name
        if name not in columns and attribute.optional and schema.declared:
            table[FIRST + i] = NAN if attribute.type == "float" else MISSING
            continue
        name = _found(columns, name, schema)
        plain = columns.integers.get(name) if attribute.type in ("int", "time", "duration") else None
        if plain is not None:
            values: Numbers = plain
            wrong = _missing(plain)  # -2**63 means a missing value
        else:
            values, wrong = _values(columns.series(name), attribute, pool)
        if wrong is not None:
            faults += _mistyped(wrong, columns.series(name), attribute)
        if plain is None or wrong is not None or attribute.low is not None or attribute.high is not None:
            faults += _bounds(values, wrong, attribute)
        table[FIRST + i] = values.view(np.int64)
    faults += interval_faults(table, schema)
    return _judged(table, schema.name, faults, columns.first)


def admit_events(events: Sequence[tuple[int, Event]], schema: Schema, pool: Pool, first: int, named: bool) -> Admitted:
    """Convert events to occurrences, as `admit` does. `events`: pairs of an event's position in the pushed sequence and
    the event."""
    width = len(schema.attributes)
    table = np.zeros((FIRST + width, len(events)), np.int64)
    faults: list[tuple[Mask, str, str]] = []
    starts, ends = [event.start for _, event in events], [event.end for _, event in events]
    if schema.fluent or min(starts) < -FARTHEST or max(ends) > FARTHEST or (schema.point and starts != ends):
        table[START] = [max(-(2**62), min(start, 2**62)) for start in starts]
        table[END] = [max(-(2**62), min(end, 2**62)) for end in ends]
        faults += _odd_times(table, schema)
    else:
        table[START], table[END] = starts, ends
    table[ORDER] = [first + place for place, _ in events]
    if named:
        table[IDENTITY] = table[ORDER] + 1
    odd: Mask | None = None
    if any(len(event.args) != width for _, event in events):
        odd = np.array([len(event.args) != width for _, event in events], np.bool_)
        count = "no arguments" if width == 0 else "1 argument" if width == 1 else f"{width} arguments"
        faults.insert(0, (odd, "arity", f"must have {count}"))
        events = [(place, replace(event, args=(*event.args, *[None] * width)[:width])) for place, event in events]
    for i, attribute in enumerate(schema.attributes):
        column = [event.args[i] for _, event in events]
        fitting = _fitting(column, attribute, pool)
        if fitting is not None:
            table[FIRST + i] = fitting
            continue
        values, wrong = _python_values(column, attribute.type, pool)
        of_column = [*_mistyped(wrong, column, attribute), *_bounds(values, wrong, attribute)]
        faults += of_column if odd is None else [(fault & ~odd, code, reason) for fault, code, reason in of_column]
        table[FIRST + i] = values.view(np.int64)
    for fault, code, reason in interval_faults(table, schema):
        faults.append((fault if odd is None else fault & ~odd, code, reason))
    admitted = _judged(table, schema.name, faults)
    places = np.array([place for place, _ in events], np.int64)
    admitted.rows = places if admitted.rows is None else places[admitted.rows]
    admitted.dead = [RefusedRow(d.type, int(places[d.row]), d.code, d.reason) for d in admitted.dead]
    return admitted


def _fitting(column: Sequence[object], attribute: Attribute, pool: Pool) -> Ints | None:
    """Convert a column to encoded values. Return None if some value may not fit the attribute's type. The caller must
    then check the values one by one."""
    values: Any = column
    held = attribute.type
    if not _KINDS[held].issuperset(map(type, column)):
        return None
    if held in ("string", "iri"):
        return pool.encode_values(values)
    if held == "bool":
        return np.array(values, np.int64)
    if held == "any":
        codes = pool.encode_values(values)
        return None if MISSING in codes else codes
    least, greatest = min(values), max(values)
    fit = (attribute.low is None or least >= attribute.low) and (attribute.high is None or greatest <= attribute.high)
    if held != "float":
        return np.array(values, np.int64) if fit and least > MISSING and greatest < 2**63 else None
    if fit and all(abs(value) <= float_info.max for value in values):
        return (np.array(values, np.float64) + 0.0).view(np.int64)
    return None


_KINDS: dict[str, set[type]] = {
    "int": {int},
    "time": {int},
    "duration": {int},
    "float": {float, int},
    "bool": {bool},
    "string": {str},
    "iri": {Iri},
    "any": {int, float, str, bool, Iri},
}
"""For each attribute type, the Python types whose values always fit the attribute type."""


def _plain(table: Table, point: bool) -> bool:
    """Return True if all intervals are valid: times are in range, and no interval ends before its start.

    `point`: True if each interval must also be an instant, that is, end at its start.
    """
    start, end = table[START], table[END]
    if not len(start):
        return True
    fit = start == end if point else start <= end
    return bool(fit.all()) and int(start.min()) >= -FARTHEST and int(end.max()) <= FARTHEST


def _odd_times(table: Table, schema: Schema) -> list[tuple[Mask, str, str]]:
    start, end = table[START], table[END]
    beyond: Mask = (start < -FARTHEST) | (start > FARTHEST) | (end < -FARTHEST) | (end > FARTHEST)
    if schema.fluent is not None:  # these rows come from an earlier stage
        beyond &= start != SINCE_EVER
    faults: list[tuple[Mask, str, str]] = [(beyond, "time", FAR)]
    if schema.point:
        faults.append((end != start, "interval", "is an interval, but the event is declared with TIME, an instant"))
    return faults


def _judged(table: Table, name: str, faults: Sequence[tuple[Mask, str, str]], first: int = 0) -> Admitted:
    dead: list[RefusedRow] = []
    refused: Mask | None = None
    for fault, code, reason in faults:
        if fault.any():
            refused = np.zeros(table.shape[1], np.bool_) if refused is None else refused
            dead += [RefusedRow(name, first + int(row), code, reason) for row in np.flatnonzero(fault & ~refused)]
            refused |= fault
    if refused is None:
        return Admitted(table, None, dead, first)
    dead.sort(key=lambda d: d.row)
    return Admitted(table.compress(~refused, axis=1), first + np.flatnonzero(~refused), dead, first)


def _mistyped(wrong: Mask, column: Sequence[object] | pl.Series, attribute: Attribute) -> list[tuple[Mask, str, str]]:
    """Describe values of the wrong type: a mask of rows, an error code and a text for each reason. `wrong`: the rows
    that have such a value.

    Numbers that exceed 64 bits are a separate reason.
    """
    large, least = np.zeros(len(wrong), np.bool_), np.zeros(len(wrong), np.bool_)
    large[wrong] = [_large(column[int(i)]) for i in np.flatnonzero(wrong)]
    least[large] = [column[int(i)] == MISSING for i in np.flatnonzero(large)]
    return [
        (least, "type", f"`{attribute.name}` {LEAST}"),
        (large & ~least, "type", f"`{attribute.name}` needs more than 64 bits"),
        (wrong & ~large, "type", f"`{attribute.name}` is not {_a(attribute.type)}"),
    ]


def _large(value: object) -> bool:
    return isinstance(value, int | float) and value == value and 2**63 <= abs(value) < float("inf")


def _bounds(values: Numbers, wrong: Mask | None, attribute: Attribute) -> list[tuple[Mask, str, str]]:
    faults: list[tuple[Mask, str, str]] = []
    missing = _missing(values)
    if missing is not None and not attribute.optional:
        faults.append((missing if wrong is None else missing & ~wrong, "missing", attribute.lacking))
    if attribute.low is not None or attribute.high is not None:
        outside = np.zeros(len(values), np.bool_)
        if attribute.low is not None:
            outside |= values < attribute.low
        if attribute.high is not None:
            outside |= values > attribute.high
        bounds = f"{_bound(attribute.low, attribute.type)}..{_bound(attribute.high, attribute.type)}"
        outside = outside if missing is None else outside & ~missing
        faults.append((outside, "range", f"`{attribute.name}` is outside its range {bounds}"))
    return faults


def _missing(values: Numbers) -> Mask | None:
    if values.dtype == np.float64:
        missing: Mask = np.isnan(values)
        return missing if missing.any() else None
    return values == MISSING if len(values) and int(values.min()) == MISSING else None  # MISSING is the least integer


def _bound(value: int | float | None, type: str) -> str:
    if value is None:
        return ""
    if type == "time":
        return write_time(int(value))
    return write_duration(int(value)) if type == "duration" else f"{value:g}"


def _found(columns: PushedColumns, name: str, schema: Schema) -> str:
    if name not in columns:
        names = ", ".join(columns.names) or "none"
        hint = (
            "use the columns `time`, or `start` and `end`, in microseconds, and one per attribute; `cep.Engine` reads "
        )
        hint += "times as the program declares them"
        raise CepError(f"the table of `{schema.name}` has no column `{name}`; it has {names}", hint=hint, code="column")
    return name


def _order(columns: PushedColumns, schema: Schema) -> NDArray[np.int64]:
    order = columns.series(ARRIVAL)
    if not order.dtype.is_integer() or order.null_count():
        raise CepError(
            f"`{ARRIVAL}` of the table of `{schema.name}` must be each row's position in the input, a whole number",
            hint="use an integer column, or leave it out to keep the order of the table",
            code="column",
        )
    return order.cast(pl.Int64).to_numpy()


def _integers(columns: PushedColumns, name: str) -> tuple[NDArray[np.int64], Mask | None]:
    """Return a time column as integers, and a mask of its missing values. The mask is None if no value is missing."""
    if name in columns.integers:
        return columns.integers[name], None
    series = columns.others[name]
    if series.dtype.is_temporal():
        series = series.cast(pl.Datetime("us")).cast(pl.Int64)
    if series.dtype.is_float():
        series = pl.select(pl.when(series == series.floor()).then(series)).to_series()
    if series.dtype != pl.Int64:
        series = series.cast(pl.Int64, strict=False)
    if not series.null_count():
        return series.to_numpy(), None
    return series.fill_null(0).to_numpy(), series.is_null().to_numpy()


def _values(series: pl.Series, attribute: Attribute, pool: Pool) -> tuple[Numbers, Mask | None]:
    """Convert a column to encoded values. Also return a mask of the values of a wrong type, or None if all values have
    the attribute's type."""
    n = len(series)
    wrong: Mask | None = None
    type = attribute.type
    if series.dtype == pl.Null:
        return (np.full(n, np.nan) if type == "float" else np.full(n, MISSING)), wrong
    if series.dtype == pl.Object and type != "any":
        return _python_values(series.to_list(), type, pool)
    numeric = series.dtype.is_numeric()
    if type == "float":
        if not numeric:
            return np.full(n, np.nan), series.is_not_null().to_numpy()
        values = series.cast(pl.Float64).to_numpy()
        if series.null_count():
            values = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
        endless = np.isinf(values)
        if not endless.any():
            return values + 0.0, None
        return np.where(endless, np.nan, values + 0.0), endless
    if type in ("string", "iri"):
        if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
            return np.full(n, MISSING), series.is_not_null().to_numpy()
        return pool.encode(series, type), wrong
    if type == "any":
        if series.dtype == pl.Object:
            return _python_values(series.to_list(), type, pool)
        if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Time):
            return np.full(n, MISSING), series.is_not_null().to_numpy()
        return pool.encode(series, "any"), wrong
    if type == "bool":
        if series.dtype != pl.Boolean:
            return np.full(n, MISSING), series.is_not_null().to_numpy()
        return series.cast(pl.Int64).fill_null(MISSING).to_numpy(), wrong
    if type in ("time", "duration") and series.dtype.is_temporal():
        unit = pl.Datetime("us") if type == "time" else pl.Duration("us")
        return series.cast(unit).cast(pl.Int64).fill_null(MISSING).to_numpy(), wrong
    if not numeric:
        return np.full(n, MISSING), series.is_not_null().to_numpy()
    if series.dtype.is_float():
        floats = series.fill_null(np.nan).to_numpy()
        odd = ~np.isnan(floats) & ~((np.floor(floats) == floats) & (np.abs(floats) < 2**63))
        whole = np.where(np.isnan(floats) | odd, 0.0, floats).astype(np.int64)
        return np.where(np.isnan(floats) | odd, MISSING, whole), odd
    if series.dtype == pl.Int64 and not series.null_count():
        whole = series.to_numpy()
        return whole, _missing(whole)
    cast = series.cast(pl.Int64, strict=False)
    if series.dtype in (pl.UInt64, pl.Int64, pl.Int128):
        wrong = ((cast.is_null() | (cast == MISSING)) & series.is_not_null()).fill_null(False).to_numpy()
    return (cast.fill_null(MISSING) if cast.null_count() else cast).to_numpy(), wrong


def _python_values(column: Sequence[object], type: str, pool: Pool) -> tuple[Numbers, Mask]:
    wrong = np.array([value is not None and not fits(value, type) for value in column], np.bool_)
    good = [None if bad else value for value, bad in zip(column, wrong, strict=True)]
    if type == "float":
        return np.array([np.nan if v is None else float(v) + 0.0 for v in good], np.float64), wrong  # type: ignore[arg-type]
    if type in CODED:
        return pool.encode_values(good), wrong  # type: ignore[arg-type]
    return np.array([MISSING if v is None else int(v) for v in good], np.int64), wrong  # type: ignore[call-overload]


def fits(value: object, type: str) -> bool:
    """Return True if a Python value has the attribute type `type`."""
    match type:
        case "any":
            return isinstance(value, int | float | str)
        case "bool":
            return isinstance(value, bool)
        case "iri":
            return isinstance(value, Iri)
        case "string":
            return isinstance(value, str) and not isinstance(value, Iri)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max
        case _:
            return (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and value == value
                and (abs(value) < 2**63 and int(value) == value)
            )


def _a(type: str) -> str:
    names = {
        "int": "a whole number",
        "float": "a number",
        "any": "a number, a text, true or false",
        "iri": "an IRI",
        "bool": "true or false",
    }
    return names.get(type, f"a {type}")


PASSED, FINAL = "the watermark has passed it", "results for that time are final"


def late(tables: Mapping[str, Table], watermark: int, lateness: int | None, in_turn: bool) -> dict[str, Ints]:
    """Return the lateness of rows in microseconds, for each table that may have late rows. It is 0 or less for a row
    that is not late.

    A row is late if it ends at or before the watermark that was valid before the push. `in_turn`: True to advance the
    watermark at each row of the push, before the next row is judged.
    """
    if not in_turn or lateness is None:
        return {
            name: watermark + 1 - table[END]
            for name, table in tables.items()
            if table.shape[1] and span(table)[0] <= watermark
        }
    positions = np.concatenate([t[ORDER] for t in tables.values()]) if tables else np.empty(0, np.int64)
    ends = np.concatenate([t[END] for t in tables.values()]) if tables else np.empty(0, np.int64)
    order = np.argsort(positions, kind="stable")
    highest = np.maximum.accumulate(ends[order]) if len(ends) else ends
    before = np.concatenate([[-(2**62)], highest[:-1] - lateness - 1]) if len(ends) else highest
    marks = np.empty(len(ends), np.int64)
    marks[order] = np.maximum(before, watermark)
    late_by, offset = {}, 0
    for name, table in tables.items():
        late_by[name] = marks[offset : offset + table.shape[1]] + 1 - table[END]
        offset += table.shape[1]
    return late_by


def late_reason(by: int, final: bool, key: str | None = None) -> str:
    """Describe why a late row is refused.

    - `by`: the lateness in microseconds. If it exceeds one millisecond, the text rounds it down to whole milliseconds.
    - `final`: True if the row would change results that are final.
    - `key`: the attribute whose values have separate clocks, or None if all rows share one clock.
    """
    reason = FINAL if final else PASSED
    own = "" if key is None else f", or later records with the same `{key}` have arrived"
    return f"is late by {say_duration(by - by % 1_000 if by > 1_000 else by)}: {reason}{own}"
