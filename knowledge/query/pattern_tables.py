"""The answers to a basic graph pattern, as a table. After a change of the knowledge, only the parts of the pattern
whose triples have changed are joined again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.values import Ints
from cep.knowledge.query import sparql
from cep.knowledge.query.bindings import Bindings, EncodedPattern, solve
from cep.knowledge.query.sparql import ConstantTerm
from cep.knowledge.rdf.triples import TripleColumns, TripleSet

Row = tuple[int, ...]
Resolve = Callable[[ConstantTerm], int]
"""A function that returns the id of a constant. It returns NONE if the knowledge lacks the term."""

_SINGLE = 64  # the maximum number of answers to add and remove one by one
_LARGE = 8  # evaluate all anew if a change has more than one in this many triples


@dataclass(frozen=True, slots=True)
class PatternComponent:
    """Triple patterns that are connected by variables, and their answers.

    - `wanted`: the variables whose values are needed.
    - `bindings`: the distinct bindings of these variables.
    - `gone`, `new`: the bindings that the last change removed, and those that it added. They are None if they are
      unknown.
    """

    patterns: tuple[sparql.TriplePattern, ...]
    wanted: tuple[str, ...]
    bindings: Bindings
    gone: Bindings | None = None
    new: Bindings | None = None

    def solved(self, triples: TripleSet, resolve: Resolve, most: int) -> PatternComponent:
        """Evaluate the patterns anew. Return the component with the new bindings."""
        bindings = solve(self.resolved(resolve), triples, self.wanted, most=most)
        return replace(self, bindings=bindings, gone=None, new=None)

    def changed(
        self, before: TripleSet, after: TripleSet, added: TripleSet, removed: TripleSet, resolve: Resolve, most: int
    ) -> PatternComponent:
        """Update the bindings after a change of the knowledge. Return the updated component.

        `before`, `after`: all triples before and after the change. `added`, `removed`: the triples that differ.
        """
        patterns, wanted = self.resolved(resolve), self.wanted
        lost = touching(patterns, before, removed, wanted, most)
        won = touching(patterns, after, added, wanted, most)
        if not lost.rows and not won.rows:
            return self
        if not wanted:
            return self.solved(after, resolve, most)
        if lost.rows + won.rows <= _SINGLE:
            kept = solve(patterns, after, wanted, lost, most)
            remaining, gone, new = _one_by_one(self.bindings, lost, kept, won, wanted)
            return replace(self, bindings=remaining, gone=gone, new=new)
        here, went, arrived = (_frame(bindings, wanted) for bindings in (self.bindings, lost, won))
        still = _frame(solve(patterns, after, wanted, lost, most), wanted)
        went = went.join(still, on=wanted, how="anti").join(here, on=wanted, how="semi")
        arrived = arrived.join(here, on=wanted, how="anti")
        here = pl.concat([here.join(went, on=wanted, how="anti"), arrived]).sort(wanted)
        return replace(self, bindings=_bindings(here), gone=_bindings(went), new=_bindings(arrived))

    def resolved(self, resolve: Resolve) -> list[EncodedPattern]:
        """Return the patterns with constants replaced by their ids."""
        return [
            tuple(resolve(slot) if isinstance(slot, ConstantTerm) else slot for slot in pattern.slots)  # type: ignore[misc]
            for pattern in self.patterns
        ]


@dataclass(frozen=True, slots=True)
class PatternTable:
    """A basic graph pattern, split into components that share no variable. Each combination of answers to the
    components is an answer."""

    variables: tuple[str, ...]
    components: tuple[PatternComponent, ...]

    @property
    def rows(self) -> int:
        total = 1
        for component in self.components:
            total *= component.bindings.rows
        return total

    def columns(self) -> list[Ints]:
        """Return one column of ids for each variable."""
        total, every = self.rows, 1
        columns: dict[str, Ints] = {}
        if not total:
            return [np.empty(0, dtype=np.int64) for _ in self.variables]
        for component in self.components:
            # Combine each row of the earlier components with each row of this one.
            for name, column in component.bindings.columns.items():
                columns[name] = np.tile(np.repeat(column, total // (every * component.bindings.rows)), every)
            every *= component.bindings.rows
        return [columns[name] for name in self.variables]

    def changed(
        self, before: TripleSet, after: TripleSet, added: TripleSet, removed: TripleSet, resolve: Resolve, most: int
    ) -> PatternTable:
        """Update the table after a change of the knowledge. Return the updated table.

        `before`, `after`: all triples before and after the change. `added`, `removed`: the triples that differ. Raises
        TooLarge if a component would have more than `most` cells.
        """
        if (len(added) + len(removed)) * _LARGE > len(after):
            components = tuple(component.solved(after, resolve, most) for component in self.components)
        else:
            components = tuple(
                component.changed(before, after, added, removed, resolve, most) for component in self.components
            )
        same = all(new is old for new, old in zip(components, self.components))
        return self if same else replace(self, components=components)


def pattern_table(
    patterns: Sequence[sparql.TriplePattern],
    variables: tuple[str, ...],
    triples: TripleSet,
    resolve: Resolve,
    most: int,
) -> PatternTable:
    """Evaluate a basic graph pattern to a table. Raises TooLarge if a component would have more than `most` cells."""
    components = [
        PatternComponent(
            group, tuple(name for name in variables if any(name in p.variables for p in group)), Bindings({}, 0)
        )
        for group in _connected(patterns)
    ]
    return PatternTable(variables, tuple(component.solved(triples, resolve, most) for component in components))


def touching(
    patterns: Sequence[EncodedPattern],
    triples: TripleSet,
    few: TripleSet,
    wanted: Sequence[str],
    most: int,
    last: int = 1 << 30,
) -> Bindings:
    """Return the bindings for which all patterns match in `triples`.

    At least one of the first `last` patterns must also match in `few`.
    """
    parts: list[Bindings] = []
    for i, pattern in enumerate(patterns) if len(few) else ():
        fits = np.full(len(few), i < last)
        for slot, column in zip(pattern, few.columns):
            if isinstance(slot, int):
                fits &= column == slot
        if not fits.any():
            continue
        start = _of_few(pattern, few.columns, fits)
        if start.rows:
            others = [*patterns[:i], *patterns[i + 1 :]]
            parts.append(solve(others, triples, wanted, start, most))
    rows = sum(part.rows for part in parts)
    nothing: Ints = np.empty(0, dtype=np.int64)
    columns = {name: np.concatenate([nothing, *(part.columns[name] for part in parts)]) for name in wanted}
    return Bindings(columns, rows).distinct(wanted)


def _of_few(pattern: EncodedPattern, columns: TripleColumns, fits: NDArray[np.bool_]) -> Bindings:
    """Return the bindings for which a pattern matches one of the triples that `fits` selects in `columns`."""
    by_name: dict[str, Ints] = {}
    for slot, column in zip(pattern, columns):
        if isinstance(slot, str) and slot in by_name:
            fits = fits & (by_name[slot] == column)
        elif isinstance(slot, str):
            by_name[slot] = column
    rows = np.flatnonzero(fits)
    return Bindings({name: column[rows] for name, column in by_name.items()}, len(rows)).distinct(list(by_name))


def _connected(patterns: Sequence[sparql.TriplePattern]) -> list[tuple[sparql.TriplePattern, ...]]:
    groups: list[list[int]] = []
    for i, pattern in enumerate(patterns):
        touching = [g for g in groups if any(set(patterns[j].variables) & set(pattern.variables) for j in g)]
        groups = [g for g in groups if g not in touching]
        groups.append(sorted([i, *(j for g in touching for j in g)]))
    return [tuple(patterns[i] for i in group) for group in sorted(groups)]


def _one_by_one(
    here: Bindings, gone: Bindings, still: Bindings, new: Bindings, names: Sequence[str]
) -> tuple[Bindings, Bindings, Bindings]:
    """Update the sorted bindings `here`. Remove the rows of `gone` that are not in `still`, and add the rows of `new`.

    Return the new bindings, the rows that were really removed, and the rows that were really added.
    """
    kept = set(rows_of(still, names))
    columns = [here.columns[name] for name in names]
    went = [row for row in rows_of(gone, names) if row not in kept and contains(columns, row)]
    arrived = [row for row in rows_of(new, names) if not contains(columns, row)]
    return of_rows(edited(columns, went, arrived), names), _few(went, names), _few(arrived, names)


def edited(columns: Sequence[Ints], gone: Sequence[Row], new: Sequence[Row]) -> list[Ints]:
    """Remove the rows `gone` from sorted rows, and insert the rows `new`. All rows in `gone` must exist."""
    edited_columns = list(columns)
    for row in gone:
        start, _ = stretch_of(edited_columns, row)
        edited_columns = [np.delete(column, start) for column in edited_columns]
    for row in new:
        start, _ = stretch_of(edited_columns, row)
        edited_columns = [np.insert(column, start, value) for column, value in zip(edited_columns, row)]
    return edited_columns


def rows_of(bindings: Bindings, names: Sequence[str]) -> list[Row]:
    return list(zip(*(bindings.columns[name].tolist() for name in names)))


def of_rows(columns: Sequence[Ints], names: Sequence[str]) -> Bindings:
    return Bindings(dict(zip(names, columns)), len(columns[0]))


def _few(rows: Sequence[Row], names: Sequence[str]) -> Bindings:
    return of_rows([np.array([row[i] for row in rows], dtype=np.int64) for i in range(len(names))], names)


def contains(columns: Sequence[Ints], row: Row) -> bool:
    start, stop = stretch_of(columns, row)
    return stop > start


def stretch_of(columns: Sequence[Ints], row: Row) -> tuple[int, int]:
    """Return the range of the sorted rows that begin with the values `row`, which may be fewer than there are columns.
    The range may be empty."""
    start, stop = 0, len(columns[0])
    for column, value in zip(columns, row):
        within = column[start:stop]
        start, stop = start + int(within.searchsorted(value)), start + int(within.searchsorted(value, "right"))
    return start, stop


def _frame(bindings: Bindings, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({name: bindings.columns[name] for name in names})


def _bindings(frame: pl.DataFrame) -> Bindings:
    return Bindings({name: frame[name].to_numpy() for name in frame.columns}, frame.height)
