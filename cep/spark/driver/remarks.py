"""Warnings about the input of a query, derived from the reports of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cep.connectors.clock_skew import TimeJumps
from cep.connectors.records.paths import source_of
from cep.connectors.records.unused_attributes import remarks
from cep.core.schema import Schema
from cep.runtime.report import READING, Report

_EARLY = (
    "all events ended before 1970, where the watermark of Spark begins: leave out --once and --follow, or wait for a "
    "later event"
)


class InputRemarks:
    """A collector of warnings about the input.

    - `schemas`: the schemas of the input events.
    - `open_ended`: True if the end of the input is not known. In this case, only the watermark shows which records have
      arrived.
    - `by_key`: True if each key has its own clock (`--lateness-by`), so that no record is late because of records of
      other keys.
    """

    def __init__(self, schemas: Mapping[str, Schema], open_ended: bool = False, by_key: bool = False) -> None:
        self._open_ended = open_ended
        self._by_key = by_key
        self._latest: int | None = None
        self._reached: int | None = None
        self._place: str | None = None
        self._sources = {name: {a.name: source_of(a) for a in schema.attributes} for name, schema in schemas.items()}
        self._lacking: dict[str, Mapping[str, str | None]] = {}
        self._records: Counter[str] = Counter()
        self._told: dict[str, None] = {}
        self._jumps = TimeJumps()

    def take(self, reports: Sequence[Report]) -> list[str]:
        """Record the reports of a micro-batch. Return the warnings that the user must see before the query ends."""
        for report in reports:
            self._told |= dict.fromkeys(report.remarks)
            reached = report.watermark  # an earlier run may have moved it
            if report.stage == READING:
                reached = None if self._by_key else report.latest
            if reached is not None and (self._reached is None or reached > self._reached):
                self._reached, self._place = reached, report.place
            if report.stage == READING and report.latest is not None:
                self._latest = report.latest if self._latest is None else max(self._latest, report.latest)
            for name, number in report.read.items():
                here = report.lacking.get(name, {})
                known = self._lacking.get(name, here)
                self._lacking[name] = {attribute: where for attribute, where in known.items() if attribute in here}
                self._records[name] += number
        late = sum(sum(report.late.values()) for report in reports)
        return list(self._jumps.take(self._reached, late, lambda: self._place))

    def all(self) -> list[str]:
        """Return the warnings that are reported when the query has ended."""
        early = self._open_ended and self._latest is not None and self._latest < 0
        return [*([_EARLY] if early else []), *self._told, *remarks(self._lacking, self._records, self._sources)]
