"""The newest input records, which the page's charts show. The charts show how the numbers about a subject change over
time, and the subject's latest records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cep.connectors.alerts.text import json_value
from cep.connectors.serving.gazette import SubjectColumns, texts
from cep.core.schema import Schema

RECORDS = 300_000
"""The number of newest input records that are kept. The newest table of each event type is kept even if there are then
more records than this."""
POINTS = 2_000
"""The maximum number of points in a series.

The time of a longer series is divided into equal parts. For each part, only the lowest and the highest value are kept.
"""

_SMALL = 8_192  # smaller tables are joined with others
_NUMBERS = ("int", "float", "any")


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a numeric attribute over time.

    `times`: for each value, the end of its record in microseconds. `held`: the time from which all records are kept, or
    None if there are no records.
    """

    times: Sequence[int]
    values: Sequence[float]
    held: int | None


class Readings:
    """The newest input records of each event type. The methods may be called from any thread."""

    def __init__(self, schemas: Mapping[str, Schema], subjects: Mapping[str, SubjectColumns]) -> None:
        self._schemas, self._subjects = schemas, subjects
        self._tables: dict[str, list[pl.DataFrame]] = {}
        self._held = 0
        self._lock = threading.Lock()

    def take(self, inputs: Mapping[str, pl.DataFrame]) -> None:
        """Add the input records of one step of the service."""
        with self._lock:
            for name, table in inputs.items():
                if table.height and self._subjects[name].subject is not None:
                    self._add(name, table.tail(RECORDS))
            while self._held > RECORDS and (longest := self._oldest()) is not None:
                self._held -= self._tables[longest].pop(0).height

    def _add(self, name: str, table: pl.DataFrame) -> None:
        tables = self._tables.setdefault(name, [])
        self._held += table.height
        tables.append(table)
        while len(tables) > 1 and tables[-2].height <= 2 * tables[-1].height and tables[-2].height < _SMALL:
            tables[-2:] = [pl.concat(tables[-2:], how="vertical_relaxed", rechunk=True)]

    def _oldest(self) -> str | None:
        name = max(self._tables, key=lambda event: len(self._tables[event]))
        return name if len(self._tables[name]) > 1 else None

    def numeric(self, event: str, attribute: str) -> bool:
        """Return True if the input event has a subject and a numeric attribute of this name."""
        schema = self._schemas.get(event)
        if schema is None or self._subjects[event].subject is None:
            return False
        return any(known.name == attribute and known.type in _NUMBERS for known in schema.attributes)

    def series(self, event: str, attribute: str, key: str, since: int, until: int) -> Series:
        """Return the values of an attribute in records about the subject `key`, from `since` to `until`.

        The last value before `since` and the first value after `until` are included.
        """
        with self._lock:
            tables = list(self._tables.get(event, ()))
        subject = self._subjects[event].subject or ""
        mine = [_numbers(table.filter(texts(table[subject]) == key), attribute) for table in tables]
        held = min((int(table["end"].to_numpy().min()) for table in tables), default=None)
        if not mine:
            return Series((), (), None)
        whole = pl.concat(mine).sort("end", maintain_order=True)
        first = max(0, int(whole["end"].search_sorted(since)) - 1)
        last = int(whole["end"].search_sorted(until, "right")) + 1
        few = _thinned(whole[first:last])
        return Series(few["end"].to_list(), few["value"].to_list(), held)

    def latest(self, key: str) -> list[dict[str, Any]]:
        """Return the latest record of each input event about the subject `key`."""
        with self._lock:
            tables = {name: list(frames) for name, frames in self._tables.items()}
        records = []
        for name in sorted(tables):
            subject = self._subjects[name].subject or ""
            for table in reversed(tables[name]):
                mine = table.filter(texts(table[subject]) == key).sort("end", maintain_order=True).tail(1)
                for row in mine.iter_rows(named=True):
                    attributes = self._schemas[name].attributes
                    values = {
                        attribute.name: json_value(row[attribute.name], attribute.type) for attribute in attributes
                    }
                    records.append({"type": name, "start": row["start"], "end": row["end"], "values": values})
                if mine.height:
                    break
        return records


def _numbers(table: pl.DataFrame, attribute: str) -> pl.DataFrame:
    column = table[attribute]
    if not column.dtype.is_numeric():
        known = [value if isinstance(value, (int, float)) else None for value in column.to_list()]
        column = pl.Series(known, dtype=pl.Float64, strict=False)
    column = column.cast(pl.Float64)
    return pl.DataFrame({"end": table["end"], "value": column}).filter(pl.col("value").is_finite())


def _thinned(table: pl.DataFrame) -> pl.DataFrame:
    """Divide the time of a series into many equal parts. Keep only the lowest and the highest value of each part."""
    if table.height <= POINTS:
        return table
    low, high = table["end"][0], table["end"][-1]
    part = (pl.col("end") - low) * (POINTS // 2) // max(1, high - low + 1)
    row = pl.int_range(pl.len())
    lowest, highest = pl.col("row").get(pl.col("value").arg_min()), pl.col("row").get(pl.col("value").arg_max())
    rows = table.with_columns(row.alias("row")).group_by(part.alias("part")).agg(lowest.alias("a"), highest.alias("b"))
    return table[sorted({*rows["a"].to_list(), *rows["b"].to_list()})]
