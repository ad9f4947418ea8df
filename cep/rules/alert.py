"""Alerts: their text templates, severity, duration and other properties."""

from __future__ import annotations

from dataclasses import dataclass

LATITUDE, LONGITUDE, RADIUS, AREA = "the latitude", "the longitude", "the radius", "the area"
"""Columns for the position of an alert: two in degrees, the radius in metres, and the area as a text in WKT."""

SEVERITIES = ("Extreme", "Severe", "Moderate", "Minor", "Unknown")
"""Severities, the gravest first."""

SEVERITY, URGENCY, CERTAINTY, CATEGORY = "Unknown", "Unknown", "Observed", "Other"
"""Defaults of an alert, in the words of the Common Alerting Protocol."""

TAKEN = frozenset(("alertname", "severity", "urgency", "certainty", "status", "program"))
"""Labels that every alert has. An author cannot use these names."""

EXPECTED = 24 * 3600 * 1_000_000
"""The duration that is reported for an alert on a fluent without a duration, in microseconds."""

Template = tuple[str | tuple[str], ...]
"""The pieces of a text: a string is literal, and (column,) stands for a value."""


@dataclass(frozen=True, slots=True)
class Inhibitor:
    """An alert that suppresses another alert while it is firing itself.

    `equal`: pairs of a key column of the inhibitor and a key column of the other alert, which must be equal. `values`:
    key columns of the inhibitor, with the values that they must have.
    """

    alert: str
    equal: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert.

    `table`: the table of its occurrences in the engine's output, `alert storm`. Its columns are the event's arguments
    (`arguments`, in order), then other variables that the alert uses, then its position.

    `keys`: the columns that identify an alert. `duration`: how long the alert lasts after the end of an occurrence.
    `ends`: for an alert on a fluent, the table of the fluent's complete intervals; the alert lasts while one of them
    holds. `after`: how long an interval must last before the alert fires. `keep`: how long the alert lasts after the
    last interval.

    `escalations`: higher severities in order, each with the time since the alert fired. `runbook`: the address of
    instructions. `labels`: names with values that depend only on the key. `hidden`: nobody is notified; the alert only
    inhibits others. `repeat`: the time on the wall clock after which receivers are reminded, or 0. All times are in
    microseconds.
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
        """The tables that contain its occurrences and ends."""
        return (self.table,) if self.ends is None else (self.table, self.ends)
