"""Columns in which values are missing: int64 as the engine holds them, and series with nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MISSING: int = -(2**63)
"""The missing value of every int64 column: integers, times, durations, booleans and codes."""


def or_none(column: NDArray[np.int64]) -> list[int | None]:
    """The values of a column, None where one is missing."""
    return [None if value == MISSING else value for value in column.tolist()]


def nullable(values: NDArray[Any], missing: NDArray[np.bool_]) -> pl.Series:
    """Values as a series, null where they are missing."""
    series = pl.Series(values)
    if not missing.any():
        return series
    return pl.select(pl.when(pl.Series(~missing)).then(series)).to_series().alias("")
