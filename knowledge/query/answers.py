"""Conversion of answers from term ids to the engine's values. The resulting rows are distinct and sorted by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cep.core.values import Ints, Pool
from cep.knowledge.query.valid_time import ValidTimeRows
from cep.knowledge.rdf.terms import Terms
from cep.rules.expressions.value_order import rank as rank
from cep.rules.static.materialized import Column
from cep.runtime.knowledge_source import Answers, Spanned


@dataclass(slots=True)
class PreviousAnswers:
    """The last answers to a pattern.

    `columns`: the ids, the type, the values and the ranks of each column. If a change of the knowledge leaves the ids
    of a column unchanged, the other three are used again.
    """

    generation: int = -1
    columns: dict[int, tuple[Ints, str, Column, pl.Series]] = field(default_factory=dict)


def answered(
    terms: Terms, columns: Sequence[Ints], rows: int, pool: Pool, before: PreviousAnswers | None = None
) -> Answers:
    """Convert rows of ids to distinct rows of values, sorted by the first column, then by the second, and so on.

    Missing values come first. Then come numbers and times by size, booleans, strings, and IRIs as texts. So the order
    depends only on the values.
    """
    if not columns:
        return Answers((), (), min(rows, 1))
    before = before or PreviousAnswers()
    known = before.columns if before.generation == pool.generation else {}
    every: dict[int, tuple[Ints, str, Column, pl.Series]] = {}
    for i, ids in enumerate(columns):
        if i in known and np.array_equal(known[i][0], ids):
            every[i] = known[i]
        else:
            (type,), (column,) = terms.columns([ids], pool)
            every[i] = ids, type, column, rank(column, type, pool)
    before.generation, before.columns = pool.generation, every
    types, values = tuple(entry[1] for entry in every.values()), tuple(entry[2] for entry in every.values())
    frame = pl.DataFrame([entry[3].alias(f"{i}") for i, entry in every.items()])
    order = frame.with_row_index("row").unique(frame.columns, keep="any").sort(frame.columns)["row"].to_numpy()
    return Answers(types, tuple(column[order] for column in values), len(order))


def spanned(terms: Terms, spans: ValidTimeRows, pool: Pool) -> Spanned:
    """Convert rows of ids with valid times to rows of values with valid times, sorted as by `answered`."""
    types, values = terms.columns(spans.columns, pool)
    ranks = tuple(rank(column, type, pool).to_numpy() for type, column in zip(types, values))
    united, first = ValidTimeRows(ranks, spans.since, spans.until).united()
    return Spanned(Answers(types, tuple(column[first] for column in values), united.rows), united.since, united.until)
