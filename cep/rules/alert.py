"""Alerts on the occurrences of an event: templates with values of columns, a severity, a duration."""

from __future__ import annotations

from dataclasses import dataclass

LATITUDE, LONGITUDE, RADIUS, AREA = "the latitude", "the longitude", "the radius", "the area"
"""Columns of an alert's occurrences that say where: degrees, metres, a text in WKT."""

SEVERITIES = ("Extreme", "Severe", "Moderate", "Minor", "Unknown")
"""From the gravest on."""

SEVERITY, URGENCY, CERTAINTY, CATEGORY = "Unknown", "Unknown", "Observed", "Other"
"""Defaults of an alert, in the words of the Common Alerting Protocol."""

TAKEN = frozenset(("alertname", "severity", "urgency", "certainty", "status", "program"))
"""Labels that receivers get of every alert."""

EXPECTED = 24 * 3600 * 1_000_000
"""Microseconds that receivers take an alert on a fluent to last that says nothing else."""

Template = tuple[str | tuple[str], ...]
"""Pieces one after the other: a text as it stands, or (column,) for a value."""


@dataclass(frozen=True, slots=True)
class Inhibitor:
    """The alert that inhibits another while it fires, for the same key: `equal` has columns of its key with columns of
    the other's, `values` columns of its key with what they have to be."""

    alert: str
    equal: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """`table`: the name of its occurrences among what an engine gives, `alert storm`. Their columns are those of the
    event's arguments (`arguments`, in order), then those of other variables that it speaks of, then where it is.

    `keys`: the columns that tell alerts apart; `duration`: microseconds from the end of an occurrence on that it lasts.
    `ends`: of one on a fluent, whose occurrences are its beginnings, the table of its intervals that are complete, with
    the same arguments: the alert lasts on while one of them holds. `after`: how long that has to last before the alert
    fires; `keep`: how long it goes on after the last interval. `escalations`: graver severities, each with the time
    since it fired, in order. `runbook`: an address; `labels`: names with values, which depend on the key alone.
    `hidden`: it is told to nobody, and only inhibits others. `repeat`: after so long by the clock receivers are
    reminded, 0: they are not.
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
        """The tables that are made for it."""
        return (self.table,) if self.ends is None else (self.table, self.ends)
