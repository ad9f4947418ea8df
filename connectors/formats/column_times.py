"""Conversion of Parquet columns to times and durations. The columns may contain datetimes, numbers or texts."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl

from cep.connectors.formats.nested_columns import Reasons
from cep.connectors.records.columns import text_cells, ticks
from cep.connectors.records.numbers import BAD, GOOD
from cep.connectors.records.paths import told_name
from cep.connectors.records.times import (
    FAR,
    FIRST,
    LARGEST,
    LAST,
    OUTSIDE,
    SECOND,
    SHIFTS,
    beyond,
    is_number,
    meant_unit,
    of_duration,
    of_iso,
    of_text,
    power,
    scaled,
    shown,
)
from cep.core.errors import CepError
from cep.core.literals import LEAST
from cep.core.schema import Attribute, TimeFormat
from cep.core.time_pattern import whole_digits
from cep.core.zones import zone
from cep.rules.static.formatted_facts import number_texts

_MICROSECONDS = {"ms": 1_000, "us": 1, "ns": 0}  # 0: less than one
_UNITS = {"s": SECOND, **_MICROSECONDS}
_FITS = {
    "int": "whole numbers",
    "float": "numbers",
    "string": "strings",
    "iri": "strings",
    "bool": "booleans",
    "time": "datetimes, dates, seconds or ISO 8601 strings",
    "duration": "durations or seconds",
    "any": "numbers, strings or booleans",
}


def mismatch(file: str, column: pl.Series, attribute: Attribute) -> CepError:
    hint = None
    if attribute.type in ("int", "float") and column.dtype == pl.String:
        texts = column.drop_nulls().head(100)
        if len(texts) and all(is_number(text.strip(" \t")) for text in texts):
            hint = f"the column holds numbers as strings: `{attribute.name}: {attribute.type} QUOTED` reads them"
    return CepError(
        f"{file}: the column `{column.name}` holds {column.dtype}; {attribute.type} needs {_FITS[attribute.type]}",
        hint=hint,
        code="input",
    )


def _instants(file: str, column: pl.Series) -> CepError:
    message = f"{file}: the column `{column.name}` holds {column.dtype}: these are instants, so no hour is repeated"
    return CepError(message, hint="leave out `FOLD order`", code="input")


def column_ticks(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Convert a column of times or durations to microseconds. NaN becomes null.

    Nanoseconds and decimals of seconds are rounded half to even.
    """
    format = attribute.format
    if _written(column, attribute, format):
        ticks = _read(column, attribute, format or TimeFormat(), reasons, code)
    elif attribute.type == "duration":
        return _counted(file, column, attribute, reasons, code)
    else:
        if column.dtype.is_numeric() and (format is None or format.unit is None):
            column = _seconds(column, attribute, reasons, code)
        if format is not None and format.fold == "order" and not _by_clock(column.dtype):
            raise _instants(file, column)
        ticks = _counted(file, column, attribute, reasons, code)
        if format is not None and format.zone is not None and _by_clock(column.dtype):
            ticks = _of_zone(ticks, column, attribute, format, reasons, code)
    if attribute.type == "duration":
        return ticks
    far = ((ticks < FIRST) | (ticks > LAST)).fill_null(False)
    for row in np.flatnonzero(far.to_numpy()).tolist():
        meant = meant_unit(int(column[row])) if column.dtype.is_numeric() else ""
        reasons.setdefault(row, (code, f"{told_name(attribute)}: {OUTSIDE}{meant}"))
    return without(ticks, far)


def _written(column: pl.Series, attribute: Attribute, format: TimeFormat | None) -> bool:
    """Return True if the values must be parsed as text. This is the case for columns of text, and for columns of
    numbers if the declaration has a time pattern."""
    if column.dtype.is_numeric():
        return format is not None and format.pattern is not None
    if attribute.type == "duration" and format is None:
        return False
    return column.dtype == pl.String or isinstance(column.dtype, (pl.Categorical, pl.Enum))


def _by_clock(dtype: pl.DataType) -> bool:
    return dtype == pl.Date or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)


def _read(column: pl.Series, attribute: Attribute, format: TimeFormat, reasons: Reasons, code: str) -> pl.Series:
    texts = written_times(column, format.pattern)
    tick_column, states = ticks(text_cells(texts), 0, attribute.type == "time", format)
    for row in np.flatnonzero(states == BAD).tolist():
        try:
            tick_column[row], states[row] = _single(texts[row], attribute, format), GOOD
        except ValueError as error:
            reasons.setdefault(row, (code, f"{told_name(attribute)}: {error}"))
    return pl.Series(column.name, tick_column).set(pl.Series(states != GOOD), None)


def written_times(column: pl.Series, pattern: str | None) -> pl.Series:
    """Convert a column of times to texts.

    A column of numbers has lost the leading zeros of its times. If the pattern requires leading zeros, they are added
    again (`time_pattern.padded`). This includes floats without decimals, because pandas turns an integer column with
    missing values into floats.
    """
    numeric = column.dtype.is_numeric()
    texts = number_texts(column) if numeric else column.cast(pl.String)
    if pattern is None or not numeric or (digits := whole_digits(pattern)) is None:
        return texts
    least, full = digits
    return texts.zip_with((texts.str.len_bytes() < least) | ~texts.str.contains("^[0-9]+$"), texts.str.zfill(full))


def _single(text: str, attribute: Attribute, format: TimeFormat) -> int:
    plain = format.pattern is None and format.unit is None
    if attribute.type == "time":
        return of_text(text if plain else text.strip(" \t"), format, numbers=not plain)
    return scaled(text.strip(" \t"), power(SHIFTS[format.unit or "s"]))


def _of_zone(
    clock: pl.Series, column: pl.Series, attribute: Attribute, format: TimeFormat, reasons: Reasons, code: str
) -> pl.Series:
    """Convert local times in the declared time zone to UTC.

    A local time that the zone's clocks skip becomes null, with a reason in `reasons`.
    """
    assert format.zone is not None, "it is named"
    utc_ticks, exists = zone(format.zone).utc(clock.fill_null(0).to_numpy(), format.later)
    why = f"is skipped by the clocks of {format.zone}"
    skipped = refuse(pl.Series(~exists) & clock.is_not_null(), column, attribute, why, reasons, code)
    return pl.Series(clock.name, utc_ticks).set(skipped | clock.is_null(), None)


def _seconds(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Replace implausible numbers of seconds by null, with reasons. They are probably in another unit.

    Plausible times lie between the earliest time that the engine supports and the beginning of the year 2200.
    """
    sizes = column.cast(pl.Float64).fill_nan(None)
    far = ((sizes < FIRST / SECOND) | (sizes > FAR)).fill_null(False)
    for row in np.flatnonzero(far.to_numpy()).tolist():
        text = str(column[row])
        why = beyond(Decimal(text)) if is_number(text) else OUTSIDE
        reasons.setdefault(row, (code, f"{told_name(attribute)}: `{shown(text)}` {why}"))
    return column.zip_with(~far, pl.Series([None], dtype=column.dtype).new_from_index(0, len(column)))


def _counted(file: str, column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Convert datetimes, durations or numbers to microseconds. Nanoseconds and decimals are rounded half to even."""
    dtype = column.dtype
    calendar = attribute.type == "time"
    if dtype == pl.Null:
        return pl.Series(column.name, [None] * len(column), dtype=pl.Int64)
    if isinstance(dtype, pl.Datetime if calendar else pl.Duration):
        return _scaled(column.to_physical(), _MICROSECONDS[dtype.time_unit], attribute, reasons, code)
    if calendar and dtype == pl.Date:
        return column.cast(pl.Datetime("us")).to_physical()
    unit = "s" if attribute.format is None or attribute.format.unit is None else attribute.format.unit
    if dtype.is_integer():
        return _scaled(fitting(column, attribute, reasons, code), _UNITS[unit], attribute, reasons, code)
    if dtype.is_float():
        column = column.cast(pl.Float64).fill_nan(None) / 10.0 ** (6 - SHIFTS[unit])
        far = column.abs() > LARGEST // SECOND
        far = refuse(far, column, attribute, "does not fit in 64 bits of microseconds", reasons, code)
        column = without(column, far)
        whole = column.floor()  # leaves spare bits for the multiplication
        micros = ((column - whole) * SECOND).round(0, mode="half_to_even")
        return whole.cast(pl.Int64) * SECOND + micros.cast(pl.Int64)
    if dtype.is_decimal() or dtype == pl.String:
        return _parsed(column, attribute, reasons, code)
    raise mismatch(file, column, attribute)


def _scaled(column: pl.Series, unit: int, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Convert integers to microseconds. `unit`: the number of microseconds per unit. The value 0 means that the
    integers are nanoseconds."""
    if unit == 0:
        whole = column // 1000
        rest = column - whole * 1000
        return whole + ((rest > 500) | ((rest == 500) & (whole % 2 == 1))).cast(pl.Int64)
    far = (column > LARGEST // unit) | (column < -(LARGEST // unit))
    far = refuse(far, column, attribute, "does not fit in 64 bits of microseconds", reasons, code)
    return without(column, far) if unit == 1 else without(column, far) * unit


def _parsed(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str) -> pl.Series:
    """Parse a column of texts or decimals as times or durations. Each distinct value is parsed once."""
    exact = column.dtype != pl.String
    unit = power(SHIFTS["s" if attribute.format is None or attribute.format.unit is None else attribute.format.unit])
    read: dict[str, int | None] = {}
    texts = column.cast(pl.String)
    different = texts.unique().drop_nulls()
    for text in different.to_list():
        try:
            read[text] = (
                scaled(text, unit) if exact else of_iso(text) if attribute.type == "time" else of_duration(text)
            )
        except ValueError:
            read[text] = None
    times = texts.replace_strict(different, [read[t] for t in different.to_list()], default=None, return_dtype=pl.Int64)
    refuse(times.is_null() & texts.is_not_null(), texts, attribute, f"is not a valid {attribute.type}", reasons, code)
    return times


def fitting(column: pl.Series, attribute: Attribute, reasons: Reasons, code: str = "ill-typed") -> pl.Series:
    """Convert integers of any width to 64 bits. A value that does not fit becomes null, with a reason in `reasons`."""
    fits = column.cast(pl.Int64, strict=False)
    least = refuse(fits == -LARGEST - 1, column, attribute, LEAST, reasons, code)
    far = fits.is_null() & column.is_not_null()
    return without(
        fits, refuse(far, column, attribute, "is an integer that does not fit in 64 bits", reasons, code) | least
    )


def refuse(
    wrong: pl.Series, column: pl.Series, attribute: Attribute, why: str, reasons: Reasons, code: str = "ill-typed"
) -> pl.Series:
    """Record the reason `why` for each row that is True in the mask `wrong`. Return the mask without nulls."""
    wrong = wrong.fill_null(False)
    if wrong.any():
        for row in np.flatnonzero(wrong.to_numpy()).tolist():
            reasons.setdefault(row, (code, f"{told_name(attribute)}: `{shown(str(column[row]))}` {why}"))
    return wrong


def without(column: pl.Series, wrong: pl.Series) -> pl.Series:
    return column.set(wrong.fill_null(False), None) if wrong.any() else column
