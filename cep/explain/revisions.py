"""Find the records that were late, corrected or withdrawn, and their effects on an event.

The engine processes each of these records separately, so that the cause of each effect is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import polars as pl

from cep.core.fluents import SINCE_EVER
from cep.core.identity import ID
from cep.core.relation import END, FIRST, ORDER, START, Table, contiguous, rows
from cep.core.schema import ARRIVAL, CHANGE
from cep.core.time import BEGINNING, END_OF_TIME
from cep.engine import Engine
from cep.events import Value
from cep.explain.occurrences import Occurrence
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Ints
from cep.runtime.decode import table_frame, values
from cep.runtime.revision.row_window import RowChanges, RowWindow

Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class InputChange:
    """A `record` that was late, corrected or withdrawn.

    - `time`: the latest time in the input when the change arrived, in microseconds.
    - `by`: the arrival number of the input record that caused the change.
    - `now`: the record after a correction.
    - `of`: the number of changes that arrived at the same time. If there are several, only the first of them is
      recorded, although any of them may be the cause.
    """

    kind: Literal["late", "withdrawn", "corrected"]
    record: Occurrence
    time: int
    by: int
    now: Occurrence | None = None
    of: int = 1


@dataclass(frozen=True, slots=True)
class DerivedChange:
    """A derived event that was added or withdrawn. `time`: the latest time in the input when the engine reported this.

    `why`: the cause of the change, or None if the event was derived in order. `because`: the lineage of the event.
    """

    added: bool
    id: str
    occurrence: Occurrence
    time: int
    why: InputChange | None
    because: str


class Revisions(Protocol):
    """Late, corrected and withdrawn records, and their effects.

    - `late`, `replaced`: the input changes, by the arrival number of the record that caused them.
    - `reported`: the changes of derived events.
    """

    @property
    def late(self) -> Mapping[int, InputChange]: ...

    @property
    def replaced(self) -> Mapping[int, InputChange]: ...

    @property
    def reported(self) -> Sequence[DerivedChange]: ...

    def changes(self, id: str, /) -> Sequence[DerivedChange]:
        """Return the changes of one derived event. `id`: the event's `@id`."""


@dataclass(slots=True)
class InputRevisions:
    """A collector of the changes that an engine reports when it revises results.

    - `event`: the derived event whose changes are kept, or None for all events.
    - `latest`: the latest time in the input.
    - `late`, `replaced`: the input changes, by the arrival number of the record that caused them.
    - `reported`: the changes of derived events.
    """

    engine: Engine
    event: str | None = None
    latest: int = BEGINNING
    late: dict[int, InputChange] = field(default_factory=dict)
    replaced: dict[int, InputChange] = field(default_factory=dict)
    reported: list[DerivedChange] = field(default_factory=list)
    _there: dict[str, RowWindow] = field(default_factory=dict)
    _why: InputChange | None = None
    _by: int = -1

    def __post_init__(self) -> None:
        self.engine.follow_input(self._take)

    def pieces(self, tables: Tables) -> Iterator[Tables]:
        """Split the tables of a batch into smaller batches, in the order of their records.

        A record that is late, or may correct or withdraw another record, gets a separate batch.
        """
        if not self.engine.withdraws:
            self.latest = max([self.latest, *(int(_ends(table).max()) for table in tables.values() if table.height)])
            yield tables
            return
        none = np.empty(0, np.int64)
        order = np.concatenate([none, *(table[ARRIVAL].to_numpy() for table in tables.values())])
        ends = np.concatenate([none, *map(_ends, tables.values())])
        alone = np.concatenate([none, *(self._alone(name, table) for name, table in tables.items())])
        way = np.argsort(order, kind="stable")
        order, ends, alone = order[way], ends[way], alone[way]
        before = np.maximum.accumulate(np.concatenate([[self.latest], ends]))
        single = (alone == 2) | (ends < before[:-1]) | ((alone == 1) & (ends == before[:-1]))
        cuts = np.flatnonzero(single[1:] | single[:-1]) + 1
        for piece in np.split(np.arange(len(order)), cuts):
            chosen = order[piece]
            self._why, self._by = None, int(chosen[0]) if len(chosen) else -1
            yield {name: part for name, table in tables.items() if (part := _those(table, chosen)).height}
            self.latest = max([self.latest, *(int(end) for end in ends[piece])])

    def take(self, derived: Mapping[str, pl.DataFrame]) -> None:
        """Process results that the engine returned. They are the results for the tables that `pieces` yielded last."""
        for name, table in derived.items():
            if (self.event is not None and name != self.event) or CHANGE not in table.columns:
                continue
            if name not in self.engine.outputs:  # the table of an alert
                continue
            own = [attribute.name for attribute in self.engine.outputs[name].attributes]
            for row in table.iter_rows(named=True):
                occurrence = occurrence_of(name, own, row)
                time = max(self.latest, occurrence.end) if self._why is None else self.latest
                self.reported.append(
                    DerivedChange(row[CHANGE] > 0, row[ID], occurrence, time, self._why, row.get("because", "[]"))
                )

    def corrected(self) -> Tables:
        """Return the input records that are valid after all corrections, sorted by their arrival numbers."""
        frames = {}
        for name, window in sorted(self._there.items()):
            table = by_arrival(contiguous(window.all()))
            frame = table_frame(table, self.engine.plan.schemas[name], self.engine.pool)
            frames[name] = frame.with_columns(pl.Series(ARRIVAL, table[ORDER]))
        return frames

    def changes(self, id: str) -> list[DerivedChange]:
        """Return the changes of one derived event. `id`: the event's `@id`."""
        return [change for change in self.reported if change.id == id.removeprefix("@")]

    def _take(self, event: str, changes: RowChanges) -> None:
        window = self._there.setdefault(event, RowWindow(len(changes.coming) - FIRST))
        window.drop(changes.going)
        window.add(changes.coming)
        coming, going = (self._occurrences(event, table) for table in (changes.coming, changes.going))
        if going:
            now = coming[0] if len(coming) == 1 else None
            kind: Literal["withdrawn", "corrected"] = "withdrawn" if now is None else "corrected"
            self._why = InputChange(kind, going[0], self.latest, self._by, now)
            if now is not None:
                self.replaced[now.order] = self._why
        if len(coming) == 1 and coming[0].end < self.latest:
            late = InputChange("late", coming[0], self.latest, self._by)
            self.late[coming[0].order] = late
            self._why = self._why or late

    def _occurrences(self, event: str, table: Table) -> list[Occurrence]:
        if rows(table) != 1:  # several records arrived in order, so there is nothing to report
            return []
        attributes = self.engine.plan.schemas[event].attributes
        args = tuple(values(table, i, attribute.type, self.engine.pool)[0] for i, attribute in enumerate(attributes))
        return [Occurrence(event, args, int(table[START, 0]), int(table[END, 0]), int(table[ORDER, 0]))]

    def _alone(self, name: str, table: pl.DataFrame) -> Ints:
        """Return a code for each row that says when the row must be processed in a separate batch:

        - 2: always
        - 1: if the row is late, or another row has the same time
        - 0: only if the row is late
        """
        keyed = int(self.engine.inputs[name].key is not None)
        if CHANGE not in table.columns:
            return np.full(table.height, keyed)
        return np.where(table[CHANGE].fill_null(1).to_numpy() < 0, 2, keyed)


def _ends(table: pl.DataFrame) -> Ints:
    return table["end" if "end" in table.columns else "time"].fill_null(BEGINNING).to_numpy()


def _those(table: pl.DataFrame, orders: Ints) -> pl.DataFrame:
    return table.filter(pl.col(ARRIVAL).is_between(int(orders[0]), int(orders[-1]))) if len(orders) else table.clear()


def occurrence_of(event: str, attributes: Sequence[str], row: Mapping[str, Any]) -> Occurrence:
    args: tuple[Value, ...] = tuple(row[name] for name in attributes)
    start, end = row["start"], row["end"]
    bounds = row.get("bounds") or ""
    start = SINCE_EVER if start is None else start
    return Occurrence(event, args, start, END_OF_TIME if end is None else end, bounds=bounds)
