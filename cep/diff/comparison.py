"""Run two programs over the same records and compare their results: find the differences and explain them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from polars import DataFrame

from cep.app.durations import refuse
from cep.app.explained_run import ALWAYS, StoredRecords, is_corrected, knowing
from cep.connectors.records.batch import Batch
from cep.connectors.why.text import Explainer
from cep.core.suggest import did_you_mean
from cep.diff.alerts import RunAlerts, alert_schemas, compared_alert
from cep.diff.matching import KINDS, ComparedEvent, Difference, Kind, compared_event, names_of
from cep.diff.programs import Compared
from cep.diff.reasons import Reasons
from cep.diff.rows import DerivedRows, Row
from cep.engine import Engine
from cep.runtime.options import EngineOptions
from cep.runtime.run_stats import RunStats


@dataclass(frozen=True, slots=True)
class DerivedRun:
    """The results of one program: its rows by event, fluent and alert table, and the statistics of the run.

    - `until`: the latest end of a record, or of an occurrence that raises an alert.
    - `first_dead`: the place and the reason of the first dead letter, or None if there was none.
    """

    rows: Mapping[str, Counter[Row]]
    stats: RunStats
    until: int
    first_dead: str | None = None


class Comparison:
    """The runs of two programs over the same records, and the differences between their results.

    - `options`: the options of both engines.
    - `asked`: the names of the attributes to use as the key by which occurrences are matched.

    Raises CepError if a program cannot run, or if an attribute in `asked` does not belong to any event.
    """

    def __init__(
        self,
        old: Compared,
        new: Compared,
        records: StoredRecords,
        options: EngineOptions,
        knowledge: Sequence[str] = (),
        asked: Sequence[str] = (),
    ) -> None:
        self.old, self.new = old, new
        self.records, self.options, self._knowledge = records, options, knowledge
        engines = [Engine(compared.program, options) for compared in (old, new)]
        outputs = [engine.outputs for engine in engines]
        alerts = old.program.alerts, new.program.alerts
        self.events: dict[str, ComparedEvent] = {
            name: compared_event(name, outputs[0].get(name), outputs[1].get(name), *alerts, asked)
            for name in dict.fromkeys((*outputs[1], *outputs[0]))
        }
        before, after = (alert_schemas(engine, own_alerts) for engine, own_alerts in zip(engines, alerts))
        self.events |= {
            name: compared_alert(name, before.get(name), after.get(name), asked)
            for name in dict.fromkeys((*after, *before))
        }
        self.alert_names = before.keys() | after.keys()
        known = {
            name: None for own in (*outputs, before, after) for schema in own.values() for name in names_of(schema)
        }
        for name in asked:
            if name not in known:
                hint = (
                    did_you_mean(name, list(known))
                    or f"they have {', '.join(f'`{event_name}`' for event_name in known)}"
                )
                raise refuse(f"--key: no event that is derived has an attribute `{name}`", hint)
        self.runs = self._run(old), self._run(new)
        until = max(run.until for run in self.runs)
        self.alerts = [
            RunAlerts(engine, own_alerts, run.rows, until)
            for engine, own_alerts, run in zip(engines, alerts, self.runs)
        ]

    @cached_property
    def differences(self) -> list[Difference]:
        """All differences, sorted by event and then by time."""
        none: Counter[Row] = Counter()
        rows = [{**run.rows, **alerts.rows} for run, alerts in zip(self.runs, self.alerts)]
        return [
            difference
            for name, event in self.events.items()
            for difference in event.compare(rows[0].get(name, none), rows[1].get(name, none))
        ]

    @cached_property
    def counts(self) -> dict[str, Counter[Kind]]:
        """The number of differences of each kind, for each event. Events without differences are included."""
        counts: dict[str, Counter[Kind]] = {name: Counter() for name in self.events}
        for difference in self.differences:
            counts[difference.event][difference.kind] += 1
        return counts

    def first(self, number: int) -> list[Difference]:
        """Return the first differences of each kind for each event, sorted by event and kind.

        `number`: the greatest number of differences per event and kind.
        """
        differences: dict[tuple[str, Kind], list[Difference]] = {(n, kind): [] for n in self.events for kind in KINDS}
        for difference in self.differences:
            own = differences[difference.event, difference.kind]
            if len(own) < number:
                own.append(difference)
        return [difference for own in differences.values() for difference in own]

    def alert_reason(self, difference: Difference) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """Return the alerts of the old run and the alerts of the new run that correspond to a difference, as
        `RunAlerts.behind` returns them.

        For a program that does not declare the alert, the value is None.
        """
        event = self.events[difference.event]
        schema = event.old if difference.new is None else event.new
        assert schema is not None, "a row has the attributes of its program"
        sides = zip(self.alerts, (event.old, event.new), (difference.old, difference.new))
        reasons = [
            alerts.behind(event, schema, difference.row, False)
            if row is None or own is None
            else alerts.behind(event, own, row, True)
            for alerts, own, row in sides
        ]
        return reasons[0], reasons[1]

    @cached_property
    def reasons(self) -> Reasons:
        """Return an explainer of the differences. For this, both programs are run again, with engines that remember
        rows."""
        return Reasons(self._explainer(self.old), self._explainer(self.new))

    def _run(self, compared: Compared) -> DerivedRun:
        engine, derived = Engine(compared.program, self.options), DerivedRows()
        engine.refuse_boundless(None, None)

        def take(_: Batch | None, tables: Mapping[str, DataFrame]) -> None:
            derived.add(tables)

        stats, first_dead = self.records.run(engine, take)
        derived.hold(engine.held_now())
        tables = {table for alert in compared.program.alerts for table in alert.tables}
        rows = {name: rows for name, rows in derived.rows().items() if name in tables or name in engine.outputs}
        until = max([engine.latest, *(row[1] for name in tables for row in rows.get(name, ()))])
        return DerivedRun(rows, stats, until, first_dead)

    def _explainer(self, compared: Compared) -> Explainer:
        remembering = replace(self.options, remember=ALWAYS, corrected=True, revise=None)
        engine, first = Engine(compared.program, remembering), None
        if self.options.revise is not None or is_corrected(engine):
            first = Engine(compared.program, replace(self.options, explain=True))
        explainer = self.records.explained(engine, first)
        return knowing(explainer, compared.source.known, self._knowledge)
