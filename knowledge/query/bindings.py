"""Evaluation of basic graph patterns: triples are joined column by column, smallest first, each by a sorted index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import polars as pl

from cep.core.values import Ints
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.rdf.triples import TripleSet, expand

VarOrId = str | int
"""A variable, or the id of a term; NONE for a term that the knowledge lacks."""
EncodedPattern = tuple[VarOrId, VarOrId, VarOrId]

_SAMPLE = 512  # the rows of a sample to estimate the size of a join
_SMALL = 4096  # the maximum number of rows to sort here


class TooLarge(Exception):
    """An error for a join that would have `rows` rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows of ids, a column for each variable."""

    columns: Mapping[str, Ints]
    rows: int

    def distinct(self, names: Collection[str]) -> Bindings:
        """Return the distinct rows of these columns, sorted."""
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
    """Return the distinct bindings of the wanted variables for which all patterns are in the triples.

    `start`: bindings of some variables. Raise TooLarge instead of building a table of more than `most` cells.
    """
    left = list(patterns)
    found = start
    while left and found.rows:
        best = next((i for i, pattern in enumerate(left) if _is_bound(pattern, found)), -1 if len(left) > 1 else 0)
        if best < 0:
            best = min(range(len(left)), key=lambda i: (_apart(left[i], found), _guess(left[i], triples, found), i))
        pattern = left.pop(best)
        needed = {*wanted, *(slot for other in left for slot in other if isinstance(slot, str))}
        found = _joined(pattern, triples, found, needed, most)
    if not found.rows:
        return Bindings({name: np.empty(0, dtype=np.int64) for name in wanted}, 0)
    return found.distinct(wanted)


def _is_bound(pattern: EncodedPattern, found: Bindings) -> bool:
    # Return True if a pattern has no new variable, so it only removes rows.
    return all(isinstance(slot, int) or slot in found.columns for slot in pattern)


def _apart(pattern: EncodedPattern, found: Bindings) -> bool:
    # Return True if a pattern shares no variable with the bindings; such patterns come last.
    return bool(found.columns) and not any(slot in found.columns for slot in pattern)


def _keys(pattern: EncodedPattern, found: Bindings, rows: Ints | slice) -> list[Ints | None]:
    count = found.rows if isinstance(rows, slice) else len(rows)
    return [
        np.full(count, slot, dtype=np.int64)
        if isinstance(slot, int)
        else (found.columns[slot][rows] if slot in found.columns else None)
        for slot in pattern
    ]


def _guess(pattern: EncodedPattern, triples: TripleSet, found: Bindings) -> float:
    if NONE in pattern:
        return 0
    rows: Ints = np.arange(found.rows, dtype=np.int64)
    if found.rows > _SAMPLE:
        rows = np.unique(np.linspace(0, found.rows - 1, _SAMPLE).astype(np.int64))
    keys = _keys(pattern, found, rows)
    if all(key is None for key in keys):
        return float(found.rows) * len(triples)
    return float(triples.counts(*keys).sum()) * found.rows / len(rows)


def _joined(pattern: EncodedPattern, triples: TripleSet, found: Bindings, needed: Set[str], most: int) -> Bindings:
    """Join the bindings with a pattern. Keep the needed columns, and only distinct rows if others were dropped."""
    if NONE in pattern:
        return Bindings({}, 0)
    keys = _keys(pattern, found, slice(None))
    free = all(key is None for key in keys)
    counts: Ints = np.full(found.rows, len(triples), dtype=np.int64) if free else triples.counts(*keys)
    names = [name for name in found.columns if name in needed]
    new = [slot for slot, key in zip(pattern, keys) if isinstance(slot, str) and key is None]
    if len(set(new)) == len(new) and not needed & set(new):  # it only matters if a triple exists
        there = np.flatnonzero(counts > 0)
        some = Bindings({name: found.columns[name][there] for name in names}, len(there))
        return some if len(names) == len(found.columns) else some.distinct(names)
    total = int(counts.sum())
    if total * len({*names, *new} & needed) > most:
        raise TooLarge(total)
    if free:
        index, rows = expand(np.zeros_like(counts), counts)
        every = triples.columns[0][rows], triples.columns[1][rows], triples.columns[2][rows]
    else:
        index, every = triples.found(*keys)
    columns = {name: found.columns[name][index] for name in names}
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
    return some if len(kept) == len({*found.columns, *new}) else some.distinct(kept)
