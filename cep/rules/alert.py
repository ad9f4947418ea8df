"""Alerts: their text templates, severity, duration and other properties."""

from __future__ import annotations

from dataclasses import dataclass

LATITUDE, LONGITUDE, RADIUS, AREA = "the latitude", "the longitude", "the radius", "the area"
"""Columns for the position of an alert: latitude and longitude in degrees, radius in metres, and area as a text in
WKT."""

SEVERITIES = ("Extreme", "Severe", "Moderate", "Minor", "Unknown")
"""The severities of alerts, the gravest first."""

SEVERITY, URGENCY, CERTAINTY, CATEGORY = "Unknown", "Unknown", "Observed", "Other"
"""The default values of an alert, in the words of the Common Alerting Protocol."""

TAKEN = frozenset(("alertname", "severity", "urgency", "certainty", "status", "program"))
"""The labels that every alert has. The labels of an author cannot have these names."""

EXPECTED = 24 * 3600 * 1_000_000
"""The duration in microseconds that is reported for an alert on a fluent, if its author gives none."""

Template = tuple[str | tuple[str], ...]
"""The pieces of a text. A string is literal text, and the tuple `(column,)` stands for the value of that column."""


@dataclass(frozen=True, slots=True)
class Inhibitor:
    """An alert that suppresses another alert while it is firing itself.

    - `alert`: the name of the inhibiting alert.
    - `equal`: pairs of a key column of this alert and a key column of the other alert. The two must be equal.
    - `values`: key columns of this alert, with the values that they must have.
    """

    alert: str
    equal: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. All times and durations are in microseconds.

    - `table`: the table in the engine's output that contains the alert's occurrences, such as `alert storm`. Its
      columns are `arguments`, then other variables that the alert uses, then its position.
    - `arguments`: the columns of the event's arguments, in order.
    - `keys`: the columns that identify an alert.
    - `duration`: how long the alert lasts after the end of an occurrence.
    - `ends`: for an alert on a fluent, the table of the fluent's complete intervals. The alert lasts while one of
      these intervals holds.
    - `after`: how long an interval must last before the alert fires.
    - `keep`: how long the alert lasts after the last interval.
    - `escalations`: higher severities in order, each with the time since the alert fired.
    - `runbook`: the address of instructions.
    - `labels`: the names of labels, with values that depend only on the key.
    - `hidden`: True if the alert only inhibits other alerts, so that nobody is notified.
    - `repeat`: the time on the wall clock after which receivers are reminded, or 0.
    """

    name: str
    event: str
    table: str
    arguments: tuple[str, ...]
    keys: tuple[str, ...]
    title: Template
    text: Template
    instruction: Template
    severity: str
    urgency: str
    certainty: str
    category: str
    duration: int
    ends: str | None = None
    after: int = 0
    keep: int = 0
    escalations: tuple[tuple[str, int], ...] = ()
    runbook: Template = ()
    labels: tuple[tuple[str, Template], ...] = ()
    inhibitor: Inhibitor | None = None
    hidden: bool = False
    repeat: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of the alert in the engine's output: `table`, and `ends` if the alert has it."""
        return (self.table,) if self.ends is None else (self.table, self.ends)
