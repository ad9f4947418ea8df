"""Conversion of a query's solutions to a polars table."""

from __future__ import annotations

import polars as pl
import pyoxigraph as ox

from cep.core.values import Pool
from cep.knowledge.query import solutions
from cep.knowledge.query.sparql import tokens
from cep.rules.expressions.value_order import rank
from cep.rules.static.materialized import series_of


def solutions_frame(results: ox.QuerySolutions, ordered: bool) -> pl.DataFrame:
    """Return the solutions as a table with one column per variable. The rows are sorted by value.

    `ordered`: True to keep the order of the solutions instead.
    """
    names, pool = [variable.value for variable in results.variables], Pool()
    if not names:
        return pl.DataFrame()
    terms, columns = solutions.solution_columns(results)
    types, values = terms.columns(columns, pool)
    table = pl.DataFrame([series_of(c, t, pool).alias(n) for n, t, c in zip(names, types, values)])
    if ordered:
        return table
    ranks = pl.DataFrame([rank(c, t, pool).alias(n) for n, t, c in zip(names, types, values)])
    return table[ranks.select(pl.arg_sort_by(names))[names[0]].to_numpy()]


def has_order_by(sparql: str) -> bool:
    """Return True if a query has an ORDER BY for its whole result, which is after the query's last brace."""
    words = [token.text.lower() for token in tokens(sparql) if token.kind == "word" or token.text == "}"]
    return "}" in words and "order" in words[len(words) - words[::-1].index("}") :]
