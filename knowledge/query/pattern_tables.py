"""The answers of a basic graph pattern as a table that follows the knowledge: only what a change touches is joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from cep.core.values import Ints
from knowledge.query import sparql
from knowledge.query.bindings import Bindings, EncodedPattern, solve
from knowledge.query.sparql import Constant
from knowledge.rdf.triples import Triples

Resolve = Callable[[Constant], int]
"""The id of a constant, NONE while the knowledge has no such term."""

_SINGLE = 64  # answers that come and go one by one
_LARGE = 8  # a change of more than one in so many triples: all is answered anew


@dataclass(frozen=True, slots=True)
class Component:
    """Triple patterns connected by variables, and the distinct bindings of those of them that are wanted."""

    patterns: tuple[sparql.TriplePattern, ...]
    wanted: tuple[str, ...]
    found: Bindings

    def solved(self, triples: Triples, resolve: Resolve, most: int) -> Component:
        """Answered anew."""
        return replace(self, found=solve(self.resolved(resolve), triples, self.wanted, most=most))

    def changed(
        self, before: Triples, after: Triples, added: Triples, removed: Triples, resolve: Resolve, most: int
    ) -> Component:
        """Answered for the triples `after` where it is for those `before`: without the removed, with the added."""
        patterns, wanted = self.resolved(resolve), self.wanted
        lost = self._touching(patterns, before, removed, most)
        won = self._touching(patterns, after, added, most)
        if not lost.rows and not won.rows:
            return self
        if not wanted:
            return self.solved(after, resolve, most)
        if lost.rows + won.rows <= _SINGLE:
            kept = solve(patterns, after, wanted, lost, most)
            return replace(self, found=_one_by_one(self.found, lost, kept, won, wanted))
        here, gone, new = (_frame(bindings, wanted) for bindings in (self.found, lost, won))
        still = _frame(solve(patterns, after, wanted, lost, most), wanted)
        here = here.join(gone.join(still, on=wanted, how="anti"), on=wanted, how="anti")
        here = pl.concat([here, new.join(here, on=wanted, how="anti")]).sort(wanted)
        return replace(self, found=Bindings({name: here[name].to_numpy() for name in wanted}, here.height))

    def _touching(self, patterns: Sequence[EncodedPattern], triples: Triples, few: Triples, most: int) -> Bindings:
        """The bindings that have at least one of a few triples in them."""
        parts: list[Bindings] = []
        for i, pattern in enumerate(patterns) if len(few) else ():
            fits = np.ones(len(few), dtype=np.bool_)
            for slot, column in zip(pattern, few.columns):
                if isinstance(slot, int):
                    fits &= column == slot
            if not fits.any():
                continue
            variables = [slot for slot in pattern if isinstance(slot, str)]
            start = solve([pattern], few, variables)
            if start.rows:
                others = [*patterns[:i], *patterns[i + 1 :]]
                parts.append(solve(others, triples, self.wanted, start, most))
        rows = sum(part.rows for part in parts)
        nothing: Ints = np.empty(0, dtype=np.int64)
        columns = {name: np.concatenate([nothing, *(part.columns[name] for part in parts)]) for name in self.wanted}
        return Bindings(columns, rows).distinct(self.wanted)

    def resolved(self, resolve: Resolve) -> list[EncodedPattern]:
        """The patterns with ids for their constants."""
        return [
            tuple(resolve(slot) if isinstance(slot, Constant) else slot for slot in pattern.slots)  # type: ignore[misc]
            for pattern in self.patterns
        ]


@dataclass(frozen=True, slots=True)
class PatternTable:
    """A basic pattern, answered component by component: its answers are every combination of theirs."""

    variables: tuple[str, ...]
    components: tuple[Component, ...]

    @property
    def rows(self) -> int:
        """The number of answers."""
        total = 1
        for component in self.components:
            total *= component.found.rows
        return total

    def columns(self) -> list[Ints]:
        """A column of ids for each of the variables."""
        total, every = self.rows, 1
        columns: dict[str, Ints] = {}
        if not total:
            return [np.empty(0, dtype=np.int64) for _ in self.variables]
        for component in self.components:
            # Each row of the earlier components with each of this one's.
            for name, column in component.found.columns.items():
                columns[name] = np.tile(np.repeat(column, total // (every * component.found.rows)), every)
            every *= component.found.rows
        return [columns[name] for name in self.variables]

    def changed(
        self, before: Triples, after: Triples, added: Triples, removed: Triples, resolve: Resolve, most: int
    ) -> PatternTable:
        """The same pattern for other triples, see Component.changed. Raises TooLarge."""
        if (len(added) + len(removed)) * _LARGE > len(after):
            components = tuple(component.solved(after, resolve, most) for component in self.components)
        else:
            components = tuple(
                component.changed(before, after, added, removed, resolve, most) for component in self.components
            )
        same = all(new is old for new, old in zip(components, self.components))
        return self if same else replace(self, components=components)


def pattern_table(
    patterns: Sequence[sparql.TriplePattern], variables: tuple[str, ...], triples: Triples, resolve: Resolve, most: int
) -> PatternTable:
    """The answers of a basic pattern. Raises TooLarge."""
    components = [
        Component(group, tuple(name for name in variables if any(name in p.variables for p in group)), Bindings({}, 0))
        for group in _connected(patterns)
    ]
    return PatternTable(variables, tuple(component.solved(triples, resolve, most) for component in components))


def _connected(patterns: Sequence[sparql.TriplePattern]) -> list[tuple[sparql.TriplePattern, ...]]:
    """Patterns that share variables, directly or by others, in the order in which they are written."""
    groups: list[list[int]] = []
    for i, pattern in enumerate(patterns):
        touching = [g for g in groups if any(set(patterns[j].variables) & set(pattern.variables) for j in g)]
        groups = [g for g in groups if g not in touching]
        groups.append(sorted([i, *(j for g in touching for j in g)]))
    return [tuple(patterns[i] for i in group) for group in sorted(groups)]


def _one_by_one(here: Bindings, gone: Bindings, still: Bindings, new: Bindings, names: Sequence[str]) -> Bindings:
    """Bindings without some that are gone and not still there, and with new ones; sorted as they are."""
    columns = [here.columns[name] for name in names]
    kept = {tuple(row) for row in zip(*(still.columns[name].tolist() for name in names))}
    for row in zip(*(gone.columns[name].tolist() for name in names)):
        start, stop = _stretch(columns, row)
        if stop > start and row not in kept:
            columns = [np.delete(column, start) for column in columns]
    for row in zip(*(new.columns[name].tolist() for name in names)):
        start, stop = _stretch(columns, row)
        if stop == start:
            columns = [np.insert(column, start, value) for column, value in zip(columns, row)]
    return Bindings(dict(zip(names, columns)), len(columns[0]))


def _stretch(columns: Sequence[Ints], row: Sequence[int]) -> tuple[int, int]:
    """Where a row lies, or would lie, in sorted ones."""
    start, stop = 0, len(columns[0])
    for column, value in zip(columns, row):
        within = column[start:stop]
        low, high = (int(np.searchsorted(within, value, side)) for side in ("left", "right"))
        start, stop = start + low, start + high
    return start, stop


def _frame(bindings: Bindings, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({name: bindings.columns[name] for name in names})
