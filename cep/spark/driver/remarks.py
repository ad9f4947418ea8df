"""What looks wrong with the input of a query, from the reports of what has read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cep.core.schema import Schema
from cep.runtime.report import Report
from connectors.never_there import remarks
from connectors.paths import source_of


class InputRemarks:
    """`schemas`: of the events that are read."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._sources = {name: {a.name: source_of(a) for a in schema.attributes} for name, schema in schemas.items()}
        self._lacking: dict[str, Mapping[str, str | None]] = {}
        self._records: Counter[str] = Counter()
        self._told: dict[str, None] = {}

    def take(self, reports: Sequence[Report]) -> None:
        """The reports of a micro-batch."""
        for one in reports:
            self._told |= dict.fromkeys(one.remarks)
            for name, number in one.read.items():
                here = one.lacking.get(name, {})
                known = self._lacking.get(name, here)
                self._lacking[name] = {each: where for each, where in known.items() if each in here}
                self._records[name] += number

    def all(self) -> list[str]:
        """What is told at the end."""
        return [*self._told, *remarks(self._lacking, self._records, self._sources)]
