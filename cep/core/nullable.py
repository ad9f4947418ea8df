"""Columns that may have missing values: int64 columns of the engine, and polars series with nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MISSING: int = -(2**63)
"""The number that means a missing value in every int64 column: integers, times, durations, booleans and codes."""


def or_none(column: NDArray[np.int64]) -> list[int | None]:
    """Return the values of a column as a list. Missing values become None."""
    return [None if value == MISSING else value for value in column.tolist()]


def nullable(values: NDArray[Any], missing: NDArray[np.bool_]) -> pl.Series:
    """Return values as a polars series, which is null where `missing` is True."""
    series = pl.Series(values)
    if not missing.any():
        return series
    return pl.select(pl.when(pl.Series(~missing)).then(series)).to_series().alias("")
