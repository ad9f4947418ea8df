"""The total order of values.

Missing values come first. Then come numbers and times by size, then booleans, then strings and IRIs by their
characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from cep.core.relation import Column
from cep.core.schema import CODED
from cep.core.values import FLOAT, INT, Ints, Pool


def rank(column: Column, type: str, pool: Pool) -> pl.Series:
    """Return a number for each value of a column. The numbers sort like the values. Equal values have equal numbers."""
    if type not in CODED:
        # A missing float is NaN, which would sort last.
        return pl.Series(np.where(np.isnan(column), -np.inf, column + 0.0) if type == "float" else column)
    codes = pl.Series(column).unique().sort().to_numpy()
    if type == "any":
        values = pool.decode_values(codes)
        texts = pl.Series(
            [None if kind in (INT, FLOAT) or v is None else str(v) for v, kind in zip(values, pool.kinds(codes))],
            dtype=pl.String,
        )
    else:
        texts = pool.decode(codes, type)
    order = (
        pl.DataFrame(
            {
                "kind": np.where(
                    pool.kinds(codes) == FLOAT, INT, pool.kinds(codes)
                ),  # a missing value has the smallest kind, FREE
                "number": pool.numbers(codes),
                "integer": pool.integers(codes),
                "text": texts,
            }
        )
        .with_row_index("row")
        .sort("kind", "number", "integer", "text")["row"]
        .to_numpy()
    )
    ranks: Ints = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes), dtype=np.int64)
    return pl.Series(ranks[np.searchsorted(codes, column)])


def sorting(columns: Sequence[Column], types: Sequence[str], rows: int, pool: Pool) -> Ints:
    """Return the row numbers in the order of the rows' values. Rows are compared by the first column, then by the
    second, and so on."""
    if not columns:
        return np.arange(rows, dtype=np.int64)
    frame = pl.DataFrame([rank(c, t, pool).alias(f"{i}") for i, (c, t) in enumerate(zip(columns, types))])
    order: Ints = frame.with_row_index("row").sort(frame.columns)["row"].to_numpy().astype(np.int64)
    return order


def sort_key(types: Sequence[str], pool: Pool) -> Callable[[Ints], tuple[Any, ...]]:
    """Return a function that turns a row of 64-bit words into a sort key, which gives the same order as `sorting`."""

    def key(row: Ints) -> tuple[Any, ...]:
        return tuple(_coded(row[i : i + 1], pool) if t in CODED else _plain(row[i], t) for i, t in enumerate(types))

    return key


def _plain(word: Any, type: str) -> float:
    if type != "float":
        return int(word)
    number = float(word.view(np.float64))
    return -np.inf if number != number else number


def _coded(code: Ints, pool: Pool) -> tuple[int, float, int, str]:
    kind, number = int(pool.kinds(code)[0]), float(pool.numbers(code)[0])
    value = pool.value(int(code[0]))
    text = "" if value is None or kind in (INT, FLOAT) else str(value)
    integer = int(pool.integers(code)[0])
    return INT if kind == FLOAT else kind, 0.0 if number != number else number, integer, text
