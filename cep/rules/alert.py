"""Alerts: their text templates, severity, duration and other properties."""

from __future__ import annotations

from dataclasses import dataclass

LATITUDE, LONGITUDE, RADIUS, AREA = "the latitude", "the longitude", "the radius", "the area"
"""Columns for the position of an alert: latitude and longitude in degrees, radius in metres, and area as a text in
WKT."""

SEVERITIES = ("Extreme", "Severe", "Moderate", "Minor", "Unknown")
"""The severities of alerts, from the most to the least severe."""

SEVERITY, URGENCY, CERTAINTY, CATEGORY = "Unknown", "Unknown", "Observed", "Other"
"""The default values of an alert's severity, urgency, certainty and category, as the Common Alerting Protocol names
them."""

TAKEN = frozenset(("alertname", "severity", "urgency", "certainty", "status", "program"))
"""The labels that every alert has. Labels that an author adds cannot have these names."""

EXPECTED = 24 * 3600 * 1_000_000
"""The duration in microseconds that is reported for an alert on a fluent if its author specifies no duration."""

Template = tuple[str | tuple[str], ...]
"""A text, split into pieces. A string is literal text, and the tuple `(column,)` means the value of that column."""


@dataclass(frozen=True, slots=True)
class Inhibitor:
    """An alert that, while it fires, suppresses another alert.

    - `alert`: the name of the alert that suppresses the other one.
    - `equal`: pairs of columns that must be equal: a key column of `alert`, and a key column of the suppressed alert.
    - `values`: key columns of `alert`, with the values that they must have.
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
    - `ends`: for an alert on a fluent, the table of the fluent's complete intervals. The alert lasts as long as
      such an interval.
    - `after`: how long an interval must last before the alert fires.
    - `keep`: how long the alert lasts after the last interval.
    - `escalations`: higher severities in ascending order, each with the time since the alert fired.
    - `runbook`: the address of instructions.
    - `labels`: the names of labels, each with a value that depends only on the key.
    - `hidden`: True if the alert only inhibits other alerts, so that nobody is notified.
    - `repeat`: the time on the wall clock after which receivers are reminded, or 0 for no reminders.
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
        """The tables of the alert in the engine's output: `table`, and also `ends` if it is not None."""
        return (self.table,) if self.ends is None else (self.table, self.ends)
