"""Conversion of times and durations in tables of facts.

The declaration of the facts specifies the format: a pattern, a count of time units, or local time in a time zone.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from cep.core.errors import CepError
from cep.core.literals import read_time
from cep.core.schema import TimeFormat
from cep.core.time_pattern import of_clock, of_day, of_pattern, padded
from cep.core.zones import zone

_SIZES = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""The length of each unit in nanoseconds."""


def of_format(series: pl.Series, type: str, format: TimeFormat) -> pl.Series | None:
    """Convert a column to datetimes or durations in microseconds. Times of day become durations.

    A value that does not have the format becomes null. Return None if the format does not apply to the column.
    """
    clock = format.pattern is not None and of_day(format.pattern)
    wanted = pl.Datetime("us") if type == "time" and not clock else pl.Duration("us")
    dtype = series.dtype
    text = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
    if format.unit is not None:
        if not (text or dtype.is_numeric()):
            return None
        plain = series.cast(pl.String).str.strip_chars() if text else series
        whole = plain.cast(pl.Int64, strict=False) if text or dtype.is_integer() else None
        size = _SIZES[format.unit]
        if whole is not None and (whole.is_null() == series.is_null()).all():
            ticks = whole * (size // 1_000) if size >= 1_000 else whole // 1_000
        else:
            ticks = (plain.cast(pl.Float64, strict=False) * (size / 1_000)).round().cast(pl.Int64, strict=False)
        return ticks.cast(wanted)
    if dtype == pl.Date or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None):
        if format.zone is None:
            return None
        return _by_clock(series.cast(pl.Datetime("us")).to_physical(), format).cast(wanted)
    if format.pattern is not None and (text or dtype.is_numeric()):
        return _read(series.cast(pl.String) if text else number_texts(series), format).cast(wanted)
    return _read(series.cast(pl.String), format).cast(wanted) if text and format.zone is not None else None


def _by_clock(ticks: pl.Series, format: TimeFormat) -> pl.Series:
    """Convert local times in the format's time zone to instants. Times that clocks skip become null."""
    assert format.zone is not None, "it is named"
    utc_ticks, exists = zone(format.zone).utc(ticks.fill_null(0).to_numpy(), format.later)
    return pl.Series(ticks.name, utc_ticks).set(pl.Series(~exists) | ticks.is_null(), None)


def number_texts(numbers: pl.Series) -> pl.Series:
    """Convert numbers to texts. A whole float gets no decimal point, because pandas converts a column of ints that has
    gaps to floats."""
    if numbers.dtype.is_integer():
        return numbers.cast(pl.String)
    floats = numbers.cast(pl.Float64).fill_nan(None)
    whole = floats.cast(pl.Int64, strict=False)
    return whole.cast(pl.String).zip_with((whole == floats).fill_null(True), floats.cast(pl.String))


def _read(texts: pl.Series, format: TimeFormat) -> pl.Series:
    """Parse texts as times in microseconds, each distinct text once. An invalid text becomes null. Numbers may lack
    leading zeros."""
    known: dict[str, int | None] = {}
    for text in texts.drop_nulls().unique():
        try:
            known[text] = _ticks(text.strip(), format)
        except (ValueError, CepError):
            known[text] = None
    return texts.replace_strict(known, default=None, return_dtype=pl.Int64)


def _ticks(text: str, format: TimeFormat) -> int:
    if format.pattern is not None:
        text = padded(text, format.pattern)
        if of_day(format.pattern):
            return of_clock(text, format.pattern)
        ticks, absolute = of_pattern(text, format.pattern)
    else:
        ticks = read_time(text)
        clock = text.partition("T")[2] or text.partition(" ")[2]
        absolute = any(mark in clock for mark in "Zz+-")
    if format.zone is None or absolute:
        return ticks
    utc_ticks, exists = zone(format.zone).utc(np.array([ticks]), format.later)
    if not exists[0]:
        raise ValueError(f"does not exist in {format.zone}: its clocks skip it")
    return int(utc_ticks[0])
