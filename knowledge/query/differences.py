"""The answers to patterns that the last change of the knowledge removed, and the answers that it added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep.core.values import Ints, Pool
from cep.knowledge.query.few_keys import few_columns
from cep.knowledge.query.pattern_tables import PatternTable
from cep.knowledge.query.refreshed import Refreshed
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.runtime.knowledge_source import Answers, Fixed


@dataclass(frozen=True, slots=True)
class Difference:
    """The last change of the knowledge.

    - `tables`: the tables of patterns before the change.
    - `gone`, `new`: the removed and the added triples, including inferred ones.
    """

    tables: Mapping[Any, PatternTable | Refreshed | None]
    gone: TripleSet
    new: TripleSet


def of_triples(last: Difference, terms_given: Fixed, terms: Terms, pool: Pool) -> tuple[Answers, Answers]:
    """Return the triples that the last change removed and those that it added, if they have the terms `terms_given`. A
    term that is None accepts any term.

    The result has one column for each position that is None.
    """
    fixed = [None if term is None else terms.id_of(str(term)) for term in terms_given]
    wanted = [i for i, id in enumerate(fixed) if id is None]
    gone, new = (
        _answers(terms, [columns[i] for i in wanted], len(columns[0]), pool)
        for columns in (_matching(triples, fixed) for triples in (last.gone, last.new))
    )
    return gone, new


def _matching(triples: TripleSet, fixed: Sequence[int | None]) -> list[Ints]:
    fits = np.full(len(triples), NONE not in fixed)
    for column, id in zip(triples.columns, fixed):
        if id is not None:
            fits &= column == id
    return [column[fits] for column in triples.columns]


def changes_of_table(
    before: PatternTable | Refreshed | None, now: PatternTable | Refreshed, terms: Terms, pool: Pool
) -> tuple[Answers, Answers] | None:
    """Return the answers to a pattern that the last change removed and those that it added, or None if unknown.

    `before`, `now`: the pattern's table before and after the change.
    """
    if before is now:
        nothing = _nothing(len(now.variables))
        return nothing, nothing
    if before is None:
        return None
    if isinstance(now, Refreshed):
        width = len(now.variables)
        difference_rows = [
            _answers(
                now.terms, [np.array([row[i] for row in rows], dtype=np.int64) for i in range(width)], len(rows), pool
            )
            for rows in (now.gone, now.new)
        ]
        return difference_rows[0], difference_rows[1]
    assert isinstance(before, PatternTable), "a pattern of triples stays one"
    changed = [i for i, (old, new) in enumerate(zip(before.components, now.components)) if old is not new]
    if len(changed) != 1 or any(
        p.wanted or not p.bindings.rows for i, p in enumerate(now.components) if i != changed[0]
    ):
        return None
    piece = now.components[changed[0]]
    if piece.gone is None or piece.new is None or not piece.wanted:
        return None
    gone, new = (
        _answers(terms, [some.columns[name] for name in now.variables], some.rows, pool)
        for some in (piece.gone, piece.new)
    )
    return gone, new


def _nothing(width: int) -> Answers:
    return Answers(("any",) * width, (np.empty(0, dtype=np.int64),) * width, 0)


def _answers(terms: Terms, columns: Sequence[Ints], rows: int, pool: Pool) -> Answers:
    if not rows:
        return _nothing(len(columns))
    return Answers(*(few_columns(terms, columns, pool) or terms.columns(columns, pool)), rows)
