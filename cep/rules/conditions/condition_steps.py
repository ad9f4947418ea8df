"""The steps that evaluate a conjunction. A step filters a batch of rows, or adds columns to it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from cep.core.relation import Column
from cep.core.values import Ints
from cep.rules.conditions.relations import Mask, Probe
from cep.rules.expressions.evaluate import Columns, Evaluation, missing


@dataclass(slots=True)
class BoundRows:
    """The rows that remain after some steps.

    - `index`: for each remaining row, its number among the original rows. It is None if no row has been dropped.
    - `mask`: a filter that has not been applied yet, or None.
    - `ends`: for each original row, the end of its occurrence. It is None if the rows are not occurrences.
    """

    columns: dict[str, Column]
    rows: int
    index: Ints | None = None
    mask: Mask | None = None
    ends: Ints | None = None

    def ended(self) -> Ints | None:
        """For each remaining row, return the end of its occurrence. Return None if the rows are not occurrences."""
        return self.ends if self.ends is None or self.index is None else self.ends[self.index]

    def narrow(self, mask: Mask) -> None:
        self.mask = mask if self.mask is None else self.mask & mask

    def settle(self, live: Container[str]) -> None:
        """Drop the rows that the mask excludes. If rows are dropped, also drop the columns of variables that are not in
        `live`."""
        if self.mask is None:
            return
        kept = np.flatnonzero(self.mask)
        self.mask = None
        if len(kept) < self.rows:
            self.take(kept, live)

    def take(self, kept: Ints, live: Container[str]) -> None:
        self.columns = {name: column[kept] for name, column in self.columns.items() if name in live}
        self.index = kept if self.index is None else self.index[kept]
        self.rows = len(kept)


Step = Callable[[BoundRows], None]


@dataclass(frozen=True, slots=True)
class Live:
    """The set of variables that are still needed: those that occur in a condition from index `since` on, and those in
    `kept`.

    `last`: for each variable, the index of the last condition that uses it.
    """

    last: Mapping[str, int]
    since: int
    kept: Container[str]

    def __contains__(self, name: object) -> bool:
        return self.last.get(name, -1) >= self.since or name in self.kept  # type: ignore[call-overload]


class Answering(Protocol):
    """Conditions that can be evaluated on rows."""

    def answers(self, columns: Columns, rows: int) -> tuple[Ints, dict[str, Column]]:
        """Find the values of the variables that the conditions bind. Return the row number of each answer, and a column
        for each of these variables."""

    def holds(self, columns: Columns, rows: int) -> Mask:
        """Return a mask of the rows for which the conditions are true."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A predicate's argument that has a value before the predicate is evaluated.

    - `written`: a function that computes the value of the argument's expression. It is None if this value is missing
      in the same rows as the value of `fitted`, which can then be used instead.
    - `fitted`: a function that computes the value in the type of the relation's column. If the type cannot represent
      the value, the value is missing.
    """

    written: Evaluation | None
    type: str
    fitted: Evaluation
    fitted_type: str
    may_miss: bool
    given_may_miss: bool


def _bound(arguments: list[Argument], batch: BoundRows) -> tuple[list[Column], Mask | None]:
    """Evaluate the arguments of a predicate. Return a column per argument, and a mask of the rows whose values can
    occur in the relation. The mask is None if this is true of all rows."""
    columns: list[Column] = []
    fits: Mask | None = None
    for argument in arguments:
        column = argument.fitted(batch.columns, batch.rows)
        columns.append(column)
        if argument.may_miss:
            present = ~missing(column, argument.fitted_type)
            fits = present if fits is None else fits & present
    return columns, None if fits is None or fits.all() else fits


def semijoin(probe: Probe, arguments: list[Argument], negated: bool, needed: Live) -> Step:
    def run(batch: BoundRows) -> None:
        batch.settle(needed)
        columns, fits = _bound(arguments, batch)
        ends = batch.ended() if probe.timed else None
        if fits is None:
            matches = probe.holds(columns, batch.rows, ends)
        else:
            rows = np.flatnonzero(fits)
            matches = np.zeros(batch.rows, dtype=np.bool_)
            matches[rows] = probe.holds([c[rows] for c in columns], len(rows), None if ends is None else ends[rows])
        if not negated:
            batch.narrow(matches)
            return
        # A value that the relation cannot contain is not in it. It is unknown whether a missing value is in it.
        unmatched = ~matches
        for argument, column in zip(arguments, columns):
            if argument.written is not None:
                unmatched &= ~missing(argument.written(batch.columns, batch.rows), argument.type)
            elif argument.given_may_miss:
                unmatched &= ~missing(column, argument.type)
        batch.narrow(unmatched)

    return run


def join(probe: Probe, arguments: list[Argument], names: tuple[str, ...], needed: Live, live: Live) -> Step:
    def run(batch: BoundRows) -> None:
        batch.settle(needed)
        columns, fits = _bound(arguments, batch)
        ends = batch.ended() if probe.timed else None
        if fits is None:
            index, answers = probe.answers(columns, batch.rows, ends)
        else:
            rows = np.flatnonzero(fits)
            ends = None if ends is None else ends[rows]
            index, answers = probe.answers([column[rows] for column in columns], len(rows), ends)
            index = rows[index]
        batch.take(index, live)
        batch.columns.update(zip(names, answers))

    return run


def _seen(batch: BoundRows) -> dict[str, Column]:
    ends = batch.ended()
    return batch.columns if ends is None else {**batch.columns, "end()": ends}


def any_of(alternatives: Sequence[Answering], needed: Live) -> Step:
    """Return a step that keeps the rows for which at least one alternative holds.

    An alternative is evaluated only on the rows for which no earlier alternative holds.
    """

    def run(batch: BoundRows) -> None:
        batch.settle(needed)
        columns = _seen(batch)
        matches = np.zeros(batch.rows, dtype=np.bool_)
        for alternative in alternatives:
            rows = np.flatnonzero(~matches)
            if len(rows):
                matches[rows] = alternative.holds({name: column[rows] for name, column in columns.items()}, len(rows))
        batch.narrow(matches)

    return run


def union(
    alternatives: Sequence[tuple[Answering, Sequence[Evaluation]]],
    names: tuple[str, ...],
    needed: Live,
    live: Live,
) -> Step:
    """Return a step that replaces each row by one row per answer of any alternative, with the values that the
    alternative binds.

    The new rows have the order of the original rows. If several alternatives have the same answer for a row, it occurs
    once.
    """

    def run(batch: BoundRows) -> None:
        batch.settle(needed)
        columns = _seen(batch)
        places: list[Ints] = []
        branches: list[list[Column]] = []
        for alternative, converted in alternatives:
            index, binds = alternative.answers(columns, batch.rows)
            places.append(index)
            branches.append([evaluate(binds, len(index)) for evaluate in converted])
        index = np.concatenate(places)
        merged = [np.concatenate(parts) for parts in zip(*branches)]
        words = {f"{number}": column.view(np.int64) for number, column in enumerate([index, *merged])}
        first = pl.DataFrame(words).with_row_index("at").unique(list(words), keep="first", maintain_order=True)
        kept = first["at"].to_numpy().astype(np.int64)
        kept = kept[np.argsort(index[kept], kind="stable")]
        batch.take(index[kept], live)
        batch.columns.update(zip(names, (column[kept] for column in merged)))

    return run
