"""Columns with missing values: int64 columns of the engine, and series with nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MISSING: int = -(2**63)
"""The missing value of every int64 column: integers, times, durations, booleans and codes."""


def or_none(column: NDArray[np.int64]) -> list[int | None]:
    """Return the values of a column, with None for missing ones."""
    return [None if value == MISSING else value for value in column.tolist()]


def nullable(values: NDArray[Any], missing: NDArray[np.bool_]) -> pl.Series:
    """Return values as a series, null where `missing` is True."""
    series = pl.Series(values)
    if not missing.any():
        return series
    return pl.select(pl.when(pl.Series(~missing)).then(series)).to_series().alias("")
