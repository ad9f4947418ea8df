"""The late, corrected and withdrawn records of a server, and the changes that they caused, which `/why` reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import polars as pl

from cep.connectors.service import Round
from cep.core.identity import ID
from cep.core.relation import END, ORDER, Table, rows
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.explain.occurrences import Memory, Occurrence
from cep.explain.revisions import DerivedChange, InputChange, occurrence_of
from cep.runtime.history import BECAUSE
from cep.runtime.revision.row_window import RowChanges

MOST = 1 << 12
"""The least number of stored changes at which the oldest changes are removed."""


class LiveRevisions:
    """A listener that finds, for each change of a derived event, the input record that caused the change. The engine
    must revise results, and must have been created with `remember`.

    If a record that arrived in the same step is in the event's lineage, this record is the cause. Otherwise any record
    of the step may be the cause. For example, a record may have made a condition false.

    `late`, `replaced`: the late records and the corrections to report, by the number of the record that arrived.
    """

    def __init__(self, engine: Engine) -> None:
        assert engine.history is not None and engine.history.remember is not None, "the engine remembers"
        self.engine, self.remember = engine, engine.history.remember
        self.late: dict[int, InputChange] = {}
        self.replaced: dict[int, InputChange] = {}
        self._changes: dict[str, list[DerivedChange]] = {}
        self._memory = Memory(engine)
        self._came: list[InputChange] = []
        self._over = False  # the round of these changes has been processed
        self._before = engine.latest, engine.watermark
        self._look_at = MOST
        engine.follow_input(self._take)

    @property
    def reported(self) -> list[DerivedChange]:
        """All changes of derived events. The changes of each event are in the order in which they happened."""
        return [change for mine in self._changes.values() for change in mine]

    def changes(self, id: str) -> Sequence[DerivedChange]:
        """Return the changes of the derived event that has this `@id`."""
        return self._changes.get(id.removeprefix("@"), ())

    # --- what comes ---

    def _take(self, event: str, changes: RowChanges) -> None:
        if self._over:
            self._came, self._over = [], False
        self._note(list(self._input_changes(event, changes)))

    def _note(self, changes: Iterable[InputChange]) -> None:
        for change in changes:
            self._came.append(change)
            if change.kind == "late":
                self.late[change.record.order] = change
            elif change.now is not None:
                self.replaced[change.now.order] = change

    def _input_changes(self, event: str, changes: RowChanges) -> Iterator[InputChange]:
        key, latest = self.engine.plan.schemas[event].key_places, self._before[0]
        come = changes.coming[:, changes.coming[ORDER].argsort(kind="stable")]
        before = list(accumulate(come[END].tolist(), max, initial=latest))[:-1]
        late = come[END] < before if rows(come) else come[END] < 0
        ats = dict(zip(come[ORDER].tolist(), before, strict=True))  # the latest time of the input before each record
        now = {}
        if rows(changes.going) and key is not None:
            now = {_keyed(occurrence, key): occurrence for occurrence in self._memory.decoded(event, come, None)}
        for occurrence in self._occurrences(event, changes.going):
            other = now.get(_keyed(occurrence, key)) if key is not None else None
            if other is None:
                yield InputChange("withdrawn", occurrence, latest, -1)
            else:
                yield InputChange("corrected", occurrence, ats[other.order], other.order, other)
        for occurrence in self._occurrences(event, come[:, late]):
            yield InputChange("late", occurrence, ats[occurrence.order], occurrence.order)

    def _occurrences(self, event: str, table: Table) -> list[Occurrence]:
        return self._memory.decoded(event, table, None) if rows(table) else []

    # --- what that changes ---

    def take(self, step_round: Round) -> None:
        """Find the cause of each change of a derived event in a step of the engine."""
        if self._came and not step_round.ended:
            reasons = {_written(self.engine, record): change for change in self._came for record in _records(change)}
            rest = self._came[0] if len(self._came) == 1 else _first_of(self._came)
            for added, tables in ((False, step_round.withdrawn), (True, step_round.derived)):
                for name, table in tables.items():
                    self._note_changes(name, table, added, reasons, rest)
        self._over = True
        self._before = self.engine.latest, self.engine.watermark
        if len(self._changes) + len(self.late) + len(self.replaced) > self._look_at:
            self._forget(self.engine.watermark - self.remember)

    def _note_changes(
        self, name: str, table: pl.DataFrame, added: bool, reasons: dict[str, InputChange], rest: InputChange
    ) -> None:
        own = [attribute.name for attribute in self.engine.outputs[name].attributes]
        for row in table.iter_rows(named=True):
            end = row["start"] if row["end"] is None else row["end"]
            if added and (BEGINNING if end is None else end) > self._before[1] and row[ID] not in self._changes:
                continue  # it arrived in order
            because = row.get(BECAUSE) or "[]"
            mine = (reasons.get(json.dumps(load)) for load in json.loads(because)) if reasons else ()
            why = next(filter(None, mine), rest)
            instant = max(why.time, self._before[0])
            changes = self._changes.setdefault(row[ID], [])
            changes.append(DerivedChange(added, row[ID], occurrence_of(name, own, row), instant, why, because))

    def _forget(self, since: int) -> None:
        self._changes = {
            id: mine for id, mine in self._changes.items() if max(change.occurrence.end for change in mine) >= since
        }
        self.late = {order: change for order, change in self.late.items() if change.record.end >= since}
        self.replaced = {order: change for order, change in self.replaced.items() if change.record.end >= since}
        self._look_at = max(MOST, 2 * (len(self._changes) + len(self.late) + len(self.replaced)))


def _keyed(occurrence: Occurrence, key: Sequence[int]) -> tuple[Any, ...]:
    return occurrence.start, occurrence.end, *(occurrence.args[place] for place in key)


def _records(change: InputChange) -> Iterator[Occurrence]:
    yield change.record
    if change.now is not None:
        yield change.now


def _written(engine: Engine, record: Occurrence) -> str:
    names = (attribute.name for attribute in engine.plan.schemas[record.event].attributes)
    times = {"type": record.event, "start": record.start, "end": record.end}
    return json.dumps(times | dict(zip(names, record.args, strict=True)))


def _first_of(changes: Sequence[InputChange]) -> InputChange:
    first = min(changes, key=lambda change: (change.by, change.record.order))
    return InputChange(first.kind, first.record, first.time, first.by, first.now, len(changes))
