"""Transfer of lineage from one program to another, for events that have the same meaning in both.

A handle is a number that identifies an occurrence within one engine. When the lineage of two engines is combined, the
handles of the second engine are translated. Occurrences that both engines have get the first engine's handles. All
others get new handles.
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
"""A function that translates pool codes in tables, by event. It replaces the codes of a snapshot with the codes of the
engine that restores it."""


@dataclass(frozen=True, slots=True)
class PriorLineage:
    """The lineage in a snapshot.

    - `batches`: the output of `OccurrenceHistory.snapshot`.
    - `events`: the fingerprint of each event.
    - `heads`: the event that each rule derives.
    - `position`: the number of records that the engine has received.
    """

    batches: Sequence[pa.RecordBatch]
    events: Mapping[str, str]
    heads: Sequence[str]
    position: int

    def history(self, recode: Recode, events: Mapping[str, str], heads: Sequence[str]) -> OccurrenceHistory:
        """Return the history of the events that have the same meaning in another program.

        `events`, `heads`: the event fingerprints and the rule heads of that program. `recode`: converts pool codes.
        """
        occurrences = OccurrenceHistory(None)
        occurrences.take_on([*self.batches])
        for tables in (occurrences.sources, occurrences.derived, occurrences.transitions):
            for name in [name for name in tables if events.get(name) != self.events.get(name, "")]:
                del tables[name]
            whole = {name: concat(parts) for name, parts in tables.items() if parts}
            recode(whole)
            tables.update({name: [table] for name, table in whole.items()})
        occurrences.lineage.renumber(_rules(self.heads, heads))
        return occurrences


@dataclass(frozen=True, slots=True)
class OtherNames:
    """A translation of a second engine's handles to handles of the first engine.

    - `position`: the number of handles that the first engine has used for input records.
    - `derived`: the first engine's next handle for a derived occurrence.
    - `known`: the second engine's handles of occurrences that both engines have, sorted.
    - `here`: for each handle in `known`, the first engine's handle of the same occurrence.
    """

    position: int
    derived: int
    known: Ints
    here: Ints

    def __call__(self, names: Ints) -> Ints:
        moved = np.where(names >= DERIVED, names - DERIVED + self.derived, names + self.position)
        if len(self.known):
            places = np.minimum(np.searchsorted(self.known, names), len(self.known) - 1)
            moved = np.where(self.known[places] == names, self.here[places], moved)
        renamed: Ints = np.where(names > 0, moved, names)
        return renamed


def carry_lineage(
    history: OccurrenceHistory,
    before: PriorLineage,
    recode: Recode,
    events: Mapping[str, str],
    heads: Sequence[str],
    warm: tuple[PriorLineage, Recode] | None = None,
) -> tuple[Translation, int]:
    """Add the lineage of the snapshot `before` to `history`, and also that of the snapshot `warm`, if it is passed.

    Return a function that translates the handles of `warm`, and the number of records that the engines of both
    snapshots have received in total.

    `events`, `heads`: the fingerprint of each event and the head of each rule in the program that continues. `recode`:
    the translation of the pool codes of `before`; the second element of `warm` does the same for `warm`.
    """
    first = before.history(recode, events, heads)
    history.take_over(first)
    if warm is None:
        return _same, before.position
    second = warm[0].history(warm[1], events, heads)
    pairs = [_known(kind, other, first, second) for kind, other in zip(_kinds(first), _kinds(second))]
    both = np.concatenate(pairs, axis=1)
    both = both[:, np.argsort(both[0], kind="stable")]
    names = OtherNames(before.position, history.lineage.next, *map(np.ascontiguousarray, both))
    demand(before.position + warm[0].position < DERIVED)
    for tables, others in zip(_kinds(history), _kinds(second)):
        for name, runs in others.items():
            for run in runs:
                new = run.compress(~sorted_runs.holds(names.known, run[IDENTITY]), axis=1)
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
    """Return the handles of the occurrences that are in both sets of tables. The result has one column per occurrence:
    its handle in `others`, then its handle in `tables`.

    Two occurrences are the same if their input position, interval and arguments are equal, and also their rank among
    equal occurrences.

    `first`, `second`: the histories that contain `tables` and `others`.
    """
    name_pairs = [np.empty((2, 0), np.int64)]
    for event in sorted(name for name, runs in tables.items() if runs and others.get(name)):
        frame, other = _framed(concat(tables[event]), first), _framed(concat(others[event]), second)
        places = [name for name in frame.columns if name != _NAME]
        name_pairs.append(
            other.join(frame, on=places, how="inner", suffix="_here").select(_NAME, f"{_NAME}_here").to_numpy().T
        )
    pairs: Table = np.concatenate(name_pairs, axis=1)
    return pairs


_NAME = "name"


def _framed(table: Table, history: OccurrenceHistory) -> pl.DataFrame:
    columns = {_NAME if row == IDENTITY else str(row): table[row] for row in range(len(table))}
    frame = pl.DataFrame({**columns, "number": history.lineage.numbers_of(table[IDENTITY])}).sort(_NAME)
    return frame.with_columns(rank=pl.int_range(pl.len()).over([name for name in frame.columns if name != _NAME]))


def _rules(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Map the rule numbers of one program to those of another. `before`, `after`: the head event of each rule.

    For each event, the first rule of one program is mapped to the first rule of the other, and so on.
    """
    places: dict[str, list[int]] = {}
    for number, event in enumerate(after):
        places.setdefault(event, []).append(number)
    return {number: places[event].pop(0) for number, event in enumerate(before) if places.get(event)}
