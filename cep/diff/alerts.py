"""Convert the alerts of a run to occurrences that can be compared. An occurrence lasts as long as its alert, from
firing to resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from cep.connectors.alerts.inhibition import Inhibition
from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle
from cep.core.fluents import HOLDS, FluentTable
from cep.core.schema import Attribute, Schema
from cep.diff.matching import ComparedEvent, names_of
from cep.diff.rows import FIRST, Row
from cep.engine import Engine
from cep.rules.alert import Alert

SEVERITY = "severity"
_BOUNDS = "[]"
_JSON = ("int", "float", "bool", "string", "iri")
"""The types of attributes whose values an `AlertChange` contains as they are. All other values become strings."""


def alert_table(name: str) -> str:
    """Return the name under which differences of an alert are reported. No event can have such a name."""
    return f"alert {name}"


def alert_changes(
    engine: Engine, alerts: Sequence[Alert], rows: Mapping[str, Counter[Row]], until: int
) -> list[AlertChange]:
    """Compute the changes of a program's alerts up to the time `until`. Inhibited alerts are marked.

    - `engine`: an engine of the program.
    - `rows`: all rows that the program derived, by event and by table of its alerts.
    """
    schemas = {table: engine.plan.schemas[table] for alert in alerts for table in alert.tables}
    lifecycle = AlertLifecycle(alerts, schemas, engine.inputs.keys() - engine.outputs.keys(), engine.meanings())
    tables = {name: _frame(schema, rows[name]) for name, schema in schemas.items() if rows.get(name)}
    changes, inhibition = lifecycle.take(tables, until), Inhibition(alerts)
    return inhibition.follow(changes) if inhibition else changes


def _frame(schema: Schema, rows: Counter[Row]) -> pl.DataFrame:
    names = ["start", "end", *names_of(schema)]
    columns = list(zip(*rows.elements()))
    return pl.DataFrame({name: list(column) for name, column in zip(names, columns)}, strict=False)


@dataclass(frozen=True, slots=True)
class AlertLife:
    """All changes of one alert, in order.

    `row`: the alert as a row, or None if receivers were not notified of the alert.
    """

    changes: tuple[AlertChange, ...]
    row: Row | None

    @property
    def values(self) -> Row:
        """The start and the end of the alert, the values of its key, and its severity, as a row."""
        first, last = self.changes[0], self.changes[-1]
        return first.time, last.time if last.state == "resolved" else None, *last.key.values(), last.severity, _BOUNDS

    def overlaps(self, row: Row) -> bool:
        """Return True if the alert is open at any time between the start and the end of `row`."""
        start, end = self.values[:FIRST]
        return (row[1] is None or start <= row[1]) and (end is None or row[0] <= end)

    def told(self, time: Callable[[int], Any]) -> list[dict[str, Any]]:
        """Return the changes of the alert as JSON. Successive updates are merged into one.

        `time`: a function that formats a time.
        """
        documents = []
        for _, group in groupby(self.changes, key=_told_apart):
            same = list(group)
            last = same[-1]
            change = {"state": last.state, "time": time(last.time), "severity": last.severity}
            change |= {"values": dict(last.values)} if last.state in ("pending", "firing", "updated") else {}
            change |= {"inhibited": True} if last.inhibited and last.state != "resolved" else {}
            change |= {"number": len(same)} if len(same) > 1 else {}
            change |= {"fired": False} if last.state == "resolved" and last.fired is None else {}
            documents.append(change)
        return documents


def _told_apart(change: AlertChange) -> tuple[int, bool]:
    return -1 if change.state == "updated" else change.revision, change.inhibited


class RunAlerts:
    """The alerts of one run, up to the time `until`."""

    def __init__(self, engine: Engine, alerts: Sequence[Alert], rows: Mapping[str, Counter[Row]], until: int) -> None:
        self.schemas = alert_schemas(engine, alerts)
        by_alert: dict[str, list[AlertChange]] = {}
        for change in alert_changes(engine, alerts, rows, until) if alerts else ():
            if not change.hidden:
                by_alert.setdefault(change.alert, []).append(change)
        self.lives: dict[str, list[AlertLife]] = {name: [] for name in self.schemas}
        for changes in by_alert.values():
            self.lives[alert_table(changes[0].name)].append(AlertLife(tuple(changes), _row(changes)))

    def behind(self, event: ComparedEvent, schema: Schema, row: Row, own: bool) -> dict[str, Any] | None:
        """Return the alerts of this run that correspond to `row`, an alert of one of the two runs. Returns None if the
        program of this run does not declare the alert.

        - `event`: the alert's declarations in both programs.
        - `schema`: the schema of `row`.
        - `own`: True if `row` is from this run. Otherwise, an alert corresponds to it if both have the same key and
          overlap.
        """
        mine = self.schemas.get(event.name)
        if mine is None:
            return None
        lives = self.lives[event.name]
        if own:
            return {"exists": True, "alerts": [next(life for life in lives if life.row == row)]}
        key, other = _key(event, mine), _key(event, schema)
        meant = [row[place] for place in other]
        near = [life for life in lives if [life.values[place] for place in key] == meant and life.overlaps(row)]
        return {"exists": any(life.row is not None for life in near), "alerts": near}

    @property
    def rows(self) -> dict[str, Counter[Row]]:
        """The alerts that receivers were notified of, as rows. Keys are the names that `alert_table` returns."""
        return {name: Counter(life.row for life in lives if life.row is not None) for name, lives in self.lives.items()}


def alert_schemas(engine: Engine, alerts: Sequence[Alert]) -> dict[str, Schema]:
    """Return the schemas of the alerts that receivers are notified of. Keys are the results of `alert_table`."""
    return {alert_table(alert.name): _schema(engine, alert) for alert in alerts if not alert.hidden}


def _schema(engine: Engine, alert: Alert) -> Schema:
    names = key_names(engine, alert)
    types = {attribute.name: attribute.type for attribute in engine.plan.schemas[alert.table].attributes}
    own = [Attribute(name, types[key] if types[key] in _JSON else "string") for name, key in zip(names, alert.keys)]
    table = alert_table(alert.name)
    severity = Attribute(SEVERITY if SEVERITY not in names else f"{SEVERITY}'", "string")
    return Schema(table, (*own, severity), True, False, fluent=FluentTable(HOLDS, table, False))


def key_names(engine: Engine, alert: Alert) -> list[str]:
    """Return the names of the parts of an alert's key. A part is named after the attribute of the alert's event, or
    after its variable if no attribute has this value. If two names were equal, all parts are named after variables."""
    schema = engine.plan.schemas.get(alert.event)
    names = {} if schema is None else dict(zip(alert.arguments, names_of(schema)))
    key_columns = [names.get(key, key) for key in alert.keys]
    return key_columns if len({*key_columns}) == len(key_columns) else list(alert.keys)


def _row(changes: Sequence[AlertChange]) -> Row | None:
    """Return an alert as a row. Returns None if no receiver was notified of the alert.

    The row begins with the first change that receivers were notified of, and ends with the alert. Its severity is the
    last severity of the alert.
    """
    told = [
        change for change in changes if change.fired is not None and not change.inhibited and change.state != "resolved"
    ]
    return (told[0].time, *AlertLife(tuple(changes), None).values[1:]) if told else None


def _key(event: ComparedEvent, schema: Schema) -> list[int]:
    return [FIRST + names_of(schema).index(name) for name in event.key]


def life_lines(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the changes of an alert, which `AlertLife.told` returned, as lines of text."""
    for change in changes:
        values = ", ".join(f"{name}: {value}" for name, value in change.get("values", {}).items())
        more = [
            *([f"{change['number']} times"] if "number" in change else ()),
            *([change["severity"]] if change["state"] == "escalated" else ()),
            *(["inhibited"] if "inhibited" in change and change["state"] != "inhibited" else ()),
            *(["before it fired"] if "fired" in change else ()),
            *([values] if values else ()),
        ]
        yield f"{change['state']:9} {change['time']}{'  ' if more else ''}{'; '.join(more)}"


def compared_alert(name: str, old: Schema | None, new: Schema | None, asked: Sequence[str] = ()) -> ComparedEvent:
    """Prepare an alert that both programs declare for comparison, and choose the key by which its rows are matched.

    - `old`, `new`: the alert's schema in each program, or None if the program does not declare it.
    - `asked`: the names of the attributes to use as the key. By default, the key is the alert's own key.
    """
    sides = [schema for schema in (new, old) if schema is not None]
    known = [column for column in names_of(sides[0])[:-1] if all(column in names_of(schema)[:-1] for schema in sides)]
    return ComparedEvent(name, old, new, tuple(column for column in known if column in asked) or tuple(known))
