"""Detection of numeric times that are declared in too small a unit, so that all times seem to be in 1970."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from cep.connectors.formats.influx_points import timed
from cep.connectors.records.times import SHIFTS, likely_unit
from cep.core.schema import Schema

_YEAR = 365 * 86_400_000_000


@dataclass(slots=True)
class SmallUnits:
    """A detector of units that are too small. It stores the latest time of each event type whose times are numbers.

    `units`: the declared unit of each event type. `form`: a template for the clause that declares a unit, for remarks.
    """

    units: Mapping[str, str]
    form: str
    _latest: dict[str, int]

    @classmethod
    def of(cls, schemas: Mapping[str, Schema]) -> SmallUnits:
        """Create a detector for the event types whose declarations name a unit."""
        formats = {name: schema.format for name, schema in schemas.items() if schema.format is not None}
        return cls({name: form.unit for name, form in formats.items() if form.unit is not None}, "FORMAT epoch {}", {})

    @classmethod
    def of_points(cls, schemas: Mapping[str, Schema]) -> SmallUnits:
        """Create a detector of small time units for event types that are read from line protocol. Their unit is the
        nanosecond if the declaration names no other unit."""
        units = {}
        for name, schema in schemas.items():
            if schema.declared and schema.format is None and (format := timed(schema).format) is not None:
                units[name] = format.unit or "ns"
        return cls(units, 'FORMAT influx(precision: "{}")', {})

    def take(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Update the latest time of each event type in `tables`."""
        for name in self.units.keys() & tables.keys():
            latest = tables[name]["start"].max()
            assert isinstance(latest, int), "a table has rows"
            self._latest[name] = max(self._latest.get(name, latest), latest)

    def remarks(self) -> list[str]:
        """Return a remark for each event type whose times are all in 1970, but recent in a larger unit."""
        remarks_made = []
        for name, latest in sorted(self._latest.items()):
            unit = self.units[name]
            count = latest * 10 ** -SHIFTS[unit] if SHIFTS[unit] < 0 else latest // 10 ** SHIFTS[unit]
            meant = likely_unit(count)
            if 0 < latest < _YEAR and meant is not None and meant != unit:
                text = f"all times of `{name}` are in 1970: {count} is read with `{self.form.format(unit)}`"
                remarks_made.append(f"{text}; `{self.form.format(meant)}` gives a recent time")
        return remarks_made
