"""Columns of terms as the answers that an engine takes: values, each row once, in an order that they alone decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from cep.background import Answers
from cep.stored import CODED, Column
from cep.values import FLOAT, INT, Ints, Pool
from knowledge.rdf.terms import Terms


def answered(terms: Terms, columns: Sequence[Ints], rows: int, pool: Pool) -> Answers:
    """Rows of ids as rows of values, sorted by the first column, then the second, ...

    Missing values come first; then numbers and times by size, booleans, strings, IRIs by their letters. So the order is
    that of the values, whatever the way in which they were found.
    """
    if not columns:
        return Answers((), (), min(rows, 1))
    types, values = terms.columns(columns, pool)
    frame = pl.DataFrame([rank(c, t, pool).alias(f"{i}") for i, (c, t) in enumerate(zip(values, types))])
    order = frame.with_row_index("row").unique(frame.columns, keep="any").sort(frame.columns)["row"].to_numpy()
    return Answers(types, tuple(column[order] for column in values), len(order))


def rank(column: Column, type: str, pool: Pool) -> pl.Series:
    """Numbers that sort as the values do; equal numbers are equal values."""
    if type not in CODED:
        # A missing float is NaN, which would come last.
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
                ),  # FREE, the least, if it is missing
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
