"""Descriptions of late and withdrawn records, for messages about revised results.

Such records are only searched for when a description is requested, because most batches revise nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from cep.core.literals import say_duration, write_time
from cep.core.schema import ARRIVAL, CHANGE, Schema

UNKNOWN = "a record came late, was corrected or withdrawn"
"""The description that is used if it is unknown which record caused a revision."""


@dataclass(frozen=True, slots=True)
class LateInput:
    """The number of late or withdrawn records, and a description of the first one: a sentence without full stop."""

    count: int = 0
    first: str = UNKNOWN

    @property
    def told(self) -> str:
        """Describe the cause of a revision: the first late or withdrawn record. If there are several, the text says
        that any of them may be the cause."""
        if self.count < 2:
            return self.first
        return f"one of {self.count:,} records that came late or were withdrawn, the first of them: {self.first}"


Told = Callable[[], str]
"""A function that describes the cause of a revision. The description is a sentence without its full stop."""


def unknown() -> str:
    """Return the description of a revision whose cause is unknown."""
    return UNKNOWN


def told_of(tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema], latest: int, stable: int) -> Told:
    """Return a function that describes the late or withdrawn records in the tables. The tables are searched when the
    function is called for the first time.

    `latest`, `stable`: see the parameters of `late_input`.
    """
    return cache(lambda: late_input(tables, schemas, latest, stable).told)


def late_input(
    tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema], latest: int, stable: int
) -> LateInput:
    """Find the late and withdrawn records in a batch.

    `latest`: the latest event time of earlier batches, in microseconds. `stable`: results up to this time are final.
    """
    late_rows = []
    for name, table in sorted(tables.items()):
        if not table.height:
            continue
        signs = pl.col(CHANGE) if CHANGE in table.columns else pl.lit(1)
        rows = table.sort(ARRIVAL).with_columns(
            pl.col("end").shift(1, fill_value=latest).cum_max().clip(latest).alias("@latest"), signs.alias("@sign")
        )
        late = rows.filter(((pl.col("@sign") < 0) | (pl.col("end") < pl.col("@latest"))) & (pl.col("end") > stable))
        if late.height:
            first = late.row(0, named=True)
            late_rows.append((first[ARRIVAL], late.height, _told(schemas[name], first)))
    if not late_rows:
        return LateInput()
    return LateInput(sum(number for _, number, _ in late_rows), min(late_rows)[2])


def _told(schema: Schema, row: Mapping[str, Any]) -> str:
    attributes = [attribute for attribute in schema.attributes if row.get(attribute.name) is not None]
    values = ", ".join(_value(row[attribute.name], attribute.type) for attribute in attributes)
    text = f"{schema.name}({values}) at {write_time(row['end'])}"
    if row["@sign"] < 0:
        return f"{text} was withdrawn"
    return f"{text} came {say_duration(row['@latest'] - row['end'])} late, at {write_time(row['@latest'])}"


def _value(value: Any, type: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if type == "time":
        return write_time(value)
    return say_duration(value) if type == "duration" else str(value)
