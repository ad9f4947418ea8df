"""Solutions of SPARQL queries as columns of terms."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.values import Ints
from knowledge.namespaces import XSD
from knowledge.rdf.terms import NONE, Terms

_NUMBERS = (
    (r"^[+-]?[0-9]+$", "integer"),
    (r"^[+-]?[0-9]*\.[0-9]+$", "decimal"),
    (r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+$", "double"),
    ("^(?:true|false)$", "boolean"),
)


def columns(solutions: ox.QuerySolutions) -> tuple[Terms, list[Ints]]:
    """A column of ids for each variable, NONE where it is not bound, and the terms that they stand for.

    The terms have a dictionary of their own: what a query works out is not part of the knowledge.
    """
    terms, width = Terms(), len(solutions.variables)
    written = solutions.serialize(format=ox.QueryResultsFormat.TSV)
    assert written is not None, "without an output the text is given back"
    lines = pl.Series([written.decode().removesuffix("\n")]).str.split("\n").explode().slice(1)
    if width == 1:
        return terms, [_ids(lines, terms)]
    return terms, [_ids(field, terms) for field in lines.str.split_exact("\t", width - 1).struct.unnest()]


def _ids(tokens: pl.Series, terms: Terms) -> Ints:
    bound = tokens != ""
    ids: Ints = np.full(len(tokens), NONE, dtype=np.int64)
    ids[bound.to_numpy()] = terms.tokens(_in_full(tokens.filter(bound)))
    return ids


def _in_full(tokens: pl.Series) -> pl.Series:
    # Numbers and booleans are written short in TSV.
    if not tokens.str.contains(r'^[^<"_]').any():
        return tokens
    whole = pl.col("token")
    for form, name in _NUMBERS:
        typed = pl.format('"{}"^^<' + XSD + name + ">", pl.col("token"))
        whole = pl.when(pl.col("token").str.contains(form)).then(typed).otherwise(whole)
    return tokens.to_frame("token").select(whole).to_series()
