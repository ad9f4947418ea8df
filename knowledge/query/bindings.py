"""Evaluation of basic graph patterns as joins of columns with sorted indexes, the smallest join first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import polars as pl

from cep.core.values import Ints
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.rdf.triples import TripleSet, expand

VarOrId = str | int
"""The name of a variable, or the id of a term. The id of a term that the knowledge lacks is NONE."""
EncodedPattern = tuple[VarOrId, VarOrId, VarOrId]

_SAMPLE = 512  # the rows of a sample to estimate the size of a join
_SMALL = 4096  # the maximum number of rows to sort here


class TooLarge(Exception):
    """The error for a join whose result would be too large. `rows`: the number of rows that it would have."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows of ids, with one column for each variable."""

    columns: Mapping[str, Ints]
    rows: int

    def distinct(self, names: Collection[str]) -> Bindings:
        """Return the distinct rows of the columns `names`, sorted."""
        if not names:
            return Bindings({}, min(self.rows, 1))
        if self.rows <= _SMALL:
            order = np.lexsort([self.columns[name] for name in reversed(list(names))])
            sorted = {name: self.columns[name][order] for name in names}
            first = np.zeros(self.rows, dtype=np.bool_)
            first[:1] = True
            for column in sorted.values():
                first[1:] |= column[1:] != column[:-1]
            return Bindings({name: column[first] for name, column in sorted.items()}, int(first.sum()))
        frame = pl.DataFrame({name: self.columns[name] for name in names})
        frame = frame.unique().sort(frame.columns)
        return Bindings({name: frame[name].to_numpy() for name in names}, frame.height)


ONE = Bindings({}, 1)


def solve(
    patterns: Sequence[EncodedPattern],
    triples: TripleSet,
    wanted: Collection[str],
    start: Bindings = ONE,
    most: int = 2**62,
) -> Bindings:
    """Return the distinct bindings of the variables `wanted` for which all patterns match triples.

    `start`: bindings of some variables, which the result extends. Raises TooLarge if a table exceeds `most` cells.
    """
    left = list(patterns)
    answers = start
    while left and answers.rows:
        best = next((i for i, pattern in enumerate(left) if _is_bound(pattern, answers)), -1 if len(left) > 1 else 0)
        if best < 0:
            best = min(range(len(left)), key=lambda i: (_apart(left[i], answers), _guess(left[i], triples, answers), i))
        pattern = left.pop(best)
        needed = {*wanted, *(slot for other in left for slot in other if isinstance(slot, str))}
        answers = _joined(pattern, triples, answers, needed, most)
    if not answers.rows:
        return Bindings({name: np.empty(0, dtype=np.int64) for name in wanted}, 0)
    return answers.distinct(wanted)


def _is_bound(pattern: EncodedPattern, bindings: Bindings) -> bool:
    # Return True if a pattern has no new variable, so it only removes rows.
    return all(isinstance(slot, int) or slot in bindings.columns for slot in pattern)


def _apart(pattern: EncodedPattern, bindings: Bindings) -> bool:
    # Return True if a pattern shares no variable with the bindings; such patterns come last.
    return bool(bindings.columns) and not any(slot in bindings.columns for slot in pattern)


def _keys(pattern: EncodedPattern, bindings: Bindings, rows: Ints | slice) -> list[Ints | None]:
    count = bindings.rows if isinstance(rows, slice) else len(rows)
    return [
        np.full(count, slot, dtype=np.int64)
        if isinstance(slot, int)
        else (bindings.columns[slot][rows] if slot in bindings.columns else None)
        for slot in pattern
    ]


def _guess(pattern: EncodedPattern, triples: TripleSet, bindings: Bindings) -> float:
    if NONE in pattern:
        return 0
    rows: Ints = np.arange(bindings.rows, dtype=np.int64)
    if bindings.rows > _SAMPLE:
        rows = np.unique(np.linspace(0, bindings.rows - 1, _SAMPLE).astype(np.int64))
    keys = _keys(pattern, bindings, rows)
    if all(key is None for key in keys):
        return float(bindings.rows) * len(triples)
    return float(triples.counts(*keys).sum()) * bindings.rows / len(rows)


def _joined(pattern: EncodedPattern, triples: TripleSet, bindings: Bindings, needed: Set[str], most: int) -> Bindings:
    """Join the bindings with one more pattern. The result contains only the columns `needed`.

    If this drops a column, only distinct rows are kept.
    """
    if NONE in pattern:
        return Bindings({}, 0)
    keys = _keys(pattern, bindings, slice(None))
    free = all(key is None for key in keys)
    counts: Ints = np.full(bindings.rows, len(triples), dtype=np.int64) if free else triples.counts(*keys)
    names = [name for name in bindings.columns if name in needed]
    new = [slot for slot, key in zip(pattern, keys) if isinstance(slot, str) and key is None]
    if len(set(new)) == len(new) and not needed & set(new):  # it only matters if a triple exists
        matching = np.flatnonzero(counts > 0)
        some = Bindings({name: bindings.columns[name][matching] for name in names}, len(matching))
        return some if len(names) == len(bindings.columns) else some.distinct(names)
    total = int(counts.sum())
    if total * len({*names, *new} & needed) > most:
        raise TooLarge(total)
    if free:
        index, rows = expand(np.zeros_like(counts), counts)
        every = triples.columns[0][rows], triples.columns[1][rows], triples.columns[2][rows]
    else:
        index, every = triples.found(*keys)
    columns = {name: bindings.columns[name][index] for name in names}
    same = np.ones(total, dtype=np.bool_)
    for slot, key, column in zip(pattern, keys, every):
        if key is None and isinstance(slot, str):
            if slot in columns:  # a variable that appears twice in the pattern
                same &= columns[slot] == column
            elif slot in needed or new.count(slot) > 1:
                columns[slot] = column
    if not same.all():
        columns = {name: column[same] for name, column in columns.items()}
    some = Bindings(columns, int(same.sum()))
    kept = [name for name in columns if name in needed]
    return some if len(kept) == len({*bindings.columns, *new}) else some.distinct(kept)
