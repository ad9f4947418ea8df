"""Lineage that goes from one program to another: what is remembered of events that mean the same in both.

Handles mean something in one engine only, so those of a second one get others here: what both know is called as the
first one calls it, all else goes on behind its names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.relation import IDENTITY, Table, concat
from cep.operators.goals import sorted_runs
from cep.operators.goals.contract import Ints, Translation, demand
from cep.operators.goals.lineage import DERIVED
from cep.runtime.history import OccurrenceHistory

Recode = Callable[[Mapping[str, Table]], None]
"""Puts the pool codes of an engine in the place of those of a snapshot, in tables by event."""


@dataclass(frozen=True, slots=True)
class PriorLineage:
    """Lineage in a snapshot. `batches`: as `OccurrenceHistory.snapshot` gives them; `events`: names for what events
    mean; `heads`: the event of each rule; `position`: how many records had come."""

    batches: Sequence[pa.RecordBatch]
    events: Mapping[str, str]
    heads: Sequence[str]
    position: int

    def history(self, recode: Recode, events: Mapping[str, str], heads: Sequence[str]) -> OccurrenceHistory:
        """Return the history of those events that mean the same in a program with these `events` and `heads`."""
        found = OccurrenceHistory(None)
        found.take_on([*self.batches])
        for tables in (found.sources, found.derived, found.transitions):
            for name in [name for name in tables if events.get(name) != self.events.get(name, "")]:
                del tables[name]
            whole = {name: concat(each) for name, each in tables.items() if each}
            recode(whole)
            tables.update({name: [table] for name, table in whole.items()})
        found.lineage.renumber(_rules(self.heads, heads))
        return found


@dataclass(frozen=True, slots=True)
class OtherNames:
    """Handles of a second engine as those of the first, which has given out names up to `position` and `derived`.
    `known`: names of the second one for what the first one knows, too, sorted; `here`: what that calls them."""

    position: int
    derived: int
    known: Ints
    here: Ints

    def __call__(self, names: Ints) -> Ints:
        moved = np.where(names >= DERIVED, names - DERIVED + self.derived, names + self.position)
        if len(self.known):
            places = np.minimum(np.searchsorted(self.known, names), len(self.known) - 1)
            moved = np.where(self.known[places] == names, self.here[places], moved)
        found: Ints = np.where(names > 0, moved, names)
        return found


def carry_lineage(
    history: OccurrenceHistory,
    before: PriorLineage,
    recode: Recode,
    events: Mapping[str, str],
    heads: Sequence[str],
    warm: tuple[PriorLineage, Recode] | None = None,
) -> tuple[Translation, int]:
    """Take on the lineage of a snapshot, and that of `warm`. Returns the handles of `warm` as those here, and how many
    records have come in both."""
    first = before.history(recode, events, heads)
    history.take_over(first)
    if warm is None:
        return _same, before.position
    second = warm[0].history(warm[1], events, heads)
    pairs = [_known(one, other, first, second) for one, other in zip(_kinds(first), _kinds(second))]
    both = np.concatenate(pairs, axis=1)
    both = both[:, np.argsort(both[0], kind="stable")]
    names = OtherNames(before.position, history.lineage.next, *map(np.ascontiguousarray, both))
    demand(before.position + warm[0].position < DERIVED)
    for tables, others in zip(_kinds(history), _kinds(second)):
        for name, runs in others.items():
            for run in runs:
                new = np.ascontiguousarray(run[:, ~sorted_runs.holds(names.known, run[IDENTITY])])
                new[IDENTITY] = names(new[IDENTITY])
                sorted_runs.put(tables.setdefault(name, []), new, IDENTITY)
    history.lineage.add(second.lineage, names, names.known)
    return names, before.position + warm[0].position


def _kinds(history: OccurrenceHistory) -> tuple[dict[str, list[Table]], ...]:
    return history.sources, history.derived, history.transitions


def _same(names: Ints) -> Ints:
    return names


def _known(
    tables: Mapping[str, Sequence[Table]],
    others: Mapping[str, Sequence[Table]],
    first: OccurrenceHistory,
    second: OccurrenceHistory,
) -> Table:
    """Pairs of names: of the other tables' occurrences that the first ones have, and of these. An occurrence is known
    by its number in the input, its interval, its arguments, and its number among equal ones."""
    found = [np.empty((2, 0), np.int64)]
    for event in sorted(name for name, runs in tables.items() if runs and others.get(name)):
        one, other = _framed(concat(tables[event]), first), _framed(concat(others[event]), second)
        places = [name for name in one.columns if name != _NAME]
        found.append(
            other.join(one, on=places, how="inner", suffix="_here").select(_NAME, f"{_NAME}_here").to_numpy().T
        )
    pairs: Table = np.concatenate(found, axis=1)
    return pairs


_NAME = "name"


def _framed(table: Table, history: OccurrenceHistory) -> pl.DataFrame:
    columns = {_NAME if row == IDENTITY else str(row): table[row] for row in range(len(table))}
    frame = pl.DataFrame({**columns, "number": history.lineage.numbers_of(table[IDENTITY])}).sort(_NAME)
    return frame.with_columns(rank=pl.int_range(pl.len()).over([name for name in frame.columns if name != _NAME]))


def _rules(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """The numbers of rules in one program as those in another: of an event that means the same, one after the other."""
    places: dict[str, list[int]] = {}
    for number, event in enumerate(after):
        places.setdefault(event, []).append(number)
    return {number: places[event].pop(0) for number, event in enumerate(before) if places.get(event)}
