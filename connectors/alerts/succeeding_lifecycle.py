"""The lifecycle of alerts after the program was replaced, while occurrences of both programs may still change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, AlertOccurrence, resolved
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.rules.alert import Alert
from cep.succession import FORMER


class SucceedingLifecycle(AlertLifecycle):
    """The alerts of two programs. The former program applies up to the time `since`, and the current one after it.

    At `since`, alerts that have the same meaning in both programs continue. Other alerts of the former program are
    withdrawn. If a new alert is on a fluent that holds at `since`, the alert begins at this time. Alerts that exist
    only in the former program have indices after those of the current program.
    """

    def __init__(self, engine: Engine, former: Engine, since: int, free: Callable[[str, int], int | None]) -> None:
        schemas, read, meanings = described(engine)
        super().__init__(engine.alerts, schemas, read, meanings, free=free)
        own, (old_schemas, old_read, old_meanings) = self.prints, described(former)
        theirs = AlertLifecycle(former.alerts, old_schemas, old_read, old_meanings)
        same = dict(zip(theirs.prints, theirs.alerts))
        self._count = len(own)
        self._new = {number for number, which in enumerate(own) if which not in same}
        self._gone = [alert for which, alert in same.items() if which not in own]
        alike = [same.get(which, alert) for which, alert in zip(own, self.alerts)]
        both = {**schemas, **old_schemas}, old_read, {**meanings, **old_meanings}
        self._former = AlertLifecycle([*alike, *self._gone], *both, free=free)
        self._former.unplaced = self.unplaced
        self.prints = [*own, *self._former.prints[self._count :]]
        self.since = since

    @property
    def statements(self) -> Sequence[Alert]:
        """The ALERT statements of both programs. Those of the current program come last."""
        return [*self._gone, *self.alerts]

    def told_of(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame, bool]]:
        yield from super().told_of(tables)
        theirs = {name.removeprefix(FORMER): table for name, table in tables.items() if name.startswith(FORMER)}
        yield from (told for told in self._former.told_of(theirs) if told[0] >= self._count)

    def occurrences(self, number: int, table: pl.DataFrame, over: bool = False) -> list[AlertOccurrence]:
        if number < self._count:
            return super().occurrences(number, table, over)
        return self._former.occurrences(number, table, over)

    def due_for(self, number: int, change: AlertChange, turned: bool) -> int | None:
        """Return the time at which an open alert changes without a new occurrence. The alert may also change because
        the program is replaced."""
        if turned:
            return self.due(change)
        due = self._former.due(change)
        if due is not None and due <= self.since:
            return due
        return self.since if number >= self._count else self.due(change)

    def first_final(self, number: int) -> int:
        return self.since if number in self._new else BEGINNING

    def go_through(
        self,
        number: int,
        base: AlertChange | None,
        occurrences: list[AlertOccurrence],
        row: Callable[[AlertOccurrence], Mapping[str, Any]],
        watermark: int,
        turned: bool,
    ) -> list[AlertChange]:
        """Return the changes of one key of an alert. Up to `since`, the former program determines the changes. After
        this time, the current program does.

        The parameters are those of `AlertLifecycle.go_through`.
        """
        if turned:
            return super().go_through(number, base, occurrences, row, watermark, turned)
        early = [occurrence for occurrence in occurrences if occurrence.end <= self.since]
        late = [occurrence for occurrence in occurrences if occurrence.end > self.since]
        if number in self._new:
            over = {occurrence.interval for occurrence in early if occurrence.over}
            holding = [occurrence for occurrence in early if not occurrence.over and occurrence.interval not in over]
            begun = [replace(occurrence, start=self.since, end=self.since) for occurrence in holding]
            whole = {id(cut): occurrence for cut, occurrence in zip(begun, holding)}

            def values(occurrence: AlertOccurrence) -> Mapping[str, Any]:
                return {**row(whole.get(id(occurrence), occurrence)), "start": occurrence.start, "end": occurrence.end}

            return super().go_through(number, None, [*begun, *late], values, watermark, turned)
        changes = self._former.go_through(number, base, early, row, min(watermark, self.since), turned)
        self.begin(self._former.live.values())
        if number < self._count:
            return [*changes, *self.follow(late, row, watermark)] if watermark >= self.since else changes
        if watermark >= self.since:
            changes += [resolved(change, self.since, withdrawn=True) for change in self.live.values()]
            self.begin([])
        return changes


def described(engine: Engine) -> tuple[dict[str, Schema], set[str], Mapping[str, str]]:
    """Return three properties of an engine: the schemas of its alert tables, the events that it reads but does not
    derive, and the fingerprints of its events' meanings."""
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    return schemas, engine.inputs.keys() - engine.outputs.keys(), engine.meanings()
